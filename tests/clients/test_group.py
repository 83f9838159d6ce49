"""A consumer group decides which worker gets which event: beside a reference that keeps nothing but a list."""

from collections.abc import Hashable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.clients.group import Given, GroupMachine, GroupProgress, Hold, Token
from rayvous.clients.group_worker import WorkerMachine
from rayvous.faults.checker.groups import (
    Acknowledged,
    Came,
    Claimed,
    Gave,
    GaveUp,
    GroupRecord,
    LostIt,
    Record,
    group_violations,
)
from rayvous.protocol.groups import GroupConfig
from rayvous.protocol.messages.pubsub import Lost

CONFIG = GroupConfig("workers", ack_seconds=10.0, deliveries_max=3, unacknowledged_max=4, silent_seconds=30.0)


def machine_of(*keys: Hashable | None, config: GroupConfig = CONFIG) -> GroupMachine:
    """Return a group with events 1, 2, ... of publisher p, which have these keys."""
    machine = GroupMachine(config)
    for number, key in enumerate(keys, 1):
        assert machine.take("p", number, key)
    return machine


def holding(*numbers: int, key: Hashable | None = None, token: Token = (0, 1)) -> dict[tuple[str, int], Hold]:
    """Return what a worker says that it holds of p."""
    return {("p", number): Hold(key, token) for number in numbers}


def got(machine: GroupMachine, name: str, now: float = 0.0) -> list[int]:
    machine.hear(name, now)
    found = [each.sequence for each in machine.give(name, now)]
    machine.check()
    return found


def test_each_event_goes_to_one_worker_within_what_it_may_hold() -> None:
    machine = machine_of(*[None] * 10)
    assert got(machine, "a") == [1, 2, 3, 4] and got(machine, "b") == [5, 6, 7, 8] and got(machine, "a") == []
    assert machine.acknowledge("a", ("p", 2), 0.0) and got(machine, "a") == [9]
    assert machine.workers == {"a": 4, "b": 4} and len(machine) == 9


def test_events_of_a_key_stay_with_a_worker_while_it_holds_some() -> None:
    machine = machine_of("x", "y", "x", "x", "y", "x", config=GroupConfig("w", unacknowledged_max=2))
    assert got(machine, "a") == [1, 3], "the rest of x waits for a"
    assert got(machine, "b") == [2, 5] and got(machine, "c") == []
    machine.acknowledge("a", ("p", 1), 0.0)
    assert got(machine, "c") == [] and got(machine, "a") == [4]
    for number in (3, 4):
        machine.acknowledge("a", ("p", number), 0.0)
    assert got(machine, "c") == [6], "a holds no x any more"


def test_what_a_worker_did_not_get_it_cannot_acknowledge() -> None:
    machine = machine_of(None, None)
    assert got(machine, "a") == [1, 2]
    for event in (("p", 3), ("q", 1)):
        assert not machine.acknowledge("a", event, 0.0) and machine.refuse("a", event, 0.0) is None
    assert not machine.acknowledge("b", ("p", 1), 0.0)
    assert machine.acknowledge("a", ("p", 1), 0.0) and not machine.acknowledge("a", ("p", 1), 0.0)


def test_a_refused_event_comes_again_after_its_delay_and_before_what_is_behind_it() -> None:
    machine = machine_of("x", "x", "y", "x")
    assert got(machine, "a") == [1, 2, 4, 3]
    assert machine.refuse("a", ("p", 2), 5.0, 3.0) == [("p", 2), ("p", 4)]
    assert got(machine, "a", 7.9) == [] and got(machine, "b", 8.1) == [], "a holds the first of x"
    machine.acknowledge("a", ("p", 1), 6.0)
    machine.hear("b", 8.1)
    assert machine.give("b", 8.1) == [Given("p", 2, 2), Given("p", 4, 1)]


