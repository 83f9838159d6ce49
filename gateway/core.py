"""The gateway: sessions of principals, their rights, and their open streams. It knows no protocol.

Rules
-----
* There is one `Gateway` per process. It checks each request against the client's rights, rate and limits
  before it asks the network. A refusal is a named error: `AccessDenied`, `LimitReached`, or an `InputError`
  that says what is wrong.
* A principal has one publisher, however many connections it has: its events are one sequence. Its durable
  names are its own: in the network they are ``principal/name``.
* A durable name is open in one place. Opening it again takes it over; the previous stream ends.
* A session is one connection. Closing a session closes its streams.
* The network completes an attach request even if the requester has gone. So the gateway waits for the attach
  to complete and then keeps or closes the result.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, TypeAlias, TypeVar

from ..protocol import checks
from ..protocol.batch import EventBatch, batch_of
from ..protocol.errors import AccessDenied, ClientError, EventError, InputError, LimitReached
from ..protocol.expiry import checked_ttl, with_ttl
from ..protocol.gateways import ANONYMOUS, GatewayLimits
from ..protocol.groups import GroupConfig, subscriber_of
from ..routing.filters.filter import Filter
from ..routing.language.questions import doubts_to_tell
from .access import Access, is_quick, wanted_filter
from .deliveries import Delivery, Texts
from .group_streams import GroupStream
from .network import Upstream
from .positions import Seal
from .present import Present
from .publisher_queue import Accepted, Key, PublisherQueue, columns_bytes_max, named_by, takes_long
from .queues import Gap
from .streams import Stream
from .terms import NO_TERMS, Terms

__all__ = ["Accepted", "Delivery", "Gap", "Gateway", "Session", "Stream"]

Operating: TypeAlias = Literal["watch", "operate"]
T = TypeVar("T")


class Gateway:
    """Serves clients outside Ray, over one network.

    Parameters
    ----------
    upstream
        The network.
    access
        The rights of the principals.
    limits
        The limits of the gateway.
    clock
        Monotonic clock, in seconds.

    Attributes
    ----------
    counts
        Counters by name: ``published``, ``delivered``, ``shed``, ``refused.<right or limit>``.
    """

    def __init__(
        self,
        upstream: Upstream,
        access: Access,
        limits: GatewayLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.upstream, self.access = upstream, access
        self.limits = GatewayLimits() if limits is None else limits.validate()
        self.clock = clock
        self.texts = Texts()
        self.counts: Counter[str] = Counter()
        self._present: dict[str, Present] = {}
        self._open: dict[str, Stream] = {}
        self._workers: dict[str, dict[GroupStream, None]] = {}
        self._sessions: set[Session] = set()
        self._asking: set[asyncio.Task[object]] = set()  # continues even if the requester has gone
        self._sharing = 1  # number of gateways that share the limits of principals
        self._refused = _Refusals(self.counts)
        self._working_bytes = 0
        self._closed = False

    async def open(self, credentials: str | None, login: str | None = None) -> Session:
        """Open a session for the principal that a token belongs to.

        Parameters
        ----------
        credentials
            The token; None for an anonymous client.
        login
            The claimed name, where the protocol has a field for it.

        Raises
        ------
        AccessDenied
            If the token is unknown, or none was presented and anonymous access is off.
        LimitReached
            If too many connections are open.
        """
        if self._closed:
            raise ClientError("the gateway is closed")
        with self._refusals():
            rights = self.access.rights_of(credentials, login)
            present = self._present.get(rights.name)
            if present is None:
                present = self._present[rights.name] = Present(rights, self._sharing, self.clock())
            most = present.limits.connections_max
            if present.sessions >= most:
                raise LimitReached(
                    f"{rights.name!r} has {most} connections open, which is its limit (connections_max)",
                    "connections_max",
                    1.0,
                )
        session = Session(self, present)
        self._sessions.add(session)
        return session

    def share(self, gateways: int) -> None:
        """Set the number of gateways that share the limits of principals; each principal gets one gateway's share."""
        if gateways == self._sharing:
            return
        self._sharing = gateways
        for present in self._present.values():
            present.share(gateways, self.clock())

    def working(self, size: int) -> AbstractContextManager[None]:
        """Count `size` bytes of body as in memory while the block runs; LimitReached if the total exceeds the limit."""
        most = self.limits.bodies_bytes_max
        if self._working_bytes + size > most:
            with self._refusals():
                raise LimitReached(
                    f"{self._working_bytes:,} bytes are being processed, the limit is {most:,} (bodies_bytes_max)",
                    "bodies_bytes_max",
                    1.0,
                )
        return _Working(self, size)

    def _refusals(self) -> AbstractContextManager[None]:
        """Count what is refused in the block."""
        return self._refused

    @property
    def sessions(self) -> int:
        """The number of open sessions."""
        return len(self._sessions)

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return sum(present.streams for present in self._present.values())

    async def close(self) -> None:
        """Close all sessions; durable subscriptions remain."""
        self._closed = True
        for session in list(self._sessions):
            await session.close("the gateway ends")
        await asyncio.gather(*self._asking, return_exceptions=True)
        for present in self._present.values():
            if present.queue is not None:
                await (await present.queue).close()

    # Shared by the sessions.

    def _whole(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Run the work to completion, even if those that wait for it behind a shield are cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return task

    async def _queue(self, present: Present) -> PublisherQueue:
        if present.queue is None:
            present.queue = self._whole(self._attached(present))
        return await asyncio.shield(present.queue)

    async def _attached(self, present: Present) -> PublisherQueue:
        rights = present.rights
        rate = rights.principal.events_per_second
        try:
            return PublisherQueue(await self.upstream.outlet(rights.name, rights.publish, rate), self.limits)
        except BaseException:
            present.queue = None  # the next publish tries again
            raise


class _Working:
    """Counts bytes of bodies as in memory; a class, since each publication has one, and a generator costs more."""

    __slots__ = ("_gateway", "_size")

    def __init__(self, gateway: Gateway, size: int) -> None:
        self._gateway, self._size = gateway, size

    def __enter__(self) -> None:
        self._gateway._working_bytes += self._size

    def __exit__(self, *error: object) -> None:
        self._gateway._working_bytes -= self._size


class _Refusals:
    """Counts what is refused in a block; a class for the same reason."""

    __slots__ = ("_counts",)

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, AccessDenied):
            self._counts[f"refused.{error.right}"] += 1
        elif isinstance(error, LimitReached):
            self._counts[f"refused.{error.limit}"] += 1


