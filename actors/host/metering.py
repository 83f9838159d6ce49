"""The part of a host that exports the sizes and counts of its brokers to Ray's metrics every few seconds.

Rules
-----
* It reads only values that exist anyway, so no event waits for it. Reading changes nothing.
* Ray forgets the value of a gauge with each report. So a resting broker is exported, too, but what it has is read once
  in a rest: it has not changed since. The age of what durable subscribers have waiting does; it is read each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from ...protocol.configs import Position
from ...protocol.ids import BrokerId
from ..logs import HOST, Log
from ..telemetry.metrics import BrokerMetrics, Instruments
from .hosted_broker import HostedBroker
from .survey import place_of, sizes_of

LOOK_SECONDS: Final = 2.0
"""Ray itself reports every ten seconds by default."""

LOOKS_A_REST: Final = 4
"""A resting broker is exported at one look in this many: still once in each of Ray's reports."""


class Metering:
    """Exports metrics of the brokers of one host to Ray.

    Parameters
    ----------
    hosted_brokers
        A live view of the host's brokers.
    network
        The network's name; None exports nothing.
    log
        The log of the host.
    """

    def __init__(
        self, hosted_brokers: Mapping[BrokerId, HostedBroker], network: str | None, log: Log = HOST
    ) -> None:
        self._log = log
        self._hosted_brokers = hosted_brokers
        self._network = network
        self._instruments = None if network is None else Instruments()
        self._looks = 0
        self._here: dict[BrokerId, BrokerMetrics] = {}
        self._task: asyncio.Task[None] | None = None

    def of(self, place: Position) -> BrokerMetrics | None:
        """Return the metrics of a new broker; None if nothing is exported."""
        if self._network is None or self._instruments is None:
            return None
        return BrokerMetrics(self._instruments, self._network, place)

    def begin(self) -> None:
        """Start exporting, if that is wanted and not started yet."""
        if self._task is None and self._network is not None:
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(self._say_end)

    async def _run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Export the state of all brokers here, and the departure of those that have left.

        Resting brokers are exported in turn.
        """
        self._looks += 1
        here = {
            broker: hosted.metrics
            for broker, hosted in self._hosted_brokers.items()
            if hosted.metrics is not None
        }
        for broker, metrics in self._here.items():
            if here.get(broker) is not metrics:
                metrics.leave()
        self._here = here
        for broker, metrics in here.items():
            hosted = self._hosted_brokers[broker]
            if hosted.rests_until is not None and (self._looks + broker) % LOOKS_A_REST:
                continue
            rest = _rest_of(hosted)
            if rest is not None and rest == metrics.looked_in:
                metrics.look_again()
                continue
            sizes = sizes_of(hosted)
            metrics.look(place_of(hosted), sizes)
            metrics.looked_in = None if sizes.get("durable_events") or sizes["outbox_events"] else rest

    def _say_end(self, looking: asyncio.Task[None]) -> None:
        if not looking.cancelled() and looking.exception() is not None:
            self._log.error("the metrics of this host have stopped", exc_info=looking.exception())


def _rest_of(hosted: HostedBroker) -> tuple[float, ...] | None:
    """Return what tells a rest of a broker from others, and what its clients may change in it; None if it is awake."""
    if hosted.rests_until is None:
        return None
    return hosted.rests_until, hosted.ticked_at, len(hosted.owners), hosted.tally.shed, hosted.past_ttl
