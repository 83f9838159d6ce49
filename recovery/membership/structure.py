"""Judges from outside whether a healed network is one tree again, or has one view of its members.

Rules (promise 6)
-----------------
* In each cluster with a living member exactly one living member is designated. All living members have the
  same view of the cluster, which contains exactly the living members.
* There is one root. Every other cluster has a living parent that has it among its children, no cluster has
  more children than the degree, and following the parents ends at the root. The paths agree with this, and
  all are in one term.
* In a scheme with views, all brokers that live and have not left have the same view, which contains exactly
  these brokers.

Everything is judged from the brokers' own reports (`survey`), so it is the same on both hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from ...protocol.configs import Position, broker_name
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.queries import Said

Survey: TypeAlias = Mapping[BrokerId, Said]
"""The report of each broker that can be asked."""


def problems(survey: Survey) -> list[str]:
    """Return what prevents the network from being one settled tree, or from having one view; empty if it is sound."""
    return [*structure_problems(survey), *unsettled(survey)]


def structure_problems(survey: Survey, degree: int | None = None) -> list[str]:
    """Return what is wrong with the clusters and the tree, regardless of subscriptions, as sentences.

    Parameters
    ----------
    survey
        The reports of the living brokers.
    degree
        The maximum number of children of a cluster; None for no limit.
    """
    if in_views(survey):
        return [*_of_views(survey)]
    by_cluster: dict[ClusterId, list[Said]] = {}
    for _, one in sorted(survey.items()):
        by_cluster.setdefault(one["cluster"], []).append(one)
    found: list[str] = []
    for cluster, members in by_cluster.items():
        found += _of_cluster(cluster, members)
    return found or [*_of_tree(speakers(survey), degree)]


def unsettled(survey: Survey) -> list[str]:
    """Return which brokers wait for subscriptions to be installed, or for a round, or will begin one."""
    found = []
    for broker, one in sorted(survey.items()):
        if one.get("left"):
            continue
        if one["closed"]:
            found.append(f"broker {broker} has closed links: {list(one['closed'])}")
        if not one["settled"]:
            found.append(f"broker {broker} waits for subscriptions to be installed")
        if missed := one.get("missed"):
            found.append(f"broker {broker} has yet to repair what {list(missed)} have missed")
    return found


def in_views(survey: Survey) -> bool:
    """Return whether views define the members of the network."""
    return any("view_members" in one for one in survey.values())


def speakers(survey: Survey) -> dict[ClusterId, Said]:
    """Return the designated broker of each cluster."""
    return {one["cluster"]: one for _, one in sorted(survey.items()) if one["designated"]}


def root_of(survey: Survey) -> BrokerId | None:
    """Return the broker that reports to be the root; if several do, the one of the latest term."""
    roots = [one for one in survey.values() if one.get("root")]
    return max(roots, key=lambda one: one["term"])["broker"] if roots else None


def _of_views(survey: Survey) -> Iterator[str]:
    newest = max((one["version"] for one in survey.values()), default=0)
    alive = tuple(sorted(broker for broker, one in survey.items() if not one["left"]))
    for broker in alive:
        one = survey[broker]
        members = tuple(member.broker for member in one["view_members"])
        if one["version"] != newest:
            yield f"broker {broker} has view {one['version']}, the newest is {newest}"
        elif members != alive:
            yield f"broker {broker} sees {members} in view {newest}, alive are {alive}"


def _of_cluster(cluster: ClusterId, members: list[Said]) -> Iterator[str]:
    designated = [one["broker"] for one in members if one["designated"]]
    if len(designated) != 1:
        yield f"cluster {cluster} has designated brokers {designated}"
        return
    alive = tuple(one["broker"] for one in members)
    for one in members:
        view = one["view"]
        if view.designated != designated[0]:
            yield f"broker {one['broker']} follows {view.designated}, not {designated[0]}"
        elif view.members != alive:
            yield f"broker {one['broker']} sees members {view.members} in cluster {cluster}, alive are {alive}"


def _of_tree(heads: Mapping[ClusterId, Said], degree: int | None) -> Iterator[str]:
    roots = [cluster for cluster, head in heads.items() if head["root"]]
    if len(roots) != 1:
        yield f"roots: {roots}"
        return
    for cluster, head in heads.items():
        yield from _of_neighbours(cluster, head, heads, degree)
    for cluster, head in heads.items():
        path = _path(heads, cluster)
        if path is None:
            yield f"cluster {cluster} stands in a ring"
        elif head["path"] != path:
            yield f"cluster {cluster} says its path is {head['path']}, it is {path}"
        if head["term"] != heads[roots[0]]["term"]:
            yield f"cluster {cluster} is in term {head['term']}, the root in {heads[roots[0]]['term']}"


def _of_neighbours(
    cluster: ClusterId, head: Said, heads: Mapping[ClusterId, Said], degree: int | None
) -> Iterator[str]:
    children, parent = head["children"], head["parent"]
    if degree is not None and len(children) > degree:
        yield f"cluster {cluster} has {len(children)} children, the degree is {degree}"
    for child in children:
        below = heads.get(child.cluster)
        if below is None or below["parent"] is None or below["parent"].cluster != cluster:
            yield f"cluster {cluster} has child {child.cluster}, which does not hang there"
        elif child.designated != below["broker"]:
            yield f"cluster {cluster} takes {child.designated} for the speaker of its child {child.cluster}"
    if head["root"]:
        return
    above = None if parent is None else heads.get(parent.cluster)
    if parent is None or above is None:
        yield f"cluster {cluster} has no living parent: {parent}"
    elif parent.designated != above["broker"]:
        yield f"cluster {cluster} takes {parent.designated} for the speaker of its parent {parent.cluster}"
    elif cluster not in [child.cluster for child in above["children"]]:
        yield f"cluster {cluster} hangs below {parent.cluster}, which does not know it"


def _path(heads: Mapping[ClusterId, Said], cluster: ClusterId) -> tuple[ClusterId, ...] | None:
    path = [cluster]
    while (parent := heads[path[0]]["parent"]) is not None and parent.cluster in heads:
        if parent.cluster in path:
            return None
        path.insert(0, parent.cluster)
    return tuple(path)


def above_each(survey: Survey) -> dict[BrokerId, BrokerId | None]:
    """Return the next broker on each broker's path to the root: its designated broker or its parent; else None."""
    above: dict[BrokerId, BrokerId | None] = {}
    for broker, one in survey.items():
        parent = None if one["parent"] is None else one["parent"].designated
        above[broker] = parent if one["designated"] else one["view"].designated
    return above


def current_position(position: Position, survey: Survey) -> Position:
    """Return the current place of a broker."""
    one = survey[position.broker]
    if "view_members" in one:
        return replace(
            position, children=one["neighbours"], view=None
        )  # `position` is of the first view, and other views have followed
    view, parent = one["view"], one["parent"]
    now = replace(
        position,
        members=view.members,
        designated=view.designated,
        parent=None if parent is None else parent.designated,
        parent_cluster=None if parent is None else parent.cluster,
        children=tuple(child.designated for child in one["children"]),
        child_clusters=tuple(child.cluster for child in one["children"]),
    )
    return now if now.role == position.role else replace(now, label=broker_name(now.broker, now.role))
