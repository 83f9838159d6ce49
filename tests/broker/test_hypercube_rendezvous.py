"""The rendezvous point of a hypercube publishes numbered views (docs/decisions/0017-hypercube.md)."""

import json
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from rayvous.protocol.effects import Received, Ticked
from rayvous.protocol.errors import InputError
from rayvous.protocol.ids import FIRST_ROUND
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.messages.rounds import AskRound
from rayvous.protocol.messages.views import MembershipView, ViewBeat, ViewDied, ViewLeave
from rayvous.recovery.membership.view_registry import ViewRendezvous
from rayvous.routing.schemes.hypercube import Hypercube
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.routing.topologies.cube import Cube

SETTINGS = Recovery(detector="fixed")  # a heartbeat every second, suspicion after three


class Point:
    """A rendezvous point, brokers that send heartbeats, and a clock."""

    def __init__(self, brokers=4, members=1, **changes):
        start = Hypercube.positions(ClusterTree(brokers, members).positions())[0].view
        self.recovery = replace(SETTINGS, **changes).validate()
        self.machine = ViewRendezvous(self.recovery, start)
        self.now = 0.0
        self.machine.handle(Ticked(0.0))
        self.alive = dict.fromkeys(start.born, 0)

    def pass_time(self, seconds):
        """Let time pass with a heartbeat per second; return the published views, each with its receivers."""
        views = {}
        for _ in range(round(seconds * 4)):
            self.now += 0.25
            if self.now == int(self.now):
                for broker, incarnation in self.alive.items():
                    self.beat(broker, incarnation)
            for send in self.machine.handle(Ticked(self.now)):
                views.setdefault(send.message.version, []).append(send.to)
        return views

    def beat(self, broker, incarnation=0, *, version=None, contacts=(), wants_round=False):
        version = self.machine.view.version if version is None else version
        return self.machine.handle(Received(broker, ViewBeat(incarnation, version, contacts, wants_round)))

    @property
    def born(self):
        return self.machine.view.born


def test_while_all_are_heard_the_view_stays():
    point = Point()
    assert point.pass_time(20) == {} and point.machine.view.version == 1


def test_who_is_silent_is_taken_out_and_all_others_hear_of_it():
    point = Point()
    del point.alive[2]
    ((version, receivers),) = point.pass_time(6).items()
    assert version == 2 and receivers == [0, 1, 2, 3], "also who is out: it may live"
    assert list(point.born) == [0, 1, 3]


def test_who_is_known_to_be_dead_is_taken_out_at_once():
    """Reference: decision 0139."""
    point = Point()
    point.pass_time(5)
    views = point.machine.handle(Received(0, ViewDied(2, point.born[2])))
    assert {send.to for send in views} == {0, 1, 2, 3} and list(point.born) == [0, 1, 3]
    assert point.machine.handle(Received(1, ViewDied(2, 1))) == [], "it is known"


@pytest.mark.parametrize(
    ("source", "dead", "born"), [(0, 2, 7), (2, 2, 1), (99, 2, 1), (0, 99, 1)],
    ids=["of another incarnation", "of itself", "of a stranger", "about a stranger"],
)  # fmt: skip
def test_other_news_of_a_death_changes_nothing(source, dead, born):
    point = Point()
    point.pass_time(5)
    assert point.machine.handle(Received(source, ViewDied(dead, born))) == []
    assert point.pass_time(5) == {}


def test_who_was_said_to_be_dead_and_beats_is_taken_in_again():
    point = Point()
    point.pass_time(5)
    point.machine.handle(Received(0, ViewDied(2, point.born[2])))
    point.pass_time(2)
    assert 2 in point.born and point.born[2] > point.born[0]
    assert point.pass_time(5) == {}


def test_who_is_heard_before_the_news_has_an_effect_stays():
    """Views are at least a quarter of a heartbeat apart."""
    point = Point()
    point.pass_time(5)
    point.machine.handle(Received(0, ViewDied(1, point.born[1])))
    point.machine.handle(Received(0, ViewDied(2, point.born[2])))
    point.beat(2)
    point.machine.handle(Ticked(point.now + 1.0))
    assert list(point.born) == [0, 2, 3]


