"""Latencies of a game day: nothing is lost when rows are joined, and their number and memory are bounded."""

from hypothesis import given
from hypothesis import strategies as st
from rayvous.faults.game_day.latencies import FIRST_WIDTH_SECONDS, ROWS_MAX, Latencies

FEW = 8
TIMES = st.lists(
    st.tuples(st.floats(0.0, 40.0), st.lists(st.floats(0.0, 20.0), max_size=3)), min_size=1, max_size=40
)


@given(TIMES)
def test_rows_are_few_and_have_all_that_was_published_in_their_time(
    given_times: list[tuple[float, list[float]]],
) -> None:
    latencies, now = Latencies(FEW), 0.0
    found = list[tuple[float, list[float]]]()
    for number, (gap, took) in enumerate(given_times):
        now += gap
        latencies.published(now, ("p", number))
        for seconds in took:
            latencies.notified(now + seconds, ("p", number))
        found.append((now, took))
    rows = latencies.rows()
    assert len(rows) <= FEW and len({row.seconds for row in rows}) == 1
    for row in rows:
        mine = [(at, took) for at, took in found if row.at_seconds <= at < row.at_seconds + row.seconds]
        every = [seconds for _, took in mine for seconds in took]
        assert (row.published, row.notified) == (len(mine), len(every))
        assert abs(row.fastest_seconds - min(every, default=0.0)) < 1e-5
        assert abs(row.slowest_seconds - max(every, default=0.0)) < 1e-5
    assert sum(row.published for row in rows) == len(found)


def test_only_the_last_events_are_remembered_and_what_came_before_the_call_took_no_time() -> None:
    latencies = Latencies(events_max=2)
    for number in (1, 2, 3):
        latencies.published(0.1, ("p", number))
    latencies.notified(0.4, ("p", 1))
    latencies.notified(0.4, ("q", 3))
    latencies.notified(0.05, ("p", 3))
    (row,) = latencies.rows()
    assert row.to_dict() == {
        "at_seconds": 0.0,
        "seconds": FIRST_WIDTH_SECONDS,
        "published": 3,
        "notified": 1,
        "fastest_seconds": 0.0,
        "slowest_seconds": 0.0,
    }


def test_two_minutes_have_a_row_for_each_half_second() -> None:
    """Reference: docs/chaos.md, "How it ends"."""
    latencies = Latencies()
    for number in range(500):
        latencies.published(0.24 * number, ("p", number))
    assert [row.seconds for row in latencies.rows()] == [0.5] * ROWS_MAX == [0.5] * 240
    latencies.published(120.0, ("p", 500))
    assert {row.seconds for row in latencies.rows()} == {1.0}
