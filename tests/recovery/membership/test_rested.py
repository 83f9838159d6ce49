"""Machines that rest, and are told later when others were heard, know the same as if they had been awake.

Reference: paper 1, 4.1.1 and 4.1.2; docs/decisions/0092-hosts-beat-for-their-brokers.md.
"""

import random

import pytest
from rayvous.protocol.configs import Position
from rayvous.protocol.effects import Received, Rested, Ticked
from rayvous.protocol.messages.recovery import ClusterBeat, ClusterView, MemberBeat, Recovery, TreeBeat
from rayvous.recovery.membership.detector import Detector
from rayvous.recovery.membership.local import MembersChanged
from rayvous.recovery.membership.probing import Probing
from rayvous.recovery.membership.succession import ClusterRole, Succession

RECOVERY = Recovery(heartbeat_seconds=1.0, suspect_after_seconds=3.0)
VIEW = ClusterView(0, 0, 3, (1, 2, 3))
BEAT = ClusterBeat(VIEW, None, (), (0,), 1)
TICK = 0.25


@pytest.mark.parametrize("meanwhile", [0, 1, 7, 16, 17, 40])
@pytest.mark.parametrize("seed", range(3))
def test_a_detector_that_is_told_afterwards_has_learned_the_same(meanwhile: int, seed: int) -> None:
    rng = random.Random(seed)
    moments = [float(i) + 0.9 * rng.random() for i in range(5 + meanwhile)]
    awake, rested = Detector(RECOVERY), Detector(RECOVERY)
    for at in moments:
        awake.heard(9, at)
    for at in moments[:5]:
        rested.heard(9, at)
    rested.was_heard(9, moments[5:][-17:])
    assert rested.deadline(9) == pytest.approx(awake.deadline(9))
    assert rested.suspicion_timeout(9) == pytest.approx(awake.suspicion_timeout(9))


def member(me: int) -> Succession:
    return Succession(Position(me, 0, f"N{me}", (1, 2, 3), 3, None, ()), RECOVERY)


def first_to_notice(me: int, source: int, beat: object, rest: bool) -> float:
    """Return when member `me` acts on the silence of a member whose last heartbeat is at 40."""
    machine = member(me)
    now, heard = 0.0, list[float]()
    while now < 60:
        now += TICK
        due = now <= 40 and now % 1 == 0
        if rest and 10 <= now < 41.5:
            if due:
                heard.append(now)
            continue
        if rest and now == 41.5:
            machine.rested(Rested(now - TICK, {source: heard[-17:]}))
        out = machine.handle(Ticked(now))
        machine.check()
        if machine.state is ClusterRole.ELECTING:
            return now
        if any(isinstance(each, MembersChanged) and source in each.left for each in out):
            return now
        if due:
            machine.handle(Received(source, beat))
        for other in {1, 2} - {source} if machine.designated else ():
            machine.handle(Received(other, MemberBeat(0, 0, 0)))
    raise AssertionError("never")


@pytest.mark.parametrize(
    ("me", "source", "beat"), [(1, 3, BEAT), (3, 1, MemberBeat(0, 0, 0))], ids=["normal", "designated"]
)
def test_who_rested_notices_a_silence_when_who_was_awake_does(me: int, source: int, beat: object) -> None:
    assert (
        first_to_notice(me, source, beat, rest=True) == first_to_notice(me, source, beat, rest=False) == 43.25
    )


def test_after_a_stall_of_the_host_nobody_was_heard_in_the_future() -> None:
    machine = member(1)
    for now in (0.0, 0.5, 1.0):
        machine.handle(Ticked(now))
        machine.handle(Received(3, BEAT))
    machine.rested(Rested(5.0, {3: [2.0, 4.0, 9.0]}))
    machine.check()
    machine.handle(Ticked(9.0))
    machine.check()


def test_a_neighbour_is_probed_for_when_it_would_have_been_awake() -> None:
    def probed_at(rest: bool) -> float:
        machine, now = Probing(RECOVERY), 0.0
        machine.watch(VIEW, now)
        while now < 60:
            now += TICK
            if not rest or not 10 <= now < 41.5:
                if rest and now == 41.5:
                    machine.rested(Rested(now - TICK, {3: [float(at) for at in range(24, 41)]}))
                machine.handle(Ticked(now))
                if machine.probed:
                    return now
                if now <= 40 and now % 1 == 0:
                    machine.handle(Received(3, TreeBeat(VIEW, (0,), 1)))
        raise AssertionError("never")

    assert probed_at(rest=True) == probed_at(rest=False) == 43.25


def test_whom_a_member_listens_to() -> None:
    assert member(1).listens_to == {3} and member(3).listens_to == {1, 2}


def test_members_whose_beats_lie_unread_are_not_silent() -> None:
    """Reference: docs/decisions/0210-a-host-that-is-behind-suspects-nobody.md."""
    speaker = Succession(Position(3, 0, "D1", (1, 2, 3), 3, None, ()), RECOVERY)
    follower = Succession(Position(2, 0, "N2", (1, 2, 3), 3, None, ()), RECOVERY)
    for now in range(1, 40):
        for machine in (speaker, follower):
            machine.excuse(0.9)  # of the second until the next tick
            machine.handle(Ticked(float(now)))
            machine.check()
            assert machine.view == VIEW and machine.state is not ClusterRole.ELECTING, now
        if now == 25:
            break
    found = [
        now for now in range(26, 40) if speaker.handle(Ticked(float(now))) and speaker.view.members == (3,)
    ]
    assert found[0] == 26, "a tenth counts of the time before, and all of it from then on"
