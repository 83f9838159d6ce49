"""The part of a host that sends the telemetry of its brokers to the collector.

Rules
-----
* Flushes run in the background, one at a time: no event waits for a slow or dead collector.
* A flush that did not arrive is sent again before the next one. Meanwhile the buffers fill up to their limit.
* Each flush says how many rows came before it, so that a restarted collector knows what it lacks.
* Rows wait at most `FLUSH_SECONDS`: a host that dies loses at most the rows of that time.
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
    """Sends the telemetry of one host's brokers to the collector.

    Parameters
    ----------
    hosted_brokers
        A live view of the host's brokers.
    collector
        The actor that collects telemetry; None collects none.
    log
        The log of the host.
    """

    def __init__(
        self, hosted_brokers: Mapping[BrokerId, HostedBroker], collector: Any, log: Log = HOST
    ) -> None:
        self._log = log
        self._hosted_brokers = hosted_brokers
        self._collector = collector
        self._source = uuid4().hex
        self._handed = dict.fromkeys(SCHEMAS, 0)
        self._unsent: HandOver | None = None
        self._handing = asyncio.Lock()
        self._flushing: asyncio.Task[None] | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._drops: dict[int, dict[str, int]] = {}

    def flush_when_due(self, hosted: HostedBroker) -> None:
        """Schedule a flush, so that a broker's rows are sent in time."""
        if self._collector is None:
            return
        if hosted.telemetry.rows >= FLUSH_ROWS:
            self.flush_soon()
        elif self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush_soon)

    def carried_out(self, broker: BrokerId, row: CarriedOut) -> None:
        """Record the report of a load that a broker here sent to its group."""
        hosted = self._hosted_brokers.get(broker)
        if hosted is not None:
            hosted.telemetry.carried_out(time.time(), row)
            self.flush_when_due(hosted)

    def flush_soon(self) -> None:
        """Flush in the background, if there is anything to send."""
        if self._collector is None:
            return
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush_rows())

    async def _flush_rows(self) -> None:
        if self._unsent is not None or any(hosted.telemetry.rows for hosted in self._hosted_brokers.values()):
            await self.flush()

    async def flush(self) -> None:
        """Flush now; also if there are no rows, since the flush says how many came before."""
        if self._collector is None:
            return
        async with self._handing:
            again = self._unsent is not None
            if await self._hand_over(self._unsent or self._gather()) and again:
                await self._hand_over(self._gather())

    def _gather(self) -> HandOver:
        """Empty the buffers of all brokers into a flush."""
        for hosted in self._hosted_brokers.values():
            drops = hosted.telemetry.dropped_rows
            self._drops[id(drops)] = drops  # stays after the broker has left
        dropped = {name: sum(drops[name] for drops in self._drops.values()) for name in SCHEMAS}
        tables = tuple(
            hosted.telemetry.flush() for hosted in self._hosted_brokers.values() if hosted.telemetry.rows
        )
        return HandOver(self._source, dict(self._handed), tables, dropped)

    async def _hand_over(self, flush: HandOver) -> bool:
        """Send a flush; return whether it arrived. Ray retries the call while the collector restarts."""
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
