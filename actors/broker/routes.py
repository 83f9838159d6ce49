"""The routes of a broker, as whoever judges a whole network from outside sees them, and damages them in chaos."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...faults.chaos.routes import SeenRoutes
from ...protocol.ids import BrokerId, ClientId, Link
from ...routing.filters.filter import Filter
from ...routing.language.questions import to_filter
from ...routing.schemes.tree import TreeRouter
from ...routing.schemes.viewed import ViewedRouter
from .broker import Broker
from .membership.tree import HealingBroker

if TYPE_CHECKING:
    from random import Random


def routes_of(broker: Broker) -> SeenRoutes | None:
    """Return what a broker's table holds and what it has told others; None where a scheme keeps no such table."""
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
    copies = healing.copies if isinstance(healing, HealingBroker) else None
    return SeenRoutes(
        {client: frozenset(items) for client, items in clients.items()},
        {key: frozenset(items) for key, items in brokers.items()},
        {key: frozenset(items) for key, items in router.told().items()},
        None if copies is None else {cluster: frozenset(items) for cluster, items in copies.items()},
        router.relays,
        frozenset(router.kept()),
    )


def damage_routes(broker: Broker, dice: Random) -> int:
    """Damage what a broker's table holds for other brokers; return how many entries were changed.

    Half of the entries are forgotten, or held for a filter that nobody has told it: a fault changes the state and not
    the behaviour (paper 4, definition 8).
    """
    router: Any = broker.router
    tables = [router.table, *([router.others] if isinstance(router, ViewedRouter) else [])]
    changed = 0
    for table in tables:
        entries = [
            (entry.filter, link, holder)
            for entry in table
            for link, holders in entry.links.items()
            for holder in holders
        ]
        for item, link, holder in entries:
            if isinstance(link, str) or dice.random() < 0.5:
                continue
            changed += 1
            if dice.random() < 0.5:
                table.remove(item, link, holder)
            else:
                table.add(to_filter(f"damaged = {changed}"), link, holder)
    return changed
