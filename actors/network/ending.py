"""A network is ended for everybody.

Rules
-----
* The rendezvous point first: it writes down what it has to, and answers nobody any more. A client whose broker ends
  before it is sent nowhere, so a network that goes on from its stores finds it where its notifications are.
* All brokers that the rendezvous point knows, also those that another process has started since.
* The collector last: Ray prints a warning for each call that is under way to an actor that is killed.
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
"""How long a rendezvous point has to end by itself; then it is killed, as one that is dead or stands still."""


def end_network(hosts: Hosts) -> None:
    """End all actors of a network, and delete what Ray keeps of it."""
    known = [*hosts.directory.hosts.values(), *hosts.dead]
    with suppress(RayError, GetTimeoutError):  # also those that another process has started
        hosts.find_reborn(END_SECONDS)
    directory = hosts.directory
    save_telemetry(directory)
    end_gateways(directory)
    with suppress(RayError, GetTimeoutError):  # as it ends it does not answer
        ray.get(hosts.rendezvous.end.remote(), timeout=END_SECONDS)
    # Who died by itself is killed, too: else its name stays taken in this process for as long as anybody knows it.
    brokers = dict.fromkeys([*known, *directory.hosts.values()])
    for part in (*brokers, hosts.rendezvous, directory.collector):
        ray.kill(part)
    if directory.recovery is not None or directory.numbered:
        RayStore(directory.token).clear()
