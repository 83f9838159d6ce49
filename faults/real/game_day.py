"""A game day on Ray: looks at a running network, does what the machine says, and tells people what happens.

Rules
-----
* :class:`~rayvous.faults.game_day.machine.GameDay` decides. This looks, by `Network.status`, and does.
* What lasts is caused in the processes of the brokers, with an end (`processes`, `link_faults`): it ends by itself if
  this process is killed. A broker that is dead then stays dead, and the network is whole without it.
* While it lasts the rendezvous point knows of it (`actors.network.game_days`), so there is one at a time, and the live
  page shows what it does. Ray exports its metrics.
* The network is operated by its own operations: `kill_broker` and `start_again`. A start waits until Ray has room for
  it, perhaps forever, so nobody waits for a start: it has a thread of its own.
* The claim is renewed by a thread, whatever else takes its time. Without it no fault is caused.
"""

from __future__ import annotations

import getpass
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Final, TypeAlias
from uuid import uuid4

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.metrics import Counter, Gauge

from ...actors.host.errors import broker_errors
from ...actors.host.handle import HostHandle
from ...actors.host.host import BrokerHost
from ...actors.network.directory import rendezvous_name
from ...actors.network.game_days import CLAIM_SECONDS, Note
from ...actors.network.network import Network, hosts_of
from ...actors.network.remains import parts_of
from ...actors.network.status import BrokerStatus, NetworkStatus
from ...protocol import checks
from ...protocol.errors import BrokerUnavailable, InputError, RayvousError
from ...protocol.ids import BrokerId
from ...routing.schemes.registry import scheme as scheme_of
from ...simulator.link_faults import pair_of
from ..checker.conditions import Rule
from ..game_day.machine import Check, End, GameDay, Lift, Restart, Step, Strike, Target, View, Whole
from ..game_day.rehearsal import rehearse
from ..game_day.report import GameDayReport
from ..game_day.terms import USUAL_KINDS, Terms, kinds_of, require_allowed, spared
from ..plans.plans import ResetConnections, Shake
from .canary import Canary
from .connection_faults import ConnectionHarm
from .link_faults import LinkFaultTable
from .nodes import Nodes
from .processes import KillProcess, PauseProcess

LOOK_SECONDS: Final = 0.5
LOOK_PART: Final = 4.0
LOOK_SECONDS_MAX: Final = 3.0
"""The time between two looks: at least, in the time that a look takes, and at most."""
CLAIM_AGAIN_SECONDS: Final = CLAIM_SECONDS / 6
TELL_SECONDS: Final = 2.0
"""How long hosts have to take in a fault; one that stands still takes it in when it goes on."""

FAULTS_METRIC: Final = "rayvous_game_day_faults_total"
LASTING_METRIC: Final = "rayvous_game_day_fault"
LABELS: Final = ("network", "kind", "brokers")

Injected: TypeAlias = Callable[[BrokerHost], object]
"""A fault that is caused in the process of a host, by calling it with the host."""
Probe: TypeAlias = Callable[[], Iterable[str]]
"""A condition on anything else: what is wrong now, in sentences."""


class Metrics:
    """What Ray exports of one game day, as long as its process lives."""

    def __init__(self, network: str) -> None:
        self._network = network
        self._count = Counter(FAULTS_METRIC, "Faults that game days have caused", LABELS)
        self._lasts = Gauge(LASTING_METRIC, "1 from a fault of a game day until the network is whole", LABELS)
        self._now: dict[str, str] | None = None

    def struck(self, strike: Strike) -> None:
        """Count a fault, which lasts from now on."""
        self.whole()
        brokers = " ".join(map(str, strike.brokers))
        self._now = {"network": self._network, "kind": strike.kind, "brokers": brokers}
        self._count.inc(1, self._now)
        self._lasts.set(1, self._now)

    def whole(self) -> None:
        """Say that no fault lasts any more."""
        if self._now is not None:
            self._lasts.set(0, self._now)
        self._now = None


