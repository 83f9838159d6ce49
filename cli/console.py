"""Output of all commands: results on standard output, everything else on standard error.

With ``--json`` a command prints exactly one JSON object on standard output. An error that the user can fix is
one line on standard error, with exit status 2. Text of others (events, selectors, names, paths) is never markup: it
is printed as `Text`, or with ``markup=False``; and what is not printable in it is escaped (`protocol.printable`).
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..faults.checker.verdict import EXAMPLES_MAX, HOLDS, NOTHING_DUE, UNDECIDED, VIOLATED, Verdict
from ..protocol.printable import printable
from ..protocol.traces.trace import describe


class SafeConsole(Console):
    """A console that sends no control characters of others to the terminal.

    A string that is not markup is one line. In whatever else is printed, line ends are kept; cells and lines that have
    text of others are made with `printable`.
    """

    def print(self, *objects: object, **options: Any) -> None:
        """Print as `Console` does; a string that is not markup is one line."""
        if options.get("markup") is False:
            objects = tuple(printable(each) if isinstance(each, str) else each for each in objects)
        super().print(*objects, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable, with escapes for whatever is not printable."""
        for each in super().render(renderable, options):
            if each.control or each.text.isprintable():
                yield each
            else:
                yield Segment(printable(each.text, keep="\n"), each.style)


out = SafeConsole(highlight=False, emoji=False)
err = SafeConsole(stderr=True, highlight=False, emoji=False)

Rows = Sequence[Sequence[str]]
GAP: Final = 1
"""Spaces after each column of a table."""
LINE_SECONDS: Final = 15.0
"""The time between two lines of progress if there is no terminal."""


def keep_results_apart(*, verbose: bool) -> None:
    """Reserve standard output for results, and silence Ray and Spark, or send their output to standard error.

    Ray prints reports of its own processes (a worker that died, a node) on Python's standard output; its C++
    side and Java write to the file descriptors 1 and 2; libraries print deprecation warnings. None of that
    adds to what a verb reports itself. Output of this module, tracebacks and the log of this package are not
    silenced.

    Parameters
    ----------
    verbose
        Whether to let all that through, on standard error.
    """
    out.file = os.fdopen(os.dup(1), "w", encoding="utf-8")
    if verbose:
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        return
    sys.stderr = os.fdopen(os.dup(2), "w", encoding="utf-8", buffering=1, errors="backslashreplace")
    faulthandler.enable(sys.stderr)  # fatal errors of the process are still reported
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    sys.stdout = os.fdopen(nowhere, "w", encoding="utf-8")
    warnings.simplefilter("ignore")
    logging.getLogger("ray._private.services").setLevel(logging.ERROR)  # it warns where several Rays run


def print_json(result: Mapping[str, object]) -> None:
    """Print one JSON object, and nothing else, on standard output."""
    out.file.write(json.dumps(result, default=_plain, allow_nan=False) + "\n")
    out.file.flush()


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)


