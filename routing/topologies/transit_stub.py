"""A transit-stub graph after GT-ITM, and the cluster tree that grows on it (paper 1, section 5.1).

Rules
-----
* A few *transit* domains form the backbone; each transit site has *stub* domains of sites behind it. The weight of a
  link is its delay: long between transit domains, short inside a stub.
* The tree grows from the site at the centre of the backbone. The next site to join is always the one that would be
  nearest to the root, over a physical link to a site of the tree with room for a child.
* A site whose neighbours are all full joins the nearest site with room, as in CMTP's ``Join`` (paper 1, section 4.2);
  the delay of that tree link is that of the physical path.

GT-ITM is a separate program. This module implements its model (domains, and the order of magnitude of the
delays), not its random numbers.
"""

from __future__ import annotations

import heapq
import itertools
import random
from typing import Final, NamedTuple

import networkx as nx

from ...protocol.errors import TopologyError

TRANSIT_SHARE: Final = 0.04
"""The share of sites in transit domains: 4 of 100, as in GT-ITM's sample files of 100 nodes."""

TRANSIT_DOMAIN_SITES: Final = 4
STUBS_PER_TRANSIT_SITE: Final = 3
EXTRA_LINKS: Final = 0.42
"""Probability of an additional link between two sites of a domain, beyond its spanning links (GT-ITM's alpha)."""

DELAYS_SECONDS: Final[dict[str, tuple[float, float]]] = {
    "backbone": (0.030, 0.060),  # between transit domains
    "transit": (0.015, 0.030),  # inside a transit domain
    "access": (0.004, 0.010),  # a stub and its transit site
    "stub": (0.001, 0.003),  # inside a stub domain
    "extra": (0.008, 0.020),  # between two stubs
}


class JoinedSite(NamedTuple):
    """A site that joined the tree, its parent, and the delay to the parent."""

    site: int
    parent: int | None
    delay_seconds: float


def transit_stub_graph(sites: int, seed: int, links: int | None = None) -> nx.Graph:
    """Return the physical graph: nodes with `domain` and `transit`, edges with `kind` and `delay_seconds`.

    Parameters
    ----------
    sites
        The number of nodes; at least 1.
    seed
        The same seed gives the same graph.
    links
        The number of undirected edges; None makes it random.

    Raises
    ------
    TopologyError
        If no connected graph of that many sites has that many links.
    """
    if links is not None:
        check_links(sites, links)
    rng = random.Random(f"transit-stub/{seed}")
    graph = nx.Graph()
    domains = _domains(sites)
    for number, (members, transit) in enumerate(domains):
        graph.add_nodes_from(members, domain=number, transit=transit)
        _join_at_random(graph, members, "transit" if transit else "stub", rng)
    backbone = [members for members, transit in domains if transit]
    for number, members in enumerate(backbone[1:], start=1):
        _link(graph, rng.choice(members), rng.choice(backbone[rng.randrange(number)]), "backbone", rng)
    gateways = [site for members in backbone for site in members]
    for number, members in enumerate(members for members, transit in domains if not transit):
        _link(graph, gateways[number % len(gateways)], rng.choice(members), "access", rng)
    _fill(graph, domains, links, rng)
    return graph


def check_links(sites: int, links: int) -> None:
    """Raise TopologyError if no connected graph of that many sites has that many links."""
    low, high = sites - 1, sites * (sites - 1) // 2
    if not low <= links <= high:
        raise TopologyError(f"{links} links between {sites} clusters: it must be {low} to {high}")


