"""Chaos on Ray: a drawn network of real actors under a drawn fault plan, then healed, and judged.

Phases
------
1. Build: the network is launched, clients subscribe, everything settles.
2. Faults: the plan is carried out while clients publish, subscribe, unsubscribe and move.
3. Heal: all faults end. Within :data:`CONVERGE_SECONDS` the network must be one tree again, with every subscription
   installed and every client at a living broker (promise 6), and stay so for a few looks.
4. Late subscribers come, before phase 2 or after phase 3 (:mod:`rayvous.faults.plans.late_cases`). In the latter case
   brokers die once more, and the network heals once more.
5. Liveness: every publisher publishes again. When the network has settled, everything is judged (promises 1-3).

The case of a seed is drawn as for the simulator (:mod:`rayvous.faults.plans.cases`), but with few brokers, each in
a process of its own. Whenever the network is quiescent, the routes of all brokers are judged
(:mod:`rayvous.faults.checker.routes`). With `stable`, each broker recovers from a store of its own, and processes of
clients are killed too (:mod:`rayvous.faults.plans.stable_cases`, :mod:`.killable_clients`). With `operations`,
brokers join and leave (:mod:`.operating`). With `admission`, brokers admit only what they can carry, and all their
books are judged too (:mod:`rayvous.faults.checker.books`). With `damage`, parts of brokers' state are damaged
(:mod:`rayvous.faults.plans.damage_cases`): a broker that detects damage to its own state ends, and is restarted.

The first fault of a plan kills the target that ``AIMS[seed % 6]`` names, so six consecutive seeds cover every kind
of killing; with a scheme without a tree it is ``FLAT_AIMS[seed % 5]``. The same seed gives the same case; the
timing inside it depends on the machine.
"""

from __future__ import annotations

import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import ray

from ...actors.channels.config import LINKS_DEFAULT, Links
from ...actors.network.network import Network, ensure_ray
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import Recovery
from ...recovery.durability.stable import Stable, part_of
from ...recovery.membership.structure import root_of
from ...routing.schemes.claims import claims_of
from ...routing.topologies.cluster_trees import topology_of
from ..checker.books import Clients, books_problems, ways_of
from ..checker.routes import route_problems
from ..injector import Injector
from ..machines.layout import GIVES_UP_SECONDS
from ..machines.links import hosts_here
from ..machines.nodes import node_ids, start_given_up
from ..plans.admission_cases import with_admission
from ..plans.cases import Case, Late, draw_case, small_topology
from ..plans.connection_cases import with_connection_faults
from ..plans.damage_cases import found_heartbeats, is_damaged, that_compares, with_damage
from ..plans.draws import AIMS, FLAT_AIMS
from ..plans.host_plans import check_hosts, host_plan
from ..plans.late_cases import with_late
from ..plans.lossless_cases import without_limits
from ..plans.plans import Fault, FaultPlan
from ..plans.stable_cases import with_stores
from ..report import ChaosReport
from .injector import Breaker
from .operating import Operator
from .watching import ViewWatch, Watch
from .workload import RunningWorkload

BROKERS_MAX: Final = 9
FAULT_SECONDS: Final = 8.0
"""How long the faults of a drawn plan last."""

CONVERGE_SECONDS: Final = 30.0
SETTLE_SECONDS: Final = 60.0
RESTART_HEARTBEATS: Final = 8
"""How long brokers that died late stay dead at least."""

STEADY_LOOKS: Final = 4
"""How many sound looks in a row are required; looks are half a heartbeat apart."""

PROBLEMS_MAX: Final = 20


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
    stable
        Whether brokers have stores, and clients die too.
    admission
        Whether brokers admit only what they can carry.
    operations
        Whether brokers and clusters join and leave.
    damage
        Whether state is damaged too.
    lossless
        Whether so much is retained that no loss is excused.
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
    late = late and plan is None and not damage and not hosts
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
    case = with_admission(case) if admission else case
    case = with_stores(case) if stable else case
    case = without_limits(case) if lossless else case
    case = with_connection_faults(case) if connected else case
    case = with_damage(case) if damage else that_compares(case)
    return with_late(case) if late else case


def aims_of(scheme: str) -> tuple[str, ...]:
    """Return the targets of the first faults of consecutive seeds."""
    return FLAT_AIMS if claims_of(scheme).views else AIMS


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
    if not case.stable:
        return _Run(case, keep_trace, None, links).run()
    if store_dir is not None:
        return _Run(case, keep_trace, Stable(part_of(store_dir, f"seed-{seed}")), links).run()
    with tempfile.TemporaryDirectory(prefix="rayvous-chaos-") as folder:
        return _Run(case, keep_trace, Stable(folder), links).run()


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


