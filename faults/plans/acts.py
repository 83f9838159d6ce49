"""The acts of a case: what lies between its intermissions, each a case of its own on the same network.

Rules
-----
* Times of an act count from its start. A fault or an action at the moment of an intermission is in the act after it.
* At an intermission everybody comes back: what stays dead does so after the last act only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from .cases import Action, Case, Operation, Rumour
from .plans import CrashRoot, Fault, Leave

Timed = TypeVar("Timed", Fault, Action, Operation, Rumour)


def acts_of(case: Case) -> list[Case]:
    """Return the acts of a case in order: the case itself, if it has no intermission."""
    if not case.intermissions:
        return [case]
    bounds = [0.0, *case.intermissions, case.plan.heal_seconds]
    return [_act(case, place, start, end) for place, (start, end) in enumerate(pairwise(bounds))]


def _act(case: Case, place: int, start: float, end: float) -> Case:
    def of_act(timed: Iterable[Timed]) -> tuple[Timed, ...]:
        return tuple(
            replace(each, at_seconds=each.at_seconds - start)
            for each in timed
            if bisect_right(case.intermissions, each.at_seconds) == place
        )

    last = place == len(case.intermissions)
    faults = of_act(case.plan.faults)
    plan = replace(
        case.plan,
        faults=faults if last else tuple(map(_for_one_act, faults)),
        heal_seconds=end - start,
        stay_dead=case.plan.stay_dead if last else (),
    )
    known = case.known
    if known is not None:
        known = replace(known, rumours=of_act(known.rumours))
    return replace(
        case,
        plan=plan,
        actions=of_act(case.actions),
        operations=of_act(case.operations),
        known=known,
        intermissions=(),
    )


def _for_one_act(fault: Fault) -> Fault:
    return replace(fault, comes_back=True) if isinstance(fault, CrashRoot | Leave) else fault


__all__ = ["acts_of"]
