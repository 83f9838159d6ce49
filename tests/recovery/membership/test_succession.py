"""Succession in one cluster: the paper's sentences on single machines, then clusters with random faults."""

import random
from dataclasses import replace
from heapq import heappop, heappush
from itertools import combinations, count

import pytest
from draws import seeds
from rayvous.protocol.configs import Position
from rayvous.protocol.effects import Multicast, Received, Send, Ticked
from rayvous.protocol.messages.pubsub import Installed
from rayvous.protocol.messages.recovery import (
    ClusterBeat,
    ClusterView,
    MemberBeat,
    MemberGone,
    Probe,
    Recovery,
    Resign,
)
from rayvous.recovery.membership.local import MembersChanged, SteppedDown, TookOver
from rayvous.recovery.membership.succession import HANDLERS, ClusterRole, Succession

FIXED = Recovery(detector="fixed", heartbeat_seconds=1.0, suspect_after_seconds=3.0).validate()
ADAPTIVE = replace(FIXED, detector="adaptive").validate()
TICK = 0.25
HERE = 4
"""The cluster."""


def machine(me, members=(1, 2, 3), designated=3, incarnation=0, recovery=FIXED):
    return Succession(
        Position(me, HERE, f"N{me}", tuple(members), designated, None, ()), recovery, incarnation=incarnation
    )


def view(epoch, designated, *members):
    return ClusterView(HERE, epoch, designated, members)


def beat(of, parent=None, children=(), path=(), term=0):
    return Received(of.designated, ClusterBeat(of, parent, children, path, term))


def registration(source, epoch=0, incarnation=0, introduces=False):
    return Received(source, MemberBeat(HERE, epoch, incarnation, introduces))


class Driven:
    """One machine with a clock that ticks four times in each heartbeat."""

    def __init__(self, *args, **kwargs):
        self.machine = machine(*args, **kwargs)
        self.now = 1000.0
        self.take(Ticked(self.now))

    def take(self, event):
        out = self.machine.handle(event)
        self.machine.check()
        return out

    def wait(self):
        """Tick until its state or the awaited broker changes; return (seconds, output of the last tick)."""
        began, before = self.now, (self.machine.state, self.awaited)
        while (self.machine.state, self.awaited) == before:
            assert self.now - began < 100.0, "a wait without end"
            self.now += TICK
            out = self.take(Ticked(self.now))
        return self.now - began, out

    @property
    def awaited(self):
        return self.machine._awaited

    def tick(self, seconds):
        """Let time pass, and return all output."""
        out = []
        for _ in range(round(seconds / TICK)):
            self.now += TICK
            out += self.take(Ticked(self.now))
        return out


def test_the_designated_broker_multicasts_a_heartbeat_periodically():
    """The DEB periodically multicasts heartbeats, which declare its presence.

    Reference: paper 1, 4.1.1
    """
    deb = Driven(3, members=(3,))
    assert deb.machine.designated and deb.machine.state is ClusterRole.DESIGNATED
    assert deb.tick(10.0) == [Multicast(ClusterBeat(view(0, 3, 3), None, (), (), 0))] * 10


def test_the_heartbeat_has_the_ids_of_all_members_and_the_parent_and_children():
    """The heartbeat includes the ids of all NEBs, and information about its parent and children.

    Reference: paper 1, 4.1.1
    """
    deb, neb = Driven(3), Driven(1)
    parent, child = ClusterView(0, 2, 30, (29, 30)), ClusterView(9, 0, 40, (40,))
    deb.machine.set_tree(parent, (child,), (0, HERE), 5)
    (sent,) = deb.machine.beat_now()
    assert sent == Multicast(ClusterBeat(view(0, 3, 1, 2, 3), parent, (child,), (0, HERE), 5))
    neb.take(Received(3, sent.message))
    told = neb.machine
    assert (told.view, told.parent, told.children) == (view(0, 3, 1, 2, 3), parent, (child,))
    assert (told.path, told.term) == ((0, HERE), 5)


