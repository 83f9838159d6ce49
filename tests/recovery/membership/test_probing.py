"""The neighbours' side of a succession, sentence by sentence: a silent cluster is probed, found or lost."""

import pytest
from rayvous.protocol.effects import Received, Send, Ticked
from rayvous.protocol.messages.recovery import ClusterView, Goodbye, Probe, ProbeAnswer, Recovery, TreeBeat
from rayvous.recovery.membership.local import NeighbourLost, NeighbourMoved
from rayvous.recovery.membership.probing import Probing

SETTINGS = Recovery(
    detector="fixed", suspect_after_seconds=3, heartbeat_seconds=1, probe_seconds=0.5, probe_tries=2
)
D1 = ClusterView(cluster=1, epoch=4, designated=20, members=(10, 20, 30))
ELECTED = ClusterView(cluster=1, epoch=5, designated=30, members=(10, 30))
OTHER = ClusterView(cluster=2, epoch=1, designated=40, members=(40, 41))


def watching(*views: ClusterView) -> Probing:
    probing = Probing(SETTINGS)
    for view in views:
        probing.watch(view, 0.0)
    return probing


def beat(view: ClusterView, source: int | None = None) -> Received:
    return Received(view.designated if source is None else source, TreeBeat(view, (0, view.cluster), 1))


def ticks(probing: Probing, first: float, last: float) -> list[tuple[float, object]]:
    """Tick every tenth of a second, both ends included; return each output with its time."""
    moments = [round(first + step / 10, 1) for step in range(round((last - first) * 10) + 1)]
    return [(now, out) for now in moments for out in probing.handle(Ticked(now))]


def asked(found: list[tuple[float, object]]) -> list[int]:
    assert all(isinstance(out, Send) and out.message == Probe(1) for _, out in found)
    return [out.to for _, out in found if isinstance(out, Send)]


def test_a_neighbour_that_beats_is_left_alone() -> None:
    """If a DEB has no heartbeat for some time, its neighbours take it for dead.

    Reference: paper 1, 4.1.2.
    """
    probing = watching(D1)
    for now in range(20):
        assert probing.handle(Ticked(float(now))) == []
        assert probing.handle(beat(D1)) == []
    assert probing.deadline == 22.0
    assert ticks(probing, 19.0, 22.0) == []
    assert ticks(probing, 22.1, 22.1) == [(22.1, Send(30, Probe(1)))]


def test_the_highest_id_is_asked_first_and_each_is_asked_several_times() -> None:
    """The member with the highest id first; retry several times; then the one with the next id.

    The silent one (20) is asked last: it may be only slow. Reference: paper 1, 4.1.2.
    """
    found = ticks(watching(D1), 0.0, 5.9)
    assert asked(found) == [30, 30, 10, 10, 20, 20]
    assert [now for now, _ in found] == [3.1, 3.6, 4.1, 4.6, 5.1, 5.6]


def test_nobody_answers() -> None:
    """At worst all of the cluster is dead, or the link is cut: then CMTP must be started.

    Reference: paper 1, 4.1.2.
    """
    probing = watching(D1, OTHER)
    for now in (1.0, 2.0, 3.0, 4.0, 5.0):
        ticks(probing, now, now)
        probing.handle(beat(OTHER))
    assert asked(ticks(probing, 5.1, 7.4)) == [10, 10, 20, 20]
    assert ticks(probing, 7.5, 7.5) == [(7.5, NeighbourLost(1))]
    assert probing.neighbours == (OTHER,) and probing.probed == ()
    assert ticks(probing, 7.6, 8.0) == []
    assert probing.handle(beat(D1)) == [], "who is lost has to join again"


def test_a_member_that_knows_the_successor_ends_it() -> None:
    """The new DEB answers the probe, and the neighbour rewrites the connection in its tables.

    Reference: paper 1, 4.1.2.
    """
    probing = watching(D1)
    assert asked(ticks(probing, 3.1, 3.1)) == [30]
    assert probing.probed == (1,)
    assert probing.handle(Received(30, ProbeAnswer(ELECTED))) == [NeighbourMoved(ELECTED)]
    assert probing.probed == () and probing.neighbours == (ELECTED,)
    # It is watched anew: first the full suspicion timeout, then probes of its members.
    found = ticks(probing, 3.2, 7.6)
    assert [now for now, _ in found] == [6.2, 6.7, 7.2]
    assert asked(found) == [10, 10, 30]


