"""Judges the books of a whole network from outside: whether they say what follows from who is there.

Rules (promise 8)
-----------------
* Each broker has books for its links as it stands, and no others; they equal a recount from scratch, and nothing in
  them is negative.
* It knows every advertisement of a publisher, and over which of its links its events would come; it holds for a link
  just the filters wanted by those to whom events come over it that an advertisement meets whose events go this way,
  and for its own clients all that these want.
* What an owner was told of a subscription is what the books of the brokers on its ways say.

The ways are those of events from each broker with a publisher to each with a subscriber: in a tree the only ones, else
those of the scheme, drawn anew from its geometry. Nothing is taken from a broker's word: the tree, or the view, is that
of a survey, the rest are the clients' own lists. The books are those of one moment at which nothing is under way, on
either host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from ...protocol.ids import BrokerId, ClientId, Link
from ...protocol.messages.admission import Refusal
from ...protocol.messages.views import CubeView
from ...routing.filters.covering import intersects
from ...routing.filters.filter import Filter
from ...routing.schemes.registry import scheme as scheme_of

Links: TypeAlias = dict[BrokerId, set[BrokerId]]
"""Who is joined to whom."""
Way: TypeAlias = Callable[[BrokerId, BrokerId], Sequence[BrokerId]]
"""Returns the brokers on the way of events from one to another, both included."""
Holding: TypeAlias = Mapping[Link | None, frozenset[Filter]]


@dataclass(frozen=True, slots=True)
class SeenBooks:
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
    asks_all
        Whether what is wanted is asked for at every broker, not only on the ways to publishers.
    unbalanced
        What is wrong with them by themselves; empty when they balance.
    """

    neighbours: frozenset[BrokerId]
    adverts: Mapping[Link | None, frozenset[ClientId]]
    held: Holding
    degraded: Mapping[tuple[Filter, Link | None], tuple[Refusal, ...]]
    promises: bool
    asks_all: bool = False
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


def joined(above: Mapping[BrokerId, BrokerId | None]) -> Links:
    """Return who is joined to whom, given the broker through which each reaches the root; None for the root."""
    tree: Links = {broker: set() for broker in above}
    for broker, other in above.items():
        if other in tree:
            tree[broker].add(other)
            tree[other].add(broker)
    return tree


def in_tree(above: Mapping[BrokerId, BrokerId | None]) -> tuple[Links, Way]:
    """Return who is joined to whom, given what `joined` takes, and the ways of events there."""
    links = joined(above)
    return links, way_in(links)


def way_in(tree: Links) -> Way:
    """Return the ways in a tree."""

    def way(source: BrokerId, to: BrokerId) -> list[BrokerId]:
        before = {source: source}
        todo = [source]
        while to not in before:
            here = todo.pop()
            new = [other for other in tree[here] if other not in before]
            before |= dict.fromkeys(new, here)
            todo += new
        path = [to]
        while path[-1] != source:
            path.append(before[path[-1]])
        return path[::-1]

    return way


def in_view(view: CubeView, scheme: str) -> tuple[Links, Way]:
    """Return who is joined to whom in a view, and the ways of events there, as the scheme says by its `joined`.

    Where it says nothing, it is on a mesh, and the way is straight: how LBDD shares out the copies of an event is not
    in the books.
    """
    joined_in = getattr(scheme_of(scheme), "joined", None)
    if joined_in is not None:
        links: Links
        way: Way
        links, way = joined_in(view)
        return links, way
    brokers = list(view.born)
    return {here: set(brokers) - {here} for here in brokers}, lambda source, to: (source, to)[
        : 1 + (source != to)
    ]