class _Host:
    """Drives one game day."""

    def __init__(
        self,
        net: Network,
        terms: Terms,
        operator: str,
        conditions: Sequence[Rule | Probe],
        stop: threading.Event,
        progress: Callable[[float, str], None] | None,
        nodes: Nodes | None,
    ) -> None:
        self._net, self._hosts = net, hosts_of(net)
        self._terms, self._nodes = terms, nodes
        self._machine = GameDay(terms)
        self._report = GameDayReport(net.name, net.inspect.scheme, terms, operator)
        self._rules = [each for each in conditions if isinstance(each, Rule)]
        self._probes = [each for each in conditions if not isinstance(each, Rule)]
        self._stop, self._progress = stop, progress
        self._holder = f"{_user()}@{socket.gethostname()}, process {os.getpid()}, {uuid4().hex[:8]}"
        self._notes: list[Note] = []
        self._claiming = threading.Lock()
        self._over = threading.Event()
        self._starting: threading.Thread | None = None
        self._started: deque[tuple[str, str]] = deque()  # what starts have come to, in words, and the mood
        self._void = 0
        self._begun = time.monotonic()
        self._metrics = Metrics(net.name)
        self._end: End | None = None
        self._failed: Exception | None = None

    @property
    def _now(self) -> float:
        return time.monotonic() - self._begun

    def run(self) -> GameDayReport:
        """Carry it out, and return what it found."""
        report = self._report
        status = self._net.status()
        refusal = self._machine.refusal(view_of(self._net, status, 0.0, self._nodes))
        if refusal:
            raise InputError(f"network {self._net.name!r} can have no game day now: {refusal}")
        self._claim()
        report.started_at = time.time() - self._now
        threading.Thread(target=self._claim_again, daemon=True, name="game day").start()
        try:
            living = [one.broker for one in status.brokers if one.state == "alive"]
            word = f"game-day-{self._holder[-8:]}"
            self._canary = Canary(
                self._net, word, living, lambda: self._now, report.started_at,
                patience_seconds=self._terms.heal_seconds, rules=self._rules, problem=self._failing,
            )  # fmt: skip
            try:
                by = f" by {report.operator}" if report.operator else ""
                self._say(f"begins{by}: {', '.join(self._terms.kinds)}, for {self._terms.seconds:g} s")
                try:
                    self._drive()
                except KeyboardInterrupt:  # a second one interrupts the healing
                    self._stop.set()
                    self._drive()
            finally:
                self._leave()
        except BaseException as error:
            self._say(f"ends: {type(error).__name__}: {error}", "bad")
            raise
        finally:
            self._metrics.whole()
            self._over.set()
            self._claim(ends=True)
        if self._failed is not None:
            raise self._failed
        return report

    def _leave(self) -> None:
        """End whatever has not ended in good order, and the canary."""
        report = self._report
        if self._end is None:
            self._lift()
            if dead := tuple(sorted(report.killed & set(self._dead()))):
                self._restart(dead).join(self._terms.heal_seconds)
                self._say_started()
        self._canary.close()
        report.verdict = self._canary.verdict
        report.latencies = self._canary.latencies.rows()
        report.left_dead = sorted(report.killed & set(self._dead()))

    def _drive(self) -> None:
        view, took = self._look(), 0.0
        while True:
            for step in self._machine.look(view):
                self._do(step)
            if self._end is not None:
                return
            if self._notes:
                self._claim()
            pause = min(max(LOOK_SECONDS, LOOK_PART * took), LOOK_SECONDS_MAX)
            self._stop.wait(pause) if not self._stop.is_set() else time.sleep(pause)
            begun = time.monotonic()
            view = self._look()
            took = time.monotonic() - begun

    def _look(self) -> View:
        """Look at the network and the canary."""
        asked, now = "it was interrupted" if self._stop.is_set() else "", self._now
        for probe in self._probes:
            self._ask(probe)
        self._say_started()
        broken = self._canary.broken() or next(iter(self._report.problems), "")
        try:
            view = view_of(self._net, self._net.status(), now, self._nodes)
        except (RayvousError, RayError) as error:  # somebody who has to does not answer
            view = View(now, (), {}, problems=(str(error),), closed=_is_closed(self._net.name))
        return replace(view, broken=broken, checked=self._canary.checked, stop=asked, void=self._void)

    def _failing(self, sentence: str) -> None:
        """Take a problem of the canary, unless it is that the network is there no more."""
        if not _is_closed(self._net.name):
            self._report.problem(sentence)

    def _ask(self, probe: Probe) -> None:
        """Ask a condition of the user; one that fails, or says what no sentences are, is a problem."""
        name = getattr(probe, "__name__", type(probe).__name__)
        try:
            said = probe()
            for sentence in (said,) if isinstance(said, str) else said or ():
                self._report.problem(f"{name}: {sentence}")
        except Exception as error:
            self._report.problem(f"{name}: {type(error).__name__}: {error}")

    # What the machine says.

    def _do(self, step: Step) -> None:
        match step:
            case Strike():
                self._report.struck(self._now, step)
                self._metrics.struck(step)
                self._say(f"fault {step.number}: {step}", "bad")
                try:
                    if not self._claim():  # before it is caused, so that people know why
                        raise BrokerUnavailable("the rendezvous point does not confirm the game day")
                    self._cause(step)
                except (RayvousError, RayError) as error:  # it has left, or has just died by itself
                    self._void = step.number
                    self._say(f"fault {step.number} had no effect: {error}")
            case Restart(brokers):
                self._restart(brokers)
            case Lift():
                self._say("everything that lasts is ended")
                self._lift()
            case Check(number):
                self._canary.check(number)
            case Whole(strike, seconds):
                self._report.whole(seconds)
                self._metrics.whole()
                self._say(f"whole again {seconds:.1f} s after fault {strike.number}", "good")
            case End(reason):
                self._end = step
                self._report.ended(self._now, step)
                self._say(
                    f"ends: {reason}",
                    "good" if step.healed and step.whole and reason not in self._report.problems else "bad",
                )

    def _cause(self, strike: Strike) -> None:
        host = self._net.inspect.host_of(strike.brokers[0])
        match strike.kind:
            case "kill":
                _tell([host], KillProcess())
                self._net.kill_broker(strike.brokers[0])  # it is dead; this waits until Ray knows that
            case "node":
                assert self._nodes is not None, "else there are no nodes to hit"
                if failed := self._nodes.end(host):
                    self._report.problem(failed)
                    raise InputError(failed)
            case "pause":
                _tell([host], PauseProcess(strike.seconds))
            case "reset":
                _tell([host], ConnectionHarm(ResetConnections(0.0, strike.brokers[0])))
            case "slow":
                shake = Shake(0.0, strike.seconds, delay_seconds=strike.delay_seconds, brokers=strike.brokers)
                self._tell_all(
                    LinkFaultTable(shakes=((strike.seconds, shake),), lease_seconds=strike.seconds)
                )
            case "cut":
                others = set(self._net.inspect.brokers()) - set(strike.brokers)
                pairs = frozenset(pair_of(*ends) for ends in product(strike.brokers, sorted(others)))
                self._tell_all(LinkFaultTable(cut=pairs, lease_seconds=strike.seconds))

    def _lift(self) -> None:
        """End link faults at once; what stands still goes on when its lease is over."""
        with suppress(RayError):  # who has no faults cannot end them
            self._tell_all(LinkFaultTable(lease_seconds=0.0))

    def _restart(self, brokers: Sequence[BrokerId]) -> threading.Thread:
        """Begin to start dead brokers again, unless a start is under way; return its thread."""
        if self._starting is None or not self._starting.is_alive():
            self._starting = threading.Thread(target=self._start, args=(brokers,), daemon=True, name="starts")
            self._starting.start()
        return self._starting

    def _start(self, brokers: Sequence[BrokerId]) -> None:
        """Start dead brokers again, those together that were in one process."""
        names = ", ".join(map(str, brokers))
        try:
            with broker_errors(f"starting brokers {names} again"):
                self._hosts.find_reborn()
                together = dict[object, list[BrokerId]]()
                for broker in brokers:
                    together.setdefault(self._hosts.host_of(broker), []).append(broker)
                for host, ones in together.items():
                    if host in self._hosts.dead:  # else somebody else has started it
                        self._hosts.start_again(ones)
            self._started.append((f"started again: broker {names}", ""))
        except (RayvousError, RayError) as error:
            self._started.append((f"broker {names} cannot be started yet: {error}", "bad"))

    def _say_started(self) -> None:
        while self._started:
            self._say(*self._started.popleft())

    def _tell_all(self, fault: Injected) -> None:
        _tell(self._net.inspect.hosts(), fault)

    # People, and other game days.

    def _say(self, what: str, mood: str = "") -> None:
        now = self._now
        self._report.say(now, what)
        self._notes.append(Note(time.time(), what, mood))
        if self._progress is None:
            return
        try:
            self._progress(now, what)
        except Exception as error:  # what is broken is mended first
            self._progress, self._failed = None, error
            self._stop.set()

    def _claim_again(self) -> None:
        """Renew the claim until the game day is over."""
        while not self._over.wait(CLAIM_AGAIN_SECONDS):
            with suppress(RayvousError, RayError):  # it is said again
                self._claim()

    def _claim(self, *, ends: bool = False) -> bool:
        """Say that this game day is under way, and what it did; return whether it has the network."""
        with self._claiming:
            if self._over.is_set() and not ends:
                return False
            many = len(self._notes)
            notes = self._notes[:many]
            try:
                with broker_errors(f"a game day of network {self._net.name!r}", "the rendezvous point"):
                    call = self._net.inspect.rendezvous.game_day.remote(self._holder, notes, ends=ends)
                    other = ray.get(call, timeout=CLAIM_AGAIN_SECONDS)
            except BrokerUnavailable:
                if not self._report.started_at:
                    raise
                return False  # it is said again
            del self._notes[:many]
        if other and not self._report.started_at:
            raise InputError(
                f"network {self._net.name!r} has a game day already: {other}; there is one at a time, and one whose "
                f"process has died is forgotten after {CLAIM_SECONDS:.0f} s"
            )
        if other and not ends:
            self._report.problem(f"another game day has begun meanwhile: {other}")
        return not other

    def _dead(self) -> list[BrokerId]:
        try:
            return [one.broker for one in self._net.status().brokers if one.state == "dead"]
        except BrokerUnavailable:
            return []


