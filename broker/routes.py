"""A read-only view of a broker's routes, for checks of a whole network from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..protocol.ids import BrokerId, ClientId, ClusterId, Link
from ..recovery.membership.copies import CopiedTables
from ..routing.filters.filter import Filter
from .broker import Broker

Filters: TypeAlias = frozenset[Filter]
NOTHING: Filters = frozenset()


@dataclass(frozen=True, slots=True)
class SeenRoutes:
    """The routes of one broker.

    Attributes
    ----------
    clients
        What its table holds for clients.
    brokers
        What its table holds for other brokers, by the link and the broker behind it.
    announced
        What it has told others, by the link and the broker behind it.
    copies
        By child cluster, what its designated broker holds for it, as far as it knows; None in a scheme
        without succession.
    relays
        Whether it also tells what other brokers want, and not only what its own clients want.
    kept
        What its clients want and no other broker is told of, since local publishers satisfy it (paper 2,
        2.3).
    """

    clients: Mapping[ClientId, Filters]
    brokers: Mapping[tuple[Link, BrokerId], Filters]
    announced: Mapping[tuple[Link, BrokerId], Filters]
    copies: Mapping[ClusterId, Filters] | None = None
    relays: bool = True
    kept: Filters = NOTHING

    def held_of(self, broker: BrokerId) -> Filters:
        """Return everything that it holds for another broker."""
        return frozenset().union(*(items for (_, holder), items in self.brokers.items() if holder == broker))

    def announced_to(self, broker: BrokerId) -> Filters | None:
        """Return what it has told another broker; None if it has told that one nothing."""
        return next((items for (_, to), items in self.announced.items() if to == broker), None)

    def due_over(self, link: Link) -> Filters:
        """Return what the brokers behind a link have to know."""
        others = (items for (other, _), items in self.brokers.items() if other != link) if self.relays else ()
        return frozenset().union(*others) | frozenset().union(*self.clients.values()) - self.kept


def routes_of(broker: Broker) -> SeenRoutes:
    """Return a broker's table, and the filters that it has told others."""
    router = broker.router
    clients: dict[ClientId, set[Filter]] = {}
    brokers: dict[tuple[Link, BrokerId], set[Filter]] = {}
    for item, link, holder in router.held():
        if isinstance(link, str):
            clients.setdefault(link, set()).add(item)
        else:
            brokers.setdefault((link, holder), set()).add(item)  # type: ignore[arg-type]
    copies = broker.ask(CopiedTables())
    return SeenRoutes(
        {client: frozenset(items) for client, items in clients.items()},
        {key: frozenset(items) for key, items in brokers.items()},
        {key: frozenset(items) for key, items in router.announced().items()},
        None if copies is None else {cluster: frozenset(items) for cluster, items in copies.items()},
        router.relays,
        frozenset(router.kept()),
    )