def test_an_event_that_is_refused_too_often_is_given_up_with_the_reason() -> None:
    machine = machine_of("x", "x")
    for _ in range(3):
        assert got(machine, "a") == [1, 2]
        machine.refuse("a", ("p", 1), 0.0)
    (letter,) = machine.given_up
    assert (letter.publisher, letter.sequence) == ("p", 1)
    assert letter.reason == "deliveries: 3, and at the last one worker 'a' refused it"
    assert machine.take("p", 3, "x") and machine.take("p", 4, "y") and len(machine) == 3
    assert got(machine, "b") == [4], (
        "a process that dies now gives 1 again: nothing of its key goes before it"
    )
    machine.buried(("p", 1))
    assert machine.position == {"p": 1} and got(machine, "b") == [2, 3]


def test_who_is_silent_or_stands_still_loses_what_it_holds_and_is_told() -> None:
    machine = machine_of(*[None] * 3)
    assert got(machine, "dies") == [1, 2, 3]
    machine.tick(30.0 - 20.1 + 0.05)
    assert machine.workers == {"dies": 3}
    machine.acknowledge("dies", ("p", 1), 8.0)
    machine.tick(18.1)  # ten seconds after it acknowledged
    assert machine.workers == {"dies": 0}
    machine.hear("dies", 19.0, asks=False)
    assert machine.withdraw("dies") == [("p", 2), ("p", 3)], "it stands still, and is told"
    assert machine.give("dies", 19.0) == [] and not machine.acknowledge("dies", ("p", 2), 19.0)
    assert got(machine, "dies", 20.0) == [2], "it asks for an event, and gets a suspect alone"
    machine.tick(50.1)
    assert machine.workers == {} and got(machine, "b", 50.1) == [2]


def test_an_event_that_its_worker_passed_over_is_given_again_with_what_is_behind_it_of_its_key() -> None:
    machine = machine_of(
        "x",
        "y",
        "x",
        "z",
        "y",
        config=GroupConfig("w", ack_seconds=10.0, unacknowledged_max=9, silent_seconds=99.0),
    )
    assert got(machine, "a") == [1, 3, 2, 5, 4]
    for number, now in ((2, 4.0), (5, 8.0)):
        assert machine.acknowledge("a", ("p", number), now)
    machine.tick(10.0)
    assert machine.workers == {"a": 3}
    machine.tick(10.1)
    assert machine.withdraw("a") == [("p", 1), ("p", 3)], "3 was given before 2, and would be next"
    machine.check()
    assert got(machine, "b", 10.1) == [1, 3] and machine.give("b", 10.1) == []
    machine.tick(18.0)
    assert machine.workers == {"a": 1, "b": 2}, "4 has its time since 5"
    assert not machine.acknowledge("a", ("p", 1), 18.0)
    machine.tick(18.1)
    assert machine.withdraw("a") == [("p", 4)] and machine.give("a", 18.1) == [], "it stood still"
    assert got(machine, "a", 18.1) == [4]


def test_an_event_that_fails_again_and_again_is_a_dead_letter_while_others_go_on() -> None:
    machine, now = machine_of(None), 0.0
    for number in range(2, 40):
        machine.take("p", number)
        for each in got(machine, "a", now):
            assert each == 1 or machine.acknowledge("a", ("p", each), now)
        now += 1.0
        machine.hear("a", now)
        machine.tick(now)
    (letter,) = machine.given_up
    assert (letter.sequence, letter.reason) == (
        1,
        "deliveries: 3, and at the last one worker 'a' passed over it for 10 s",
    )
    machine.buried(("p", 1))
    assert machine.position == {"p": 39}


def test_of_those_that_a_dead_worker_held_only_the_culprit_is_given_up() -> None:
    machine = machine_of(*[None] * 8)
    now, culprit, acknowledged = 0.0, 3, set[int]()
    for life in range(40):
        name = f"w{life}"
        for number in got(machine, name, now):
            if number == culprit:
                break  # it dies of it
            machine.acknowledge(name, ("p", number), now)
            acknowledged.add(number)
        now += 30.1
        machine.tick(now)
    assert [letter.sequence for letter in machine.given_up] == [culprit]
    assert acknowledged == {1, 2, 4, 5, 6, 7, 8}


