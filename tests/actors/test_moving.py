"""What clients keep to go on at another broker: marks that let nothing through twice, and publications to repeat."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.actors.moving import Marks, Published
from rayvous.protocol.batch import EventBatch, batch_of, concat


def batch(publisher: str, first: int, count: int, at: float = 0.0) -> EventBatch:
    events = [{"x": first + i} for i in range(count)]
    return batch_of(events, publisher=publisher, first_sequence=first, published_at=at)


def admitted(marks: Marks, given_batch: EventBatch) -> list[tuple[str, int]]:
    return [given_batch.identity(row) for row in marks.admit(given_batch, np.arange(len(given_batch)))]


def test_what_came_before_does_not_come_again() -> None:
    marks = Marks()
    assert admitted(marks, batch("p", 1, 3)) == [("p", 1), ("p", 2), ("p", 3)]
    assert admitted(marks, batch("q", 2, 1)) == [("q", 2)]
    assert marks.move() == {"p": 3, "q": 2}
    marks.since = 0.0
    assert admitted(marks, batch("p", 2, 4)) == [("p", 4), ("p", 5)]
    assert admitted(marks, batch("q", 1, 2)) == []


def test_after_a_move_what_is_older_than_the_first_subscription_is_not_for_it() -> None:
    marks = Marks()
    marks.since = 10.0
    assert admitted(marks, batch("p", 1, 1, at=9.0)) == [("p", 1)], (
        "its broker has judged that before the move"
    )
    marks.move()
    assert admitted(marks, batch("q", 1, 1, at=9.0)) == []
    assert admitted(marks, batch("q", 2, 1, at=10.0)) == [("q", 2)]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("pq"), st.integers(1, 12), st.integers(1, 5)), min_size=1, max_size=6)
)
def test_marks_against_a_set_of_numbers(runs: list[tuple[str, int, int]]) -> None:
    """Also when one batch has an event twice."""
    marks, highest, expected = Marks(), {"p": 0, "q": 0}, []
    whole = concat([batch(*run) for run in runs])
    for publisher, first, count in runs:
        for number in range(first, first + count):
            if number > highest[publisher]:
                highest[publisher] = number
                expected.append((publisher, number))
    assert admitted(marks, whole) == expected


def test_what_is_kept_is_bounded_by_count_and_age() -> None:
    kept = Published(events_max=5, seconds=10.0)
    kept.keep(0.0, batch("p", 1, 3))
    kept.keep(1.0, batch("p", 4, 2))
    assert [int(one.sequence[0]) for one in kept.kept(1.0)] == [1, 4]
    kept.keep(2.0, batch("p", 6, 1))
    assert [int(one.sequence[0]) for one in kept.kept(2.0)] == [4, 6]
    assert [int(one.sequence[0]) for one in kept.kept(11.5)] == [6]
    kept.keep(12.0, batch("p", 7, 9))
    assert [int(one.sequence[0]) for one in kept.kept(12.0)] == [7], "the last batch is kept, however large"
