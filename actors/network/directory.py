"""The directory of a network: what a process needs to take part in it, and under which name it is found.

Rule: it is handed out by the rendezvous point, and kept by every process that has attached.
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
"""Of what processes, brokers and the rendezvous point say to each other; another number, and they cannot talk."""


# Names of actors begin with that of their network, so that Ray's views put together what belongs together.


def rendezvous_name(network: str) -> str:
    """Return the name of the actor that is the rendezvous point of a network."""
    return f"{network}:rendezvous"


def collector_name(network: str) -> str:
    """Return the name of the actor that takes the telemetry of a network."""
    return f"{network}:collector"


def host_name(network: str, brokers: Sequence[BrokerId], life: int = 0) -> str:
    """Return the name of the actor that hosts these brokers, rising; `life` counts restarts.

    Brokers that stand apart from each other, since others between them are on other nodes, are told with the step.
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
        What its brokers keep at most.
    positions
        Every broker's place when it came, in rising order.
    hosts
        The actor that hosts each broker; it changes when brokers come, leave, or are started again.
    collector
        The actor that takes telemetry.
    recovery
        How quickly it notices and mends failures; None for a network that does not heal.
    token
        Names this network's part of the store, so that nothing of an earlier one of the same name is found there.
    trace_events, detached
        As it was launched.
    stable
        Where its brokers keep what must outlive them; None when they keep it nowhere.
    admission
        What its brokers admit; None for a network without admission control.
    telemetry
        Where telemetry goes; None when it stays in Ray's object store.
    protocol
        What its brokers speak.
    nodes
        The Ray nodes that the brokers stand on (`placing`); none leaves it to Ray.
    gateway, access
        Where clients outside Ray come in, and what each may do; None where nobody said so.
    launches
        How often a network has been launched on these stores: this one, and those that it goes on from.
    still_seconds
        For how long there was none meanwhile. Its brokers' clocks stood still then, so nothing got older.
    seal
        What only parts of the network know, also of one that goes on from it; as `token`, where it began.
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
        """Whether its brokers number what they send: they have stores, and do not heal."""
        return self.stable is not None and self.recovery is None

    @property
    def root(self) -> BrokerId:
        """The root broker at the start; when its cluster has left, the first broker."""
        roots = (position.broker for position in self.positions if position.role == "REB")
        return next(roots, self.positions[0].broker)

    def node_of(self, broker: BrokerId, members: Sequence[BrokerId] = ()) -> tuple[str, ...]:
        """Return the Ray node that a broker is to stand on as long as that lives; none leaves it to Ray.

        `members` are those of its cluster, where it comes to a network that runs.
        """
        if not self.nodes:
            return ()
        return (node_for(broker, members or self.cluster_of(broker), self.nodes),)

    def cluster_of(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Return the members of a broker's cluster, itself included, rising; none for one that has left."""
        return next((position.members for position in self.positions if position.broker == broker), ())
