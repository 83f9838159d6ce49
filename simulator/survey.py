"""Observes a whole simulated network from outside: its structure, and the routes of its brokers.

This module queries brokers and clients; `faults.membership.structure` and `faults.chaos.routes` judge the answers, for
the simulator and for Ray.

In the structure, a paused broker counts as dead: during the pause nobody can tell the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..actors.broker import books_of, routes_of
from ..actors.broker.books import SeenBooks
from ..faults.chaos import books
from ..faults.chaos.books import Links, Way
from ..faults.chaos.routes import route_problems
from ..faults.membership import structure
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages.recovery import ClusterView
from ..routing.schemes.claims import claims_of

if TYPE_CHECKING:
    from .network import SimulatedNetwork
    from .simulation import Simulation


def survey(network: SimulatedNetwork, broker: BrokerId) -> structure.Said:
    """Return the place that one broker reports; a broker that does not heal stays at its initial position."""
    healing = network.broker(broker).healing
    return _standing(network, broker) if healing is None else healing.survey()


def survey_of(network: SimulatedNetwork, *, paused: bool = True) -> structure.Survey:
    """Return the places that all living brokers report, with or without paused ones."""
    living = network.living()
    return {
        broker: survey(network, broker) for broker in living if paused or not network.hosts[broker].paused
    }


def _standing(network: SimulatedNetwork, broker: BrokerId) -> dict[str, Any]:
    positions = network.positions
    place = positions[broker]
    common = {"broker": broker, "cluster": place.cluster, "settled": True, "closed": (), "left": False}
    if place.cube is not None:
        view = place.cube
        return common | {"designated": True, "version": view.version, "seats": view.seats, "cube": view}

    def view_of(designated: BrokerId) -> ClusterView:
        there = positions[designated]
        return ClusterView(there.cluster, 0, there.designated, there.members)

    path = [place.cluster]
    above = positions[place.designated].parent
    while above is not None:
        path.insert(0, positions[above].cluster)
        above = positions[positions[above].designated].parent
    speaks = place.role != "NEB"
    return common | {
        "view": view_of(place.designated),
        "designated": speaks,
        "root": place.role == "REB",
        "parent": None if not speaks or place.parent is None else view_of(place.parent),
        "children": tuple(view_of(child) for child in place.children) if speaks else (),
        "path": tuple(path) if speaks else (),
        "term": 1,
    }


def root_of(network: SimulatedNetwork) -> BrokerId | None:
    """Return the living broker that says it is the root; if there are several, the one with the latest term."""
    return structure.root_of(survey_of(network))


def structure_problems(network: SimulatedNetwork, degree: int | None = None) -> list[str]:
    """Return the errors in the structure, as sentences; none if it is one tree, or all brokers have one view."""
    return structure.structure_problems(survey_of(network, paused=False), degree)


def subscription_problems(network: Simulation) -> list[str]:
    """Return the errors in the subscriptions and the routes, given that the structure is sound."""
    problems = [
        f"{client} #{number} is not confirmed at broker {network.sessions[client].home.id}"
        for client, number in network.unconfirmed()
    ]
    reports = {broker: one for broker, one in survey_of(network).items() if not one["left"]}
    problems += structure.unsettled(reports)
    for name, session in network.sessions.items():
        if not (session.is_publisher or session.left) and session.home.id not in reports:
            problems.append(f"{name} is still at broker {session.home.id}, which is gone")
    if problems:
        return problems
    return route_problems(
        {broker: routes_of(network.broker(broker)) for broker in reports},
        network.books(),
        reports,
        told_first=claims_of(network.scheme).told_first,
    )


def books_seen(network: SimulatedNetwork) -> dict[BrokerId, SeenBooks]:
    """Return the books of the living brokers."""
    return {broker: books_of(network.broker(broker)) for broker in network.living()}


def ways_of(network: SimulatedNetwork) -> tuple[Links, Way]:
    """Return which brokers are linked, and how events travel."""
    return books.ways_of(survey_of(network), network.scheme)


def held_back(network: Simulation) -> list[ClientId]:
    """Return the publishers whose events wait for their quota, or are in flight to their broker."""
    return [
        name
        for name, session in network.sessions.items()
        if session.publisher is not None
        and session.alive
        and (session.link or (session.home.alive and session.home.machine.waiting(name)))
    ]


def durable_problems(network: Simulation) -> list[str]:
    """Return what brokers still hold for durable subscribers at the end of a run, and should not."""
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


def calm_now(simulation: Simulation) -> bool:
    """Return whether no client, and no broker with a store, waits for an acknowledgement."""
    if any(session.link or not session.connected for session in simulation.sessions.values()):
        return False
    stable = [host.machine.stable if host.alive else None for host in simulation.hosts.values()]
    return not any(
        each is None or each.unacknowledged or each.describe()["deliveries_unacknowledged"] for each in stable
    )
