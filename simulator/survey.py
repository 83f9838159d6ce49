"""Looks at a whole network from outside: whether it is one tree, all agree, and every subscription is installed.

Rules (promise 6)
-----------------
* In each cluster with a living member exactly one living member is designated, and all living members have the same
  view of it; nobody else is in that view.
* There is one root. Every other cluster hangs below a living one that has it among its children, nobody has more
  children than the degree, and following the parents ends at the root. Paths say the same.
* Every subscription of a living client is in its broker's table and covered at every broker from there up to the root;
  no link is closed any more.

A paused broker counts as dead: nobody can tell the difference while it lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..actors.broker import books_of
from ..faults.chaos.books import Links, SeenBooks, Way, in_tree, in_view
from ..faults.replay.clients import SubscriberMachine
from ..protocol.ids import GROUP, BrokerId, ClusterId, Link
from ..protocol.messages.pubsub import FilterLike
from ..protocol.messages.recovery import ClusterView
from ..routing.language.questions import covers
from ..routing.schemes.claims import claims_of
from . import cube_survey

if TYPE_CHECKING:
    from .network import SimulatedNetwork
    from .simulation import Simulation


@dataclass(frozen=True, slots=True)
class BrokerSurvey:
    """Where one broker says that it stands; what only the designated one knows is empty at the others."""

    broker: BrokerId
    cluster: ClusterId
    view: ClusterView
    designated: bool
    root: bool
    parent: ClusterView | None
    children: tuple[ClusterView, ...]
    path: tuple[ClusterId, ...]
    term: int
    settled: bool
    closed: tuple[Link, ...]


def survey(network: SimulatedNetwork, broker: BrokerId) -> BrokerSurvey:
    """Ask one broker; one that does not heal stands where it was put."""
    healing = getattr(network.broker(broker), "healing", None)
    if healing is None:
        return _standing(network, broker)
    said = healing.survey()
    return BrokerSurvey(
        broker,
        said["cluster"],
        said["view"],
        said["designated"],
        said["root"],
        said["parent"],
        said["children"],
        said["path"],
        said["term"],
        said["settled"],
        tuple(said["closed"]),
    )


def _standing(network: SimulatedNetwork, broker: BrokerId) -> BrokerSurvey:
    positions = network.positions
    place = positions[broker]

    def view_of(designated: BrokerId) -> ClusterView:
        there = positions[designated]
        return ClusterView(there.cluster, 0, there.designated, there.members)

    path = [place.cluster]
    above = positions[place.designated].parent
    while above is not None:
        path.insert(0, positions[above].cluster)
        above = positions[positions[above].designated].parent
    speaks = place.role != "NEB"
    return BrokerSurvey(
        broker,
        place.cluster,
        view_of(place.designated),
        speaks,
        place.role == "REB",
        None if not speaks or place.parent is None else view_of(place.parent),
        tuple(view_of(child) for child in place.children) if speaks else (),
        tuple(path) if speaks else (),
        1,
        True,
        (),
    )


def root_of(network: SimulatedNetwork) -> BrokerId | None:
    """Return the living broker that says it is the root, the one of the latest term when several do."""
    if claims_of(network.scheme).views:
        return None
    reports = [survey(network, broker) for broker in network.living()]
    roots = [report for report in reports if report.root]
    return max(roots, key=lambda report: report.term).broker if roots else None


def structure_problems(network: SimulatedNetwork, degree: int | None = None) -> list[str]:
    """Return what is wrong with the clusters and the tree, as sentences; none when it is one tree, or has one view."""
    if claims_of(network.scheme).views:
        return cube_survey.structure_problems(network)
    awake = [broker for broker in network.living() if not network.hosts[broker].paused]
    reports = {broker: survey(network, broker) for broker in awake}
    by_cluster: dict[ClusterId, list[BrokerSurvey]] = {}
    for report in reports.values():
        by_cluster.setdefault(report.cluster, []).append(report)
    problems: list[str] = []
    heads: dict[ClusterId, BrokerSurvey] = {}
    for cluster, members in by_cluster.items():
        problems += _cluster_problems(cluster, members)
        speakers = [report for report in members if report.designated]
        if len(speakers) == 1:
            heads[cluster] = speakers[0]
    return problems or [*_tree_problems(heads, degree)]


def _cluster_problems(cluster: ClusterId, members: list[BrokerSurvey]) -> Iterator[str]:
    speakers = [report.broker for report in members if report.designated]
    if len(speakers) != 1:
        yield f"cluster {cluster} has designated brokers {speakers}"
        return
    alive = tuple(sorted(report.broker for report in members))
    for report in members:
        if report.view.designated != speakers[0]:
            yield f"broker {report.broker} follows {report.view.designated}, not {speakers[0]}"
        elif report.view.members != alive:
            yield f"broker {report.broker} sees members {report.view.members} in cluster {cluster}, alive are {alive}"


def _tree_problems(heads: dict[ClusterId, BrokerSurvey], degree: int | None) -> Iterator[str]:
    roots = [cluster for cluster, head in heads.items() if head.root]
    if len(roots) != 1:
        yield f"roots: {roots}"
        return
    for cluster, head in heads.items():
        if degree is not None and len(head.children) > degree:
            yield f"cluster {cluster} has {len(head.children)} children, the degree is {degree}"
        for child in head.children:
            below = heads.get(child.cluster)
            if below is None or below.parent is None or below.parent.cluster != cluster:
                yield f"cluster {cluster} has child {child.cluster}, which does not hang there"
            elif child.designated != below.broker:
                yield f"cluster {cluster} takes {child.designated} for the speaker of its child {child.cluster}"
        if head.root:
            continue
        above = None if head.parent is None else heads.get(head.parent.cluster)
        if head.parent is None or above is None:
            yield f"cluster {cluster} has no living parent: {head.parent}"
        elif head.parent.designated != above.broker:
            yield f"cluster {cluster} takes {head.parent.designated} for the speaker of its parent {above.cluster}"
        elif cluster not in [child.cluster for child in above.children]:
            yield f"cluster {cluster} hangs below {above.cluster}, which does not know it"
    for cluster, head in heads.items():
        path = _path(heads, cluster)
        if path is None:
            yield f"cluster {cluster} stands in a ring"
        elif head.path != path:
            yield f"cluster {cluster} says its path is {head.path}, it is {path}"
        if head.term != heads[roots[0]].term:
            yield f"cluster {cluster} is in term {head.term}, the root in {heads[roots[0]].term}"


def _path(heads: dict[ClusterId, BrokerSurvey], cluster: ClusterId) -> tuple[ClusterId, ...] | None:
    path = [cluster]
    while (parent := heads[path[0]].parent) is not None and parent.cluster in heads:
        if parent.cluster in path:
            return None
        path.insert(0, parent.cluster)
    return tuple(path)


def subscription_problems(network: Simulation) -> list[str]:
    """Return what is wrong with the subscriptions, given that the structure is sound."""
    if claims_of(network.scheme).views:
        return cube_survey.subscription_problems(network)
    problems = [
        f"{client} #{number} is not confirmed at broker {network.sessions[client].home.id}"
        for client, number in network.unconfirmed()
    ]
    reports = {broker: survey(network, broker) for broker in network.living()}
    for report in reports.values():
        if report.closed:
            problems.append(f"broker {report.broker} has closed links: {list(report.closed)}")
        if not report.settled:
            problems.append(f"broker {report.broker} waits for something to be installed")
    for name, session in network.sessions.items():
        if not session.is_publisher and session.home.id not in reports:
            problems.append(f"{name} is still at broker {session.home.id}, which is gone")
    if problems:
        return problems
    heads = {report.cluster: report for report in reports.values() if report.designated}
    told = claims_of(network.scheme).told_first
    for session in network.sessions.values():
        if isinstance(session.machine, SubscriberMachine):
            for number, wanted in session.machine.subscriptions().items():
                for broker, link, holder in _way_up(
                    heads, session.name, session.home.id, reports[session.home.id].cluster, told
                ):
                    if not _covered(network.broker(broker), wanted, link, holder):
                        problems.append(
                            f"{session.name} #{number} is not installed at broker {broker} for {link!r}"
                        )
                        break
    return problems


def _way_up(
    heads: dict[ClusterId, BrokerSurvey], client: str, home: BrokerId, cluster: ClusterId, told: bool
) -> Iterator[tuple[BrokerId, Link, BrokerId | None]]:
    """Iterate over (broker, link, holder) where something has to be installed, from a client up to the root."""
    yield home, client, None
    if not told:
        return
    head = heads[cluster]
    if home != head.broker:
        yield head.broker, GROUP, home
    while head.parent is not None:
        below, head = head.broker, heads[head.parent.cluster]
        yield head.broker, below, None


def _covered(broker: Any, wanted: FilterLike, link: Link, holder: BrokerId | None) -> bool:
    for entry in broker.router.table:
        holders = entry.links.get(link)
        if holders is not None and (holder is None or holder in holders):
            if entry.filter == wanted or covers(entry.filter, wanted):  # type: ignore[arg-type]
                return True
    return False


def books_seen(network: SimulatedNetwork) -> dict[BrokerId, SeenBooks]:
    """Return what the books of the living brokers say."""
    return {broker: books_of(network.broker(broker)) for broker in network.living()}


def ways_of(network: SimulatedNetwork) -> tuple[Links, Way]:
    """Return who is joined to whom, and how events go: by a view, or over a tree, a cluster being a star in it."""
    living = network.living()
    position = network.broker(living[0]).position
    healing = network.broker(living[0]).healing
    view = position.cube if healing is None else getattr(healing.router, "view", None)
    if view is not None:
        return in_view(view, network.scheme)
    above: dict[BrokerId, BrokerId | None] = {}
    for broker in living:
        report = survey(network, broker)
        parent = None if report.parent is None else report.parent.designated
        above[broker] = parent if report.designated else report.view.designated
    return in_tree(above)


def durable_problems(network: Simulation) -> list[str]:
    """Return what brokers hold for durable subscribers that they should not, at the end of all."""
    problems = []
    for broker in network.living():
        for name, entry in network.broker(broker).durable.entries.items():  # type: ignore[union-attr]
            home = network.sessions[name].home.id
            if home != broker:
                problems.append(f"broker {broker} holds durable {name}, which is at {home}")
            elif len(entry):
                problems.append(
                    f"broker {broker} holds {len(entry)} notifications that {name} has acknowledged"
                )
    return problems
