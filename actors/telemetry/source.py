"""How a network's telemetry is prepared, read and saved: what `Network` asks of the collector.

Rule: Ray restarts the collector when it dies, and retries the calls that it did not answer. Closing a network with
a telemetry folder waits until all telemetry is in the folder, but does not fail if that is impossible.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import ray
from ray.exceptions import RayError

from ...protocol.errors import InputError, RayvousError
from ...protocol.telemetry.tables import TelemetryConfig
from ..host.errors import broker_errors
from ..host.handle import HostHandle
from ..logs import Log
from ..network.rendezvous import Directory
from .files import prepare_folder
from .telemetry import COLLECTOR, Telemetry

READ_SECONDS: Final = 60.0
SAVE_SECONDS: Final = 10.0

_LOG = Log("rayvous.telemetry")


def prepare(config: TelemetryConfig | None) -> TelemetryConfig | None:
    """Return the settings with an absolute folder path, and create the folder.

    Raises
    ------
    InputError
        If the folder cannot be used.
    """
    if config is None or config.folder is None:
        return config
    return replace(config, folder=prepare_folder(config.folder))


def read_telemetry(collector: Any, since: Telemetry | None = None) -> Telemetry:
    """Return what the collector has, or what is new since `since`.

    Raises
    ------
    BrokerUnavailable
        If the collector is gone for good, or does not answer in time.
    """
    if since is not None and not isinstance(since, Telemetry):
        raise InputError(f"since is {since!r}: it must be what an earlier telemetry() returned, or None")
    with broker_errors("reading telemetry", COLLECTOR):
        return Telemetry(ray.get(collector.holdings.remote(), timeout=READ_SECONDS), since)


def save_telemetry(directory: Directory) -> None:
    """Flush what brokers and the collector still have into the folder, if the network has one."""
    if directory.telemetry is None or directory.telemetry.folder is None:
        return
    flushes = [HostHandle(host).flush_telemetry() for host in dict.fromkeys(directory.hosts.values())]
    ray.wait(flushes, num_returns=len(flushes), timeout=SAVE_SECONDS)  # dead hosts have nothing to flush
    try:
        read_telemetry(directory.collector)
    except (RayvousError, RayError) as error:
        _LOG.of(network=directory.name).warning("the end of the telemetry was not saved: %s", error)