def test_a_normal_broker_registers_each_heartbeat():
    """Each NEB has a unique id and registers with the DEB.

    Reference: paper 1, 4.1.1
    """
    neb = Driven(1)
    sent = []
    for _ in range(10):
        neb.take(beat(view(0, 3, 1, 2, 3)))
        sent += neb.tick(1.0)
    assert sent == [Send(3, MemberBeat(HERE, 0, 0))] * 10
    assert neb.machine.state is ClusterRole.NORMAL and not neb.machine.designated
    assert neb.machine.beat_now() == []


def test_the_designated_broker_knows_all_that_have_registered():
    """So the DEB has the information about all NEBs of the cluster.

    Reference: paper 1, 4.1.1
    """
    deb = Driven(3, members=(2, 3))
    assert deb.take(registration(7)) == [MembersChanged(view(0, 3, 2, 3, 7), joined=(7,), left=())]
    assert deb.take(registration(1)) == [MembersChanged(view(0, 3, 1, 2, 3, 7), joined=(1,), left=())]
    assert deb.take(registration(7)) == []
    # One heartbeat announces both, at the next tick.
    assert deb.tick(TICK) == [Multicast(ClusterBeat(view(0, 3, 1, 2, 3, 7), None, (), (), 0))]


def test_a_silent_member_leaves_and_the_beat_says_so():
    """The heartbeat includes the ids of all NEBs, which means the live ones.

    Reference: paper 1, 4.1.1
    """
    deb = Driven(3)
    for _ in range(3):
        deb.take(registration(2))
        assert not any(isinstance(one, MembersChanged) for one in deb.tick(1.0))
    deb.take(registration(2))
    out = deb.tick(TICK)
    assert out[0] == MembersChanged(view(0, 3, 2, 3), joined=(), left=(1,))
    assert out[1:] == [Multicast(ClusterBeat(view(0, 3, 2, 3), None, (), (), 0))]


def test_a_restart_quicker_than_the_detector_is_seen():
    deb = Driven(3)
    assert deb.take(registration(1)) == []
    assert deb.take(registration(1, incarnation=2)) == [
        MembersChanged(view(0, 3, 1, 2, 3), joined=(1,), left=(1,))
    ]
    assert deb.take(registration(1, incarnation=2)) == []
    assert deb.take(registration(1, incarnation=1)) == []  # late, from an earlier incarnation
    assert deb.take(registration(1, incarnation=2)) == []
    assert deb.machine.view.members == (1, 2, 3)


def test_a_restart_before_the_first_registration_is_seen():
    deb = Driven(3)
    assert deb.take(registration(2, incarnation=1)) == [
        MembersChanged(view(0, 3, 1, 2, 3), joined=(2,), left=(2,))
    ]


def test_a_member_that_was_dead_at_the_takeover_and_is_back_before_it_is_missed_joins_anew():
    """The successor still counts it as alive, but it has lost what it was told in its earlier incarnation.

    Reference: paper 1, 4.1.1 (every member has a copy of the table).
    """
    deb = Driven(3, incarnation=1)
    deb.wait()
    assert deb.machine.designated and deb.machine.view.members == (1, 2, 3)
    assert deb.take(registration(1, incarnation=4)) == [], "it was there all the time"
    assert deb.take(registration(2, incarnation=1, introduces=True)) == [
        MembersChanged(view(1, 3, 1, 2, 3), joined=(2,), left=(2,))
    ]
    assert deb.take(registration(2, incarnation=1)) == []


def test_a_member_that_the_beat_leaves_out_registers_at_once():
    neb = Driven(1)
    assert neb.take(beat(view(0, 3, 1, 2, 3))) == []
    assert neb.take(beat(view(0, 3, 2, 3))) == [Send(3, MemberBeat(HERE, 0, 0))]


def test_a_designated_broker_whose_members_are_all_dead_goes_on_alone():
    deb = Driven(3)
    out = deb.tick(30.0)
    assert [one for one in out if not isinstance(one, Multicast)] == [
        MembersChanged(view(0, 3, 3), joined=(), left=(1, 2))
    ]
    assert deb.machine.designated and len(out) >= 30