def test_who_beats_and_is_not_in_is_taken_in_near_its_cluster():
    point = Point(8)
    del point.alive[5]
    point.pass_time(6)
    assert 5 not in point.born
    point.alive[5] = 0
    point.pass_time(2)
    assert point.born[5] == point.machine.view.version == 3


def test_a_broker_that_was_started_anew_is_born_anew_at_its_place():
    point = Point()
    before = point.machine.view.labels
    point.alive[2] = 1
    point.pass_time(2)
    assert point.machine.view.labels == before and point.born == {0: 1, 1: 1, 2: 2, 3: 1}
    assert point.beat(2, 0) == [] and point.pass_time(1) == {}, (
        "what its incarnation before had sent says nothing now"
    )


def test_what_comes_up_at_the_same_time_makes_one_view():
    point = Point()
    del point.alive[2], point.alive[3]
    point.alive |= {7: 0, 8: 0}
    views = point.pass_time(8)
    assert len(views) == 2, "two joined, then two were taken out"


def test_a_round_that_is_asked_for_is_a_view_with_the_same_brokers():
    point = Point()
    point.beat(1, wants_round=True)
    point.beat(2, wants_round=True)
    assert list(point.pass_time(0.25)) == [2]
    assert set(point.born.values()) == {1}
    point.beat(1, wants_round=True)
    assert point.pass_time(0.75) == {}, "at most one a heartbeat"
    assert list(point.pass_time(0.25)) == [3]
    point.beat(1, version=2, wants_round=True)
    assert point.pass_time(2) == {}, "it was asked for under a view that is over"


def test_a_beat_with_an_old_view_is_answered_with_the_present_one():
    point = Point()
    point.beat(1, wants_round=True)
    point.pass_time(1)
    (answer,) = point.beat(3, version=1)
    assert answer.to == 3 and answer.message == point.machine.view


def test_after_a_beat_with_a_later_view_the_next_one_is_later_than_that():
    """Only damage, or a rendezvous point that forgot, makes a broker's number later; it would follow no view again."""
    point = Point()
    point.pass_time(3)
    before = point.machine.view
    assert point.beat(2, version=963) == []
    (version, told), *rest = point.pass_time(3).items()
    assert (version, sorted(told), rest) == (964, [0, 1, 2, 3], [])
    assert point.machine.view.members == before.members
    assert point.pass_time(10) == {}, "it is the newest, and stays"


def test_who_leaves_is_out_at_once_and_stays_out_until_it_is_started_anew():
    point = Point()
    point.machine.handle(Received(2, ViewLeave()))
    assert list(point.pass_time(0.5)) == [2]
    assert 2 not in point.born
    assert point.pass_time(5) == {}, "its beats do not bring it back"
    point.alive[2] = 1
    point.pass_time(2)
    assert 2 in point.born


def test_who_leaves_and_has_not_heard_that_it_is_out_is_told_again():
    point = Point()
    point.machine.handle(Received(1, ViewLeave()))
    assert point.beat(1) == [], "it is still in"
    del point.alive[1]
    point.pass_time(1)
    (told,) = point.beat(1, version=1)
    assert told.to == 1 and told.message == point.machine.view and 1 not in told.message.born


def test_the_last_one_stays_in_until_another_comes():
    point = Point()
    point.alive.clear()
    point.pass_time(8)
    assert list(point.born) == [3]
    point.alive[7] = 0
    point.pass_time(8)
    assert list(point.born) == [7]


def test_its_state_is_plain_and_brings_it_back_with_patience_for_all():
    point = Point()
    point.machine.handle(Received(2, ViewLeave()))
    point.alive[1] = 4
    point.pass_time(2)
    state = json.loads(json.dumps(point.machine.state()))
    again = Point()
    again.machine = ViewRendezvous(SETTINGS, MembershipView(1, 0, 1, ()))
    again.machine.restore(state)
    again.alive = {0: 0, 3: 0, 1: 4, 2: 0}
    assert again.machine.view == point.machine.view
    again.now = 100.0
    assert again.pass_time(10) == {}, (
        "nobody is suspected for the time without a rendezvous point, and 2 stays out"
    )


