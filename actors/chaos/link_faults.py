"""What is wrong at one host while it is tested: cut links, bad spells, slow brokers.

Rules
-----
* A link is a connection: a message that it is given while it is cut waits until it is mended, one that the weather
  holds up comes late, and whatever is behind it on the same link waits too (docs/decisions/0011-recovery.md).
* The sending host does it, so both ends of a cut link have to be told. What the rendezvous point sends is held up where
  it arrives.
* A host that was never told of any weather has none, and does not ask for it.
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
"""What a slow broker takes for one message, in heartbeats, times its factor."""

Lane: TypeAlias = tuple[BrokerId, BrokerId, str]
"""From, to, and "link" or "group": in each of these the order is kept."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """All that is wrong at present, as the driver tells it to every host.

    Attributes
    ----------
    cut
        The pairs of brokers that cannot reach each other, the lower one first.
    shakes
        (seconds that are left, what) of each bad spell.
    factors
        How many times as long a slow broker takes.
    failing
        (from, to) of each way on which calls fail, and what they carry is lost, though both ends live.
    """

    cut: frozenset[tuple[BrokerId, BrokerId]] = frozenset()
    shakes: tuple[tuple[float, Shake], ...] = ()
    factors: Mapping[BrokerId, float] = field(default_factory=dict)
    failing: frozenset[tuple[BrokerId, BrokerId]] = frozenset()


class HostLinkFaults:
    """The weather at one host; used on its event loop.

    Parameters
    ----------
    heartbeat_seconds
        Of its brokers.
    seed
        Of the chance in bad spells.
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
        """Take in what is wrong from now on, in place of what was."""
        now = time.monotonic()
        self._cut, self._failing = forecast.cut, forecast.failing
        self._links.shakes = [(now + left, shake) for left, shake in forecast.shakes]
        self._factors = dict(forecast.factors)
        self._changed.set()
        self._changed = asyncio.Event()

    async def passage(self, source: BrokerId, to: BrokerId, lane: str) -> None:
        """Wait until a message may leave; whoever goes on at once after it keeps the order of its lane.

        Raises
        ------
        ConnectionResetError
            If calls fail on this way.
        """
        pair = (source, to) if source < to else (to, source)
        async with self._lanes[source, to, lane]:  # who waits for a lock gets it in the order of asking
            seconds = self._links.extra(time.monotonic(), pair, self._dice) if self._links.shakes else 0.0
            if seconds:
                await asyncio.sleep(seconds)
            while pair in self._cut:
                await self._changed.wait()
            if (source, to) in self._failing:
                raise ConnectionResetError(f"the call of broker {source} to broker {to} was made to fail")

    async def service(self, broker: BrokerId, messages: int = 1) -> None:
        """Wait until a broker is ready for so many messages, which it takes at once after that."""
        async with self._counters[broker]:
            factor = self._factors.get(broker, 1.0)
            if factor > 1.0:
                await asyncio.sleep(factor * messages * self._service_seconds)
