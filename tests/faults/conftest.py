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

    def __init__(self, rng, forgets=False, answers=False):
        self.rng, self.trace, self.now = rng, Trace(), 0.0
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
        getattr(self, self.rng.choice(words))()

    def register(self):
        client, selector = self.rng.choice("abc"), self.rng.choice(SELECTORS)
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
            key = self.rng.choice(list(self.active))
            self.only[key] = self.rng.choice(((), ("p",), ("q",)))
            self.trace.answered(self.now, *key, self.only[key])

    def confirm_again(self):
        if self.only:
            key, _ = self.only.popitem()
            self.trace.confirmed(self.now, *key)

    def cancel(self):
        if self.active:
            key = self.rng.choice(list(self.active))
            del self.active[key]
            self.only.pop(key, None)
            self.trace.cancelled(self.now, *key)

    def publish(self):
        publisher = self.rng.choice("pq")
        event = {"x": self.rng.randrange(5), "s": self.rng.choice("ab")}
        event = {name: value for name, value in event.items() if self.rng.random() > 0.2}
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
            client = self.rng.choice(sorted(waiting))
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
    """``correct_trace(rng, steps, advertised, forgets, answers)``: a trace that meets every condition."""

    def make(rng, steps=60, advertised=False, forgets=False, answers=False):
        system = Perfect(rng, forgets, answers)
        if advertised:
            system.trace.operations += [Advertised(0.0, "p", 1, "TRUE"), Advertised(0.0, "q", 1, "TRUE")]
        for client in "ab":
            for selector in rng.sample(SELECTORS, 2):
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

    def __init__(self, rng):
        self.rng, self.batches = rng, 0
        publishers = [publisher for publisher in "pq" for _ in range(4)]
        rng.shuffle(publishers)
        numbers = {publisher: [4, 3, 2, 1] for publisher in "pq"}
        self.fresh = [(publisher, numbers[publisher].pop()) for publisher in publishers][::-1]

    def event(self):
        return self.rng.choice("pq"), self.rng.randint(1, 4)

    def some(self):
        """Return a few random operations."""
        rng = self.rng
        return rng.choice((
            lambda: [Published(0.0, *self.fresh.pop(), {"x": rng.randrange(5)}) if self.fresh else Settled(0.0)],
            lambda: [Notified(0.0, rng.choice("ab"), *self.event())],
            lambda: [Notified(0.0, rng.choice("ab"), *self.event())],
            lambda: [Registered(0.0, rng.choice("ab"), rng.randint(1, 2), rng.choice(SELECTORS))],
            lambda: [Confirmed(0.0, rng.choice("ab"), rng.randint(1, 2))],
            lambda: [
                Answered(0.0, rng.choice("ab"), rng.randint(1, 2), rng.choice(((), ("p",), ("p", "q"))))
            ],
            lambda: [Cancelled(0.0, rng.choice("ab"), rng.randint(1, 2))],
            lambda: [Settled(0.0)],
            lambda: [LossTold(0.0, rng.choice(("a", "")), *self.event())],
            lambda: self.kept(),
            lambda: [rng.choice((
                Adv(0.0, rng.choice("ab"), 1, rng.choice(SELECTORS)),
                UnAdv(0.0, rng.choice("ab"), 1),
                Advertised(0.0, rng.choice("pq"), 1, rng.choice(SELECTORS)),
                Unadvertised(0.0, rng.choice("pq"), 1),
                Died(0.0, *rng.choice(((0, ""), (1, ""), (ITSELF, "p")))),
                Shed(0.0, *self.event(), "queue", rng.choice((4.0, 6.0)), 5.0),
                self.bound(rng.choice(("", "a"))),
            ))],
        ))()  # fmt: skip

    def kept(self):
        self.batches += 1
        broker, publisher = self.rng.choice((ITSELF, 0, 1)), self.rng.choice("pq")
        first = self.rng.randint(1, 4)
        return [
            Kept(0.0, broker, publisher, sequence, self.batches, self.rng.choice((1, 10)))
            for sequence in range(first, min(5, first + self.rng.randint(1, 2)))
        ]

    def bound(self, client):
        rng = self.rng
        return Bounded(0.0, client, rng.randint(1, 4), rng.choice((15, 1000)), rng.choice((4.0, 1e6)))

    def bounds(self):
        return [self.bound(client) for client in ("", "a") if self.rng.random() < 0.7]


@pytest.fixture(scope="session")
def any_trace():
    """``any_trace(rng, steps)``: random operations."""

    def make(rng, steps):
        nonsense = Nonsense(rng)
        operations = nonsense.bounds() if rng.random() < 0.7 else []
        while len(operations) < steps:
            operations += nonsense.some()
        return Trace(op._replace(at_seconds=float(place)) for place, op in enumerate(operations[:steps]))

    return make


@pytest.fixture(scope="session")
def losing_trace():
    """``losing_trace(rng, steps)``: random operations with many publications, kept events and losses."""

    def make(rng, steps):
        nonsense = Nonsense(rng)
        operations = [*nonsense.bounds(), Registered(0.0, "a", 1, "TRUE"), Confirmed(0.0, "a", 1)]
        while len(operations) < steps:
            if rng.random() < 0.5:
                operations += rng.choice((
                    nonsense.kept,
                    lambda: [LossTold(0.0, rng.choice(("a", "")), *nonsense.event())],
                    lambda: [Died(0.0, *rng.choice(((0, ""), (1, ""), (ITSELF, "p"))))],
                    lambda: [Notified(0.0, "b", *nonsense.event())],
                    lambda: [nonsense.bound(rng.choice(("", "a")))],
                    lambda: [Published(0.0, *nonsense.fresh.pop(), {"x": 1})] if nonsense.fresh else [],
                ))()  # fmt: skip
            else:
                operations += nonsense.some()
        operations = [*operations[:steps], Settled(0.0), LossTold(0.0, "", *nonsense.event())]
        return Trace(op._replace(at_seconds=float(place)) for place, op in enumerate(operations))

    return make
