"""The directory of a network: what a process needs to take part in it, and the names under which its actors are found.

Rule: the rendezvous point hands it out, and every attached process holds a copy.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...protocol.configs import Limits, Position
from ...protocol.features import Features
from ...protocol.gateways import AccessConfig, GatewayConfig
from ...protocol.ids import BrokerId
from ...protocol.messages.admission import AdmissionConfig
from ...protocol.messages.recovery import Recovery
from ...protocol.node_places import NodePlace
from ...protocol.telemetry.tables import TelemetryConfig
from ...recovery.durability.stable import Stable
from ..channels.config import ChannelConfig
from .placing import node_for

NAMESPACE: Final = "rayvous"
PROTOCOL: Final = 9
"""The version of the messages between client processes, brokers and the rendezvous point; processes with different
versions cannot communicate."""


# Names of actors begin with the name of their network, so that Ray's views show them together.


def rendezvous_name(network: str) -> str:
    """Return the name of the actor that is a network's rendezvous point."""
    return f"{network}:rendezvous"


def collector_name(network: str) -> str:
    """Return the name of the actor that collects a network's telemetry."""
    return f"{network}:collector"


def host_name(network: str, brokers: Sequence[BrokerId], incarnation: int = 0) -> str:
    """Return the name of the actor that hosts these brokers, in rising order; `incarnation` counts restarts.

    If the brokers are not consecutive, because others between them are on other nodes, the name contains the step.
    """
    first, last = brokers[0], brokers[-1]
    which = f"broker:{first}" if first == last else f"brokers:{first}-{last}"
    step = round((last - first) / max(1, len(brokers) - 1))
    which += f"/{step}" if step > 1 else ""
    return f"{network}:{which}" + (f":life:{incarnation}" if incarnation else "")


def sink_name(network: str, sink: str) -> str:
    """Return the name of the actor that is a sink."""
    return f"{network}:sink:{sink}"


def group_name(network: str, group: str) -> str:
    """Return the name of the actor that is a consumer group."""
    return f"{network}:group:{group}"


KINDS: Final = ("gateways", "gateway", "sink", "group", "rendezvous", "broker", "collector")
"""The kinds of a network's actors, in the order in which they are ended: what starts others comes first."""

_ACTOR: Final = re.compile(
    r"(?P<network>.+):(?:(?P<one>gateways|rendezvous|collector)"
    r"|(?P<named>sink|group):[A-Za-z0-9_.~/@-]+"
    r"|(?P<many>gateway|broker)s?:[0-9a-f]+(?:[-:]\d+)?(?:/\d+)?(?::life:\d+)?)"
)


def network_of_actor(name: str) -> str | None:
    """Return the network that an actor of this name belongs to; None for an actor of nothing that we start."""
    found = _ACTOR.fullmatch(name)
    return None if found is None else found["network"]


def kind_of(name: str) -> str:
    """Return which of the `KINDS` an actor of a network is, by its name."""
    found = _ACTOR.fullmatch(name)
    assert found is not None, "it is an actor of a network"
    return found["one"] or found["named"] or found["many"]


@dataclass(frozen=True, slots=True)
class Directory:
    """What a process needs to take part in a network.

    Attributes
    ----------
    name, scheme
        The network's name and routing scheme.
    limits
        The limits of its brokers.
    positions
        The position of every broker when it joined, in rising order.
    hosts
        The actor that hosts each broker; it changes when brokers join, leave, or are restarted.
    collector
        The actor that collects telemetry.
    recovery
        How quickly the network detects and repairs failures; None for a network that does not heal.
    token
        Names this network's part of the store, so that values of an earlier network of the same name are not found
        there.
    trace_events, detached
        As the network was launched.
    stable
        Where its brokers store what must outlive them; None if they store nothing.
    admission
        The admission control of its brokers; None for a network without it.
    telemetry
        Where telemetry goes; None when it stays in Ray's object store.
    protocol
        The protocol version of its brokers.
    nodes
        The Ray nodes that the brokers run on (`placing`); if empty, Ray decides.
    gateway, access
        Where clients outside Ray connect, and what each may do; None if not configured.
    launches
        How many times a network has been launched on these stores: this launch, and those that it resumes.
    still_seconds
        How long the network was down between these launches. Its brokers' clocks stood still then, so nothing aged.
    seal
        A secret of the parts of the network. A network that resumes this one has the same; in the first launch it
        equals `token`.
    place, spared
        What the nodes of brokers must have, and what each process of brokers takes there; None if not configured. And
        the nodes with GPUs on which nothing is placed, as long as there are others.
    channels
        How processes open channels to each other; None where all links are calls of Ray.
    chaos
        Whether it may have game days, which break it on purpose (docs/chaos.md).
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
    channels: ChannelConfig | None = None
    chaos: bool = False
    place: NodePlace | None = None
    spared: tuple[str, ...] = ()

    @property
    def features(self) -> Features:
        """What follows from the features with which it was launched."""
        return Features(self.recovery, self.stable is not None, self.admission)

    @property
    def root(self) -> BrokerId:
        """The root broker at the launch; the first broker if the root's cluster has left."""
        roots = (position.broker for position in self.positions if position.role == "REB")
        return next(roots, self.positions[0].broker)

    def node_of(
        self, broker: BrokerId, members: Sequence[BrokerId] = (), dead: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Return the Ray node that a broker runs on as long as that node is alive; none leaves the placement to Ray.

        `members` are the members of its cluster, for a broker that joins a running network; `dead` nodes are taken by
        none.
        """
        if not set(self.nodes) - set(dead):
            return ()
        return (node_for(broker, members or self.cluster_of(broker), self.nodes, dead),)

    def cluster_of(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Return the members of a broker's cluster, itself included, rising; none for a broker that has left."""
        return next((position.members for position in self.positions if position.broker == broker), ())
