"""Chaos with news of deaths: some are known to the other brokers, early or late, and some news is wrong.

Rules
-----
* In a third of the cases nothing is known: brokers judge silence alone. In the others each death becomes known, or
  all deaths, after a moment, after some heartbeats, or after everybody has long noticed the silence. Then the news may
  be about a broker that has been restarted.
* Wrong news says that a living broker is dead, first of all one that is only paused or slow. Brokers that hear the
  wrongly accused one afterwards must take it for alive.
* It has a source of randomness of its own: what a seed draws otherwise does not change.
"""

from __future__ import annotations

import random
from dataclasses import replace

from .cases import Case, Known, Rumour


def with_known(case: Case) -> Case:
    """Extend a case of a network that heals with news of deaths."""
    if not case.features.heals:
        return case
    rng = random.Random(f"chaos/known/{case.seed}")
    heartbeat, patience = case.features.times.heartbeat_seconds, case.features.times.suspect_after_seconds
    soon = rng.uniform(0.0, 0.2) * heartbeat
    later = rng.uniform(0.5, 2.0) * heartbeat
    late = patience + rng.uniform(0.5, 4.0) * heartbeat
    after = rng.choice((None, None, soon, soon, later, late))
    share = rng.choice((1.0, 0.5))
    moments = [rng.uniform(0.0, 0.95) * case.plan.heal_seconds for _ in range(rng.choice((0, 0, 1, 3)))]
    rumours = tuple(Rumour(at, rng.random(), rng.choice((1.0, 0.5))) for at in sorted(moments))
    if after is None:
        return case
    return replace(case, known=Known(after, share, rumours))
