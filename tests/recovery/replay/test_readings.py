"""Reading the past, against a dumb reference: what is accepted somewhere behind the beginning comes once, in order.

A reader and three keepers, whose answers and whose events come in any order that links allow. Publishers move between
keepers, keepers fall silent, histories forget. Reference: docs/decisions/0181-replay.md.
"""

import math
import random
from collections import deque

import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Confirm, Deliver, Received, Send, TellLost, Ticked
from rayvous.protocol.messages.history import Keepers, Keeps, ReadHistory
from rayvous.protocol.messages.pubsub import Register, Resume
from rayvous.protocol.messages.recovery import RENDEZVOUS, Recovery
from rayvous.recovery.replay.deduplicator import Deduplicator
from rayvous.recovery.replay.history import History
from rayvous.recovery.replay.readings import Readings
from rayvous.recovery.replay.rounds import Kept, Rounds
from rayvous.routing.language.questions import to_filter

ODD = to_filter("odd = 1")
KEEPERS = (1, 2, 3)


class World:
    """The reader is broker 0, with a history of its own; alice is its subscriber."""

    def __init__(self, dice: random.Random, patience: float = 1e6) -> None:
        self.dice, self.now = dice, 1.0
        self.histories = {broker: History(math.inf, 1 << 40) for broker in (0, *KEEPERS)}
        self.numbers = dict.fromkeys(self.histories, 0)
        self.rounds = Rounds(1000, 20.0)
        self.deduplicator = Deduplicator()
        self.reader = Readings(
            0,
            Recovery.for_simulator(retention_seconds=patience),
            self.histories[0],
            self.deduplicator,
            self.rounds,
            lambda client: dice.random() < 0.9,
            bool,
        )
        self.accepted: dict[str, int] = {"p": 0, "q": 0}
        self.home = {"p": 0, "q": 1}
        self.asked = {broker: deque() for broker in KEEPERS}
        self.answers = {broker: deque() for broker in KEEPERS}
        self.live = {name: deque() for name in self.accepted}
        self.in_force = False
        self.got: list[tuple[str, int]] = []
        self.lost: list[tuple[str, int]] = []
        self.forgotten: set[tuple[str, int]] = set()
        self.silent: set[int] = set()
        self.tick(0.0)

    def run(self, out: list[object]) -> None:
        for each in out:
            if isinstance(each, Send) and isinstance(each.message, Keeps):
                self.run(self.reader.takes[Keepers](Received(RENDEZVOUS, Keepers((0, *KEEPERS)))))
            elif isinstance(each, Send) and isinstance(each.message, ReadHistory):
                self.asked[each.to].append(each.message)
            elif isinstance(each, Deliver):
                self.got += [each.batch.identity(row) for row in each.rows.tolist()]
            elif isinstance(each, TellLost):
                for loss in each.losses:
                    self.lost += [(loss.publisher, number) for number in range(loss.first, loss.last + 1)]

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.run(self.reader.sees[Ticked](Ticked(self.now)))

    def publish(self) -> None:
        name, count = self.dice.choice(("p", "q")), self.dice.choice((1, 2, 5))
        if self.dice.random() < 0.2:
            self.home[name] = self.dice.choice((0, *KEEPERS))
        first, home = self.accepted[name] + 1, self.home[name]
        events = [{"odd": (first + place) % 2} for place in range(count)]
        batch = batch_of(events, publisher=name, first_sequence=first, published_at=self.now)
        self.numbers[home] += 1
        self.histories[home].add(Kept(self.numbers[home], self.now, name, batch))
        self.accepted[name] += count
        if self.in_force:  # behind a confirmation, everything comes by itself
            self.live[name].append(batch)

    def begin(self, marks: dict[str, int]) -> None:
        self.begins = marks
        resume = Resume({}, incarnation=1, numbers=(1,), begins={1: marks}, rewound=True)
        self.run(self.reader.sees[Resume](Received("alice", resume)))
        self.deduplicator.resume("alice", {}, -math.inf)
        self.deduplicator.bring("alice", 1, -math.inf, marks, self.now)
        self.run(self.reader.sees[Register](Received("alice", Register(1, ODD))))
        self.deduplicator.want("alice", 1, ODD, self.now)

    def step(self) -> None:
        what = self.dice.choice(
            ("publish", "ask", "answer", "answer", "live", "live", "tick", "silent", "round")
        )
        broker, name = self.dice.choice(KEEPERS), self.dice.choice(("p", "q"))
        if what == "publish":
            self.publish()
        elif what == "ask" and self.asked[broker] and broker not in self.silent:
            self.answers[broker].append(self.histories[broker].page(self.asked[broker].popleft(), self.now))
        elif what == "answer" and self.answers[broker]:
            page = self.answers[broker].popleft()
            self.run(self.reader.takes[type(page)](Received(broker, page)))
        elif what == "live" and self.live[name]:
            batch = self.live[name].popleft()
            rows = ODD.evaluate_batch(batch).nonzero()[0]
            rows = self.deduplicator.admit("alice", batch, rows)
            if len(rows):
                self.run(self.reader.alters[Deliver](Deliver(batch, ("alice",), [0, len(rows)], rows)))
        elif what == "tick":
            self.tick(self.dice.choice((0.1, 1.0, 3.0)))
        elif what == "silent" and self.dice.random() < 0.2:
            self.silent ^= {broker}
        elif what == "round" and self.dice.random() < 0.2 and not self.in_force:
            self.in_force = True
            self.run(self.reader.alters[Confirm](Confirm("alice", 1)))
        self.reader.check()

    def forget(self) -> None:
        broker = self.dice.choice(KEEPERS)
        log = self.histories[broker]._log
        if len(log) > 1:
            self.forgotten |= {log[0].batch.identity(row) for row in range(len(log[0].batch))}
            self.histories[broker]._drop()

    def finish(self) -> None:
        if not self.in_force:
            self.in_force = True
            self.run(self.reader.alters[Confirm](Confirm("alice", 1)))
        for _ in range(400):
            self.silent.clear()
            self.tick(1.0)
            for broker in KEEPERS:
                while self.asked[broker]:
                    self.answers[broker].append(
                        self.histories[broker].page(self.asked[broker].popleft(), self.now)
                    )
                while self.answers[broker]:
                    page = self.answers[broker].popleft()
                    self.run(self.reader.takes[type(page)](Received(broker, page)))
            for name in self.live:
                while self.live[name]:
                    batch = self.live[name].popleft()
                    rows = self.deduplicator.admit("alice", batch, ODD.evaluate_batch(batch).nonzero()[0])
                    if len(rows):
                        self.run(
                            self.reader.alters[Deliver](Deliver(batch, ("alice",), [0, len(rows)], rows))
                        )
            if not self.reader.describe()["readers"]:
                return
        raise AssertionError("it reads for ever")


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("forgets", [False, True])
def test_all_that_was_accepted_behind_the_beginning_comes_once_and_in_order(seed: int, forgets: bool) -> None:
    dice = random.Random(f"readings/{seed}")
    world = World(dice)
    for _ in range(dice.randint(0, 30)):
        world.publish()
    world.begin({name: dice.randint(0, number) for name, number in world.accepted.items()})
    for _ in range(dice.randint(10, 150)):
        world.step()
        if forgets and dice.random() < 0.05:
            world.forget()
    world.finish()
    for name, last in world.accepted.items():
        due = [number for number in range(world.begins[name] + 1, last + 1) if number % 2]
        got = [number for publisher, number in world.got if publisher == name]
        assert got == sorted(set(got)), "in order, each once"
        missing = set(due) - set(got)
        assert set(got) <= set(due) and missing <= {number for who, number in world.lost if who == name}
        assert missing <= {number for who, number in world.forgotten if who == name}, (
            "only what was forgotten"
        )


def test_a_silent_keeper_is_waited_for_as_long_as_events_are_retransmitted_and_then_left_out() -> None:
    world = World(random.Random(1), patience=20.0)
    world.home["p"], world.home["q"] = 1, 2
    world.dice = random.Random(3)
    for _ in range(10):
        world.publish()
    world.rounds.high_water.taught(world.accepted)
    world.begin({})
    world.in_force = True
    world.run(world.reader.alters[Confirm](Confirm("alice", 1)))

    def answer_all_but(silent: int) -> None:
        for broker in KEEPERS:
            while broker != silent and world.asked[broker]:
                page = world.histories[broker].page(world.asked[broker].popleft(), world.now)
                world.run(world.reader.takes[type(page)](Received(broker, page)))

    for _ in range(19):
        world.tick(1.0)
        answer_all_but(1)
    assert world.reader.describe()["readers"] == 1 and not world.lost
    for _ in range(5):
        world.tick(1.0)
        answer_all_but(1)
    assert world.reader.describe()["readers"] == 0
    there = {kept.publisher for kept in world.histories[1]._log}
    assert world.lost and {publisher for publisher, _ in world.lost} <= there
