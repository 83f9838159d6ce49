"""Traces for the checkers: correct ones, made by a small correct system, and random ones."""

import pytest
from rayvous.faults.checker.predicates import test_of as reference_test
from rayvous.protocol.traces.trace import (
    ITSELF,
    Adv,
    Advertised,
    Answered,
    Bounded,
    Cancelled,
    Confirmed,
    Died,
    Kept,
    LossTold,
    Notified,
    Published,
    Registered,
    Settled,
    Shed,
    Trace,
    UnAdv,
    Unadvertised,
)

SELECTORS = ("x > 2", "x <= 2", "x = 1 OR s = 'a'", "NOT s = 'a'", "x IS NULL", "TRUE")


KEPT_MAX = 6


class Perfect:
    """A correct system of one broker, with a queue between it and each client.

    With `forgets` it keeps six events, and may lose older ones, which it reports. With `answers` it puts
    subscriptions in force for some publishers only, and later for all again, which it reports as well.
    """

    def __init__(self, dice, forgets=False, answers=False):
        self.dice, self.trace, self.now = dice, Trace(), 0.0
        self.answers, self.only = answers, {}
        self.forgets, self.kept = forgets, []
        if forgets:
            self.trace.operations.append(Bounded(0.0, "", KEPT_MAX, 1_000_000, 1e6))
        self.active, self.asked, self.queues, self.sequences = {}, {}, {}, {}
        self.numbers = 0

    def step(self):
        self.now += 0.25
        words = ("register", "cancel", "quiet", *("publish", "arrive", "confirm") * 4)
        words += ("forget", "publish", "publish") * 2 * self.forgets
        words += ("answer", "confirm_again", "quiet", "publish") * self.answers
        getattr(self, self.dice.choice(words))()

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

    def answer(self):
        if self.active:
            key = self.dice.choice(list(self.active))
            self.only[key] = self.dice.choice(((), ("p",), ("q",)))
            self.trace.answered(self.now, *key, self.only[key])

    def confirm_again(self):
        if self.only:
            key, _ = self.only.popitem()
            self.trace.confirmed(self.now, *key)

    def cancel(self):
        if self.active:
            key = self.dice.choice(list(self.active))
            del self.active[key]
            self.only.pop(key, None)
            self.trace.cancelled(self.now, *key)

    def publish(self):
        publisher = self.dice.choice("pq")
        event = {"x": self.dice.randrange(5), "s": self.dice.choice("ab")}
        event = {name: value for name, value in event.items() if self.dice.random() > 0.2}
        self.sequences[publisher] = sequence = self.sequences.get(publisher, 0) + 1
        self.trace.published(self.now, publisher, sequence, [event])
        if self.forgets:
            self.kept.append((publisher, sequence))
            self.trace.operations.append(Kept(self.now, 0, publisher, sequence, len(self.kept), 10))
        for client in {client for client, _ in self.active}:
            mine = [
                selector
                for key, selector in self.active.items()
                if key[0] == client and publisher in self.only.get(key, (publisher,))
            ]
            if any(reference_test(selector)(event) is True for selector in mine):
                self.queues.setdefault(client, []).append((publisher, sequence))

    def arrive(self):
        waiting = [client for client, queue in self.queues.items() if queue]
        if waiting:
            client = self.dice.choice(sorted(waiting))
            self.trace.notified(self.now, client, *self.queues[client].pop(0))

    def forget(self):
        gone = self.kept[:-KEPT_MAX]
        for client, queue in self.queues.items():
            for event in [event for event in queue if event in gone]:
                queue.remove(event)
                self.trace.lost(self.now, *event, client)

    def quiet(self):
        while any(self.queues.values()):
            self.arrive()
        while self.asked:
            self.confirm()
        self.trace.settled(self.now)


@pytest.fixture(scope="session")
def correct_trace():
    """``correct_trace(dice, steps, advertised, forgets, answers)``: a trace that meets every condition."""

    def make(dice, steps=60, advertised=False, forgets=False, answers=False):
        system = Perfect(dice, forgets, answers)
        if advertised:
            system.trace.operations += [Advertised(0.0, "p", 1, "TRUE"), Advertised(0.0, "q", 1, "TRUE")]
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


