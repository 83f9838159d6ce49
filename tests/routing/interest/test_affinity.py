"""A subscriber moves to the broker it mostly hears from (paper 2, 2.4), at exactly the stated bounds."""

import pytest
from rayvous.routing.interest.affinity import EVENTS_MIN, SHARE_MIN, Affinity

HERE, THERE, FAR = 1, 2, 3


def review(**heard):
    affinity = Affinity()
    for client, counts in heard.items():
        for entry, count in counts.items():
            affinity.note(client, entry, count)
    return affinity.review(HERE)


@pytest.mark.parametrize(
    ("counts", "moves"),
    [
        ({THERE: EVENTS_MIN}, True),
        ({THERE: EVENTS_MIN - 1}, False),
        ({THERE: 80, HERE: 20}, True),
        ({THERE: 79, HERE: 21}, False),
        ({THERE: 80, FAR: 10, HERE: 10}, True),
        ({HERE: 80, THERE: 20}, False),
    ],
)
def test_a_subscriber_moves_that_hears_enough_and_mostly_one_other_broker(counts, moves):
    assert SHARE_MIN == 0.8
    assert review(s=counts) == (("s", THERE) if moves else None)


def test_one_moves_at_a_review_who_heard_most_and_then_all_begin_anew():
    affinity = Affinity()
    for client, count in (("a", 30), ("b", 50), ("c", 40)):
        affinity.note(client, THERE, count - 1)
        affinity.note(client, THERE, 1)
    affinity.note("gone", FAR, 99)
    affinity.forget("gone")
    affinity.forget("nobody")
    assert affinity.review(HERE) == ("b", THERE)
    assert affinity.review(HERE) is None