def test_the_highest_id_takes_over():
    """The NEB with the highest id sets its type to DEB, accepts registrations, and multicasts heartbeats.

    Reference: paper 1, 4.1.1
    """
    neb = Driven(2)
    parent = ClusterView(0, 0, 9, (9,))
    neb.take(beat(view(6, 3, 1, 2, 3), parent=parent, path=(0, HERE), term=2))
    waited, out = neb.wait()
    assert waited == 3.0 + TICK
    assert out == [
        TookOver(view(7, 2, 1, 2)),
        Multicast(ClusterBeat(view(7, 2, 1, 2), parent, (), (0, HERE), 2)),
    ]
    assert neb.machine.designated
    assert neb.take(registration(1, epoch=7)) == []
    assert neb.machine.view == view(7, 2, 1, 2)


def test_the_others_register_with_the_highest_id():
    """All NEBs choose the NEB with the highest id as the new DEB, and register with it again.

    Reference: paper 1, 4.1.1
    """
    neb = Driven(1)
    neb.take(beat(view(0, 3, 1, 2, 3)))
    waited, out = neb.wait()
    assert (waited, out) == (3.0 + TICK, [Send(2, MemberBeat(HERE, 0, 0))])
    assert neb.machine.state is ClusterRole.ELECTING and neb.machine.view == view(0, 3, 1, 2, 3)
    assert neb.take(beat(view(1, 2, 1, 2))) == [Send(2, MemberBeat(HERE, 1, 0))]
    assert neb.machine.state is ClusterRole.NORMAL and neb.machine.view == view(1, 2, 1, 2)


def test_when_the_highest_has_failed_too_it_is_the_next_and_so_on():
    """If the highest has failed as well, the others hear no heartbeat and elect the next id, and so on.

    Reference: paper 1, 4.1.1
    """
    neb = Driven(1, members=(1, 2, 3, 4), designated=4)
    neb.take(beat(view(0, 4, 1, 2, 3, 4)))
    steps = [neb.wait() for _ in range(3)]
    assert [round(waited / TICK) for waited, _ in steps] == [13, 13, 13]  # three patiences
    assert [out[0] for _, out in steps] == [
        Send(3, MemberBeat(HERE, 0, 0)),
        Send(2, MemberBeat(HERE, 0, 0)),
        TookOver(view(1, 1, 1)),
    ]


def test_an_election_forgets_who_failed_in_the_one_before():
    neb = Driven(1)
    neb.take(beat(view(0, 3, 1, 2, 3)))
    neb.wait()
    assert neb.awaited == 2
    neb.take(beat(view(1, 2, 1, 2)))
    neb.take(beat(view(1, 2, 1, 2, 3)))  # 3 has come back as a member
    neb.wait()
    assert neb.awaited == 3


def test_a_member_alone_whose_designated_broker_died_takes_over():
    neb = Driven(1, members=(1, 3))
    neb.take(beat(view(0, 3, 1, 3)))
    _, out = neb.wait()
    assert out[0] == TookOver(view(1, 1, 1))


def test_who_has_never_heard_the_designated_broker_gives_it_a_second_wait():
    neb = Driven(2)
    first, _ = neb.wait()
    assert (first, neb.machine.state, neb.awaited) == (3.0 + TICK, ClusterRole.ELECTING, 3)
    second, out = neb.wait()
    assert (second, out[0]) == (3.0 + TICK, TookOver(view(1, 2, 1, 2)))


def test_a_suspect_that_was_only_slow_is_followed_again():
    neb = Driven(1)
    neb.take(beat(view(0, 3, 1, 2, 3)))
    neb.wait()
    assert neb.machine.state is ClusterRole.ELECTING
    assert neb.take(beat(view(0, 3, 1, 2, 3))) == [Send(3, MemberBeat(HERE, 0, 0))]
    assert (neb.machine.state, neb.awaited) == (ClusterRole.NORMAL, 3)


def test_an_adaptive_member_learns_that_its_designated_broker_is_slow():
    neb = Driven(1, recovery=ADAPTIVE)
    suspected = []
    for _ in range(10):
        neb.take(beat(view(0, 3, 1, 2, 3)))
        assert neb.machine.state is ClusterRole.NORMAL
        neb.tick(5.0)  # it beats every 5 s, not every second
        suspected.append(neb.machine.state is ClusterRole.ELECTING)
    assert suspected[0] and not any(suspected[4:])


