"""A network of brokers on Ray: launched, joined from elsewhere, described, closed.

Rules
-----
* Launching either gives a network that works or leaves nothing behind.
* A network has a name; a detached one outlives the process that launched it.
* How its brokers die and come back is in `restarts`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from html import escape
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import ray

from ...faults.chaos.routes import SeenRoutes
from ...faults.chaos.structure import problems
from ...protocol import checks
from ...protocol.configs import Limits, Position
from ...protocol.errors import BrokerUnavailable, InputError, NetworkNotFound
from ...protocol.ids import BrokerId
from ...protocol.messages.admission import AdmissionConfig
from ...protocol.messages.recovery import Recovery
from ...protocol.messages.views import CubeLeave
from ...protocol.stability import Stable
from ...protocol.telemetry.tables import TelemetryConfig
from ...routing.schemes.claims import claims_of
from ...routing.topologies.cluster_trees import Topology
from ..chaos.convergence import standing, state_of
from ..clients.attaching import Attaching
from ..clients.process import ClientProcess
from ..clients.publisher import Publisher
from ..clients.subscriber import Subscriber
from ..host.errors import broker_errors
from ..telemetry.source import prepare, read_telemetry, save_telemetry
from ..telemetry.telemetry import Telemetry
from .admission import NetworkAdmission
from .directory import NAMESPACE, Directory, rendezvous_name
from .launching import ensure_ray, networks, start_network, starts_ray
from .operations import Operations
from .settings import Settings
from .stages import Progress, check_progress, told
from .store import RayStore

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Network", "ensure_ray", "networks"]

POLL_SECONDS: Final = 0.05
"""Between two questions whether the network has converged."""


class Network(Attaching, Operations, NetworkAdmission):
    """A running network and this process's part in it.

    Made by :meth:`launch` or :meth:`attach`; closed by :meth:`close` or at the end of a ``with`` block.
    """

    def __init__(
        self, directory: Directory, rendezvous: Any, *, owner: bool, started_ray: bool = False
    ) -> None:
        self._directory = directory
        self._rendezvous = rendezvous
        self._owner = owner
        self._started_ray = started_ray
        recovery = directory.recovery
        patience = None if recovery is None else recovery.client_patience_seconds
        self._process = ClientProcess(directory.name, patience, directory.numbered)
        self._clients: list[Publisher | Subscriber] = []
        self._dead: set[Any] = set()
        self._closed = False

    # Making and joining.

    @classmethod
    def launch(
        cls,
        topology: Topology,
        *,
        name: str | None = None,
        scheme: str = "hybrid",
        brokers_per_actor: int = 1,
        limits: Limits | None = None,
        trace_events: bool = False,
        detached: bool = False,
        recovery: Recovery | None = None,
        stable: Stable | None = None,
        admission: AdmissionConfig | None = None,
        telemetry: TelemetryConfig | None = None,
        progress: Progress | None = None,
    ) -> Network:
        """Launch the brokers of a topology on the Ray cluster that this process is in, or that it starts.

        Parameters
        ----------
        topology
            What to build.
        name
            By which other processes attach; made up when None.
        scheme
            The routing scheme, for example ``"hybrid"``, ``"lbdd"`` or ``"hybrid+quench"``.
        brokers_per_actor
            How many brokers share an actor (a process of about 120 MB).
        limits
            What brokers keep at most.
        trace_events
            Whether telemetry has a row for each event, beside those for batches.
        detached
            Whether the network outlives this process. That takes a Ray that does: of a cluster, or of ``ray start``.
            None is started for that, since it would run on with nobody who knows that he has to stop it.
        recovery
            How quickly brokers notice and mend failures, in a network that heals; None for one that does not.
        stable
            Where brokers keep what must outlive them. In a fixed tree who dies is started again and goes on; in one
            that heals `restart_broker` starts it with all that it had accepted.
        admission
            What brokers can carry, and how they judge subscriptions; None admits everything.
        telemetry
            Where telemetry goes, and how much is kept in memory; None keeps it in Ray's object store.
        progress
            Called with (brokers ready, brokers in all); True shows the start on standard error, False does not. None
            shows it to people: at a terminal, and in a notebook.

        Raises
        ------
        NetworkExists
            If there is a network of that name.
        InputError
            If a parameter is of the wrong type or out of range, or `detached` is asked for on a Ray that ends with
            this process. Nothing was started then.
        RayUnavailable
            If Ray could not be started or joined.
        """
        check_progress(progress)
        name = f"network-{uuid4().hex[:8]}" if name is None else name
        limits = Limits() if limits is None else limits
        settings = Settings(
            topology,
            name,
            scheme,
            brokers_per_actor,
            limits,
            trace_events,
            detached,
            recovery,
            stable,
            admission,
            telemetry,
        ).validate()
        settings = replace(settings, telemetry=prepare(telemetry))
        with told(progress) as stages:
            started_ray = ensure_ray(lasting=detached, stages=stages)
            try:
                directory, rendezvous = start_network(settings, stages)
            except BaseException:
                if started_ray:
                    ray.shutdown()
                raise
        return cls(directory, rendezvous, owner=not detached, started_ray=started_ray)

    @classmethod
    def attach(cls, name: str) -> Network:
        """Join a network that another process launched.

        Raises
        ------
        NetworkNotFound
            If there is none of that name on this Ray cluster.
        """
        checks.text("name", name)
        if starts_ray():
            raise NetworkNotFound(f"no network {name!r}: no Ray is running here, and RAY_ADDRESS names none")
        ensure_ray()
        try:
            rendezvous = ray.get_actor(rendezvous_name(name), namespace=NAMESPACE)
        except ValueError:
            known = ", ".join(sorted(networks())) or "none"
            raise NetworkNotFound(f"no network {name!r} on this Ray cluster; there is: {known}") from None
        with broker_errors(f"attaching to {name!r}"):
            directory = ray.get(rendezvous.directory.remote(), timeout=60)
        if directory is None:
            raise NetworkNotFound(f"network {name!r} is still being launched")
        return cls(directory, rendezvous, owner=False)

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave; whoever launched a network that is not detached ends it."""
        if self._closed:
            return
        self._closed = True
        if self._owner:
            own = self._process
            apart = [
                client.process for client in self._clients if client.process is not own and not client.closed
            ]
            for process in (own, *apart):
                process.ending = True
            self._end()
            for process in apart:
                process.close()
            for client in self._clients:
                client.abandon()
        else:
            for client in self._clients:
                with suppress(BrokerUnavailable):
                    client.close()
            self._leave(self._clients)
            for host in self.hosts():
                host.end_session.remote(self._process.session)
        self._process.close()
        if self._started_ray:
            ray.shutdown()

    def shutdown(self) -> None:
        """End the network for everybody, detached or not.

        Raises
        ------
        ClientError
            If this process has left it before: attach to it to end it.
        """
        if not self._owner:
            self._require_open()
        self._owner = True
        self.close()

    def _end(self) -> None:
        save_telemetry(self._directory)
        for part in {*self._directory.hosts.values(), self._directory.collector, self._rendezvous}:
            ray.kill(part)
        if self._recovery is not None:
            RayStore(self._directory.token).clear()

    # What it is and how it is.

    @property
    def positions(self) -> tuple[Position, ...]:
        """Every broker's place."""
        return self._directory.positions

    @property
    def scheme(self) -> str:
        """The name of its routing scheme."""
        return self._directory.scheme

    def settle(self, timeout_seconds: float = 60.0, *, deliveries: bool = True) -> None:
        """Wait until everything published so far has arrived where it has to.

        Parameters
        ----------
        timeout_seconds
            For the whole wait.
        deliveries
            Whether to wait also until every attached process has fetched its notifications.

        Raises
        ------
        BrokerUnavailable
            If the network does not come to rest in time.
        """
        checks.flag("deliveries", deliveries)
        deadline = time.monotonic() + checks.seconds("timeout_seconds", timeout_seconds)
        while True:
            state = self._healed(deadline)
            before: list[int] = []
            while True:
                left = max(0.001, deadline - time.monotonic())
                handled = self._ask("quiet", deliveries, timeout_seconds=left)
                if handled == before:
                    break
                before = handled
            if state == self._healed(deadline):  # nothing broke or was mended meanwhile
                return

    def _healed(self, deadline: float) -> Any:
        """Wait until a network that heals has converged; return its state, by which a change is seen."""
        if self._recovery is None:
            return None
        self.await_convergence(max(0.001, deadline - time.monotonic()))
        return state_of(self.survey())

    # Failures, in a network that heals.

    def survey(self, without: Collection[BrokerId] = ()) -> dict[BrokerId, dict[str, Any]]:
        """Return where every living broker stands: its cluster, parent, children, round.

        Parameters
        ----------
        without
            Brokers that are not asked, since they could not answer.

        Raises
        ------
        InputError
            If the network does not heal.
        """
        if self._recovery is None:
            raise InputError(f"network {self.name!r} does not heal: launch it with recovery=Recovery()")
        without = checks.whole_numbers("without", without)
        survey: dict[BrokerId, dict[str, Any]] = {}
        for answer in self._ask("survey", timeout_seconds=60, without=without):
            survey |= answer
        return survey

    def routes(self) -> dict[BrokerId, SeenRoutes | None]:
        """Return what the table of every living broker holds and what it has told others, filters and all, to judge it.

        None for a broker whose scheme keeps no such table.
        """
        answers = self._ask("seen", timeout_seconds=60)
        return {broker: seen.routes for answer in answers for broker, seen in answer.items()}

    def problems(self) -> list[str]:
        """Return what keeps the living brokers from being one settled tree, and whose clients have yet to move."""
        survey = self.survey()
        living = set(self.hosts())
        lost = [str(client) for client in self._clients if not client.closed and client.host not in living]
        return [*problems(survey), *(f"{client} has not moved yet" for client in lost)]

    def converged(self) -> bool:
        """Return whether the living brokers are one settled tree (promise 6)."""
        return not self.problems()

    def await_convergence(self, timeout_seconds: float = 60.0) -> float:
        """Wait until the living brokers are one settled tree, and return how many seconds it took.

        Raises
        ------
        BrokerUnavailable
            If they are not in time; the message says what is missing.
        """
        checks.seconds("timeout_seconds", timeout_seconds)
        assert self._recovery is not None or self.survey()
        started = time.monotonic()
        while found := self.problems():
            if time.monotonic() - started > timeout_seconds:
                raise BrokerUnavailable(
                    f"network {self.name!r} has not converged within {timeout_seconds} s: {'; '.join(found[:5])}"
                )
            self._process.submit(asyncio.sleep(POLL_SECONDS)).result()
        return time.monotonic() - started

    def describe(self) -> nx.Graph:
        """Return the network as a graph.

        Nodes are broker ids with `label`, `role`, `cluster` and the sizes of what the broker keeps and has done; edges
        have `kind`, "tree", "group" or "cube".
        """
        import networkx as nx

        graph = nx.Graph(name=self.name, scheme=self._directory.scheme)
        sizes: dict[BrokerId, Mapping[str, int]] = {}
        for answer in self._ask("describe", timeout_seconds=60):
            sizes |= answer
        places = self.standing()
        kind = "cube" if self._directory.scheme == "hypercube" else "tree"
        for position in places:
            if position.broker in sizes:
                graph.add_node(
                    position.broker,
                    label=position.label,
                    role=position.role,
                    cluster=position.cluster,
                    **sizes[position.broker],
                )
        for position in places:
            if position.role != "NEB" and position.broker in sizes:
                for child in position.children:
                    graph.add_edge(position.broker, child, kind=kind)
                for member in position.members:
                    if member != position.broker:
                        graph.add_edge(position.broker, member, kind="group")
        return graph

    def leave(self, broker: BrokerId) -> None:
        """Let a broker leave a network that heals by views; its clients move, its actor stays.

        `await_convergence` waits for it.
        """
        host = self.host_of(broker)
        if self._recovery is None or not claims_of(self._directory.scheme).views:
            raise InputError(f"brokers leave a network that heals by views: {self!r} does not")
        with broker_errors(f"leaving of broker {broker}"):
            ray.get(self._rendezvous.retire.remote([broker]), timeout=60)
            call = host.receive.remote(broker, broker, [CubeLeave()])
            ray.get(call, timeout=60)

    def standing(self) -> tuple[Position, ...]:
        """Return every living broker's place as it is now; in a network that does not heal, `positions`."""
        if self._recovery is None:
            return self.positions
        survey = self.survey()
        return tuple(standing(position, survey) for position in self.positions if position.broker in survey)

    def telemetry(self, *, since: Telemetry | None = None) -> Telemetry:
        """Return what was seen so far, to be had as Arrow, pandas, Parquet or Spark.

        Parameters
        ----------
        since
            What an earlier call returned: only what is new since then.

        Raises
        ------
        InputError
            If `since` is of another run.
        BrokerUnavailable
            If the collector is gone, or a broker does not answer.
        StorageFailed
            If the network has a telemetry folder and it cannot be written.
        """
        self._ask("flush_telemetry", timeout_seconds=60)
        return read_telemetry(self._directory.collector, since)

    def check(self) -> None:
        """Assert the invariants of every broker; for tests and the curious."""
        self._ask("check", timeout_seconds=60)

    def __repr__(self) -> str:
        brokers, clusters = len(self.positions), len({position.cluster for position in self.positions})
        scheme = self._directory.scheme
        return f"Network({self.name!r}, brokers={brokers}, clusters={clusters}, scheme={scheme!r})"

    def _repr_html_(self) -> str:
        if self._closed:
            return f"<p><code>{escape(repr(self))}</code>, closed</p>"
        graph = self.describe()
        columns = ("label", "role", "cluster", "filters", "subscriptions", "events_in", "notifications")
        head = "".join(f"<th>{name}</th>" for name in ("broker", *columns))
        rows = "".join(
            f"<tr><td>{broker}</td>"
            + "".join(f"<td>{escape(str(data.get(name, '')))}</td>" for name in columns)
            + "</tr>"
            for broker, data in graph.nodes(data=True)
        )
        return f"<p><code>{escape(repr(self))}</code></p><table><tr>{head}</tr>{rows}</table>"
