"""A fake network for tests of gateways: one broker in this process, brute-force matching, durable names."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from patience import PATIENCE_SECONDS
from rayvous.clients.group import GroupMachine
from rayvous.gateway.access import Access
from rayvous.gateway.core import Gateway
from rayvous.gateway.network import Arrived, Straight
from rayvous.gateway.terms import Terms
from rayvous.protocol.batch import EventBatch, batch_of
from rayvous.protocol.errors import BrokerUnavailable, ClientError, InputError, NotGiven
from rayvous.protocol.gateways import AccessConfig, GatewayLimits, Principal, digest_of
from rayvous.protocol.gathering import TTLS
from rayvous.protocol.groups import GroupConfig
from rayvous.protocol.messages.pubsub import Lost
from rayvous.recovery.replay.repeats import Answer, NumbersRequest, Repeats
from rayvous.routing.filters.filter import Filter


class LocalOutlet:
    def __init__(self, network: LocalNetwork, name: str) -> None:
        self.network, self.name = network, name
        self.principal = name.partition("@")[0]
        self.flushes = 0

    async def publish(self, batch: EventBatch) -> int:
        await asyncio.sleep(0)  # a call takes a turn at least
        await self.network.open_gate.wait()
        first = self.network.last.get(self.name, 0) + 1
        last = self.network.last[self.name] = first + len(batch) - 1  # never reused, even if publishing fails
        if self.network.broken:
            raise BrokerUnavailable("the broker is gone")
        self.network.calls += 1
        at = time.time() if TTLS in batch.columns else 1.5
        made = batch_of(batch.documents(), publisher=self.name, first_sequence=first, published_at=at)
        ttls = {key: column for key, column in batch.columns.items() if key == TTLS}
        self.network.route(replace(made, columns={**made.columns, **ttls}))
        return last

    async def claim(self, requests: list[NumbersRequest]) -> list[Answer]:
        if self.network.forgetful:
            raise BrokerUnavailable("nobody knows of keys")
        last = self.network.last.get(self.name, 0)
        return self.network.repeats.claim(self.principal, self.name, last, requests, self.network.now)

    async def settle(self, keys: list[str]) -> None:
        self.network.repeats.settle(self.principal, keys, self.name, accepted=True)

    async def flush(self) -> None:
        self.flushes += 1
        self.network.flushes += 1

    async def close(self) -> None:
        self.network.outlets.remove(self)


class Kept:
    """What the broker keeps for one subscriber: its filters, its events, and its acknowledged position."""

    def __init__(self) -> None:
        self.filters: list[Filter] = []
        self.events: list[tuple[EventBatch, Any]] = []
        self.position: dict[str, int] = {}


class LocalFeed:
    def __init__(self, network: LocalNetwork, name: str, kept: Kept, durable: bool) -> None:
        self.network, self.name, self.kept, self.durable = network, name, kept, durable
        self.arrivals: deque[Arrived] = deque()
        self.more: Callable[[], None] = lambda: None
        self.straight: Straight = lambda batch, rows: False
        self.writes: list[dict[str, int]] = []
        for batch, rows in kept.events:
            self.offer(batch, rows)

    def offer(self, batch: EventBatch, rows: Any) -> None:
        after = [
            row for row in rows if batch.sequence[row] > self.kept.position.get(batch.identity(row)[0], 0)
        ]
        if not after:
            return
        may = not (self.arrivals or self.durable or TTLS in batch.columns)  # as an inbox decides it
        if not (may and self.straight(batch, np.array(after))):
            self.come(Arrived(batch, np.array(after)))

    def come(self, arrived: Arrived) -> None:
        self.arrivals.append(arrived)
        self.more()

    @property
    def filters(self) -> list[Filter]:
        return self.kept.filters

    async def subscribe(self, wanted: Filter, terms: Terms) -> None:
        self.kept.filters.append(wanted)
        self.network.terms.append(terms)

    def listen(self, more: Callable[[], None], straight: Straight) -> None:
        self.more, self.straight = more, straight

    def take(self) -> Arrived | None:
        return self.arrivals.popleft() if self.arrivals else None

    async def acknowledge(self, marks: dict[str, int]) -> None:
        await self.network.open_gate.wait()
        self.writes.append(dict(marks))
        self.kept.position |= marks

    async def close(self) -> None:
        self.network.feeds.remove(self)
        if not self.durable:
            del self.network.kept[self.name]

    async def end(self) -> None:
        self.network.feeds.remove(self)
        del self.network.kept[self.name]


class LocalGroup:
    """A consumer group: the machine of the real one, and the events that it has."""

    def __init__(self, config: GroupConfig) -> None:
        self.config, self.machine = config, GroupMachine(config)
        self.filters: list[Filter] = []
        self.events: dict[tuple[str, int], tuple[EventBatch, int]] = {}
        self.workers: list[LocalWorker] = []
        self.now = 0.0

    def tell(self) -> None:
        for worker in self.workers:
            worker.more()

    def route(self, batch: EventBatch) -> None:
        for row, event in enumerate(batch.events()):
            if any(each.matches(event) for each in self.filters):
                key = event.get(self.config.group_key) if self.config.group_key else None
                self.machine.take(*batch.identity(row), key)
                self.events[batch.identity(row)] = batch, row
        self.tell()


class LocalWorker:
    def __init__(self, network: LocalNetwork, group: LocalGroup) -> None:
        self.network, self.group, self.name = network, group, uuid4().hex
        self.more: Callable[[], None] = lambda: None
        self.asks = False
        group.workers.append(self)

    @property
    def filters(self) -> list[Filter]:
        return self.group.filters

    async def subscribe(self, wanted: Filter, terms: Terms) -> None:
        self.group.filters.append(wanted)
        self.network.terms.append(terms)

    def listen(self, more: Callable[[], None], straight: Straight) -> None:
        self.more = more

    def take(self) -> Arrived | None:
        machine = self.group.machine
        machine.hear(self.name, self.group.now, asks=self.asks)
        self.asks, withdrawn = False, machine.withdraw(self.name)
        given = machine.give(self.name, self.group.now, 1)
        if not given:
            return Arrived(withdrawn=withdrawn) if withdrawn else None
        batch, row = self.group.events[given[0].publisher, given[0].sequence]
        return Arrived(batch, np.array([row]), deliveries=[given[0].deliveries], withdrawn=withdrawn)

    def ask(self) -> None:
        self.asks = True

    async def acknowledge(self, marks: dict[str, int]) -> None:
        raise ClientError("a group has no position")

    async def settle(self, acknowledged: Any, refused: Any) -> None:
        await self.network.open_gate.wait()
        machine, now = self.group.machine, self.group.now
        done = [machine.acknowledge(self.name, event, now) for event in acknowledged]
        done += [machine.refuse(self.name, event, now, seconds) is not None for event, seconds in refused]
        self.group.tell()
        if not all(done):
            raise NotGiven("not given to this worker, or taken from it since")

    async def close(self) -> None:
        if self in self.group.workers:
            self.group.workers.remove(self)
            self.group.machine.leave(self.name)
            self.group.tell()

    async def end(self) -> None:
        await self.close()
        del self.network.groups[self.group.config.name]


class LocalNetwork:
    """A fake network, without a tree and without Ray, that keeps the same promises."""

    name, secret = "local", "secret"

    def __init__(self, *, heals: bool = True) -> None:
        self.heals = heals
        self.last: dict[str, int] = {}
        self.kept: dict[str, Kept] = {}
        self.feeds: list[LocalFeed] = []
        self.groups: dict[str, LocalGroup] = {}
        self.terms: list[Terms] = []  # of each subscription
        self.outlets: list[LocalOutlet] = []
        self.calls = self.flushes = 0
        self.repeats, self.now = Repeats(), 0.0
        self.broken = self.forgetful = False
        self.open_gate = asyncio.Event()
        self.open_gate.set()

    def route(self, batch: EventBatch) -> None:
        for group in self.groups.values():
            group.route(batch)
        for name, kept in self.kept.items():
            rows = [
                row
                for row, event in enumerate(batch.events())
                if any(each.matches(event) for each in kept.filters)
            ]
            if rows:
                kept.events.append((batch, rows))
                for feed in self.feeds:
                    if feed.name == name:
                        feed.offer(batch, rows)

    def lose(self, name: str, *losses: Lost) -> None:
        for feed in self.feeds:
            if feed.name == name:
                feed.come(Arrived(losses=losses))

    async def alive(self) -> bool:
        return not self.broken

    async def outlet(self, principal: str, may: Filter, rate: float) -> LocalOutlet:
        others = sum(each.principal == principal for each in self.outlets)  # at other gateways
        self.outlets.append(LocalOutlet(self, f"{principal}@{others}" if others else principal))
        return self.outlets[-1]

    async def feed(self, principal: str, durable: str | None = None) -> LocalFeed:
        name = f"{principal}/{durable or uuid4().hex}"
        kept = self.kept.setdefault(name, Kept())
        self.feeds.append(LocalFeed(self, name, kept, durable is not None))
        return self.feeds[-1]

    async def worker(self, config: GroupConfig) -> LocalWorker:
        group = self.groups.setdefault(config.name, LocalGroup(config))
        if group.config != config:
            raise InputError(f"another group, with {group.config.beside(config)}")
        return LocalWorker(self, group)

    async def end_group(self, name: str) -> None:
        if self.groups.pop(name, None) is None:
            raise InputError(f"there is no group {name!r}")


TOKENS = {"alice": "token-of-alice", "bob": "token-of-bob"}
ACCESS = AccessConfig(
    {
        "alice": Principal((digest_of(TOKENS["alice"]),), publish="TRUE", subscribe="TRUE"),
        "bob": Principal(
            (digest_of(TOKENS["bob"]),),
            publish="origin = 'JFK'",
            subscribe="origin = 'JFK' OR origin = 'LGA'",
        ),
    },
    anonymous=Principal(subscribe="public = TRUE"),
)


@pytest.fixture
def local_network() -> Callable[..., LocalNetwork]:
    """Return the class of the fake network; call it inside the event loop."""
    return LocalNetwork


@pytest.fixture
def gateway() -> Callable[..., Gateway]:
    """Return a factory of gateways: ``gateway(limits, access, network)``, by default with a new network."""

    def make(
        limits: GatewayLimits | None = None,
        access: AccessConfig = ACCESS,
        network: LocalNetwork | None = None,
    ) -> Gateway:
        return Gateway(LocalNetwork() if network is None else network, Access(access), limits)

    return make


@pytest.fixture
def slow() -> Callable[[LocalNetwork], LocalNetwork]:
    """Return a function that makes a network attach as on Ray: without cancellation, and each publisher once.

    Attaching completes when the network's `may_attach` is set.
    """

    def make(network: Any) -> Any:
        outlet, feed = network.outlet, network.feed
        network.may_attach, network.asked, network.taken = asyncio.Event(), asyncio.Event(), set()

        def in_a_thread(work: Callable[..., Any]) -> Callable[..., Any]:
            async def whole(*args: Any, **kwargs: Any) -> Any:
                network.asked.set()
                await network.may_attach.wait()
                return await work(*args, **kwargs)

            async def asks(*args: Any, **kwargs: Any) -> Any:
                return await asyncio.shield(asyncio.ensure_future(whole(*args, **kwargs)))

            return asks

        async def once(principal: str, may: Filter, rate: float) -> LocalOutlet:
            if principal in network.taken:
                raise ClientError(f"there is a publisher {principal!r}")
            network.taken.add(principal)
            return await outlet(principal, may, rate)

        network.outlet, network.feed = in_a_thread(once), in_a_thread(feed)
        return network

    return make


@pytest.fixture
def tokens() -> dict[str, str]:
    return TOKENS


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Return a function that runs a coroutine to its end, and fails after 30 seconds."""

    async def bounded(work: Coroutine[Any, Any, Any]) -> Any:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await work

    return lambda work: asyncio.run(bounded(work))