class _Run:
    def __init__(self, case: Case, keep_trace: bool, stable: Stable | None, links: Links) -> None:
        assert case.recovery is not None, "drawn with one"
        self.links = links
        self.stable = stable
        self.case = case
        self.keep_trace = keep_trace
        self.recovery = case.recovery
        self.layout = hosts_here()
        self.report = ChaosReport("ray", case.describe())
        self.watch = ViewWatch() if claims_of(case.scheme).views else Watch(case.recovery.degree)
        self.zero = time.time() - time.monotonic()
        self.started = time.monotonic()
        self.healed_at = 0.0
        self.judged_from: float | None = None
        self.net: Network
        self.clients = Clients()
        self.breaker: Breaker
        self.players: RunningWorkload
        self.operator: Operator

    def clock(self) -> float:
        return time.monotonic() - self.started

    def run(self) -> ChaosReport:
        topology = topology_of(self.case.topology)
        try:
            if self.layout is not None:
                start_given_up(self.layout)  # given up in the run of another seed
            with Network.launch(
                topology,
                scheme=self.case.scheme,
                recovery=self.recovery,
                stable=self.stable,
                admission=self.case.admission,
                nodes=None if self.layout is None else node_ids(self.layout),
                links=self.links,
                progress=False,
            ) as net:
                self.net = net
                if net.directory.launches > 1:
                    raise InputError(
                        "store_dir contains stores of an earlier run of this seed: name another folder"
                    )
                turn = self.case.seed // len(aims_of(self.case.scheme))
                self.breaker = Breaker(net, self.clock, turn, self.layout, self.stable)
                self.players = RunningWorkload(
                    net,
                    self.clock,
                    self.zero + self.started,
                    self._problem,
                    say=lambda what: self.watch.say(self.clock(), what),
                    silent=self.breaker.silent,
                    durable=self.case.durable,
                    recovery=self.recovery,
                    stable=self.stable is not None,
                    deaths=Counter(action.client for action in self.case.actions if action.do == "stop"),
                    adverts=self.case.adverts,
                    priorities=self.case.priorities,
                )
                self.operator = Operator(net, self.breaker, self.players, self._tell, self._problem)
                try:
                    self._phases()
                finally:
                    self.breaker.calm()
                    self.players.close()
                    self._judge()
        except Exception as error:  # any error is a finding, and a run of many seeds continues
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(frame.filename).name}:{frame.lineno}, {frame.name}"
            self._problem(f"{self.clock():.3f} s: {type(error).__name__}: {error} ({where})")
        self.report.seconds = self.clock()
        return self.report

    def _phases(self) -> None:
        late = self.case.late
        self._build()
        if late is not None and late.before:
            self._late(late)
        self._faults()
        if self._converge():
            if late is None or late.before or self._late_kill(late):
                self._liveness()

    def _build(self) -> None:
        self.net.await_convergence(CONVERGE_SECONDS)
        self._play(self.case.opening, min(action.at_seconds for action in self.case.opening))
        self.net.settle(SETTLE_SECONDS)
        for problem in self.net.problems() + self._inside():
            self._problem(f"before the first fault: {problem}")
        self._look()

    def _play(self, actions: Sequence[Any], first: float) -> None:
        threads = self.players.play(actions, self.clock() - first)
        self.players.await_end(threads, SETTLE_SECONDS)

    def _faults(self) -> None:
        start = self.clock()
        playing = self.players.play(self.case.actions, start)
        self.operator.begin(self.case.operations, start)
        Injector(self.breaker, self.case.plan, self._say, self._root).begin()
        done = threading.Event()

        def carry_out() -> None:
            try:
                self.breaker.run()
            except Exception as error:
                self._problem(f"{self.clock():.3f} s: the plan stopped: {type(error).__name__}: {error}")
            finally:
                done.set()

        threading.Thread(target=carry_out, daemon=True, name="harm").start()
        while not done.wait(self.recovery.heartbeat_seconds / 2):
            self._look()
        self.healed_at = self.clock()
        self.players.await_end(playing, SETTLE_SECONDS)

    def _converge(self) -> bool:
        self.players.revive()
        found_at = self.healed_at + found_heartbeats(self.case) * self.recovery.heartbeat_seconds
        while self.clock() < found_at:
            time.sleep(self.recovery.heartbeat_seconds / 2)
            self._look()
        steady, converged_at, problems = 0, 0.0, ["not looked at"]
        deadline = max(self.healed_at + CONVERGE_SECONDS, self.clock() + CONVERGE_SECONDS / 2)
        while steady < STEADY_LOOKS and self.clock() < deadline:
            time.sleep(self.recovery.heartbeat_seconds / 2)
            self._look()
            problems = self.net.problems() + self.players.homeless() + self.operator.unfinished()
            steady = 0 if problems or not self.watch.sound[-1][1] else steady + 1
            if steady == 1:
                converged_at = self.clock()
        if steady < STEADY_LOOKS:
            for problem in problems or ["it does not stay sound"]:
                self._problem(f"not converged {CONVERGE_SECONDS:g} s after the healing: {problem}")
            return False
        if self.report.converged_seconds is None:  # else it is the second time
            self.report.converged_seconds = converged_at - self.healed_at
        self.watch.say(converged_at, "converged")
        return True

    def _late(self, late: Late) -> None:
        """Let new subscribers come after what others published has settled, and they have left."""
        self._play(late.publications, 0.0)
        for problem in self.players.flush(SETTLE_SECONDS, late.publishers):
            self._problem(problem)
        self.net.settle(SETTLE_SECONDS)
        self.players.account.settled(self.clock())
        self.players.release(late.publishers)
        self._play(late.subscriptions, 0.0)

    def _late_kill(self, late: Late) -> bool:
        """Let new subscribers come after the healing, kill brokers, and return whether the network heals again."""
        self._late(late)
        victims = late.victims(self.breaker.staying())
        for broker in victims:
            self.watch.say(self.clock(), f"broker {broker} dies late")
            self.breaker.crash(broker)
        time.sleep(RESTART_HEARTBEATS * self.recovery.heartbeat_seconds)
        for broker in victims if late.restarts else ():
            self.breaker.restart(broker)
        return self._converge()

    def _liveness(self) -> None:
        account = self.players.account
        self.net.settle(SETTLE_SECONDS)
        account.settled(self.clock())
        self.judged_from = self.clock() if is_damaged(self.case) else None
        for problem in self._inside():
            self._problem(f"after the healing: {problem}")
        self._play(self.case.closing, 0.0)
        self.net.settle(SETTLE_SECONDS)
        account.settled(self.clock())
        problems = self._end_of_stable() if self.case.stable else []
        for problem in problems + self.net.problems() + self._inside():
            self._problem(f"at the end: {problem}")
        self.net.check()

    def _end_of_stable(self) -> list[str]:
        """Check that every publisher is told that all is delivered, and that brokers retain nothing without need."""
        unanswered = self.players.flush(SETTLE_SECONDS)
        deadline = self.clock() + CONVERGE_SECONDS
        while (left := kept_in_vain(self.net, len(self.case.durable))) and self.clock() < deadline:
            time.sleep(self.recovery.heartbeat_seconds)
        return unanswered + left

    def _inside(self) -> list[str]:
        """Return what is wrong with the routes and the books of all brokers, while nothing is in flight."""
        scheme, survey = self.case.scheme, self.net.survey()
        self.clients = self.players.books()
        told_first = claims_of(scheme).told_first
        found = route_problems(self.net.routes(), self.clients, survey, told_first=told_first)
        if self.case.admission is None:
            return found
        links, way = ways_of(survey, scheme)
        return found + books_problems(self.net.books(), links, self.clients, way)

    def _judge(self) -> None:
        report, account = self.report, self.players.account
        if self.case.admission is not None:
            report.admission = {
                "admitted": self.players.admitted,
                "refused": self.players.refused,
                "degraded": sum(len(self.clients.told(name)) for name in self.clients.wanted),
            }
        account.settled(self.clock())  # the full time for settling is over
        trace = account.in_time()
        judged = trace if self.judged_from is None else trace.since(self.judged_from)
        report.judge(judged, keep_trace=self.keep_trace, lossless=self.case.lossless)
        report.brokers = len(self.net.positions)
        report.moves = self.players.moves
        told = self.watch.told(trace, self.recovery.heartbeat_seconds / 2, self.clock())
        report.recoveries, report.timeline = told

    # Observation.

    def _look(self) -> None:
        for host in self.breaker.given_up():
            self._tell(f"Ray has given up host {host}")
        with self.breaker.asking:
            survey = self.net.survey(without=self.breaker.silent())
        self.watch.look(self.clock(), survey)
        for broker in self.breaker.start_fallen() if is_damaged(self.case) else ():
            self._tell(f"broker {broker} has seen that its state is damaged, and starts again")

    def _root(self) -> BrokerId | None:
        return root_of(self.net.survey(without=self.breaker.silent()))

    def _say(self, fault: Fault | None, what: str) -> None:
        self.watch.harmed(self.clock(), fault, what)

    def _tell(self, what: str) -> None:
        self.watch.say(self.clock(), what)

    def _problem(self, sentence: str) -> None:
        if len(self.report.problems) < PROBLEMS_MAX:
            self.report.problems.append(sentence)


def kept_in_vain(net: Network, durable: int) -> list[str]:
    """Return what brokers still retain for durable subscribers, `durable` in number, although all is acknowledged."""
    found = []
    sizes = net.describe().nodes.data()
    held = sum(size["durable_subscribers"] for _, size in sizes)
    if held != durable:
        found.append(f"brokers hold {held} durable subscribers, there are {durable}")
    found += [
        f"broker {broker} keeps {size['notes_kept']} notifications that are acknowledged"
        for broker, size in sizes
        if size["notes_kept"]
    ]
    return found
