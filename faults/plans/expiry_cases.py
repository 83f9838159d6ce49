"""Chaos with events that expire: some that are published during the faults have a time to live.

Rules
-----
* It is short enough to pass on the way, while a broker is dead, or while a durable subscriber is; or so long that the
  event must be delivered although it has one.
* Half of the cases have none. Where no loss is excused nothing expires, since what has expired is owed to nobody.
* It has a source of randomness of its own: what a seed draws otherwise does not change.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from .cases import Case

TTL_SECONDS: Final = (0.05, 0.3, 1.0, 4.0, 15.0, 1e6)


def with_ttls(case: Case) -> Case:
    """Extend a case with times to live."""
    rng = random.Random(f"chaos/expiry/{case.seed}")
    if rng.random() < 0.5 or case.lossless:
        return case
    actions = tuple(
        replace(action, ttl_seconds=rng.choice(TTL_SECONDS))
        if action.do == "publish" and rng.random() < 0.6
        else action
        for action in case.actions
    )
    return replace(case, actions=actions)
