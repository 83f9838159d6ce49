"""What an experiment is made of: runs that measure, tables, an aggregate, sentences of a paper, a picture.

Rules
-----
* A new experiment is a module with its runs, a function from DataFrame to DataFrame in `pipelines.figures.experiments`,
  what the paper says (`judge`), a picture, and a line in `catalogue`.
* A point is a frozen dataclass: where a curve is measured. Its numbers, texts and flags are columns of all tables that
  its run writes; `run` says which of the runs of that point it is, and seeds all chance.

Source: none; the papers stand in the modules of their experiments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

    from .statements import Statement

Rows = Sequence[Mapping[str, Any]]
Tables = Mapping[str, Mapping[str, Any]]
"""By name, tables in columns; none of a run is without rows, and no column of one has only nulls."""

PLAIN: Final = (bool, int, float, str)


class Plan(Protocol):
    """Which points are measured, and how often each."""

    @property
    def runs(self) -> int:
        """How many runs of each point there are, with seeds from 0."""
        ...

    def points(self) -> Sequence[Any]:
        """Return the points, the first to be run first; each has the number of its run, `run`."""
        ...


@dataclass(frozen=True, slots=True)
class Repeated:
    """A plan: some points, all of them run so many times.

    Attributes
    ----------
    each
        The points of one run; what takes longest stands first.
    runs
        How many runs there are.
    once
        Points that nothing is left to chance in, which are in the first run only.
    """

    each: tuple[Any, ...]
    runs: int
    once: tuple[Any, ...] = ()

    def points(self) -> list[Any]:
        """Return the points of all runs."""
        return [*self.once, *(replace(point, run=run) for point in self.each for run in range(self.runs))]


@dataclass(frozen=True, slots=True)
class Runs:
    """What is measured, for one experiment or several.

    Attributes
    ----------
    name
        Of the folder in which it is kept.
    presets
        Plans by name: ``"quick"`` and ``"paper"``.
    measure
        Runs one point and returns its tables.
    """

    name: str
    presets: Mapping[str, Any]
    measure: Callable[[Any], Tables]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure or table of a paper.

    Attributes
    ----------
    source
        Which one.
    runs
        What it looks at.
    table
        The table of these runs that it is made of.
    aggregate
        Makes one row a point of that table.
    judge
        What the paper says of it, on these rows.
    draw
        Its picture.
    """

    source: str
    runs: Runs
    table: str
    aggregate: Callable[[DataFrame], DataFrame]
    judge: Callable[[Rows], list[Statement]]
    draw: Callable[[Rows], Figure]


def columns_of(point: Any) -> dict[str, Any]:
    """Return what of a point is a column of its tables: its numbers, texts and flags, but `run`."""
    values = {each.name: getattr(point, each.name) for each in fields(point) if each.name != "run"}
    return {name: value for name, value in values.items() if isinstance(value, PLAIN)}


def in_columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return rows, of which there is at least one, as a table in columns of these names."""
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
