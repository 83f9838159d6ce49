"""The brokers to which clients are attached: the rules of `Places`, on the machine alone."""

from typing import Any

import pytest
from rayvous.clients.places import FREE_MAX, LEFT_MAX, Former, Owner, Places
from rayvous.protocol.errors import BrokerUnavailable, ClientError, NameTaken


def test_a_client_that_leaves_a_broker_goes_to_the_highest_member_then_to_the_fewest_clients() -> None:
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


def at(places: Places, name: str, session: str, ticket: str, **how: Any) -> int:
    """Attach a subscriber at broker 1, from a process of this session, at time 0."""
    return places.attach("subscriber", [name], 1, ticket, None, Owner(session), **how)[0]


def test_a_name_is_free_when_its_process_is_not_heard_any_more_and_in_use_again_when_it_is() -> None:
    places = Places(range(3))
    at(places, "a", "one", "t1")
    with pytest.raises(NameTaken, match=r"already a subscriber 'a' in this network.*take_over=True"):
        at(places, "a", "two", "t2")
    assert places.hear([0, 1], ["one"], 9.0) == [] and places.hear([0, 2], [], 9.0) == [], "at another broker"
    assert places.hear([1], [], 0.0) == [], "it has just come"
    assert places.hear([1], [], 9.0) == [("subscriber", "a")] and places.clients_at([1]) == 0
    assert places.hear([1], ["one"], 9.0) == [("subscriber", "a")] and places.clients_at([1]) == 1
    with pytest.raises(NameTaken):
        at(places, "a", "two", "t2")
    places.hear([1], [], 9.0)
    again = Places(range(3))
    again.restore(places.state())
    for each in (places, again):
        assert at(each, "a", "two", "t2") == 1 and each.clients_at([1]) == 1
        assert each.former("subscriber", ["a", "b"]) == {"a": Former(1, "one", "t1", False)}
        assert at(each, "a", "two", "t2") == 1, "the same call, the same answer"
        assert each.former("subscriber", ["a"])["a"].ticket == "t1"
        assert each.hear([1], ["one"], 9.0) == [("subscriber", "a")], "the new one is not heard"


def test_whoever_lost_a_name_neither_moves_nor_leaves_under_it() -> None:
    places = Places(range(3))
    at(places, "a", "one", "t1")
    at(places, "a", "two", "t2", take_over=True)
    with pytest.raises(NameTaken, match="taken over by another client"):
        places.relocate("subscriber", "a", (0, 1, 2), [1], ticket="t1")
    places.leave("subscriber", "a", "t1")
    assert places.relocate("subscriber", "a", (0, 1, 2), [1], ticket="t2") == 2
    places.leave("subscriber", "a", "t2")
    assert places.clients_at(range(3)) == 0


def test_a_call_that_is_repeated_after_its_client_has_left_takes_no_name() -> None:
    places = Places(range(3))
    at(places, "a", "one", "t1")
    places.leave("subscriber", "a", "t1")
    places.left("t1")
    with pytest.raises(ClientError, match="was released: attach again"):
        at(places, "a", "one", "t1")
    assert at(places, "a", "one", "t2") == 1
    places.leave("subscriber", "a", "t1")
    assert places.clients_at([1]) == 1, "nor is a name freed by the farewell of an earlier client"
    for number in range(2 * LEFT_MAX):
        places.left(f"later {number}")
    assert len(places.state()[2]) == LEFT_MAX


def test_a_restarted_actor_gets_its_own_name_again_and_nobody_else_does() -> None:
    places = Places(range(3))
    places.attach("publisher", ["a"], 1, "t1", None, Owner("s1", "process 1", "actor"))
    for other in (
        Owner("s2", "process 1", "actor"),
        Owner("s2", "process 2", "other"),
        Owner("s2", "process 2"),
    ):
        with pytest.raises(NameTaken):
            places.attach("publisher", ["a"], 1, "t2", None, other)
    assert places.attach("publisher", ["a"], 1, "t3", None, Owner("s2", "process 2", "actor")) == [1]
    assert places.former("publisher", ["a"]) == {"a": Former(1, "s1", "t1", False)}


def test_a_durable_name_is_never_free_and_only_a_durable_client_takes_it() -> None:
    places = Places(range(3))
    places.reattach("subscriber", "a", 1, "t1", None, Owner("one"))
    assert places.hear([1], [], 9.0) == []
    with pytest.raises(NameTaken, match="attach with durable=True"):
        at(places, "a", "two", "t2", take_over=True)
    assert places.reattach("subscriber", "a", 1, "t3", None, Owner("two")) == 1
    assert places.former("subscriber", ["a"]) == {"a": Former(1, "one", "t1", True)}


def test_only_so_many_free_names_are_remembered() -> None:
    places = Places([1])
    for number in range(FREE_MAX + 5):
        at(places, f"a{number}", "one", f"t{number}")
    places.hear([1], [], 9.0)
    assert len(places.state()[0]) == FREE_MAX and places.clients_at([1]) == 0
