"""Brokers that join and leave: load, refusals, the children of the root, successors, and yielding the root.

Reference: paper 1, 4.1.1, 4.2.1 and figure 3; docs/decisions/0012-operations.md.
"""

import random

import pytest
from rayvous.protocol.configs import Position
from rayvous.protocol.effects import Multicast, Received, Send, Ticked
from rayvous.protocol.messages.recovery import (
    LOAD_MAX,
    RENDEZVOUS,
    AskChildren,
    AskRoot,
    BecomeRoot,
    Children,
    ClusterBeat,
    ClusterView,
    JoinAnswer,
    JoinRequest,
    MemberBeat,
    MemberGone,
    Ping,
    Pong,
    Recovery,
    Resign,
    Root,
    RootBeat,
    YieldRoot,
)
from rayvous.recovery.membership.acceptance import WINDOW_SECONDS, Load, judge
from rayvous.recovery.membership.join import Join
from rayvous.recovery.membership.local import Joined, MembersChanged, TookOver
from rayvous.recovery.membership.root_registry import RendezvousMachine
from rayvous.recovery.membership.succession import Succession

RECOVERY = Recovery(degree=2, load_max=100.0)


def view(cluster, epoch=0, designated=None, members=None):
    speaks = cluster if designated is None else designated
    return ClusterView(cluster, epoch, speaks, members or (speaks,))


def test_load_is_the_rate_of_the_last_whole_window():
    load = Load()
    load.tick(10.0)
    load.count(50)
    load.tick(10.0 + WINDOW_SECONDS / 2)
    assert load.events_per_second == 0.0
    load.count(150)
    load.tick(10.0 + WINDOW_SECONDS)
    assert load.events_per_second == pytest.approx(200 / WINDOW_SECONDS)
    load.tick(10.0 + 3 * WINDOW_SECONDS)
    assert load.events_per_second == 0.0


@pytest.mark.parametrize(
    ("asker", "children", "options", "reason"),
    [
        (9, (1,), {"load": 100.0}, ""),
        (9, (1,), {"load": 100.1}, "overloaded"),
        (1, (1,), {"load": 100.1}, ""),
        (9, (1, 2), {"load": 100.1}, "full"),
        (9, (1, 2), {}, "full"),
        (9, (1, 2), {"going": (2, 7)}, ""),
        (9, (), {"leaving": True}, "leaving"),
        (1, (1,), {"leaving": True}, ""),
    ],
)
def test_who_is_full_overloaded_or_leaving_takes_no_other_child(asker, children, options, reason):
    request = JoinRequest(view(asker), ())
    answer = judge(request, view(5), (0, 5), 1, children, RECOVERY, designated=True, **options)
    assert (answer.accepted, answer.reason) == (not reason, reason)


def judged(load, recovery, **request):
    asker = JoinRequest(view(9), (), **request)
    return judge(asker, view(5), (5,), 1, (), recovery, designated=True, load=load).reason


def test_a_limit_is_there_by_default_and_can_be_lifted():
    """Reference: paper 1, 4.2.1, figure 3: a request is refused when the load is too heavy."""
    assert judged(LOAD_MAX, Recovery()) == "" == judged(1e9, Recovery(load_max=None))
    assert judged(LOAD_MAX + 1, Recovery()) == "overloaded"


def test_load_is_no_reason_to_refuse_a_last_resort():
    assert judged(1e9, Recovery(), last_resort=True) == ""


def test_who_cannot_reach_the_root_goes_on_at_its_children():
    join = Join(RECOVERY, random.Random(1))
    me, root, child = view(9), view(0), view(3)
    assert join.start(me, (), 0.0) == [Send(RENDEZVOUS, AskRoot(me))]
    (asked,) = join.handle(Received(RENDEZVOUS, Root(root, 1, (child, me))))
    assert asked == Send(0, AskChildren(1))
    (ping,) = join.handle(Ticked(RECOVERY.answer_seconds))  # the root is silent
    assert ping == Send(3, Ping(2))
    (asked,) = join.handle(Received(3, Pong(2)))
    assert asked == Send(3, AskChildren(3))
    (request,) = join.handle(Received(3, Children(3, child, ())))
    assert request == Send(3, JoinRequest(me, ()))
    (joined,) = join.handle(Received(3, JoinAnswer(True, "", child, (0, 3), 1)))
    assert joined == Joined(child, (0, 3), 1)


