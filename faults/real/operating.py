"""Carries out drawn operations on a Ray network: brokers and clusters join, leave gracefully, and move nearer.

Rules
-----
* Every operation is done at its time, whatever the others are doing: some take until the network has healed.
* The broker or cluster is chosen among those that are there by then and stay, as in the simulator
  (:class:`rayvous.simulator.operations.SimulatedOperations`).
* A broker that has left, or was to leave and died, is never restarted. The last broker that stays is not removed.
* A broker that was to leave and has not left in the end is a finding, and so is an operation that failed. There is
  one exception: while a host is cut off, Ray may place a new broker there, and give it up before it has joined.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ...actors.network.network import Network
from ...protocol.errors import BrokerUnavailable, InputError, RayvousError
from ...protocol.ids import BrokerId, ClusterId
from ..plans.cases import Operation
from .injector import Breaker
from .workload import RunningWorkload

LEAVE_SECONDS: Final = 60.0
COMING: Final = ("add_broker", "add_cluster")


class Operator:
    """Carries out operations on one network.

    Parameters
    ----------
    net, breaker, players
        The network, its fault injector, and its clients.
    say
        Called with a sentence for what has happened.
    finding
        Called with a sentence for what has failed.
    """

    def __init__(
        self,
        net: Network,
        breaker: Breaker,
        players: RunningWorkload,
        say: Callable[[str], None],
        finding: Callable[[str], None],
    ) -> None:
        self._net = net
        self._breaker = breaker
        self._players = players
        self._say = say
        self._finding = finding
        self._turn = threading.Lock()
        self._threads: list[threading.Thread] = []

    def begin(self, operations: Sequence[Operation], start: float) -> None:
        """Start these operations, each at its time, counted from `start` on the clock of the run."""
        self._threads = [
            threading.Thread(target=self._do_at, args=(each, start), daemon=True, name=each.do)
            for each in operations
        ]
        for thread in self._threads:
            thread.start()

    @property
    def operating(self) -> bool:
        """Whether operations go on; each ends within a time of its own."""
        return any(thread.is_alive() for thread in self._threads)

    def unfinished(self) -> list[str]:
        """Return, as sentences, which operations are not done yet, and which brokers have not left."""
        leaving = [f"broker {broker} has not left" for broker in self._breaker.leaving()]
        return leaving + [f"{thread.name} is not done" for thread in self._threads if thread.is_alive()]

    def _do_at(self, operation: Operation, start: float) -> None:
        if (wait := start + operation.at_seconds - self._breaker.now) > 0:
            time.sleep(wait)
        try:
            done = self._do(operation.do, operation.pick, operation.size)
        except Exception as error:  # otherwise the thread would end silently
            gone = isinstance(error, InputError)  # the broker or cluster that was chosen
            never_came = isinstance(error, BrokerUnavailable) and operation.do in COMING
            if not (gone or (never_came and self._breaker.cut_off)):
                self._finding(f"{self._breaker.now:.3f} s: {operation.do}: {type(error).__name__}: {error}")
                return
            done = f"came to nothing: {error}"
        self._say(f"operation: {operation.do}: {done}")

    def _do(self, what: str, pick: float, size: int) -> str:
        """Do an operation, on one of the brokers or clusters that are there; return a description."""
        clusters = sorted({self._cluster(broker) for broker in self._breaker.staying()})
        cluster = clusters[int(pick * len(clusters))]
        if what == "add_broker":
            return f"broker {self._fill([self._net.add_broker(cluster)])} to cluster {cluster}"
        if what == "add_cluster":
            made, brokers = self._net.add_cluster(size)
            return f"cluster {made} with brokers {self._fill(brokers)}"
        if what == "reoptimise":
            return self._reoptimise()
        survey = self._net.inspect.survey(without=self._breaker.silent())
        if what in ("remove_cluster", "remove_root_cluster"):
            if what == "remove_root_cluster":
                cluster = next((self._cluster(b) for b, one in survey.items() if one.get("root")), cluster)
            leaving = [broker for broker in self._breaker.staying() if self._cluster(broker) == cluster]
            return f"cluster {cluster}" + self._remove(leaving, survey)
        speaks = what == "remove_designated"
        staying = self._breaker.staying()
        among = [broker for broker in staying if _speaks(survey, broker) == speaks] or staying
        broker = among[int(pick * len(among))]
        return f"broker {broker}" + self._remove([broker], survey)

    def _cluster(self, broker: BrokerId) -> ClusterId:
        return self._breaker.positions[broker].cluster

    def _fill(self, brokers: list[BrokerId]) -> str:
        """Tell the injector of brokers that have joined, and move one client in four there."""
        self._breaker.came(brokers)
        self._players.go_to(brokers)
        return " ".join(map(str, brokers))

    def _reoptimise(self) -> str:
        try:
            moved = self._net.reoptimise()
        except RayvousError as error:
            return f"cut short: {error}"  # the broker that was asked has died
        words = [f"cluster {each} from below {former} to below {parent}" for each, former, parent in moved]
        return ", ".join(words) or "nobody found a nearer parent"

    def _remove(self, brokers: list[BrokerId], survey: Mapping[BrokerId, Mapping[str, object]]) -> str:
        with self._turn:
            leaving = [broker for broker in self._breaker.staying() if broker in brokers]
            if not leaving or len(leaving) == len(self._breaker.staying()):
                return ", which is kept"
            self._breaker.retire(leaving)
        order = sorted(leaving, key=lambda broker: _speaks(survey, broker))
        try:
            while living := self._living(order):
                try:
                    self._net.remove_broker(living, LEAVE_SECONDS)
                    break
                except InputError:
                    if self._living(order) == living:
                        raise  # none of them has died, so the error has another cause
        except InputError:
            self._breaker.stay(leaving)
            raise
        self._breaker.left(leaving)
        return f", brokers {' '.join(map(str, leaving))}"

    def _living(self, brokers: Sequence[BrokerId]) -> list[BrokerId]:
        living = self._breaker.living()
        return [broker for broker in brokers if broker in living]


def _speaks(survey: Mapping[BrokerId, Mapping[str, object]], broker: BrokerId) -> bool:
    return bool(survey.get(broker, {}).get("designated"))
