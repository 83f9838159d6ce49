"""Traces for the checkers: correct ones, of a small system that does everything right, and arbitrary ones."""

import pytest
from rayvous.faults.checker.conditions import test_of as reference_test
from rayvous.faults.checker.trace import (
    Adv,
    Cancelled,
    Confirmed,
    LossTold,
    Notified,
    Published,
    Registered,
    Settled,
    Trace,
    UnAdv,
)

SELECTORS = ("x > 2", "x <= 2", "x = 1 OR s = 'a'", "NOT s = 'a'", "x IS NULL", "TRUE")


class Perfect:
    """A system of one broker, with a queue between it and each client; it does what it promises."""

    def __init__(self, dice):
        self.dice, self.trace, self.now = dice, Trace(), 0.0
        self.active, self.asked, self.queues, self.sequences = {}, {}, {}, {}
        self.numbers = 0

    def step(self):
        self.now += 0.25
        getattr(
            self, self.dice.choice(("register", "cancel", "quiet", *("publish", "arrive", "confirm") * 4))
        )()

    def register(self):
        client, selector = self.dice.choice("abc"), self.dice.choice(SELECTORS)
        self.numbers += 1
        self.trace.subscribed(self.now, client, self.numbers, selector)
        self.asked[client, self.numbers] = selector

    def confirm(self):
        if self.asked:
            key, selector = self.asked.popitem()
            self.active[key] = selector
            self.trace.confirmed(self.now, *key)

    def cancel(self):
        if self.active:
            key = self.dice.choice(list(self.active))
            del self.active[key]
            self.trace.cancelled(self.now, *key)

    def publish(self):
        publisher = self.dice.choice("pq")
        event = {"x": self.dice.randrange(5), "s": self.dice.choice("ab")}
        event = {name: value for name, value in event.items() if self.dice.random() > 0.2}
        self.sequences[publisher] = sequence = self.sequences.get(publisher, 0) + 1
        self.trace.published(self.now, publisher, sequence, [event])
        for client in {client for client, _ in self.active}:
            mine = [selector for (owner, _), selector in self.active.items() if owner == client]
            if any(reference_test(selector)(event) is True for selector in mine):
                self.queues.setdefault(client, []).append((publisher, sequence))

    def arrive(self):
        waiting = [client for client, queue in self.queues.items() if queue]
        if waiting:
            client = self.dice.choice(sorted(waiting))
            self.trace.notified(self.now, client, *self.queues[client].pop(0))

    def quiet(self):
        while any(self.queues.values()):
            self.arrive()
        while self.asked:
            self.confirm()
        self.trace.settled(self.now)


@pytest.fixture(scope="session")
def correct_trace():
    """``correct_trace(dice, steps, advertised)``: a trace that keeps every condition."""

    def make(dice, steps=60, advertised=False):
        system = Perfect(dice)
        if advertised:
            system.trace.operations += [Adv(0.0, "p", 1, "TRUE"), Adv(0.0, "q", 1, "TRUE")]
        for client in "ab":
            for selector in dice.sample(SELECTORS, 2):
                system.numbers += 1
                system.trace.subscribed(0.0, client, system.numbers, selector)
                system.trace.confirmed(0.0, client, system.numbers)
                system.active[client, system.numbers] = selector
        for _ in range(steps):
            system.step()
        system.quiet()
        return system.trace

    return make


@pytest.fixture(scope="session")
def any_trace():
    """``any_trace(dice, steps)``: operations without rhyme or reason; each event is published once at most."""

    def make(dice, steps):
        fresh = [(publisher, sequence) for publisher in "pq" for sequence in (1, 2, 3, 4)]
        dice.shuffle(fresh)
        makers = (
            lambda: Published(0.0, *fresh.pop(), {"x": dice.randrange(5)}) if fresh else Settled(0.0),
            lambda: Notified(0.0, dice.choice("ab"), dice.choice("pq"), dice.randint(1, 4)),
            lambda: Notified(0.0, dice.choice("ab"), dice.choice("pq"), dice.randint(1, 4)),
            lambda: Registered(0.0, dice.choice("ab"), dice.randint(1, 2), dice.choice(SELECTORS)),
            lambda: Confirmed(0.0, dice.choice("ab"), dice.randint(1, 2)),
            lambda: Cancelled(0.0, dice.choice("ab"), dice.randint(1, 2)),
            lambda: Settled(0.0),
            lambda: dice.choice((
                LossTold(0.0, dice.choice(("a", "")), dice.choice("pq"), dice.randint(1, 4)),
                Adv(0.0, dice.choice("pq"), 1, dice.choice(SELECTORS)),
                UnAdv(0.0, dice.choice("pq"), 1),
            )),
        )  # fmt: skip
        trace = Trace(dice.choice(makers)() for _ in range(steps))
        return Trace(op._replace(at_seconds=float(place)) for place, op in enumerate(trace))

    return make
