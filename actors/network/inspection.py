"""`net.inspect`: a running network, for looking: where its brokers are, what they hold, and what is not settled yet.

Rule: a look changes nothing. Each asks the living brokers, the rendezvous point, or only this process.
"""

from __future__ import annotations

from typing import Any

from ...protocol.configs import Position
from ..clients.attaching import Attaching
from ..parts import of
from .admission import NetworkAdmission
from .convergence import Convergence
from .directory import Directory
from .hosts import Hosts

__all__ = ["Inspection"]


class Inspection:
    """What can be looked at in a running network, beside :meth:`Network.status`, `draw` and `telemetry`.

    Created by a network: ``net.inspect``.
    """

    def __init__(
        self, hosts: Hosts, attached: Attaching, convergence: Convergence, admission: NetworkAdmission
    ) -> None:
        self._hosts = hosts
        self._attached = attached
        self._convergence = convergence
        self._admission = admission

    # Where things are.

    brokers = of("_hosts", Hosts.brokers)
    hosts = of("_hosts", Hosts.hosts)
    host_of = of("_hosts", Hosts.host_of)
    node_of = of("_hosts", Hosts.node_of)
    pid_of = of("_hosts", Hosts.pid_of)

    # What brokers hold.

    describe = of("_hosts", Hosts.describe)
    survey = of("_hosts", Hosts.survey)
    routes = of("_hosts", Hosts.routes)
    accepted = of("_attached", Attaching.accepted)
    dropped_replies = of("_attached", Attaching.dropped_replies)
    admission = of("_admission", NetworkAdmission.admission)
    books = of("_admission", NetworkAdmission.books)
    cpu_seconds = of("_hosts", Hosts.cpu_seconds)

    # Whether it is sound.

    problems = of("_convergence", Convergence.problems)
    converged = of("_convergence", Convergence.converged)
    check = of("_hosts", Hosts.check)

    @property
    def rendezvous(self) -> Any:
        """The actor of the rendezvous point."""
        return self._hosts.rendezvous

    @property
    def directory(self) -> Directory:
        """The launch parameters and the hosts, as known to this process."""
        return self._hosts.directory

    @property
    def positions(self) -> tuple[Position, ...]:
        """The position of every broker at launch, and of those that were added."""
        return self._hosts.directory.positions

    @property
    def scheme(self) -> str:
        """The name of the routing scheme."""
        return self._hosts.directory.scheme

    @property
    def heals(self) -> bool:
        """Whether the network was launched with ``recovery``."""
        return self._hosts.features.heals

    @property
    def timeline(self) -> list[tuple[float, str]]:
        """This process's operations on brokers, and when it observed the network healed: (seconds since 1970, what)."""
        return list(self._hosts.timeline)

    def __repr__(self) -> str:
        return f"Inspection({self._hosts.name!r})"
