"""The part of a host that flushes the records of its brokers to the collector.

Rules
-----
* It works in the background, one flush at a time: no event waits for the collector, whether it is slow or dead.
* A flush that did not arrive is repeated before the next one; meanwhile the buffers fill up to their bound.
* Each flush says how much came before it, so that a restarted collector knows what it lacks.
* Rows wait `FLUSH_SECONDS` at most: a dying host loses at most that much.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from ray.exceptions import RayActorError

from ...protocol.ids import BrokerId
from ...protocol.telemetry.tables import SCHEMAS, CarriedOut
from ..logs import HOST, Log
from ..telemetry.accounts import HandOver
from .hosted_broker import HostedBroker

FLUSH_ROWS: Final = 50_000
FLUSH_SECONDS: Final = 2.0


class HostTelemetry:
    """Flushes the records of the brokers of one host to the collector.

    Parameters
    ----------
    seats
        The brokers, as they are at any time.
    collector
        The actor that takes telemetry; None if none is kept.
    log
        Of the host.
    """

    def __init__(self, seats: Mapping[BrokerId, HostedBroker], collector: Any, log: Log = HOST) -> None:
        self._log = log
        self._seats = seats
        self._collector = collector
        self._source = uuid4().hex
        self._handed = dict.fromkeys(SCHEMAS, 0)
        self._unsent: HandOver | None = None
        self._handing = asyncio.Lock()
        self._flushing: asyncio.Task[None] | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._drops: dict[int, dict[str, int]] = {}

    def flush_when_due(self, seat: HostedBroker) -> None:
        """Schedule a flush of what a broker recorded."""
        if self._collector is None:
            return
        if seat.telemetry.rows >= FLUSH_ROWS:
            self.flush_soon()
        elif self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush_soon)

    def carried_out(self, broker: BrokerId, row: CarriedOut) -> None:
        """Record the outcome of a load of a broker here for its group."""
        seat = self._seats.get(broker)
        if seat is not None:
            seat.telemetry.carried_out(time.time(), row)
            self.flush_when_due(seat)

    def flush_soon(self) -> None:
        """Flush the records, if there are any, in the background."""
        if self._collector is None:
            return
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush_rows())

    async def _flush_rows(self) -> None:
        if self._unsent is not None or any(seat.telemetry.rows for seat in self._seats.values()):
            await self.flush()

    async def flush(self) -> None:
        """Flush the records to the collector, even without any, because the flush also asks what came before."""
        if self._collector is None:
            return
        async with self._handing:
            again = self._unsent is not None
            if await self._hand_over(self._unsent or self._gather()) and again:
                await self._hand_over(self._gather())

    def _gather(self) -> HandOver:
        """Empty the buffers of all brokers into a flush."""
        for seat in self._seats.values():
            drops = seat.telemetry.dropped_rows
            self._drops[id(drops)] = drops  # remains when the broker has left
        dropped = {name: sum(drops[name] for drops in self._drops.values()) for name in SCHEMAS}
        tables = tuple(seat.telemetry.flush() for seat in self._seats.values() if seat.telemetry.rows)
        return HandOver(self._source, dict(self._handed), tables, dropped)

    async def _hand_over(self, flush: HandOver) -> bool:
        """Send a flush; return whether it arrived. Ray repeats it to a collector that is restarting."""
        self._unsent = flush
        try:
            await self._collector.add.remote(flush)
        except RayActorError as error:
            self._log.warning("the collector is gone, and telemetry waits: %s", type(error).__name__)
            return False
        self._unsent = None
        for tables in flush.tables:
            for name, table in tables.items():
                self._handed[name] += len(table["time_seconds"])
        return True