def test_what_was_learned_of_a_broker_does_not_count_when_it_is_designated_again():
    neb = Driven(1, recovery=ADAPTIVE)
    for epoch, designated in ((0, 3), (1, 2), (2, 3)):
        for _ in range(4):
            neb.take(beat(view(epoch, designated, 1, 2, 3)))
            neb.tick(1.0)
    assert neb.wait()[0] == 3.0 + TICK - 1.0


def test_a_designated_broker_that_was_only_slow_steps_down_and_registers():
    deb = Driven(3)
    out = deb.take(beat(view(1, 2, 1, 2)))
    assert out == [SteppedDown(view(1, 2, 1, 2)), Send(2, MemberBeat(HERE, 1, 0))]
    assert not deb.machine.designated and deb.machine.view == view(1, 2, 1, 2)


@pytest.mark.parametrize(
    ("epoch", "rival", "stays"), [(1, 3, False), (1, 1, True), (0, 3, True), (2, 1, False), (0, 1, True)]
)
def test_the_higher_epoch_wins_then_the_higher_id(epoch, rival, stays):
    neb = Driven(2)
    neb.take(beat(view(0, 3, 1, 2, 3)))
    neb.wait()
    own = neb.machine.view
    assert own == view(1, 2, 1, 2)
    out = neb.take(beat(view(epoch, rival, rival)))
    assert neb.machine.designated is stays
    if stays:
        assert out == [Send(rival, ClusterBeat(own, None, (), (), 0))]
    else:
        assert out[0] == SteppedDown(view(epoch, rival, rival))


def test_a_designated_broker_makes_itself_known_to_another_one_of_its_cluster():
    """And to nobody else: not to itself, not to another cluster, and not if it does not speak for the cluster."""
    speaks, follows, other = machine(3), machine(2), view(1, 7, 7)
    assert speaks.meet(other) == [Send(7, speaks._beat())]
    assert speaks.meet(speaks.view) == follows.meet(other) == []
    assert speaks.meet(ClusterView(other.cluster + 1, 1, 7, (7,))) == []


def test_a_normal_broker_ignores_a_lower_view():
    neb = Driven(1)
    neb.take(beat(view(2, 2, 1, 2)))
    assert neb.take(beat(view(1, 3, 1, 2, 3))) == []
    assert neb.machine.view == view(2, 2, 1, 2)
    neb.wait()
    assert neb.machine.designated and neb.machine.view == view(3, 1, 1)


def test_a_restarted_designated_broker_does_not_disturb_its_successor():
    deb = Driven(3, incarnation=1)
    assert not deb.machine.designated
    assert deb.tick(2.0) == []
    assert deb.take(beat(view(1, 2, 1, 2))) == [Multicast(MemberBeat(HERE, 1, 1, introduces=True))]
    assert deb.machine.view == view(1, 2, 1, 2) and not deb.machine.designated


def test_a_restarted_designated_broker_that_nobody_has_succeeded_takes_over_anew():
    deb = Driven(3, incarnation=1)
    assert (
        deb.take(registration(1, epoch=5)) == []
    )  # the member knows a higher epoch than the restarted broker
    waited, out = deb.wait()
    assert (waited, out[0]) == (3.0 + TICK, TookOver(view(6, 3, 1, 2, 3)))


def test_a_restarted_broker_alone_in_its_cluster_takes_over():
    deb = Driven(3, members=(3,), incarnation=1)
    waited, out = deb.wait()
    assert (waited, out[0]) == (3.0 + TICK, TookOver(view(1, 3, 3)))


def test_a_designated_broker_rises_above_an_epoch_that_a_member_knows():
    deb = Driven(3)
    assert deb.take(registration(1, epoch=5)) == [
        TookOver(view(6, 3, 1, 2, 3)),
        Multicast(ClusterBeat(view(6, 3, 1, 2, 3), None, (), (), 0)),
    ]


def test_a_broker_that_slept_does_not_suspect_the_others():
    neb, deb = Driven(1), Driven(3)
    neb.take(beat(view(0, 3, 1, 2, 3)))
    for each in (neb, deb):
        each.now += 600.0
        out = each.take(Ticked(each.now))
        assert not any(isinstance(one, MembersChanged | TookOver) for one in out)
    assert neb.machine.state is ClusterRole.NORMAL and deb.machine.view.members == (1, 2, 3)


