"""The distance of brokers from this process, by round trip (paper 1, section 2: clients attach to the nearest broker).

Rules
-----
* A host is pinged up to `PINGS` times, and its shortest round trip counts. The brokers of one host are equally near.
* Measuring is bounded: `HOSTS_MAX` hosts (each process draws its own if there are more), `AT_ONCE` at a time,
  `PING_SECONDS` per ping, `MEASURE_SECONDS` in all. A host that has not answered once by then is not near.
* A measurement is valid for `FRESH_SECONDS`, for all clients of the process.
* Round trips vary. Brokers within `TIE_FACTOR` times the shortest, or within `TIE_SECONDS` of it, are equally
  near. Of these, brokers on this process's Ray node come first. Among the rest the rendezvous point takes the
  one with the fewest clients.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import ray
from ray.exceptions import RayError

from ...clients.places import Tiers
from ...protocol.checks import one_of
from ...protocol.ids import BrokerId
from ..answers import answered
from ..host.handle import HostHandle

Placement: TypeAlias = Literal["nearest", "least-loaded"]
"""Where a client is placed: at the broker with the shortest round trip, or the one with the fewest clients."""
PLACEMENTS: Final = ("nearest", "least-loaded")

PINGS: Final = 4
HOSTS_MAX: Final = 64
AT_ONCE: Final = 8
PING_SECONDS: Final = 0.5
MEASURE_SECONDS: Final = 1.5
FRESH_SECONDS: Final = 10.0
TIE_FACTOR: Final = 2.0
TIE_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """The shortest round trip to a host, in seconds, and the Ray node of the host."""

    seconds: float
    node: str


def checked(place: Any) -> Placement | None:
    """Return the placement of a client, None for the network's own rule; InputError for anything else."""
    return None if place is None else one_of("place", place, PLACEMENTS)  # type: ignore[return-value]


def tiers_of(trips: Mapping[BrokerId, RoundTrip], here: str) -> Tiers:
    """Return brokers by round trip, nearest first; `here` is the Ray node of the asking process."""
    left = sorted(trips, key=lambda broker: (trips[broker].seconds, broker))
    found = []
    while left:
        reach = TIE_FACTOR * trips[left[0]].seconds + TIE_SECONDS
        tied = [broker for broker in left if trips[broker].seconds <= reach]
        own = tuple(broker for broker in tied if trips[broker].node == here)
        found += [own, tuple(broker for broker in tied if broker not in own)]
        left = left[len(tied) :]
    return tuple(tier for tier in found if tier)


def _own_node() -> str:
    return str(ray.get_runtime_context().get_node_id())


class Nearness:
    """The round trips of one process to the hosts of a network; used on its background loop.

    Parameters
    ----------
    process
        The name of the process, which determines the hosts that it measures if there are too many.
    clock
        Returns seconds.
    own_node
        Returns the Ray node of this process.
    """

    def __init__(
        self,
        process: str,
        clock: Callable[[], float] = time.monotonic,
        own_node: Callable[[], str] = _own_node,
    ) -> None:
        self._process = process
        self._clock = clock
        self._own_node = own_node
        self._known: dict[
            Any, tuple[float, RoundTrip | None]
        ] = {}  # by host; None for a host that did not answer
        self._turn = asyncio.Lock()

    async def tiers(self, place: Placement | None, rendezvous: Any) -> Tiers | None:
        """Return the brokers by nearness, as the rendezvous point takes them; None leaves the choice to its own rule.

        The least loaded placement has no tiers: all brokers are equally near.
        """
        if place != "nearest":
            return None if place is None else ()
        hosts: Mapping[BrokerId, Any] = await answered(rendezvous.hosts.remote())
        async with self._turn:
            await self._refresh(hosts)
            trips = {broker: self._trip_to(host) for broker, host in hosts.items()}
        return tiers_of({b: trip for b, trip in trips.items() if trip is not None}, self._own_node())

    def _trip_to(self, host: Any) -> RoundTrip | None:
        return self._known.get(host, (0.0, None))[1]

    async def _refresh(self, hosts: Mapping[BrokerId, Any]) -> None:
        """Measure the hosts without a valid measurement."""
        first = {host: broker for broker, host in sorted(hosts.items(), reverse=True)}
        chosen = sorted(first.values())
        if len(chosen) > HOSTS_MAX:
            chosen = random.Random(self._process).sample(chosen, HOSTS_MAX)
        since = self._clock() - FRESH_SECONDS
        wanted = {hosts[broker]: broker for broker in chosen}
        self._known = {h: known for h, known in self._known.items() if h in wanted and known[0] > since}
        await self._measure({host: broker for host, broker in wanted.items() if host not in self._known})

    async def _measure(self, hosts: Mapping[Any, BrokerId]) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        best: dict[object, RoundTrip] = {}
        asked = {
            host: asyncio.create_task(self._ask(host, broker, slots, best)) for host, broker in hosts.items()
        }
        try:
            if asked:
                await asyncio.wait(asked.values(), timeout=MEASURE_SECONDS)
            for host, task in asked.items():
                if task.done():
                    task.result()
                self._known[host] = self._clock(), best.get(host)
        finally:
            for task in asked.values():
                task.cancel()

    async def _ask(
        self, host: Any, broker: BrokerId, slots: asyncio.Semaphore, best: dict[object, RoundTrip]
    ) -> None:
        """Put the shortest round trip so far into `best`; nothing without an answer."""
        async with slots:
            for _ in range(PINGS):
                asked_at = self._clock()
                try:
                    async with asyncio.timeout(PING_SECONDS):
                        node = await HostHandle(host).ping(broker)
                except (RayError, TimeoutError):
                    break
                seconds = self._clock() - asked_at
                if host not in best or seconds < best[host].seconds:
                    best[host] = RoundTrip(seconds, node)
