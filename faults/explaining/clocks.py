"""Aligns the clocks of processes by the messages between them, and says how exact that is.

Rules
-----
* A message that left when the clock of A read `sent` and arrived when the clock of B read `came` took some time, at
  least none. So the clock of B is ahead of that of A by at most ``came - sent``. Messages the other way bound it from
  below. Bounds add up along a way over several processes: they are shortest paths.
* A clock is moved only if the bounds say that it must be: to the middle of its bounds, or, if only one side is bounded,
  to that bound. What the bounds leave open is the error that remains.
* Pure.

Source: A. Duda, G. Harrus, Y. Haddad, G. Bernard: Estimating Global Time in Distributed Systems, ICDCS 1987 (bounds by
messages in both directions).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Clock: TypeAlias = int
"""A process with a clock of its own: a broker."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """How far each clock is ahead of that of one process, and how exactly that is known.

    Attributes
    ----------
    reference
        The process whose clock counts.
    ahead
        How far each other clock is ahead of it; 0.0 for those that need not be moved. Seconds.
    errors
        By how much that may be wrong; infinite where messages bound it on one side only, or not at all.
    """

    reference: Clock
    ahead: Mapping[Clock, float]
    errors: Mapping[Clock, float]

    def time(self, clock: Clock, at: float) -> float:
        """Return a time of a clock as the reference would have read it."""
        return at - self.ahead.get(clock, 0.0)

    @property
    def words(self) -> str:
        """How exact it is, as a sentence without its end."""
        moved = sum(bool(ahead) for ahead in self.ahead.values())
        known = [error for error in self.errors.values() if error < math.inf]
        loose = len(self.errors) - len(known)
        text = (
            "as far as messages tell, the clocks agree"
            if not moved
            else f"{moved} of {len(self.ahead)} clocks were moved to fit the messages between them"
        )
        if known:
            text += f"; times of different brokers compare to within {1000 * max(known):.1f} ms"
        if loose:
            clocks = "1 clock" if loose == 1 else f"{loose} clocks"
            text += f"; nothing bounds {clocks} on both sides, because messages went one way only"
        return text


def align(
    messages: Iterable[tuple[Clock, float, Clock, float]], reference: Clock, clocks: Iterable[Clock]
) -> Alignment:
    """Return the alignment that messages allow.

    Parameters
    ----------
    messages
        (sender, when it left, receiver, when it came), each time by the clock of that process.
    reference
        The process whose clock counts.
    clocks
        All processes; those without messages have no bounds.
    """
    names = list(dict.fromkeys((reference, *clocks)))
    bounds = {one: dict.fromkeys(names, math.inf) for one in names}
    for source, sent, to, came in messages:
        if source in bounds and to in bounds[source] and source != to:
            bounds[source][to] = min(bounds[source][to], came - sent)
    for middle in names:
        for one in names:
            if (first := bounds[one][middle]) < math.inf:
                for other in names:
                    bounds[one][other] = min(bounds[one][other], first + bounds[middle][other])
    ahead, errors = {}, {}
    for clock in names:
        if clock != reference:
            ahead[clock], errors[clock] = _between(-bounds[clock][reference], bounds[reference][clock])
    return Alignment(reference, ahead, errors)


def _between(least: float, most: float) -> tuple[float, float]:
    """Return how far ahead a clock is, within bounds, and the error."""
    if least <= 0.0 <= most:
        return 0.0, max(-least, most)
    if math.isinf(least) or math.isinf(most):
        return (most if math.isinf(least) else least), math.inf
    return (least + most) / 2, abs(most - least) / 2


__all__ = ["Alignment", "align"]
