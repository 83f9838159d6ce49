"""A paper's statements about its results, compared with the measurements: each sentence a row, judged by code.

Rules
-----
* A statement has the words of the paper, their place, the measurement, and whether it holds; it is judged on
  the rows of the experiment alone.
* A statement that is known not to hold has a reason (`known`); any other that does not hold is a failure.
* A parameter that the paper leaves open may be chosen by one published number. The sentence with that number is
  `fitted` then; all others under the same reading are predictions, and are counted apart from it.
* Words are read literally, by these numbers, for all papers alike: "the same" and "constant" are `SAME`,
  "nearly linear" is `LINEAR`, "hardly grows" is `HARDLY`. A curve rises, falls or peaks by more than `SAME`, so that
  no judgement depends on rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

Rows = Sequence[Mapping[str, Any]]
"""What an experiment measured."""

SAME: Final = 0.05
"""Values that differ by at most this share are the same."""

LINEAR: Final = 0.95
"""Points whose correlation is at least this lie nearly on a line."""

HARDLY: Final = 0.25
"""A value hardly grows if it grows with at most this power of the size: 1.8 times for ten times the size."""

Curve = Mapping[float, float]
"""The measurement at each point of a figure, ascending."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of a paper.

    Attributes
    ----------
    source
        Its place.
    text
        Its text.
    measured
        The measurement, as plain data.
    holds
        Whether the measurement agrees.
    known
        Why it does not, if known.
    fitted
        Whether a parameter was chosen so that it holds.
    """

    source: str
    text: str
    measured: Any
    holds: bool
    known: str = ""
    fitted: bool = False

    @property
    def fails(self) -> bool:
        """Whether it does not hold, for no known reason."""
        return not self.holds and not self.known

    def row(self, experiment: str) -> dict[str, Any]:
        """Return it as plain data."""
        return {"experiment": experiment, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Sentences:
    """Makes statements with one source, under one reading of what the source leaves open.

    Attributes
    ----------
    source
        Their place.
    known
        Why a sentence does not hold: by words of it, and words of the source or reading under which it does
        not (empty: under any).
    reading
        The reading; empty if nothing is left open.
    fitted
        The text of the sentence by which a parameter of the reading was chosen; empty for none.
    """

    source: str
    known: Mapping[tuple[str, str], str]
    reading: str = ""
    fitted: str = ""

    def __call__(self, text: str, measured: Any, holds: bool) -> Statement:
        """Return a statement; one that does not hold gets its reason, if known."""
        shown = f"{text} [{self.reading}]" if self.reading else text
        why = "" if holds else self._why(text)
        return Statement(self.source, shown, measured, bool(holds), why, fitted=text == self.fitted)

    def _why(self, text: str) -> str:
        judged = f"{self.source}; {self.reading}"
        return next(
            (why for (said, where), why in self.known.items() if said in text and where in judged), ""
        )


def curve(rows: Rows, at: str, value: str, **where: Any) -> Curve:
    """Return a value by the column `at`, ascending, of the rows with these values in other columns, without nulls."""
    mine = [row for row in rows if all(row[name] == wanted for name, wanted in where.items())]
    found = {row[at]: row[value] for row in mine if row[value] is not None}
    return dict(sorted(found.items()))


def differences(one: Curve, other: Curve) -> dict[float, float]:
    """Return by how much the second curve exceeds the first, at each common point."""
    return {at: other[at] - value for at, value in one.items() if at in other}


def is_same(one: float, other: float) -> bool:
    """Return whether two values are the same, within `SAME`."""
    return abs(one - other) <= SAME * max(abs(one), abs(other))


def knee(one: Curve, other: Curve) -> float | None:
    """Return the last point up to which two curves are the same; None if they differ at the first."""
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
    """Return Pearson's r of the points of a curve up to `up_to`; 0 for fewer than three, or a constant curve."""
    points = [(at, value) for at, value in curve.items() if at <= up_to]
    if len(points) < 3 or len({value for _, value in points}) < 2:
        return 0.0
    return float(np.corrcoef(np.array(points).T)[0, 1])


def slopes(curve: Curve) -> list[float]:
    """Return the slope of a curve from each point to the next."""
    return [(later[1] - one[1]) / (later[0] - one[0]) for one, later in pairwise(sorted(curve.items()))]


def exponent(curve: Curve) -> float:
    """Return the power with which a curve grows: the slope of the logarithms; NaN if there are too few points.

    1 is linear, 0 is no growth. At least two points must be above 0.
    """
    points = [(at, value) for at, value in curve.items() if at > 0 and value > 0]
    if len(points) < 2:
        return float("nan")
    across, up = np.log(np.array(points).T)
    return float(np.polyfit(across, up, 1)[0])


def rises(values: Sequence[float]) -> bool:
    """Return whether values never fall from one to the next."""
    return all(later >= one for one, later in pairwise(values))


def grows(values: Sequence[float]) -> bool:
    """Return whether values end above their beginning and never fall below an earlier one, by more than `SAME`."""
    return _never_below(values) and values[-1] > values[0] and not is_same(values[0], values[-1])


def falls(values: Sequence[float]) -> bool:
    """Return whether values end below their beginning and never rise above an earlier one, by more than `SAME`."""
    return grows(values[::-1])


def peaks(values: Sequence[float]) -> bool:
    """Return whether values rise from their beginning to their highest, and fall from there to their end."""
    top = max(values)
    return all(end < top and not is_same(end, top) for end in (values[0], values[-1]))


def _never_below(values: Sequence[float]) -> bool:
    highest = np.maximum.accumulate(np.array(values))
    return all(
        later >= top or is_same(later, top) for later, top in zip(values, highest.tolist(), strict=True)
    )


def rounded(curve: Curve, digits: int = 6) -> dict[float, float]:
    """Return a curve with rounded values."""
    return {at: round(value, digits) for at, value in curve.items()}
