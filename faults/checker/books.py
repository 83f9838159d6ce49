"""Judges the books of a whole network from outside: whether they follow from its brokers, clients and links.

Rules (promise 8)
-----------------
* Each broker has books for its present links, and for no others. They equal a recount from scratch, and
  nothing in them is negative.
* Each broker knows every advertisement of a publisher, and over which of its links the events would come. For
  a link it holds exactly the filters that are wanted by subscribers behind that link and meet an
  advertisement whose events go this way. For its own clients it holds everything that they want.
* What an owner was told of a subscription equals what the books of the brokers on its paths say.

The paths are those of events from each broker with a publisher to each broker with a subscriber: in a tree
the only ones, else those of the scheme, recomputed from its geometry. Brokers' own claims are not used: the
tree, or the view, comes from a survey, and the rest from the clients' own lists. The books are those of one
quiescent moment, on either host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from ...broker.books import SeenBooks
from ...protocol.ids import BrokerId, ClientId, Link
from ...protocol.messages.admission import Refusal
from ...protocol.messages.views import MembershipView
from ...recovery.membership.structure import Survey, above_each
from ...routing.filters.covering import intersects
from ...routing.filters.filter import Filter
from ...routing.schemes.registry import scheme as scheme_of

Links: TypeAlias = dict[BrokerId, set[BrokerId]]
"""The neighbours of each broker."""
NextHops: TypeAlias = Callable[[BrokerId, BrokerId], Sequence[BrokerId]]
"""Returns the brokers on the path of events from one to another, both included."""


@dataclass
class Clients:
    """What the clients of a network report themselves.

    Attributes
    ----------
    homes
        The broker of each client.
    adverts
        The advertisements of the publishers that have told their present broker.
    wanted
        What each subscriber wants, by number.
    lacking
        What each subscription lacks, by number, as far as its owner was told.
    refused
        The number of refused subscriptions.
    """

    homes: dict[ClientId, BrokerId] = field(default_factory=dict)
    adverts: dict[ClientId, Filter] = field(default_factory=dict)
    wanted: dict[ClientId, dict[int, Filter]] = field(default_factory=dict)
    lacking: dict[ClientId, dict[int, tuple[Refusal, ...]]] = field(default_factory=dict)
    refused: int = 0

    def told(self, client: ClientId) -> dict[int, tuple[Refusal, ...]]:
        """Return what the present subscriptions of a client lack; empty if nothing."""
        there, known = self.wanted.get(client, {}), self.lacking.get(client, {})
        return {number: lack for number, lack in known.items() if lack and number in there}


def joined(above: Mapping[BrokerId, BrokerId | None]) -> Links:
    """Return the links, given the broker through which each broker reaches the root; None for the root."""
    tree: Links = {broker: set() for broker in above}
    for broker, other in above.items():
        if other in tree:
            tree[broker].add(other)
            tree[other].add(broker)
    return tree


def in_tree(above: Mapping[BrokerId, BrokerId | None]) -> tuple[Links, NextHops]:
    """Return the links, given the argument of `joined`, and the paths of events there."""
    links = joined(above)
    return links, way_in(links)


def way_in(tree: Links) -> NextHops:
    """Return the paths in a tree."""

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


def in_view(view: MembershipView, scheme: str) -> tuple[Links, NextHops]:
    """Return the links in a view, and the paths of events there, as the scheme's `joined` defines them.

    A scheme without `joined` is on a mesh, and the path is direct: the books do not contain how LBDD
    distributes the copies of an event.
    """
    joined_in = getattr(scheme_of(scheme), "joined", None)
    if joined_in is not None:
        links: Links
        way: NextHops
        links, way = joined_in(view)
        return links, way
    brokers = list(view.born)
    return {here: set(brokers) - {here} for here in brokers}, lambda source, to: (source, to)[
        : 1 + (source != to)
    ]


def ways_of(survey: Survey, scheme: str) -> tuple[Links, NextHops]:
    """Return the links and the paths of events: by a view, or over a tree, in which each cluster is a star."""
    seen = next(
        (one["membership_view"] for one in survey.values() if one.get("membership_view") is not None), None
    )
    return in_tree(above_each(survey)) if seen is None else in_view(seen, scheme)


def books_problems(
    books: Mapping[BrokerId, SeenBooks], links: Links, clients: Clients, way: NextHops | None = None
) -> list[str]:
    """Return what is wrong with the books, given that the network is sound and quiescent.

    Parameters
    ----------
    books
        The books of every living broker.
    links
        The links between these.
    clients
        What the clients report.
    way
        The paths of events; None in a tree.
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
    for client in (*clients.adverts, *clients.wanted):  # the client has yet to notice
        if (home := clients.homes[client]) not in links:
            problems.append(f"{client} is still at broker {home}, which is gone")
    return problems or [*_Recount(books, links, clients, way or way_in(links)).problems()]


class _Recount:
    """The expected books, from the brokers, the clients and the paths of events."""

    def __init__(
        self, books: Mapping[BrokerId, SeenBooks], links: Links, clients: Clients, way: NextHops
    ) -> None:
        self.books = books
        self.links = links
        self.clients = clients
        self.adverts: dict[BrokerId, dict[Link | None, set[ClientId]]] = {here: {} for here in links}
        self.held: dict[BrokerId, dict[Link | None, set[Filter]]] = {here: {} for here in links}
        self.ways: dict[BrokerId, set[tuple[BrokerId, Filter, Link | None]]] = {here: set() for here in links}
        self._draw(way)

    def _draw(self, way: NextHops) -> None:
        """Follow each advertisement to every broker, and each filter from the publishers that it meets to its home."""
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
        """Hold filters of the last broker of a path at every broker on it."""
        for broker, onwards in pairwise(path):
            self.held[broker].setdefault(onwards, set()).update(items)
            self.ways[broker].update((path[-1], item, onwards) for item in items)

    def problems(self) -> Iterator[str]:
        for broker, others in self.links.items():
            books = self.books[broker]
            for link in (None, *others):
                known, there = books.adverts.get(link, frozenset()), self.adverts[broker].get(link, set())
                yield from differences(f"broker {broker} has adverts over {link}", known, there)
                what = "its own clients" if link is None else link
                due = self.held[broker].get(link, set())
                yield from differences(f"broker {broker} holds for {what}", books.held[link], due)
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
                yield from differences(
                    f"{name} #{number} was told that it lacks", set(told.get(number, ())), due
                )


def differences(what: str, found: Set[object], due: Set[object]) -> Iterator[str]:
    """Yield a sentence that names what is surplus and what is missing, if a set is not the one that it must be."""
    if found != due:
        yield f"{what}: {surplus_and_missing(found - due, due - found)}"


def surplus_and_missing(surplus: Iterable[object], missing: Iterable[object]) -> str:
    """Return a phrase that names both, in a stable order."""
    return f"too much {sorted(map(str, surplus))}, missing {sorted(map(str, missing))}"