def test_time_that_goes_back_or_stands_still_changes_nothing():
    neb = Driven(1)
    neb.take(Ticked(neb.now - 50.0))
    assert neb.take(Ticked(neb.now - 50.0)) == []


@pytest.mark.parametrize("state", list(ClusterRole))
@pytest.mark.parametrize(
    "event",
    [
        Received(2, Installed(1)),
        Received(2, Probe(HERE)),
        Received("client", Installed(1)),
        Received("client", MemberBeat(HERE, 9, 9)),
        Received(2, MemberBeat(HERE + 1, 9, 9)),
        Received(2, ClusterBeat(ClusterView(HERE + 1, 9, 2, (2,)), None, (), (), 0)),
        Received(
            2, ClusterBeat(ClusterView(HERE, 9, 1, (1, 2)), None, (), (), 0)
        ),  # it names another designated broker than its sender
        Received(
            3, ClusterBeat(ClusterView(HERE, 0, 3, (3,)), None, (), (), 0)
        ),  # its own multicast comes back
    ],
    ids=repr,
)
def test_what_is_not_its_own_is_ignored(state, event):
    driven = Driven(3, incarnation=state is not ClusterRole.DESIGNATED)
    if state is ClusterRole.ELECTING:
        driven = Driven(3, members=(1, 2, 3, 9), incarnation=1)
        driven.wait()
    assert driven.machine.state is state
    before = driven.machine.view
    assert driven.take(event) == []
    assert (driven.machine.state, driven.machine.view) == (state, before)
    assert driven.machine._epoch_seen == 0


def test_every_state_has_a_row_for_each_event_of_its_own():
    for_all = {
        (state, kind) for state in ClusterRole for kind in (Ticked, ClusterBeat, MemberBeat, MemberGone)
    }
    # Nobody can resign in favour of a broker that is already designated.
    assert set(HANDLERS) == for_all | {(ClusterRole.NORMAL, Resign), (ClusterRole.ELECTING, Resign)}


# Whole clusters in virtual time. All times are in heartbeats.

DELAY = 0.3
"""The longest way of a message, when nothing is slow."""
SLOW = 1.5
"""What a slow link adds at most."""
CROSSING = 1.0 + TICK + DELAY + SLOW
"""The longest that two designated brokers that can hear each other both go on: until the next beat has crossed."""


