"""The settings of a launch, validated before Ray starts: a mistake costs no time and leaves nothing behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ...protocol import checks
from ...protocol.configs import DEFAULT_SCHEME, Limits, Position
from ...protocol.errors import InputError
from ...protocol.extras import require
from ...protocol.features import Features
from ...protocol.gateways import AccessConfig, GatewayConfig
from ...protocol.messages.admission import AdmissionConfig
from ...protocol.messages.recovery import Recovery
from ...protocol.node_places import NodePlace
from ...protocol.telemetry.tables import TelemetryConfig
from ...recovery.durability.stable import Stable
from ...routing.schemes.registry import scheme as routing_scheme
from ...routing.topologies.cluster_trees import Topology
from ..channels.config import LINKS, LINKS_DEFAULT, Links, ports_of
from .rights import check_rights

NAME_CHARACTERS_MAX: Final = 128


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of `Network.launch`, which documents each."""

    topology: Topology
    name: str
    scheme: str = DEFAULT_SCHEME
    brokers_per_actor: int = 1
    limits: Limits = field(default_factory=Limits)
    trace_events: bool = False
    detached: bool = False
    recovery: Recovery | None = None
    stable: Stable | None = None
    admission: AdmissionConfig | None = None
    telemetry: TelemetryConfig | None = None
    nodes: tuple[str, ...] = ()
    gateway: GatewayConfig | None = None
    access: AccessConfig | None = None
    links: Links = LINKS_DEFAULT
    ports: str | None = None
    chaos: bool = False
    place: NodePlace | None = None

    @property
    def features(self) -> Features:
        """What follows from the features that it asks for."""
        return Features(self.recovery, self.stable is not None, self.admission)

    def validate(self) -> Settings:
        """Validate the settings and return them.

        Raises
        ------
        InputError
            If a setting is of the wrong type or out of range, or two of them are incompatible.
        """
        checks.instance("topology", self.topology, Topology, "a topology, for example ClusterTree(4, 3)")
        if len(checks.text("name", self.name)) > NAME_CHARACTERS_MAX or not self.name.isprintable():
            raise checks.wrong("name", self.name, f"1 to {NAME_CHARACTERS_MAX} printable characters")
        routing_scheme(self.scheme, heals=self.features.heals)
        checks.whole_number("brokers_per_actor", self.brokers_per_actor, 1)
        checks.instance("limits", self.limits, Limits, "a Limits()").validate()
        checks.flag("trace_events", self.trace_events)
        checks.flag("detached", self.detached)
        checks.flag("chaos", self.chaos)
        checks.optional("recovery", self.recovery, Recovery, "a Recovery()")
        checks.optional("stable", self.stable, Stable, "a Stable(address)")
        checks.optional("admission", self.admission, AdmissionConfig, "an AdmissionConfig()")
        checks.optional("telemetry", self.telemetry, TelemetryConfig, "a TelemetryConfig()")
        checks.optional("gateway", self.gateway, GatewayConfig, "a GatewayConfig()")
        checks.optional("access", self.access, AccessConfig, "an AccessConfig()")
        checks.optional("place", self.place, NodePlace, "a NodePlace()")
        for given in (
            self.recovery,
            self.stable,
            self.admission,
            self.telemetry,
            self.gateway,
            self.access,
            self.place,
        ):
            if given is not None:
                given.validate()
        if self.links not in LINKS:
            raise checks.wrong("links", self.links, "'direct' or 'ray'")
        if ports_of(self.ports) is not None and self.links == "ray":
            raise InputError("ports: links is 'ray', so no ports are used; set links='direct'")
        if self.nodes and self.place is not None:
            raise InputError("place: nodes says where brokers run; give one of the two")
        if self.gateway is not None:
            require("gateway")
        if self.access is not None:
            check_rights(self.access)
        elif self.gateway is not None:
            raise InputError(
                "gateway: access is missing, so nobody could connect; `rayvous token` creates entries"
            )
        if self.features.compares and self.brokers_per_actor > 1:
            raise InputError(
                "recovery compare_heartbeats: a broker whose state is damaged ends its process, so each needs an actor "
                f"of its own, and brokers_per_actor is {self.brokers_per_actor}"
            )
        return self

    def positions(self) -> list[Position]:
        """Return the positions of the brokers under the scheme."""
        return routing_scheme(self.scheme).positions(self.topology.positions())
