"""A gateway's upstream on Ray: publishers and subscribers of this process, called from coroutines.

Rules
-----
* The gateway's publishers and subscribers live on its event loop, with their channels, their polls and their inboxes:
  attaching a subscriber, subscribing, publishing, confirming delivery and leaving are carried out there, and no other
  thread takes part.
* What is rare, or blocks, is carried out in a small pool of threads: durable subscribers, keys, attaching publishers.
* Non-durable subscribers share one long poll, so their arrivals are taken at once. A durable subscriber has its own
  poll, and may be as slow as its client.
* A publisher's name combines its principal and this process: two gateways never share one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar
from uuid import uuid4

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError

from ..actors.clients.attaching import Attaching
from ..actors.clients.durable import DurableSubscriber
from ..actors.clients.publisher import Publisher
from ..actors.clients.subscriber import Subscriber
from ..actors.groups.worker import GroupWorker
from ..actors.host.errors import broker_errors
from ..actors.network.network import Network, attaching_here, clients_of, groups_of
from ..actors.network.rendezvous import KEYS
from ..protocol.batch import EventBatch, Rows
from ..protocol.errors import BrokerUnavailable, ClientError, InputError, RayvousError
from ..protocol.groups import GroupConfig, subscriber_of
from ..protocol.ids import EventId
from ..recovery.replay.repeats import Answer, NumbersRequest
from ..routing.filters.filter import Filter
from .network import Arrived, Feed, GroupFeed, Outlet, Straight
from .publisher_queue import CALL_EVENTS_MAX
from .terms import Terms

CALLS_AT_ONCE: Final = 32
HEARD_SECONDS: Final = 1.0
"""How long a claim waits for confirmation that an earlier, unused claim was withdrawn; after that, keys are refused."""
ALIVE_SECONDS: Final = 2.0
"""Timeout of a liveness check of the network."""
LOOK_SECONDS: Final = 1.0
"""How long the result of a liveness check is valid."""

T = TypeVar("T")


async def _in(pool: ThreadPoolExecutor, call: Callable[..., T], *args: object, **kwargs: object) -> T:
    return await asyncio.get_running_loop().run_in_executor(pool, partial(call, *args, **kwargs))


class _RayOutlet:
    def __init__(
        self,
        network: Network,
        attached: Attaching,
        principal: str,
        publisher: Publisher,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._network, self._attached, self._principal = network, attached, principal
        self._publisher, self._pool = publisher, pool
        self._claimed: int | None = None  # last sequence number before the claim for the next publish
        self._unused: int | None = None  # last sequence number before a claim that was not used
        self._said: object = None  # the call that withdraws it

    @property
    def name(self) -> str:
        return self._publisher.name

    async def publish(self, batch: EventBatch) -> int:
        self._say_unused()
        claimed, self._claimed = self._claimed, None
        try:
            return await self._publisher.publish_batch_async(batch)
        except BaseException as error:  # the outcome is unknown except in these cases
            refused = isinstance(error, InputError) or self._publisher.published == claimed
            if claimed is not None and refused:
                self._withdraw(claimed)
            raise

    async def claim(self, requests: Sequence[NumbersRequest]) -> list[Answer]:
        return await _in(self._pool, self._claim, requests)

    def _claim(self, requests: Sequence[NumbersRequest]) -> list[Answer]:
        self._say_unused(HEARD_SECONDS)
        if self._unused is not None:  # the late withdrawal must not hit the new claim
            raise BrokerUnavailable("the rendezvous point does not answer: retry with the same key")
        last = self._publisher.published
        try:
            answers, now = self._rendezvous("claim", self._principal, self.name, last, requests)
            answers = self._without_those_in_flight(requests, answers, now)
        except BaseException:  # the claim may still take effect, but is not used
            self._withdraw(last)
            raise
        self._claimed = last
        return answers

    def _without_those_in_flight(
        self, requests: Sequence[NumbersRequest], answers: list[Answer], now: float
    ) -> list[Answer]:
        last_of: dict[str, int] = {}
        for i, (request, known) in enumerate(zip(requests, answers, strict=True)):
            if known is None or known.accepted or not self._network.inspect.heals:
                continue
            if now - known.since < self._in_flight_seconds:
                continue
            try:
                if known.publisher not in last_of:
                    last_of[known.publisher] = self._network.inspect.accepted(known.publisher)
            except BrokerUnavailable:  # asked again with the next request
                break
            if known.first <= last_of[known.publisher] < known.last:
                continue  # partly accepted: the key is neither accepted nor free
            accepted = last_of[known.publisher] >= known.last
            self._rendezvous("settle", self._principal, [request.key], known.publisher, accepted=accepted)
            answers[i] = replace(known, accepted=accepted)
        return answers

    async def settle(self, keys: Sequence[str]) -> None:
        await _in(self._pool, self._rendezvous, "settle", self._principal, keys, self.name, accepted=True)

    def _withdraw(self, last: int) -> None:
        """Report that the claim above this number was not published, before other events get these numbers.

        The call is not awaited, so that events without a key do not wait either. It is executed after the
        claim, in order.
        """
        self._unused, self._said = last, None
        self._say_unused()

    def _say_unused(self, seconds: float = 0.0) -> None:
        """Repeat the withdrawal until it is confirmed, waiting up to `seconds`; at most one call is in flight."""
        if self._unused is None:
            return
        heard = False if self._said is None else self._heard(self._said, seconds)
        if heard:
            self._unused = self._said = None
        elif heard is False:
            self._said = self._asked("withdraw", self._principal, self.name, self._unused)

    def _heard(self, call: object, seconds: float) -> bool | None:
        """Return whether a call succeeded, or None while it is in flight."""
        try:
            ray.get(call, timeout=seconds)
        except GetTimeoutError:
            return None
        except RayError:
            return False
        return True

    def _rendezvous(self, method: str, *args: object, **kwargs: object) -> Any:
        with broker_errors("asking for the key of a publication", "the rendezvous point"):
            return ray.get(self._asked(method, *args, **kwargs), timeout=self._call_seconds)

    def _asked(self, method: str, *args: object, **kwargs: object) -> object:
        return (
            getattr(self._network.inspect.rendezvous, method)
            .options(concurrency_group=KEYS)
            .remote(*args, **kwargs)
        )

    @property
    def _call_seconds(self) -> float:
        return self._network.inspect.directory.limits.call_seconds

    @property
    def _in_flight_seconds(self) -> float:
        """How long after its claim a publication may be in flight: it is one or more calls, which wait for a turn."""
        calls = math.ceil(CALL_EVENTS_MAX / self._network.inspect.directory.limits.call_events_max)
        return self._call_seconds * (calls + 1)

    async def flush(self) -> None:
        await self._publisher.flush_async()

    async def close(self) -> None:
        with suppress(ClientError):  # the network was closed here before
            await self._attached.release_here(self._publisher)


class _RayFeed:
    """A subscriber on the gateway's event loop."""

    def __init__(self, attached: Attaching, subscriber: Subscriber) -> None:
        self._attached, self._subscriber = attached, subscriber
        self._losses = self._shed = 0

    @property
    def filters(self) -> Sequence[Filter]:
        return list(self._subscriber.subscriptions.values())

    async def subscribe(self, wanted: Filter, terms: Terms) -> None:
        await self._subscriber.subscribe_async(
            wanted,
            priority=terms.priority,
            max_delay=terms.max_delay,
            at=terms.at,
            last_per=terms.last_per,
        )

    def listen(self, more: Callable[[], None], straight: Straight) -> None:
        subscriber = self._subscriber

        def pass_on(batch: EventBatch, rows: Rows) -> bool:
            if not straight(batch, rows):
                return False
            subscriber.received += len(rows)
            return True

        subscriber.listen(more, pass_on)

    def take(self) -> Arrived | None:
        arrival = self._subscriber.take()
        if arrival is None:
            return None
        losses, shed = self._subscriber.losses_after(self._losses), self._subscriber.shed - self._shed
        self._losses += len(losses)
        self._shed += shed
        return Arrived(arrival.batch, arrival.rows, losses, shed, last=self._subscriber.idle)

    async def acknowledge(self, marks: Mapping[str, int]) -> None:
        raise ClientError("only a durable subscriber has a position")

    async def close(self) -> None:
        with suppress(ClientError):  # the network was closed here before
            await asyncio.shield(self._attached.release_here(self._subscriber))

    async def end(self) -> None:
        await self.close()


