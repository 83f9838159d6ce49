"""Judges the routes of a whole network from outside: nothing that is wanted is missing, and nothing else is left.

Rules (promise 6; paper 1, 4.1.1 and 4.2.2)
-------------------------------------------
* A broker's table has for each client at it exactly what that client wants, and nothing for anybody else.
* It has for each other broker exactly what that one has told it, and nothing for whoever tells it nothing.
* What a broker tells another covers all that it holds over its other links, and is nothing but that: each filter is
  one of them, or the union of some (perfect merging). Nobody is told what publishers at a subscriber's own broker
  satisfy (paper 2, 2.3(1)).
* Everybody who has to be told is: in a tree the next one on the way to the root, in a view all others.
* Every member of a cluster has a copy of what the children of its designated broker want (4.1.1).

So a subscription that was withdrawn, moved or lost with its broker leaves no entry behind anywhere: a route that is
left over is found just as one that is missing. Which filters cover which is asked of the filters alone, not of a
broker's index or covering DAG. It is all of one moment at which nothing is under way, on either host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ...protocol.ids import BrokerId, ClientId, ClusterId, Link
from ...routing.filters.filter import Filter
from ...routing.language.questions import covers, merge
from .books import Clients
from .structure import Said, Survey, above_each, in_views, speakers

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
        What it holds for other brokers: by the link, and who behind it wants it.
    told
        What it has told others, by the link that leads there.
    copies
        By child cluster, what its designated broker holds for it, as far as it knows; None where nobody takes the place
        of another.
    relays
        Whether it tells also what other brokers want, and not only its own clients.
    kept
        What its clients want that no other broker is told of, since publishers here satisfy it (paper 2, 2.3).
    """

    clients: Mapping[ClientId, Filters]
    brokers: Mapping[tuple[Link, BrokerId], Filters]
    told: Mapping[tuple[Link, BrokerId], Filters]
    copies: Mapping[ClusterId, Filters] | None = None
    relays: bool = True
    kept: Filters = NOTHING

    def held_of(self, broker: BrokerId) -> Filters:
        """Return all that it holds for another broker."""
        return frozenset().union(*(items for (_, holder), items in self.brokers.items() if holder == broker))

    def told_to(self, broker: BrokerId) -> Filters | None:
        """Return what it has told another broker; None for one that it tells nothing."""
        return next((items for (_, to), items in self.told.items() if to == broker), None)

    def due_over(self, link: Link) -> Filters:
        """Return what whoever is behind a link has to know."""
        others = (items for (other, _), items in self.brokers.items() if other != link) if self.relays else ()
        return frozenset().union(*others) | frozenset().union(*self.clients.values()) - self.kept


def route_problems(
    seen: Mapping[BrokerId, SeenRoutes | None],
    clients: Clients,
    survey: Survey,
    *,
    told_first: bool,
) -> list[str]:
    """Return what is missing in the routes of a network, and what is left over, given that its structure is sound.

    Parameters
    ----------
    seen
        The routes of every living broker; None where a scheme keeps no table that could be judged.
    clients
        What the clients say.
    survey
        Where the brokers stand.
    told_first
        Whether others are told of a subscription at all.
    """
    there = {here: one for here, one in survey.items() if not one["left"]}
    routes = {here: each for here, each in seen.items() if each is not None and here in there}
    if any(each is None for each in seen.values()):
        return []
    found = [*_of_clients(routes, clients)]
    must_tell = _must_tell(there) if told_first else {}
    for here, mine in routes.items():
        found += _of_told(here, mine, must_tell.get(here, ()))
        for other in {holder: None for _, holder in mine.brokers} | dict.fromkeys(routes):
            theirs = routes.get(other)
            due = NOTHING if theirs is None else theirs.told_to(here) or NOTHING
            found += _differ(f"broker {here} holds for broker {other}", mine.held_of(other), due)
    for one in () if in_views(there) else speakers(there).values():
        found += _of_copies(routes, one)
    return found


def _must_tell(survey: Survey) -> dict[BrokerId, Collection[BrokerId]]:
    """Return whom each broker has to tell what is wanted: the next on the way to the root, or all of the view."""
    if in_views(survey):
        return {here: survey.keys() - {here} for here in survey}
    return {here: () if above is None else (above,) for here, above in above_each(survey).items()}


def _of_clients(routes: Mapping[BrokerId, SeenRoutes], clients: Clients) -> Iterator[str]:
    for here, mine in routes.items():
        at_home = {name for name in clients.wanted if clients.homes[name] == here}
        for name in dict.fromkeys((*sorted(at_home), *mine.clients)):
            due = frozenset(clients.wanted[name].values()) if name in at_home else NOTHING
            yield from _differ(f"broker {here} holds for {name}", mine.clients.get(name, NOTHING), due)


def _of_told(here: BrokerId, mine: SeenRoutes, must: Collection[BrokerId]) -> Iterator[str]:
    told = {to for _, to in mine.told}
    for other in must:
        if other not in told:
            yield f"broker {here} does not tell broker {other} what it wants"
    for (link, to), items in mine.told.items():
        due = mine.due_over(link)
        less = {item for item in due if item not in items and not any(covers(each, item) for each in items)}
        more = {item for item in items if item not in due and not _is_union(item, due)}
        if less or more:
            yield f"broker {here} tells broker {to}: {_words(more, less)}"


def _is_union(item: Filter, of: Filters) -> bool:
    """Return whether a filter matches what some others match, and nothing else."""
    union: Filter | None = None
    for part in of:
        if covers(item, part):
            union = part if union is None else merge(union, part)
            if union is None:
                return False  # it has too many clauses to be told
    return union is not None and covers(union, item)


def _of_copies(routes: Mapping[BrokerId, SeenRoutes], one: Said) -> Iterator[str]:
    speaks = routes[one["broker"]]
    due = {child.cluster: speaks.held_of(child.designated) for child in one["children"]}
    for member in one["view"].members:
        copies = routes[member].copies
        if member != one["broker"] and copies is not None:
            for cluster in dict.fromkeys((*due, *copies)):
                what = f"broker {member} has a copy of what cluster {cluster} wants"
                yield from _differ(what, copies.get(cluster, NOTHING), due.get(cluster, NOTHING))


def _differ(what: str, found: Filters, due: Filters) -> Iterator[str]:
    if found != due:
        yield f"{what}: {_words(found - due, due - found)}"


def _words(more: Iterable[Filter], less: Iterable[Filter]) -> str:
    return f"too much {sorted(map(str, more))}, missing {sorted(map(str, less))}"
