"""What a host does for clients whose name outlives their process, and for those who ask whether all is delivered.

Rule: a durable subscriber's position is its own (`durable`); the host only passes on how far it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..faults.durable import DeadLetter
from ..faults.sqlite_store import SqliteStore
from ..faults.stores import Store
from ..protocol.batch import EventBatch
from ..protocol.effects import Drained
from ..protocol.errors import StorageFailed
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Acknowledge, Again, Flush, Lost, Register, Resume
from ..protocol.stability import Stable
from ..routing.filters import Filter
from .absent import loss_parcel
from .healing_stable import IDENTITY
from .seat import Seat
from .sessions import Session


class LastingClients:
    """The part of a host that this file is about; the rest is :class:`~.host.BrokerHost`."""

    _seats: dict[BrokerId, Seat]
    _sessions: dict[str, Session]
    _draining: set[asyncio.Task[None]]
    _seat_of: Callable[[BrokerId], Seat]
    _open_seat: Callable[[BrokerId], Seat]

    def _handle(self, seat: Seat, source: Any, message: Any) -> None:
        raise NotImplementedError

    def _drive(self, seat: Seat, event: Any) -> None:
        raise NotImplementedError

    def _session(self, session: str) -> Session:
        raise NotImplementedError

    async def _service(self, broker: BrokerId, messages: int = 1) -> None:
        raise NotImplementedError

    async def resume(
        self,
        at: BrokerId,
        session: str,
        client: ClientId,
        resume: Resume,
        items: Sequence[tuple[int, Filter]],
        priorities: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Take over a subscriber whose broker died, or a durable one: what it has had, and all that it wants."""
        await self._service(at)
        seat = self._open_seat(at)
        before, mine = seat.owners.get(client), self._session(session)
        seat.owners[client] = mine
        if before is not None and before is not mine:
            self._end_unused(before)
        seat.absent.here(client)
        self._handle(seat, client, resume)
        for number, item in items:
            self._handle(seat, client, Register(number, item, priorities.get(number, 0), admitted=True))

    async def acknowledge(self, at: BrokerId, client: ClientId, message: Acknowledge) -> None:
        """Take in how far a durable subscriber is."""
        self._handle(self._seat_of(at), client, message)

    async def release(self, at: BrokerId, client: ClientId) -> None:
        """Take in that a durable subscriber's process leaves; all that it wants stays."""
        self._seat_of(at).owners.pop(client, None)

    def _end_unused(self, queue: Session) -> None:
        """Let go what waits for a process that another one has taken over from: it may be dead, and never fetch it."""
        if not any(queue in seat.owners.values() for seat in self._seats.values()):
            self._sessions.pop(queue.name, None)
            queue.end()

    async def accepted(self, at: BrokerId, publisher: ClientId) -> tuple[int, list[tuple[float, EventBatch]]]:
        """Return the last sequence of a publisher that its broker has accepted, and what it keeps of it, with ages."""
        healing = self._seat_of(at).broker.lasting
        return (0, []) if healing is None else (healing.accepted(publisher), healing.kept_of(publisher))

    async def accepted_here(self, publisher: ClientId) -> int:
        """Return the last sequence of a publisher that any broker here has accepted."""
        healing = (seat.broker.lasting for seat in self._seats.values())
        return max((broker.accepted(publisher) for broker in healing if broker is not None), default=0)

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
        healing = (seat.broker.lasting for seat in self._seats.values())
        return [letter for broker in healing if broker is not None for letter in broker.letters]

    def _catch_up(self, queue: Session) -> None:
        """Let those durable subscribers of a process that has read all be told what was left out meanwhile."""
        for seat in list(self._seats.values()):
            for client, first in seat.absent.catching_up(queue, seat.owners):
                self._handle(seat, client, Again(first))

    def _tell_losses(self, seat: Seat, client: ClientId, losses: tuple[Lost, ...]) -> None:
        owner = seat.owners.get(client)
        if owner is not None:
            owner.put(loss_parcel(owner, client, losses), seat.tally)

    def _tell_flushed(self, seat: Seat, client: ClientId, number: int) -> None:
        done = seat.flushing.get((client, number))
        if done is not None and not done.done():
            done.set_result(None)

    def _drain_soon(self, seat: Seat, number: int) -> None:
        """Tell the broker when all processes have what was delivered; those of durable subscribers need not."""
        sessions = {owner: None for client, owner in seat.owners.items() if client not in seat.durable}

        async def drain() -> None:
            for session in sessions:
                await session.passed()
            self._drive(seat, Drained(number))

        task = asyncio.get_running_loop().create_task(drain())
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)


def store_of(stores: Stable, broker: BrokerId, life: int) -> Store:
    """Return the store of a broker that heals: what its earlier lives in this network have left.

    Raises
    ------
    StorageFailed
        If it cannot be read, or a network begins with what another one has left.
    """
    file = stores.file_of(broker)
    store = SqliteStore(file, stores.synchronous, stores.pages_max)
    if not life and any(True for _ in store.rows(IDENTITY)):
        raise StorageFailed(f"{file} is of an earlier network: name an empty directory, or remove it")
    return store
