"""Chaos on Ray: one case after another, drawn from seeds, run on real actors and judged.

:mod:`rayvous.faults.chaos_run` has the phases. The case of a seed is drawn as for the simulator
(:mod:`rayvous.faults.plans.cases`), but with few brokers, each in a process of its own.

The first fault of a plan kills the target that ``AIMS[seed % 6]`` names, so six consecutive seeds cover every kind
of killing; with a scheme without a tree it is ``FLAT_AIMS[seed % 5]``. The same seed gives the same case; the
timing inside it depends on the machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import ray

from ...actors.channels.config import LINKS_DEFAULT, Links
from ...actors.network.network import ensure_ray
from ...protocol.messages.recovery import Recovery
from ...recovery.durability.stable import Stable, part_of
from ...routing.schemes.claims import Membership
from ...routing.schemes.registry import scheme as scheme_of
from ..chaos_run import ChaosRun
from ..machines.layout import GIVES_UP_SECONDS
from ..plans.cases import Case, draw_case, small_topology
from ..plans.draws import AIMS, FLAT_AIMS
from ..plans.extended import extended
from ..plans.host_plans import check_hosts, host_plan
from ..plans.plans import FaultPlan
from ..report import ChaosReport
from .on_ray import OnRay

BROKERS_MAX: Final = 9
FAULT_SECONDS: Final = 8.0
"""How long the faults of a drawn plan last."""


def draw_ray_case(
    seed: int,
    *,
    brokers_max: int = BROKERS_MAX,
    plan: FaultPlan | None = None,
    scheme: str = "hybrid",
    stable: bool = False,
    admission: bool = False,
    operations: bool = False,
    damage: bool = False,
    lossless: bool = False,
    late: bool = True,
    hosts: int = 0,
    links: Links = LINKS_DEFAULT,
) -> Case:
    """Return the case of a seed for real actors.

    Parameters
    ----------
    seed
        The seed.
    brokers_max
        The maximum number of brokers.
    plan
        Used instead of a drawn plan.
    scheme
        A scheme that heals.
    stable, admission, damage, lossless
        As in :func:`rayvous.faults.plans.extended.extended`.
    operations
        Whether brokers and clusters join and leave.
    late
        Whether subscribers come late, unless a plan is given, state is damaged or hosts have links of their own.
    hosts
        The number of hosts of the run's own; if not 0, the plan is of their links
        (:mod:`rayvous.faults.plans.host_plans`).
    links
        How bytes go between the processes. If over connections of their own, these get faults too, unless a plan is
        given or hosts have links of their own (:mod:`rayvous.faults.plans.connection_cases`).

    Raises
    ------
    ScenarioError
        If the plan has a fault of hosts that do not exist.
    """
    late = late and plan is None and not hosts
    connected = links == "direct" and plan is None and not hosts
    if hosts and plan is None:
        plan = host_plan(seed, hosts, GIVES_UP_SECONDS)
    check_hosts(plan, hosts)
    aims = aims_of(scheme)
    topology = small_topology(seed, brokers_max)
    recovery = Recovery.for_tests(degree=topology["degree"] + 1, retention_seconds=600.0)
    case = draw_case(
        seed,
        seconds=FAULT_SECONDS,
        plan=plan,
        recovery=recovery,
        topology=topology,
        aim=aims[seed % len(aims)],
        scheme=scheme,
        operations=operations,
    )
    return extended(
        case,
        stable=stable,
        admission=admission,
        damage=damage,
        lossless=lossless,
        connected=connected,
        late=late,
    )


def aims_of(scheme: str) -> tuple[str, ...]:
    """Return the targets of the first faults of consecutive seeds."""
    return FLAT_AIMS if scheme_of(scheme).membership is Membership.VIEWS else AIMS


def run_ray_chaos(
    seed: int,
    *,
    keep_trace: bool = False,
    store_dir: str | Path | None = None,
    links: Links = LINKS_DEFAULT,
    **options: Any,
) -> ChaosReport:
    """Draw a case from a seed, run it on Ray and judge it.

    Parameters
    ----------
    seed
        The seed.
    keep_trace
        Whether the report contains the trace of the run.
    store_dir
        The folder in which brokers with stores keep their files, in a folder ``seed-N``; or the address of a
        PostgreSQL database, for a schema ``..._seed_N``. A temporary folder if None.
    links
        How bytes go between the processes.
    options
        Passed to :func:`draw_ray_case`.
    """
    case = draw_ray_case(seed, links=links, **options)
    return run_ray_case(case, keep_trace=keep_trace, store_dir=store_dir, links=links)


def run_ray_case(
    case: Case,
    *,
    keep_trace: bool = False,
    store_dir: str | Path | None = None,
    links: Links = LINKS_DEFAULT,
) -> ChaosReport:
    """Run a case on Ray and judge it; the parameters are those of `run_ray_chaos`."""
    if not case.stable:
        return _run(case, keep_trace, None, links)
    if store_dir is not None:
        return _run(case, keep_trace, Stable(part_of(store_dir, f"seed-{case.seed}")), links)
    with tempfile.TemporaryDirectory(prefix="rayvous-chaos-") as folder:
        return _run(case, keep_trace, Stable(folder), links)


def _run(case: Case, keep_trace: bool, stable: Stable | None, links: Links) -> ChaosReport:
    report = ChaosReport("ray", case.describe(), drawn=case)
    turn = case.seed // len(aims_of(case.scheme))
    system = OnRay(case, report.problem, stable=stable, links=links, turn=turn)
    ChaosRun(case, system, report, keep_trace=keep_trace).run()
    report.seconds = system.now
    return report


def run_on_one_ray(case: Case, **options: Any) -> ChaosReport:
    """Run a case on Ray, which is started for it if it does not run; the options are those of `run_ray_case`."""
    started = ensure_ray()
    try:
        return run_ray_case(case, **options)
    finally:
        if started:
            ray.shutdown()


def run_ray_seeds(
    seeds: Sequence[int], *, progress: Callable[[ChaosReport], None] | None = None, **options: Any
) -> list[ChaosReport]:
    """Run many seeds, one after the other on one Ray; a failed seed does not stop the others.

    Parameters
    ----------
    seeds
        The seeds.
    progress
        Called with each report when its run ends.
    options
        Passed to :func:`run_ray_chaos`.
    """
    started = ensure_ray()
    reports = []
    try:
        for seed in seeds:
            reports.append(run_ray_chaos(seed, **options))
            if progress is not None:
                progress(reports[-1])
    finally:
        if started:
            ray.shutdown()
    return reports
