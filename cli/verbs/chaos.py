"""``rayvous chaos``: break a network by a seed, let it heal, and judge whether it kept its promises."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from ...actors.channels.config import LINKS
from ...faults.checker.verdict import NOTHING_DUE, UNDECIDED, VIOLATED, Verdict, total, worst
from ...faults.machines.layout import HEALTH, Layout
from ...faults.machines.links import hosts_here
from ...faults.plans.cases import Case
from ...faults.plans.plans import FaultPlan
from ...faults.recovery_times import by_kind
from ...faults.report import ChaosReport
from ...protocol import checks
from ...protocol.configs import DEFAULT_SCHEME
from ...protocol.errors import InputError
from ...recovery.durability.stable import Stable
from ...routing.schemes.registry import scheme as routing_scheme
from ...routing.topologies.cluster_trees import topology_of
from .. import console
from ..machines import again_among_hosts
from .audit import check_trace_dir, keep_trace
from .chaos_cases import check_shrink, load, print_shrunk, shrunk

FAILURES_SHOWN = 3


@dataclass(frozen=True)
class _Where:
    """A host of chaos: the least and the default number of brokers, and how cases are drawn and run there.

    `run_one` runs a given case.
    """

    least: int
    usual: int
    draw: Callable[..., Case]
    run: Callable[..., list[ChaosReport]]
    run_one: Callable[..., ChaosReport]


def _where(on: str) -> _Where:
    """Return what is needed to run on that host; for the simulator, Ray is not even imported.

    Raises
    ------
    InputError
        If there is no such host.
    """
    if on == "sim":
        from ...faults.simulated.chaos import draw_sim_case, run_case, run_seeds

        def run_in_processes(seeds: Sequence[int], **options: Any) -> list[ChaosReport]:
            return run_seeds(seeds, processes=1 if len(seeds) == 1 else None, **options)

        return _Where(2, 60, draw_sim_case, run_in_processes, run_case)
    if on == "ray":
        from ...faults.real.run import BROKERS_MAX, draw_ray_case, run_on_one_ray, run_ray_seeds

        return _Where(4, BROKERS_MAX, draw_ray_case, run_ray_seeds, run_on_one_ray)
    raise InputError(f"--on {on}: it must be sim or ray")


def run_chaos_seeds(
    seed: int,
    seeds: int,
    on: str,
    plan: Path | None,
    brokers: int | None,
    trace_dir: Path | None = None,
    *,
    stable: bool = False,
    operations: bool = False,
    admission: bool = False,
    damage: bool = False,
    lossless: bool = False,
    as_json: bool,
    scheme: str = DEFAULT_SCHEME,
    store_dir: str | None = None,
    hosts: int | None = None,
    links: str | None = None,
    shrink_seconds: float | None = None,
) -> dict[str, object]:
    """Run seeds ``seed .. seed + seeds - 1``, print the results, and return them as a mapping.

    With `shrink_seconds`, the case of the seed is shrunk for at most so long.

    Raises
    ------
    InputError
        If an option or the plan is invalid.
    """
    where = _where(on)
    most = where.usual if brokers is None else brokers
    if seeds < 1 or seed < 0 or most < where.least:
        raise InputError(
            f"--seeds must be at least 1, --seed at least 0, --brokers at least {where.least} on {on}"
        )
    check_trace_dir(trace_dir)
    if shrink_seconds is not None:
        check_shrink(on, seeds)
    if trace_dir is not None and seeds != 1:
        raise InputError(f"--trace-dir is for a single seed, but --seeds is {seeds}")
    if store_dir is not None and not (stable and on == "ray"):
        raise InputError("--store-dir needs --on ray --stable")
    if store_dir is not None:
        Stable(store_dir).validate()
    if hosts is not None:
        _check_hosts(hosts, on, damage)
    if links is not None:
        _check_links(links, on)
    routing_scheme(scheme, heals=True)
    numbers = range(seed, seed + seeds)
    given: dict[str, Any] = {"brokers_max": most, **({"operations": True} if operations else {})}
    if scheme != DEFAULT_SCHEME:
        given["scheme"] = scheme
    if hosts is not None:
        given["hosts"] = hosts
    if links is not None:
        given["links"] = links
    if plan is not None:
        given["plan"] = FaultPlan.load(plan)
        _check(given["plan"], [where.draw(number, **given) for number in numbers])
    given |= _wanted(stable=stable, admission=admission, damage=damage, lossless=lossless)
    if hosts is not None and hosts_here() is None:
        for number in numbers:  # report errors in a plan before hosts are created
            where.draw(number, **given)
        os.environ.update({name: os.environ.get(name, value) for name, value in HEALTH.items()})
        raise typer.Exit(again_among_hosts(Layout(hosts)))
    if seeds == 1 and not as_json:
        _print_drawn(where.draw(seed, **given).describe())
    if store_dir is not None:
        given["store_dir"] = store_dir
    reports = _run(where, numbers, given if trace_dir is None else given | {"keep_trace": True})
    for report in reports:
        report.options = "".join(
            [
                *_valued(brokers=brokers, plan=plan, hosts=hosts, links=links),
                " --stable" if stable else "",
                " --operations" if operations else "",
                " --admission" if admission else "",
                " --damage" if damage else "",
                " --lossless" if lossless else "",
            ]
        )
    return _told(on, scheme, reports, trace_dir, shrink_seconds, as_json)


def run_chaos_case(
    path: Path,
    on: str,
    drawn: Mapping[str, object],
    trace_dir: Path | None = None,
    *,
    store_dir: str | None = None,
    links: str | None = None,
    shrink_seconds: float | None = None,
    as_json: bool,
) -> dict[str, object]:
    """Run a case from a file, print the result, and return it as a mapping.

    `drawn` has the options that determine what a seed draws, by their names; none of them may be given.

    Raises
    ------
    InputError
        If an option or the case is invalid.
    """
    where = _where(on)
    check_trace_dir(trace_dir)
    if shrink_seconds is not None:
        check_shrink(on, 1)
    if links is not None:
        _check_links(links, on)
    case = load(path, on, drawn)
    routing_scheme(case.scheme, heals=case.features.heals)
    if store_dir is not None and not (case.stable and on == "ray"):
        raise InputError("--store-dir needs --on ray, and a case with stores")
    if not as_json:
        _print_drawn(case.describe())
    on_ray = {
        name: value for name, value in (("store_dir", store_dir), ("links", links)) if value is not None
    }
    report = where.run_one(case, keep_trace=trace_dir is not None, **on_ray)
    report.source, report.options = str(path), "".join(_valued(links=links))
    return _told(on, case.scheme, [report], trace_dir, shrink_seconds, as_json)


def _told(
    on: str,
    scheme: str,
    reports: Sequence[ChaosReport],
    trace_dir: Path | None,
    shrink_seconds: float | None,
    as_json: bool,
) -> dict[str, object]:
    """Print the results, shrink the case if that is asked for, and return all as a mapping."""
    result = _summary(on, scheme, reports) | keep_trace(trace_dir, reports[0].trace)
    if not as_json:
        _print(result, reports)
    if shrink_seconds is not None:
        result["shrunk"] = shrunk(reports[0], shrink_seconds)
    if as_json:
        console.print_json(result)
    elif shrink_seconds is not None:
        print_shrunk(result["shrunk"])
    return result


def _run(where: _Where, numbers: Sequence[int], given: dict[str, object]) -> list[ChaosReport]:
    """Run the seeds, and show the progress."""
    seeds = len(numbers)
    with console.steps() as steps:
        done: list[ChaosReport] = []

        def show(report: ChaosReport) -> None:
            done.append(report)
            if not report.holds and seeds > 1:
                word = "is undecided" if report.outcome == UNDECIDED else "does not hold"
                console.err.print(f"seed {report.seed} {word}", markup=False)
            steps.show("seeds", len(done), seeds)

        steps.show("seeds", 0, seeds)
        return where.run(numbers, progress=show, **given)


def _check_hosts(hosts: int, on: str, damage: bool) -> None:
    if on != "ray":
        raise InputError(f"--hosts {hosts}: hosts are for --on ray")
    if hosts < 2:
        raise InputError(f"--hosts {hosts}: there must be at least 2, since the first gets no faults")
    if damage:
        raise InputError("--hosts cannot be combined with --damage")


def _check_links(links: str, on: str) -> None:
    if on != "ray":
        raise InputError(f"--links {links}: links are for --on ray")
    if links not in LINKS:
        raise checks.wrong("--links", links, "'direct' or 'ray'")


def _valued(**options: object) -> list[str]:
    """Return the options that have a value, as they are written on the command line."""
    return [f" --{name} {value}" for name, value in options.items() if value is not None]


def _wanted(**words: bool) -> dict[str, bool]:
    return {word: True for word, wanted in words.items() if wanted}


def _check(plan: FaultPlan, cases: Sequence[Case]) -> None:
    """Check that every network drawn from the seeds has the targets of the plan."""
    for case in cases:
        try:
            plan.check(topology_of(case.topology).positions())
        except InputError as error:
            raise InputError(f"seed {case.seed}: {error}") from None


def _summary(on: str, scheme: str, reports: Sequence[ChaosReport]) -> dict[str, Any]:
    failed = [report for report in reports if report.outcome == VIOLATED]
    undecided = [report for report in reports if report.outcome == UNDECIDED]
    unheld = [report for report in reports if not report.holds]
    verdict = total(report.verdict for report in reports)
    return {
        "on": on,
        "scheme": scheme,
        "seeds": len(reports),
        "held": len(reports) - len(failed) - len(undecided),
        "failed": [report.seed for report in failed],
        "undecided": [report.seed for report in undecided],
        "replay": [report.replay for report in unheld],
        **verdict.counts(),
        "conditions": verdict.conditions(),
        "lost_by_retention": verdict.losses.get("retention", 0),
        "losses": dict(sorted(verdict.losses.items())),
        "loss_shares": verdict.loss_shares,
        "losses_explained_share": explained_share(verdict),
        **_admission(reports),
        "recovery": by_kind(each for report in reports for each in report.recoveries),
        "verdict": worst(report.outcome for report in reports),
        **({"report": reports[0].to_dict()} if len(reports) == 1 else {}),
        **_each("failures", failed, len(reports)),
        **_each("undecided_reports", undecided, len(reports)),
    }


def _each(name: str, reports: Sequence[ChaosReport], seeds: int) -> dict[str, object]:
    """Return reports under a name; nothing without any, nor of a single seed, whose report stands by itself."""
    return {name: [report.to_dict() for report in reports]} if seeds > 1 and reports else {}


def explained_share(verdict: Verdict) -> float | None:
    """Return the share of the reported losses that a limit explains; None if none was reported."""
    told = verdict.lost + verdict.unexplained
    return verdict.lost / told if told else None


def _admission(reports: Sequence[ChaosReport]) -> dict[str, dict[str, int]]:
    """Return how many subscriptions were admitted, refused and degraded in all runs, if they were judged."""
    words = dict.fromkeys(word for report in reports for word in report.admission)
    counts = {word: sum(report.admission.get(word, 0) for report in reports) for word in words}
    return {"admission": counts} if counts else {}


def _print(result: dict[str, Any], reports: Sequence[ChaosReport]) -> None:
    if len(reports) == 1:
        _print_story(reports[0])
    else:
        for report in [report for report in reports if not report.holds][:FAILURES_SHOWN]:
            _print_drawn(report.case)
            _print_story(report)
    rows = {
        name.replace("_", " "): result[name]
        for name in ("seeds", "held", "events_published", "notifications_expected", "notifications_delivered")
    }
    told = result["lost"] + result["unexplained"]
    if told:
        limits = ", ".join(f"{name} {count:,}" for name, count in result["losses"].items())
        rows["losses told by name"] = told
        rows["  explained by a limit"] = (
            f"{result['lost']:,} ({result['losses_explained_share']:.0%}){limits and ': ' + limits}"
        )
    for limit, share in result["loss_shares"].items():
        rows[f"  excused by {limit}"] = f"{share:.2%} of all that had to come"
    rows |= console.conditions(total(report.verdict for report in reports))
    seconds = "virtual s" if result["on"] == "sim" else "s"
    rows |= {f"subscriptions {word}": count for word, count in result.get("admission", {}).items()}
    for kind, times in result["recovery"].items():
        rows[f"recovery from {kind}"] = (
            f"tree {times['structure_median_seconds']} {seconds}, last late notification "
            f"{times['delivery_median_seconds']} {seconds} (medians of {times['count']})"
        )
    console.print_table("rayvous chaos", rows)
    if "trace" in result:
        console.out.print(f"trace: {result['trace']}", markup=False, soft_wrap=True)
    for command in result["replay"]:
        console.out.print(f"replay: {command}", markup=False, soft_wrap=True)
    if result["undecided"]:
        seeds = ", ".join(map(str, result["undecided"]))
        console.out.print(f"undecided: seed {seeds}. {NOTHING_DUE}", markup=False, soft_wrap=True)
    console.out.print(f"verdict: {console.styled(result['verdict'])}")


def _print_drawn(case: dict[str, Any]) -> None:
    drawn = {
        "topology": str(case["topology"]),
        "clients": f"{case['clients']}, {case['actions']}",
        "plan": "; ".join(str(fault) for fault in case["plan"]["faults"]),
    }
    console.print_table(f"seed {case['seed']}: drawn", drawn)


def _print_story(report: ChaosReport) -> None:
    for when, what in report.timeline:
        console.out.print(f"  {when:8.3f} s  {what}", markup=False)
    for sentence in report.problems:
        console.out.print(f"  ! {sentence}", markup=False)
    console.print_violations(report.verdict)
