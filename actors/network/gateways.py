"""The gateways of a network, which are actors on its Ray nodes that serve clients outside Ray, and their supervisor.

Rules
-----
* One actor, the supervisor, starts them: on the nodes that exist at the launch, and on those that join later
  (`gateway_places` decides). Ray does not announce new nodes, so the supervisor polls.
* A gateway does not end with the supervisor: Ray restarts the supervisor, which finds the gateways by their names.
  The gateways end with the network; if nothing tells them, they notice that it is gone.
* If limits are shared, the supervisor tells each gateway how many gateways there are whenever that changes; a
  gateway that starts asks.
* An error that keeps a gateway from serving at the launch ends the launch. The error of a gateway that is started
  later appears in the status.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnschedulableError,
    GetTimeoutError,
    RayActorError,
    RayError,
    RayTaskError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ...protocol.errors import RayvousError
from ...protocol.gateways import ACTOR
from ...routing.schemes.own import own
from ..host.errors import broker_errors
from .directory import NAMESPACE, Directory
from .gateway_places import GatewayNodes, GatewayPlace, GatewayPlaces
from .launching import actor
from .node_options import Options, near, taken
from .placing import steady_node

LOOK_SECONDS: Final = 2.0
"""How often the supervisor lists the nodes: one call to Ray's control store."""

ANSWER_SECONDS: Final = 2.0
"""How long a gateway may take to report that it serves; after that it is shown as silent."""

END_SECONDS: Final = 10.0
"""How long the supervisor may take to end all gateways; the remaining ones then end by themselves."""

CALLS_AT_ONCE: Final = 8

State: TypeAlias = Literal["serving", "silent", "failed"]

_LOG = logging.getLogger("rayvous.gateway")


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    """One gateway at one moment.

    Attributes
    ----------
    node, address
        Ray's id of its node, and the node's address.
    process
        Which of the node's processes it is.
    state
        ``"serving"``; ``"silent"`` while it starts, or does not answer; ``"failed"`` when it could not serve.
    urls
        The URLs at which it is reached.
    problem
        What keeps it from serving; it is started again later, when the cause may be gone.
    """

    node: str
    address: str
    process: int
    state: State
    urls: tuple[str, ...] = ()
    problem: str = ""


