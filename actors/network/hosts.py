"""The hosts of a running network: queries that skip dead hosts; killing and restarting brokers.

Rules
-----
* In a network that heals, queries skip hosts that are dead, and hosts that have not answered a survey within a
  client's patience: Ray may take longer than the brokers' peers to declare a node dead. A host that answers later
  is queried again. A host that another process has restarted is found at the rendezvous point.
* A host is dead if Ray says that its actor has died, which is final. A host that is currently unreachable is left
  out of that one query only: its link may be cut, or its process has ended and Ray is about to say so. A query that
  needs an answer from every living host (`all_living`) fails instead: whether a number was accepted is unknown as
  long as one living host has not answered.
* A restarted broker is a new actor in its next incarnation: the rendezvous point learns of it first, then its peers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError

from ...broker.routes import SeenRoutes
from ...protocol import checks
from ...protocol.configs import Position
from ...protocol.errors import BrokerUnavailable, ClientError, InputError
from ...protocol.features import Features
from ...protocol.ids import BrokerId
from ...protocol.queries import Said
from ...recovery.membership.structure import Survey, current_position
from ..forks import require_same_process
from ..host.errors import broker_errors
from ..host.group import machine_here
from ..host.handle import HostHandle, Question
from ..pictures.graph import graph_of_places
from .directory import Directory
from .launching import start_again

if TYPE_CHECKING:
    import networkx as nx

T = TypeVar("T")

TELL_SECONDS: Final = 2.0
"""How long the peers of a restarted broker have to hear of it; a late peer learns it from the broker itself."""


class Hosts:
    """The hosts of one network, and which of them are alive.

    Attributes
    ----------
    directory
        The directory as this process knows it.
    rendezvous
        The actor that is the rendezvous point.
    dead
        Hosts that are known to be dead.
    closed
        Whether this process has closed the network.
    timeline
        (seconds since 1970, text): what this process did to brokers, and when it saw the network converged again.
    """

    def __init__(self, directory: Directory, rendezvous: Any) -> None:
        self.directory = directory
        self.rendezvous = rendezvous
        self.dead: set[Any] = set()
        self.closed = False
        self._edition = ""  # of the actors of all brokers, as the rendezvous point names it
        self._silent: dict[Any, Any] = {}  # hosts that do not answer, with the unanswered call
        self.timeline: list[tuple[float, str]] = []

    @property
    def name(self) -> str:
        """The name by which other processes attach to the network."""
        return self.directory.name

    @property
    def features(self) -> Features:
        """What follows from the features with which the network was launched."""
        return self.directory.features

    def require_open(self) -> None:
        """Raise ClientError if this process has closed the network, or was forked from the one that attached."""
        require_same_process()
        if self.closed:
            raise ClientError(
                f"network {self.name!r} is closed in this process: launch it, or attach to it, again"
            )

    @property
    def silent(self) -> bool:
        """Whether a host has not answered for longer than a client's patience."""
        return bool(self._silent)

    def hosts(self) -> list[Any]:
        """Return the host actors, each once, in the order of their first broker, except dead and silent ones."""
        return [
            host
            for host in dict.fromkeys(self.directory.hosts.values())
            if host not in self.dead and host not in self._silent
        ]

    def ask(
        self,
        question: Question,
        *args: Any,
        timeout_seconds: float | None = None,
        without: Collection[BrokerId] = (),
        all_living: bool = False,
    ) -> list[Any]:
        """Return the answers of the living hosts; the hosts of the brokers `without` are not queried.

        With `all_living`, raise BrokerUnavailable if a host that is not known to be dead does not answer.
        """
        self.require_open()
        with broker_errors(f"{question} in network {self.name!r}"):
            if not self.features.heals:
                # A query may be repeated, so Ray retries it on a host that it restarts.
                again = -1 if self.features.numbers else 0
                calls = [HostHandle(host, again=again).ask(question, *args) for host in self.hosts()]
                return ray.get(calls, timeout=timeout_seconds)  # type: ignore[no-any-return]
            answers: list[Any] = []
            known = self.directory.hosts
            asked = {known[broker] for broker in without if broker in known}
            while True:
                self.find_reborn()
                silent = self._silent.keys() & set(known.values()) - asked
                if all_living and silent and not self._hear_silent(silent, timeout_seconds):
                    raise BrokerUnavailable(f"{question} in network {self.name!r}: a broker does not answer")
                hosts = [host for host in self.hosts() if host not in asked]
                if not hosts:
                    return answers
                asked.update(hosts)
                calls = [HostHandle(host).ask(question, *args) for host in hosts]
                by_host = dict(zip(hosts, calls, strict=True))
                if question == "survey":  # a host answers a survey at once, whatever else it does
                    by_host = self._without_silent(by_host)
                answers += self._answers(by_host, timeout_seconds, all_living)

    def _without_silent(self, calls: dict[Any, Any]) -> dict[Any, Any]:
        """Return the calls that are answered within a client's patience; the other hosts are silent from now on."""
        patience = self.features.times.client_patience_seconds
        _, late = ray.wait(list(calls.values()), num_returns=len(calls), timeout=patience)
        self._silent |= {host: call for host, call in calls.items() if call in late}
        return {host: call for host, call in calls.items() if call not in late}

    def _answers(
        self, calls: Mapping[Any, Any], timeout_seconds: float | None, all_living: bool = False
    ) -> list[Any]:
        """Return the answers of the reachable hosts, and note the dead ones.

        With `all_living`, an unreachable host is an error.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        answers = []
        for host, call in calls.items():
            try:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                answers.append(ray.get(call, timeout=left))
            except ActorDiedError:
                self.dead.add(host)
            except RayActorError:
                if all_living:
                    raise
                continue  # unreachable: a survey shows as missing any broker that others still count as a member
        return answers

    def find_reborn(self, timeout_seconds: float = 60.0) -> None:
        """Update the actors of brokers that have joined or were restarted, perhaps by another process."""
        found = ray.get(self.rendezvous.hosts_since.remote(self._edition), timeout=timeout_seconds)
        if found is None:
            return
        edition, hosts = found
        known = self.directory.hosts
        known.update(hosts)
        for gone in [broker for broker in known if broker not in hosts]:
            del known[gone]
        self.dead &= set(known.values())
        if len(hosts) != len(self.directory.positions) or any(
            place.broker not in hosts for place in self.directory.positions
        ):
            fresh = ray.get(self.rendezvous.directory.remote(), timeout=timeout_seconds)
            self.directory = replace(fresh, hosts=known)  # clients share the hosts
        self._edition = edition

    def survey(self, without: Collection[BrokerId] = ()) -> dict[BrokerId, Said]:
        """Return the state of every living broker: its cluster, parent, children, round.

        Parameters
        ----------
        without
            Brokers that are not queried, because they could not answer.

        Raises
        ------
        InputError
            If the network does not heal.
        """
        if not self.features.heals:
            raise InputError(f"network {self.name!r} does not heal: launch it with recovery=Recovery()")
        without = checks.whole_numbers("without", without)
        survey: dict[BrokerId, Said] = {}
        self._hear_silent(self._silent.keys(), 0.0)
        for answer in self.ask("survey", timeout_seconds=60, without=without):
            survey |= answer
        return survey

    def _hear_silent(self, hosts: Collection[Any], seconds: float | None) -> bool:
        """Take back those silent hosts that answer in time or are known to be dead; return whether all of these do."""
        owed = [self._silent[host] for host in hosts]
        answered, late = ray.wait(owed, num_returns=len(owed), timeout=seconds) if owed else ([], [])
        self._silent = {host: call for host, call in self._silent.items() if call not in answered}
        return not late

    def routes(self) -> dict[BrokerId, SeenRoutes | None]:
        """Return every living broker's routing table and what it has told others, including filters, for a judge.

        None for a broker whose scheme has no such table.
        """
        answers = self.ask("seen", timeout_seconds=60)
        return {broker: seen.routes for answer in answers for broker, seen in answer.items()}

    def describe(self) -> nx.Graph:
        """Return the network as a graph.

        Nodes are broker ids with `label`, `role`, `cluster` and the sizes of what the broker holds and has done.
        Edges have `kind`: "tree", "group" or "cube".
        """
        sizes: dict[BrokerId, Mapping[str, int]] = {}
        for answer in self.ask("describe", timeout_seconds=60):
            sizes |= answer
        return graph_of_places(self.name, self.directory.scheme, self.current_positions(), sizes)

    def current_positions(self) -> tuple[Position, ...]:
        """Return every living broker's current position; in a network that does not heal, `positions`."""
        return self.positions_in(self.survey()) if self.features.heals else self.directory.positions

    def positions_in(self, survey: Survey) -> tuple[Position, ...]:
        """Return the position of every broker of a survey."""
        return tuple(
            current_position(position, survey)
            for position in self.directory.positions
            if position.broker in survey
        )

    def kill_broker(self, broker: BrokerId) -> list[BrokerId]:
        """Kill the actor of a broker, and return all brokers that died with it."""
        host = self.host_of(broker)
        self.tell(f"killed {self._named(host)}")
        ray.kill(host, no_restart=True)
        return self._buried(host)

    def pid_of(self, broker: BrokerId) -> int:
        """Return the process id of a broker.

        Raises
        ------
        InputError
            If the process is on another machine.
        """
        node, pid = self._whereabouts(broker)
        if node != ray.get_runtime_context().get_node_id() and not self._on_this_machine(broker):
            raise InputError(
                f"broker {broker} is on another machine: its process cannot be reached from here; use kill_broker"
            )
        return pid

    def _on_this_machine(self, broker: BrokerId) -> bool:
        """Return whether a broker on another Ray node runs on this machine, as nodes of a test do."""
        with broker_errors(f"asking broker {broker} for its machine"):
            there: str = ray.get(HostHandle(self.host_of(broker)).machine(), timeout=60)
        return there != "" and there == machine_here()

    def node_of(self, broker: BrokerId) -> str:
        """Return Ray's id of the node that a broker runs on."""
        return self._whereabouts(broker)[0]

    def _whereabouts(self, broker: BrokerId) -> tuple[str, int]:
        host = self.host_of(broker)
        with broker_errors(f"asking broker {broker} for its process"):
            node, pid = ray.get(HostHandle(host).pid(), timeout=60)
        return node, pid

    def restart_broker(self, broker: BrokerId) -> None:
        """Restart a dead broker in a new actor of its own; it knows its position, and what its store has retained.

        Raises
        ------
        InputError
            If the network does not heal, or the broker is alive.
        BrokerUnavailable
            If another process is restarting the broker.
        """
        self.host_of(broker)  # rejects an unknown broker
        if not self.features.heals:
            raise InputError(
                f"broker {broker} cannot be restarted: launch the network with recovery=Recovery()"
            )
        with broker_errors(f"starting broker {broker} again"):
            self.find_reborn()  # another process may have restarted it
            if self.lives(self.host_of(broker)):
                raise InputError(f"broker {broker} is alive, or on a node that Ray has not declared dead yet")
            self.start_again([broker])

    def start_again(self, brokers: Sequence[BrokerId]) -> None:
        """Restart dead brokers of one actor in their next incarnation, in one new actor, and tell the other hosts.

        Raises
        ------
        BrokerUnavailable
            If another process is restarting them, or has restarted them.
        """
        point, by = self.rendezvous, uuid4().hex
        incarnation = ray.get(point.start_again.remote(brokers, self.host_of(brokers[0]), by), timeout=60)
        try:
            new = start_again(self.directory, point, brokers, incarnation)
        except BaseException:
            point.give_up.remote(by)
            raise
        self.directory.hosts.update(dict.fromkeys(brokers, new))
        others = [other for other in self.hosts() if other != new]
        told = [HostHandle(other).relink(broker, new, incarnation) for other in others for broker in brokers]
        if told:
            ray.wait(told, num_returns=len(told), timeout=TELL_SECONDS)
        self.tell(f"started {self._named(new)} again")

    def lives(self, host: Any) -> bool:
        """Return whether a host is not known to be dead; a stalled or unreachable host counts as alive."""
        if host in self.dead:
            return False
        try:
            ray.get(HostHandle(host).pid(), timeout=TELL_SECONDS)
        except ActorDiedError:
            self.dead.add(host)
            return False
        except (GetTimeoutError, RayActorError):
            return True
        return True

    def inject(self, fault: Callable[[Any], T]) -> list[T]:
        """Call this with the `BrokerHost` of every living host, and return the answers; for tests of faults."""
        if not callable(fault):
            raise checks.wrong("fault", fault, "a function of a host")
        return self.ask("inject", fault, timeout_seconds=60)

    def check(self) -> None:
        """Assert the invariants of every broker; for tests and debugging."""
        self.ask("check", timeout_seconds=60)

    def cpu_seconds(self) -> float:
        """Return the CPU time that all actors with brokers have used so far."""
        return float(sum(self.ask("cpu_seconds", timeout_seconds=60)))

    def brokers(self) -> list[BrokerId]:
        """Return the brokers of the network that this process knows, dead or alive."""
        return list(self.directory.hosts)

    def host_of(self, broker: BrokerId) -> Any:
        """Return the actor of a broker, as far as this process knows it.

        Raises
        ------
        InputError
            If there is no such broker, or this process has closed the network.
        """
        self.require_open()
        if checks.whole_number("broker", broker) not in self.directory.hosts:
            raise InputError(f"no broker {broker}: there are {checks.shown(sorted(self.directory.hosts))}")
        return self.directory.hosts[broker]

    def tell(self, what: str) -> None:
        """Add an entry to the timeline."""
        self.timeline.append((time.time(), what))

    def _named(self, host: Any) -> str:
        brokers = [str(broker) for broker, at in self.directory.hosts.items() if at == host]
        return f"broker{'s' * (len(brokers) > 1)} {', '.join(brokers)}"

    def _buried(self, host: Any) -> list[BrokerId]:
        """Wait until Ray knows that a host is dead; return its brokers."""
        while host not in self.dead:
            self._answers({host: HostHandle(host).pid()}, 60)
        return [broker for broker, other in self.directory.hosts.items() if other == host]
