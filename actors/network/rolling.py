"""Rolling restart: every broker process is replaced, one after the other, while events flow.

Rules
-----
* A process is replaced only when the network has converged after the one before.
* In a network that heals, the clients of a process first move to other brokers, as when brokers leave
  (`Operations.send_clients_away`), and its in-flight messages are sent. Then the process ends, and its brokers are
  restarted together, in their next incarnation, in their positions.
* Where brokers number what they send, Ray restarts the process, and the brokers resume from their stores.
* A process that is already dead is only restarted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray

from ...protocol import checks
from ...protocol.errors import BrokerUnavailable, InputError
from ...protocol.ids import BrokerId
from ..host.errors import broker_errors
from ..host.handle import HostHandle
from .convergence import Convergence
from .hosts import Hosts
from .operations import Operations


@dataclass(frozen=True, slots=True)
class Replaced:
    """One process of a rolling restart.

    Attributes
    ----------
    brokers
        The brokers that were restarted.
    seconds
        How long it took until the network had converged again.
    left
        How many processes are still to be replaced.
    """

    brokers: tuple[BrokerId, ...]
    seconds: float
    left: int


class Rolling:
    """Replaces the processes of a running network."""

    def __init__(self, hosts: Hosts, operations: Operations, convergence: Convergence) -> None:
        self._hosts = hosts
        self._operations = operations
        self._convergence = convergence

    def restart_rolling(
        self, timeout_seconds: float = 60.0, progress: Callable[[Replaced], None] | None = None
    ) -> list[Replaced]:
        """Restart every broker, one process after the other; no event is lost or duplicated.

        Parameters
        ----------
        timeout_seconds
            For each process, from its end until the network has converged again. Also for the network to converge
            before the first one.
        progress
            Called after each process.

        Returns
        -------
        list of Replaced
            In the order of their replacement.

        Raises
        ------
        InputError
            If the network neither heals nor has stores, or if it heals and has only one process, so that no other
            process could take over.
        BrokerUnavailable
            If the network does not converge in time; the remaining processes are left as they were.
        """
        checks.seconds("timeout_seconds", timeout_seconds)
        checks.callback("progress", progress)
        hosts = self._hosts
        hosts.require_open()
        heals, name = hosts.features.heals, hosts.name
        if not hosts.features.outlives_processes:
            raise InputError(
                f"network {name!r} cannot be restarted without loss: launch it with recovery=Recovery(), or with "
                "stable=Stable(...)"
            )
        if heals:
            hosts.find_reborn()
        waiting = [self._at(host) for host in dict.fromkeys(hosts.directory.hosts.values())]
        if heals and len(waiting) == 1:
            raise InputError(
                f"all brokers of network {name!r} are in one process: none could take over meanwhile"
            )
        if heals and not hosts.dead:
            self._convergence.await_convergence(timeout_seconds)
        done: list[Replaced] = []
        for place, brokers in enumerate(waiting, 1):
            started = time.monotonic()
            with broker_errors(f"starting brokers {brokers} again"):
                if heals:
                    self._replace(brokers, timeout_seconds)
                else:
                    self._restart(brokers[0], timeout_seconds)
            done.append(Replaced(tuple(brokers), time.monotonic() - started, len(waiting) - place))
            if progress is not None:
                progress(done[-1])
        return done

    def _at(self, host: Any) -> list[BrokerId]:
        return [broker for broker, other in self._hosts.directory.hosts.items() if other == host]

    def _replace(self, brokers: list[BrokerId], timeout_seconds: float) -> None:
        """Replace a process of a network that heals."""
        host = self._hosts.host_of(brokers[0])
        if self._hosts.lives(host):
            self._operations.send_clients_away(brokers)
            ray.get(HostHandle(host).ask("quiet", False), timeout=timeout_seconds)
            self._hosts.kill_broker(brokers[0])
        self._hosts.start_again(brokers)
        self._convergence.await_convergence(timeout_seconds)

    def _restart(self, broker: BrokerId, timeout_seconds: float) -> None:
        """Let Ray restart a process whose brokers resume from their stores, and wait until they have resumed."""
        host, deadline = self._hosts.host_of(broker), time.monotonic() + timeout_seconds
        handle = HostHandle(host, again=-1)
        before = ray.get(handle.pid(), timeout=timeout_seconds)
        ray.kill(host, no_restart=False)
        while ray.get(handle.pid(), timeout=timeout_seconds) == before:
            if time.monotonic() > deadline:
                raise BrokerUnavailable(f"broker {broker} does not end within {timeout_seconds} s")
        left = max(0.001, deadline - time.monotonic())
        ray.get(handle.describe(), timeout=left)
