"""The rendezvous point, sentence by sentence: one root at a time, and terms that only grow."""

import json

import pytest
from rayvous.protocol.effects import Received, Send, Ticked
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.recovery import (
    AskRoot,
    BecomeRoot,
    ClusterView,
    JoinAnswer,
    Ping,
    Recovery,
    Root,
    RootBeat,
)
from rayvous.recovery.membership import root_registry
from rayvous.recovery.membership.root_registry import RendezvousMachine

SETTINGS = Recovery(suspect_after_seconds=3, heartbeat_seconds=1)


def view(cluster: int, epoch: int = 1, designated: int | None = None) -> ClusterView:
    broker = cluster * 10 if designated is None else designated
    return ClusterView(cluster, epoch, broker, (broker,))


OLD, NEW, THIRD = view(1), view(2), view(3)


class Point:
    """A rendezvous point and its clock."""

    def __init__(self, root: ClusterView = OLD, term: int = 1) -> None:
        self.machine = RendezvousMachine(SETTINGS, root, term)

    def at(self, now: float) -> "Point":
        assert self.machine.handle(Ticked(now)) == []
        return self

    def asks(self, me: ClusterView) -> object:
        [answer] = self.machine.handle(Received(me.designated, AskRoot(me)))
        assert answer.to == me.designated
        return answer.message

    def beats(self, root: ClusterView, term: int) -> list[Send]:
        return self.machine.handle(Received(root.designated, RootBeat(root, term)))


def test_who_asks_is_told_the_root_that_is_kept() -> None:
    """The RP returns the current root, REB, that it keeps, to D4. Reference: paper 1, 4.2.1."""
    assert Point().at(0).asks(NEW) == Root(OLD, 1)


def test_two_that_ask_for_one_cluster_are_told_of_each_other() -> None:
    """They may not know each other: then nobody else tells them."""
    point, again = Point().at(0), view(2, 1, 25)
    assert point.asks(NEW) == Root(OLD, 1) == point.asks(NEW)
    told, answer = point.machine.handle(Received(25, AskRoot(again)))
    assert told == Send(25, JoinAnswer(False, "not designated", NEW, (), 1)) and answer == Send(
        25, Root(OLD, 1)
    )
    assert point.asks(again) == Root(OLD, 1), "only when it is another one"


def test_it_is_known_of_a_limited_number_of_clusters_who_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root_registry, "ASKERS_MAX", 3)
    point = Point().at(0)
    for cluster in range(2, 9):
        point.asks(view(cluster))
    assert list(point.machine._askers) == [6, 7, 8]


def test_a_root_that_beats_stays() -> None:
    point = Point()
    for now in range(0, 30, 2):
        assert point.at(now).beats(OLD, 1) == []
        assert point.asks(NEW) == Root(OLD, 1)
    assert point.at(31).asks(NEW) == Root(OLD, 1), "silent for 3 s: within its suspicion timeout"


def test_the_first_child_to_reach_the_rp_becomes_the_root() -> None:
    """If REB is dead, the first of its children to reach the RP becomes the new root. Reference: paper 1, 4.2.1."""
    point = Point().at(0).at(3.1)
    assert point.asks(NEW) == BecomeRoot(2)
    assert point.asks(THIRD) == Root(NEW, 2)
    assert (point.machine.root, point.machine.term) == (NEW, 2)


def test_the_new_root_has_one_patience_too() -> None:
    point = Point().at(0).at(3.1)
    point.asks(NEW)
    assert point.at(6.1).asks(THIRD) == Root(NEW, 2)
    assert point.at(6.2).asks(THIRD) == BecomeRoot(3)


def test_a_root_whose_answer_was_lost_is_told_again_under_the_same_term() -> None:
    point = Point().at(0).at(3.1)
    assert point.asks(NEW) == BecomeRoot(2)
    assert point.at(5.0).asks(NEW) == BecomeRoot(2)
    assert point.at(8.0).asks(THIRD) == Root(NEW, 2), "to ask is a sign of life"


def test_a_root_that_does_not_know_its_term_is_told() -> None:
    """Its broker crashed with the answer, and the successor sends heartbeats with the term that it knows."""
    point = Point().at(0).at(3.1)
    point.asks(NEW)
    assert point.at(5.0).beats(view(2, epoch=2, designated=21), 1) == [Send(21, BecomeRoot(2))]


def test_an_old_root_that_comes_back_is_told() -> None:
    """A root that was only slow learns that another cluster is root now, steps down and joins."""
    point = Point().at(0).at(3.1)
    point.asks(NEW)
    assert point.beats(OLD, 1) == [Send(10, Root(NEW, 2))]
    assert point.asks(OLD) == Root(NEW, 2)
    assert point.at(6.2).asks(THIRD) == BecomeRoot(3), "the old root's beat is no sign of life of the new one"


def test_a_second_root_under_the_same_term_is_told() -> None:
    assert Point().at(0).beats(NEW, 1) == [Send(20, Root(OLD, 1))]


def test_a_succession_in_the_root_cluster_is_kept() -> None:
    """The cluster is the root, whichever broker is designated. Reference: paper 1, 4.1.1."""
    later = view(1, epoch=2, designated=11)
    point = Point().at(0)
    assert point.beats(later, 1) == []
    assert point.asks(NEW) == Root(later, 1)
    assert point.at(2).beats(OLD, 1) == [Send(10, Root(later, 1))], "the one that was replaced"
    assert point.at(3.1).asks(NEW) == BecomeRoot(2), "and no sign of life"


def test_it_survives_its_own_death() -> None:
    """Its state is plain data, and after a restart the recorded root has one suspicion timeout to be heard."""
    point = Point().at(0).at(3.1)
    point.asks(NEW)
    stored = json.loads(json.dumps(point.machine.state()))
    again = Point()
    again.machine.restore(stored)
    assert again.machine.state() == stored
    assert again.asks(THIRD) == Root(NEW, 2), "before its clock has begun"
    assert again.at(1000).asks(THIRD) == Root(NEW, 2)
    assert again.at(1003).asks(THIRD) == Root(NEW, 2)
    assert again.at(1003.1).asks(THIRD) == BecomeRoot(3)


def test_a_beat_before_the_first_tick_counts_from_that_tick() -> None:
    point = Point()
    assert point.beats(OLD, 1) == []
    assert point.at(50).asks(NEW) == Root(OLD, 1)
    assert point.at(53.1).asks(NEW) == BecomeRoot(2)


def test_a_point_whose_state_is_older_than_the_world_believes_the_higher_term() -> None:
    point = Point().at(0)
    assert point.beats(NEW, 7) == []
    assert point.asks(THIRD) == Root(NEW, 7)
    assert point.at(3.1).asks(THIRD) == BecomeRoot(8)


@pytest.mark.parametrize("state", [{}, {"term": 1, "root": {"cluster": 1}}, {"term": "x", "root": None}])
def test_a_state_that_is_not_its_own_is_refused_by_name(state: dict[str, object]) -> None:
    with pytest.raises(InputError, match="not one that it has written"):
        Point().machine.restore(state)


def test_what_is_not_for_it_leads_to_nothing() -> None:
    machine = Point().at(0).machine
    assert machine.handle(Received(10, Ping(1))) == []
    assert machine.handle(Received("p1", AskRoot(NEW))) == []
