"""The link faults at one host: cut links, unreliable periods, slow brokers.

Rules
-----
* A link is a connection: a message that it gets while it is cut waits until it is repaired, a delayed message
  arrives late, and everything behind it on the same link waits too (docs/decisions/0011-recovery.md).
* The sending host applies the faults, so both ends of a cut link must be told. Messages of the rendezvous point are
  delayed at the receiver.
* A host that was never told of link faults has none, and does not check for them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ...faults.chaos.link_faults import LinkFaults
from ...faults.chaos.plans import Shake
from ...protocol.ids import BrokerId

SERVICE_PART: Final = 0.001
"""The time that a slow broker takes for one message, in heartbeats, to be multiplied by its factor."""

Lane: TypeAlias = tuple[BrokerId, BrokerId, str]
"""From, to, and "link" or "group": in each of these the order is kept."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """All present link faults, as the driver tells them to every host.

    Attributes
    ----------
    cut
        The pairs of brokers that cannot reach each other, the lower one first.
    shakes
        (remaining seconds, fault) of each unreliable period.
    factors
        How many times as long a slow broker takes.
    failing
        (from, to) of each direction in which calls fail, and lose their messages, though both ends live.
    """

    cut: frozenset[tuple[BrokerId, BrokerId]] = frozenset()
    shakes: tuple[tuple[float, Shake], ...] = ()
    factors: Mapping[BrokerId, float] = field(default_factory=dict)
    failing: frozenset[tuple[BrokerId, BrokerId]] = frozenset()


class HostLinkFaults:
    """The link faults at one host; used on its event loop.

    Parameters
    ----------
    heartbeat_seconds
        Of its brokers.
    seed
        Of the random numbers.
    """

    def __init__(self, heartbeat_seconds: float, seed: int = 0) -> None:
        self._service_seconds = SERVICE_PART * heartbeat_seconds
        self._dice = random.Random(f"weather/{seed}")
        self._links = LinkFaults()
        self._cut: frozenset[tuple[BrokerId, BrokerId]] = frozenset()
        self._failing: frozenset[tuple[BrokerId, BrokerId]] = frozenset()
        self._factors: dict[BrokerId, float] = {}
        self._changed = asyncio.Event()
        self._lanes: defaultdict[Lane, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._counters: defaultdict[BrokerId, asyncio.Lock] = defaultdict(asyncio.Lock)

    def set(self, forecast: Forecast) -> None:
        """Replace the present faults."""
        now = time.monotonic()
        self._cut, self._failing = forecast.cut, forecast.failing
        self._links.shakes = [(now + left, shake) for left, shake in forecast.shakes]
        self._factors = dict(forecast.factors)
        self._changed.set()
        self._changed = asyncio.Event()

    async def passage(self, source: BrokerId, to: BrokerId, lane: str) -> None:
        """Wait until a message may leave; a caller that continues at once keeps the order of its lane.

        Raises
        ------
        ConnectionResetError
            If calls fail in this direction.
        """
        pair = (source, to) if source < to else (to, source)
        async with self._lanes[source, to, lane]:  # a lock is granted in the order of requests
            seconds = self._links.extra(time.monotonic(), pair, self._dice) if self._links.shakes else 0.0
            if seconds:
                await asyncio.sleep(seconds)
            while pair in self._cut:
                await self._changed.wait()
            if (source, to) in self._failing:
                raise ConnectionResetError(f"the call of broker {source} to broker {to} was made to fail")

    async def service(self, broker: BrokerId, messages: int = 1) -> None:
        """Wait until a broker is ready for so many messages, which it handles at once after that."""
        async with self._counters[broker]:
            factor = self._factors.get(broker, 1.0)
            if factor > 1.0:
                await asyncio.sleep(factor * messages * self._service_seconds)