def test_any_member_may_tell_of_the_successor() -> None:
    probing = watching(D1)
    ticks(probing, 3.1, 4.2)
    assert probing.handle(Received(10, ProbeAnswer(ELECTED))) == [NeighbourMoved(ELECTED)]


def test_an_answer_that_comes_late_still_tells() -> None:
    probing = watching(D1)
    assert asked(ticks(probing, 3.1, 5.0)) == [30, 30, 10, 10]
    assert probing.handle(Received(30, ProbeAnswer(ELECTED))) == [NeighbourMoved(ELECTED)]


def test_members_that_name_the_silent_one_are_asked_again_until_they_have_elected() -> None:
    """Neighbours may notice before the cluster does: an answer that still names the dead one is not final."""
    probing = watching(D1)
    assert asked(ticks(probing, 3.1, 3.1)) == [30]
    assert probing.handle(Received(30, ProbeAnswer(D1))) == []
    assert asked(ticks(probing, 3.2, 3.6)) == [30]
    assert probing.handle(Received(30, ProbeAnswer(ELECTED))) == [NeighbourMoved(ELECTED)]


def test_when_all_say_that_it_is_alive_the_link_is_cut() -> None:
    """Or the physical link is cut, so that it cannot be mended: CMTP must be started. Reference: paper 1, 4.1.2."""
    probing = watching(D1)
    found: list[object] = []
    for step in range(31, 62):
        for out in probing.handle(Ticked(step / 10)):
            found.append(out)
            if isinstance(out, Send) and out.to != 20:
                assert probing.handle(Received(out.to, ProbeAnswer(D1))) == []
    assert [out.to for out in found if isinstance(out, Send)] == [30, 30, 10, 10, 20, 20]
    assert found[-1] == NeighbourLost(1)


@pytest.mark.parametrize("sign", [beat(D1), Received(20, ProbeAnswer(D1))], ids=["beat", "answer"])
def test_the_silent_one_is_heard_again(sign: Received) -> None:
    """A slow broker is not dead: probing stops, and the next silence restarts it with the first member."""
    probing = watching(D1)
    assert asked(ticks(probing, 3.1, 4.2)) == [30, 30, 10]
    assert probing.handle(sign) == []
    assert probing.probed == ()
    assert ticks(probing, 4.3, 7.2) == []
    assert asked(ticks(probing, 7.3, 7.3)) == [30]


def test_a_successor_that_beats_before_it_is_missed_has_moved_too() -> None:
    """The DEB beats to parent and children, so a new one may be heard before the old one is suspected."""
    probing = watching(D1)
    assert probing.handle(beat(ELECTED)) == [NeighbourMoved(ELECTED)]
    assert probing.handle(beat(ELECTED)) == []
    assert probing.handle(beat(D1)) == [], "the one that was replaced is not believed"
    assert probing.neighbours == (ELECTED,)


def test_one_that_was_elected_again_has_moved_too() -> None:
    """Between the two epochs another broker, never heard here, was designated: connect again."""
    again = ClusterView(cluster=1, epoch=6, designated=20, members=(10, 20))
    assert watching(D1).handle(beat(again)) == [NeighbourMoved(again)]


def test_a_replaced_broker_is_no_sign_of_life_of_its_cluster() -> None:
    probing = watching(ELECTED)
    ticks(probing, 2.0, 2.0)
    assert probing.handle(beat(D1)) == []
    assert [now for now, _ in ticks(probing, 2.5, 3.1)] == [3.1]


def test_what_the_same_broker_said_in_an_earlier_epoch_is_no_sign_of_life() -> None:
    again = ClusterView(cluster=1, epoch=6, designated=20, members=(10, 20))
    probing = watching(again)
    ticks(probing, 2.0, 2.0)
    assert probing.handle(beat(D1)) == [] and probing.neighbours == (again,)
    assert [now for now, _ in ticks(probing, 2.5, 3.1)] == [3.1]


def test_a_member_that_lags_behind_is_not_believed() -> None:
    """A member that has not heard of epoch 5 yet names the broker of epoch 4, which is not the silent one."""
    probing = watching(ELECTED)
    assert asked(ticks(probing, 3.1, 3.1)) == [10]
    assert probing.handle(Received(10, ProbeAnswer(D1))) == []
    assert probing.neighbours == (ELECTED,) and probing.probed == (1,)


