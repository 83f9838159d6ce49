"""Looks at the books of a whole network from outside: whether they say what follows from who is there.

Rules (promise 8)
-----------------
* Each broker has books for the links of the tree as it stands, and no others; they equal a recount from scratch, and
  nothing in them is negative.
* It knows every advertisement of a publisher, and over which of its links that is; it holds for a link just the filters
  wanted behind it that an advertisement on this side meets, and for its own clients all that these want.
* What an owner was told of a subscription is what the books of the brokers on its way say.

None of it is taken from a broker's word: the tree is that of `survey`, the rest are the clients' own lists. Brokers
that stand in no tree are only asked whether their books balance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ..admission.advertisements import LOCAL
from ..admission.books import Books
from ..protocol.admission import AdmissionConfig, Refusal
from ..protocol.ids import BrokerId, ClientId, Link
from ..routing.claims import claims_of
from ..routing.covering import intersects
from ..routing.filters import Filter
from .survey import survey

if TYPE_CHECKING:
    from .hostile import HostileNetwork

Tree: TypeAlias = dict[BrokerId, set[BrokerId]]


@dataclass
class Clients:
    """What the clients of a network say themselves.

    Attributes
    ----------
    homes
        The broker of each.
    adverts
        What the publishers advertise that have told their present broker.
    wanted
        What each subscriber wants, by number.
    lacking
        What each subscription lacks, by number, as far as its owner was told.
    refused
        How many subscriptions were refused.
    """

    homes: dict[ClientId, BrokerId] = field(default_factory=dict)
    adverts: dict[ClientId, Filter] = field(default_factory=dict)
    wanted: dict[ClientId, dict[int, Any]] = field(default_factory=dict)
    lacking: dict[ClientId, dict[int, tuple[Refusal, ...]]] = field(default_factory=dict)
    refused: int = 0

    def told(self, client: ClientId) -> dict[int, tuple[Refusal, ...]]:
        """Return what the subscriptions of a client lack that it still has; nothing where all is well."""
        there, known = self.wanted.get(client, {}), self.lacking.get(client, {})
        return {number: lack for number, lack in known.items() if lack and number in there}


def books_problems(network: HostileNetwork, clients: Clients, config: AdmissionConfig) -> list[str]:
    """Return what is wrong with the books, given that the network is sound and nothing waits to be confirmed."""
    problems = [*_unbalanced(network)]
    if problems or not _is_tree(network):
        return problems
    tree = _tree(network)
    for broker, links in tree.items():
        admission = network.broker(broker).admitting.admission  # type: ignore[union-attr]
        if set(admission.neighbours) != links:
            problems.append(
                f"broker {broker} has books for {admission.neighbours}, its links are {sorted(links)}"
            )
    return problems or [*_Recount(network, tree, clients, config).problems()]


def _unbalanced(network: HostileNetwork) -> Iterator[str]:
    for broker in network.living():
        try:
            network.broker(broker).check()
        except AssertionError as error:
            yield f"the books of broker {broker} do not balance: {error}"


def _is_tree(network: HostileNetwork) -> bool:
    claims = claims_of(network.scheme)
    return not claims.views and not claims.survives_deaths


def _tree(network: HostileNetwork) -> Tree:
    """Return who is joined to whom, a cluster being a star around its designated broker."""
    tree: Tree = {broker: set() for broker in network.living()}
    for broker in tree:
        report = survey(network, broker)
        above = report.parent.designated if report.parent is not None else None
        other = above if report.designated else report.view.designated
        if other in tree:
            tree[broker].add(other)
            tree[other].add(broker)
    return tree


class _Recount:
    """What the books should say, from who is there and how the tree stands."""

    def __init__(
        self, network: HostileNetwork, tree: Tree, clients: Clients, config: AdmissionConfig
    ) -> None:
        self.network = network
        self.tree = tree
        self.clients = clients
        self.config = config
        self.homes = clients.homes
        self.adverts = {name: (clients.homes[name], item) for name, item in clients.adverts.items()}
        self.wanted = clients.wanted

    def _books(self, broker: BrokerId) -> Books:
        books: Books = self.network.broker(broker).admitting.admission.books  # type: ignore[union-attr]
        return books

    def problems(self) -> Iterator[str]:
        for broker in self.tree:
            books = self._books(broker)
            yield from self._of_links(broker, books)
            mine = {
                item
                for name, items in self.wanted.items()
                if self.homes[name] == broker
                for item in items.values()
            }
            yield from _differ(f"broker {broker} holds for its own clients", set(books.held[LOCAL]), mine)
        yield from self._of_owners()

    def _of_links(self, broker: BrokerId, books: Books) -> Iterator[str]:
        for link in (LOCAL, *self.tree[broker]):
            far = {broker} if link == LOCAL else self._side(link, broker)
            known = {name for (name, _), advert in books.adverts.items() if advert.link == link}
            there = {name for name, (home, _) in self.adverts.items() if home in far}
            yield from _differ(f"broker {broker} has adverts over {link}", known, there)
            if link != LOCAL:
                near = [item for home, item in self.adverts.values() if home not in far]
                wanted = {
                    item
                    for name, items in self.wanted.items()
                    if self.homes[name] in far
                    for item in items.values()
                    if any(intersects(item, each) for each in near)
                }
                yield from _differ(f"broker {broker} holds for {link}", set(books.held[link]), wanted)

    def _of_owners(self) -> Iterator[str]:
        if self.config.refusing_share_max != 0:
            return
        lacks = {broker: self._books(broker).degraded() for broker in self.tree}
        lacks = {broker: entries for broker, entries in lacks.items() if entries}
        for name, items in self.wanted.items():
            told = self.clients.told(name)
            for number, item in items.items():
                due: set[Refusal] = set()
                for broker, entries in lacks.items():
                    due |= set(entries.get((item, self._towards(broker, self.homes[name])), ()))
                yield from _differ(f"{name} #{number} was told that it lacks", set(told.get(number, ())), due)

    def _towards(self, broker: BrokerId, home: BrokerId) -> Link:
        """Return the link of a broker behind which another one is."""
        if broker == home:
            return LOCAL
        return next(link for link in self.tree[broker] if home in self._side(link, broker))

    def _side(self, broker: BrokerId, without: BrokerId | str) -> set[BrokerId]:
        """Return the brokers that one reaches without going over another."""
        seen, todo = {broker}, [broker]
        while todo:
            for other in self.tree[todo.pop()] - seen:
                if other != without:
                    seen.add(other)
                    todo.append(other)
        return seen


def _differ(what: str, found: set[Any], due: set[Any]) -> Iterator[str]:
    if found != due:
        more, less = sorted(map(str, found - due)), sorted(map(str, due - found))
        yield f"{what}: too much {more}, missing {less}"
