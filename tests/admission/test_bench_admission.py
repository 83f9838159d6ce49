"""The benchmark of admission control runs, and its figures are consistent."""

from rayvous.benchmarks import admission


def test_it_has_a_row_for_each_size_and_both_estimators() -> None:
    result = admission.run(advertisements=(20, 60), subscriptions=10)
    assert [row["advertisements"] for row in result["results"]] == [20, 60]
    assert all(row["subscriptions_per_second"] > 0 for row in result["results"])
    paper, tight = result["estimators"]
    assert tight["mean_interval_events_per_second"] <= paper["mean_interval_events_per_second"]
    assert tight["refused"] <= paper["refused"]