class Cluster:
    """Machines, links and faults: FIFO links hold what cannot pass, and lose it when an end crashes."""

    def __init__(self, seed, size, recovery):
        self.rng = random.Random(seed)
        self.ids = sorted(self.rng.sample(range(20), size))
        self.recovery = recovery
        self.first = self.rng.choice(self.ids) if self.rng.random() < 0.3 else self.ids[-1]
        self.now, self.order, self.heap = 0.0, count(), []
        self.machines, self.lives, self.side = {}, dict.fromkeys(self.ids, 0), dict.fromkeys(self.ids, 0)
        self.inbox, self.held, self.last, self.slow = {}, {}, {}, {}
        self.dying, self.told, self.took, self.news, self.rivals = {}, {}, {}, [], {}
        self.base = {pair: self.rng.uniform(0.01, 0.2) for pair in self.pairs()}
        for broker in self.ids:
            self.start(broker)

    def pairs(self):
        return [(one, other) for one in self.ids for other in self.ids if one != other]

    def at(self, when, what, *args):
        heappush(self.heap, (when, next(self.order), what, args))

    def run(self, until):
        while self.heap and self.heap[0][0] <= until:
            self.now, _, what, args = heappop(self.heap)
            what(*args)
        self.now = until

    # Machines.

    def start(self, broker):
        position = Position(broker, HERE, "", tuple(self.ids), self.first, None, ())
        self.machines[broker] = Succession(position, self.recovery, self.lives[broker])
        self.told[broker] = {"epoch": 0, "designated": self.machines[broker].designated, "members": None}
        self.at(self.now + self.rng.uniform(0, TICK), self.tick, broker, self.lives[broker])

    def tick(self, broker, incarnation):
        if self.lives[broker] == incarnation and broker in self.machines:
            if broker not in self.inbox:
                self.step(broker, Ticked(self.now))
            self.at(self.now + TICK * self.rng.uniform(0.8, 1.2), self.tick, broker, incarnation)

    def step(self, broker, event):
        if broker not in self.machines:
            return
        machine, told = self.machines[broker], self.told[broker]
        before = machine.view
        out = machine.handle(event)
        machine.check()
        assert machine.view.epoch >= before.epoch, "an epoch fell"
        if isinstance(event, Received):
            of = event.message.view if isinstance(event.message, ClusterBeat) else event.message
            told["epoch"] = max(told["epoch"], of.epoch)
        for one in out:
            if not isinstance(one, Send | Multicast):
                self.hear_news(broker, one)
        assert told["designated"] == machine.designated, "what it told the broker is not what it is"
        if machine.designated and told["members"] is not None:
            assert told["members"] == set(machine.view.members)
        sends = [
            (to, one.message)
            for one in out
            if isinstance(one, Send | Multicast)
            for to in (
                [one.to] if isinstance(one, Send) else [other for other in self.ids if other != broker]
            )
        ]
        dies = self.dying.pop(broker, None) if sends else None
        for to, message in sends[:dies]:
            self.send(broker, to, message)
        if dies is not None:
            self.crash(broker)
        self.judge_rivals()

    def hear_news(self, broker, news):
        told = self.told[broker]
        self.news.append((self.now, broker, news))
        if isinstance(news, TookOver):
            pair = (news.view.epoch, broker, self.lives[broker])
            assert pair not in self.took, "the same epoch twice in one incarnation"
            assert told["epoch"] < news.view.epoch, "it took an epoch that it had heard of"
            self.took[pair] = self.now
            told["designated"], told["members"] = True, set(news.view.members)
        elif isinstance(news, SteppedDown):
            told["designated"] = False
        elif told["members"] is not None:
            told["members"] = (told["members"] - set(news.left)) | set(news.joined)

    def judge_rivals(self):
        speaking = [broker for broker in self.machines if self.machines[broker].designated]
        now = {}
        for pair in combinations(speaking, 2):
            if self.side[pair[0]] == self.side[pair[1]] and not set(pair) & set(self.inbox):
                now[pair] = self.rivals.get(pair, self.now)
                assert self.now - now[pair] <= CROSSING, f"{pair} both go on"
        self.rivals = now

    # Links.

    def send(self, source, to, message):
        way = self.base[source, to] + self.rng.uniform(0, 0.1) + self.slow.get((source, to), 0.0)
        arrives = max(self.now + way, self.last.get((source, to), 0.0))
        self.last[source, to] = arrives
        self.at(arrives, self.arrive, source, to, self.lives[source], self.lives[to], message)

    def arrive(self, source, to, source_incarnation, to_incarnation, message):
        if (source_incarnation, to_incarnation) != (self.lives[source], self.lives[to]):
            return  # one of them crashed: the connection is gone
        if self.side[source] != self.side[to]:
            self.held.setdefault((source, to), []).append((source_incarnation, to_incarnation, message))
        elif to in self.inbox:
            self.inbox[to].append(Received(source, message))
        else:
            self.step(to, Received(source, message))

    # Faults.

    def crash(self, broker):
        if broker in self.machines:
            del self.machines[broker]
            self.inbox.pop(broker, None)
            self.dying.pop(broker, None)
            self.lives[broker] += 1

    def restart(self, broker):
        if broker not in self.machines:
            self.start(broker)

    def die_while_sending(self, broker):
        self.dying[broker] = self.rng.randrange(len(self.ids))

    def pause(self, broker):
        if broker in self.machines:
            self.inbox.setdefault(broker, [])

    def wake(self, broker):
        waiting = self.inbox.pop(broker, None)
        if waiting is not None:
            events = [Ticked(self.now), *waiting] if self.rng.random() < 0.5 else [*waiting, Ticked(self.now)]
            for event in events:
                self.step(broker, event)

    def part(self):
        for broker in self.ids:
            self.side[broker] = self.rng.randrange(self.rng.choice((2, 2, 3)))

    def heal(self):
        self.side = dict.fromkeys(self.ids, 0)
        self.rivals = {}
        for (source, to), messages in self.held.items():
            for lives in messages:
                self.at(self.now, self.arrive, source, to, *lives)
        self.held = {}

    def slow_down(self):
        self.slow = {pair: self.rng.uniform(0, SLOW) for pair in self.pairs() if self.rng.random() < 0.5}

    def speed_up(self):
        self.slow = {}

    # What must hold in the end.

    def groups(self):
        sides = {}
        for broker in self.machines:
            sides.setdefault(self.side[broker], []).append(broker)
        return [sorted(group) for group in sides.values()]

    def converged(self):
        for group in self.groups():
            views = {self.machines[broker].view for broker in group}
            speaking = [broker for broker in group if self.machines[broker].designated]
            if len(views) != 1 or len(speaking) != 1:
                return False
            (agreed,) = views
            if (agreed.designated, list(agreed.members)) != (speaking[0], group):
                return False
            if any(self.machines[broker].state is ClusterRole.ELECTING for broker in group):
                return False
        return True

    def run_until_converged(self, bound):
        """Run until converged, at most `bound` heartbeats; return how many it took; then nothing changes."""
        began = self.now
        while not self.converged():
            assert self.now - began <= bound, f"no one view in {bound} heartbeats"
            self.run(self.now + 0.5)
        took = self.now - began
        quiet = len(self.news)
        self.run(self.now + 5.0)
        assert self.converged() and len(self.news) == quiet, "it does not come to rest"
        return took


