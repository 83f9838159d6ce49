"""Runs a scenario in virtual time and returns the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..protocol.errors import InputError, ScenarioError
from ..protocol.ids import ClientId
from ..protocol.scenarios.scenario import Publish, Scenario, Settle, Subscribe, Unsubscribe
from ..protocol.scenarios.scenario import Step as ScenarioStep
from ..protocol.scenarios.steps import broker_of
from ..protocol.traces.trace import Trace
from ..routing.topologies.cluster_trees import topology_of
from .simulation import Simulation
from .transport import Traffic


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a scenario.

    Attributes
    ----------
    scenario
        The scenario with the steps that were run.
    deliveries
        For each client that subscribed, (publisher, sequence) of its notifications, in order.
    unconfirmed
        Subscriptions whose installation was never confirmed: messages were lost.
    traffic
        Messages by kind of link.
    steps, lost
        The number of messages that brokers took in, and of copies that links lost.
    virtual_seconds
        The duration.
    trace
        What clients did and received, in order.
    """

    scenario: Scenario
    deliveries: dict[ClientId, list[tuple[ClientId, int]]]
    unconfirmed: list[tuple[ClientId, int]]
    traffic: dict[str, Traffic]
    steps: int
    lost: int
    virtual_seconds: float
    trace: Trace


def run_scenario(scenario: Scenario, **options: object) -> Outcome:
    """Run a scenario to its end and return the result.

    Parameters
    ----------
    scenario
        The scenario.
    options
        Passed on to :class:`Simulation`: `telemetry`, `trace_events`, `record`.

    Raises
    ------
    TopologyError, ScenarioError
        If the network cannot be built, or a step cannot be done; the message says which one.
    """
    return run_prepared(*prepare(scenario, **options))


def run_prepared(simulation: Simulation, explicit: Scenario) -> Outcome:
    """Run a scenario as `prepare` returns it to its end; its network can be inspected afterwards."""
    unconfirmed = []
    for place, step in enumerate(explicit.steps):
        try:
            confirmed = do_step(simulation, step, explicit.publish_interval_seconds)
        except InputError as error:
            raise ScenarioError(f"steps[{place}]: {error}") from error
        if isinstance(step, Subscribe) and not confirmed:
            unconfirmed.append((step.client, step.number))
    simulation.run()
    simulation.account.settled(simulation.now)
    deliveries: dict[ClientId, list[tuple[ClientId, int]]] = {
        step.client: [] for step in explicit.steps if isinstance(step, Subscribe)
    }
    for note in simulation.account.notifications():
        deliveries[note.client].append((note.publisher, note.sequence))
    return Outcome(
        scenario=explicit,
        deliveries=deliveries,
        unconfirmed=unconfirmed,
        traffic=simulation.traffic(),
        steps=simulation.steps,
        lost=simulation.lost,
        virtual_seconds=simulation.now,
        trace=simulation.account,
    )


def prepare(scenario: Scenario, **options: Any) -> tuple[Simulation, Scenario]:
    """Return the network of a scenario before its first step, and the scenario with explicit steps."""
    topology = topology_of(scenario.topology)
    positions = topology.positions()
    simulation = Simulation(
        positions,
        scenario.scheme,
        links=scenario.links,
        seed=scenario.seed,
        delay_of=topology.path_seconds,
        **options,
    )
    return simulation, scenario.explicit(positions)


def do_step(simulation: Simulation, step: ScenarioStep, publish_interval_seconds: float = 0.0) -> bool:
    """Do one step whose broker is an id; return False only for a subscription that was never confirmed."""
    if isinstance(step, Subscribe):
        simulation.subscribe(step.client, broker_of(step), step.selector, step.number)
        return simulation.run_until_installed(step.client, step.number)
    if isinstance(step, Unsubscribe):
        simulation.unsubscribe(step.client, step.number)
        simulation.advance(simulation.links.client_seconds)
    elif isinstance(step, Publish):
        simulation.publish(step.client, broker_of(step), step.events)
        simulation.advance(publish_interval_seconds)
    elif isinstance(step, Settle):
        simulation.run()
        simulation.account.settled(simulation.now)
    return True