def test_what_a_worker_gives_back_when_it_leaves_was_not_delivered() -> None:
    machine = machine_of("x", "x")
    for _ in range(5):
        assert got(machine, "a") == [1, 2]
        machine.leave("a")
    machine.hear("b", 0.0)
    assert machine.give("b", 0.0) == [Given("p", 1, 1), Given("p", 2, 1)] and not machine.given_up


def test_a_later_process_gives_nothing_again_that_was_acknowledged_and_hears_what_workers_hold() -> None:
    machine = machine_of(*"xyxyx")
    assert got(machine, "a") == [1, 3, 5, 2]
    machine.acknowledge("a", ("p", 3), 0.0)
    machine.acknowledge("a", ("p", 1), 0.0)
    machine.acknowledge("a", ("p", 2), 0.0)
    kept = machine.progress()
    assert (kept.position, kept.done, kept.tries) == ({"p": 3}, {}, {("p", 5): 1})
    machine.refuse("a", ("p", 5), 0.0)
    again = GroupMachine(CONFIG, kept.position, {"p": [(5, 5)]}, kept.tries, opens_at=10.0)
    assert again.claim("a", holding(4, key="y") | holding(5, key="x") | holding(2, key="y"), 1.0) == [
        ("p", 5),
        ("p", 2),
    ]
    assert [again.take("p", number, "xyxyx"[number - 1]) for number in range(1, 6)] == [False] * 3 + [
        True,
        False,
    ]
    assert got(again, "b", 5.0) == [], "workers say first what they hold"
    again.check()
    assert got(again, "b", 10.0) == [] and again.claim("b", holding(4, key="y"), 10.0) == [("p", 4)]
    assert again.acknowledge("a", ("p", 4), 11.0) and again.position == {"p": 5}


def test_an_acknowledgement_of_what_has_not_come_again_yet_counts() -> None:
    again = GroupMachine(CONFIG, {"p": 3}, {}, {}, opens_at=10.0)
    assert again.claim("a", holding(4), 1.0) == [] and again.acknowledge("a", ("p", 4), 2.0)
    assert again.progress() == GroupProgress({"p": 3}, {"p": [(4, 4)]}, {})
    assert not again.take("p", 4) and again.progress().position == {"p": 3}, (
        "some worker may hold what is between"
    )
    again.tick(10.0)
    assert again.progress() == GroupProgress({"p": 4}, {}, {})


def test_what_never_comes_again_is_forgotten_when_the_position_passes_it() -> None:
    """A broker gave it up meanwhile."""
    again = GroupMachine(CONFIG, {"p": 1}, {"p": [(3, 3)]}, {("p", 2): 1, ("p", 4): 2}, opens_at=10.0)
    assert again.claim("a", holding(4), 1.0) == []
    assert again.take("p", 5) and got(again, "b", 10.0) == [5]
    assert again.acknowledge("b", ("p", 5), 10.0)
    tries = {("p", 2): 1, ("p", 4): 2}
    assert again.progress() == GroupProgress({"p": 1}, {"p": [(3, 3), (5, 5)]}, tries), (
        "a worker still holds 4"
    )
    assert again.acknowledge("a", ("p", 4), 11.0)
    assert again.progress() == GroupProgress({"p": 5}, {}, {})


def later(
    *numbers: int, key: Hashable | None = "x", tries: dict[tuple[str, int], int] | None = None
) -> GroupMachine:
    """Return a later process of a group, which opens at 10, and to which these events of p came."""
    again = GroupMachine(CONFIG, {}, {}, tries, opens_at=10.0, process=9)
    for number in numbers:
        assert again.take("p", number, key)
    return again