def _tell(hosts: Iterable[object], fault: Injected) -> None:
    """Call a fault with each of these hosts; wait a while until they have taken it in.

    Raises
    ------
    RayTaskError
        If one cannot cause it.
    """
    calls = [HostHandle(host).inject(fault) for host in hosts]
    taken = ray.wait(calls, num_returns=len(calls), timeout=TELL_SECONDS)[0] if calls else []
    for call in taken:
        with suppress(RayActorError):  # it has died, perhaps of this
            ray.get(call)


def _is_closed(network: str) -> bool:
    """Return whether a network has no rendezvous point any more, not even one that is being restarted."""
    try:
        return rendezvous_name(network) not in parts_of(network)
    except RayError:
        return False  # Ray does not answer


def view_of(net: Network, status: NetworkStatus, now: float, nodes: Nodes | None = None) -> View:
    """Return what the machine looks at, from the status of a network; and its nodes, if these may be ended."""
    alive = [one for one in status.brokers if one.state == "alive"]
    silent = [one for one in status.brokers if one.state == "silent"]
    hosts, together = net.inspect.directory.hosts, dict[object, list[BrokerStatus]]()
    for one in alive:
        together.setdefault(hosts.get(one.broker), []).append(one)
    features = net.inspect.directory.features
    lasts = features.times.retention_seconds if not features.stores else float("inf")
    targets = tuple(_target(ones, lasts) for ones in together.values())
    problems = [*status.problems, *(f"broker {one.broker} does not answer" for one in silent)]
    root = next((one.broker for one in alive if one.role == "REB"), None)
    dead = tuple(one.broker for one in status.brokers if one.state == "dead")
    clusters = {one.broker: one.cluster for one in alive}
    ended = () if nodes is None else tuple(_target(ones, lasts) for ones in nodes.of(together))
    return View(now, targets, clusters, root, dead, tuple(problems), nodes=ended)


