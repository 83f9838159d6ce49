"""Chaos with faults of connections: additional draws for networks whose links are connections between processes.

Rules
-----
* A case with and without them has the same network, clients and other faults: they have a source of randomness of
  their own. One seed in four gets none.
* The first fault of the plan, which may be aimed, stays the first.
* Each kind harms a connection that carries calls in both directions, also those of clients. Faults that last end
  with the plan at the latest, as every fault.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from ...protocol.ids import BrokerId
from ...routing.topologies.cluster_trees import topology_of
from .cases import Case
from .plans import Fault, RefuseConnections, ResetConnections, StopReading

CONNECTION_KINDS: Final = {"reset_connections": 3, "stop_reading": 2, "refuse_connections": 2}
"""The kinds of faults and their weights."""

CONNECTION_FAULTS_MAX: Final = 3
LASTS: Final = 0.05, 0.5
"""How long a fault lasts at least and at most, as a part of the time until everything is healed."""


def with_connection_faults(case: Case) -> Case:
    """Extend a case with faults of connections."""
    rng = random.Random(f"chaos/connections/{case.seed}")
    brokers = [place.broker for place in topology_of(case.topology).positions()]
    plan, words, weights = case.plan, list(CONNECTION_KINDS), list(CONNECTION_KINDS.values())
    first = plan.faults[0].at_seconds if plan.faults else 0.0
    drawn = [
        _drawn(rng, rng.choices(words, weights)[0], rng.choice(brokers), first, plan.heal_seconds)
        for _ in range(rng.randint(0, CONNECTION_FAULTS_MAX))
    ]
    faults = sorted((*plan.faults, *drawn), key=lambda fault: fault.at_seconds)
    return replace(case, plan=replace(plan, faults=tuple(faults)))


def _drawn(rng: random.Random, kind: str, broker: BrokerId, first: float, seconds: float) -> Fault:
    at = round(max(first, rng.uniform(0.0, 0.9) * seconds), 3)
    lasts = round(rng.uniform(*LASTS) * seconds, 3)
    if kind == "reset_connections":
        return ResetConnections(at, broker)
    return (StopReading if kind == "stop_reading" else RefuseConnections)(at, broker, lasts)