@pytest.mark.parametrize(("seconds", "moves"), [(0.1, True), (0.2, False)])
def test_a_better_parent_has_to_be_near_enough(seconds, moves):
    """The present parent is 3; the root answers after `seconds`, and at most 0.15 is near enough."""
    join = Join(RECOVERY, random.Random(1))
    join.start(view(9), (), 0.0, present=3, within=0.15)
    join.handle(Received(RENDEZVOUS, Root(view(0), 1)))
    join.handle(Ticked(seconds))
    out = join.handle(Received(0, Children(1, view(0), ())))
    assert out == ([Send(0, JoinRequest(view(9), ()))] if moves else [])
    assert join.active is moves


def test_who_has_to_leave_its_parent_does_not_ask_it():
    join = Join(RECOVERY, random.Random(1))
    join.start(view(9), (), 0.0, present=0)
    join.handle(Received(RENDEZVOUS, Root(view(0), 1)))
    (ping,) = join.handle(Received(0, Children(1, view(0), (view(3),))))
    assert ping == Send(3, Ping(2))
    assert join.handle(Received(3, Pong(2))) == [Send(3, AskChildren(3))]


def test_the_rendezvous_point_hands_the_roots_children_on_and_its_office_over():
    point = RendezvousMachine(Recovery(), view(0))
    point.handle(Ticked(0.0))
    successor = view(3, members=(2, 3))
    assert point.handle(Received(0, RootBeat(view(0), 1, (successor,)))) == []
    assert point.handle(Received(7, AskRoot(view(7)))) == [Send(7, Root(view(0), 1, (successor,)))]
    assert point.handle(Received(5, YieldRoot(view(5), 1))) == [Send(5, Root(view(0), 1, (successor,)))]
    became, told = point.handle(Received(0, YieldRoot(successor, 1)))
    assert became == Send(3, BecomeRoot(2)) and told == Send(0, Root(successor, 2))
    assert point.handle(Received(0, YieldRoot(successor, 1))) == [became, told], "asked again, answered again"
    assert (point.root, point.term) == (successor, 2)


def member(broker, **options):
    place = Position(broker, 4, f"N{broker}", (1, 2, 3), 3, None, ())
    machine = Succession(place, Recovery(), **options)
    machine.handle(Ticked(0.0))
    return machine


def test_only_the_heir_takes_over_and_at_once():
    speaker = member(3)
    beat, resign = speaker.resign(2)
    assert resign == Multicast(Resign(4, 0, 2))
    for broker in (1, 2):
        machine = member(broker)
        machine.handle(Received(3, beat.message))
        news = machine.handle(Received(3, resign.message))
        assert machine.designated is (broker == 2)
        if broker == 2:
            assert news[0] == TookOver(ClusterView(4, 1, 2, (1, 2)))
            speaker.leaving = True
            assert not [out for out in speaker.handle(Received(2, news[1].message)) if isinstance(out, Send)]
            assert not speaker.designated and speaker.view.members == (1, 2)
    assert member(2).handle(Received(3, Resign(4, 7, 2))) == [], "of another epoch"
    assert member(2).handle(Received(1, Resign(4, 0, 2))) == [], "of somebody who does not speak"


def test_who_has_gone_is_no_member_again():
    speaker = member(3)
    (changed,) = speaker.handle(Received(1, MemberGone(4)))
    assert changed == MembersChanged(ClusterView(4, 0, 3, (2, 3)), (), (1,))
    assert speaker.handle(Received(1, MemberBeat(4, 0, 0))) == [], "a registration that was under way"
    (beat,) = speaker.handle(Received(1, MemberGone(4)))
    assert beat.to == 1 and isinstance(beat.message, ClusterBeat), "it has not heard the beat without itself"
    speaker.check()
