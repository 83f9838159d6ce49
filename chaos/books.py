"""Judges the books of a whole network from outside: whether they say what follows from who is there.

Rules (promise 8)
-----------------
* Each broker has books for the links of the tree as it stands, and no others; they equal a recount from scratch, and
  nothing in them is negative.
* It knows every advertisement of a publisher, and over which of its links that is; it holds for a link just the filters
  wanted behind it that an advertisement on this side meets, and for its own clients all that these want.
* What an owner was told of a subscription is what the books of the brokers on its way say.

None of it is taken from a broker's word: the tree is that of a survey, the rest are the clients' own lists. Brokers
that stand in no tree are only asked whether their books balance. The books are those of one moment at which nothing is
under way, on either host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..protocol.admission import Refusal
from ..protocol.ids import BrokerId, ClientId, Link
from ..routing.covering import intersects
from ..routing.filters import Filter

Tree: TypeAlias = dict[BrokerId, set[BrokerId]]
Holding: TypeAlias = Mapping[Link | None, frozenset[Filter]]


@dataclass(frozen=True, slots=True)
class Books:
    """What the books of one broker say; the link None stands for its own clients.

    Attributes
    ----------
    neighbours
        The brokers for whose links there are books.
    adverts
        By link, the publishers that advertise behind it.
    held
        By link, the filters that are held for it.
    degraded
        What a filter that is held for a link lacks.
    promises
        Whether what lacks something is told to its owner: under the full guarantee only.
    unbalanced
        What is wrong with them by themselves; empty when they balance.
    """

    neighbours: frozenset[BrokerId]
    adverts: Mapping[Link | None, frozenset[ClientId]]
    held: Holding
    degraded: Mapping[tuple[Filter, Link | None], tuple[Refusal, ...]]
    promises: bool
    unbalanced: str = ""


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


def joined(above: Mapping[BrokerId, BrokerId | None]) -> Tree:
    """Return who is joined to whom, given the broker through which each reaches the root; None for the root."""
    tree: Tree = {broker: set() for broker in above}
    for broker, other in above.items():
        if other in tree:
            tree[broker].add(other)
            tree[other].add(broker)
    return tree


def books_problems(books: Mapping[BrokerId, Books], tree: Tree | None, clients: Clients) -> list[str]:
    """Return what is wrong with the books, given that the network is sound and nothing is under way.

    Parameters
    ----------
    books
        Of every living broker.
    tree
        How these stand; None where they stand in no tree.
    clients
        What the clients say.
    """
    problems = [
        f"the books of broker {broker} do not balance: {each.unbalanced}"
        for broker, each in books.items()
        if each.unbalanced
    ]
    if problems or tree is None:
        return problems
    for broker, links in tree.items():
        if books[broker].neighbours != links:
            known = sorted(books[broker].neighbours)
            problems.append(f"broker {broker} has books for {known}, its links are {sorted(links)}")
    return problems or [*_Recount(books, tree, clients).problems()]


class _Recount:
    """What the books should say, from who is there and how the tree stands."""

    def __init__(self, books: Mapping[BrokerId, Books], tree: Tree, clients: Clients) -> None:
        self.books = books
        self.tree = tree
        self.clients = clients
        self.homes = clients.homes
        self.adverts = {name: (clients.homes[name], item) for name, item in clients.adverts.items()}
        self.wanted = clients.wanted

    def problems(self) -> Iterator[str]:
        for broker in self.tree:
            books = self.books[broker]
            yield from self._of_links(broker, books)
            mine = {
                item
                for name, items in self.wanted.items()
                if self.homes[name] == broker
                for item in items.values()
            }
            yield from _differ(f"broker {broker} holds for its own clients", books.held[None], mine)
        yield from self._of_owners()

    def _of_links(self, broker: BrokerId, books: Books) -> Iterator[str]:
        for link in (None, *self.tree[broker]):
            far = {broker} if link is None else self._side(link, broker)
            known = books.adverts.get(link, frozenset())
            there = {name for name, (home, _) in self.adverts.items() if home in far}
            yield from _differ(f"broker {broker} has adverts over {link}", known, there)
            if link is not None:
                near = [item for home, item in self.adverts.values() if home not in far]
                wanted = {
                    item
                    for name, items in self.wanted.items()
                    if self.homes[name] in far
                    for item in items.values()
                    if any(intersects(item, each) for each in near)
                }
                yield from _differ(f"broker {broker} holds for {link}", books.held[link], wanted)

    def _of_owners(self) -> Iterator[str]:
        lacks = {broker: self.books[broker].degraded for broker in self.tree if self.books[broker].promises}
        lacks = {broker: entries for broker, entries in lacks.items() if entries}
        for name, items in self.wanted.items():
            told = self.clients.told(name)
            for number, item in items.items():
                due: set[Refusal] = set()
                for broker, entries in lacks.items():
                    due |= set(entries.get((item, self._towards(broker, self.homes[name])), ()))
                yield from _differ(f"{name} #{number} was told that it lacks", set(told.get(number, ())), due)

    def _towards(self, broker: BrokerId, home: BrokerId) -> Link | None:
        """Return the link of a broker behind which another one is."""
        if broker == home:
            return None
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


def _differ(what: str, found: Set[Any], due: Set[Any]) -> Iterator[str]:
    if found != due:
        more, less = sorted(map(str, found - due)), sorted(map(str, due - found))
        yield f"{what}: too much {more}, missing {less}"
