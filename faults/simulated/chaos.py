"""Chaos in virtual time: a drawn network under a drawn fault plan, then healed, and judged.

Phases
------
1. Build: the network starts, clients subscribe, everything settles. Every subscription must be confirmed.
2. Faults: the plan is carried out while clients publish, subscribe, unsubscribe and move.
3. Heal: all faults end, and the search of clusters for nearer parents ends. Within :data:`CONVERGE_HEARTBEATS`
   heartbeats the network must be one tree again, with every subscription installed (promise 6), and stay so for
   :data:`STEADY_LOOKS` looks.
4. Late subscribers come, before phase 2 or after phase 3 (:mod:`rayvous.faults.plans.late_cases`). In the latter case
   brokers die once more, and the network heals once more.
5. Liveness: every publisher publishes again. :data:`SETTLE_HEARTBEATS` heartbeats later everything is judged
   (promises 1-3).

The report of a failed run says how to repeat it: ``rayvous chaos --on sim --seed N``.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Final

from ...protocol.errors import ClientError, ProcessLost
from ...protocol.messages.recovery import Recovery
from ...routing.topologies.cluster_trees import topology_of
from ...simulator.hosts import in_memory, in_memory_with_sums
from ...simulator.operations import SimulatedOperations
from ...simulator.processes import begin_sharing
from ..injector import Injector
from ..plans.admission_cases import with_admission
from ..plans.cases import BUILD_SECONDS, Action, Case, Late, Operation, Rumour, draw_case
from ..plans.damage_cases import found_heartbeats, is_damaged, that_compares, with_damage
from ..plans.host_plans import check_hosts
from ..plans.known_cases import with_known
from ..plans.late_cases import with_late
from ..plans.lossless_cases import without_limits
from ..plans.plans import Fault, FaultPlan
from ..plans.stable_cases import with_stores
from ..report import ChaosReport
from .judging import (
    BreakableSimulation,
    books_problems,
    clients_of,
    durable_problems,
    held_back,
    root_of,
    structure_problems,
    subscription_problems,
)
from .timeline import Timeline

CONVERGE_HEARTBEATS: Final = 40
STEADY_LOOKS: Final = 4
"""How many sound looks in a row are required; looks are half a heartbeat apart."""

SETTLE_HEARTBEATS: Final = 10
FLUSH_HEARTBEATS_MAX: Final = 120
"""A long chain replies late: every question that is repeated starts from the beginning."""

LET_IN_HEARTBEATS_MAX: Final = 240
"""Enough for the slowest publisher that is drawn, with ten events per second, to have all events of a run admitted."""

BUILD_SECONDS_MAX: Final = 30.0
PROBLEMS_MAX: Final = 20


def run_chaos(
    seed: int,
    *,
    stable: bool = False,
    admission: bool = False,
    damage: bool = False,
    lossless: bool = False,
    late: bool = True,
    known: bool = True,
    keep_trace: bool = False,
    **options: Any,
) -> ChaosReport:
    """Draw a case from a seed, run it and judge it.

    Parameters
    ----------
    seed
        The seed.
    stable
        Whether brokers have stores, and clients die too.
    admission
        Whether brokers admit only what they can carry.
    damage
        Whether state is damaged too.
    lossless
        Whether so much is retained that no loss is excused.
    late
        Whether subscribers come late, unless a plan is given or state is damaged.
    known
        Whether deaths become known, and some news is wrong, unless a plan is given.
    keep_trace
        Whether the report contains the trace of the run.
    options
        Passed to :func:`rayvous.faults.plans.cases.draw_case`: `brokers_max`, `seconds`, `plan`, `recovery`,
        `heals`, `kinds`, `faults_max`, `operations`, `scheme`, `restless`.
    """
    drawn = {"stable": stable, "admission": admission, "damage": damage, "lossless": lossless}
    case = draw_sim_case(seed, late=late, known=known, **drawn, **options)
    return run_case(case, keep_trace=keep_trace)


def draw_sim_case(
    seed: int,
    *,
    stable: bool = False,
    admission: bool = False,
    damage: bool = False,
    lossless: bool = False,
    late: bool = True,
    known: bool = True,
    **options: Any,
) -> Case:
    """Return the case of a seed for the simulator; the parameters are those of `run_chaos`."""
    check_hosts(options.get("plan"), 0)
    case = draw_case(seed, **options)
    case = with_admission(case) if admission else case
    case = with_stores(case) if stable else case
    case = without_limits(case) if lossless else case
    case = with_damage(case) if damage else that_compares(case)
    drawn = options.get("plan") is None
    case = with_known(case) if known and drawn else case
    return with_late(case) if late and not damage and drawn else case


def run_case(case: Case, *, keep_trace: bool = False, **options: Any) -> ChaosReport:
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
    return _Run(case, options, keep_trace).run()


class _Run:
    def __init__(self, case: Case, options: dict[str, Any], keep_trace: bool) -> None:
        self.case = case
        self.keep_trace = keep_trace
        topology = topology_of(case.topology)
        self.network = BreakableSimulation(
            topology.positions(),
            case.scheme,
            recovery=case.recovery,
            store=(in_memory_with_sums if is_damaged(case) else in_memory) if case.stable else None,
            admission=case.admission,
            links=case.links,
            seed=case.seed,
            **{"strangers": True, **options},
        )
        if case.known is not None and "dead_after_seconds" not in options:
            self.network.faults.tell_of_deaths(case.known.after_seconds, case.known.share)
        self.timeline = Timeline(self.network)
        self.operations: SimulatedOperations | None = None
        if case.operations:
            self.operations = SimulatedOperations(self.network, self._tell)
        self.report = ChaosReport("sim", case.describe(), brokers=len(self.network.hosts))
        self.report.options = " --operations" if case.operations else ""
        self.heartbeat = 1.0 if case.recovery is None else case.recovery.heartbeat_seconds
        self.degree = None if case.recovery is None else case.recovery.degree
        self.healed_at = self.converged_at = 0.0
        self.judged_from: float | None = None

    def run(self) -> ChaosReport:
        try:
            late = self.case.late
            self._build()
            if late is not None and late.before:
                self._late(late)
            self._faults()
            if self._converge():
                if late is None or late.before or self._late_kill(late):
                    self._liveness()
        except Exception as error:  # an error in a machine is a finding, and a run of many seeds continues
            self._problem(f"{self.network.now:.3f} s: {_words(error)}")
        self._judge()
        return self.report

    def _build(self) -> None:
        network = self.network
        self._do_all(self.case.opening, BUILD_SECONDS)
        network.advance_to(BUILD_SECONDS)
        while (network.unconfirmed() or books_problems(self.network)) and network.now < BUILD_SECONDS_MAX:
            network.advance(self.heartbeat)  # a long chain of slow links takes time
        for client, number in network.unconfirmed():
            self._problem(f"before the first fault: {client} #{number} is not confirmed")
        for problem in structure_problems(network, self.degree):
            self._problem(f"before the first fault: {problem}")
        if not self.report.problems:
            for problem in books_problems(self.network):
                self._problem(f"before the first fault: {problem}")

    def _faults(self) -> None:
        network = self.network
        start = network.now
        self._do_all(self.case.actions, start)
        for operation in self.case.operations:
            network.at(start + operation.at_seconds, self._operate, operation)
        for rumour in () if self.case.known is None else self.case.known.rumours:
            network.at(start + rumour.at_seconds, self._spread, rumour)
        self.healed_at = Injector(network, self.case.plan, self._say, lambda: root_of(network)).begin()
        while network.now < self.healed_at:
            network.advance_to(min(network.now + self.heartbeat / 2, self.healed_at))
            self._look()

    def _spread(self, rumour: Rumour) -> None:
        accused = self.network.faults.rumour(rumour.pick, rumour.share)
        self.timeline.say(self.network.now, f"wrong news: broker {accused} is said to be dead")

    def _converge(self) -> bool:
        network = self.network
        self._revive()
        network.advance(found_heartbeats(self.case) * self.heartbeat)
        steady, problems = 0, ["not looked at"]
        while self.operations is not None and self.operations.searching:  # every move starts a round
            network.advance(self.heartbeat / 2)
            self._revive()
            self._look()
        deadline = network.now + CONVERGE_HEARTBEATS * self.heartbeat
        while steady < STEADY_LOOKS and network.now < deadline:
            network.advance(self.heartbeat / 2)
            self._revive()
            problems = [] if self._look() else ["unsound"]
            problems = problems or self._problems()
            steady = 0 if problems else steady + 1
            if steady == 1:
                self.converged_at = network.now
        if steady < STEADY_LOOKS:
            problems = structure_problems(network, self.degree) or self._problems()
            for problem in problems or ["it does not stay sound"]:
                self._problem(f"not converged {CONVERGE_HEARTBEATS} heartbeats after the healing: {problem}")
            return False
        if self.report.converged_seconds is None:  # else it is the second time
            self.report.converged_seconds = self.converged_at - self.healed_at
        self.timeline.say(self.converged_at, "converged")
        return True

    def _late(self, late: Late) -> None:
        """Let new subscribers come after what others published has settled, and they have left."""
        network = self.network
        network.advance_to(self._do_all(late.publications, network.now))
        self._let_in()
        self._flush(late.publishers)
        network.account.settled(network.now)
        for publisher in late.publishers:
            network.detach(publisher)
        network.advance(self.heartbeat)
        network.account.settled(network.now)
        network.advance_to(self._do_all(late.subscriptions, network.now))
        deadline = network.now + CONVERGE_HEARTBEATS * self.heartbeat
        while (waiting := self._unconfirmed(late)) and network.now < deadline:
            network.advance(self.heartbeat / 2)
        for client, number in waiting:
            self._problem(f"{network.now:.3f} s: {client} #{number} is not confirmed")

    def _unconfirmed(self, late: Late) -> list[tuple[str, int]]:
        self.network.advance(2 * self.network.links.client_seconds)  # until its broker knows of it
        return [each for each in self.network.unconfirmed() if each[0] in late.subscribers]

    def _late_kill(self, late: Late) -> bool:
        """Let new subscribers come after the healing, kill brokers, and return whether the network heals again."""
        network = self.network
        network.advance(SETTLE_HEARTBEATS * self.heartbeat)
        network.account.settled(network.now)
        self._late(late)
        for broker in late.victims(network.staying()):
            network.crash(broker)
            self.timeline.say(network.now, f"broker {broker} dies late")
            if late.restarts:
                network.at(network.now + 4 * self.heartbeat, network.restart, broker)
        network.advance(8 * self.heartbeat)
        return self._converge()

    def _liveness(self) -> None:
        network = self.network
        self._let_in()
        network.advance(SETTLE_HEARTBEATS * self.heartbeat)
        network.account.settled(network.now)
        self.judged_from = network.now if is_damaged(self.case) else None
        last = self._do_all(self.case.closing, network.now)
        network.advance_to(last)
        self._let_in()
        network.advance(SETTLE_HEARTBEATS * self.heartbeat)
        network.account.settled(network.now)
        if self.case.stable:
            self._end_of_stable()
        problems = structure_problems(network, self.degree) or subscription_problems(network)
        for problem in problems or books_problems(self.network):
            self._problem(f"at the end: {problem}")
        if self.case.recovery is None:
            network.run()

    def _let_in(self) -> None:
        """Wait for events beyond the advertised rate: each counts as published when its publisher's quota admits it."""
        network = self.network
        deadline = network.now + LET_IN_HEARTBEATS_MAX * self.heartbeat
        while self.case.adverts and held_back(network) and network.now < deadline:
            network.advance(self.heartbeat)

    def _revive(self) -> None:
        """Restart every dead client process that can return; a publisher whose brokers are gone for good moves."""
        network = self.network
        for client in network.stopped():
            if not network.start(client) and network.homeless(client):
                network.start_elsewhere(client)

    def _end_of_stable(self) -> None:
        """Check that every publisher is told that all is delivered, and that brokers retain nothing without need."""
        network = self.network
        publishers = [
            name
            for name, session in network.sessions.items()
            if session.homes and session.is_publisher and not session.left
        ]
        self._flush(publishers)
        for problem in durable_problems(network):
            self._problem(f"at the end: {problem}")

    def _flush(self, publishers: Iterable[str]) -> None:
        """Wait until every publisher is told that all that it published is delivered."""
        network = self.network
        for publisher in publishers:
            network.flush(publisher, 1)
        deadline = network.now + FLUSH_HEARTBEATS_MAX * self.heartbeat
        while silent := set(publishers) - {publisher for _, publisher, _ in network.flushed}:
            if network.now >= deadline:
                break
            network.advance(self.heartbeat)
        for publisher in sorted(silent):
            self._problem(f"{network.now:.3f} s: {publisher} was not told that all is delivered")

    def _judge(self) -> None:
        network, report = self.network, self.report
        trace = network.account
        if network.admission is not None:
            books = clients_of(network)
            report.admission = {
                "admitted": len(network.clients.admitted),
                "refused": network.clients.refused,
                "degraded": sum(len(books.told(name)) for name in books.wanted),
            }
        if self.case.stable:
            trace.dead_for_good(network.now, network.hosts.keys() - set(network.living()))
        trace.settled(network.now)  # the full time for settling is over
        judged = trace if self.judged_from is None else trace.since(self.judged_from)
        report.judge(judged, keep_trace=self.keep_trace, lossless=self.case.lossless)
        report.moves = network.clients.moves
        report.messages = {kind.__name__: count for kind, count in _by_name(network.sent)}
        report.steps, report.virtual_seconds = network.steps, network.now
        told = self.timeline.told(trace, self.heartbeat / 2, network.now)
        report.recoveries, report.timeline = told

    # Actions of clients.

    def _do_all(self, actions: Iterable[Action], start: float) -> float:
        last = start
        for action in actions:
            last = max(self.network.now, start + action.at_seconds)
            self.network.at(last, self._do, action)
        return last

    def _do(self, action: Action) -> None:
        network = self.network
        broker = action.broker
        session = network.sessions.get(action.client)
        if action.do == "stop":
            network.stop(action.client)
            return
        if action.do == "start":
            if network.sessions[action.client].alive is False and not network.start(action.client):
                network.at(network.now + self.heartbeat, self._do, action)
            return
        if session is not None and not session.alive:
            return  # a dead client does nothing
        staying = network.staying()
        if not staying:
            return  # all brokers are restarting: the client has no broker to talk to
        if broker not in staying:
            broker = staying[0]
        if action.do == "subscribe":
            durable = action.client in self.case.durable
            priority = self.case.priorities.get(action.client, 0)
            network.subscribe(
                action.client, broker, action.selector, action.number, priority, durable=durable
            )
        elif action.do == "publish":
            if session is None and (advert := self.case.adverts.get(action.client)) is not None:
                network.advertise(action.client, broker, advert.selector, advert.rate)
            network.publish(action.client, broker, action.events)
        elif action.do == "cancel":
            if session is None or action.number not in session.machine.subscriptions():
                return  # the client was dead when it was to subscribe
            network.unsubscribe(action.client, action.number)
        elif action.do == "move":
            if self.case.recovery is not None:
                network.move(action.client, broker)
        else:
            raise ClientError(f"{action.client} cannot {action.do!r}")

    # Operations on the network.

    def _operate(self, operation: Operation) -> None:
        assert self.operations is not None
        done = self.operations.do(operation.do, operation.pick, operation.size)
        self._tell(f"{operation.do}: {done}")

    def _problems(self) -> list[str]:
        left = [] if self.operations is None else self.operations.leaving()
        problems = [f"broker {broker} has not left" for broker in left]
        return problems or subscription_problems(self.network) or books_problems(self.network)

    def _tell(self, what: str) -> None:
        self.timeline.say(self.network.now, f"operation: {what}")

    # Observation.

    def _look(self) -> bool:
        sound = not structure_problems(self.network, self.degree)
        self.timeline.sound.append((self.network.now, sound))
        return sound

    def _say(self, fault: Fault | None, what: str) -> None:
        self.timeline.harmed(self.network.now, fault, what)

    def _problem(self, sentence: str) -> None:
        if len(self.report.problems) < PROBLEMS_MAX:
            self.report.problems.append(sentence)


def _by_name(sent: Counter[type]) -> list[tuple[type, int]]:
    return sorted(sent.items(), key=lambda entry: entry[0].__name__)


def _words(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno}, {frame.name})"


def run_seeds(
    seeds: Sequence[int],
    *,
    processes: int | None = None,
    progress: Callable[[ChaosReport], None] | None = None,
    **options: Any,
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
