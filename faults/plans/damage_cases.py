"""Chaos with damaged state: additional draws that do not change what the seed draws otherwise.

Rules
-----
* Parts of the state of brokers are damaged while other faults happen. The brokers run comparisons.
* With stores, the positions of durable subscribers and the stores are damaged too; with admission control,
  the books. A broker whose store is damaged crashes at once, because a store has no effect before it is read.
* After the last fault there is a fixed time until all damage is found, and the same time as after any fault
  until it is mended. Only what is published from then on is judged: "from any state, eventually always".

Source: paper 4, section 2 and definition 8; docs/decisions/0043-damaged-state.md and
0052-damaged-stores-books-and-positions.md.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from ...recovery.membership.comparing import STRIKES
from ...routing.topologies.cluster_trees import topology_of
from .cases import Case
from .plans import Crash, Damage, Fault

COMPARE_HEARTBEATS: Final = 2.0
"""The interval of the comparisons, in heartbeats."""

DAMAGES_MAX: Final = 4
ALWAYS: Final = "tables", "numbers", "membership", "deduplicator"
"""The parts of state that every broker of a healing network has."""


def with_damage(case: Case) -> Case:
    """Extend a case with damage to parts of the state of brokers."""
    rng = random.Random(f"chaos/damage/{case.seed}")
    brokers = [place.broker for place in topology_of(case.topology).positions()]
    plan = case.plan
    drawn: list[Fault] = [
        Damage(round(rng.uniform(0.0, 0.9) * plan.heal_seconds, 3), rng.choice(brokers), rng.choice(ALWAYS))
        for _ in range(rng.randint(1, DAMAGES_MAX))
    ]
    there = (*(("positions", "store") if case.stable else ()), *(("books",) if case.features.admits else ()))
    for what in there:
        broker, at = rng.choice(brokers), round(rng.uniform(0.0, 0.9) * plan.heal_seconds, 3)
        drawn += [Damage(at, broker, what), *([Crash(at, broker)] if what == "store" else [])]
    faults = sorted((*plan.faults, *drawn), key=lambda fault: fault.at_seconds)
    return that_compares(replace(case, plan=replace(plan, faults=tuple(faults))))


def that_compares(case: Case) -> Case:
    """Return a case whose brokers compare, if its plan damages any of them."""
    if not is_damaged(case) or not case.features.heals or case.features.compares:
        return case
    return replace(case, recovery=replace(case.features.times, compare_heartbeats=COMPARE_HEARTBEATS))


def is_damaged(case: Case) -> bool:
    """Return whether the plan of a case damages state."""
    return any(isinstance(fault, Damage) for fault in case.plan.faults)


def found_heartbeats(case: Case) -> float:
    """Return the heartbeats until all damage has been found and the broker has restarted; 0 without damage."""
    often = case.features.usual_times.compare_heartbeats
    if not is_damaged(case) or often is None:
        return 0.0
    return (STRIKES + 1) * often + 1
