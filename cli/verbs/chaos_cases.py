"""``rayvous chaos --case`` and ``--shrink``: run a case from a file, and make a failing one small."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ...faults.checker.verdict import VIOLATED
from ...faults.plans.case_files import load_case
from ...faults.plans.cases import Case
from ...faults.report import ChaosReport
from ...faults.shrinking.shrink import Size, shrink
from ...protocol.errors import InputError
from .. import console

LINE_SECONDS: Final = 2.0
"""The interval between two lines of progress."""


def load(path: Path, on: str, drawn: Mapping[str, object]) -> Case:
    """Read a case for a host; what would be drawn otherwise cannot be given beside it.

    Raises
    ------
    InputError
        If there is no such case, it cannot run there, or an option belongs to the drawing of cases.
    """
    for name, given in drawn.items():
        if given:
            raise InputError(f"--{name} determines what a seed draws, and --case {path} has everything")
    case = load_case(path)
    if on == "ray" and not case.features.heals:
        raise InputError(f"--case {path}: its brokers do not heal, so it runs --on sim only")
    return case


def check_shrink(on: str, seeds: int) -> None:
    """Check that something can be shrunk.

    Raises
    ------
    InputError
        If it cannot: the message says why.
    """
    if on != "sim":
        raise InputError(
            f"--shrink --on {on}: on ray the same case is never the same run twice; shrink it --on sim, "
            "and run the small case --on ray with --case"
        )
    if seeds != 1:
        raise InputError(
            f"--shrink is for a single seed, but --seeds is {seeds}: give one of those that fail"
        )


def shrunk(report: ChaosReport, seconds: float) -> dict[str, object]:
    """Shrink the case of a report, write it to a file, and return what there is to say of it.

    Raises
    ------
    InputError
        If the run did not fail.
    """
    if report.outcome != VIOLATED:
        what = f"--case {report.source}" if report.source else f"seed {report.seed}"
        word = "holds" if report.holds else "is undecided"
        raise InputError(f"{what} {word}, so there is nothing to shrink: --seeds N finds seeds that fail")
    name = Path(report.source).stem if report.source else f"seed-{report.seed}"
    path = Path(f"{name}-shrunk.json")
    found = shrink(report, seconds_max=seconds, progress=_Lines())
    replay = found.save(path)
    return {
        "file": str(path),
        "replay": replay,
        "reason": str(found.reason),
        "before": asdict(found.before),
        "after": asdict(found.size),
        "runs": found.runs,
        "seconds": round(found.seconds, 3),
        "finished": found.finished,
        "report": found.report.to_dict(),
    }


class _Lines:
    """The progress, as lines on standard error, one at intervals."""

    def __init__(self) -> None:
        self._said = float("-inf")

    def __call__(self, runs: int, size: Size) -> None:
        now = time.monotonic()
        if now - self._said >= LINE_SECONDS:
            self._said = now
            console.err.print(f"shrink: {runs} runs: {size}", markup=False)


def print_shrunk(result: dict[str, Any]) -> None:
    """Print what was left of a case, and how to run it."""
    rows = {
        "reason": result["reason"],
        "before": str(Size(**result["before"])),
        "after": str(Size(**result["after"])),
        "runs": f"{result['runs']:,} in {result['seconds']:,.1f} s",
        "file": result["file"],
    }
    if not result["finished"]:
        rows["smaller"] = "perhaps: it was interrupted, or --shrink-seconds were over"
    console.print_table("rayvous chaos --shrink", rows)
    console.out.print(f"replay: {result['replay']}", markup=False, soft_wrap=True)


__all__ = ["check_shrink", "load", "print_shrunk", "shrunk"]
