"""Reading the past, against all that was accepted: publishers move, brokers die and forget while it is read."""

import random
from itertools import chain

import numpy as np
import pytest
from rayvous.clients.beginnings import last_of
from rayvous.clients.past import PastReader
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.protocol.batch import EventBatch, batch_of, concat
from rayvous.protocol.effects import Ticked
from rayvous.protocol.messages.pubsub import Consumed, Lost, Register
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.replay import history as histories
from rayvous.recovery.replay.history import EVER, History
from rayvous.routing.language.questions import to_filter

TIMES = Recovery.for_simulator(retention_seconds=60.0)
BROKERS = 1, 2, 3
STEPS_MAX = 2_000


def key_of(number: int) -> int:
    return number * 7 % 5


class World:
    """Three histories, two publishers that move, and a subscriber of odd numbers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.now, self.steps = rng, 0.0, 0
        self.histories = {broker: History(1e9, 1 << 40) for broker in BROKERS}
        self.alive = set(BROKERS)
        self.last = {"p": 0, "q": 0}
        self.home = {"p": 1, "q": 2}
        self.got: list[tuple[str, int]] = []
        self.lost: list[Lost] = []
        self.machine = SubscriberMachine(durable=True)
        self.machine.subscribe(1, to_filter("odd = TRUE"), 0.0)
        self.machine.confirmed(1, {})

    def publish(self) -> None:
        name = self.rng.choice("pq")
        if self.home[name] not in self.alive or self.rng.random() < 0.2:
            self.home[name] = self.rng.choice(sorted(self.alive))
        again = min(
            self.rng.choice((0, 0, 2)), self.last[name]
        )  # it may retransmit, perhaps at another broker
        first, self.last[name] = self.last[name] + 1 - again, self.last[name] + self.rng.randint(1, 4)
        self.histories[self.home[name]].append(name, self.events(name, first, self.last[name]))

    def events(self, name: str, first: int, last: int) -> EventBatch:
        numbers = range(first, last + 1)
        each = [
            batch_of(
                [{"odd": number % 2 == 1, "key": key_of(number)}],
                publisher=name,
                first_sequence=number,
                published_at=number,
            )
            for number in numbers
        ]
        return concat(each)

    def begin(self, begins: dict[str, int], since: float = EVER, last_per: str | None = None) -> None:
        known = {broker: self.histories[broker].spans() for broker in sorted(self.alive)}
        awaits = [broker for broker in BROKERS if broker not in known]
        self.machine.begin_past([1], since, begins, last_of(known.values()), awaits, last_per)

    def read(self, faults: bool = False, hand_on: int = 1_000) -> None:
        """Read all, or until so many batches of last events are handed on."""
        reader = PastReader(self.machine, TIMES, self.now, part_events=2)
        while not reader.finished(self.now):
            self.steps += 1
            assert self.steps < STEPS_MAX, "it reads for ever"
            if (batch := reader.last_values(self.now)) is not None:
                self.got += [batch.identity(row) for row in range(len(batch))]
                hand_on -= 1
                if not hand_on:
                    return
                continue
            questions = reader.questions()
            if not questions:
                known = {broker: self.histories[broker].spans() for broker in sorted(self.alive)}
                self.lost += reader.known(known, BROKERS, self.now)
                self.now += 1.0
            for broker, question in questions:
                page = self.histories[broker].page(question) if broker in self.alive else None
                found = reader.took(broker, question, page)
                self.got += (
                    [found.identity(row) for row in range(len(found or ()))] if found is not None else []
                )
                if self.rng.random() < 0.5:
                    self.publish()
                if faults:
                    self.harm()

    def harm(self) -> None:
        broker = self.rng.choice(BROKERS)
        if self.rng.random() < 0.3 and len(self.alive) > 1:
            self.alive.discard(broker)
        elif self.rng.random() < 0.5:
            self.alive.add(broker)
        if self.rng.random() < 0.1:
            self.histories[broker]._bytes_max = self.histories[broker].bytes // 2
            self.histories[broker].sees[Ticked](Ticked(self.now))

    def numbers(self, name: str) -> list[int]:
        return [number for publisher, number in self.got if publisher == name]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "PAGE_EVENTS", 7)


@pytest.mark.parametrize("seed", range(30))
def test_all_that_was_accepted_comes_once_and_in_order_and_nothing_is_told_to_be_lost(seed: int) -> None:
    world = World(random.Random(f"past/{seed}"))
    for _ in range(30):
        world.publish()
    begins = {name: world.rng.randint(0, last) for name, last in world.last.items()}
    world.begin(begins)
    ends = dict(world.last)
    world.read()
    for name, end in ends.items():
        assert world.numbers(name) == [n for n in range(begins[name] + 1, end + 1) if n % 2], name
        batch = world.events(name, 1, end + 3)
        rows = world.machine.admit(batch, np.arange(len(batch)))
        assert [batch.identity(row)[1] for row in rows] == [end + 1, end + 2, end + 3], "the present goes on"
    assert world.lost == []
    world.machine.acknowledge()
    assert world.machine.past is not None and not world.machine.past["todo"]


@pytest.mark.parametrize("seed", range(60))
def test_what_brokers_forget_and_take_along_is_told_and_the_rest_comes(seed: int) -> None:
    world = World(random.Random(f"past with faults/{seed}"))
    for _ in range(30):
        world.publish()
    if seed % 3 == 0:
        world.alive.discard(world.rng.choice(BROKERS))
    ends = dict(world.last)
    world.begin({})
    world.read(faults=True)
    told = {(each.publisher, n) for each in world.lost for n in range(each.first, each.last + 1)}
    kept = set(chain.from_iterable(world.histories[broker].identities() for broker in world.alive))
    for name, end in ends.items():
        got = world.numbers(name)
        assert got == sorted(set(got)) and all(n % 2 for n in got)
        for number in range(1, end + 1, 2):
            event = name, number
            assert (number in got) != (event in told) or event not in kept, event


def test_what_is_read_and_acknowledged_outlives_the_process_and_only_the_end_moves_the_position() -> None:
    world = World(random.Random(1))
    while world.last["p"] < 20:
        world.publish()
    world.begin({"q": world.last["q"]})
    assert world.machine.position == {"q": world.last["q"]}, "it begins where it ends"
    end = world.machine.past["todo"]["p"][1]  # type: ignore[index]
    assert world.machine.acknowledge({"p": 5}) == [] and world.machine.acknowledged["p"] == 5
    again = SubscriberMachine(durable=True)
    again.restore(world.machine.record())
    assert again.acknowledged["p"] == 5 and "p" not in again.position
    world.machine = again
    world.read()
    assert world.numbers("p") == list(range(7, end + 1, 2))
    assert again.acknowledge_past() == [], "what was found is not acknowledged"
    last = world.numbers("p")[-1]
    assert again.acknowledge({"p": last}) == [Consumed({"p": end}, 0)], "nothing that was found is behind it"


def test_a_rewound_subscriber_is_owed_what_it_has_acknowledged_and_never_goes_forward() -> None:
    machine = SubscriberMachine(durable=True)
    machine.subscribe(1, to_filter("TRUE"), 0.0)
    machine.confirmed(1, {"p": 3, "q": 8})
    machine.acknowledge({"p": 7})
    machine.rewind(EVER, {"p": 5, "q": 9, "r": 1})
    assert machine.past is not None and machine.past["todo"] == {"p": (5, 7)}
    machine.rewind(EVER, {"p": 6, "q": 2})
    assert machine.past["todo"] == {"p": (5, 7), "q": (2, 8)}
    assert machine.position == {"p": 7} and machine.acknowledged == {"p": 5, "q": 2} == machine.marks


def test_what_an_awaited_broker_has_is_past_and_what_was_not_wanted_is_acknowledged_with_the_rest() -> None:
    world = World(random.Random(2))
    world.histories[1].append("p", world.events("p", 1, 4))
    world.histories[3].append("q", world.events("q", 2, 2))
    world.alive.discard(1)
    world.begin({})
    world.alive.add(1)
    world.read()
    assert (world.numbers("p"), world.numbers("q"), world.lost) == ([1, 3], [], [Lost("q", 1, 1)])
    assert world.machine.acknowledge({"p": 3}) == [Consumed({"p": 4}, 0)]
    assert world.machine.acknowledge_past() == [Consumed({"q": 2}, 0)], "it wanted nothing of it"


def last_of_each_key(begins: dict[str, int], ends: dict[str, int]) -> set[tuple[str, int]]:
    """The reference: the last odd number of each key, by its time, which is the number; at the same time that of q."""
    last: dict[int, tuple[int, str]] = {}
    for name, end in ends.items():
        for number in range(begins.get(name, 0) + 1, end + 1):
            if number % 2:
                last[key_of(number)] = max(last.get(key_of(number), (0, "")), (number, name))
    return {(name, number) for number, name in last.values()}


@pytest.mark.parametrize("seed", range(40))
def test_the_last_event_of_each_key_comes_once_whichever_processes_die_and_then_the_present(
    seed: int,
) -> None:
    world = World(random.Random(f"last/{seed}"))
    for _ in range(30):
        world.publish()
    begins = {name: world.rng.randint(0, last // 2) for name, last in world.last.items()}
    world.begin(begins, last_per="key")
    ends = dict(world.last)
    acknowledged: dict[str, int] = {}
    for _ in range(world.rng.randint(0, 4)):
        world.read(hand_on=world.rng.randint(1, 3))
        if len(world.got) and world.rng.random() < 0.8:
            name, number = world.rng.choice(world.got)
            world.machine.acknowledge({name: number})
        acknowledged = world.machine.acknowledged
        world.got = [(name, number) for name, number in world.got if number <= acknowledged.get(name, 0)]
        again = SubscriberMachine(durable=True)
        again.restore(world.machine.record())
        world.machine = again
    world.read()
    expected = last_of_each_key(begins, ends)
    assert set(world.got) == expected and len(world.got) == len(expected) and world.lost == []
    for name, end in ends.items():
        assert world.numbers(name) == sorted(world.numbers(name))
        batch = world.events(name, 1, end + 3)
        rows = world.machine.admit(batch, np.arange(len(batch)))
        assert [batch.identity(row)[1] for row in rows] == [end + 1, end + 2, end + 3], "the present goes on"
    world.machine.acknowledge()
    assert world.machine.past is not None and not world.machine.past["todo"]
    assert all(world.machine.position[name] >= end for name, end in ends.items())


@pytest.mark.parametrize("seed", range(30))
def test_what_is_forgotten_or_taken_along_is_told_where_the_last_of_each_key_is_wanted(seed: int) -> None:
    world = World(random.Random(f"last with faults/{seed}"))
    for _ in range(30):
        world.publish()
    if seed % 3 == 0:
        world.alive.discard(world.rng.choice(BROKERS))
    ends = dict(world.last)
    world.begin({}, last_per="key")
    world.read(faults=True)
    told = {(each.publisher, n) for each in world.lost for n in range(each.first, each.last + 1)}
    kept = set(chain.from_iterable(world.histories[broker].identities() for broker in world.alive))
    had = {(name, number) for name, number in world.got if number <= ends[name]}
    assert len({key_of(number) for _, number in had}) >= len(had) - len(had - kept), "one of each key"
    for name, number in last_of_each_key({}, ends):
        assert (name, number) in had or (name, number) in told or (name, number) not in kept


def test_a_past_of_last_events_stays_until_all_of_it_is_acknowledged_and_then_the_position_is_behind_it() -> (
    None
):
    world = World(random.Random(3))
    world.histories[1].append("p", world.events("p", 1, 6))
    world.histories[2].append("q", world.events("q", 1, 3))
    world.begin({}, last_per="key")
    world.read()
    assert sorted(world.got) == [("p", 5), ("q", 1), ("q", 3)], (
        "5 of p has key 0; 1 and 3 are later of q, by its name"
    )
    assert world.machine.acknowledge({"p": 5}) == [Consumed({"p": 6}, 0)]
    past = world.machine.past
    assert past is not None and past["todo"] == {"p": (6, 6), "q": (0, 3)}
    assert world.machine.acknowledge({"p": 8}) == [Consumed({"p": 8}, 0)], "of the present"
    assert world.machine.acknowledged == {"p": 8, "q": 0}
    again = SubscriberMachine(durable=True)
    again.restore(world.machine.record())
    assert again.marks == {"p": 8, "q": 0}
    world.machine, world.got = again, []
    world.read()
    assert world.got == [("q", 1), ("q", 3)], "not the earlier ones of p"
    assert again.acknowledge({"q": 3}) == [Consumed({"q": 3}, 0)] and not (again.past or {})["todo"]
    machine = SubscriberMachine(durable=True)
    machine.restore(world.machine.record())
    machine.rewind(EVER, {"p": 2})
    assert "last_per" not in (machine.past or {}) and (machine.past or {})["todo"] == {"p": (2, 8)}


def test_nothing_is_handed_on_before_an_awaited_broker_has_answered() -> None:
    world = World(random.Random(4))
    world.histories[1].append("p", world.events("p", 1, 1))
    world.histories[3].append("q", world.events("q", 1, 1))
    world.alive.discard(3)
    world.begin({}, last_per="key")
    reader = PastReader(world.machine, TIMES, world.now)
    known = {1: world.histories[1].spans(), 2: world.histories[2].spans()}
    assert reader.known(known, BROKERS, 0.0) == []
    (asked,) = reader.questions()
    assert reader.took(1, asked[1], world.histories[1].page(asked[1])) is None
    assert reader.last_values(1.0) is None and not reader.finished(1.0)
    assert reader.last_values(TIMES.retention_seconds) is not None, "it does not come"
    world.alive.add(3)
    world.machine = SubscriberMachine(durable=True)
    world.machine.subscribe(1, to_filter("odd = TRUE"), 0.0)
    world.machine.confirmed(1, {})
    world.machine.begin_past([1], EVER, {}, {"p": 1}, [3], "key")
    world.read()
    assert world.got == [("q", 1)], "it is the later one, and its broker was awaited"


def test_what_is_forgotten_since_it_was_acknowledged_is_not_told_when_it_is_read_again() -> None:
    world = World(random.Random(5))
    world.histories[1].append("p", world.events("p", 1, 3))
    world.histories[2].append("q", world.events("q", 1, 1))
    world.begin({}, last_per="key")
    world.read()
    assert world.got == [("q", 1), ("p", 3)]
    world.machine.acknowledge({"p": 3})
    world.histories[1] = History(1e9, 1 << 40)
    again = SubscriberMachine(durable=True)
    again.restore(world.machine.record())
    world.machine, world.got = again, []
    world.read()
    assert (world.got, world.lost) == ([("q", 1)], [])


def test_what_is_reported_waits_until_the_past_is_read_and_counts_behind_it() -> None:
    """A broker reports what is not sent again any more; of the past, the reader says what is lost."""
    world = World(random.Random(0))
    world.histories[1].append("p", world.events("p", 1, 9))
    machine = world.machine
    machine.awaits_past = True
    assert machine.lost([Lost("p", 3, 7)]) == [], "where its past ends is not known yet"
    world.begin({"p": 0})
    machine.awaits_past = False
    assert machine.lost([Lost("p", 8, 12), Lost("q", 1, 2)]) == [], "its past is being read"
    world.read()
    assert machine.lost([Lost("p", 2, 2)], of_past=True) == [Lost("p", 2, 2)]
    machine.acknowledge_past()
    assert machine.lost(()) == [Lost("p", 10, 12), Lost("q", 1, 2)] and machine.lost(()) == []
    assert machine.lost([Lost("p", 5, 9)]) == [] and machine.lost([Lost("p", 9, 13)]) == [Lost("p", 10, 13)]
    again = SubscriberMachine(durable=True)
    again.restore(machine.record())
    assert again.lost([Lost("p", 1, 20)]) == []
    again.acknowledge_past()
    assert again.lost(()) == [Lost("p", 10, 20)], "its past is not acknowledged"
    again.rewind(EVER, {"p": 3})
    assert again.lost([Lost("p", 11, 21)]) == [] and again.reads_past
    machine.acknowledge()
    new = SubscriberMachine(durable=True)
    new.restore(machine.record())
    new.acknowledge_past()
    assert new.lost([Lost("p", 10, 10)]) == [Lost("p", 10, 10)]


def test_what_an_awaited_broker_has_is_not_told_by_another_broker() -> None:
    world = World(random.Random(0))
    world.histories[1].append("p", world.events("p", 1, 9))
    world.alive = {2, 3}
    world.begin({})
    machine = world.machine
    assert machine.lost([Lost("p", 1, 12)]) == []
    world.alive = {1, 2, 3}
    world.read()
    machine.acknowledge_past()
    assert machine.lost(()) == [Lost("p", 10, 12)]


def test_subscriptions_with_a_past_say_so_at_every_broker_and_later_ones_do_not() -> None:
    machine = SubscriberMachine(durable=True)
    machine.awaits_past = True
    (first,) = machine.subscribe(1, to_filter("odd"), 0.0)
    machine.confirmed(1, {})
    machine.begin_past([1], EVER, {}, {})
    (second,) = machine.subscribe(2, to_filter("NOT odd"), 0.0)
    machine.confirmed(2, {})
    assert isinstance(first, Register) and first.past
    assert isinstance(second, Register) and not second.past
    again = SubscriberMachine(durable=True)
    again.restore(machine.record())
    for each in (machine, again):
        registers = [message for message in each.arrive(9.0, 0.0, 2) if isinstance(message, Register)]
        assert {message.subscription: message.past for message in registers} == {1: True, 2: False}
    again.rewind(EVER, {})
    assert all(message.past for message in again.request([1, 2]) if isinstance(message, Register))
    machine.cancel(1)
    (anew,) = machine.subscribe(1, to_filter("odd"), 9.0)
    assert isinstance(anew, Register) and not anew.past