def test_beats_tell_the_members() -> None:
    """The heartbeat has the ids of all NEBs of the cluster. Reference: paper 1, 4.1.2."""
    grown = ClusterView(cluster=1, epoch=4, designated=20, members=(10, 20, 25))
    probing = watching(D1)
    assert probing.handle(beat(grown)) == []
    assert asked(ticks(probing, 3.1, 4.2)) == [25, 25, 10]


def test_to_watch_again_takes_the_new_view() -> None:
    probing = watching(D1)
    ticks(probing, 3.1, 3.1)
    probing.watch(ELECTED, 3.2)
    assert probing.probed == () and probing.neighbours == (ELECTED,)
    assert [now for now, _ in ticks(probing, 3.3, 6.3)] == [6.3]


def test_who_is_forgotten_is_not_watched() -> None:
    probing = watching(D1)
    probing.forget(1)
    probing.forget(7)
    assert ticks(probing, 0.0, 10.0) == [] and probing.deadline is None
    assert probing.handle(Received(30, ProbeAnswer(ELECTED))) == []


def test_what_is_not_for_it_leads_to_nothing() -> None:
    probing = watching(D1)
    assert probing.handle(Received("p1", TreeBeat(ELECTED, (), 1))) == []
    assert probing.handle(Received(20, Goodbye(1))) == []
    assert probing.handle(beat(OTHER)) == []


def test_a_member_answers_with_what_it_knows() -> None:
    assert Probing.answer(Probe(1), 99, ELECTED) == Send(99, ProbeAnswer(ELECTED))


def test_a_neighbour_with_a_single_broker_is_asked_itself() -> None:
    alone = ClusterView(cluster=1, epoch=1, designated=20, members=(20,))
    found = ticks(watching(alone), 3.1, 4.1)
    assert [out for _, out in found] == [Send(20, Probe(1)), Send(20, Probe(1)), NeighbourLost(1)]


def test_who_is_known_to_be_dead_is_not_waited_for() -> None:
    """Members that the transport knows to be dead are skipped; the last one left is still probed as often."""
    probing = watching(D1)
    assert asked(ticks(probing, 0.0, 3.1)) == [30]
    probing.learn_dead(30)
    assert asked(ticks(probing, 3.2, 3.2)) == [10]
    probing.learn_dead(20)
    assert asked(ticks(probing, 3.3, 4.1)) == [10]
    assert ticks(probing, 4.2, 4.2) == [(4.2, NeighbourLost(1))]


def test_the_others_are_asked_at_once_if_the_designated_broker_is_known_to_be_dead() -> None:
    """Its silence needs no waiting, and it is not asked itself. Other neighbours are left alone."""
    probing = watching(D1, OTHER)
    probing.learn_dead(10)
    assert ticks(probing, 0.1, 0.5) == []  # who is not designated is not missed
    probing.learn_dead(20)
    assert asked(ticks(probing, 0.6, 1.6)) == [30, 30, 10]
    assert probing.handle(Received(30, ProbeAnswer(ELECTED))) == [NeighbourMoved(ELECTED)]
    probing = watching(D1, OTHER)
    for broker in (20, 30, 10):
        probing.learn_dead(broker)
    assert ticks(probing, 0.1, 0.1) == [(0.1, NeighbourLost(1))] and probing.neighbours == (OTHER,)


def test_a_designated_broker_that_is_heard_again_was_not_dead() -> None:
    probing = watching(D1)
    probing.learn_dead(20)
    assert asked(ticks(probing, 0.1, 0.1)) == [30]
    assert probing.handle(beat(D1)) == []
    assert ticks(probing, 0.2, 3.1) == []


def test_time_in_which_the_host_did_not_get_to_what_arrived_does_not_count() -> None:
    probing = watching(D1)
    assert probing.handle(Ticked(3.0)) == []
    probing.excuse(2.0)
    assert ticks(probing, 5.0, 5.1) == [(5.1, Send(30, Probe(1)))]
    probing.excuse(1.0)
    assert ticks(probing, 5.2, 6.6) == [(6.6, Send(30, Probe(1)))]
