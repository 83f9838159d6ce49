"""The clients attached to the brokers of a host, and the processes they are in: attach, detach, and farewell.

Rules
-----
* A subscriber is in one process. When a durable or moving subscriber attaches from another process, that
  process takes it over. A call of an earlier incarnation of a durable subscriber that comes late takes nothing over.
* Once a broker starts to leave, clients can start nothing at it: it refuses publications and subscriptions, and
  clients continue at another broker. Therefore everything that this broker accepted from a publisher is among
  what the publisher publishes again at the next broker.
* The host checks periodically for processes that have been silent for too long. It detaches their subscribers,
  so that nobody waits for them to fetch their notifications, and withdraws the advertisements of their
  publishers. Durable subscribers are retained.
* The reply to every poll names the brokers that are leaving or have left; parts of it do not. A poll that waits when
  there is such news, or else the next one, is answered at once. A process that was suspended in the meantime has no
  other way to learn this while its host continues with other brokers.
* A process that was silent for too long, for example one that was stopped, is given up. The reply to its next
  poll says so. Otherwise it would wait forever for subscribers that are no longer attached.
* A durable subscriber tracks its own position (`durable`); the host only passes it on.
* The name of a client can be taken over. The process that had it is told so by its polls, and from then on nothing
  that it says in that name counts here.
* A process of publishers that does not poll gives a sign of life instead (`alive`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Mapping
from typing import Final

from ...protocol.configs import Limits
from ...protocol.effects import Drained
from ...protocol.errors import BrokerLeaving, BrokerUnavailable, ClientError, NameTaken
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.pubsub import Detach, Events, Lost, Register, Resend
from ...protocol.queries import IncarnationOf, TurnsAway
from .absent import loss_batch
from .departures import Departures
from .hosted_broker import Drive, Handle, HostedBroker
from .sessions import Farewell, GivenUp, ProcessSession, Taken

GIVEN_UP_MAX: Final = 1_000
"""How many given-up processes to remember; a dead process never polls again."""
TAKEN_MAX: Final = 10_000
"""How many names that were taken over to remember, each with the process that had it."""


class Attachments:
    """The clients of one host's brokers, and the sessions of their processes.

    Parameters
    ----------
    hosted_brokers
        A live view of the host's brokers.
    limits
        The limits of the network.
    handle, drive
        Pass a broker a client's message, and any other event.
    departures
        The queues of the host that have something to send.

    Attributes
    ----------
    sessions
        The queue of each client process, by its name.
    """

    def __init__(
        self,
        hosted_brokers: Mapping[BrokerId, HostedBroker],
        limits: Limits,
        handle: Handle,
        drive: Drive,
        departures: Departures | None = None,
    ) -> None:
        self._departures = departures or Departures()
        self.sessions: dict[str, ProcessSession] = {}
        self._hosted_brokers = hosted_brokers
        self._limits = limits
        self._handle = handle
        self._drive = drive
        self._leaving: dict[BrokerId, None] = {}
        self._given_up: dict[str, None] = {}
        self._taken: dict[
            tuple[str, ClientId], tuple[str, Taken]
        ] = {}  # by ticket and name, with the session
        self._alive: dict[str, float] = {}  # when each process that does not poll was heard
        self._draining: set[asyncio.Task[None]] = set()

    # Processes and brokers.

    def session(self, name: str) -> ProcessSession:
        """Return the session of a process; this call counts as a sign of life."""
        queue = self.sessions.get(name)
        if queue is None:
            limits = self._limits
            queue = ProcessSession(name, limits.delivery_events_max, limits.session_seconds, self._departures)
            self.sessions[name] = queue
        queue.heard(time.monotonic())
        return queue

    def end_session(self, name: str) -> None:
        """Forget a client process: detach its subscribers except durable ones, and drop what waits for it."""
        self._given_up.pop(name, None)
        queue = self.sessions.pop(name, None)
        if queue is None:
            return
        for hosted in list(self._hosted_brokers.values()):
            for client in [client for client, owner in hosted.owners.items() if owner is queue]:
                if client in hosted.durable:
                    self.away(hosted, client)
                else:
                    self.let_go(hosted, client)
            self._withdraw(hosted, [client for client, owner in hosted.offering.items() if owner is queue])
        queue.end()

    def give_up(self, name: str) -> None:
        """Forget a client process that was silent for too long; its next poll is told so."""
        self.end_session(name)
        self._given_up[name] = None
        if len(self._given_up) > GIVEN_UP_MAX:
            del self._given_up[next(iter(self._given_up))]

    def given_up(self, name: str) -> list[GivenUp]:
        """Return the notice for a process that was given up, until it ends its session here; else an empty list."""
        return [GivenUp()] if name in self._given_up else []

    # Names that are in use.

    def alive(self, name: str) -> list[Taken]:
        """Note a sign of life of a process that does not poll; return which of its names were taken over."""
        self._alive[name] = time.monotonic()
        return self.taken_from(name)

    def heard(self) -> list[str]:
        """Return the processes of clients that this host has heard within the time of a session."""
        now, seconds = time.monotonic(), self._limits.session_seconds
        self._alive = {name: at for name, at in self._alive.items() if now - at <= seconds}
        polls = (name for name, queue in self.sessions.items() if not queue.gone(now))
        return list(dict.fromkeys((*polls, *self._alive)))

    def evict(
        self, kind: str, client: ClientId, broker: BrokerId, session: str, ticket: str, durable: bool
    ) -> None:
        """End what is left here of a client whose name is in use by another process now, and tell its process.

        Of a durable client nothing ends: the other process continues it.
        """
        self._taken[ticket, client] = session, Taken(kind, client, ticket)
        if len(self._taken) > TAKEN_MAX:
            del self._taken[next(iter(self._taken))]
        queue, hosted = self.sessions.get(session), self._hosted_brokers.get(broker)
        if hosted is not None and not durable:
            if kind == "publisher":
                if queue is not None and hosted.offering.get(client) is queue:
                    self._withdraw(hosted, [client])
            elif hosted.owners.get(client) is queue and (queue is not None or client not in hosted.offering):
                self.let_go(hosted, client)
        if queue is not None:
            queue.wake()

    def taken_from(self, session: str) -> list[Taken]:
        """Return which names of a process were taken over."""
        return [taken for owner, taken in self._taken.values() if owner == session]

    def require_own(self, ticket: str, client: ClientId) -> None:
        """Raise NameTaken if the name of the client that attached with this ticket was taken over."""
        if (ticket, client) in self._taken:
            kind = self._taken[ticket, client][1].kind
            raise NameTaken(f"{kind} {client!r} was taken over by another client")

    # Publishers that advertise.

    def offers(self, hosted: HostedBroker, publisher: ClientId, session: str) -> None:
        """Note that a publisher advertises, and which process it is in."""
        hosted.offering[publisher] = self.session(session)

    def bury(self, *, subscribers: bool = True) -> None:
        """Withdraw the advertisements of dead processes, and detach their subscribers that are not durable."""
        now = time.monotonic()
        for hosted in list(self._hosted_brokers.values()):
            self._withdraw(hosted, [client for client, owner in hosted.offering.items() if owner.gone(now)])
            owners = dict.fromkeys(
                owner for client, owner in hosted.owners.items() if client not in hosted.durable
            )
            for owner in owners if subscribers else ():
                if owner.gone(now):
                    self.give_up(owner.name)

    def _withdraw(self, hosted: HostedBroker, publishers: list[ClientId]) -> None:
        for publisher in publishers:
            del hosted.offering[publisher]
            self._handle(hosted, publisher, Detach())

    # Brokers.

    def hosted_broker(self, broker: BrokerId) -> HostedBroker:
        """Return a broker of this host.

        Raises
        ------
        BrokerUnavailable
            If the broker is not on this host, or has left.
        """
        if broker not in self._hosted_brokers or self._hosted_brokers[broker].broker.ask(TurnsAway()):
            raise BrokerUnavailable(f"broker {broker} is not on this host, or has left")
        return self._hosted_brokers[broker]

    def open_broker(self, broker: BrokerId) -> HostedBroker:
        """Return a hosted broker at which clients may start something; raise BrokerLeaving if it is about to leave."""
        if broker in self._leaving:
            raise BrokerLeaving(f"broker {broker} is leaving the network: continue at another broker")
        return self.hosted_broker(broker)

    def dismiss(self, broker: BrokerId) -> None:
        """Let clients start nothing more at a broker, and tell its clients to go to another one."""
        self._leaving[broker] = None
        for queue in self.sessions.values():
            queue.wake()

    def farewells(self) -> list[Farewell]:
        """Return the farewells for every answer; there is at most one for each broker that was ever hosted here."""
        return [Farewell(broker) for broker in self._leaving]

    # Subscribers that come and go.

    def own(self, hosted: HostedBroker, client: ClientId, session: str) -> None:
        """Record that a subscriber is in this process; raise ClientError if it is in another one."""
        owner = self.session(session)
        if hosted.owners.setdefault(client, owner) is not owner:
            at = hosted.broker.position.broker
            raise ClientError(f"subscriber {client!r} is attached to broker {at} by another process")

    def take_over(self, hosted: HostedBroker, client: ClientId, session: str, incarnation: int = 0) -> None:
        """Attach a subscriber to this process, and detach it from the process that had it before.

        Raises
        ------
        NameTaken
            If the subscriber is durable and has come here in a later incarnation: this call is late, and changes
            nothing.
        """
        if 0 < incarnation < hosted.broker.ask(IncarnationOf(client)):
            raise NameTaken(
                f"subscriber {client!r} has come back by another call since: nothing of this one counts"
            )
        before, mine = hosted.owners.get(client), self.session(session)
        hosted.owners[client] = mine
        if before is not None and before is not mine:
            self._end_unused(before)
        hosted.absent.here(client)

    def came_back(self, hosted: HostedBroker, client: ClientId, numbers: Container[int]) -> None:
        """End the calls that wait for subscriptions that a durable subscriber does not name when it comes back."""
        for _, _, number in hosted.answers.of(client, Register):
            if number not in numbers:
                self.cancelled(hosted, client, number)

    def _end_unused(self, queue: ProcessSession) -> None:
        """Drop the queue of a process that has no subscribers left; it may be dead and never fetch it."""
        if not any(queue in hosted.owners.values() for hosted in self._hosted_brokers.values()):
            self.sessions.pop(queue.name, None)
            queue.end()

    def away(self, hosted: HostedBroker, client: ClientId) -> None:
        """Note that no process has a durable subscriber any more; its subscriptions stay."""
        if hosted.owners.pop(client, None) is not None:
            hosted.absent.left(client, time.monotonic())

    def let_go(self, hosted: HostedBroker, client: ClientId) -> None:
        """Detach a client and end its subscriptions; events that waited for its quota are refused."""
        self._handle(hosted, client, Detach())
        for question in hosted.answers.of(client, Events):
            hosted.answers.refuse(
                question, ClientError(f"{client!r} has gone: event {question[2]} was not taken")
            )
        for _, _, number in hosted.answers.of(client, Register):
            self.cancelled(hosted, client, number)
        hosted.owners.pop(client, None)
        hosted.absent.gone(client)

    def let_all_go(self, hosted: HostedBroker) -> None:
        """Detach all clients of a broker; they continue elsewhere once they notice, and receive what they missed."""
        for client in list(hosted.owners):
            self.let_go(hosted, client)

    def cancelled(self, hosted: HostedBroker, client: ClientId, number: int) -> None:
        """Forget a subscription, and end the call that waits for its installation."""
        error = ClientError(f"subscription {number} of {client!r} was cancelled meanwhile")
        hosted.answers.refuse((client, Register, number), error)

    # What subscribers are told besides events.

    def catch_up(self, queue: ProcessSession) -> None:
        """Have withheld events redelivered to durable subscribers of a process that has read everything."""
        for hosted in list(self._hosted_brokers.values()):
            for client, first in hosted.absent.catching_up(queue, hosted.owners):
                self._handle(hosted, client, Resend(first))

    def tell_losses(self, hosted: HostedBroker, client: ClientId, losses: tuple[Lost, ...]) -> None:
        """Tell a subscriber which events it may have lost, if its process is connected."""
        owner = hosted.owners.get(client)
        if owner is not None:
            owner.put(loss_batch(owner, client, losses), hosted.tally)

    def drain_soon(self, hosted: HostedBroker, number: int) -> None:
        """Tell the broker when all processes have acknowledged what was delivered; do not wait for durable ones."""
        sessions = {owner: None for client, owner in hosted.owners.items() if client not in hosted.durable}

        async def drain() -> None:
            for session in sessions:
                await session.passed()
            self._drive(hosted, Drained(number))

        task = asyncio.get_running_loop().create_task(drain())
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)
