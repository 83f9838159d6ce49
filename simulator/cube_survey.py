"""Looks at a hypercube from outside: whether all have one view of it, and every subscription is recorded everywhere.

Rules (promise 6, for a hypercube)
----------------------------------
* All brokers that live have the same view, and exactly they are in it.
* Every broker has recorded exactly what every other announces, and that covers every subscription of a living client.
* Nobody waits: everything is installed and no link is closed.

A paused broker counts as dead: nobody can tell the difference while it lasts. So does one that is on its way out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..faults.replay.clients import SubscriberMachine
from ..protocol.ids import BrokerId
from ..routing.language.questions import covers

if TYPE_CHECKING:
    from .network import SimulatedNetwork
    from .simulation import Simulation


def structure_problems(network: SimulatedNetwork) -> list[str]:
    """Return what is wrong with the cube, as sentences; none when all that live have one view of it."""
    reports = _reports(network)
    problems: list[str] = []
    newest = max((report["version"] for report in reports.values()), default=0)
    for broker, report in reports.items():
        if report["version"] != newest:
            problems.append(f"broker {broker} has view {report['version']}, the newest is {newest}")
            continue
        members = tuple(seat.broker for seat in report["seats"])
        if members != tuple(reports):
            problems.append(f"broker {broker} sees {members} in view {newest}, alive are {tuple(reports)}")
    return problems


def _reports(network: SimulatedNetwork) -> dict[BrokerId, dict[str, Any]]:
    awake = [broker for broker in network.living() if not network.hosts[broker].paused]
    reports = {}
    for broker in awake:
        healing = network.broker(broker).healing
        if healing is not None:
            report = healing.survey()
            if not report["left"]:
                reports[broker] = report
    return reports


def subscription_problems(network: Simulation) -> list[str]:
    """Return what is wrong with the subscriptions, given that the structure is sound."""
    problems = [
        f"{client} #{number} is not confirmed at broker {network.sessions[client].home.id}"
        for client, number in network.unconfirmed()
    ]
    reports = _reports(network)
    for broker, report in reports.items():
        if report["closed"]:
            problems.append(f"broker {broker} has closed links: {list(report['closed'])}")
        if not report["settled"]:
            problems.append(f"broker {broker} waits for something to be installed, or told")
    if problems:
        return problems
    routers: dict[BrokerId, Any] = {broker: network.broker(broker).router for broker in reports}
    for broker, router in routers.items():
        announced = set(router.announcer.announced())
        for other, theirs in routers.items():
            if other != broker and set(theirs.others.held_by(broker, broker)) != announced:
                problems.append(f"broker {other} has not recorded what broker {broker} wants")
    for session in network.sessions.values():
        machine = session.machine
        if isinstance(machine, SubscriberMachine) and session.home.id in routers:
            announced = set(routers[session.home.id].announcer.announced())
            for number, wanted in machine.subscriptions().items():
                if not any(covers(item, wanted) for item in announced):  # type: ignore[arg-type]
                    problems.append(f"{session.name} #{number} is not announced by broker {session.home.id}")
    return problems
