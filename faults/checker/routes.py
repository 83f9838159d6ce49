"""Judges the routes of a whole network from outside: no wanted entry is missing, and none is surplus.

Rules (promise 6; paper 1, 4.1.1 and 4.2.2)
-------------------------------------------
* A broker's table has for each of its clients exactly what that client wants, and nothing for any other
  client.
* It has for each other broker exactly what that broker has told it, and nothing for a broker that has told it
  nothing.
* What a broker tells another covers everything that it holds over its other links, and nothing more: each
  filter is one of these, or the union of some (perfect merging). No broker is told of what publishers at a
  subscriber's own broker satisfy (paper 2, 2.3(1)).
* Every broker that must be told is told: in a tree the next one on the path to the root, in a view all
  others.
* Every member of a cluster has a copy of what the children of its designated broker want (4.1.1).

A subscription that was withdrawn, moved or lost with its broker therefore leaves no entry anywhere: a surplus
route is found like a missing one. Covering is computed from the filters alone, not from a broker's index or
covering DAG. Everything is taken at one quiescent moment, on either host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ...broker.routes import NOTHING, Filters, SeenRoutes
from ...protocol.ids import BrokerId
from ...protocol.queries import Said
from ...recovery.membership.structure import Survey, above_each, in_views, speakers
from ...routing.filters.filter import Filter
from ...routing.language.questions import covers, merge
from .books import Clients, differences, surplus_and_missing


def route_problems(
    seen: Mapping[BrokerId, SeenRoutes | None],
    clients: Clients,
    survey: Survey,
    *,
    announces_first: bool,
) -> list[str]:
    """Return the missing and the surplus routes of a network whose structure is sound.

    Parameters
    ----------
    seen
        The routes of every living broker; None for a scheme without a table to judge.
    clients
        What the clients report.
    survey
        The positions of the brokers.
    announces_first
        Whether brokers tell others of subscriptions at all.
    """
    there = {here: one for here, one in survey.items() if not one["left"]}
    routes = {here: each for here, each in seen.items() if each is not None and here in there}
    if any(each is None for each in seen.values()):
        return []
    found = [*_of_clients(routes, clients)]
    must_tell = _must_tell(there) if announces_first else {}
    for here, mine in routes.items():
        found += _of_announced(here, mine, must_tell.get(here, ()))
        for other in {holder: None for _, holder in mine.brokers} | dict.fromkeys(routes):
            theirs = routes.get(other)
            due = NOTHING if theirs is None else theirs.announced_to(here) or NOTHING
            found += differences(f"broker {here} holds for broker {other}", mine.held_of(other), due)
    for one in () if in_views(there) else speakers(there).values():
        found += _of_copies(routes, one)
    return found


def _must_tell(survey: Survey) -> dict[BrokerId, Collection[BrokerId]]:
    """Return the brokers that each broker has to tell: the next on the path to the root, or all of the view."""
    if in_views(survey):
        return {here: survey.keys() - {here} for here in survey}
    return {here: () if above is None else (above,) for here, above in above_each(survey).items()}


def _of_clients(routes: Mapping[BrokerId, SeenRoutes], clients: Clients) -> Iterator[str]:
    for here, mine in routes.items():
        at_home = {name for name in clients.wanted if clients.homes[name] == here}
        for name in dict.fromkeys((*sorted(at_home), *mine.clients)):
            due = frozenset(clients.wanted[name].values()) if name in at_home else NOTHING
            yield from differences(f"broker {here} holds for {name}", mine.clients.get(name, NOTHING), due)


def _of_announced(here: BrokerId, mine: SeenRoutes, must: Collection[BrokerId]) -> Iterator[str]:
    told = {to for _, to in mine.announced}
    for other in must:
        if other not in told:
            yield f"broker {here} does not tell broker {other} what it wants"
    for (link, to), items in mine.announced.items():
        due = mine.due_over(link)
        less = {item for item in due if item not in items and not any(covers(each, item) for each in items)}
        more = {item for item in items if item not in due and not _is_union(item, due)}
        if less or more:
            yield f"broker {here} tells broker {to}: {surplus_and_missing(more, less)}"


def _is_union(item: Filter, of: Filters) -> bool:
    """Return whether a filter matches exactly what some others together match."""
    union: Filter | None = None
    for part in of:
        if covers(item, part):
            union = part if union is None else merge(union, part)
            if union is None:
                return False  # the union has too many clauses to be told
    return union is not None and covers(union, item)


def _of_copies(routes: Mapping[BrokerId, SeenRoutes], one: Said) -> Iterator[str]:
    speaks = routes[one["broker"]]
    due = {child.cluster: speaks.held_of(child.designated) for child in one["children"]}
    for member in one["view"].members:
        copies = routes[member].copies
        if member != one["broker"] and copies is not None:
            for cluster in dict.fromkeys((*due, *copies)):
                what = f"broker {member} has a copy of what cluster {cluster} wants"
                yield from differences(what, copies.get(cluster, NOTHING), due.get(cluster, NOTHING))