class _DurableFeed(_RayFeed):
    """A durable subscriber, which has a client process of its own; its calls block a thread."""

    _subscriber: DurableSubscriber

    def __init__(self, network: Network, subscriber: DurableSubscriber, pool: ThreadPoolExecutor) -> None:
        self._network, self._subscriber, self._pool = network, subscriber, pool
        self._losses = self._shed = 0

    def listen(self, more: Callable[[], None], straight: Straight) -> None:
        self._subscriber.listen(more)

    async def acknowledge(self, marks: Mapping[str, int]) -> None:
        await _in(self._pool, self._subscriber.acknowledge_up_to, marks)

    async def close(self) -> None:
        await _in(self._pool, self._leave, self._subscriber.close)

    async def end(self) -> None:
        await _in(self._pool, self._leave, self._subscriber.end)

    def _leave(self, say: Callable[[], None]) -> None:
        say()
        clients_of(self._network).forget(self._subscriber)


class _GroupFeed:
    """A worker of a group; its calls block a thread."""

    def __init__(self, worker: GroupWorker, filters: Sequence[Filter], pool: ThreadPoolExecutor) -> None:
        self._worker, self._pool = worker, pool
        self.filters = filters

    async def subscribe(self, wanted: Filter, terms: Terms) -> None:
        await _in(
            self._pool,
            lambda: self._worker.subscribe(
                wanted,
                priority=terms.priority,
                max_delay=terms.max_delay,
                at=terms.at,
                last_per=terms.last_per,
            ),
        )

    def listen(self, more: Callable[[], None], straight: Straight) -> None:
        loop = asyncio.get_running_loop()

        def come() -> None:
            with suppress(RuntimeError):  # the loop is closed: the gateway has ended
                loop.call_soon_threadsafe(more)

        self._worker.listen(come)

    def take(self) -> Arrived | None:
        taken = self._worker.take()
        if taken is None:
            return None
        batch, rows, deliveries, withdrawn = taken
        return Arrived(batch, rows, deliveries=deliveries, withdrawn=withdrawn)

    def ask(self) -> None:
        self._worker.ask()

    async def acknowledge(self, marks: Mapping[str, int]) -> None:
        raise ClientError("a group has no position: its events are acknowledged each")

    async def settle(self, acknowledged: Sequence[EventId], refused: Sequence[tuple[EventId, float]]) -> None:
        await _in(self._pool, self._worker.settle, acknowledged, refused)

    async def close(self) -> None:
        await _in(self._pool, self._worker.close)

    async def end(self) -> None:
        await _in(self._pool, self._worker.end)


