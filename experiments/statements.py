"""A paper's statements about its results, compared with the measurements: each sentence a row, judged by code.

Rules
-----
* A statement has the words of the paper, their place, the measurement, and whether it holds; it is judged on
  the rows of the experiment alone.
* A statement that is known not to hold has a reason (`known`); any other that does not hold is a failure.
* A parameter that the paper leaves open may be chosen by one published number. The sentence with that number is
  `fitted` then; all others under the same reading are predictions, and are counted apart from it.
* A sentence that no choice of what is open can fulfil is `impossible`, and its reason is the argument.
* Words are read literally, by these numbers, for all papers alike: "the same" and "constant" are `SAME`,
  "nearly linear" is `LINEAR`, "hardly grows" is `HARDLY`. A curve rises, falls or peaks by more than `SAME`, an order
  may be violated by no more than that, and what is "clearly" less is less by more, so that no judgement depends on
  rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import log10
from typing import Final, Literal, TypeAlias

import numpy as np

from .rows import Rows

SAME: Final = 0.05
"""Values that differ by at most this share are the same."""

LINEAR: Final = 0.95
"""Points whose correlation is at least this lie nearly on a line."""

HARDLY: Final = 0.25
"""A value hardly grows if it grows with at most this power of the size: 1.8 times for ten times the size."""

Curve = Mapping[float, float]
"""The measurement at each point of a figure, ascending."""

Scale: TypeAlias = Literal["linear", "logarithmic"]

SCALES: Final[Mapping[Scale, Callable[[float], float]]] = {
    "linear": float,
    "logarithmic": lambda value: log10(value) if value > 0 else float("nan"),
}
"""Where an axis shows a value."""


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
    impossible
        Whether it holds under no choice of what its source leaves open; `known` is the argument.
    """

    source: str
    text: str
    measured: object
    holds: bool
    known: str = ""
    fitted: bool = False
    impossible: bool = False

    @property
    def fails(self) -> bool:
        """Whether it does not hold, for no known reason."""
        return not self.holds and not self.known

    def row(self, experiment: str) -> dict[str, object]:
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
        Words of the sentences by which parameters of the reading were chosen.
    impossible
        Arguments why a sentence can hold under no reading, by words as those of `known`.
    """

    source: str
    known: Mapping[tuple[str, str], str]
    reading: str = ""
    fitted: tuple[str, ...] = ()
    impossible: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def __call__(self, text: str, measured: object, holds: bool) -> Statement:
        """Return a statement; one that does not hold gets its reason, if known."""
        shown = f"{text} [{self.reading}]" if self.reading else text
        argument = "" if holds else self._why(text, self.impossible)
        why = "" if holds else argument or self._why(text, self.known)
        fitted = any(words in text for words in self.fitted)
        return Statement(self.source, shown, measured, bool(holds), why, fitted, bool(argument))

    def _why(self, text: str, reasons: Mapping[tuple[str, str], str]) -> str:
        judged = f"{self.source}; {self.reading}"
        return next((why for (said, where), why in reasons.items() if said in text and where in judged), "")


def curve(rows: Rows, at: str, value: str, **where: object) -> Curve:
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


def is_less(one: float, other: float) -> bool:
    """Return whether a value is less than another, by more than `SAME`."""
    return one < other and not is_same(one, other)


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


def correlation(curve: Curve, up_to: float, *, across: Scale = "linear", up: Scale = "linear") -> float:
    """Return Pearson's r of the points of a curve up to `up_to`, on axes of these scales.

    It is 0 for fewer than three points, or a constant curve. What has no logarithm is left out of a logarithmic axis.
    """
    points = {(SCALES[across](at), SCALES[up](value)) for at, value in curve.items() if at <= up_to}
    shown = sorted(point for point in points if np.isfinite(point).all())
    if len(shown) < 3 or len({value for _, value in shown}) < 2:
        return 0.0
    return float(np.corrcoef(np.array(shown).T)[0, 1])


def slopes(curve: Curve, across: Scale = "linear") -> list[float]:
    """Return the slope of a curve from each point to the next, by the distance of the points on the axis."""
    points = [(SCALES[across](at), value) for at, value in sorted(curve.items())]
    return [(later[1] - one[1]) / (later[0] - one[0]) for one, later in pairwise(points)]


def by_decades(curve: Curve) -> dict[float, float]:
    """Return the points of a curve at powers of ten: those that are as far apart as the eye sees on its axis."""
    return {at: value for at, value in curve.items() if at > 0 and log10(at).is_integer()}


def exponent(curve: Curve) -> float:
    """Return the power with which a curve grows: the slope of the logarithms; NaN if there are too few points.

    1 is linear, 0 is no growth. At least two points must be above 0.
    """
    points = [(at, value) for at, value in curve.items() if at > 0 and value > 0]
    if len(points) < 2:
        return float("nan")
    across, up = np.log(np.array(points).T)
    return float(np.polyfit(across, up, 1)[0])


def never_falls(values: Sequence[float]) -> bool:
    """Return whether no value is below an earlier one by more than `SAME`."""
    highest = np.maximum.accumulate(np.array(values)).tolist()
    return all(later >= top or is_same(later, top) for later, top in zip(values, highest, strict=True))


def grows(values: Sequence[float]) -> bool:
    """Return whether values end above their beginning and never fall below an earlier one, by more than `SAME`."""
    return never_falls(values) and is_less(values[0], values[-1])


def falls(values: Sequence[float]) -> bool:
    """Return whether values end below their beginning and never rise above an earlier one, by more than `SAME`."""
    return grows(values[::-1])


def steepens(curve: Curve) -> bool:
    """Return whether a curve rises by ever more from one power of ten to the next, and never falls.

    Values that are the same are no rise, whatever their last digits are.
    """
    values = list(by_decades(curve).values())
    steps = [0.0 if is_same(*pair) else pair[1] - pair[0] for pair in pairwise(values)]
    return len(steps) > 1 and min(steps) >= 0 and grows(steps)


def peaks(values: Sequence[float]) -> bool:
    """Return whether values rise from their beginning to their highest, and fall from there to their end."""
    top = max(values)
    return all(is_less(end, top) for end in (values[0], values[-1]))


def rounded(curve: Curve, digits: int = 6) -> dict[float, float]:
    """Return a curve with rounded values."""
    return {at: round(value, digits) for at, value in curve.items()}