class Session:
    """One connection of one principal. Made by `Gateway.open`."""

    def __init__(self, gateway: Gateway, present: Present) -> None:
        self._gateway, self._of = gateway, present
        self._streams: set[Stream] = set()
        self._closed = False
        present.sessions += 1

    @property
    def principal(self) -> str:
        """The name of the principal."""
        return self._of.rights.name

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The open streams of the session."""
        return tuple(self._streams)

    def may(self, right: Operating) -> bool:
        """Return whether the principal may watch the network, or operate it."""
        return bool(getattr(self._of.rights.principal, right))

    def require(self, right: Operating) -> None:
        """Raise AccessDenied if the principal may not watch, or operate, the network."""
        self._require_open()
        with self._gateway._refusals():
            if not self.may(right):
                raise AccessDenied(f"{self.principal!r} may not {right} this network", right)

    # Publishing.

    async def publish(
        self,
        events: Sequence[Mapping[str, object]] | EventBatch,
        *,
        flush: bool = False,
        key: str | None = None,
        ttl: float | None = None,
    ) -> Accepted:
        """Publish events, all or none; return when the network has accepted them, or with `flush` delivered them.

        A `key` identifies the events among all that this principal publishes. Events already published under
        the key, through any gateway, are not published again; the answer is the one given the first time.
        `ttl` is their time to live in seconds; None leaves it to the events, which expire only if they say so.

        Raises
        ------
        InputError
            If `ttl` is not a number of seconds above 0.
        KeyReused, PublicationUnderWay
            As `PublisherQueue.publish`.
        EventError
            If one is not a valid event; the message names it.
        AccessDenied
            If an event may not be published; `right` is ``"publish"``.
        LimitReached
            If there are too many events, or the rate is too high; `after_seconds` says when to retry.
        BrokerUnavailable
            If the network does not accept the events.
        """
        gateway, limits = self._gateway, self._gateway.limits
        self._require_open()
        seconds = checked_ttl(ttl)
        if not len(events):
            raise EventError("there is no event")
        with gateway._refusals():
            self._of.rights.require_publish()
            if len(events) > limits.batch_events_max:
                raise LimitReached(
                    f"{len(events):,} events at once, the limit is {limits.batch_events_max:,} (batch_events_max)",
                    "batch_events_max",
                )
            if key is not None and self.principal == ANONYMOUS:
                raise AccessDenied("a key belongs to a principal: send a token", "publish")
            read = asyncio.to_thread(self._read, events, key) if takes_long(events) else None
            batch, named = self._read(events, key) if read is None else await read
            batch = with_ttl(batch, seconds)
            with gateway.working(min(batch.nbytes, columns_bytes_max(limits))):
                wait = self._of.pay(batch.work, limits.rate_wait_seconds, gateway.clock())
                if wait > 0:
                    await asyncio.sleep(wait)  # enforces the rate
                queue = self._of.ready_queue or await gateway._queue(self._of)
                accepted = await queue.publish(batch, flush=flush, key=named)
        gateway.counts["repeated" if accepted.repeated else "published"] += len(batch)
        return accepted

    def _read(
        self, events: Sequence[Mapping[str, object]] | EventBatch, key: str | None
    ) -> tuple[EventBatch, Key | None]:
        """Return events as a batch that may be published, and their key; in a thread, if that takes long."""
        most = columns_bytes_max(self._gateway.limits)
        batch = events if isinstance(events, EventBatch) else batch_of(events, bytes_max=most)
        self._of.rights.check_publish(batch)
        return batch, None if key is None else named_by(key, batch.seen())

    # Subscribing.

    async def subscribe(
        self,
        selector: str | None,
        *,
        durable: str | None = None,
        narrow: bool = False,
        after: str | None = None,
        group: Mapping[str, object] | None = None,
        terms: Terms = NO_TERMS,
    ) -> Stream:
        """Subscribe, and return the stream once the subscription is installed.

        Parameters
        ----------
        selector
            The selector; None for a durable name that already has a subscription.
        durable
            A name under which the subscription and the position outlive the connection and the gateway.
        narrow
            Whether to narrow the subscription to the right, if the right does not cover it.
        after
            The id of the last delivery that the client received. It and all deliveries before it are
            acknowledged.
        group
            The settings of the consumer group that the durable name is, of which this stream is one worker; None if it
            is none.
        terms
            What it asks of admission control, and where it begins. A durable name that has a subscription keeps what
            that was admitted with, and goes on where it was.

        Raises
        ------
        SelectorError, FilterTooComplex
            If the selector is invalid, or too large.
        AccessDenied
            If the right does not cover it or its terms; `right` is ``"subscribe"``.
        LimitReached
            If too many subscriptions are open.
        InputError
            If the durable name has another subscription, the network has no durable names, or `after` is not
            an id of it.
        SubscriptionRejected, SubscriptionTimeout, BrokerUnavailable
            As `Subscriber.subscribe`.
        """
        work = self.subscribing(
            selector, durable=durable, narrow=narrow, after=after, group=group, terms=terms
        )
        return await asyncio.shield(work)

    def subscribing(
        self,
        selector: str | None,
        *,
        durable: str | None = None,
        narrow: bool = False,
        after: str | None = None,
        group: Mapping[str, object] | None = None,
        terms: Terms = NO_TERMS,
    ) -> asyncio.Task[Stream]:
        """Begin to do what `subscribe` does, which goes on even if nobody awaits it; not to be cancelled."""
        return self._gateway._whole(self._subscribing(selector, durable, after, group, terms, narrow=narrow))

    async def _subscribing(
        self,
        selector: str | None,
        durable: str | None,
        after: str | None,
        group: Mapping[str, object] | None,
        terms: Terms,
        *,
        narrow: bool,
    ) -> Stream:
        gateway, of = self._gateway, self._of
        self._require_open()
        with gateway._refusals():
            of.check_durable(durable, heals=gateway.upstream.heals)
            if group is not None and durable is None:
                raise InputError("a group has a name: give durable")
            if selector is None and durable is None:
                raise InputError("a selector is missing: only a durable name that returns already has one")
            of.rights.check_terms(terms)
            terms.require_durable(durable)
            allowed, doubts = await self._allowed(selector, narrow)
            if of.streams >= of.limits.streams_max:
                raise LimitReached(
                    f"{self.principal!r} has {of.streams} subscriptions open, which is its limit (streams_max)",
                    "streams_max",
                )
            of.streams += 1
            stream = await self._opened(durable, allowed, after, group, terms)
            stream.doubts = doubts
            return stream

    async def _opened(
        self,
        durable: str | None,
        allowed: Filter | None,
        after: str | None,
        group: Mapping[str, object] | None,
        terms: Terms,
    ) -> Stream:
        """Open a stream that is already counted; close it again if the session was closed meanwhile."""
        try:
            if durable is None:
                stream = await self._subscribe(allowed, after, terms)
            elif group is not None:
                stream = await self._join(durable, allowed, group, terms)
            else:
                stream = await self._reattach(durable, allowed, after, terms)
        except BaseException:
            self._of.streams -= 1
            raise
        self._streams.add(stream)
        if self._closed:
            await stream.close()
            self._require_open()
        return stream

    async def _allowed(self, selector: str | None, narrow: bool) -> tuple[Filter | None, tuple[str, ...]]:
        """Return the filter that a selector gets by its right, and what is doubtful about the selector."""
        if selector is None:
            return None, ()
        rights, limits = self._of.rights, self._gateway.limits

        def decide() -> tuple[Filter, tuple[str, ...]]:
            wanted = wanted_filter(selector, limits)
            return rights.admit(wanted, narrow=narrow), doubts_to_tell(selector, wanted)

        # An adversarial filter may take long to normalize, and an intersection too.
        return decide() if is_quick(selector) and not narrow else await asyncio.to_thread(decide)

    async def _subscribe(self, allowed: Filter | None, after: str | None, terms: Terms) -> Stream:
        assert allowed is not None
        gateway = self._gateway
        feed = await gateway.upstream.feed(self.principal)
        try:
            await feed.subscribe(allowed, terms)
            stream = Stream(feed, gateway.limits, gateway.texts, filter=allowed, on_end=self._gone)
            await stream.begin(after)
        except BaseException:
            await feed.close()
            raise
        return stream

    async def _reattach(
        self, durable: str, allowed: Filter | None, after: str | None, terms: Terms
    ) -> Stream:
        gateway, of = self._gateway, self._of
        name = f"{self.principal}/{durable}"
        seal = Seal(gateway.upstream.secret, name)
        if after:
            seal.marks_of(after)  # validate before attaching anything
        async with of.turn:
            of.check_room(name)
            if (there := gateway._open.get(name)) is not None:
                await there.close(f"{durable!r} was opened again elsewhere")
            feed = await gateway.upstream.feed(self.principal, durable)
            fresh = not feed.filters
            try:
                filter = of.rights.admit_again(durable, feed.filters, allowed)
                if fresh:
                    await feed.subscribe(filter, terms)
                stream = Stream(
                    feed,
                    gateway.limits,
                    gateway.texts,
                    filter=filter,
                    durable=durable,
                    seal=seal,
                    on_end=self._gone,
                )
                await stream.begin(after)
            except BaseException:
                await (feed.end() if fresh else feed.close())  # leave no name behind that was never open
                raise
            of.durables.add(name)
            gateway._open[name] = stream
            return stream

    async def _join(
        self, durable: str, allowed: Filter | None, group: Mapping[str, object], terms: Terms
    ) -> GroupStream:
        gateway, of = self._gateway, self._of
        config = GroupConfig.of(f"{self.principal}/{durable}", group)
        async with of.turn:
            of.check_room(subscriber_of(config.name))
            feed = await gateway.upstream.worker(config)
            try:
                filter = of.rights.admit_again(durable, feed.filters, allowed)
                if not feed.filters:
                    await feed.subscribe(filter, terms)
                stream = GroupStream(
                    feed, gateway.limits, gateway.texts, filter=filter, durable=durable, on_end=self._gone
                )
                await stream.begin(None)
            except BaseException:
                await feed.close()
                raise
            of.durables.add(subscriber_of(config.name))
            gateway._workers.setdefault(config.name, {})[stream] = None
            return stream

    def _gone(self, stream: Stream) -> None:
        self._streams.discard(stream)
        self._of.streams -= 1
        self._gateway.counts["shed"] += stream.shed
        self._gateway.counts["past_ttl"] += stream.past_ttl
        name = f"{self.principal}/{stream.durable}"
        if self._gateway._open.get(name) is stream:
            del self._gateway._open[name]
        if isinstance(stream, GroupStream) and (workers := self._gateway._workers.get(name)) is not None:
            workers.pop(stream, None)
            if not workers:
                del self._gateway._workers[name]

    async def acknowledge(self, durable: str, id: str, *, alone: bool = False) -> None:
        """Acknowledge a delivery of a durable name, and all deliveries before it unless `alone`, from any connection.

        Raises
        ------
        InputError
            If the name is not open at this gateway, or the id is not one of its deliveries.
        BrokerUnavailable
            If the acknowledgement cannot be stored.
        """
        self._require_open()
        self._of.check_durable(durable, heals=self._gateway.upstream.heals)
        if (worker := self._worker(durable, id)) is not None:
            await worker.acknowledge(id, alone=alone)
            return
        stream = self._gateway._open.get(f"{self.principal}/{durable}")
        if stream is None:
            raise InputError(
                f"durable {durable!r} is not open here: acknowledge by coming back after that id"
            )
        await stream.acknowledge(id, alone=alone)

    async def refuse(self, durable: str, id: str, seconds: float = 0.0) -> None:
        """Refuse a delivery of a consumer group, from any connection: a worker gets it again in so many seconds.

        Raises
        ------
        InputError
            If the name is no group that is open at this gateway.
        NotGiven
            If no worker here holds that delivery.
        BrokerUnavailable
            If that cannot be stored.
        """
        self._require_open()
        worker = self._worker(durable, id)
        if worker is None:
            raise InputError(
                f"{durable!r} is no group that is open here: only an event of a group is refused"
            )
        await worker.refuse(id, checks.seconds("seconds", seconds))

    def _worker(self, durable: str, id: str) -> GroupStream | None:
        """Return the worker here that holds a delivery, or any of the group; None if it is no group."""
        workers = self._gateway._workers.get(f"{self.principal}/{durable}", {})
        return next((each for each in workers if each.has(id)), next(iter(workers), None))

    async def unsubscribe(self, durable: str, *, group: bool = False) -> None:
        """End a durable name, or a `group`, permanently: its subscription and its position are deleted.

        Raises
        ------
        InputError
            If there is no such name.
        """
        self._require_open()
        self._of.check_durable(durable, heals=self._gateway.upstream.heals)
        await asyncio.shield(self._gateway._whole(self._forgotten(durable, group=group)))

    async def _forgotten(self, durable: str, *, group: bool) -> None:
        gateway, of = self._gateway, self._of
        name = f"{self.principal}/{durable}"
        async with of.turn:
            if group:
                await gateway.upstream.end_group(name)
            elif (there := gateway._open.get(name)) is not None:
                await there.close(f"{durable!r} was ended", for_good=True)
            else:
                feed = await gateway.upstream.feed(self.principal, durable)
                known = bool(feed.filters)
                await feed.end()
                if not known:
                    raise InputError(f"durable {durable!r}: there is no such name")
            of.durables.discard(subscriber_of(name) if group else name)

    # Closing.

    def _require_open(self) -> None:
        if self._closed:
            raise ClientError("the session is closed")

    async def close(self, reason: str = "closed") -> None:
        """Close the session and all its streams; durable subscriptions remain."""
        if self._closed:
            return
        self._closed = True
        self._gateway._sessions.discard(self)
        self._of.sessions -= 1
        for stream in list(self._streams):
            await stream.close(reason)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