class Joined:
    """A network on Ray that this process has joined; an `Upstream`.

    Parameters
    ----------
    network
        The network; closed by `close`. This is made on the event loop on which the gateway serves.
    inbox_events_max
        Notifications that one stream may have queued.

    Attributes
    ----------
    ended
        Whether the network was found to have been ended for all its clients.
    """

    def __init__(self, network: Network, inbox_events_max: int = 1_000) -> None:
        self._network = network
        self._attached = attaching_here(network)
        self._attached.bound_inboxes(inbox_events_max)
        clients_of(network).bound_inboxes(inbox_events_max)
        self._pool = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="gateway")
        self._suffix = uuid4().hex[:8]
        self._looked_at, self._seen = float("-inf"), False
        self.ended = False

    @property
    def name(self) -> str:
        """The name of the network."""
        return self._network.name

    @property
    def secret(self) -> str:
        """A secret shared by the parts of this network; it survives a restart from the stores."""
        return self._network.inspect.directory.seal

    @property
    def heals(self) -> bool:
        """Whether durable names and `flush` are available."""
        return self._network.inspect.heals

    async def alive(self) -> bool:
        """Return whether the network responds, or did so within `LOOK_SECONDS`."""
        now = time.monotonic()
        if now - self._looked_at > LOOK_SECONDS:
            self._looked_at = now
            self._seen = await _in(self._pool, self._answers)
        return self._seen

    def _answers(self) -> bool:
        try:
            ray.get(self._network.inspect.rendezvous.hosts.remote(), timeout=ALIVE_SECONDS)
        except ActorDiedError:
            self.ended = True
            return False
        except RayError:
            return False
        return True

    async def outlet(self, principal: str, may: Filter, rate: float) -> Outlet:
        """Attach a publisher; with admission control it advertises the principal's publish right, at its rate."""

        def attach() -> Publisher:
            publisher = self._attached.publisher(f"{principal}@{self._suffix}")
            if self._network.inspect.directory.features.admits:
                publisher.advertise(may, max_rate=rate)
            return publisher

        publisher = await _in(self._pool, attach)
        return _RayOutlet(self._network, self._attached, principal, publisher, self._pool)

    async def feed(self, principal: str, durable: str | None = None) -> Feed:
        """Attach a subscriber of a principal."""
        if durable is None:
            return _RayFeed(self._attached, await self._attached.subscriber_here(principal))
        name = f"{principal}/{durable}"
        return _DurableFeed(self._network, await _in(self._pool, self._reattach, name), self._pool)

    async def worker(self, config: GroupConfig) -> GroupFeed:
        """Join a consumer group."""

        def join() -> _GroupFeed:
            worker = groups_of(self._network).worker(config)
            return _GroupFeed(worker, worker.subscriptions, self._pool)

        return await _in(self._pool, join)

    async def end_group(self, name: str) -> None:
        """End a consumer group permanently."""
        await _in(self._pool, self._network.end_durable, subscriber_of(name))

    def _reattach(self, name: str) -> DurableSubscriber:
        return self._network.subscriber(name, durable=True)

    async def close(self) -> None:
        """Leave the network."""
        with suppress(RayvousError):
            await self._attached.close_here()
        with suppress(RayvousError):
            await _in(self._pool, self._network.close)
        self._pool.shutdown(wait=False)
