"""The acts of a case: what lies between its intermissions, each a case of its own on the same network.

Rules
-----
* Times of an act count from its start. A fault or an action at the moment of an intermission is in the act after it.
* At an intermission everybody comes back: what stays dead does so after the last act only.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise

from .cases import Case
from .plans import CrashRoot, Fault, Leave


def acts_of(case: Case) -> list[Case]:
    """Return the acts of a case in order: the case itself, if it has no intermission."""
    if not case.intermissions:
        return [case]
    bounds = [0.0, *case.intermissions, case.plan.heal_seconds]
    return [_act(case, place, start, end) for place, (start, end) in enumerate(pairwise(bounds))]


def _act(case: Case, place: int, start: float, end: float) -> Case:
    def mine(at_seconds: float) -> bool:
        return bisect_right(case.intermissions, at_seconds) == place

    last = place == len(case.intermissions)
    faults = [
        replace(each, at_seconds=each.at_seconds - start)
        for each in case.plan.faults
        if mine(each.at_seconds)
    ]
    plan = replace(
        case.plan,
        faults=tuple(faults if last else map(_for_one_act, faults)),
        heal_seconds=end - start,
        stay_dead=case.plan.stay_dead if last else (),
    )
    known = case.known
    if known is not None:
        rumours = [
            replace(each, at_seconds=each.at_seconds - start)
            for each in known.rumours
            if mine(each.at_seconds)
        ]
        known = replace(known, rumours=tuple(rumours))
    return replace(
        case,
        plan=plan,
        actions=tuple(
            replace(each, at_seconds=each.at_seconds - start)
            for each in case.actions
            if mine(each.at_seconds)
        ),
        operations=tuple(
            replace(each, at_seconds=each.at_seconds - start)
            for each in case.operations
            if mine(each.at_seconds)
        ),
        known=known,
        intermissions=(),
    )


def _for_one_act(fault: Fault) -> Fault:
    return replace(fault, comes_back=True) if isinstance(fault, CrashRoot | Leave) else fault


__all__ = ["acts_of"]
