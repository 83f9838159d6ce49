"""The telemetry that brokers' hosts would send to the collector, in virtual time; see `protocol.telemetry.recorder`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..protocol import checks
from ..protocol.configs import Limits, Position
from ..protocol.effects import Effect, Received
from ..protocol.ids import BrokerId
from ..protocol.messages.pubsub import Events, Numbered
from ..protocol.telemetry.recorder import TelemetryBuffer, merge_tables
from ..protocol.telemetry.tables import Table
from .hosts import Host

FLUSH_STEPS: Final = 200_000
"""Telemetry is flushed at least after this many steps, long before a buffer is full."""


class SimulatedTelemetry:
    """The telemetry tables of all brokers of one network.

    Parameters
    ----------
    take
        Called with chunks of the tables of `protocol.telemetry.tables`, the same as on Ray; None collects them for
        `tables`.
    trace_events
        Whether to record the tables with one row per event too.
    limits
        Only `telemetry_rows_max` matters here.
    """

    def __init__(
        self,
        take: Callable[[dict[str, Table]], None] | None = None,
        *,
        trace_events: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self._kept: list[dict[str, Table]] = []
        self.keeps = take is None
        self._take = self._kept.append if take is None else take
        self._trace_events = checks.flag("trace_events", trace_events)
        self._limits = (checks.optional("limits", limits, Limits, "a Limits()") or Limits()).validate()
        self._buffers: dict[BrokerId, TelemetryBuffer] = {}
        self._unflushed = 0

    def join(self, place: Position) -> None:
        """Create the buffer of a broker."""
        self._buffers[place.broker] = TelemetryBuffer(place, self._limits, trace_events=self._trace_events)

    def effect(self, now: float, host: Host, effect: Effect) -> None:
        """Record an effect that is carried out at `now`."""
        if host.id in self._buffers:
            self._buffers[host.id].effect(now, effect)

    def stepped(self, now: float, host: Host, event: object) -> None:
        """Record an input of a broker, if it is a publication; flush when it is time."""
        if isinstance(event, Received) and isinstance(event.source, str):
            message = event.message.message if isinstance(event.message, Numbered) else event.message
            if isinstance(message, Events):
                self._buffers[host.id].published(now, message.batch)
        self._unflushed += 1
        if self._unflushed >= FLUSH_STEPS:
            self.flush()

    def tables(self) -> dict[str, Table]:
        """Return everything recorded so far, by table; nothing if it was passed to `take` instead."""
        self.flush()
        return merge_tables(self._kept)

    def flush(self) -> None:
        """Hand over everything recorded since the last flush."""
        self._unflushed = 0
        chunk = merge_tables(buffer.flush() for buffer in self._buffers.values())
        if chunk:
            self._take(chunk)
