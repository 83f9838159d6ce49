"""The parts of an experiment: runs that measure, tables, an aggregate, sentences of a paper, a picture.

Rules
-----
* A new experiment is a module with its runs, a function from DataFrame to DataFrame in
  `pipelines.figures.experiments`, the paper's statements (`judge`), a picture, and an entry in `catalogue`.
* A point is a frozen dataclass: where on a curve a measurement is taken. Its numbers, texts and flags are
  columns of all tables that its run writes. Its `run` is the number of the run of that point, and seeds all
  randomness.

Source: none; the modules of the experiments name the papers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Never, Protocol

from .rows import Rows
from .statements import Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

Tables = Mapping[str, Mapping[str, object]]
"""Tables in columns, by name; no table of a run is empty, and no column has only nulls."""

PLAIN: Final = (bool, int, float, str)


class Plan(Protocol):
    """The measured points, and how often each is measured."""

    @property
    def runs(self) -> int:
        """The number of runs of each point, with seeds from 0."""
        ...

    def points(self) -> Sequence[object]:
        """Return the points in the order in which to run them; each has the number of its run, `run`."""
        ...


@dataclass(frozen=True, slots=True)
class Repeated:
    """A plan: some points, each run the same number of times.

    Attributes
    ----------
    each
        The points of one run, the longest first.
    runs
        The number of runs.
    once
        Points without randomness, which are in the first run only.
    """

    each: tuple[Any, ...]
    runs: int
    once: tuple[Any, ...] = ()

    def points(self) -> list[Any]:
        """Return the points of all runs."""
        return [*self.once, *(replace(point, run=run) for point in self.each for run in range(self.runs))]


@dataclass(frozen=True, slots=True)
class Runs:
    """The measurements of one experiment or several.

    Attributes
    ----------
    name
        The name of the folder that stores them.
    presets
        Plans by name, such as ``"quick"`` and ``"paper"``.
    measure
        Runs one point and returns its tables.
    """

    name: str
    presets: Mapping[str, Any]
    measure: Callable[[Never], Tables]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure or table of a paper.

    Attributes
    ----------
    source
        The figure or table.
    runs
        The runs that it uses.
    table
        The table of these runs that it is computed from.
    aggregate
        Computes one row per point from that table.
    judge
        Judges the paper's statements on these rows.
    draw
        Draws its picture.
    """

    source: str
    runs: Runs
    table: str
    aggregate: Callable[[DataFrame], DataFrame]
    judge: Callable[[Rows], list[Statement]]
    draw: Callable[[Rows], Figure]


def columns_of(point: Any) -> dict[str, object]:
    """Return the fields of a point that are columns of its tables: its numbers, texts and flags, except `run`."""
    values = {each.name: getattr(point, each.name) for each in fields(point) if each.name != "run"}
    return {name: value for name, value in values.items() if isinstance(value, PLAIN)}


def in_columns(names: Sequence[str], rows: Iterable[Sequence[object]]) -> dict[str, list[object]]:
    """Return rows, at least one, as a table in columns with these names."""
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
