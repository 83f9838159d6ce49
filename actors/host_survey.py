"""What a host says of its brokers, to whoever asks.

Rule: asking changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ..protocol.ids import BrokerId
from .seat import Seat


class Surveyed:
    """The part of a host that this file is about; the rest is :class:`~.host.BrokerHost`."""

    _seats: dict[BrokerId, Seat]
    _expired: dict[BrokerId, int]
    _ticking: asyncio.Task[None] | None

    async def survey(self) -> dict[BrokerId, dict[str, Any]]:
        """Return where each broker here stands, in a network that heals."""
        if self._ticking is not None and self._ticking.done():
            self._ticking.result()  # a broker that broke says so, instead of looking alive
        return {
            broker: seat.broker.healing.survey()
            for broker, seat in self._seats.items()
            if seat.broker.healing is not None
        }

    async def describe(self) -> dict[BrokerId, dict[str, int]]:
        """Return the sizes of what each broker here keeps, its queues included."""
        out = {}
        for broker, seat in self._seats.items():
            boxes = [box for box in (*seat.links.values(), seat.group) if box is not None]
            out[broker] = {
                **seat.broker.describe(),
                "subscribers": len(seat.owners),
                "outbox_events": sum(box.events for box in boxes),
                "lost_events": sum(box.lost_events for box in boxes),
                "shed_notifications": seat.tally.shed,
                "telemetry_rows_dropped": sum(seat.telemetry.dropped_rows.values()),
                "expired_events": self._expired.get(broker, 0),
                "events_in": seat.events_in,
                "events_out": seat.events_out,
                "notifications": seat.notifications,
            }
        return out

    async def check(self) -> None:
        """Assert every broker's invariants; for tests."""
        for seat in self._seats.values():
            seat.broker.check()
