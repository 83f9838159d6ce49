"""The rendezvous point: one directory, names that are used once, clients spread evenly."""

from typing import Any

import pytest
from rayvous.actors.rendezvous import Directory, Rendezvous
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import ClientError, InputError
from rayvous.routing.topologies import ClusterTree


@pytest.fixture
def rendezvous() -> Rendezvous:
    point = Rendezvous()
    positions = tuple(ClusterTree(2, 2).positions())
    hosts: dict[int, Any] = {position.broker: None for position in positions}
    point.open(Directory("net", "hybrid", Limits.for_tests(), positions, hosts, None))
    return point


def test_there_is_no_directory_before_it_is_opened() -> None:
    assert Rendezvous().directory() is None


def test_the_root_is_in_the_directory(rendezvous: Rendezvous) -> None:
    directory = rendezvous.directory()
    assert directory is not None
    root = next(position for position in directory.positions if position.broker == directory.root)
    assert root.role == "REB" and root.parent is None


def test_clients_go_where_the_fewest_are(rendezvous: Rendezvous) -> None:
    assert rendezvous.place("subscriber", ["a", "b", "c"], None) == [0, 1, 2]
    assert rendezvous.place("publisher", ["a"], 3) == [3]
    assert rendezvous.place("subscriber", ["d", "e"], None) == [0, 1]
    rendezvous.leave("publisher", ["a"])
    assert rendezvous.place("subscriber", ["f"], None) == [3]


def test_a_name_is_used_once_a_kind_and_free_again_when_it_left(rendezvous: Rendezvous) -> None:
    rendezvous.place("subscriber", ["a"], 0)
    rendezvous.place("publisher", ["a"], 0)
    with pytest.raises(ClientError, match="already a subscriber 'a'"):
        rendezvous.place("subscriber", ["new", "a"], 1)
    rendezvous.leave("subscriber", ["a", "never there"])
    assert rendezvous.place("subscriber", ["a", "new"], 1) == [1, 1], (
        "nothing was placed by the call that failed"
    )


def test_a_name_is_not_given_twice_in_one_call(rendezvous: Rendezvous) -> None:
    with pytest.raises(ClientError, match="subscriber 'a' is named twice"):
        rendezvous.place("subscriber", ["a", "b", "a"], None)
    assert rendezvous.place("subscriber", ["a"], 0) == [0]


def test_a_broker_that_is_not_there_is_refused(rendezvous: Rendezvous) -> None:
    with pytest.raises(InputError, match="no broker 9: there are 4, from 0 to 3"):
        rendezvous.place("publisher", ["p"], 9)
    assert rendezvous.place("publisher", ["p"], None) == [0]
