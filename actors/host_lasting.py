"""What a host does for clients whose name outlives their process, and for those who ask whether all is delivered.

Rule: a durable subscriber's position is its own (`durable`); the host only passes on how far it is.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ..faults.durable import DeadLetter
from ..faults.sqlite_store import SqliteStore
from ..faults.stores import Store
from ..protocol.batch import EventBatch
from ..protocol.effects import Drained
from ..protocol.errors import ClientError, StorageFailed
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Again, Lost
from ..protocol.stability import Stable
from .absent import loss_parcel
from .broker import Broker
from .healing_stable import IDENTITY
from .seat import Seat
from .sessions import Session


class LastingClients:
    """The part of a host that this file is about; the rest is :class:`~.host.BrokerHost`."""

    _seats: dict[BrokerId, Seat]
    _sessions: dict[str, Session]
    _draining: set[asyncio.Task[None]]

    def _handle(self, seat: Seat, source: Any, message: Any) -> None:
        raise NotImplementedError

    def _drive(self, seat: Seat, event: Any) -> None:
        raise NotImplementedError

    def _session(self, session: str) -> Session:
        raise NotImplementedError

    def _own(self, seat: Seat, client: ClientId, session: str) -> None:
        owner = self._session(session)
        if seat.owners.setdefault(client, owner) is not owner:
            at = seat.broker.position.broker
            raise ClientError(f"subscriber {client!r} is attached to broker {at} by another process")

    def _take_over(self, seat: Seat, client: ClientId, session: str) -> None:
        """Let this process have a subscriber that comes, whoever had it before."""
        before, mine = seat.owners.get(client), self._session(session)
        seat.owners[client] = mine
        if before is not None and before is not mine:
            self._end_unused(before)
        seat.absent.here(client)

    def _end_unused(self, queue: Session) -> None:
        """Let go what waits for a process that another one has taken over from: it may be dead, and never fetch it."""
        if not any(queue in seat.owners.values() for seat in self._seats.values()):
            self._sessions.pop(queue.name, None)
            queue.end()

    async def accepted_here(self, publisher: ClientId) -> int:
        """Return the last sequence of a publisher that any broker here has accepted."""
        return max((accepted(seat.broker, publisher)[0] for seat in self._seats.values()), default=0)

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


def accepted(broker: Broker, publisher: ClientId) -> tuple[int, list[tuple[float, EventBatch]]]:
    """Return the last sequence of a publisher that a broker has accepted, and what it keeps of it, with ages."""
    lasting = broker.lasting
    return (0, []) if lasting is None else (lasting.accepted(publisher), lasting.kept_of(publisher))


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
