"""What a paper says of its results, beside what was measured: each sentence a row, judged by code.

Rules
-----
* A statement stands with the words of the paper, where they are, what was measured, and whether it holds; it is judged
  on the rows of the experiment alone.
* One that does not hold and is known not to has a reason (`known`); any other that does not hold is a failure.
* Words are read literally, by these numbers, for all papers alike: "the same" and "constant" are `SAME`, "nearly
  linear" is `LINEAR`, "hardly grows" is `HARDLY`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from .experiment import Rows

SAME: Final = 0.05
"""What differs by no more than this part is the same."""

LINEAR: Final = 0.95
"""Points whose correlation is at least this lie nearly on a line."""

HARDLY: Final = 0.25
"""What grows with at most this power of a size hardly grows: for one ten times as large it is 1.8 times as much."""

Curve = Mapping[float, float]
"""What was measured at each point of a figure, rising."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of a paper.

    Attributes
    ----------
    source
        Where it stands.
    text
        What it says.
    measured
        What was measured, as plain data.
    holds
        Whether that says the same.
    known
        Why it does not, where that is known.
    """

    source: str
    text: str
    measured: Any
    holds: bool
    known: str = ""

    @property
    def fails(self) -> bool:
        """Whether it does not hold, and nobody knows why."""
        return not self.holds and not self.known

    def row(self, experiment: str) -> dict[str, Any]:
        """Return it as plain data."""
        return {"experiment": experiment, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Sentences:
    """Makes statements with one source, under one reading of what it leaves open.

    Attributes
    ----------
    source
        Where they stand.
    known
        Why a sentence does not come out: by words of it, and words of the source or reading under which it does not
        (none: under any).
    reading
        What is read how; nothing where nothing is left open.
    """

    source: str
    known: Mapping[tuple[str, str], str]
    reading: str = ""

    def __call__(self, text: str, measured: Any, holds: bool) -> Statement:
        """Return a statement; one that does not hold has its reason, if that is known."""
        shown = f"{text} [{self.reading}]" if self.reading else text
        return Statement(self.source, shown, measured, bool(holds), "" if holds else self._why(text))

    def _why(self, text: str) -> str:
        judged = f"{self.source}; {self.reading}"
        return next(
            (why for (said, where), why in self.known.items() if said in text and where in judged), ""
        )


def curve(rows: Rows, at: str, value: str, **where: Any) -> Curve:
    """Return a value by the column `at`, rising, of the rows with these values in other columns that have one."""
    mine = [row for row in rows if all(row[name] == wanted for name, wanted in where.items())]
    found = {row[at]: row[value] for row in mine if row[value] is not None}
    return dict(sorted(found.items()))


def differences(one: Curve, other: Curve) -> dict[float, float]:
    """Return by how much the second curve lies above the first, at each point of both."""
    return {at: other[at] - value for at, value in one.items() if at in other}


def is_same(one: float, other: float) -> bool:
    """Return whether two values are the same, as far as words go."""
    return abs(one - other) <= SAME * max(abs(one), abs(other))


def knee(one: Curve, other: Curve) -> float | None:
    """Return the last point up to which two curves are the same; None when they differ at the first."""
    last = None
    for at in sorted(one.keys() & other.keys()):
        if not is_same(one[at], other[at]):
            break
        last = at
    return last


def is_flat(curve: Curve, beyond: float) -> bool:
    """Return whether a curve is constant from a point on."""
    values = [value for at, value in curve.items() if at >= beyond]
    return len(values) > 1 and is_same(min(values), max(values))


def correlation(curve: Curve, up_to: float) -> float:
    """Return how nearly the points of a curve up to one of them lie on a line: Pearson's r; 0 for fewer than three."""
    points = [(at, value) for at, value in curve.items() if at <= up_to]
    if len(points) < 3 or len({value for _, value in points}) < 2:
        return 0.0
    return float(np.corrcoef(np.array(points).T)[0, 1])


def slopes(curve: Curve) -> list[float]:
    """Return how steep a curve is from each point to the next."""
    return [(later[1] - one[1]) / (later[0] - one[0]) for one, later in pairwise(sorted(curve.items()))]


def exponent(curve: Curve) -> float:
    """Return with which power of where it is a curve grows: the slope of the logarithms; NaN when that has no meaning.

    1 is linear, 0 is not at all. At least two points have to be above 0.
    """
    points = [(at, value) for at, value in curve.items() if at > 0 and value > 0]
    if len(points) < 2:
        return float("nan")
    across, up = np.log(np.array(points).T)
    return float(np.polyfit(across, up, 1)[0])


def rises(values: Sequence[float]) -> bool:
    """Return whether values never fall from one to the next."""
    return all(later >= one for one, later in pairwise(values))


def rounded(curve: Curve, digits: int = 6) -> dict[float, float]:
    """Return a curve as it is printed."""
    return {at: round(value, digits) for at, value in curve.items()}