def test_those_behind_what_a_worker_holds_wait_for_it_also_if_it_never_comes_again() -> None:
    """It has expired, or its broker gave it up. Its worker says before or after the others have come that it has it."""
    for first in ((), (3, 4)):
        again = later(*first)
        assert again.claim("a", holding(1, 2, key="x"), 1.0) == []
        for number in (3, 4):
            assert number in first or again.take("p", number, "x")
        again.check()
        assert got(again, "b", 10.0) == [], "they go to a only"
        assert again.acknowledge("a", ("p", 1), 10.0) and got(again, "b", 10.0) == []
        assert got(again, "a", 10.0) == [3, 4] and again.workers == {"a": 3, "b": 0}
        again.leave("a", "died")
        assert again.workers == {"b": 0} and len(again) == 2, "nobody has 2 any more"
        again.check()
        assert got(again, "b", 10.0) == [3]


def test_what_has_come_and_must_be_given_before_is_not_passed_over_by_what_a_worker_says() -> None:
    again = later(1, 2, 4)
    assert again.claim("a", holding(2, 5, key="x"), 1.0) == [("p", 2), ("p", 5)]
    again.check()
    assert again.claim("b", {("q", 7): Hold("x", (0, 1))}, 1.0) == [], "of another publisher nobody knows"
    again.check()
    assert again.acknowledge("b", ("q", 7), 2.0) and got(again, "a", 10.0) == [1, 2, 4]


def test_who_was_given_it_last_has_it_whoever_says_so_first() -> None:
    """The other one was taken for dead by an earlier process. It is told, and what is behind is taken from it, too."""
    for stale, right in [((1, 8), (1, 9)), ((1, 900), (2, 3))]:
        again = later(1, 2, 3)
        assert again.claim("stale", holding(1, 2, key="x", token=stale), 1.0) == []
        assert again.claim("right", holding(1, key="x", token=right), 1.0) == []
        assert again.withdraw("stale") == [("p", 1), ("p", 2)] and not again.acknowledge(
            "stale", ("p", 1), 1.0
        )
        again.check()
        assert got(again, "stale", 10.0) == [] and got(again, "right", 10.0) == [2, 3]
        again = later(1)
        assert again.claim("right", holding(1, key="x", token=right), 1.0) == []
        refused = again.claim("stale", holding(1, 2, key="x", token=stale), 1.0)
        assert refused == [("p", 1), ("p", 2)] and again.workers == {"right": 1, "stale": 0}
        again.check()


def test_each_time_that_an_event_is_given_its_token_rises_over_processes_too() -> None:
    tokens = []
    for process in (1, 2):
        machine = GroupMachine(CONFIG, process=process)
        for name in ("a", "b") * process:
            machine.take("p", 1, "x")
            machine.hear(name, 0.0)
            (given,) = machine.give(name, 0.0)
            assert given.hold.key == "x"
            tokens.append(given.hold.token)
            machine.leave(name)
    assert tokens == sorted(set(tokens))


def test_what_a_worker_holds_is_believed_in_the_order_in_which_it_was_given() -> None:
    worker = WorkerMachine[int]()
    for number, turn in (
        (2, 1),
        (1, 2),
        (2, 3),
    ):  # the first copy of 2 was refused, and its worker does not know yet
        worker.come(("p", number), number, Hold("x", (1, turn)))
    assert list(worker.held) == list(worker.holds) == [("p", 1), ("p", 2)]
    for said in (worker.holds, dict(reversed(worker.holds.items()))):
        again = later(1, 2)
        assert again.claim("a", said, 1.0) == []
        again.check()
        assert got(again, "a", 10.0) == [], "nothing of x waits"