def _target(ones: Sequence[BrokerStatus], retention_seconds: float) -> Target:
    holds = next(filter(None, (_holds(one, retention_seconds) for one in ones)), "")
    return Target(tuple(sorted(one.broker for one in ones)), holds)


def _holds(one: BrokerStatus, retention_seconds: float) -> str:
    """Return what only this broker has: events of durable subscribers that nobody retains any more, without a store."""
    seconds = one.sizes.get("durable_seconds", 0)
    if seconds <= retention_seconds / 2:
        return ""
    return f"events that have waited {seconds:,} s for a durable subscriber at broker {one.broker}, which has no store"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def game_day(
    net: Network,
    *,
    seconds: float = 600.0,
    per_minute: float = 1.0,
    kinds: str | Iterable[str] | None = None,
    spare: str | Iterable[BrokerId | str] = (),
    seed: int = 0,
    conditions: Iterable[Rule | Probe] = (),
    token: str | None = None,
    node_command: str | None = None,
    dry_run: bool = False,
    stop: threading.Event | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> GameDayReport:
    """Break a running network with its real clients, never more than it promises to survive, and judge it.

    One fault at a time, each in a whole network. Clients of its own publish and subscribe meanwhile, and are judged. It
    stops at the first broken promise, and heals what it broke. docs/chaos.md has the rules.

    Parameters
    ----------
    net
        The network, launched with ``chaos=True``, which heals.
    seconds
        How long faults are caused.
    per_minute
        The mean number of faults per minute while the network is whole.
    kinds
        Any of "kill", "pause", "slow", "reset", "cut" and "node"; None for the first four.
    spare
        Brokers that are not harmed, and ``"root"``.
    seed
        From which the faults are drawn.
    conditions
        Conditions of your own: rules on what the game day's clients did and received (docs/conditions.md), and
        functions that return what is wrong now with anything, as sentences.
    token
        Where the network has rights: the token of a principal that may operate it.
    node_command
        For the kind "node": the command that ends a machine, without a shell. ``{node}`` in it is the machine's name,
        as Ray knows it: that of its pod on Kubernetes. Ray's head and the machine of this process are not ended.
    dry_run
        Cause nothing: the report has the faults that would be caused, as the network is now.
    stop
        Ends it in good order when it is set, from another thread.
    progress
        Called with (seconds, what happened).

    Raises
    ------
    InputError
        If the network may not have a game day, does not heal, heals just now, or has a game day already; or a parameter
        is out of range.
    AccessDenied
        If the token has no right to operate the network.
    """
    directory = net.inspect.directory
    if isinstance(per_minute, int | float):
        per_minute /= 60.0
    wanted = USUAL_KINDS if kinds is None else kinds_of(kinds)
    terms = Terms(seconds, per_minute, wanted, seed, spared(spare)).validate()
    if directory.channels is None and "reset" in wanted:
        if kinds is not None:
            raise InputError(
                f"kinds: reset: the links of network {net.name!r} are calls of Ray, not connections"
            )
        terms = replace(terms, kinds=tuple(kind for kind in wanted if kind != "reset"))
    operator = ""
    if not dry_run:
        operator = require_allowed(net.name, chaos=directory.chaos, access=directory.access, token=token)
    if not directory.features.heals:
        raise InputError(
            f"network {net.name!r} does not heal, so it promises to survive nothing: launch it with recovery=Recovery()"
        )
    checks.callback("progress", progress)
    own = list(conditions)
    for each in own:
        if not isinstance(each, Rule) and not callable(each):
            raise checks.wrong("conditions", each, "a Rule, or a function that returns sentences")
    nodes = None
    if "node" in wanted:
        if node_command is None or "{node}" not in node_command:
            raise InputError("kinds: node: give the command that ends one, with {node} where its name comes")
        nodes = Nodes(node_command)
    membership = scheme_of(directory.scheme).membership
    terms = terms.within(directory.features.times, membership, net.inspect.brokers())
    if not dry_run:
        return _Host(net, terms, operator, own, stop or threading.Event(), progress, nodes).run()
    report = GameDayReport(net.name, directory.scheme, terms, reason="nothing was done: it was a dry run")
    view = view_of(net, net.status(), 0.0, nodes)
    refusal = GameDay(terms).refusal(view)
    if refusal:
        raise InputError(f"network {net.name!r} can have no game day now: {refusal}")
    for now, strike in rehearse(terms, view):
        report.struck(now, strike)
        report.say(now, str(strike))
    return report


__all__ = ["game_day", "view_of"]