def _domains(sites: int) -> list[tuple[list[int], bool]]:
    """Return the domains as (sites, whether it is a transit domain), transit domains first."""
    transit = max(1, round(sites * TRANSIT_SHARE))
    out = [(list(part), True) for part in _parts(range(transit), -(-transit // TRANSIT_DOMAIN_SITES))]
    rest = range(transit, sites)
    stubs = min(len(rest), transit * STUBS_PER_TRANSIT_SITE)
    return out + [(list(part), False) for part in _parts(rest, stubs)]


def _parts(whole: range, count: int) -> list[range]:
    """Split a range into `count` parts whose sizes differ by at most one."""
    edges = [whole.start + len(whole) * number // count for number in range(count + 1)] if count else []
    return [range(low, high) for low, high in itertools.pairwise(edges)]


def _join_at_random(graph: nx.Graph, members: list[int], kind: str, rng: random.Random) -> None:
    for number, site in enumerate(members[1:], start=1):
        _link(graph, site, members[rng.randrange(number)], kind, rng)


def _link(graph: nx.Graph, one: int, other: int, kind: str, rng: random.Random) -> None:
    graph.add_edge(one, other, kind=kind, delay_seconds=rng.uniform(*DELAYS_SECONDS[kind]))


def _fill(
    graph: nx.Graph, domains: list[tuple[list[int], bool]], links: int | None, rng: random.Random
) -> None:
    """Add links inside domains; if a number of links is given, then also between stubs until it is reached."""
    inside = [
        (one, other, "transit" if transit else "stub")
        for members, transit in domains
        for one, other in itertools.combinations(members, 2)
        if not graph.has_edge(one, other)
    ]
    if links is None:
        for one, other, kind in inside:
            if rng.random() < EXTRA_LINKS:
                _link(graph, one, other, kind, rng)
        return
    rng.shuffle(inside)
    for one, other, kind in inside[: links - graph.number_of_edges()]:
        _link(graph, one, other, kind, rng)
    missing = links - graph.number_of_edges()
    if missing * 3 > graph.number_of_nodes() ** 2 // 2:  # dense: random pairs would often be linked already
        absent = sorted(tuple(sorted(pair)) for pair in nx.non_edges(graph))
        for one, other in rng.sample(absent, missing):
            _link(graph, one, other, "extra", rng)
        return
    while missing > 0:
        one, other = rng.randrange(len(graph)), rng.randrange(len(graph))
        if one != other and not graph.has_edge(one, other):
            _link(graph, one, other, "extra", rng)
            missing -= 1


def centre(graph: nx.Graph) -> int:
    """Return the transit site with the least total delay to the backbone; the lowest number wins ties."""
    backbone = graph.subgraph([site for site, is_transit in graph.nodes(data="transit") if is_transit])
    totals: dict[int, float] = {
        site: sum(nx.single_source_dijkstra_path_length(backbone, site, weight="delay_seconds").values())
        for site in sorted(backbone)
    }
    return min(totals, key=lambda site: (totals[site], site))


def spanning_tree(graph: nx.Graph, degree: int) -> list[JoinedSite]:
    """Return the sites in the order in which they join one tree, with at most `degree` children each; root first."""
    root = centre(graph)
    joined = {root: JoinedSite(root, None, 0.0)}
    from_root = {root: 0.0}
    room = {root: degree}
    waiting: list[tuple[float, int, int, float]] = []

    def take(site: int, parent: int, delay: float) -> None:
        joined[site] = JoinedSite(site, parent, delay)
        from_root[site] = from_root[parent] + delay
        room[parent] -= 1
        room[site] = degree
        offer(site)

    def offer(site: int) -> None:
        for other, link in graph.adj[site].items():
            if other not in joined:
                delay = link["delay_seconds"]
                heapq.heappush(waiting, (from_root[site] + delay, other, site, delay))

    offer(root)
    left_out = iter(sorted(graph))
    while len(joined) < len(graph):
        while waiting:
            _, site, parent, delay = heapq.heappop(waiting)
            if site not in joined and room[parent]:
                take(site, parent, delay)
        for site in left_out:
            if site not in joined:
                take(site, *_nearest_with_room(graph, site, room))
                break
    return list(joined.values())


def _nearest_with_room(graph: nx.Graph, start: int, room: dict[int, int]) -> tuple[int, float]:
    """Return the nearest site of the tree that can take a child, and the delay of the path to it."""
    todo = [(0.0, start)]
    seen: set[int] = set()
    while todo:
        delay, site = heapq.heappop(todo)
        if room.get(site):
            return site, delay
        if site in seen:
            continue
        seen.add(site)
        for other, link in graph.adj[site].items():
            if other not in seen:
                heapq.heappush(todo, (delay + link["delay_seconds"], other))
    raise TopologyError("the physical graph is not connected")
