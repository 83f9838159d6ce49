"""What a network that heals says of itself, as those need it that wait for it or show it.

Pure: the network asks the brokers, this file only reads their answers. Whether these are sound is judged in
`faults.chaos.structure`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...faults.chaos.structure import Survey, in_views
from ...protocol.configs import Position
from ...protocol.ids import BrokerId


def state_of(survey: Survey) -> dict[BrokerId, tuple[Any, ...]]:
    """Return what changes when the network heals again: two equal states, and nothing happened between."""
    if in_views(survey):
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
