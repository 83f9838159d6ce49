"""Ending a network for all processes.

Rules
-----
* Telemetry is saved, gateways end, sinks write what they have, and groups leave. Then the rendezvous point ends: it
  writes what it has to write, and answers no more calls. A client whose broker ends earlier is therefore not sent
  elsewhere, so a network that later resumes from its stores finds the client at the broker that holds its
  notifications.
* All brokers that the rendezvous point knows are ended, including those that another process has started since.
* The collector ends last: Ray prints a warning for each in-flight call to an actor that is killed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import ray
from ray.exceptions import GetTimeoutError, RayError

from ..telemetry.source import save_telemetry
from .gateways import end_gateways
from .groups import end_groups
from .hosts import Hosts
from .sinks import end_sinks
from .store import RayStore

END_SECONDS: Final = 10.0
"""How long a rendezvous point has to end by itself. After that it is killed, as one that is dead or stalled."""


def end_network(hosts: Hosts) -> None:
    """End all actors of a network, and delete what Ray stores of it."""
    known = [*hosts.directory.hosts.values(), *hosts.dead]
    with suppress(RayError, GetTimeoutError):  # includes brokers that another process has started
        hosts.find_reborn(END_SECONDS)
    directory = hosts.directory
    save_telemetry(directory)
    end_gateways(directory)
    end_sinks(directory)
    end_groups(directory)
    with suppress(RayError, GetTimeoutError):  # it exits without answering
        # Not retried: it is the end of a call that would otherwise be repeated until it is killed.
        ended = hosts.rendezvous.end.options(max_task_retries=0).remote()
        ray.get(ended, timeout=END_SECONDS)
    # Dead brokers are killed too. Otherwise their names stay taken in this process while it holds a handle to
    # them.
    brokers = dict.fromkeys([*known, *directory.hosts.values()])
    for part in (*brokers, hosts.rendezvous, directory.collector):
        ray.kill(part)
    if directory.features.outlives_processes:
        RayStore(directory.token).clear()