def books_problems(
    books: Mapping[BrokerId, SeenBooks], links: Links, clients: Clients, way: Way | None = None
) -> list[str]:
    """Return what is wrong with the books, given that the network is sound and nothing is under way.

    Parameters
    ----------
    books
        Of every living broker.
    links
        How these stand.
    clients
        What the clients say.
    way
        How events go; None in a tree.
    """
    problems = [
        f"the books of broker {broker} do not balance: {each.unbalanced}"
        for broker, each in books.items()
        if each.unbalanced
    ]
    for broker, others in links.items():
        if books[broker].neighbours != others:
            known = sorted(books[broker].neighbours)
            problems.append(f"broker {broker} has books for {known}, its links are {sorted(others)}")
    for client in (*clients.adverts, *clients.wanted):  # it has yet to notice
        if (home := clients.homes[client]) not in links:
            problems.append(f"{client} is still at broker {home}, which is gone")
    return problems or [*_Recount(books, links, clients, way or way_in(links)).problems()]


class _Recount:
    """What the books should say, from who is there and how events go."""

    def __init__(self, books: Mapping[BrokerId, SeenBooks], links: Links, clients: Clients, way: Way) -> None:
        self.books = books
        self.links = links
        self.clients = clients
        self.adverts: dict[BrokerId, dict[Link | None, set[ClientId]]] = {here: {} for here in links}
        self.held: dict[BrokerId, dict[Link | None, set[Filter]]] = {here: {} for here in links}
        self.ways: dict[BrokerId, set[tuple[BrokerId, Filter, Link | None]]] = {here: set() for here in links}
        self._draw(way)

    def _draw(self, way: Way) -> None:
        """Follow each advertisement to every broker, and each filter from whom it meets to its home."""
        homes, wanted = self.clients.homes, self.clients.wanted
        at: dict[BrokerId, set[Filter]] = {here: set() for here in self.links}
        for name, items in wanted.items():
            at[homes[name]].update(items.values())
        for here, mine in at.items():
            self.held[here][None] = mine
            self.ways[here].update((here, item, None) for item in mine)
        for publisher, advert in self.clients.adverts.items():
            origin = homes[publisher]
            for here in self.links:
                path = way(origin, here)
                link = path[-2] if len(path) > 1 else None
                self.adverts[here].setdefault(link, set()).add(publisher)
                met = {item for item in at[here] if intersects(item, advert)}
                self._ask_along(path, met)
        for here, mine in at.items():
            for other in self.links if mine and self.books[here].asks_all else ():
                self._ask_along(way(other, here), mine)

    def _ask_along(self, path: Sequence[BrokerId], items: Set[Filter]) -> None:
        """Hold filters of the last broker of a way at every broker on it."""
        for broker, onwards in pairwise(path):
            self.held[broker].setdefault(onwards, set()).update(items)
            self.ways[broker].update((path[-1], item, onwards) for item in items)

    def problems(self) -> Iterator[str]:
        for broker, others in self.links.items():
            books = self.books[broker]
            for link in (None, *others):
                known, there = books.adverts.get(link, frozenset()), self.adverts[broker].get(link, set())
                yield from _differ(f"broker {broker} has adverts over {link}", known, there)
                what = "its own clients" if link is None else link
                due = self.held[broker].get(link, set())
                yield from _differ(f"broker {broker} holds for {what}", books.held[link], due)
        yield from self._of_owners()

    def _of_owners(self) -> Iterator[str]:
        lacks: dict[tuple[BrokerId, Filter], set[Refusal]] = {}
        for broker in self.links:
            degraded = self.books[broker].degraded if self.books[broker].promises else {}
            for home, item, link in self.ways[broker] if degraded else ():
                lacks.setdefault((home, item), set()).update(degraded.get((item, link), ()))
        for name, items in self.clients.wanted.items():
            told = self.clients.told(name)
            for number, item in items.items():
                due = lacks.get((self.clients.homes[name], item), set())
                yield from _differ(f"{name} #{number} was told that it lacks", set(told.get(number, ())), due)


def _differ(what: str, found: Set[Any], due: Set[Any]) -> Iterator[str]:
    if found != due:
        more, less = sorted(map(str, found - due)), sorted(map(str, due - found))
        yield f"{what}: too much {more}, missing {less}"
