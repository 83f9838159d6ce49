"""Broker steps per second of the simulator, in one process.

A step is one message that one broker receives, matches, and answers with effects that are carried out. The
load is a market of random selectors and single events over a tree of clusters under hybrid routing (the
generator of scenarios). Subscribing is not measured; the network is quiescent when the first event is
published.
"""

from __future__ import annotations

import gc
import time
from dataclasses import asdict

from ..protocol.scenarios.scenario import LinkModel, Publish, Scenario, Subscribe, Workload
from ..protocol.scenarios.steps import broker_of
from ..simulator.run import prepare
from ..simulator.simulation import Simulation

LARGE_CLUSTERS = 500


def run(
    *,
    clusters: int = 100,
    brokers_per_cluster: int = 10,
    subscribers: int = 300,
    publications: int = 3_000,
    seed: int = 0,
    scheme: str = "hybrid",
    jitter_seconds: float = 0.0,
    large: bool = True,
) -> dict[str, object]:
    """Run the benchmark, and return the figures as plain data.

    Parameters
    ----------
    clusters, brokers_per_cluster
        The network; degree 8.
    subscribers, publications
        The load: one subscription each, one event each.
    seed, scheme, jitter_seconds
        As in a scenario.
    large
        Whether to measure a network of 5,000 brokers too, under the key ``large``.
    """
    result = {"benchmark": "simulator"} | _measure(
        clusters, brokers_per_cluster, subscribers, publications, seed, scheme, jitter_seconds
    )
    if large:
        size = LARGE_CLUSTERS, brokers_per_cluster, subscribers * 5, max(1, publications // 10)
        result["large"] = _measure(*size, seed, scheme, jitter_seconds)
    return result


def _measure(
    clusters: int,
    brokers_per_cluster: int,
    subscribers: int,
    publications: int,
    seed: int,
    scheme: str,
    jitter_seconds: float,
) -> dict[str, object]:
    scenario = Scenario(
        name="benchmark",
        topology={"clusters": clusters, "brokers_per_cluster": brokers_per_cluster},
        scheme=scheme,
        seed=seed,
        links=LinkModel(jitter_seconds=jitter_seconds),
        workload=Workload(subscribers, max(1, subscribers // 10), publications),
    )
    started = time.perf_counter()
    simulation, explicit = prepare(scenario, keep_notifications=False)
    built = time.perf_counter()
    _subscribe_all(simulation, explicit)
    publishing = [step for step in explicit.steps if isinstance(step, Publish)]
    before = simulation.steps
    gc.collect()
    subscribed, busy = time.perf_counter(), time.process_time()
    for step in publishing:
        simulation.publish(step.client, broker_of(step), step.events)
        simulation.advance(explicit.publish_interval_seconds)
    simulation.run()
    seconds, cpu_seconds = time.perf_counter() - subscribed, time.process_time() - busy
    steps = simulation.steps - before
    return {
        "steps_per_second": round(steps / seconds),
        "steps_per_cpu_second": round(steps / cpu_seconds),  # as on an otherwise idle machine
        "steps": steps,
        "seconds": round(seconds, 3),
        "brokers": clusters * brokers_per_cluster,
        "subscriptions": subscribers,
        "events_published": len(publishing),
        "notifications": simulation.notified,
        "traffic": {kind: count.events for kind, count in simulation.traffic().items()},
        "build_seconds": round(built - started, 3),
        "subscribe_seconds": round(subscribed - built, 3),
        "scheme": scheme,
        "links": asdict(scenario.links),
    }


def _subscribe_all(simulation: Simulation, scenario: Scenario) -> None:
    for step in scenario.steps:
        if isinstance(step, Subscribe):
            simulation.subscribe(step.client, broker_of(step), step.selector, step.number)
    simulation.run()
