"""Which clients are attached to the brokers of a host, and in which process; how they come, leave, and are told to go.

Rules
-----
* A subscriber is in one process. A durable one, or one that moves, is taken over by the process that comes with it.
* From the moment on that a broker leaves, nothing begins at it: whoever publishes or subscribes is refused, and goes on
  at another broker. So all that a publisher has had accepted here is among what it publishes again there.
* Now and then it is looked whose process has been silent for too long: its subscribers are let go, so that nobody waits
  until it has what is for it, and what its publishers advertise is withdrawn. A durable subscriber is kept.
* Every poll tells the client processes which brokers leave, or have left: a process that stood still meanwhile learns
  of it in no other way while its host goes on with other brokers.
* A process that was silent for too long, as one that was stopped, is given up; its next poll says so. Else it would
  wait for ever for subscribers that are not attached any more.
* A durable subscriber's position is its own (`durable`); the host only passes on how far it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...protocol.configs import Limits
from ...protocol.effects import Drained
from ...protocol.errors import BrokerLeaving, BrokerUnavailable, ClientError
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.pubsub import Again, Detach, Events, Lost, Register
from .absent import loss_parcel
from .hosted_broker import HostedBroker
from .sessions import Farewell, GivenUp, Session

GIVEN_UP_MAX: Final = 1_000
"""Processes of which is known that they were given up; a dead one never asks."""


class Attachments:
    """The clients of one host's brokers, and the sessions of their processes.

    Parameters
    ----------
    seats
        The brokers, as they are at any time.
    limits
        Of the network.
    handle, drive
        Hand a broker a message of a client, and any other event.

    Attributes
    ----------
    sessions
        What waits for each client process, by its name.
    """

    def __init__(
        self,
        seats: Mapping[BrokerId, HostedBroker],
        limits: Limits,
        handle: Callable[[HostedBroker, ClientId, Any], None],
        drive: Callable[[HostedBroker, Any], None],
    ) -> None:
        self.sessions: dict[str, Session] = {}
        self._seats = seats
        self._limits = limits
        self._handle = handle
        self._drive = drive
        self._leaving: dict[BrokerId, None] = {}
        self._given_up: dict[str, None] = {}
        self._draining: set[asyncio.Task[None]] = set()

    # Processes and brokers.

    def session(self, name: str) -> Session:
        """Return the session of a process, which gives a sign of life with this."""
        queue = self.sessions.get(name)
        if queue is None:
            queue = Session(name, self._limits.delivery_events_max, self._limits.session_seconds)
            self.sessions[name] = queue
        queue.heard(time.monotonic())
        return queue

    def end_session(self, name: str) -> None:
        """Forget a client process: its subscribers are detached, but for durable ones; what waits for it is let go."""
        self._given_up.pop(name, None)
        queue = self.sessions.pop(name, None)
        if queue is None:
            return
        for seat in list(self._seats.values()):
            for client in [client for client, owner in seat.owners.items() if owner is queue]:
                if client in seat.durable:
                    del seat.owners[client]
                else:
                    self.let_go(seat, client)
            self._withdraw(seat, [client for client, owner in seat.offering.items() if owner is queue])
        queue.end()

    def give_up(self, name: str) -> None:
        """Forget a client process that was silent for too long; it is told when it speaks again."""
        self.end_session(name)
        self._given_up[name] = None
        if len(self._given_up) > GIVEN_UP_MAX:
            del self._given_up[next(iter(self._given_up))]

    def given_up(self, name: str) -> list[GivenUp]:
        """Return what a process is told that was given up, until it has ended its session here; else nothing."""
        return [GivenUp()] if name in self._given_up else []

    # Publishers that advertise.

    def offers(self, seat: HostedBroker, publisher: ClientId, session: str) -> None:
        """Note that a publisher advertises whose process gives signs of life."""
        seat.offering[publisher] = self.session(session)

    def bury(self, *, subscribers: bool = True) -> None:
        """Withdraw what publishers advertise whose process is gone, and let go its subscribers that are not durable."""
        now = time.monotonic()
        for seat in list(self._seats.values()):
            self._withdraw(seat, [client for client, owner in seat.offering.items() if owner.gone(now)])
            owners = dict.fromkeys(
                owner for client, owner in seat.owners.items() if client not in seat.durable
            )
            for owner in owners if subscribers else ():
                if owner.gone(now):
                    self.give_up(owner.name)

    def _withdraw(self, seat: HostedBroker, publishers: list[ClientId]) -> None:
        for publisher in publishers:
            del seat.offering[publisher]
            self._handle(seat, publisher, Detach())

    # Brokers.

    def seat_of(self, broker: BrokerId) -> HostedBroker:
        """Return the seat of a broker.

        Raises
        ------
        BrokerUnavailable
            If it is not here, or has left.
        """
        if broker not in self._seats or self._seats[broker].broker.left:
            raise BrokerUnavailable(f"broker {broker} is not on this host, or has left")
        return self._seats[broker]

    def open_seat(self, broker: BrokerId) -> HostedBroker:
        """Return a seat at which clients may begin something; BrokerLeaving when the broker is about to leave."""
        if broker in self._leaving:
            raise BrokerLeaving(f"broker {broker} leaves the network: go on at another one")
        return self.seat_of(broker)

    def dismiss(self, broker: BrokerId) -> None:
        """Let no client begin anything at a broker from now on, and tell those that are there to go."""
        self._leaving[broker] = None

    def farewells(self) -> list[Farewell]:
        """Return what every poll tells the client processes: of no more brokers than were ever seated here."""
        return [Farewell(broker) for broker in self._leaving]

    # Subscribers that come and go.

    def own(self, seat: HostedBroker, client: ClientId, session: str) -> None:
        """Note that a subscriber is in this process; ClientError when it is in another one."""
        owner = self.session(session)
        if seat.owners.setdefault(client, owner) is not owner:
            at = seat.broker.position.broker
            raise ClientError(f"subscriber {client!r} is attached to broker {at} by another process")

    def take_over(self, seat: HostedBroker, client: ClientId, session: str) -> None:
        """Let this process have a subscriber that comes, whoever had it before."""
        before, mine = seat.owners.get(client), self.session(session)
        seat.owners[client] = mine
        if before is not None and before is not mine:
            self._end_unused(before)
        seat.absent.here(client)

    def _end_unused(self, queue: Session) -> None:
        """Let go what waits for a process that another one has taken over from: it may be dead, and never fetch it."""
        if not any(queue in seat.owners.values() for seat in self._seats.values()):
            self.sessions.pop(queue.name, None)
            queue.end()

    def let_go(self, seat: HostedBroker, client: ClientId) -> None:
        """Let a client go, with all its subscriptions; what waited for its quota was not taken."""
        self._handle(seat, client, Detach())
        for question in seat.answers.of(client, Events):
            seat.answers.refuse(
                question, ClientError(f"{client!r} has gone: event {question[2]} was not taken")
            )
        for _, _, number in seat.answers.of(client, Register):
            self.cancelled(seat, client, number)
        seat.owners.pop(client, None)

    def let_all_go(self, seat: HostedBroker) -> None:
        """Let go whoever is still attached; they go on elsewhere when they notice, with all that they have missed."""
        for client in list(seat.owners):
            self.let_go(seat, client)

    def cancelled(self, seat: HostedBroker, client: ClientId, number: int) -> None:
        """Forget a subscription, and end the call that waits for it to be installed."""
        error = ClientError(f"subscription {number} of {client!r} was cancelled meanwhile")
        seat.answers.refuse((client, Register, number), error)

    # What subscribers are told besides events.

    def catch_up(self, queue: Session) -> None:
        """Let those durable subscribers of a process that has read all be told what was left out meanwhile."""
        for seat in list(self._seats.values()):
            for client, first in seat.absent.catching_up(queue, seat.owners):
                self._handle(seat, client, Again(first))

    def tell_losses(self, seat: HostedBroker, client: ClientId, losses: tuple[Lost, ...]) -> None:
        """Tell a subscriber, if its process is there, what it may have lost."""
        owner = seat.owners.get(client)
        if owner is not None:
            owner.put(loss_parcel(owner, client, losses), seat.tally)

    def drain_soon(self, seat: HostedBroker, number: int) -> None:
        """Tell the broker when all processes have what was delivered; those of durable subscribers need not."""
        sessions = {owner: None for client, owner in seat.owners.items() if client not in seat.durable}

        async def drain() -> None:
            for session in sessions:
                await session.passed()
            self._drive(seat, Drained(number))

        task = asyncio.get_running_loop().create_task(drain())
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)
