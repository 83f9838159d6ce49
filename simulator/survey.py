"""What the brokers of a simulated network report of their places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.ids import BrokerId
from ..protocol.messages.recovery import ClusterView
from ..protocol.queries import Said, Survey
from ..recovery.membership import structure

if TYPE_CHECKING:
    from .network import SimulatedNetwork


def survey(network: SimulatedNetwork, broker: BrokerId) -> Said:
    """Return the place that one broker reports; a broker that does not heal stays at its initial position."""
    said = network.broker(broker).ask(Survey())
    return _initial_survey(network, broker) if said is None else said


def survey_of(network: SimulatedNetwork, *, paused: bool = True) -> structure.Survey:
    """Return the places that all living brokers report, with or without paused ones."""
    living = network.living()
    return {
        broker: survey(network, broker) for broker in living if paused or not network.hosts[broker].paused
    }


def _initial_survey(network: SimulatedNetwork, broker: BrokerId) -> Said:
    positions = network.positions
    place = positions[broker]
    common: Said = {
        "broker": broker,
        "cluster": place.cluster,
        "settled": True,
        "closed": (),
        "left": False,
    }
    if place.view is not None:
        view = place.view
        return {
            **common,
            "designated": True,
            "version": view.version,
            "view_members": view.members,
            "membership_view": view,
        }

    def view_of(designated: BrokerId) -> ClusterView:
        there = positions[designated]
        return ClusterView(there.cluster, 0, there.designated, there.members)

    path = [place.cluster]
    above = positions[place.designated].parent
    while above is not None:
        path.insert(0, positions[above].cluster)
        above = positions[positions[above].designated].parent
    speaks = place.role != "NEB"
    return {
        **common,
        "view": view_of(place.designated),
        "designated": speaks,
        "root": place.role == "REB",
        "parent": None if not speaks or place.parent is None else view_of(place.parent),
        "children": tuple(view_of(child) for child in place.children) if speaks else (),
        "path": tuple(path) if speaks else (),
        "term": 1,
    }