def restarted(point, after):
    """Return a rendezvous point restored from the state of another, `after` seconds later."""
    state = json.loads(json.dumps(point.machine.state()))
    again = Point()
    again.machine = ViewRendezvous(point.recovery, MembershipView(1, 0, 1, ()))
    again.machine.restore(state)
    again.alive, again.now = dict(point.alive), point.now + after
    return again


def repair_window_after(point, seconds):
    """Return the repair window of the next view that is published within `seconds`; None if there is none."""
    views = []
    while not views and seconds > 0:
        before = point.machine.view
        point.pass_time(0.25)
        seconds -= 0.25
        views = [] if point.machine.view is before else [point.machine.view]
    return views[0].repair_window_seconds if views else None


def test_who_is_silent_after_a_restart_may_have_been_since_it_was_heard_before_and_not_for_longer():
    """Otherwise the view without it would repair from the beginning, and report false losses."""
    point = Point(retention_seconds=20.0)
    point.pass_time(200)
    del point.alive[2]
    again = restarted(point, after=7)
    window = repair_window_after(again, 10)
    assert 2 not in again.born
    silent = again.now - 200.0  # at least
    note = point.recovery.retention_seconds / 10  # the maximum age of the note that all were heard
    unnoticed = point.recovery.unnoticed_seconds
    assert silent + unnoticed <= window <= silent + note + 0.25 + unnoticed


def test_who_is_out_when_it_is_started_again_has_been_since_it_was_taken_out():
    point = Point()
    point.pass_time(50)
    del point.alive[2]
    point.pass_time(10)  # last heard at 50 s, removed at 53 s
    again = restarted(point, after=5)
    again.alive[2] = 0
    window = repair_window_after(again, 10)
    assert 2 in again.born
    out = again.now - 50.0
    assert -4.0 <= window - out - point.recovery.unnoticed_seconds <= 0.0


def test_what_the_last_view_was_to_mend_is_mended_by_the_next_too_after_a_restart():
    """That view may not have reached every broker; one that asks gets it, with its age added to the window."""
    point = Point()
    point.pass_time(50)
    wanted = ViewBeat(0, 1, (), True, 40.0)
    point.machine.handle(Received(1, wanted))
    point.pass_time(0.25)
    assert point.machine.view.version == 2
    again = restarted(point, after=2)
    again.pass_time(1)
    (late,) = again.machine.handle(Received(3, ViewBeat(0, 1, (), False)))
    assert late.message.version == 2 and late.message.repair_window_seconds == pytest.approx(
        40.25 + 2.0 + 1.0
    )
    again.beat(1, wants_round=True)
    again.pass_time(0.25)
    assert again.machine.view.version == 3
    assert again.machine.view.repair_window_seconds == pytest.approx(40.25 + 2.0 + 1.25)


def test_a_clock_that_went_back_over_a_restart_keeps_no_view_back():
    point = Point()
    point.pass_time(49)
    point.beat(1, wants_round=True)
    point.pass_time(1)
    del point.alive[2]
    again = restarted(point, after=-45)
    window = repair_window_after(again, 5)
    assert (
        window is not None and 0.0 <= window - point.recovery.unnoticed_seconds <= 5.0 and 2 not in again.born
    )


@pytest.mark.parametrize(
    "state", [{}, {"version": "x"}, {"version": 1, "dimensions": 0, "cluster_max": 1, "seats": [[1]]}]
)
def test_a_state_that_it_has_not_written_is_refused(state):
    with pytest.raises(InputError, match="not one that it has written"):
        Point().machine.restore(state)


def test_what_is_not_for_it_leads_to_nothing():
    point = Point()
    assert point.machine.handle(Received(1, AskRound(FIRST_ROUND))) == []
    assert point.machine.handle(Received(99, ViewLeave())) == []
    assert point.machine.handle(Received("client", ViewBeat(0, 1, (), True))) == []
    assert point.pass_time(2) == {}


