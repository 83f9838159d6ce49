"""How clients attach to a network and leave it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import ray

from ...clients.places import Tiers
from ...protocol import checks
from ...protocol.errors import BrokerUnavailable, ClientError, InputError, RayvousError
from ...protocol.expiry import checked_ttl
from ...protocol.ids import BrokerId, ClientId
from ...recovery.durability.durable_cursor import DeadLetter
from ...routing.language.questions import FilterLike
from ..answers import answered
from ..host.errors import broker_errors
from ..network.hosts import Hosts
from ..network.names import BLOCK
from .ahead import PlacesAhead
from .client import Context
from .durable import DurableSubscriber
from .nearness import Placement, checked
from .notification import Notification
from .process import ClientProcess
from .publisher import Publisher
from .reattach import evict, reattached_publisher, reattached_subscriber
from .requesting import TIMEOUT_SECONDS, Requesting
from .subscriber import Subscriber

if TYPE_CHECKING:
    from ..network.directory import Directory
    from ..network.rendezvous import Placed

PLACE_SECONDS: Final = 60.0
"""How long the rendezvous point may take to give clients their brokers."""

LEAVE_SECONDS: Final = 0.05
"""How long names of subscribers that have left an event loop wait for others, to be freed by one call."""


class Attaching:
    """The clients of this process in a network.

    Attributes
    ----------
    process
        Polls for the clients.
    """

    def __init__(self, hosts: Hosts, process: ClientProcess) -> None:
        self._hosts = hosts
        self.process = process
        self._clients: dict[Publisher | Subscriber, None] = {}  # an ordered set
        self._inbox_events_max: int | None = None
        self._ahead: dict[str, PlacesAhead] = {}
        self._leaving: list[Subscriber] = []  # their names are freed together
        self._requesting = Requesting(self.publisher, self.subscriber)
        self._bounded: tuple[Directory, Directory] | None = (
            None  # a directory, and what clients are given of it
        )

    def publisher(
        self,
        name: ClientId,
        *,
        broker: BrokerId | None = None,
        place: Placement | None = None,
        durable: bool = False,
        take_over: bool = False,
        ttl: float | None = None,
    ) -> Publisher:
        """Attach a publisher, by default at the broker with the fewest clients.

        Parameters
        ----------
        name, broker
            The client's name, and the broker at which it attaches.
        place
            The broker at which the publisher attaches when none is named, and to which it moves when it must
            leave its broker: ``"nearest"`` by measured round trip, or ``"least-loaded"``, which has the fewest
            clients. None attaches at the least loaded broker, and on a move prefers another broker of the same
            cluster. See docs/operations.md.
        durable
            Whether numbering continues where an earlier, dead process of that name stopped: `published` is the
            last number that was accepted. Requires a network that heals.
        take_over
            Whether to take the name from a publisher that is still attached under it, or whose process died
            just now; see docs/service.md. A restarted Ray actor gets its own names again without it.
        ttl
            The time to live of its events, in seconds; None for events that do not expire. See docs/expiry.md.

        Raises
        ------
        NameTaken
            If another publisher has that name, and may not be taken over.
        InputError
            If it is durable and the network does not heal, or `ttl` is not a number of seconds above 0.
        """
        checks.text("name", name)
        seconds = checked_ttl(ttl)
        if checks.flag("durable", durable):
            publisher: Publisher = self._lasting(reattached_publisher, name, broker, place)
        else:
            publisher = self.publishers([name], broker=broker, place=place, take_over=take_over)[0]
        publisher.ttl = seconds
        return publisher

    def subscriber(
        self,
        name: ClientId,
        *,
        broker: BrokerId | None = None,
        place: Placement | None = None,
        durable: bool = False,
        take_over: bool = False,
    ) -> Subscriber:
        """Attach a subscriber; see :meth:`Network.subscriber`."""
        checks.text("name", name)
        if checks.flag("durable", durable):
            subscriber: DurableSubscriber = self._lasting(reattached_subscriber, name, broker, place)
            return subscriber
        return self.subscribers([name], broker=broker, place=place, take_over=take_over)[0]

    def request(
        self,
        event: Mapping[str, object],
        *,
        reply_where: FilterLike | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        by: Publisher | None = None,
    ) -> Notification:
        """Publish a request to whoever subscribes to it, and return the first reply.

        Parameters
        ----------
        event
            What is asked. It is published with two attributes more, `JMSReplyTo` and `JMSCorrelationID`, by which a
            reply finds its way back, and with the timeout as its time to live.
        reply_where
            A selector or another filter that the reply has to match; other replies to this request are dropped.
        timeout_seconds
            How long to wait for the reply.
        by
            The publisher of the request; None for one that this process has for all its requests. Where publishers
            advertise, that one has advertised nothing.

        Returns
        -------
        Notification
            The reply.

        Raises
        ------
        RequestTimeout
            If no reply came in time.
        InputError
            If an argument is wrong, or the event has one of the two attributes.
        LimitReached
            If 10,000 requests of this process wait.
        BrokerUnavailable
            If a broker does not accept the request, or the broker of this process's replies is gone.
        """
        return self._requesting.request(
            event, reply_where=reply_where, timeout_seconds=timeout_seconds, by=by
        )

    async def request_async(
        self,
        event: Mapping[str, object],
        *,
        reply_where: FilterLike | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        by: Publisher | None = None,
    ) -> Notification:
        """Publish a request from a coroutine, and return the first reply; see `request`."""
        return await self._requesting.request_async(
            event, reply_where=reply_where, timeout_seconds=timeout_seconds, by=by
        )

    def reply(
        self, request: Notification, event: Mapping[str, object], *, by: Publisher | None = None
    ) -> None:
        """Publish a reply to a request that a subscriber was notified of; it expires with the request.

        `by` is the publisher, as in `request`.

        Raises
        ------
        NotARequest
            If the notification does not ask for a reply.
        InputError
            If the reply says itself where it goes.
        BrokerUnavailable
            If a broker does not accept it.
        """
        self._requesting.reply(request, event, by=by)

    async def reply_async(
        self, request: Notification, event: Mapping[str, object], *, by: Publisher | None = None
    ) -> None:
        """Publish a reply from a coroutine; see `reply`."""
        await self._requesting.reply_async(request, event, by=by)

    def dropped_replies(self) -> int:
        """Return how many replies came to no request of this process that waited: too late, or after another one."""
        return self._requesting.dropped

    def publishers(
        self,
        names: Iterable[ClientId],
        *,
        broker: BrokerId | None = None,
        place: Placement | None = None,
        take_over: bool = False,
    ) -> list[Publisher]:
        """Attach several publishers at once; see `publisher`."""
        return self._attach(Publisher, checks.texts("names", names), broker, place, take_over)

    def subscribers(
        self,
        names: Iterable[ClientId],
        *,
        broker: BrokerId | None = None,
        place: Placement | None = None,
        take_over: bool = False,
    ) -> list[Subscriber]:
        """Attach several subscribers at once; see `subscriber`."""
        return self._attach(Subscriber, checks.texts("names", names), broker, place, take_over)

    @property
    def clients(self) -> tuple[Publisher | Subscriber, ...]:
        """All clients that have attached here and were not released, in that order, as of now.

        Clients attach and leave in several threads, so nobody walks over the set itself.
        """
        return tuple(self._clients)

    def hosts_by_ray(self) -> int:
        """Return to how many hosts the clients of this process could open no channel."""
        processes = {self.process, *(client.process for client in self.clients if not client.closed)}
        return max(process.carriers()[1] for process in processes)

    def _near(self, broker: BrokerId | None, place: Placement | None) -> Tiers | None:
        """Return the brokers by nearness, if that decides where a client attaches."""
        if broker is not None:
            return None
        with broker_errors(f"attaching to {self._hosts.name!r}"):
            return self.process.run(self.process.nearness.tiers(place, self._hosts.rendezvous))

    def _lasting(self, back: Any, name: ClientId, broker: BrokerId | None, place: Placement | None) -> Any:
        self._hosts.require_open()
        placement = checked(place)
        if not self._hosts.features.heals:
            raise InputError(
                f"network {self._hosts.name!r} does not heal: launch it with recovery=Recovery()"
            )
        if broker is not None:
            checks.whole_number("broker", broker)
        self._hosts.find_reborn()
        near = self._near(broker, placement)
        client = back(self._context(placement), name, broker, near)
        self._clients[client] = None
        return client

    def accepted(self, publisher: ClientId, without: Collection[BrokerId] = ()) -> int:
        """Return the last number of a publisher that any live broker has accepted, 0 for none.

        Parameters
        ----------
        publisher
            Its name.
        without
            Brokers that are not asked, because they could not answer.

        Raises
        ------
        BrokerUnavailable
            If another broker does not answer and is not known to be dead.
        """
        checks.text("publisher", publisher)
        checks.instance("without", without, Collection, "a collection of brokers")
        found = self._hosts.ask(
            "accepted_here", publisher, timeout_seconds=60, without=without, all_living=True
        )
        return max((answer[publisher] for answer in found), default=0)

    def dead_letters(self) -> list[DeadLetter]:
        """Return the events that could not be delivered to durable subscribers, oldest first.

        Raises
        ------
        BrokerUnavailable
            If a broker does not answer and is not known to be dead.
        """
        answers = self._hosts.ask("dead_letters", timeout_seconds=60, all_living=True)
        return sorted(chain.from_iterable(answers), key=lambda letter: letter.at_seconds)

    def _attach(
        self,
        kind: Any,
        names: list[ClientId],
        broker: BrokerId | None,
        place: Placement | None,
        take_over: bool,
    ) -> list[Any]:
        self._hosts.require_open()
        checks.flag("take_over", take_over)
        placement = checked(place)
        if broker is not None:
            checks.whole_number("broker", broker)
        near = self._near(broker, placement)
        ticket = uuid4().hex
        with broker_errors(f"attaching to {self._hosts.name!r}"):
            clients = list[Any]()
            try:
                placed = self._place(kind.kind, names, broker, ticket, near, take_over)
                if any(at not in self._hosts.directory.hosts for at in placed.brokers):
                    self._hosts.find_reborn()
                last = self._last(names, placed.former) if kind is Publisher else [0] * len(names)
                context = self._context(placement)._replace(ticket=ticket)
                for name, at, used in zip(names, placed.brokers, last, strict=True):
                    clients.append(kind(name, at, context, *([used] if used else [])))
            except BaseException:  # all or none
                for client in clients:
                    with suppress(RayvousError):
                        client.close()
                self._hosts.rendezvous.leave.remote(kind.kind, dict.fromkeys(names, ticket), {})
                raise
        self._clients |= dict.fromkeys(clients)
        return clients

    def _place(
        self,
        kind: str,
        names: list[ClientId],
        broker: BrokerId | None,
        ticket: str,
        near: Tiers | None,
        take_over: bool,
    ) -> Placed:
        """Return the brokers of clients, once those that had their names before are told."""
        asked = (kind, names, broker, ticket, near, self.process.owner, take_over)
        placed: Placed = ray.get(self._hosts.rendezvous.place.remote(*asked), timeout=PLACE_SECONDS)
        if placed.former:
            evict(kind, placed.former, self._hosts.directory.limits.call_seconds)
        return placed

    def _last(self, names: list[ClientId], former: Collection[ClientId]) -> list[int]:
        """Return the last numbers that publishers of these names may have used; 0 where each begins anew.

        What a publisher used that did not say goodbye is not known exactly: some of its events may be in a store only.
        """
        if not self._hosts.features.heals:
            return [0] * len(names)
        last = ray.get(self._hosts.rendezvous.sequences.remote(names), timeout=60)
        if former:
            taken = [name for name in names if name in former]
            for answer in self._hosts.ask("accepted_here", *taken, timeout_seconds=60):
                last = [max(used, answer.get(name, 0)) for name, used in zip(names, last, strict=True)]
            last = [used + BLOCK * (name in former) for name, used in zip(names, last, strict=True)]
        return list(last)

    def _context(self, placement: Placement | None) -> Context:
        directory = self._hosts.directory
        if self._inbox_events_max is not None:
            if self._bounded is None or self._bounded[0] is not directory:
                limits = replace(directory.limits, delivery_events_max=self._inbox_events_max)
                self._bounded = directory, replace(directory, limits=limits)
            directory = self._bounded[1]
        return Context(directory, self.process, self._hosts.rendezvous, placement)

    # On the event loop of the client process.

    async def subscriber_here(self, prefix: str) -> Subscriber:
        """Attach a subscriber under a new name ``prefix/...``, at the broker with the fewest clients.

        Subscribers that attach one after the other share the calls to the rendezvous point; see `PlacesAhead`.
        """
        self._hosts.require_open()
        ahead = self._ahead.get(prefix)
        if ahead is None:
            ahead = self._ahead[prefix] = PlacesAhead(prefix, self._places, self._free)
        with broker_errors(f"attaching to {self._hosts.name!r}"):
            place = await ahead.take()
            try:
                if place.broker not in self._hosts.directory.hosts:
                    await asyncio.to_thread(self._hosts.find_reborn)
                context = self._context(None)._replace(ticket=place.ticket)
                make = partial(Subscriber, place.name, place.broker, context)
                # A host that comes back is told of each subscriber, which waits for it.
                subscriber = await asyncio.to_thread(make) if self.process.returns else make()
            except BaseException:
                self._free({place.name: place.ticket})
                raise
        self._clients[subscriber] = None
        return subscriber

    async def _places(self, names: Sequence[ClientId], ticket: str) -> Sequence[BrokerId]:
        asked = (Subscriber.kind, names, None, ticket, None, self.process.owner, False)
        try:
            async with asyncio.timeout(PLACE_SECONDS):
                placed: Placed = await answered(self._hosts.rendezvous.place.remote(*asked))
        except TimeoutError:
            raise BrokerUnavailable("the rendezvous point does not answer in time") from None
        return placed.brokers

    def _free(self, names: Mapping[ClientId, str]) -> None:
        """Free names of subscribers, each with the ticket of the call that placed it."""
        self._hosts.rendezvous.leave.remote(Subscriber.kind, names, {})
        self._ahead = {prefix: ahead for prefix, ahead in self._ahead.items() if ahead.in_use}

    async def release_here(self, client: Publisher | Subscriber) -> None:
        """Do what `release` does; the name of a subscriber is free within `LEAVE_SECONDS`."""
        self._require_ours(client)
        await client.close_async()
        if isinstance(client, Publisher):
            self._released(client)
            return
        del self._clients[client]
        if not self._leaving:
            asyncio.get_running_loop().call_later(LEAVE_SECONDS, self._leave_together)
        self._leaving.append(client)

    def _leave_together(self) -> None:
        leaving, self._leaving = self._leaving, []
        if not self._hosts.closed and not self.process.has_left_ray:
            self.leave(leaving)

    async def close_here(self) -> None:
        """Close all clients and the client process."""
        if self.process.has_left_ray:
            for client in self.clients:
                client.abandon()
            await asyncio.to_thread(self.process.close)
            return
        try:
            for ahead in self._ahead.values():
                ahead.clear()
            for client in self.clients:
                with suppress(BrokerUnavailable):
                    await client.close_async()
            self.leave([*self._leaving, *self.clients])
            self._leaving = []
            self.process.end_sessions(self._hosts.hosts())
        finally:  # whatever a client says: its polls would outlive the event loop
            await asyncio.to_thread(self.process.close)

    def release(self, client: Publisher | Subscriber) -> None:
        """Close a client of this process and free its name.

        Raises
        ------
        ClientError
            If it is not a client of this network in this process, or the network is closed.
        """
        self._require_ours(client)
        client.close()
        self._released(client)

    def _require_ours(self, client: Publisher | Subscriber) -> None:
        self._hosts.require_open()
        if not isinstance(client, Publisher | Subscriber) or client not in self._clients:
            raise ClientError(
                f"{checks.shown(client)} is not a client of network {self._hosts.name!r} in this process"
            )

    def _released(self, client: Publisher | Subscriber) -> None:
        del self._clients[client]
        self.leave([client])

    def close_all(self) -> None:
        """Close all clients of this process, and free their names.

        Subscribers say goodbye one after the other, and their brokers' answers are awaited together.
        """
        waiting = []
        for client in self.clients:
            with suppress(BrokerUnavailable):
                if isinstance(client, Subscriber) and not isinstance(client, DurableSubscriber):
                    waiting.append(client.start_closing())
                else:
                    client.close()
        for finish in waiting:
            with suppress(BrokerUnavailable):
                finish()
        self.leave(self.clients)

    def bound_inboxes(self, events_max: int) -> None:
        """Bound the unread notifications of each subscriber that attaches from now on.

        Without this, the bound is that of a broker (`Limits.delivery_events_max`). Further notifications wait
        at the broker, or are shed as `Limits` says.
        """
        self._inbox_events_max = checks.whole_number("events_max", events_max, 1)

    def forget(self, client: Publisher | Subscriber) -> None:
        """Drop the record of a closed durable client; its name remains in use."""
        self._clients.pop(client, None)

    def leave(self, clients: Iterable[Publisher | Subscriber]) -> None:
        """Free the names of closed clients."""
        for kind in ("publisher", "subscriber"):
            leaving = [client for client in clients if client.kind == kind]
            used = {client.name: client.published for client in leaving if isinstance(client, Publisher)}
            if leaving:
                tickets = {client.name: client.ticket for client in leaving}
                self._hosts.rendezvous.leave.remote(kind, tickets, used)
