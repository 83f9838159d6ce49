"""A network of real actors, as a chaos run breaks it.

Rules
-----
* Each broker is in a process of its own. With stores, each recovers from one of its own, and processes of clients are
  killed too (:mod:`rayvous.faults.plans.stable_cases`, :mod:`.killable_clients`).
* Operations are done while others are killed (:mod:`.operating`).
* A broker that detects damage to its own state ends, and is restarted when that is seen.
* Faults are carried out in a thread of their own, so that a slow one does not keep the run from looking.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from ...actors.channels.config import Links
from ...actors.network.network import Network
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId, ClientId
from ...protocol.traces.account import Account
from ...protocol.traces.trace import Trace
from ...recovery.durability.stable import Stable
from ...recovery.membership.structure import root_of
from ...routing.schemes.claims import Membership
from ...routing.schemes.registry import scheme as scheme_of
from ...routing.topologies.cluster_trees import topology_of
from ..chaos_run import CONVERGE_HEARTBEATS
from ..checker.books import Clients, books_problems, ways_of
from ..checker.routes import route_problems
from ..machines.links import hosts_here
from ..machines.nodes import node_ids, start_given_up
from ..plans.cases import Action, Case, Operation, Rumour
from ..plans.damage_cases import is_damaged
from ..report import ChaosReport
from ..system import Bounds
from .injector import Breaker
from .operating import Operator
from .watching import ViewWatch, Watch
from .workload import RunningWorkload

CONVERGE_SECONDS: Final = 30.0
SETTLE_SECONDS: Final = 60.0


class OnRay:
    """A :class:`~rayvous.faults.system.System` of actors, which are launched on entering it as a context.

    Parameters
    ----------
    case
        What it is made for; its brokers heal.
    finding
        Called with a sentence for each call that failed.
    stable
        Where the brokers have their stores; None if they have none.
    links
        How bytes go between the processes.
    turn
        How the first broker is killed (:class:`~.injector.Breaker`).

    Raises
    ------
    InputError
        If its brokers do not heal.
    """

    def __init__(
        self,
        case: Case,
        finding: Callable[[str], None],
        *,
        stable: Stable | None,
        links: Links,
        turn: int = 0,
    ) -> None:
        if not case.features.heals:
            raise InputError(
                "a case whose brokers do not heal runs in virtual time only: on ray all faults would last"
            )
        self._case = case
        self._recovery = case.features.times
        self._finding = finding
        self._stable = stable
        self._links: Links = links
        self._turn = turn
        heals_within = max(CONVERGE_SECONDS, CONVERGE_HEARTBEATS * self._recovery.heartbeat_seconds)
        self.bounds = Bounds(heals_within, f"{heals_within:g} s", SETTLE_SECONDS, forget=CONVERGE_SECONDS)
        self._layout = hosts_here()
        self._clients = Clients()
        in_views = scheme_of(case.scheme).membership is Membership.VIEWS
        self.timeline = ViewWatch() if in_views else Watch(self._recovery.degree)
        self._zero = time.time() - time.monotonic()
        self._started = time.monotonic()
        self._stack = ExitStack()

    def __enter__(self) -> OnRay:
        if self._layout is not None:
            start_given_up(self._layout)  # given up in the run of another seed
        case = self._case
        with ExitStack() as stack:
            self._net = net = stack.enter_context(
                Network.launch(
                    topology_of(case.topology),
                    scheme=case.scheme,
                    recovery=self._recovery,
                    stable=self._stable,
                    admission=case.admission,
                    nodes=None if self._layout is None else node_ids(self._layout),
                    links=self._links,
                    progress=False,
                )
            )
            if net.inspect.directory.launches > 1:
                raise InputError(
                    "store_dir contains stores of an earlier run of this seed: name another folder"
                )
            self.network = Breaker(net, self._clock, self._turn, self._layout, self._stable)
            self._players = RunningWorkload(
                net,
                self._clock,
                self._zero + self._started,
                self._finding,
                say=self._say,
                silent=self.network.silent,
                durable=case.durable,
                recovery=self._recovery,
                stable=self._stable is not None,
                deaths=Counter(action.client for action in case.actions if action.do == "stop"),
                adverts=case.adverts,
                priorities=case.priorities,
            )
            stack.callback(self._players.close)
            self._operator = Operator(net, self.network, self._players, self._say, self._finding)
            net.await_convergence(CONVERGE_SECONDS)
            self._stack = stack.pop_all()
        self._threads: list[threading.Thread] = []
        return self

    def __exit__(self, *error: object) -> None:
        """End the network, and all that clients do."""
        self._stack.close()

    def _clock(self) -> float:
        return time.monotonic() - self._started

    def _say(self, what: str) -> None:
        self.timeline.say(self.now, what)

    @property
    def now(self) -> float:
        """The seconds since the launch began."""
        return self._clock()

    @property
    def account(self) -> Account:
        """What clients did and received so far."""
        return self._players.account

    # Time.

    def wait_until(self, when: float) -> None:
        """Sleep, and carry out the faults that are scheduled meanwhile."""
        self.network.run()
        time.sleep(max(0.0, when - self.now))

    def settle(self, until: float) -> None:
        """Wait until nothing is in flight, however long that takes."""
        self._net.settle(SETTLE_SECONDS)

    def carry_out(self, until: float, every_seconds: float) -> Iterator[None]:
        """Carry out all faults in a thread of their own; return control at intervals until it has ended."""
        done = threading.Event()

        def run() -> None:
            try:
                self.network.run()
            except Exception as error:  # a thread that it ended would report nothing
                self._finding(f"{self.now:.3f} s: the plan stopped: {type(error).__name__}: {error}")
            finally:
                done.set()

        threading.Thread(target=run, daemon=True, name="harm").start()
        while not done.wait(every_seconds):
            yield

    # Clients, and the network's operator.

    def play(self, actions: Sequence[Action], start: float) -> float:
        """Start actions of clients in threads of their own; return the time of the last one."""
        self._threads += self._players.play(actions, start)
        return start + max((action.at_seconds for action in actions), default=0.0)

    def await_clients(self) -> None:
        """Wait until all actions are done; unfinished ones are findings."""
        self._players.await_end(self._threads, SETTLE_SECONDS)
        self._threads = []

    def held_back(self) -> Collection[ClientId]:
        """Return nobody: a publisher's call ends when its events are admitted."""
        return ()

    def flush(self, publishers: Collection[ClientId] | None) -> list[str]:
        """Let publishers flush, all if None; return which got no answer in time."""
        return self._players.flush(SETTLE_SECONDS, publishers)

    def release(self, publishers: Sequence[ClientId]) -> None:
        """Let publishers leave the network."""
        self._players.release(publishers)

    def revive(self) -> None:
        """Restart every dead client process; a publisher whose broker is dead for good goes elsewhere."""
        self._players.revive()

    def operate(self, operations: Sequence[Operation], start: float) -> None:
        """Start operations on the network, each in a thread of its own."""
        self._operator.begin(operations, start)

    def spread(self, rumours: Sequence[Rumour], start: float) -> None:
        """Spread nothing: what a host knows of others comes from its connections, from Ray and the kernel."""

    # Questions.

    def root(self) -> BrokerId | None:
        """Return the root in a survey of the brokers that can answer."""
        return root_of(self._net.inspect.survey(without=self.network.silent()))

    @property
    def operating(self) -> bool:
        """Whether operations go on: Ray starts a process when the machine has time for it."""
        return self._operator.operating

    def unconfirmed(self, clients: Sequence[ClientId] | None = None) -> list[str]:
        """Return nothing: the call of a client that subscribes ends when it is confirmed."""
        return []

    def look(self) -> list[str]:
        """Survey the brokers that can answer; restart those that have ended because their state was damaged."""
        for host in self.network.given_up():
            self._say(f"Ray has given up host {host}")
        with self.network.asking:
            survey = self._net.inspect.survey(without=self.network.silent())
        problems = self.timeline.look(self.now, survey)
        for broker in self.network.start_fallen() if is_damaged(self._case) else ():
            self._say(f"broker {broker} has seen that its state is damaged, and starts again")
        return problems

    def unfinished(self) -> list[str]:
        """Return who still waits, or else what is wrong with the routes and the books of all brokers."""
        waiting = self._net.inspect.problems() + self._players.homeless() + self._operator.unfinished()
        return waiting or self._inside()

    def _inside(self) -> list[str]:
        scheme, survey = self._case.scheme, self._net.inspect.survey()
        self._clients = self._players.books()
        announces_first = scheme_of(scheme).claims.announces_first
        found = route_problems(
            self._net.inspect.routes(), self._clients, survey, announces_first=announces_first
        )
        if not self._case.features.admits:
            return found
        links, way = ways_of(survey, scheme)
        return found + books_problems(self._net.inspect.books(), links, self._clients, way)

    def unforgotten(self) -> list[str]:
        """Return what brokers still retain for durable subscribers, although all is acknowledged."""
        durable, found = len(self._case.durable), []
        sizes = self._net.inspect.describe().nodes.data()
        held = sum(size["durable_subscribers"] for _, size in sizes)
        if held != durable:
            found.append(f"brokers hold {held} durable subscribers, there are {durable}")
        found += [
            f"broker {broker} keeps {size['notes_kept']} notifications that are acknowledged"
            for broker, size in sizes
            if size["notes_kept"]
        ]
        return found

    # The end.

    def finish(self) -> None:
        """Raise what brokers have failed with."""
        self._net.inspect.check()

    def trace(self) -> Trace:
        """End all faults, and all that clients do; return what they did and received, in the order of its times."""
        try:
            self.network.calm()
        finally:
            self._players.close()
        account = self._players.account
        account.settled(self.now)  # the full time for settling is over
        return account.in_time()

    def count(self, report: ChaosReport) -> None:
        """Add the brokers and moves to a report, and what was admitted."""
        if self._case.features.admits:
            report.admission = {
                "admitted": self._players.admitted,
                "refused": self._players.refused,
                "degraded": sum(len(self._clients.told(name)) for name in self._clients.wanted),
            }
        report.brokers = len(self._net.inspect.positions)
        report.moves = self._players.moves


__all__ = ["OnRay"]