def test_what_is_given_up_and_those_behind_it_are_nobodys_whatever_workers_say() -> None:
    again = later(1, 2, tries={("p", 1): 3})
    assert again.claim("a", holding(1, key="x", token=(0, 2)), 1.0) == []
    assert again.refuse("a", ("p", 1), 1.0) == [("p", 1)] and len(again.given_up) == 1
    assert again.claim("b", holding(1, 2, key="x"), 1.0) == [("p", 1), ("p", 2)]
    again.check()
    again.buried(("p", 1))
    assert got(again, "b", 10.0) == [2]
    again = later(1, key=None, tries={("p", 1): 3})
    assert again.claim("a", holding(1), 1.0) == [] and again.refuse("a", ("p", 1), 1.0) == [("p", 1)]
    assert again.claim("b", holding(1), 1.0) == [("p", 1)]


def test_what_a_worker_held_that_never_came_is_forgotten_when_it_is_lost_and_the_position_has_passed_it() -> (
    None
):
    again = later()
    assert again.claim("a", holding(1, 2, key="x"), 1.0) == []
    assert again.refuse("a", ("p", 2), 1.0) == [("p", 2)]
    again.leave("a", "died")
    assert again.take("p", 3, "x") and got(again, "b", 10.0) == [3] and again.acknowledge("b", ("p", 3), 10.0)
    assert again.progress() == GroupProgress({"p": 3}, {}, {}) and not again._suspects


def test_a_line_that_is_kept_for_a_worker_has_its_delay_too() -> None:
    machine = machine_of(None, config=GroupConfig("w", ack_seconds=10.0, silent_seconds=99.0))
    assert got(machine, "a") == [1]
    machine.tick(10.1)
    assert machine.take("p", 2)
    machine._ready.move_to_end(next(iter(machine._ready)))  # the suspect comes after what is not one
    assert got(machine, "b", 10.1) == [2], "1 is kept for it, alone"
    line = machine._workers["b"].saving
    assert line is not None
    line.until = 20.0
    machine.acknowledge("b", ("p", 2), 17.0)
    assert got(machine, "b", 19.0) == [] and got(machine, "b", 20.0) == [1]


@dataclass
class Dumb:
    """The reference: the state of each event, in one list, looked through at each question."""

    config: GroupConfig
    events: list[tuple[tuple[str, int], Hashable | None]] = field(default_factory=list)
    state: dict[tuple[str, int], str] = field(
        default_factory=dict
    )  # "waiting", "dying", "over", or the worker that holds it
    until: dict[object, float] = field(default_factory=dict)

    def may_get(self, name: str, now: float) -> list[tuple[str, int]]:
        """Return every event that this worker may get next, in order."""
        found = []
        for place, (event, key) in enumerate(self.events):
            if self.state[event] != "waiting" or self.until.get(event if key is None else key, 0.0) > now:
                continue
            earlier = [before for before, other in self.events[:place] if key is not None and other == key]
            if all(self.state[before] in ("over", name) for before in earlier):
                found.append(event)
        return found


STEP = st.one_of(
    st.tuples(st.just("take"), st.sampled_from("pq"), st.sampled_from([None, "x", "y"])),
    st.tuples(st.just("give"), st.sampled_from("abc"), st.booleans()),
    st.tuples(st.just("acknowledge"), st.sampled_from("abc"), st.integers(0, 5)),
    st.tuples(st.just("refuse"), st.sampled_from("abc"), st.integers(0, 5)),
    st.tuples(st.just("leave"), st.sampled_from("abc"), st.sampled_from(["", "died"])),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 11.0, 31.0]), st.none()),
    st.tuples(st.just("bury"), st.none(), st.none()),
    st.tuples(
        st.just("restart"),
        st.sampled_from(["abc", "bca", "cb", "a", ""]),
        st.sampled_from([(), (0,), (0, 1, 2)]),
    ),
)


