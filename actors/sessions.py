"""What waits at a host for one client process: notifications, fetched by its long poll and kept until acknowledged.

Rules
-----
* One long poll a client process and host, for all subscribers of the process together. The number of the last parcel
  that the process has rides on its next poll as the acknowledgement; what is not acknowledged is sent again.
* A parcel carries each event once, however many of the process's subscribers get it.
* The queue is bounded. When it is full, whoever brings more waits; when the wait is over, the oldest parcels are shed
  and counted under a named reason.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..protocol.batch import EventBatch, Rows
from ..protocol.effects import Deliver
from ..protocol.ids import ClientId

SHED_REASON = "delivery queue full"


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """Notifications for one client process: ``clients[i]`` gets ``rows[starts[i]:starts[i + 1]]`` of `batch`."""

    number: int
    batch: EventBatch
    clients: tuple[ClientId, ...]
    starts: Rows
    rows: Rows


def split(deliver: Deliver, owners: Sequence[Session]) -> list[tuple[Session, Parcel]]:
    """Return the parcels of a delivery, one a session; ``owners[i]`` is the session of ``deliver.clients[i]``."""
    sessions = dict.fromkeys(owners)
    if len(sessions) == 1:
        session = owners[0]
        batch, rows = _compact(deliver.batch, deliver.rows)
        return [(session, Parcel(session.take_number(), batch, deliver.clients, deliver.starts, rows))]
    parcels = []
    for session in sessions:
        picked = [i for i, owner in enumerate(owners) if owner is session]
        pieces = [deliver.rows[deliver.starts[i] : deliver.starts[i + 1]] for i in picked]
        batch, rows = _compact(deliver.batch, np.concatenate(pieces))
        starts = np.cumsum([0, *map(len, pieces)])
        clients = tuple(deliver.clients[i] for i in picked)
        parcels.append((session, Parcel(session.take_number(), batch, clients, starts, rows)))
    return parcels


def _compact(batch: EventBatch, rows: Rows) -> tuple[EventBatch, Rows]:
    """Return the batch cut down to the events that are in `rows`, and the rows in it."""
    used = np.zeros(len(batch), np.bool_)
    used[rows] = True
    kept = np.flatnonzero(used)
    if len(kept) == len(batch):
        return batch, rows
    return batch.take(kept), (np.cumsum(used) - 1)[rows]


class Session:
    """The queue of one client process at one host.

    Parameters
    ----------
    events_max
        Notifications that may wait.
    """

    def __init__(self, events_max: int) -> None:
        self.waiting = 0
        self.shed = 0
        self._events_max = events_max
        self._next_number = 1
        self._parcels: deque[Parcel] = deque()
        self._arrived = asyncio.Event()
        self._moved = asyncio.Event()

    def take_number(self) -> int:
        """Return the number of the next parcel."""
        self._next_number += 1
        return self._next_number - 1

    @property
    def full(self) -> bool:
        """Whether whoever brings more has to wait."""
        return self.waiting > self._events_max

    def put(self, parcel: Parcel) -> None:
        """Queue a parcel and wake the poll."""
        self._parcels.append(parcel)
        self.waiting += len(parcel.rows)
        self._arrived.set()

    async def poll(self, acknowledged: int, timeout_seconds: float, events_max: int) -> list[Parcel]:
        """Return what waits, once there is something or the time is over.

        Parameters
        ----------
        acknowledged
            The number of the last parcel that the process has; it and those before it are let go.
        timeout_seconds
            How long to wait when nothing is there.
        events_max
            Notifications in one answer, except that one parcel always goes.
        """
        while self._parcels and self._parcels[0].number <= acknowledged:
            self.waiting -= len(self._parcels.popleft().rows)
            self._moved.set()
        if not self._parcels:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), timeout_seconds)
            except TimeoutError:
                return []
        answer: list[Parcel] = []
        size = 0
        for parcel in self._parcels:
            if answer and size + len(parcel.rows) > events_max:
                break
            size += len(parcel.rows)
            answer.append(parcel)
        return answer

    async def room(self, wait_seconds: float) -> None:
        """Wait until the queue is not full; after `wait_seconds` shed the oldest until it is not."""
        try:
            async with asyncio.timeout(wait_seconds):
                while self.full:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            while self.full:
                gone = len(self._parcels.popleft().rows)
                self.waiting -= gone
                self.shed += gone

    async def drained(self) -> None:
        """Wait until the process has acknowledged everything."""
        while self._parcels:
            self._moved.clear()
            await self._moved.wait()
