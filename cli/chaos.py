"""``rayvous chaos``: break a network by a seed, let it heal, and judge whether it kept its promises."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..chaos.cases import draw_case
from ..chaos.report import ChaosReport
from ..chaos.story import by_kind
from ..faults.plans import FaultPlan
from ..protocol.errors import InputError
from ..routing.topologies import topology_of
from ..simulator.chaos import run_seeds
from . import console

FAILURES_SHOWN = 3


def run_chaos_seeds(
    seed: int, seeds: int, on: str, plan: Path | None, brokers: int, *, as_json: bool
) -> dict[str, Any]:
    """Run seeds ``seed .. seed + seeds - 1``, print what came of them, and return it as a mapping.

    Raises
    ------
    InputError
        If an option or the plan cannot be used.
    """
    if on != "sim":
        raise InputError(
            f"--on {on}: chaos runs on sim; on real actors it is one kill at a time: rayvous demo --kill"
        )
    if seeds < 1 or seed < 0 or brokers < 2:
        raise InputError("--seeds must be at least 1, --seed at least 0, --brokers at least 2")
    numbers = range(seed, seed + seeds)
    given = {} if plan is None else {"plan": _checked(FaultPlan.load(plan), numbers, brokers)}
    with console.steps() as steps:
        done: list[ChaosReport] = []

        def show(report: ChaosReport) -> None:
            done.append(report)
            steps.show("seeds", len(done), seeds)

        steps.show("seeds", 0, seeds)
        reports = run_seeds(
            numbers, processes=1 if seeds == 1 else None, progress=show, brokers_max=brokers, **given
        )
    result = _summary(reports)
    if as_json:
        console.print_json(result)
    else:
        _print(result, reports)
    return result


def _checked(plan: FaultPlan, numbers: Sequence[int], brokers: int) -> FaultPlan:
    """Return the plan, if every network that the seeds draw has what it breaks."""
    for number in numbers:
        case = draw_case(number, brokers_max=brokers)
        try:
            plan.check(topology_of(case.topology).positions())
        except InputError as error:
            raise InputError(f"seed {number}: {error}") from None
    return plan


def _summary(reports: Sequence[ChaosReport]) -> dict[str, Any]:
    failed = [report for report in reports if not report.holds]
    total = {
        name: sum(getattr(report.verdict, name) for report in reports)
        for name in (
            "events_published", "notifications_expected", "notifications_delivered",
            "missing", "duplicates", "spurious", "disordered",
        )
    }  # fmt: skip
    return {
        "on": "sim",
        "seeds": len(reports),
        "held": len(reports) - len(failed),
        "failed": [report.seed for report in failed],
        "replay": [report.replay for report in failed],
        **total,
        "lost_by_retention": sum(report.lost_by_retention for report in reports),
        "recovery": by_kind(each for report in reports for each in report.recoveries),
        "verdict": "violated" if failed else "holds",
        **({"report": reports[0].to_dict()} if len(reports) == 1 else {}),
    }


def _print(result: dict[str, Any], reports: Sequence[ChaosReport]) -> None:
    shown = (
        reports if len(reports) == 1 else [report for report in reports if not report.holds][:FAILURES_SHOWN]
    )
    for report in shown:
        _print_one(report)
    rows = {
        name.replace("_", " "): result[name]
        for name in ("seeds", "held", "events_published", "notifications_expected", "notifications_delivered")
    }
    rows["missing / duplicates / spurious / disordered"] = " / ".join(
        str(result[name]) for name in ("missing", "duplicates", "spurious", "disordered")
    )
    for kind, times in result["recovery"].items():
        rows[f"recovery from {kind}"] = (
            f"tree {times['structure_median_seconds']} s, last late notification "
            f"{times['delivery_median_seconds']} s (medians of {times['count']}, virtual)"
        )
    console.print_table("rayvous chaos", rows)
    for command in result["replay"]:
        console.out.print(f"replay: {command}")
    style = "bold red" if result["failed"] else "bold green"
    console.out.print(f"verdict: [{style}]{result['verdict']}[/]")


def _print_one(report: ChaosReport) -> None:
    case = report.case
    drawn = {
        "topology": str(case["topology"]),
        "clients": f"{case['clients']}, {case['actions']}",
        "plan": "; ".join(str(fault) for fault in case["plan"]["faults"]),
    }
    console.print_table(f"seed {report.seed}: drawn", drawn)
    for when, what in report.timeline:
        console.out.print(f"  {when:8.3f} s  {what}", markup=False)
    for sentence in [*report.problems, *report.verdict.examples]:
        console.out.print(f"  ! {sentence}", markup=False)
