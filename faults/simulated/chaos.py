"""Chaos in virtual time: one case after another, drawn from seeds, run on the simulator and judged.

:mod:`rayvous.faults.chaos_run` has the phases. The same seed is the same run, to the last message. The report of a
failed run says how to repeat it: ``rayvous chaos --on sim --seed N``.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Unpack

from ...broker import Broker
from ...protocol.errors import ProcessLost
from ...protocol.ids import ClientId, EventId
from ...protocol.messages.recovery import Recovery
from ...simulator.processes import begin_sharing
from ..chaos_run import ChaosRun
from ..explaining.explain import Explanation, Ran, explain
from ..explaining.recorder import Recorder
from ..plans.cases import Case, Drawing, draw_case
from ..plans.extended import extended
from ..plans.host_plans import check_hosts
from ..plans.plans import FaultPlan
from ..report import ChaosReport
from .on_simulator import OnSimulator


class SimDrawing(Drawing, total=False):
    """What :func:`draw_sim_case` takes beside the seed."""

    stable: bool
    admission: bool
    damage: bool
    lossless: bool
    late: bool
    known: bool
    expiring: bool


def run_chaos(seed: int, *, keep_trace: bool = False, **options: Unpack[SimDrawing]) -> ChaosReport:
    """Draw a case from a seed, run it and judge it.

    Parameters
    ----------
    seed
        The seed.
    keep_trace
        Whether the report contains the trace of the run.
    options
        Passed to :func:`draw_sim_case`.
    """
    return run_case(draw_sim_case(seed, **options), keep_trace=keep_trace)


def draw_sim_case(
    seed: int,
    *,
    stable: bool = False,
    admission: bool = False,
    damage: bool = False,
    lossless: bool = False,
    late: bool = True,
    known: bool = True,
    expiring: bool = True,
    histories: bool = True,
    **options: Unpack[Drawing],
) -> Case:
    """Return the case of a seed for the simulator.

    Parameters
    ----------
    seed
        The seed.
    stable, admission, damage, lossless
        As in :func:`rayvous.faults.plans.extended.extended`.
    late, known, expiring, histories
        The same, unless a plan is given.
    options
        Passed to :func:`rayvous.faults.plans.cases.draw_case`: `brokers_max`, `seconds`, `plan`, `recovery`,
        `heals`, `kinds`, `faults_max`, `operations`, `scheme`, `restless`.
    """
    check_hosts(options.get("plan"), 0)
    drawn = options.get("plan") is None
    return extended(
        draw_case(seed, **options),
        stable=stable,
        admission=admission,
        damage=damage,
        lossless=lossless,
        late=late and drawn,
        known=known and drawn,
        expiring=expiring and drawn,
        histories=histories and drawn,
    )


def run_case(case: Case, *, keep_trace: bool = False, **options: object) -> ChaosReport:
    """Run a case and judge it.

    Parameters
    ----------
    case
        The drawn case.
    keep_trace
        Whether the report contains the trace of the run.
    options
        Passed to :class:`~.simulation.Simulation`: `record`, `broker`, `rendezvous`, `strangers` (True by default).
    """
    report = _ran(case, OnSimulator(case, **options), keep_trace=keep_trace)
    report.explainer = partial(explain_case, case, options)
    return report


def _ran(case: Case, system: OnSimulator, *, keep_trace: bool) -> ChaosReport:
    options_drawn = " --operations" if case.operations else ""
    report = ChaosReport("sim", case.describe(), options=options_drawn, drawn=case)
    return ChaosRun(case, system, report, keep_trace=keep_trace).run()


def explain_case(
    case: Case,
    options: Mapping[str, object],
    subscriber: ClientId | None = None,
    event: EventId | str | None = None,
) -> Explanation:
    """Explain what became of one event in the run of a case.

    Parameters
    ----------
    case, options
        As for :func:`run_case`.
    subscriber, event
        Whose notification, and of which event, (publisher, number) or ``"publisher:number"``; what is not given is
        chosen: the first violation, else a sample.

    Raises
    ------
    InputError
        If there is no such subscriber or event, or nothing to explain.
    """

    def run(recorder: Recorder | None) -> Ran:
        given = dict(options)
        if recorder is not None:
            make = given.get("broker", Broker)
            assert callable(make)
            given |= recorder.options(make)
        system = OnSimulator(case, **given)
        if recorder is not None:
            recorder.attend(system.network)
        report = _ran(case, system, keep_trace=True)
        assert report.trace is not None
        apart = system.network.clients.apart
        return Ran(report.trace, report.verdict, report.problems, report.timeline, apart)

    return explain(run, subscriber, event)


def run_seeds(
    seeds: Sequence[int],
    *,
    processes: int | None = None,
    progress: Callable[[ChaosReport], None] | None = None,
    **options: Unpack[SimDrawing],
) -> list[ChaosReport]:
    """Run many seeds, several in parallel; a failed seed does not stop the others.

    Parameters
    ----------
    seeds
        The seeds.
    processes
        How many run in parallel; None for one per processor, 1 for this process only.
    progress
        Called with each report when its run ends, in any order.
    options
        Passed to :func:`run_chaos`.

    Returns
    -------
    list of ChaosReport
        In the order of the seeds.

    Raises
    ------
    ProcessLost
        If one of the processes is killed.
    """
    reports: dict[int, ChaosReport] = {}
    if processes == 1:
        for seed in seeds:
            reports[seed] = run_chaos(seed, **options)
            if progress is not None:
                progress(reports[seed])
        return [reports[seed] for seed in seeds]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, context, begin_sharing) as pool:
        for done in concurrent.futures.as_completed(
            [pool.submit(run_chaos, seed, **options) for seed in seeds]
        ):
            try:
                report = done.result()
            except BrokenProcessPool:
                raise ProcessLost(_lost([seed for seed in seeds if seed not in reports])) from None
            reports[report.seed] = report
            if progress is not None:
                progress(report)
    return [reports[seed] for seed in seeds]


def _lost(left: Sequence[int]) -> str:
    shown = ", ".join(map(str, left[:5])) + (", ..." if len(left) > 5 else "")
    return (
        f"a process that ran seeds was killed, most often for want of memory; {len(left)} have not run: {shown}. "
        "Run these one by one, which takes one process, or with smaller networks"
    )


__all__ = ["ChaosReport", "FaultPlan", "Recovery", "run_case", "run_chaos", "run_seeds"]
