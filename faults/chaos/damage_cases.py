"""Chaos in which state is damaged, too: what is drawn in addition, without changing what the seed draws otherwise.

Rules
-----
* Parts of the state of brokers are damaged while other things go wrong; brokers compare what they know.
* With stores, positions of durable subscribers and stores are damaged besides; with admission control, books. A broker
  whose store is damaged dies at once, as nothing of a store has an effect before it is read.
* From the last fault it takes so long until all damage is found, and as long as after any fault until it is mended.
  What is published from then on is judged, and nothing before: "from any state, eventually always".

Source: paper 4, section 2 and definition 8; docs/decisions/0043-damaged-state.md and
0052-damaged-stores-books-and-positions.md.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from ...routing.topologies.cluster_trees import topology_of
from ..membership.comparing import STRIKES
from .cases import Case
from .plans import Crash, Damage, Fault

COMPARE_HEARTBEATS: Final = 2.0
"""How often brokers compare, in heartbeats."""

DAMAGES_MAX: Final = 4
ALWAYS: Final = "tables", "numbers", "membership", "deduplicator"
"""What every broker of a network that heals has."""


def with_damage(case: Case) -> Case:
    """Return a case in which parts of the state of brokers are damaged besides."""
    dice = random.Random(f"chaos/damage/{case.seed}")
    brokers = [place.broker for place in topology_of(case.topology).positions()]
    plan = case.plan
    drawn: list[Fault] = [
        Damage(
            round(dice.uniform(0.0, 0.9) * plan.heal_seconds, 3), dice.choice(brokers), dice.choice(ALWAYS)
        )
        for _ in range(dice.randint(1, DAMAGES_MAX))
    ]
    there = (*(("positions", "store") if case.stable else ()), *(("books",) if case.admission else ()))
    for what in there:
        broker, at = dice.choice(brokers), round(dice.uniform(0.0, 0.9) * plan.heal_seconds, 3)
        drawn += [Damage(at, broker, what), *([Crash(at, broker)] if what == "store" else [])]
    faults = sorted((*plan.faults, *drawn), key=lambda fault: fault.at_seconds)
    return that_compares(replace(case, plan=replace(plan, faults=tuple(faults))))


def that_compares(case: Case) -> Case:
    """Return a case whose brokers compare, if its plan damages any."""
    if not is_damaged(case) or case.recovery is None or case.recovery.compare_heartbeats is not None:
        return case
    return replace(case, recovery=replace(case.recovery, compare_heartbeats=COMPARE_HEARTBEATS))


def is_damaged(case: Case) -> bool:
    """Return whether the plan of a case damages state."""
    return any(isinstance(fault, Damage) for fault in case.plan.faults)


def found_heartbeats(case: Case) -> float:
    """Return after how many heartbeats all damage has been found, and the broker has started again; 0 without any."""
    if not is_damaged(case) or case.recovery is None or case.recovery.compare_heartbeats is None:
        return 0.0
    return (STRIKES + 1) * case.recovery.compare_heartbeats + 1
