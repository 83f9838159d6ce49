"""The brokers to which clients are attached: the rules of `Places`, on the machine alone."""

import pytest
from rayvous.faults.membership.places import Places
from rayvous.protocol.errors import BrokerUnavailable


def test_who_leaves_a_broker_goes_to_the_highest_fellow_then_to_the_fewest_clients() -> None:
    places = Places(range(5))
    places.attach("subscriber", ["a", "b"], 2)
    places.attach("publisher", ["p"], 3)
    assert places.relocate("subscriber", "a", (0, 1, 2), away=[2]) == 1
    assert places.relocate("subscriber", "b", (0, 1, 2), away=[0, 1, 2]) == 4, "at 3 there is a publisher"
    assert [places.clients_at([broker]) for broker in range(5)] == [0, 1, 0, 1, 1]


def test_nobody_is_sent_where_somebody_is_gone_until_that_one_is_found_again() -> None:
    places = Places(range(2))
    places.attach("subscriber", ["a"], 1)
    places.lose([1])
    assert places.relocate("subscriber", "a", (0, 1), away=[], wanted=1) == 0
    with pytest.raises(BrokerUnavailable, match="broker 1 is gone"):
        places.attach("subscriber", ["b"], 1)
    assert places.relocate("subscriber", "a", (0, 1), away=[0]) is None, "0 may be back"
    places.found(1)
    assert places.relocate("subscriber", "a", (0, 1), away=[], wanted=1) == 1
    places.lose([0, 1])
    with pytest.raises(BrokerUnavailable, match="no broker"):
        places.relocate("subscriber", "a", (0, 1), away=[])


def test_the_nearest_that_is_left_counts_more_than_the_cluster() -> None:
    """Reference: paper 1, section 2: a client attaches to the nearest."""
    places = Places(range(4))
    near = ((3,), (0, 2), (1,))
    assert places.attach("subscriber", ["a", "b"], near=near) == [3, 3]
    places.attach("publisher", ["p"], 0)
    assert places.relocate("subscriber", "a", (1, 3), away=[3], near=near) == 2


def test_what_is_kept_makes_the_same_places_again() -> None:
    places = Places(range(3))
    places.attach("subscriber", ["a"], None, ticket="once")
    places.attach("publisher", ["p", "q"], 1)
    places.lose([2, 7])  # 7 joined later and is not one of the initial brokers
    again = Places(range(3))
    again.restore(places.state())
    assert again.state() == places.state()
    assert again.attach("subscriber", ["a"], None, ticket="once") == [0], "the same call"
    assert [again.clients_at([broker]) for broker in (0, 1, 2, 7)] == [1, 2, 0, 0]
