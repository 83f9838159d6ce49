"""Judges a whole simulated network from outside: its structure, the routes and the books of its brokers.

This module queries brokers and clients; `faults.plans` judges the answers, for the simulator and for Ray.

In the structure, a paused broker counts as dead: during the pause nobody can tell the difference.
"""

from __future__ import annotations

from random import Random

from ...broker import books_of, routes_of
from ...protocol.ids import BrokerId, ClientId
from ...protocol.queries import WaitingOf
from ...recovery.durability.durable_clients import DurableClients
from ...recovery.membership import structure
from ...routing.schemes.registry import scheme as scheme_of
from ...simulator.network import SimulatedNetwork
from ...simulator.simulation import Simulation
from ...simulator.survey import survey_of
from .. import damage as damages
from ..checker.books import Clients, ways_of
from ..checker.books import books_problems as problems_of_books
from ..checker.routes import route_problems
from ..plans.plans import HostLink, OfConnections


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
        clients_of(network),
        reports,
        announces_first=scheme_of(network.scheme).claims.announces_first,
    )


def clients_of(network: Simulation) -> Clients:
    """Return what clients want, advertise and were told, for checks of the books."""
    here = {name: session for name, session in network.sessions.items() if not session.left}
    subscribers = {name: one.subscriber for name, one in here.items() if one.subscriber is not None}
    return Clients(
        homes={name: session.home.id for name, session in here.items()},
        adverts={
            name: item
            for name, session in here.items()
            if session.publisher is not None and session.alive
            for item, _, _ in session.publisher.adverts.values()
        },
        wanted={name: machine.subscriptions for name, machine in subscribers.items()},
        lacking={name: machine.lacking for name, machine in subscribers.items()},
    )


def books_problems(network: Simulation) -> list[str]:
    """Return the errors in the books of all brokers, given that the network is sound; none without books."""
    if not network.features.admits:
        return []
    seen = {broker: books_of(network.broker(broker)) for broker in network.living()}
    books = {broker: books for broker, books in seen.items() if books is not None}
    links, way = ways_of(survey_of(network), network.scheme)
    return problems_of_books(books, links, clients_of(network), way)


def held_back(network: Simulation) -> list[ClientId]:
    """Return the publishers whose events wait for their quota, or are in flight to their broker."""
    return [
        name
        for name, session in network.sessions.items()
        if session.publisher is not None
        and session.alive
        and (session.link or (session.home.alive and session.home.machine.ask(WaitingOf(name))))
    ]


def durable_problems(network: Simulation) -> list[str]:
    """Return what brokers still hold for durable subscribers at the end of a run, and should not."""
    problems = []
    for broker in network.living():
        for name, entry in network.broker(broker).layer(DurableClients).entries.items():
            home = network.sessions[name].home.id
            if home != broker:
                problems.append(f"broker {broker} holds durable {name}, which is at {home}")
            elif len(entry):
                problems.append(
                    f"broker {broker} holds {len(entry)} notifications that {name} has acknowledged"
                )
    return problems


def damage(network: SimulatedNetwork, broker: BrokerId, what: str = "tables") -> int:
    """Damage a part of the state of a broker, with its own random choices; return how many values were changed."""
    host = network.hosts[broker]
    rng = Random(f"damage/{network.seed}/{broker}/{network.now}")
    if what == "store":
        return damages.damage_store(host.store, rng)
    return damages.damage(host.machine, what, rng) if host.alive else 0


class BreakableSimulation(Simulation):
    """A simulation into which an injector can bring every fault of a plan."""

    def damage(self, broker: BrokerId, what: str) -> int:
        """Damage a part of the state of a broker; return how many values were changed."""
        return damage(self, broker, what)

    def host_link(self, fault: HostLink) -> bool:
        """Do nothing: there are no hosts in virtual time."""
        return False

    def harm_connections(self, fault: OfConnections) -> str:
        """Do nothing: nothing is lost on the way between two brokers in virtual time."""
        return "there are no connections in virtual time"