def print_table(title: str, rows: Mapping[str, object]) -> None:
    """Print names and values as a table of two columns."""
    table = Table(title=_titled(title), title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="cyan", overflow="fold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(cell(name), cell(value if isinstance(value, str) else f"{value:,}"))
    out.print(table)


def cell(text: str, style: str = "") -> Text:
    """Return a text of others for a line of its own or a cell of a table."""
    return Text(printable(text), style=style)


def _titled(title: str) -> Text | None:
    return cell(title, "table.title") if title else None


OUTCOME_STYLES = {HOLDS: "bold green", VIOLATED: "bold red", UNDECIDED: "bold yellow"}

COUNTED = ("missing", "duplicates", "spurious", "disordered", "lost", "unexplained", "verdict")
"""Counts of a verdict that its conditions or its last line report."""


def conditions(verdict: Verdict) -> dict[str, str]:
    """Return a line for each condition that was checked: how often checked, violated, and indeterminate."""
    out = {}
    for name, finding in verdict.findings.items():
        if finding.checked:
            undecided = f", {finding.indeterminate:,} indeterminate" if finding.indeterminate else ""
            out[f"  {name}"] = f"{finding.checked:,} checked, {finding.violated:,} violated{undecided}"
    return out


def print_violations(verdict: Verdict) -> None:
    """Print a few violations with the part of the trace that explains each."""
    for violation in verdict.violations[:EXAMPLES_MAX]:
        out.print(f"  ! {violation.condition}: {violation.sentence}", markup=False)
        for operation in violation.piece:
            out.print(f"      {describe(operation)}", markup=False)


def print_verdict(verdict: Verdict) -> None:
    """Print the violations, and the last line of a verb that judges."""
    print_violations(verdict)
    if verdict.outcome == UNDECIDED:
        out.print(NOTHING_DUE, markup=False)
    out.print(f"verdict: {styled(verdict.outcome)}")


def styled(outcome: str) -> str:
    """Return an outcome in the colour of its first word."""
    return f"[{OUTCOME_STYLES[outcome.partition(' ')[0]]}]{outcome}[/]"


def print_columns(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with a heading for each column; the first column is for names, the others for numbers.

    If the terminal is too narrow, the remaining columns follow as another table below, with the names
    repeated.
    """
    for first, last in fitting(names, [list(row) for row in rows], out.width):
        table = Table(
            title=_titled(title), title_justify="left", box=None, padding=(0, GAP, 0, 0), header_style="cyan"
        )
        for place, name in enumerate(first):
            table.add_column(cell(name), justify="right" if place else "left", overflow="fold")
        for row in last:
            table.add_row(*map(cell, row))
        out.print(table)
        title = ""


class CommandProgress(Protocol):
    """The progress of the steps of one command."""

    def show(self, name: str, done: int, total: int) -> None:
        """Report the progress of the named step, which appears with its first report."""
        ...


class Bars:
    """The steps of one command as bars, one below the other."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: dict[str, TaskID] = {}

    def show(self, name: str, done: int, total: int) -> None:
        """Update the bar of that name."""
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=total)
        self._progress.update(self._bars[name], completed=done, total=total)


class Lines:
    """The steps of one command as lines of a log: the first and the last of each, and one at intervals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[str, float] = {}
        self._begun = clock()

    def show(self, name: str, done: int, total: int) -> None:
        """Print the progress of a step, at most once per interval."""
        now = self._clock()
        if done < total and now - self._said.get(name, -LINE_SECONDS) < LINE_SECONDS:
            return
        self._said[name] = now
        far = f"{done:,} of {total:,}" if total != 1 else "done" if done else "begun"
        err.print(f"{name}: {far} after {now - self._begun:,.0f} s", markup=False)


@contextmanager
def steps() -> Iterator[CommandProgress]:
    """Show progress on standard error while the block runs: bars on a terminal, lines elsewhere."""
    if not err.is_terminal:
        yield Lines()
        return
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err) as progress:
        yield Bars(progress)


def fitting(names: Sequence[str], rows: Rows, width: int) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Split a table with many columns into several that fit the terminal, one below the other: nothing is cut off.

    Yields the headings and rows of each part. The first column holds names and is repeated in every part.

    Parameters
    ----------
    names
        A heading for each column; at least one.
    rows
        A text for each column.
    width
        Characters in a line. A part has at least one column beside the names, even if that is too wide.
    """
    widths = [max(len(name), *(len(row[place]) for row in rows), 0) for place, name in enumerate(names)]
    part: list[int] = []
    taken = widths[0] + GAP
    for place in range(1, len(names)):
        if part and taken + widths[place] + GAP > width:
            yield _part([0, *part], names, rows)
            part, taken = [], widths[0] + GAP
        part.append(place)
        taken += widths[place] + GAP
    yield _part([0, *part], names, rows)


def _part(places: Sequence[int], names: Sequence[str], rows: Rows) -> tuple[list[str], list[list[str]]]:
    return [names[place] for place in places], [[row[place] for place in places] for row in rows]