class Run:
    """A group, the reference beside it, and the record of both."""

    def __init__(self, config: GroupConfig) -> None:
        self.machine, self.dumb, self.now = GroupMachine(config), Dumb(config), 0.0
        self.records: list[Record] = []
        self.last = dict.fromkeys("pq", 0)
        self.processes = 0
        # What each worker's process believes that it holds, and what no process of the group gets again.
        self.has: dict[str, dict[tuple[str, int], Hold]] = {name: {} for name in "abc"}
        self.gone: set[tuple[str, int]] = set()

    def sync(self) -> None:
        """Record what workers have lost since."""
        for event, holder in list(self.dumb.state.items()):
            if holder in self.has and not self.machine.holds(holder, event):
                self.dumb.state[event] = "over" if event in self.gone else "waiting"
                self.records.append(LostIt(holder, event))
        for letter in self.machine.given_up:
            self.dumb.state[letter.publisher, letter.sequence] = "dying"

    def bury(self) -> None:
        while self.machine.given_up:
            letter = self.machine.given_up.popleft()
            event = letter.publisher, letter.sequence
            self.dumb.state[event] = "over"
            self.records.append(GaveUp(event))
            self.machine.buried(event)

    def drop(self, name: str, events: list[tuple[str, int]]) -> None:
        for event in events:
            self.has[name].pop(event, None)

    def claim(self, name: str, in_time: bool) -> None:
        """Let a worker that is not known say what it holds, and drop what is not its own."""
        said = self.has[name]
        foreign = self.machine.claim(name, said, self.now)
        for event in said if in_time else ():
            self.records.append(Claimed(name, event, event not in foreign))
            if event not in foreign:
                self.dumb.state[event] = name
        self.drop(name, foreign)

    def give(self, name: str, asks: bool) -> None:
        if not self.machine.knows(name):
            self.claim(name, in_time=False)
        self.machine.hear(name, self.now, asks=asks)
        self.drop(name, self.machine.withdraw(name))
        for each in self.machine.give(name, self.now):
            event = each.publisher, each.sequence
            assert event in self.dumb.may_get(name, self.now), (name, event)
            self.dumb.state[event] = name
            self.has[name][event] = each.hold
            self.records.append(Gave(name, event, each.deliveries))

    def held(self, name: str) -> list[tuple[str, int]]:
        return [event for event, holder in self.dumb.state.items() if holder == name]

    def acknowledge(self, name: str, event: tuple[str, int]) -> None:
        assert self.machine.acknowledge(name, event, self.now)
        self.dumb.state[event] = "over"
        self.drop(name, [event])
        self.records.append(Acknowledged(name, event))

    def step(self, what: str, given: str | float, more: object) -> None:
        machine = self.machine
        if what == "take":
            self.last[given] += 1 + len(self.dumb.events) % 2  # other events are not of the subscription
            event = given, self.last[given]
            self.dumb.events.append((event, more))
            self.dumb.state[event] = "waiting"
            assert machine.take(*event, more) and not machine.take(*event, more)
        elif what == "give":
            self.give(given, bool(more))
        elif what in ("acknowledge", "refuse") and self.held(given):
            held = self.held(given)
            event = held[more % len(held)]
            if what == "acknowledge":
                self.acknowledge(given, event)
            else:
                key = dict(self.dumb.events)[event]
                withdrawn = machine.refuse(given, event, self.now, 2.0)
                assert withdrawn is not None and withdrawn[0] == event
                self.dumb.until[event if key is None else key] = self.now + 2.0
                self.drop(given, withdrawn)
                self.sync()
                assert all(self.dumb.state[each] != given for each in withdrawn)
        elif what == "leave":
            machine.leave(given, more)  # "died" is what the group thinks: the process may only have been slow
            if not more:
                self.has[given].clear()
        elif what == "wait":
            self.now += given
            machine.tick(self.now)
        elif what == "bury":
            self.bury()
        elif what == "restart":
            self.restart(given, more)
        self.sync()
        self.machine.check()
        over = [event for event, state in self.dumb.state.items() if state in ("dying", "over")]
        assert len(self.machine) == len(self.dumb.events) - len(over)

    def restart(self, who_returns: str, lost: tuple[int, ...]) -> None:
        """Let a later process begin: these workers say in this order what they hold, and some events never come."""
        kept = self.machine.progress()
        self.processes += 1
        opens = self.now + 5.0
        self.machine = GroupMachine(
            self.dumb.config, kept.position, kept.done, kept.tries, opens, self.processes
        )
        self.dumb.until.clear()
        left = [event for event, _ in self.dumb.events if self.dumb.state[event] != "over"]
        self.gone.update(event for place, event in enumerate(left) if place in lost)
        for event in left:
            if self.dumb.state[event] == "dying" or (
                event in self.gone and self.dumb.state[event] == "waiting"
            ):
                self.dumb.state[event] = "over" if event in self.gone else "waiting"
        rightful = {event: self.dumb.state[event] for event in left}
        half = len(self.dumb.events) // 2
        for place, (event, key) in enumerate([*self.dumb.events, (("", 0), None)]):
            if place == half:
                for name in who_returns:
                    self.claim(name, in_time=True)
            if event[1] and event not in self.gone:
                self.machine.take(*event, key)
        for event, name in rightful.items():
            assert name not in who_returns or name not in self.has or self.machine.holds(name, event)
        self.now = opens


