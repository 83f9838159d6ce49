"""The faults at one host during a test: cut links, bad periods of links, slow brokers.

Rules
-----
* A link is a connection. A message that is sent while its link is cut waits until the link is mended. A message
  that a bad period delays arrives late, and everything behind it on the same link waits too
  (docs/decisions/0011-recovery.md).
* The sending host applies the faults, so both ends of a cut link must be told. What the rendezvous point sends is
  delayed where it arrives.
* A host that was never told of any faults has none, and does not check for them (`Transport.passage`). One that was
  sends every heartbeat by itself, since faults apply to single links.
* Faults may have a *lease*: the host itself ends them when it is over, whatever becomes of who caused them, and is then
  as if it had never been told of any.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from ...protocol.ids import BrokerId
from ...simulator.link_faults import LinkFaults
from ..plans.plans import Shake

if TYPE_CHECKING:
    from ...actors.host.host import BrokerHost
    from ...actors.host.transport import Transport

PASSED_SECONDS: Final = 1.0
"""How often it is asked whether all messages that were on their way have passed, in order, once a lease is over."""

SERVICE_PART: Final = 0.001
"""The time that a slow broker takes for one message, in heartbeats, before it is multiplied by the broker's factor."""

Lane: TypeAlias = tuple[BrokerId, BrokerId, str]
"""From, to, and "link" or "group": each lane keeps its order."""


@dataclass(frozen=True, slots=True)
class LinkFaultTable:
    """All present faults, as the driver tells them to every host; called with one, it replaces those there.

    Attributes
    ----------
    cut
        The pairs of brokers that cannot reach each other, the lower one first.
    shakes
        (remaining seconds, fault) of each bad period.
    factors
        How many times as long each slow broker takes.
    failing
        (from, to) of each direction in which calls fail and lose what they carry, although both ends live.
    lease_seconds
        After how many seconds all of it ends by itself; None if it does not.
    """

    cut: frozenset[tuple[BrokerId, BrokerId]] = frozenset()
    shakes: tuple[tuple[float, Shake], ...] = ()
    factors: Mapping[BrokerId, float] = field(default_factory=dict)
    failing: frozenset[tuple[BrokerId, BrokerId]] = frozenset()
    lease_seconds: float | None = None

    def __call__(self, host: BrokerHost) -> None:
        """Apply these faults at a host, in its process, from now on."""
        host.resting.stop()
        faults = host.transport.passage
        if not isinstance(faults, HostLinkFaults):
            heartbeat = host.features.usual_times.heartbeat_seconds
            faults = host.transport.passage = HostLinkFaults(
                heartbeat, seed=min(host.hosted_brokers, default=0)
            )
        faults.set(self)
        if self.lease_seconds is not None:
            faults.end_after(self.lease_seconds, host.transport)


class HostLinkFaults:
    """The faults at one host; used on its event loop.

    Parameters
    ----------
    heartbeat_seconds
        The heartbeat period of its brokers.
    seed
        The seed for the random choices in bad periods.
    """

    def __init__(self, heartbeat_seconds: float, seed: int = 0) -> None:
        self._service_seconds = SERVICE_PART * heartbeat_seconds
        self._rng = random.Random(f"link faults/{seed}")
        self._links = LinkFaults()
        self._cut: frozenset[tuple[BrokerId, BrokerId]] = frozenset()
        self._failing: frozenset[tuple[BrokerId, BrokerId]] = frozenset()
        self._factors: dict[BrokerId, float] = {}
        self._changed = asyncio.Event()
        self._lanes: defaultdict[Lane, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._counters: defaultdict[BrokerId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._lease: asyncio.TimerHandle | None = None

    def set(self, table: LinkFaultTable) -> None:
        """Replace the present faults, and their lease."""
        if self._lease is not None:
            self._lease.cancel()
        now = time.monotonic()
        self._cut, self._failing = table.cut, table.failing
        self._links.shakes = [(now + left, shake) for left, shake in table.shakes]
        self._factors = dict(table.factors)
        self._changed.set()
        self._changed = asyncio.Event()

    def end_after(self, seconds: float, transport: Transport) -> None:
        """End the present faults after so many seconds, and a while later do without this object."""
        loop = asyncio.get_running_loop()

        def leave() -> None:
            if any(lane.locked() for lane in self._lanes.values()):  # what is sent now would overtake that
                self._lease = loop.call_later(PASSED_SECONDS, leave)
            elif transport.passage is self:
                transport.passage = None

        def end() -> None:
            self.set(LinkFaultTable())
            self._lease = loop.call_later(PASSED_SECONDS, leave)

        self._lease = loop.call_later(seconds, end)

    async def passage(self, source: BrokerId, to: BrokerId, lane: str) -> None:
        """Wait until a message may leave; a caller that proceeds at once keeps the order of its lane.

        Raises
        ------
        ConnectionResetError
            If calls in this direction fail.
        """
        pair = (source, to) if source < to else (to, source)
        async with self._lanes[source, to, lane]:  # a lock is granted in the order of requests
            seconds = self._links.extra(time.monotonic(), pair, self._rng) if self._links.shakes else 0.0
            if seconds:
                await asyncio.sleep(seconds)
            while pair in self._cut:
                await self._changed.wait()
            if (source, to) in self._failing:
                raise ConnectionResetError(f"the call of broker {source} to broker {to} was made to fail")

    async def service(self, broker: BrokerId, messages: int = 1) -> None:
        """Wait as long as a slow broker takes for this many messages; the broker then handles them at once."""
        async with self._counters[broker]:
            factor = self._factors.get(broker, 1.0)
            if factor > 1.0:
                await asyncio.sleep(factor * messages * self._service_seconds)
