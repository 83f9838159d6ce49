"""A crash of a broker's process on Ray: SIGKILL from outside, which no code of the process sees.

Rule: `Network.kill_broker` ends an actor for good; after a crash Ray may start the process again.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from ...protocol.ids import BrokerId

if TYPE_CHECKING:
    from ...actors.network.network import Network


def crash(net: Network, broker: BrokerId) -> list[BrokerId]:
    """Kill the process of a broker with SIGKILL, and return all brokers that died with it.

    Raises
    ------
    InputError
        If the process is on another machine.
    """
    os.kill(net.inspect.pid_of(broker), signal.SIGKILL)
    if net.inspect.directory.features.numbers:  # Ray restarts it
        hosts = net.inspect.directory.hosts
        return [other for other, at in hosts.items() if at == hosts[broker]]
    return net.kill_broker(broker)  # it is dead; this waits until Ray knows that
