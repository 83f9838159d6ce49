"""Whether a network that heals has come to one tree again, judged from what every living broker says (promise 6).

Pure: the network asks the brokers, this file only reads their answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...faults.chaos.books import Links, Way, in_tree, in_view
from ...protocol.configs import Position
from ...protocol.ids import BrokerId, ClusterId

Survey = Mapping[BrokerId, Mapping[str, Any]]
"""Where each living broker stands: what its `survey` returned."""


def problems(survey: Survey) -> list[str]:
    """Return what keeps the network from being one settled tree, or from having one view; nothing when it is so."""
    found = structure_problems(survey)
    for broker, one in sorted(survey.items()):
        if one.get("left"):
            continue
        if not one["settled"]:
            found.append(f"broker {broker} waits for subscriptions to be installed")
        if one["closed"]:
            found.append(f"broker {broker} waits for a round to open {one['closed']}")
    return found


def structure_problems(survey: Survey, degree: int | None = None) -> list[str]:
    """Return what keeps the network from being one tree, whatever its subscriptions are; at most `degree` children."""
    if any("seats" in one for one in survey.values()):
        return _of_cube(survey)
    living: dict[ClusterId, list[BrokerId]] = {}
    designated: dict[ClusterId, list[Mapping[str, Any]]] = {}
    for broker, one in sorted(survey.items()):
        living.setdefault(one["cluster"], []).append(broker)
        if one["designated"]:
            designated.setdefault(one["cluster"], []).append(one)
    found: list[str] = []
    for cluster, members in living.items():
        found += _of_cluster(cluster, members, designated.get(cluster, []), survey)
    speakers = {cluster: some[0] for cluster, some in designated.items()}
    roots = [one["broker"] for one in speakers.values() if one["root"]]
    if len(roots) != 1:
        found.append(f"{len(roots)} roots: {roots}")
    for one in speakers.values():
        found += _of_neighbours(one, speakers)
        if degree is not None and len(one["children"]) > degree:
            found.append(
                f"broker {one['broker']} has {len(one['children'])} children, the degree is {degree}"
            )
    return found


def _of_cube(survey: Survey) -> list[str]:
    found = []
    alive = tuple(sorted(broker for broker, one in survey.items() if not one["left"]))
    newest = max((one["version"] for one in survey.values()), default=0)
    for broker in alive:
        one = survey[broker]
        members = tuple(seat.broker for seat in one["seats"])
        if one["version"] != newest:
            found.append(f"broker {broker} has view {one['version']}, the newest is {newest}")
        elif members != alive:
            found.append(f"broker {broker} sees {members} in its view, alive are {alive}")
    return found


def _of_cluster(
    cluster: ClusterId, members: list[BrokerId], speakers: list[Mapping[str, Any]], survey: Survey
) -> list[str]:
    if len(speakers) != 1:
        return [f"cluster {cluster} has {len(speakers)} designated brokers"]
    found = []
    speaker = speakers[0]["broker"]
    for member in members:
        one = survey[member]
        if one["view"].designated != speaker or list(one["view"].members) != members:
            found.append(f"broker {member} does not know its cluster as it is")
    return found


def _of_neighbours(one: Mapping[str, Any], speakers: Mapping[ClusterId, Mapping[str, Any]]) -> list[str]:
    found = []
    broker, cluster, parent = one["broker"], one["cluster"], one["parent"]
    if not one["root"]:
        above = None if parent is None else speakers.get(parent.cluster)
        if above is None or above["broker"] != parent.designated:
            found.append(f"broker {broker} has no parent that lives")
        elif not any(c.cluster == cluster and c.designated == broker for c in above["children"]):
            found.append(f"the parent of broker {broker} does not know it")
        elif not one["path"]:
            found.append(f"broker {broker} has no way to the root")
    for child in one["children"]:
        below = speakers.get(child.cluster)
        if below is None or below["parent"] is None or below["parent"].cluster != cluster:
            found.append(f"broker {broker} has a child, cluster {child.cluster}, that is not one")
    return found


def ways_of(survey: Survey, scheme: str) -> tuple[Links, Way]:
    """Return who is joined to whom, and how events go: by a view, or over a tree, a cluster being a star in it."""
    seen = next((one["cube"] for one in survey.values() if "cube" in one), None)
    if seen is not None:
        return in_view(seen, scheme)
    above: dict[BrokerId, BrokerId | None] = {}
    for broker, one in survey.items():
        parent = None if one["parent"] is None else one["parent"].designated
        above[broker] = parent if one["designated"] else one["view"].designated
    return in_tree(above)


def state_of(survey: Survey) -> dict[BrokerId, tuple[Any, ...]]:
    """Return what changes when the network heals again: two equal states, and nothing happened between."""
    if any("seats" in one for one in survey.values()):
        return {broker: (one["version"], one["left"]) for broker, one in survey.items()}
    return {
        broker: (one["view"].epoch, one["view"].designated, one["term"], tuple(one["round"]))
        for broker, one in survey.items()
    }


def standing(position: Position, survey: Survey) -> Position:
    """Return the place that a broker has by now."""
    one = survey[position.broker]
    if "seats" in one:
        return replace(position, children=one["neighbours"])
    view, parent = one["view"], one["parent"]
    return replace(
        position,
        members=view.members,
        designated=view.designated,
        parent=None if parent is None else parent.designated,
        parent_cluster=None if parent is None else parent.cluster,
        children=tuple(child.designated for child in one["children"]),
        child_clusters=tuple(child.cluster for child in one["children"]),
    )
