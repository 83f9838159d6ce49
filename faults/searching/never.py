"""What a search has never reached, the most surprising first.

Rule: two things that were each reached often, but never together, say more than those that hardly happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .seen import Point


class Never(NamedTuple):
    """A kind of message that was never handled with a part of a layer in a state, each of which happened.

    Attributes
    ----------
    kind, state
        The type of the message or event, and a part of a layer, its attribute and its value.
    runs
        In how many runs the rarer of the two happened.
    """

    kind: str
    state: str
    runs: int


def never_handled(reached: Mapping[Point, int], taken: Iterable[str]) -> list[str]:
    """Return the kinds of messages and events that brokers take, and none was ever handled."""
    handled = {point.partition(": ")[0] for point in reached if isinstance(point, str)}
    return sorted(set(taken) - handled)


def never_together(reached: Mapping[Point, int]) -> list[Never]:
    """Return which kinds and states were never together, those of which both happened most often first."""
    kinds: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for point, runs in reached.items():
        if isinstance(point, str) and " at " in point:
            kind, _, state = point.partition(" at ")
            kinds[kind] = max(kinds[kind], runs)
            states[state] = max(states[state], runs)
    found = [
        Never(kind, state, min(of_kind, of_state))
        for kind, of_kind in kinds.items()
        for state, of_state in states.items()
        if f"{kind} at {state}" not in reached
    ]
    return sorted(found, key=lambda each: (-each.runs, each.kind, each.state))


__all__ = ["Never", "never_handled", "never_together"]
