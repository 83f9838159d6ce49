"""The collector as an actor.

Rule: importing this file imports neither Arrow nor the collector. Ray imports the class of an actor in every process
that has a handle of it, so in every process with brokers; only the collector's own process needs what it works with.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...protocol.telemetry.tables import TelemetryConfig
from .accounts import HandOver

if TYPE_CHECKING:
    from .telemetry import Holdings

ARGUMENT_BYTES: Final = 64 * 1024
"""The largest argument of the collector's actor."""


def packed_network(network: Mapping[str, Any]) -> list[bytes]:
    """Return the description of a network as arguments of the collector's actor.

    Ray stores an argument of more than 100 KiB apart, as an object of the process that starts the actor. When that
    process has ended, an actor with such an argument cannot be restarted.
    """
    data = zlib.compress(json.dumps(network).encode())
    return [data[start : start + ARGUMENT_BYTES] for start in range(0, len(data), ARGUMENT_BYTES)]


class CollectorActor:
    """The collector as an actor, which Ray can restart after the process that started it has ended.

    Parameters
    ----------
    run, config
        As for a collector.
    network
        What `packed_network` returned.
    """

    def __init__(self, run: str, config: TelemetryConfig | None, *network: bytes) -> None:
        from .collector import Collector

        self._collector = Collector(run, config, json.loads(zlib.decompress(b"".join(network))))

    async def add(self, flush: HandOver) -> None:
        """Take the rows that a host's brokers recorded since its last flush."""
        await self._collector.add(flush)

    async def holdings(self) -> Holdings:
        """Return what the collector has now; with a folder everything is written first.

        Raises
        ------
        StorageFailed
            If it cannot be written.
        """
        return self._collector.hold()

    async def pid(self) -> int:
        """Return the id of this process."""
        return os.getpid()