@settings(max_examples=300)
@given(st.lists(STEP, max_size=60), st.sampled_from([1, 2, 4]))
def test_it_gives_what_the_reference_allows_and_in_the_end_everything(
    steps: list[tuple[str, str | float, object]], most: int
) -> None:
    run = Run(
        GroupConfig("w", ack_seconds=10.0, deliveries_max=3, unacknowledged_max=most, silent_seconds=30.0)
    )
    for step in steps:
        run.step(*step)
    for _ in range(8 * len(run.dumb.events) + 8):
        run.now += 3.0
        for name in "ab":
            run.give(name, True)
            for event in run.held(name):
                run.acknowledge(name, event)
        run.machine.tick(run.now)
        run.sync()
        run.bury()
    keys = {event: key for event, key in run.dumb.events if key is not None}
    events = [event for event, _ in run.dumb.events]
    told = [Lost(publisher, number, number) for publisher, number in run.gone]
    assert group_violations(run.records, events, keys, deliveries_max=3, told=told) == []
    assert not len(run.machine) and run.machine.outstanding == 0
    if not run.gone:  # what never comes again the position passes later, or not
        assert run.machine.position == {name: last for name, last in run.last.items() if last}
        assert run.machine.progress().done == {} and run.machine.progress().tries == {}


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([Gave("a", ("p", 1)), Gave("b", ("p", 1))], "one holder"),
        ([Gave("a", ("p", 1)), Acknowledged("a", ("p", 1)), Gave("a", ("p", 1))], "never again"),
        ([Gave("a", ("p", 1)), Gave("b", ("p", 2))], "in order"),
        ([Gave("a", ("p", 1)), LostIt("a", ("p", 1)), Gave("a", ("p", 2))], "in order"),
        ([Gave("a", ("p", 2)), Gave("b", ("p", 1))], "one at a time"),
        ([Gave("a", ("p", 1)), Claimed("b", ("p", 1)), Claimed("a", ("p", 1), False)], "in vain: a"),
        ([Gave("a", ("p", 1)), Claimed("a", ("p", 1), False)], "in vain: a said in time"),
        ([Claimed("b", ("p", 1)), Gave("a", ("p", 2))], "in order"),
        (
            [Came(("p", 2)), Gave("a", ("p", 2)), Came(("p", 1)), Came(("p", 2)), Gave("b", ("p", 2))],
            "in order",
        ),
        ([Gave("a", ("p", 1)), GaveUp(("p", 1))], "given up late"),
        ([Gave("a", ("p", 1)), Acknowledged("a", ("p", 1))], "complete: ('p', 2)"),
    ],
)
def test_the_conditions_notice_what_is_against_them(records: list[Record], said: str) -> None:
    events = [("p", 1), ("p", 2)]
    found = group_violations(records, events, dict.fromkeys(events, "x"), deliveries_max=2)
    assert any(said in each for each in found), found