def bound(size, recovery):
    """Return the maximum number of heartbeats from the last fault until there is one view.

    One patience until the designated broker is missed, one for each candidate that does not answer, one more
    for members that never heard the first broker, one until dead members leave the view, and a few heartbeats
    in transit.
    """
    patience = recovery.suspect_after_seconds * (4 if recovery.detector == "adaptive" else 1)
    return (size + 2) * (patience + TICK) + 4


def draw_faults(cluster):
    """Schedule 2 to 8 faults in 30 heartbeats; return the time of the last one."""
    rng, last = cluster.rng, 0.0

    def at(when, what, *args):
        nonlocal last
        cluster.at(when, what, *args)
        last = max(last, when)

    for _ in range(rng.randint(2, 8)):
        when, later, broker = rng.uniform(0, 30), rng.uniform(0.1, 10), rng.choice(cluster.ids)
        kind = rng.choice(("crash", "crash", "kill designated", "restart", "pause", "part", "slow", "all"))
        if kind == "crash":
            at(when, cluster.die_while_sending if rng.random() < 0.5 else cluster.crash, broker)
        elif kind == "kill designated":
            at(when, lambda: [cluster.crash(one) for one in cluster.ids if is_speaking(cluster, one)])
        elif kind == "restart":
            at(when, cluster.crash, broker)
            at(when + later, cluster.restart, broker)
        elif kind == "pause":
            at(when, cluster.pause, broker)
            at(when + later, cluster.wake, broker)
        elif kind == "part":
            at(when, cluster.part)
            if rng.random() < 0.7:
                at(when + later, cluster.heal)
        elif kind == "slow":
            at(when, cluster.slow_down)
            at(when + later, cluster.speed_up)
        elif rng.random() < 0.3:
            for one in cluster.ids:
                at(when, cluster.crash, one)
                at(when + rng.uniform(0, later), cluster.restart, one)
    return last + SLOW  # plus what is in transit on a slow link


def is_speaking(cluster, broker):
    return broker in cluster.machines and cluster.machines[broker].designated


@pytest.mark.parametrize("seed", seeds(300))
def test_whatever_breaks_each_group_ends_with_one_view(seed):
    rng = random.Random(seed)
    recovery = ADAPTIVE if rng.random() < 0.5 else FIXED
    cluster = Cluster(seed, rng.randint(2, 7), recovery)
    cluster.run(draw_faults(cluster))
    cluster.dying = {}
    epochs = [machine.view.epoch for machine in cluster.machines.values()]
    cluster.run_until_converged(bound(len(cluster.ids), recovery))
    for group in cluster.groups():
        assert cluster.machines[group[0]].view.epoch <= max(epochs, default=0) + len(cluster.ids)


