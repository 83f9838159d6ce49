"""A read-only view of a broker's routes, for checks of a whole network from outside."""

from __future__ import annotations

from typing import Any

from ...faults.chaos.routes import SeenRoutes
from ...protocol.ids import BrokerId, ClientId, Link
from ...routing.filters.filter import Filter
from ...routing.schemes.tree import TreeRouter
from .broker import Broker
from .membership.tree import HealingBroker


def routes_of(broker: Broker) -> SeenRoutes | None:
    """Return a broker's table, and the filters that it has told others; None where a scheme has no such table."""
    router: Any = broker.router
    if not isinstance(router, TreeRouter):
        return None
    clients: dict[ClientId, set[Filter]] = {}
    brokers: dict[tuple[Link, BrokerId], set[Filter]] = {}
    for item, link, holder in router.held():
        if isinstance(link, str):
            clients.setdefault(link, set()).add(item)
        else:
            brokers.setdefault((link, holder), set()).add(item)  # type: ignore[arg-type]
    healing = broker.healing
    copies = healing.group.copies.tables if isinstance(healing, HealingBroker) else None
    return SeenRoutes(
        {client: frozenset(items) for client, items in clients.items()},
        {key: frozenset(items) for key, items in brokers.items()},
        {key: frozenset(items) for key, items in router.told().items()},
        None if copies is None else {cluster: frozenset(items) for cluster, items in copies.items()},
        router.relays,
        frozenset(router.kept()),
    )