class Growth(RuleBasedStateMachine):
    """Brokers join, leave, crash, return and restart, and the rendezvous point is restarted.

    After each of these, once it is quiet, exactly the living brokers are in the view, and the cube is well
    formed: it has no more dimensions than it needs, node clusters are even in size and not too large, and a
    broadcast from any broker reaches every broker once.
    """

    @initialize(
        clusters=st.integers(1, 5), members=st.integers(1, 3), cluster_max=st.sampled_from([None, 1, 2, 4])
    )
    def build(self, clusters, members, cluster_max):
        self.cluster_max = cluster_max or members
        self.point = Point(clusters, members, node_cluster_max=cluster_max)
        self.lives = dict(self.point.alive)
        self.changed = False
        self.version = 1

    def quiet(self, *, regrouped=True):
        self.changed |= regrouped
        self.point.pass_time(6)
        view = self.point.machine.view
        assert set(view.born) == set(self.point.alive)
        assert view.version >= self.version and max(view.born.values()) <= view.version
        self.version = view.version
        self.check_cube(view)

    def check_cube(self, view):
        cube, count = Cube(view.dimensions, view.labels), len(view.members)
        assert not view.dimensions or count > 1 << (view.dimensions - 1)
        assert not self.changed or self.is_even(cube)
        for start in view.labels:
            reached, ways = [start], [(start, None)]
            for here, source in ways:
                for other in cube.onwards(here, source):
                    reached.append(other)
                    ways.append((other, here))
            assert sorted(reached) == sorted(view.labels), "each once"

    def is_even(self, cube):
        sizes = [0] * (1 << cube.dimensions)
        for broker in cube.labels:
            sizes[cube.vertex(broker)] += 1
        return max(sizes) <= self.cluster_max and max(sizes) - min(sizes) <= 1

    def pick(self, number):
        return sorted(self.point.alive)[number % len(self.point.alive)]

    @rule(number=st.integers(0, 99), count=st.integers(1, 3))
    def join(self, number, count):
        contact = self.pick(number)
        for broker in range(len(self.lives), len(self.lives) + count):
            self.lives[broker] = self.point.alive[broker] = 0
            self.point.beat(broker, version=0, contacts=(contact,))
        self.quiet()

    @precondition(lambda self: len(self.point.alive) > 1)
    @rule(number=st.integers(0, 99))
    def leave(self, number):
        broker = self.pick(number)
        self.point.machine.handle(Received(broker, ViewLeave()))
        del self.point.alive[broker]
        self.quiet()

    @precondition(lambda self: len(self.point.alive) > 2)
    @rule(numbers=st.lists(st.integers(0, 99), min_size=1, max_size=3))
    def die(self, numbers):
        for number in numbers[: len(self.point.alive) - 1]:
            del self.point.alive[self.pick(number)]
        self.quiet()

    @precondition(lambda self: len(self.point.alive) < len(self.lives))
    @rule(number=st.integers(0, 99))
    def reattach(self, number):
        gone = sorted(self.lives.keys() - self.point.alive.keys())
        broker = gone[number % len(gone)]
        self.lives[broker] += 1
        self.point.alive[broker] = self.lives[broker]
        self.quiet()

    @rule(number=st.integers(0, 99))
    def come_back_before_anybody_notices(self, number):
        broker = self.pick(number)
        self.lives[broker] += 1
        self.point.alive[broker] = self.lives[broker]
        self.quiet(regrouped=False)
        assert self.point.born[broker] == self.version

    @rule()
    def start_the_rendezvous_point_again(self):
        state = json.loads(json.dumps(self.point.machine.state()))
        self.point.machine = ViewRendezvous(self.point.recovery, MembershipView(1, 0, 1, ()))
        self.point.machine.restore(state)
        self.point.machine.handle(Ticked(self.point.now))
        assert self.point.machine.view.version == self.version
        self.quiet(regrouped=False)


TestGrowth = Growth.TestCase
TestGrowth.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
