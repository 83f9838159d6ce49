"""The directory of a network: what a process needs to take part in it, and the name under which it is found.

Rule: the rendezvous point hands it out, and every attached process keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...protocol.configs import Limits, Position
from ...protocol.gateways import AccessConfig, GatewayConfig
from ...protocol.ids import BrokerId
from ...protocol.messages.admission import AdmissionConfig
from ...protocol.messages.recovery import Recovery
from ...protocol.stability import Stable
from ...protocol.telemetry.tables import TelemetryConfig
from .placing import node_for

NAMESPACE: Final = "rayvous"
PROTOCOL: Final = 2
"""The version of the messages between processes, brokers and the rendezvous point; other versions are incompatible."""


# Names of actors begin with that of their network, so that Ray's views group them.


def rendezvous_name(network: str) -> str:
    """Return the name of the actor that is the rendezvous point of a network."""
    return f"{network}:rendezvous"


def collector_name(network: str) -> str:
    """Return the name of the actor that takes the telemetry of a network."""
    return f"{network}:collector"


def host_name(network: str, brokers: Sequence[BrokerId], life: int = 0) -> str:
    """Return the name of the actor that hosts these brokers, rising; `life` counts restarts.

    Brokers that are spaced apart, because others between them are on other nodes, are named with the step.
    """
    first, last = brokers[0], brokers[-1]
    which = f"broker:{first}" if first == last else f"brokers:{first}-{last}"
    step = round((last - first) / max(1, len(brokers) - 1))
    which += f"/{step}" if step > 1 else ""
    return f"{network}:{which}" + (f":life:{life}" if life else "")


@dataclass(frozen=True, slots=True)
class Directory:
    """What a process needs to take part in a network.

    Attributes
    ----------
    name, scheme
        The network's name and routing scheme.
    limits
        The bounds of its brokers.
    positions
        Every broker's initial place, in rising order.
    hosts
        The actor that hosts each broker; it changes when brokers join, leave, or restart.
    collector
        The actor that takes telemetry.
    recovery
        How quickly failures are detected and repaired; None for a network that does not heal.
    token
        Identifies this network's part of the store, so that nothing of an earlier one of the same name is found
        there.
    trace_events, detached
        The launch parameters.
    stable
        The stores of its brokers; None for no stores.
    admission
        What its brokers admit; None for a network without admission control.
    telemetry
        The destination of telemetry; None for Ray's object store.
    protocol
        The version of the protocol of its brokers.
    nodes
        The Ray nodes of the brokers (`placing`); empty leaves placement to Ray.
    gateway, access
        The gateways for clients outside Ray, and the rights of each client; None if not configured.
    launches
        How often a network has been launched on these stores: this one, and those that it resumes.
    still_seconds
        How long there was no network in between. The clocks of its brokers were stopped then, so nothing aged.
    seal
        A secret of the network, kept when another one resumes it; initially `token`.
    """

    name: str
    scheme: str
    limits: Limits
    positions: tuple[Position, ...]
    hosts: dict[BrokerId, Any]
    collector: Any
    recovery: Recovery | None = None
    token: str = ""
    trace_events: bool = False
    detached: bool = False
    stable: Stable | None = None
    admission: AdmissionConfig | None = None
    telemetry: TelemetryConfig | None = None
    protocol: int = PROTOCOL
    nodes: tuple[str, ...] = ()
    gateway: GatewayConfig | None = None
    access: AccessConfig | None = None
    launches: int = 1
    still_seconds: float = 0.0
    seal: str = ""

    @property
    def numbered(self) -> bool:
        """Whether its brokers number messages: they have stores, and do not heal."""
        return self.stable is not None and self.recovery is None

    @property
    def root(self) -> BrokerId:
        """The initial root broker; if its cluster has left, the first broker."""
        roots = (position.broker for position in self.positions if position.role == "REB")
        return next(roots, self.positions[0].broker)

    def node_of(self, broker: BrokerId, members: Sequence[BrokerId] = ()) -> tuple[str, ...]:
        """Return the Ray node for a broker while that node lives; none leaves it to Ray.

        `members` are those of its cluster, for a broker that joins a running network.
        """
        if not self.nodes:
            return ()
        return (node_for(broker, members or self.cluster_of(broker), self.nodes),)

    def cluster_of(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Return the members of a broker's cluster, itself included, rising; none for one that has left."""
        return next((position.members for position in self.positions if position.broker == broker), ())