@pytest.mark.parametrize("seed", seeds(60))
def test_of_those_that_die_at_once_the_highest_that_lives_succeeds(seed):
    """The highest live id succeeds, and the epoch grows by one; members that come back later change nothing.

    Reference: paper 1, 4.1.1
    """
    size = 2 + seed % 6
    cluster = Cluster(seed, size, ADAPTIVE if seed % 2 else FIXED)
    assert cluster.run_until_converged(bound=2.0) <= 2.0
    dead = set(cluster.rng.sample(cluster.ids, cluster.rng.randint(1, size - 1))) | {cluster.first}
    alive = sorted(set(cluster.ids) - dead) or [cluster.rng.choice(cluster.ids)]
    dead -= set(alive)
    for broker in dead:
        cluster.at(cluster.now + cluster.rng.uniform(0, 0.2), cluster.crash, broker)
    cluster.run(cluster.now + 0.2)
    cluster.run_until_converged(bound(size, FIXED))
    deaths = len([broker for broker in dead if broker > alive[-1] or broker == cluster.first])
    if cluster.first in dead:
        ((pair, moment),) = cluster.took.items()
        assert pair[:2] == (1, alive[-1])
        assert moment - 7.0 <= deaths * (3.0 + 2 * TICK) + 1.5
    for broker in sorted(dead):
        cluster.at(cluster.now + cluster.rng.uniform(0, 3.0), cluster.restart, broker)
    cluster.run(cluster.now + 3.0)
    cluster.run_until_converged(bound=3.0)
    assert len(cluster.took) == (cluster.first in dead)
    assert sorted(one for _, _, news in cluster.news for one in getattr(news, "joined", ())) == sorted(dead)


def test_the_same_seed_gives_the_same_run():
    news = []
    for _ in range(2):
        cluster = Cluster(11, 5, ADAPTIVE)
        cluster.run(draw_faults(cluster) + 20.0)
        news.append(cluster.news)
    assert news[0] == news[1] and news[0]


def test_a_member_that_is_known_to_be_dead_is_not_waited_for():
    """The next tick acts as if it had been silent for its patience. Reference: paper 1, 4.1.1."""
    successor = Driven(2, members=(1, 2, 3))
    successor.take(beat(view(0, 3, 1, 2, 3)))
    successor.machine.learn_dead(3)
    waited, out = successor.wait()
    assert waited == TICK and successor.machine.designated
    assert out[0] == TookOver(view(1, 2, 1, 2))

    other = Driven(1, members=(1, 2, 3, 4), designated=4)
    other.take(beat(view(0, 4, 1, 2, 3, 4)))
    other.machine.learn_dead(3)  # is no candidate, but not awaited either
    assert other.tick(2.0) and other.awaited == 4
    other.machine.learn_dead(4)
    waited, _ = other.wait()
    assert waited == TICK and other.awaited == 2 and other.machine.state is ClusterRole.ELECTING
    other.machine.learn_dead(2)
    waited, out = other.wait()
    assert waited == TICK and out[0] == TookOver(view(1, 1, 1))


def test_the_designated_broker_drops_a_member_that_is_known_to_be_dead():
    deb = Driven(3)
    for broker in (2, 9, 3):  # a member, a stranger, itself
        deb.machine.learn_dead(broker)
    assert deb.tick(TICK)[0] == MembersChanged(view(0, 3, 1, 3), (), (2,))
    assert not [out for out in deb.tick(2.0) if isinstance(out, MembersChanged)]
    assert deb.take(registration(2, incarnation=1))[0] == MembersChanged(view(0, 3, 1, 2, 3), (2,), ())


def test_who_is_heard_after_all_was_not_dead():
    neb = Driven(2)
    neb.take(beat(view(0, 3, 1, 2, 3)))
    neb.machine.learn_dead(3)
    neb.take(beat(view(0, 3, 1, 2, 3)))
    neb.tick(2.0)
    assert neb.machine.state is ClusterRole.NORMAL and neb.awaited == 3
