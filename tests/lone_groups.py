"""A consumer group without brokers: what comes to it, and when its process dies, are drawn. A case takes milliseconds.

What stands for its broker retains the events of two publishers until the group has acknowledged them, and gives them
to each process anew: those of a publisher in order, some a while after it has begun, after those of the other one
were given, or after those before them were. It never gives those that have expired or that it has given up meanwhile,
of which it tells.
"""

import heapq
import itertools
import random
from types import SimpleNamespace

import numpy as np
from rayvous.faults.checker.groups import GroupRecord
from rayvous.protocol.batch import batch_of
from rayvous.protocol.expiry import with_ttl
from rayvous.protocol.groups import PUBLISHER_KEY
from rayvous.protocol.messages.pubsub import Lost
from rayvous.routing.language.questions import to_filter
from rayvous.simulator.groups import SimulatedGroup

SECONDS = 15.0
"""How long events are published and processes die."""
DONE_SECONDS = 150.0
"""When a group has had all the time that it needs."""


class Clock:
    """Virtual time, and who waits for it."""

    def __init__(self):
        self.now, self._waiting, self._turns = 0.0, [], itertools.count()

    def at(self, when, action, *values):
        heapq.heappush(self._waiting, (max(when, self.now), next(self._turns), action, values))

    def advance_to(self, until):
        while self._waiting and self._waiting[0][0] <= until:
            self.now, _, action, values = heapq.heappop(self._waiting)
            action(*values)
        self.now = until


class Process:
    """The durable subscriber of a process of the group."""

    def __init__(self, broker):
        self._broker, self.due = broker, {"p": 0.0, "q": 0.0}
        self.subscriptions, self.incarnation = {1: to_filter("TRUE")}, 1

    def acknowledge(self, position):
        self._broker.position = dict(position)
        return []

    def record(self):
        return {"begins": {1: {}}}


class LoneGroup:
    """One case."""

    def __init__(self, seed):
        rng = self.rng = random.Random(f"lone/{seed}")
        self.clock, self.record = Clock(), GroupRecord()
        self.position, self.retained = {}, {"p": [], "q": []}
        self.expires, self.told = {}, []
        self.member = SimpleNamespace(name="group", alive=True, subscriber=Process(self))
        self.letters = 0
        key = rng.choice((None, PUBLISHER_KEY, "key", "key"))
        self.group = SimulatedGroup(
            self.clock,
            self.member,
            key,
            random.Random(f"workers/{seed}"),
            self.record,
            self._heard,
            lambda: True,
        )
        self._publish_in = rng.choice((0.02, 0.1, 0.5))
        self._dies_in = rng.choice((1.0, 2.5, 6.0))
        self._loses = rng.choice((0.0, 0.0, 0.1))
        self._late = random.Random(f"late/{seed}")
        self.clock.at(rng.random(), self._publish)
        self.clock.at(self._dies_in * rng.random() * 2, self._die)

    def run(self):
        """Return what the group did against its conditions."""
        self.clock.advance_to(SECONDS)
        self.group.calm = True
        self._start()
        self.clock.advance_to(DONE_SECONDS)
        expired = {event: until for event, until in self.expires.items() if until < self.clock.now}
        return self.record.violations(4, expired, self.told)

    def _heard(self, messages):
        self.letters += len(messages)

    def _publish(self):
        rng, now, name = self.rng, self.clock.now, self.rng.choice("pq")
        if now > SECONDS - 1:
            return
        number = self.retained[name][-1][0] + 1 if self.retained[name] else 1
        said = {"key": rng.choice("xyz")} if rng.random() < 0.9 else {"other": 1}
        ttl = rng.choice((None, None, 0.05, 1.0, 4.0))
        batch = with_ttl(batch_of([said], publisher=name, first_sequence=number, published_at=now), ttl)
        if ttl is not None:
            self.expires[name, number] = now + ttl
        self.retained[name].append((number, batch))
        self._come(self.member.subscriber, batch)
        self.clock.at(now + self._publish_in * 2 * rng.random(), self._publish)

    def _come(self, process, batch):
        """Give an event to a process after those of its publisher that it is given already."""
        name = batch.identity(0)[0]
        process.due[name] = max(process.due[name], self.clock.now)
        self.clock.at(process.due[name], self._arrive, process, batch)

    def _arrive(self, process, batch):
        event = batch.identity(0)
        gone = self.clock.now > self.expires.get(event, self.clock.now)
        if process is self.member.subscriber and self.member.alive and not gone:
            self.group.come(batch, np.array([0]))

    def _die(self):
        rng, now = self.rng, self.clock.now
        if now > SECONDS - 1:
            return
        self.member.alive = False
        for name, kept in self.retained.items():
            due = [number for number, _ in kept if number > self.position.get(name, 0)]
            if due and rng.random() < self._loses:
                upto = rng.choice(due)
                self.told.append(Lost(name, due[0], upto))
                last = kept[-1]
                kept[:] = [each for each in kept if not due[0] <= each[0] <= upto or each is last]
        self.clock.at(now + rng.choice((0.0, 0.3, 2.0)) * rng.random(), self._start)
        self.clock.at(now + self._dies_in * rng.random() * 2, self._die)

    def _start(self):
        if self.member.alive:
            return
        process = self.member.subscriber = Process(self)
        due = self.clock.now + self.rng.choice((0.0, 0.0, 0.5, 2.5))
        late = self._late.choice(("", "", "p", "q"))  # comes when others of its keys have been given
        process.due = {name: due + 3.0 * (name == late) for name in "pq"}
        self.member.alive = True
        left = {
            name: [batch for number, batch in kept if number > self.position.get(name, 0)]
            for name, kept in self.retained.items()
        }
        # With how many left of each publisher the rest comes when those before were given; -1 for no such rest.
        apart = {name: self._late.choice((-1, -1, len(some) // 2)) for name, some in left.items()}
        while any(left.values()):  # those of one publisher in order, and of both in any
            for name in [name for name, some in left.items() if len(some) == apart[name]]:
                process.due[name] += 3.0
                apart[name] = -1
            self._come(process, left[self.rng.choice([name for name in left if left[name]])].pop(0))
