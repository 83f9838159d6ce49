"""The verbs that work on a running network, and their headings in the help."""

from __future__ import annotations

from typing import Any, Final

from . import clients, gateway, networks, operate, sink

HEADINGS: Final[dict[str, tuple[object, ...]]] = {
    "A network, from its start to its end": (
        networks.init, networks.up, networks.networks, networks.status, networks.top, gateway.ui, networks.down,
    ),
    "Clients of a network": (
        clients.subscribe, clients.unsubscribe, clients.durable, clients.publish, sink.sink,
    ),
    "Clients outside Ray": (gateway.gateway, gateway.token),
    "Operating a network": (
        operate.add_broker, operate.add_cluster, operate.remove, operate.restart, operate.reoptimise, operate.kill,
    ),
}  # fmt: skip


def add_service(app: Any) -> None:
    """Add the verbs to a command line."""
    for heading, verbs in HEADINGS.items():
        for verb in verbs:
            app.command(rich_help_panel=heading)(verb)
