"""Loads of the matching benchmark: filters and events, as numbers that a brute force can read, too.

Rule: a filter's constraint is an attribute, a first and a last value; an event's value is an integer, -1 if
absent. For word attributes the numbers identify words, and each constraint is an equality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ..protocol.batch import Column, EventBatch, batch_from_columns
from ..protocol.values import Kind
from ..routing.filters.domains import Domain, Interval
from ..routing.filters.filter import Clause, Filter
from ..routing.filters.strings import Strings

DOMAIN: Final = 1_000_000
KINDS: Final = ("intervals", "sparse", "equality", "strings", "skewed")
WORDS: Final = 1_000
"""Distinct words of a load of strings, and distinct values of a load of equalities."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a load.

    Attributes
    ----------
    kind
        ``intervals``: closed intervals, events with all attributes. ``sparse``: each event has a tenth of the
        attributes. ``equality``: each constraint is one of a thousand values. ``strings``: one constraint
        names one of a thousand words, the others are intervals. ``skewed``: values and intervals are
        concentrated at the low end.
    attributes, constrained
        The number of attributes, and how many of them each filter constrains.
    width
        The width of each interval, as a share of the domain.
    """

    kind: str = "intervals"
    attributes: int = 10
    constrained: int = 5
    width: float = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """Filters and events.

    Attributes
    ----------
    chosen, lows, highs
        ``[filters, constrained]``: each constraint's attribute, first and last value.
    values
        ``[attributes, events]``: -1 if an event has no value.
    words
        The number of attributes, from the first on, whose values are words.
    """

    chosen: Integers
    lows: Integers
    highs: Integers
    values: Integers
    words: int = 0

    def filters(self, begin: int, end: int) -> list[Filter]:
        """Return a range of the filters."""
        rows = zip(*(part[begin:end].tolist() for part in (self.chosen, self.lows, self.highs)), strict=True)
        return [
            Filter((Clause(tuple(map(self._constraint, chosen, lows, highs))),))
            for chosen, lows, highs in rows
        ]

    def _constraint(self, attribute: int, low: int, high: int) -> tuple[str, Domain]:
        if attribute < self.words:
            return f"a{attribute:03}", Domain(strings=Strings((Interval(f"w{low}", f"w{low}"),)))
        return f"a{attribute:03}", Domain(numbers=(Interval(low, high),))

    def batch(self) -> EventBatch:
        """Return the events."""
        return batch_from_columns(dict(self._columns()), self.values.shape[1])

    def _columns(self) -> Iterator[tuple[tuple[str, Kind], Column]]:
        for attribute, line in enumerate(self.values):
            there = line >= 0
            present = None if there.all() else there
            name = f"a{attribute:03}"
            if attribute < self.words:
                used, codes = np.unique(line, return_inverse=True)
                words = tuple(f"w{code}" for code in used.tolist())
                yield (
                    (name, Kind.STRING),
                    Column(Kind.STRING, codes.reshape(-1).astype(np.int32), present, words),
                )
            else:
                yield (name, Kind.INTEGER), Column(Kind.INTEGER, np.ascontiguousarray(line), present)


def make(shape: Shape, filters: int, events: int, seed: int) -> Load:
    """Return a load of this shape."""
    generator = np.random.default_rng([seed, filters])
    size, width = (filters, shape.constrained), round(shape.width * DOMAIN)
    chosen = _chosen(shape, filters, generator)
    if shape.kind == "equality":
        lows = generator.integers(0, WORDS, size)
        values = generator.integers(0, WORDS, (shape.attributes, events))
        return Load(chosen, lows, lows, values)
    if shape.kind == "skewed":
        lows = np.minimum(generator.lognormal(9, 2, size), DOMAIN - width).astype(np.int64)
        values = np.minimum(generator.lognormal(9, 2, (shape.attributes, events)), DOMAIN).astype(np.int64)
        return Load(chosen, lows, lows + width, values)
    lows = generator.integers(0, DOMAIN - width + 1, size)
    highs = lows + width
    values = generator.integers(0, DOMAIN + 1, (shape.attributes, events))
    if shape.kind == "strings":
        chosen[:, 0] = 0
        lows[:, 0] = highs[:, 0] = generator.integers(0, WORDS, filters)
        values[0] = generator.integers(0, WORDS, events)
        return Load(chosen, lows, highs, values, words=1)
    if shape.kind == "sparse":
        values[generator.random(values.shape) >= 0.1] = -1
    return Load(chosen, lows, highs, values)


def _chosen(shape: Shape, filters: int, generator: np.random.Generator) -> Integers:
    """Return each filter's distinct attributes, ascending; for a load of strings without the first."""
    first = shape.kind == "strings"
    out = np.empty((filters, shape.constrained), np.int64)
    for begin in range(0, filters, 100_000):  # a table of all of them would be large
        some = out[begin : begin + 100_000]
        drawn = np.argsort(generator.random((len(some), shape.attributes - first)), axis=1) + first
        some[:] = np.sort(drawn[:, : shape.constrained], axis=1)
        if first and shape.constrained > 1:
            some[:, 1:] = np.sort(drawn[:, : shape.constrained - 1], axis=1)
    return out
