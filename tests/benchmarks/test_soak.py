"""What a soak counts: the events owed to each subscription, and growth of memory; without Ray."""

import pytest
from rayvous.benchmarks.soak import Owed, growth


def owed() -> Owed:
    mine = Owed(10, 20, {"q": 6})
    mine.published("p", 1, [5, 10, 15, 20, 25])
    mine.published("q", 7, [30, 12])
    return mine


def test_what_is_owed_is_what_matches_in_the_order_of_each_publisher() -> None:
    mine = owed()
    assert mine.settle([("p", 2), ("q", 8), ("p", 3), ("p", 4)]) == (4, 0, 0)
    assert mine.settle([]) == (0, 0, 0), "once"


@pytest.mark.parametrize(
    "came",
    [
        [("p", 2), ("p", 3), ("q", 8)],
        [("p", 2), ("p", 3), ("p", 4), ("p", 4), ("q", 8)],
        [("p", 3), ("p", 2), ("p", 4), ("q", 8)],
        [("p", 2), ("p", 3), ("p", 4), ("p", 5), ("q", 8)],
    ],
    ids=["missing", "twice", "out of order", "not owed"],
)
def test_whatever_else_comes_is_wrong(came: list[tuple[str, int]]) -> None:
    count, wrong, early = owed().settle(came)
    assert count == 4 and wrong >= 1 and not early


def sample(minute: float, **kilobytes: float) -> dict[str, object]:
    return {"seconds": 60 * minute, "own_bytes": {name: 1024 * size for name, size in kilobytes.items()}}


def test_growth_is_that_of_the_processes_that_lived_on_after_they_had_started() -> None:
    start = [sample(minute, old=100 * minute) for minute in range(2)]
    late = [sample(minute, old=500 + 2 * minute, new=10**6 * minute) for minute in range(2, 5)]
    assert growth([*start, *late, sample(5, old=510)]) == pytest.approx(2.0)
    assert growth([]) is None and growth([*start, *late[:2]]) is None, "nobody lived for so long"


def test_what_was_published_before_it_subscribed_is_counted_by_itself() -> None:
    came = [("q", 5), ("p", 2), ("p", 3), ("p", 4), ("q", 6), ("q", 8)]
    assert owed().settle(came) == (4, 0, 2)
