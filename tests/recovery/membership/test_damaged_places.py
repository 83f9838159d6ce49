"""A broker detects damaged state when its machines contradict each other (paper 4, section 2)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rayvous.broker import Broker, rendezvous_of, start_of
from rayvous.protocol.effects import Received, Send, Ticked
from rayvous.protocol.errors import StateDamaged
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.comparing import Compare
from rayvous.protocol.messages.recovery import RENDEZVOUS, ClusterView, Recovery, Root, TreeBeat
from rayvous.recovery.membership.comparing import digest
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree

RECOVERY = Recovery.for_simulator(compare_heartbeats=2.0)
TREE = ClusterTree(3, 2, degree=2).positions()
STRANGER = ClusterView(9, 0, 90, (90,))
ROOT, CHILD, NORMAL = 1, 3, 2


def broker(place: int) -> Any:
    made = Broker(TREE[place], recovery=RECOVERY)
    made.handle(Ticked(0.0))
    return made


def test_the_places_of_a_network_at_its_start_hold_together() -> None:
    for place in range(6):
        broker(place).check()


@pytest.mark.parametrize(
    ("place", "words", "damage"),
    [
        (ROOT, "watches others", lambda at: at.place.children.popitem()),
        (ROOT, "watches others", lambda at: at.place.children.update({9: STRANGER})),
        (ROOT, "watches others", lambda at: setattr(at.place, "parent", STRANGER)),
        (ROOT, "it is the root and is not", lambda at: setattr(at.place, "path", (7, 0))),
        (ROOT, "is the root and is not", lambda at: setattr(at.place.router, "attached", False)),
        (ROOT, "looks for nobody", lambda at: setattr(at.place, "root", False)),
        (ROOT, "way to the root does not end here", lambda at: setattr(at.place, "path", (7,))),
        (ROOT, "none of the group", lambda at: at.place.other_members.clear()),
        (ROOT, "has another group", lambda at: at.place.other_members.add(90)),
        (ROOT, "an epoch has been overlooked", lambda at: setattr(at.place.succession, "_epoch_seen", -1)),
        (
            ROOT,
            "speaks for a cluster",
            lambda at: setattr(at.place.succession, "view", replace(at.place.view, designated=0)),
        ),
        (CHILD, "is the root and is not", lambda at: setattr(at.place, "root", True)),
        (CHILD, "not over its parent", lambda at: setattr(at.place, "path", (7, at.place.view.cluster))),
        (CHILD, "sends nothing up", lambda at: setattr(at.place.router, "attached", False)),
        (CHILD, "hangs below itself", lambda at: setattr(at.place.succession, "parent", at.place.view)),
        (CHILD, "a round has begun", lambda at: setattr(at.rounds, "current", RoundNumber(9, 9))),
        (NORMAL, "stands in the tree", lambda at: setattr(at.place, "parent", STRANGER)),
        (NORMAL, "sends nothing up", lambda at: setattr(at.place.router, "attached", False)),
    ],
)
def test_two_machines_that_say_different_things_are_noticed(
    place: int, words: str, damage: Callable[[Any], object]
) -> None:
    made = broker(place)
    damage(made.layer(HealingBroker))
    with pytest.raises(StateDamaged, match=words):
        made.handle(Ticked(2.0))


def test_the_term_of_a_broker_is_that_of_its_parent() -> None:
    """A higher term can only be due to a fault."""
    made = broker(CHILD)
    above = ClusterView(0, 0, 1, (0, 1))
    made.layer(HealingBroker).place.term = 618
    made.handle(Received(1, TreeBeat(above, (0,), 4)))
    assert made.layer(HealingBroker).place.term == 4


@pytest.mark.parametrize("term", [1, 2])
def test_a_root_that_is_none_by_its_term_looks_for_a_parent(term: int) -> None:
    made = broker(ROOT)
    made.handle(Received(RENDEZVOUS, Root(ClusterView(1, 0, 3, (2, 3)), term)))
    assert not made.layer(HealingBroker).place.root and made.layer(HealingBroker).searching
    made.handle(Received(RENDEZVOUS, Root(ClusterView(1, 0, 3, (2, 3)), 0)))
    there = broker(ROOT)
    there.handle(Received(RENDEZVOUS, Root(ClusterView(0, 0, 1, (0, 1)), 1)))
    assert there.layer(HealingBroker).place.root, "it is the one"


def test_the_rendezvous_point_says_who_is_in_the_view_and_where() -> None:
    places = scheme("hypercube").positions(TREE)
    point: Any = rendezvous_of(RECOVERY, start_of(places, "hypercube"))
    asked = Received(3, Compare(place=b"something"))
    assert point.handle(asked) == [Send(3, Compare(place=digest([point.view.who])))]
    assert point.handle(Received(99, Compare(place=b"something"))) == [], "who is not in it is told nothing"
    made = Broker(places[3], "hypercube", recovery=RECOVERY)
    (said,) = [
        each.message
        for each in made.handle(Ticked(0.0))
        if isinstance(each, Send) and each.to == RENDEZVOUS and isinstance(each.message, Compare)
    ]
    assert said.place == digest([point.view.who])