class Nonsense:
    """Random operations; a publisher's numbers rise, and the events of a batch are kept together."""

    def __init__(self, dice):
        self.dice, self.batches = dice, 0
        publishers = [publisher for publisher in "pq" for _ in range(4)]
        dice.shuffle(publishers)
        numbers = {publisher: [4, 3, 2, 1] for publisher in "pq"}
        self.fresh = [(publisher, numbers[publisher].pop()) for publisher in publishers][::-1]

    def event(self):
        return self.dice.choice("pq"), self.dice.randint(1, 4)

    def some(self):
        """Return a few random operations."""
        dice = self.dice
        return dice.choice((
            lambda: [Published(0.0, *self.fresh.pop(), {"x": dice.randrange(5)}) if self.fresh else Settled(0.0)],
            lambda: [Notified(0.0, dice.choice("ab"), *self.event())],
            lambda: [Notified(0.0, dice.choice("ab"), *self.event())],
            lambda: [Registered(0.0, dice.choice("ab"), dice.randint(1, 2), dice.choice(SELECTORS))],
            lambda: [Confirmed(0.0, dice.choice("ab"), dice.randint(1, 2))],
            lambda: [
                Answered(0.0, dice.choice("ab"), dice.randint(1, 2), dice.choice(((), ("p",), ("p", "q"))))
            ],
            lambda: [Cancelled(0.0, dice.choice("ab"), dice.randint(1, 2))],
            lambda: [Settled(0.0)],
            lambda: [LossTold(0.0, dice.choice(("a", "")), *self.event())],
            lambda: self.kept(),
            lambda: [dice.choice((
                Adv(0.0, dice.choice("ab"), 1, dice.choice(SELECTORS)),
                UnAdv(0.0, dice.choice("ab"), 1),
                Advertised(0.0, dice.choice("pq"), 1, dice.choice(SELECTORS)),
                Unadvertised(0.0, dice.choice("pq"), 1),
                Died(0.0, *dice.choice(((0, ""), (1, ""), (ITSELF, "p")))),
                Shed(0.0, *self.event(), "queue", dice.choice((4.0, 6.0)), 5.0),
                self.bound(dice.choice(("", "a"))),
            ))],
        ))()  # fmt: skip

    def kept(self):
        self.batches += 1
        broker, publisher = self.dice.choice((ITSELF, 0, 1)), self.dice.choice("pq")
        first = self.dice.randint(1, 4)
        return [
            Kept(0.0, broker, publisher, sequence, self.batches, self.dice.choice((1, 10)))
            for sequence in range(first, min(5, first + self.dice.randint(1, 2)))
        ]

    def bound(self, client):
        dice = self.dice
        return Bounded(0.0, client, dice.randint(1, 4), dice.choice((15, 1000)), dice.choice((4.0, 1e6)))

    def bounds(self):
        return [self.bound(client) for client in ("", "a") if self.dice.random() < 0.7]


@pytest.fixture(scope="session")
def any_trace():
    """``any_trace(dice, steps)``: random operations."""

    def make(dice, steps):
        nonsense = Nonsense(dice)
        operations = nonsense.bounds() if dice.random() < 0.7 else []
        while len(operations) < steps:
            operations += nonsense.some()
        return Trace(op._replace(at_seconds=float(place)) for place, op in enumerate(operations[:steps]))

    return make


@pytest.fixture(scope="session")
def losing_trace():
    """``losing_trace(dice, steps)``: random operations with many publications, kept events and losses."""

    def make(dice, steps):
        nonsense = Nonsense(dice)
        operations = [*nonsense.bounds(), Registered(0.0, "a", 1, "TRUE"), Confirmed(0.0, "a", 1)]
        while len(operations) < steps:
            if dice.random() < 0.5:
                operations += dice.choice((
                    nonsense.kept,
                    lambda: [LossTold(0.0, dice.choice(("a", "")), *nonsense.event())],
                    lambda: [Died(0.0, *dice.choice(((0, ""), (1, ""), (ITSELF, "p"))))],
                    lambda: [Notified(0.0, "b", *nonsense.event())],
                    lambda: [nonsense.bound(dice.choice(("", "a")))],
                    lambda: [Published(0.0, *nonsense.fresh.pop(), {"x": 1})] if nonsense.fresh else [],
                ))()  # fmt: skip
            else:
                operations += nonsense.some()
        operations = [*operations[:steps], Settled(0.0), LossTold(0.0, "", *nonsense.event())]
        return Trace(op._replace(at_seconds=float(place)) for place, op in enumerate(operations))

    return make
