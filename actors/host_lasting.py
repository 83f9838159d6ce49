"""What a host does for clients whose name outlives their process, and for those who ask whether all is delivered.

Rule: a durable subscriber's position is its own (`durable`); the host only passes on how far it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..faults.durable import DeadLetter
from ..protocol.batch import EventBatch
from ..protocol.effects import Drained, Effect
from ..protocol.errors import BrokerUnavailable
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Acknowledge, Flush, Register, Resume
from ..protocol.recorder import TelemetryBuffer
from ..routing.filters import Filter
from .absent import Absent
from .broker import Broker
from .commits import Commits
from .metrics import BrokerMetrics
from .outbox import Outbox
from .sessions import Session, Tally


@dataclass(slots=True, eq=False)
class Seat:
    """One broker in its host: the broker, its links out, its subscribers, what it writes down."""

    broker: Broker
    telemetry: TelemetryBuffer
    metrics: BrokerMetrics | None
    links: dict[BrokerId, Outbox] = field(default_factory=dict)
    group: Outbox | None = None
    events_in: int = 0
    events_out: int = 0
    notifications: int = 0
    tally: Tally = field(default_factory=Tally)
    owners: dict[ClientId, Session] = field(default_factory=dict)
    confirming: dict[tuple[ClientId, int], asyncio.Future[None]] = field(default_factory=dict)
    commits: Commits | None = None  # where the broker has a store
    flushing: dict[tuple[ClientId, int], asyncio.Future[None]] = field(default_factory=dict)
    absent: Absent = field(default_factory=Absent)

    async def stable(self) -> None:
        """Wait until all that the broker wanted done so far has left it."""
        if self.commits is not None:
            await self.commits.stable()

    @property
    def durable(self) -> Container[ClientId]:
        """Its durable subscribers."""
        return () if self.broker.healing is None else self.broker.healing.durable


class LastingClients:
    """The part of a host that this file is about; the rest is :class:`~.host.BrokerHost`."""

    _seats: dict[BrokerId, Seat]
    _draining: set[asyncio.Task[None]]

    def _handle(self, seat: Seat, source: Any, message: Any) -> None:
        raise NotImplementedError

    def _carry_out(self, seat: Seat, effect: Effect, filled: Any, full: Any) -> None:
        raise NotImplementedError

    def _session(self, session: str) -> Session:
        raise NotImplementedError

    async def _service(self, broker: BrokerId, messages: int = 1) -> None:
        raise NotImplementedError

    def _seat_of(self, broker: BrokerId) -> Seat:
        try:
            return self._seats[broker]
        except KeyError:
            raise BrokerUnavailable(f"broker {broker} is not on this host") from None

    async def resume(
        self,
        at: BrokerId,
        session: str,
        client: ClientId,
        resume: Resume,
        items: Sequence[tuple[int, Filter]],
    ) -> None:
        """Take over a subscriber whose broker died, or a durable one: what it has had, and all that it wants."""
        await self._service(at)
        seat = self._seat_of(at)
        seat.owners[client] = self._session(session)
        seat.absent.here(client)
        self._handle(seat, client, resume)
        for number, item in items:
            self._handle(seat, client, Register(number, item))

    async def acknowledge(self, at: BrokerId, client: ClientId, message: Acknowledge) -> None:
        """Take in how far a durable subscriber is."""
        self._handle(self._seat_of(at), client, message)

    async def release(self, at: BrokerId, client: ClientId) -> None:
        """Take in that a durable subscriber's process leaves; all that it wants stays."""
        self._seat_of(at).owners.pop(client, None)

    async def accepted(self, at: BrokerId, publisher: ClientId) -> tuple[int, list[tuple[float, EventBatch]]]:
        """Return the last sequence of a publisher that its broker has accepted, and what it keeps of it, with ages."""
        healing = self._seat_of(at).broker.healing
        return (0, []) if healing is None else (healing.accepted(publisher), healing.kept_of(publisher))

    async def flush(self, at: BrokerId, publisher: ClientId, number: int) -> None:
        """Return when all that a publisher has published here so far is delivered."""
        seat = self._seat_of(at)
        key = (publisher, number)
        done = seat.flushing.setdefault(key, asyncio.get_running_loop().create_future())
        self._handle(seat, publisher, Flush(number))
        try:
            await done
        finally:
            seat.flushing.pop(key, None)

    async def dead_letters(self) -> list[DeadLetter]:
        """Return what could not be delivered to durable subscribers here, oldest first."""
        healing = (seat.broker.healing for seat in self._seats.values())
        return [letter for broker in healing if broker is not None for letter in broker.letters]

    def _drain_soon(self, seat: Seat, number: int) -> None:
        """Tell the broker when all processes have what was delivered; those of durable subscribers need not."""
        sessions = {owner: None for client, owner in seat.owners.items() if client not in seat.durable}

        async def drain() -> None:
            for session in sessions:
                await session.passed()
            for effect in seat.broker.handle(Drained(number)):
                self._carry_out(seat, effect, None, None)

        task = asyncio.get_running_loop().create_task(drain())
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)
