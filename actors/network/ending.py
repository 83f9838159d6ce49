"""Ending a network for all processes.

Rules
-----
* The rendezvous point ends first: it writes what it must, and answers no more calls. A client whose broker ends
  before it is sent nowhere else, so a network that resumes from the stores finds it where its notifications are.
* Then all brokers that the rendezvous point knows, including those that another process has started since.
* The collector ends last: Ray prints a warning for each call in flight to an actor that is killed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import ray
from ray.exceptions import GetTimeoutError, RayError

from ..telemetry.source import save_telemetry
from .gateways import end_gateways
from .hosts import Hosts
from .store import RayStore

END_SECONDS: Final = 10.0
"""How long a rendezvous point may take to end by itself; then it is killed, as if it were dead or stalled."""


def end_network(hosts: Hosts) -> None:
    """End all actors of a network, and delete its values in Ray."""
    known = [*hosts.directory.hosts.values(), *hosts.dead]
    with suppress(RayError, GetTimeoutError):  # including those that another process has started
        hosts.find_reborn(END_SECONDS)
    directory = hosts.directory
    save_telemetry(directory)
    end_gateways(directory)
    with suppress(RayError, GetTimeoutError):  # it does not answer while it ends
        ray.get(hosts.rendezvous.end.remote(), timeout=END_SECONDS)
    # Dead actors are killed too: otherwise their names stay taken in this process while a handle exists.
    brokers = dict.fromkeys([*known, *directory.hosts.values()])
    for part in (*brokers, hosts.rendezvous, directory.collector):
        ray.kill(part)
    if directory.recovery is not None or directory.numbered:
        RayStore(directory.token).clear()