class GatewaySupervisor:
    """Starts the gateways of a network, also those on nodes that join later; an actor.

    Parameters
    ----------
    network
        The network's name.
    processes
        How many gateways a node has.
    nodes
        Which nodes have gateways.
    share_limits
        Whether the gateways share the limits of principals.
    """

    def __init__(self, network: str, processes: int, nodes: GatewayNodes, share_limits: bool) -> None:
        self._network, self._share_limits = network, share_limits
        self._told: dict[GatewayPlace, int] = {}
        self._places = GatewayPlaces(nodes, processes)
        self._takes = taken(nodes.own)
        self._actors: dict[GatewayPlace, Any] = {}
        self._starting: dict[Any, GatewayPlace] = {}
        self._errors: dict[GatewayPlace, Exception] = {}
        self._addresses: dict[str, str] = {}
        self._asked: dict[GatewayPlace, tuple[Any, Any]] = {}  # the actor, and the call
        self._asking = threading.Lock()
        self._turn, self._ended = threading.Lock(), threading.Event()
        self._begun = threading.Event()
        threading.Thread(target=self._look_on, name="supervisor", daemon=True).start()

    def begin(self) -> None:
        """Return once a gateway serves on each current node.

        Raises
        ------
        InputError
            If a gateway cannot serve, for example because its port is taken.
        MissingExtra
            If a node lacks a package that the gateway needs.
        """
        self._look()
        with broker_errors("starting gateways", "a gateway"):
            ray.get(list(self._starting))
            for error in list(self._errors.values()):
                raise error
        self._begun.set()

    def _look_on(self) -> None:
        while not self._ended.is_set():
            try:
                # After a restart it is unknown whether the launch has ended.
                if not self._begun.is_set() and not ray.get_runtime_context().was_current_actor_reconstructed:
                    self._begun.wait()
                self._begun.set()
                self._look()
            except RayError:
                _LOG.exception("which nodes there are could not be seen; looking again")
            except BaseException:
                _LOG.exception("the supervisor of gateways has failed")
                os._exit(1)  # Ray restarts it
            self._ended.wait(LOOK_SECONDS)

    def _look(self) -> None:
        with self._turn:
            if self._ended.is_set():
                return
            self._take_answers()
            nodes = ray.nodes()
            self._addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in nodes}
            changes = self._places.look(nodes, time.monotonic())
            for place in changes.gone:
                self._errors.pop(place, None)
                self._give_up(place)
            for place in changes.start:
                self._errors.pop(place, None)
                try:
                    self._start(place)
                except (RayError, RayvousError) as error:
                    self._cannot(place, error)
            self._tell_sharing()

    def _start(self, place: GatewayPlace) -> None:
        here = NodeAffinitySchedulingStrategy(place.node, soft=False)
        title = f"{self._network}:gateway:{place.node}:{place.process}"
        options = {"max_restarts": -1, "max_task_retries": -1, **self._takes, "scheduling_strategy": here}
        # It outlives the supervisor, so it is detached. A gateway that was started in an earlier incarnation is reused.
        made = actor(own(ACTOR), title, True, get_if_exists=True, **options)
        self._actors[place] = made.remote(self._network, http=place.process == 0)
        self._starting[self._actors[place].urls.remote()] = place

    def _take_answers(self) -> None:
        """Record which gateways serve now, and which cannot."""
        if not self._starting:
            return
        done, _ = ray.wait(list(self._starting), num_returns=len(self._starting), timeout=0)
        for answer in done:
            place = self._starting.pop(answer)
            try:
                ray.get(answer)
            except (RayError, RayvousError) as error:
                if place not in self._actors:  # its node is gone
                    continue
                self._cannot(place, error)

    def _cannot(self, place: GatewayPlace, error: Exception) -> None:
        """Record what keeps a gateway from serving."""
        cause = error.cause if isinstance(error, RayTaskError) else error
        _LOG.warning("no gateway on node %s: %s", place.node, cause)
        self._errors[place] = cause if isinstance(cause, RayvousError) else error
        self._places.failed(place, time.monotonic())
        self._give_up(place)

    def sharing(self) -> int:
        """Return how many gateways share the limits of principals; 1 if each has the whole limits."""
        return max(1, len(self._actors)) if self._share_limits else 1

    def _tell_sharing(self) -> None:
        for place, each in self._actors.items():
            if self._told.get(place) != self.sharing():  # an earlier incarnation's messages are unknown
                each.share.remote(self.sharing())
                self._told[place] = self.sharing()

    def _give_up(self, place: GatewayPlace) -> None:
        self._told.pop(place, None)
        if (given_up := self._actors.pop(place, None)) is not None:
            ray.kill(given_up)

    def gateways(self) -> list[Any]:
        """Return the actors that were started and are not known to be gone."""
        actors = dict(self._actors)  # a snapshot, because they change on another thread
        return [actors[place] for place in sorted(actors)]

    def status(self) -> list[GatewayStatus]:
        """Return the status of each gateway."""
        asked = self._asked_for_urls()
        if asked:
            ray.wait(list(asked.values()), num_returns=len(asked), timeout=ANSWER_SECONDS)
        made = [self._seen(place, _urls_said(answer)) for place, answer in asked.items()]
        made += [self._seen(place, (), str(error)) for place, error in list(self._errors.items())]
        return sorted(made, key=lambda one: (one.address, one.node, one.process))

    def _asked_for_urls(self) -> dict[GatewayPlace, Any]:
        """Ask each gateway for its URLs unless a call is still unanswered: at most one call each is in flight."""
        with self._asking:
            calls = [call for _, call in self._asked.values()]
            done = set(ray.wait(calls, num_returns=len(calls), timeout=0)[0]) if calls else set()
            asked = dict[GatewayPlace, tuple[Any, Any]]()
            for place, each in dict(self._actors).items():
                whom, call = self._asked.get(place, (None, None))
                asked[place] = (each, each.urls.remote() if whom is not each or call in done else call)
            self._asked = asked
            return {place: call for place, (_, call) in asked.items()}

    def _seen(self, place: GatewayPlace, urls: tuple[str, ...], problem: str = "") -> GatewayStatus:
        state: State = "failed" if problem else "serving" if urls else "silent"
        return GatewayStatus(
            place.node, self._addresses.get(place.node, ""), place.process, state, urls, problem
        )

    def pid(self) -> int:
        """Return the id of this process."""
        return os.getpid()

    def end(self) -> None:
        """End all gateways, and start no more."""
        self._ended.set()
        with self._turn:
            for place in list(self._actors):
                self._give_up(place)