def test_what_came_before_a_cancellation_need_not_come_again() -> None:
    """A later process of the group is not given what only a cancelled subscription wanted."""
    record = GroupRecord()
    record.came(("p", 1), None, [1])
    record.came(("p", 2), None, [1, 2])
    record.came(("p", 3), None, [1, 2])
    record.wants({2: {"p": 2}})
    record.came(("p", 4), None, [2])
    record.came(("p", 5), None, [])
    assert record.violations(3) == ["complete: ('p', 3) is left", "complete: ('p', 4) is left"]


def test_what_expires_while_it_waits_is_done_and_lets_those_behind_it_go() -> None:
    machine = GroupMachine(CONFIG)
    for number, until in ((1, 5.0), (2, 5.0), (3, None), (4, 50.0)):
        assert machine.take("p", number, "key", until)
    machine.hear("a", 0.0)
    assert [each.sequence for each in machine.give("a", 0.0, 1)] == [1]
    assert machine.expire(6.0) == [("p", 2)], "what a worker holds is that worker's"
    machine.check()
    assert machine.expire(6.0) == [] and got(machine, "b", 6.0) == [], "the key is at a"
    assert machine.refuse("a", ("p", 1), 6.0) == [("p", 1)]
    assert machine.expire(6.0) == [("p", 1)] and machine.is_done(("p", 1))
    machine.check()
    assert got(machine, "b", 6.0) == [3, 4] and machine.position == {"p": 2}
    assert not machine.take("p", 2, "key", 5.0), "it does not come back"


@given(
    st.lists(
        st.tuples(st.sampled_from([None, "x", "y"]), st.sampled_from([None, 1.0, 3.0, 9.0])), max_size=10
    ),
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["give", "ack", "refuse", "leave"])), max_size=30
    ),
)
def test_a_group_never_gives_what_is_past_its_time_and_forgets_nothing_else(events, steps) -> None:  # type: ignore[no-untyped-def]
    machine, until, over, held = GroupMachine(CONFIG), dict[int, float](), set[int](), dict[int, str]()
    for number, (key, at) in enumerate(events, 1):
        machine.take("p", number, key, at)
        until[number] = float("inf") if at is None else at
    for now, (name, what) in enumerate(steps):
        gone = {number for _, number in machine.expire(float(now))}
        late = {n for n in until if until[n] < now and n not in over and n not in held}
        assert gone == late, "of what waits everything that is late, and nothing else"
        over |= gone
        machine.hear(name, float(now))
        mine = [number for number, holder in held.items() if holder == name]
        if what == "give":
            for each in machine.give(name, float(now)):
                assert until[each.sequence] >= now and each.sequence not in over
                held[each.sequence] = name
        elif what == "ack" and mine:
            assert machine.acknowledge(name, ("p", mine[0]), float(now))
            over.add(mine[0])
            del held[mine[0]]
        elif what == "refuse" and mine:
            for _, number in machine.refuse(name, ("p", mine[0]), float(now)) or []:
                del held[number]
        elif what == "leave":
            machine.leave(name)
            held = {number: holder for number, holder in held.items() if holder != name}
        while machine.given_up:
            letter = machine.given_up.popleft()
            machine.buried((letter.publisher, letter.sequence))
            over.add(letter.sequence)
        machine.check()
        assert len(machine) == len(until) - len(over)


def test_what_is_done_long_before_it_expires_is_not_remembered() -> None:
    machine = GroupMachine(CONFIG)
    for number in range(1, 1_001):
        machine.take("p", number, None, 1e9)
        machine.hear("a", 0.0)
        assert [each.sequence for each in machine.give("a", 0.0, 1)] == [number]
        assert machine.acknowledge("a", ("p", number), 0.0)
    assert len(machine._expiring) < 100
