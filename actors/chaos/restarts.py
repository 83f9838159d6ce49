"""How brokers of a running network die and come back: killed, crashed, started again, asked without the dead.

Rules
-----
* A network that heals is asked without those hosts that are dead. Whom another process started again is found at the
  rendezvous point.
* A broker that is started again is a new actor in its next life: the rendezvous point knows it first, then its peers.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

import ray
from ray.exceptions import GetTimeoutError, RayActorError

from ...protocol import checks
from ...protocol.errors import ClientError, InputError
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import Recovery
from ..host.errors import broker_errors
from ..network.directory import Directory
from ..network.launching import start_again
from .link_faults import Forecast

TELL_SECONDS: Final = 2.0
"""How long the peers of a broker that is started again have to hear of it; who is late learns it from the broker."""


class Restarts:
    """The part of a network that knows which of its hosts live."""

    _directory: Directory
    _rendezvous: Any
    _dead: set[Any]
    _closed: bool

    @property
    def rendezvous(self) -> Any:
        """The actor that is the rendezvous point."""
        return self._rendezvous

    @property
    def _recovery(self) -> Recovery | None:
        return self._directory.recovery

    def _require_open(self) -> None:
        """Raise ClientError when this process has closed the network."""
        if self._closed:
            raise ClientError(
                f"network {self._directory.name!r} is closed in this process: launch it, or attach to it, again"
            )

    def hosts(self) -> list[Any]:
        """Return the host actors, each once, in the order of their first broker; without those known to be dead."""
        return [host for host in dict.fromkeys(self._directory.hosts.values()) if host not in self._dead]

    def _ask(
        self,
        method: str,
        *args: Any,
        timeout_seconds: float | None = None,
        without: Collection[BrokerId] = (),
    ) -> list[Any]:
        """Return what the living hosts answer; those of the brokers `without` are not asked."""
        self._require_open()
        with broker_errors(f"{method} in network {self._directory.name!r}"):
            if self._recovery is None:
                # A question may be asked again: so Ray waits for a host that it starts again.
                again = {"max_task_retries": -1} if self._directory.numbered else {}
                calls = [getattr(host, method).options(**again).remote(*args) for host in self.hosts()]
                return ray.get(calls, timeout=timeout_seconds)  # type: ignore[no-any-return]
            answers: list[Any] = []
            known = self._directory.hosts
            asked = {known[broker] for broker in without if broker in known}
            while True:
                self._find_reborn()
                hosts = [host for host in self.hosts() if host not in asked]
                if not hosts:
                    return answers
                asked.update(hosts)
                calls = [getattr(host, method).remote(*args) for host in hosts]
                answers += self._answers(dict(zip(hosts, calls, strict=True)), timeout_seconds)

    def _answers(self, calls: Mapping[Any, Any], timeout_seconds: float | None) -> list[Any]:
        """Return what the living hosts answer, and note which are dead."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        answers = []
        for host, call in calls.items():
            try:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                answers.append(ray.get(call, timeout=left))
            except RayActorError:
                self._dead.add(host)
        return answers

    def _find_reborn(self) -> None:
        """Take the actors of brokers that have come or were started again, perhaps by another process."""
        hosts = ray.get(self._rendezvous.hosts.remote(), timeout=60)
        known = self._directory.hosts
        known.update(hosts)
        for gone in [broker for broker in known if broker not in hosts]:
            del known[gone]
        self._dead &= set(known.values())
        if len(hosts) != len(self._directory.positions) or any(
            place.broker not in hosts for place in self._directory.positions
        ):
            fresh = ray.get(self._rendezvous.directory.remote(), timeout=60)
            self._directory = replace(fresh, hosts=known)  # clients share the hosts

    def kill_broker(self, broker: BrokerId) -> list[BrokerId]:
        """Kill the actor of a broker, and return all brokers that died with it."""
        host = self.host_of(broker)
        ray.kill(host, no_restart=True)
        return self._buried(host)

    def crash(self, broker: BrokerId) -> list[BrokerId]:
        """Kill the process of a broker with SIGKILL, as if it had crashed, and return all brokers that died with it.

        Raises
        ------
        InputError
            If the process is on another machine.
        """
        os.kill(self.pid_of(broker), signal.SIGKILL)
        host = self.host_of(broker)
        if self._directory.numbered:  # Ray starts it again
            return [other for other, at in self._directory.hosts.items() if at == host]
        return self._buried(host)

    def pid_of(self, broker: BrokerId) -> int:
        """Return the id of the process of a broker.

        Raises
        ------
        InputError
            If the process is on another machine.
        """
        host = self.host_of(broker)
        with broker_errors(f"asking broker {broker} for its process"):
            node, pid = ray.get(host.pid.remote(), timeout=60)
        if node != ray.get_runtime_context().get_node_id():
            raise InputError(
                f"broker {broker} is on another machine: its process is out of reach here; kill_broker reaches it"
            )
        return int(pid)

    def restart_broker(self, broker: BrokerId) -> None:
        """Start a dead broker afresh, in a new actor of its own; it knows its place, and what its store has kept.

        Raises
        ------
        InputError
            If the network does not heal, or the broker is alive.
        """
        host = self.host_of(broker)
        if self._recovery is None:
            raise InputError(
                f"broker {broker} cannot be started again: launch the network with recovery=Recovery()"
            )
        with broker_errors(f"starting broker {broker} again"):
            if host not in self._dead and self._lives(host):
                raise InputError(f"broker {broker} is alive")
            life = ray.get(self._rendezvous.next_life.remote(broker), timeout=60)
            new = start_again(self._directory, self._rendezvous, broker, life)
            self._directory.hosts[broker] = new
            told = [other.relink.remote(broker, new, life) for other in self.hosts() if other != new]
            if told:
                ray.wait(told, num_returns=len(told), timeout=TELL_SECONDS)

    def _lives(self, host: Any) -> bool:
        try:
            ray.get(host.pid.remote(), timeout=TELL_SECONDS)
        except RayActorError:
            self._dead.add(host)
            return False
        except GetTimeoutError:  # it stands still
            return True
        return True

    def tell_weather(self, forecast: Forecast) -> None:
        """Let links be cut, slow or bad, and brokers slow, until it is told anew; for tests of what goes wrong."""
        checks.instance("forecast", forecast, Forecast, "a Forecast()")
        self._ask("link_faults", forecast, timeout_seconds=60)

    def brokers(self) -> list[BrokerId]:
        """Return the brokers of the network, as far as they are known here, dead or alive."""
        return list(self._directory.hosts)

    def host_of(self, broker: BrokerId) -> Any:
        """Return the actor of a broker, as far as it is known here.

        Raises
        ------
        InputError
            If there is no such broker, or this process has closed the network.
        """
        self._require_open()
        if checks.whole_number("broker", broker) not in self._directory.hosts:
            raise InputError(f"no broker {broker}: there are {checks.shown(sorted(self._directory.hosts))}")
        return self._directory.hosts[broker]

    def _buried(self, host: Any) -> list[BrokerId]:
        """Wait until Ray knows that a host is dead."""
        while host not in self._dead:
            self._answers({host: host.pid.remote()}, 60)
        return [broker for broker, other in self._directory.hosts.items() if other == host]