def _urls_said(answer: Any) -> tuple[str, ...]:
    """Return a gateway's URLs; none if it has not answered, or is about to be reported as failed."""
    try:
        return tuple(ray.get(answer, timeout=0))
    except (RayError, RayvousError):
        return ()


def start_gateways(directory: Directory, named: Sequence[str]) -> Any:
    """Start the supervisor, and return it once a gateway serves on each node.

    Raises
    ------
    InputError, MissingExtra
        As `GatewaySupervisor.begin`; the caller then has to end the supervisor.
    """
    steady = steady_node(
        directory.nodes, ray.get_runtime_context().get_node_id(), outlives=directory.detached
    )
    options: Options = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": CALLS_AT_ONCE}
    options |= near(steady, directory.place, directory.spared)
    assert directory.gateway is not None
    made = actor(GatewaySupervisor, _name(directory), directory.detached, **options)
    config = directory.gateway
    place = GatewayNodes(tuple(named), directory.place, config.place)
    supervisor = made.remote(directory.name, config.stomp_processes, place, config.share_limits)
    with broker_errors("starting gateways", "the supervisor of gateways"):
        ray.get(supervisor.begin.remote(), timeout=directory.limits.call_seconds)
    return supervisor


def gateways_of(directory: Directory) -> list[Any]:
    """Return the gateway actors of a running network."""
    supervisor = _supervisor_of(directory)
    return (
        []
        if supervisor is None
        else ray.get(supervisor.gateways.remote(), timeout=directory.limits.call_seconds)
    )


def urls_of(directory: Directory) -> list[str]:
    """Return the URLs of a network; a gateway that is being restarted is waited for, if its node is alive."""
    urls: dict[str, None] = {}
    for answer in [each.urls.remote() for each in gateways_of(directory)]:
        with suppress(ActorDiedError, ActorUnschedulableError):
            urls |= dict.fromkeys(ray.get(answer, timeout=directory.limits.call_seconds))
    return list(urls)


def gateways_sharing(directory: Directory) -> int:
    """Return how many gateways share the limits of principals."""
    supervisor = _supervisor_of(directory)
    if supervisor is None:
        return 1
    with broker_errors("starting a gateway", "the supervisor of gateways"):
        return int(ray.get(supervisor.sharing.remote(), timeout=directory.limits.call_seconds))


class GatewaysSeen:
    """Queries the status of the gateways repeatedly; it looks their supervisor up once."""

    def __init__(self) -> None:
        self._supervisor: Any = None

    def ask(self, directory: Directory) -> Any:
        """Send the query, and return the argument for `said`; None if there are no gateways, or the lookup fails."""
        if self._supervisor is None:
            with suppress(RayError):
                self._supervisor = _supervisor_of(directory)
        return None if self._supervisor is None else self._supervisor.status.remote()

    def said(self, asked: Any, seconds: float) -> tuple[GatewayStatus, ...]:
        """Return the status of each gateway; none if the supervisor cannot answer, for example during a restart."""
        if asked is None:
            return ()
        try:
            return tuple(ray.get(asked, timeout=seconds))
        except RayError:
            return ()


def end_gateways(directory: Directory) -> None:
    """End the gateways of a network, and the supervisor."""
    supervisor = _supervisor_of(directory)
    if supervisor is None:
        return
    with suppress(GetTimeoutError, RayActorError):  # the gateways then notice that the network is gone
        ray.get(supervisor.end.remote(), timeout=END_SECONDS)
    ray.kill(supervisor)


def _supervisor_of(directory: Directory) -> Any:
    if directory.gateway is None:
        return None
    with suppress(ValueError):  # there is none while the network is being launched, and after it has ended
        return ray.get_actor(_name(directory), namespace=NAMESPACE)
    return None


def _name(directory: Directory) -> str:
    return f"{directory.name}:gateways"
