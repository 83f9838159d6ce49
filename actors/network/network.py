"""A network of brokers on Ray: launching, attaching, inspecting and closing it.

Rules
-----
* A launch either returns a working network or leaves nothing behind.
* A network has a name. A detached network outlives the process that launched it.
* `Network` composes parts, each with one job: the hosts, the clients of this process, operations, admission.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from shlex import quote
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload
from uuid import uuid4

import ray

from ...protocol import checks
from ...protocol.configs import DEFAULT_SCHEME, Limits
from ...protocol.errors import InputError, NetworkNotFound
from ...protocol.gateways import AccessConfig, GatewayConfig
from ...protocol.groups import GROUPS
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.admission import AdmissionConfig
from ...protocol.messages.recovery import Recovery
from ...protocol.node_places import NodePlace
from ...protocol.telemetry.tables import TelemetryConfig
from ...recovery.durability.stable import Stable
from ...routing.topologies.cluster_trees import Topology
from ..channels.config import LINKS_DEFAULT, Links
from ..clients.attaching import Attaching
from ..clients.durable import DurableSubscriber
from ..clients.nearness import Placement
from ..clients.process import ClientProcess
from ..clients.subscriber import Subscriber
from ..host.errors import broker_errors
from ..parts import of
from ..telemetry.source import prepare, read_telemetry
from ..telemetry.telemetry import Telemetry
from .admission import NetworkAdmission
from .convergence import Convergence
from .directory import NAMESPACE, PROTOCOL, Directory, rendezvous_name
from .durables import Durables
from .ending import end_network
from .gateways import start_gateways, urls_of
from .groups import Groups
from .hosts import Hosts
from .inspection import Inspection
from .launching import ensure_ray, networks, start_network, starts_ray
from .operations import Operations
from .remains import described, how_to_end, parts_of
from .rolling import Rolling
from .settings import Settings
from .sinks import Sinks
from .stages import Progress, check_progress, told
from .status import NetworkStatus, status_of

if TYPE_CHECKING:
    from ..groups.worker import GroupWorker
    from ..pictures.picture import Picture

__all__ = ["Network", "ensure_ray", "networks"]


class Network:
    """A running network, as seen by this process.

    Created by :meth:`launch` or :meth:`attach`. Ended by :meth:`close` or at the end of a ``with`` block.
    """

    def __init__(
        self, directory: Directory, rendezvous: Any, *, owner: bool, started_ray: bool = False
    ) -> None:
        self._owner = owner
        self._started_ray = started_ray
        self._process = _process_of(directory)
        self._hosts = Hosts(directory, rendezvous)
        self._attached = Attaching(self._hosts, self._process)
        self._elsewhere: list[Attaching] = []  # on other event loops of this process
        self._convergence = Convergence(self._hosts, self._attached)
        self._operations = Operations(self._hosts)
        self._rolling = Rolling(self._hosts, self._operations, self._convergence)
        self._admission = NetworkAdmission(self._hosts, self._process)
        self._sinks = Sinks(self._hosts)
        self._groups = Groups(self._hosts)
        self._durables = Durables(self._hosts, self._attached, self._groups)
        self._inspection = Inspection(self._hosts, self._attached, self._convergence, self._admission)
        self._supervisor: Any = None  # of its gateways: an actor lives as long as a handle to it exists

    # Delegated to the parts.

    kill_broker = of("_hosts", Hosts.kill_broker)
    restart_broker = of("_hosts", Hosts.restart_broker)
    inject = of("_hosts", Hosts.inject)

    publisher = of("_attached", Attaching.publisher)
    publishers = of("_attached", Attaching.publishers)
    request = of("_attached", Attaching.request)
    request_async = of("_attached", Attaching.request_async)
    reply = of("_attached", Attaching.reply)
    reply_async = of("_attached", Attaching.reply_async)
    release = of("_attached", Attaching.release)
    dead_letters = of("_attached", Attaching.dead_letters)

    settle = of("_convergence", Convergence.settle)
    await_convergence = of("_convergence", Convergence.await_convergence)

    add_broker = of("_operations", Operations.add_broker)
    add_cluster = of("_operations", Operations.add_cluster)
    remove_broker = of("_operations", Operations.remove_broker)
    remove_cluster = of("_operations", Operations.remove_cluster)
    reoptimise = of("_operations", Operations.reoptimise)
    restart_rolling = of("_rolling", Rolling.restart_rolling)

    would_admit = of("_admission", NetworkAdmission.would_admit)

    sink = of("_sinks", Sinks.sink)

    durable = of("_durables", Durables.durable)
    end_durable = of("_durables", Durables.end_durable)
    rewind = of("_durables", Durables.rewind)

    @overload
    def subscriber(
        self,
        name: ClientId,
        *,
        durable: bool = False,
        group: Literal[True],
        group_key: str | None = None,
        ack_seconds: float = 60.0,
        deliveries_max: int = 5,
        unacknowledged_max: int = 100,
        silent_seconds: float = 10.0,
    ) -> GroupWorker: ...

    @overload
    def subscriber(
        self,
        name: ClientId,
        *,
        broker: BrokerId | None = None,
        place: Placement | None = None,
        durable: Literal[True],
        take_over: bool = False,
    ) -> DurableSubscriber: ...

    @overload
    def subscriber(
        self,
        name: ClientId,
        *,
        broker: BrokerId | None = None,
        place: Placement | None = None,
        durable: bool = False,
        take_over: bool = False,
    ) -> Subscriber: ...

    def subscriber(
        self,
        name: ClientId,
        *,
        broker: BrokerId | None = None,
        place: Placement | None = None,
        durable: bool = False,
        take_over: bool = False,
        group: bool = False,
        **shared: object,
    ) -> Subscriber | GroupWorker:
        """Attach a subscriber, by default at the broker with the fewest clients.

        Parameters
        ----------
        name, broker
            The client's name, and the broker at which it attaches.
        place
            The broker at which it attaches when none is named, and to which it moves when it must leave its
            broker: ``"nearest"`` by measured round trip, or ``"least-loaded"``, which has the fewest clients.
            None attaches at the least loaded broker, and on a move prefers another broker of the same cluster.
            See docs/operations.md.
        durable
            Whether the subscriptions and the position outlive this process. A later process of the same name
            takes them over and resumes after the last acknowledgement. Requires a network that heals. See
            docs/exactly-once.md.
        take_over
            Whether to take the name from a subscriber that is still attached under it, or whose process died
            just now; see docs/service.md. A durable subscriber always does. A restarted Ray actor gets its own
            names again without it.
        group
            Whether this is one of any number of workers that share a durable subscription: each event goes to one of
            them. Requires a network that heals. See docs/groups.md.
        **shared
            Of a group, the same for all its workers: `group_key`, the attribute whose equal values keep events in
            order (``"_publisher"`` for each publisher's; None for no order between workers); `ack_seconds` (60), after
            which a worker that acknowledges nothing loses what it holds; `deliveries_max` (5), after which an event is
            a dead letter; `unacknowledged_max` (100), the number of events that a worker may hold; `silent_seconds`
            (10), after which a worker whose process is not heard is dead.

        Raises
        ------
        NameTaken
            If another subscriber has that name, and may not be taken over.
        InputError
            If it is durable or in a group and the network does not heal; if the group of that name has other settings;
            or if an argument does not go with `group`; or if the name is that of a group's durable subscriber.
        """
        if checks.flag("group", group):
            return self._groups.workers([name], shared, broker, place, take_over)[0]
        _require_no_group([checks.text("name", name)], shared)
        return self._attached.subscriber(
            name, broker=broker, place=place, durable=durable, take_over=take_over
        )

    @overload
    def subscribers(
        self,
        names: Iterable[ClientId],
        *,
        group: Literal[True],
        group_key: str | None = None,
        ack_seconds: float = 60.0,
        deliveries_max: int = 5,
        unacknowledged_max: int = 100,
        silent_seconds: float = 10.0,
    ) -> list[GroupWorker]: ...

    @overload
    def subscribers(
        self,
        names: Iterable[ClientId],
        *,
        broker: BrokerId | None = None,
        place: Placement | None = None,
        take_over: bool = False,
    ) -> list[Subscriber]: ...

    def subscribers(
        self,
        names: Iterable[ClientId],
        *,
        broker: BrokerId | None = None,
        place: Placement | None = None,
        take_over: bool = False,
        group: bool = False,
        **shared: object,
    ) -> list[Subscriber] | list[GroupWorker]:
        """Attach several subscribers at once, or with `group` several workers: a name twice is two of one group.

        The parameters and errors are those of `subscriber`; on an error none of them is attached.
        """
        each = checks.texts("names", names)
        if not checks.flag("group", group):
            _require_no_group(each, shared)
            return self._attached.subscribers(each, broker=broker, place=place, take_over=take_over)
        return self._groups.workers(each, shared, broker, place, take_over)

    # Launching and attaching.

    @classmethod
    def launch(
        cls,
        topology: Topology | str | Path,
        *,
        name: str | None = None,
        scheme: str = DEFAULT_SCHEME,
        brokers_per_actor: int = 1,
        limits: Limits | None = None,
        trace_events: bool = False,
        detached: bool = False,
        recovery: Recovery | None = None,
        stable: Stable | None = None,
        admission: AdmissionConfig | None = None,
        telemetry: TelemetryConfig | None = None,
        nodes: Sequence[str] | None = None,
        place: NodePlace | None = None,
        gateway: GatewayConfig | None = None,
        access: AccessConfig | None = None,
        links: Links = LINKS_DEFAULT,
        ports: str | None = None,
        chaos: bool = False,
        progress: Progress | None = None,
    ) -> Network:
        """Launch the brokers of a topology on the Ray cluster of this process; start Ray if there is none.

        Parameters
        ----------
        topology
            The topology, or a network file. A file sets all other parameters except `name`, which takes
            precedence over the name in the file, `detached`, `nodes` and `progress`. See docs/service.md.
        name
            The name by which other processes attach; generated if None.
        scheme
            The routing scheme, for example ``"hybrid"``, ``"lbdd"`` or ``"hybrid+quench"``.
        brokers_per_actor
            The number of brokers that share an actor (a process of about 120 MB).
        limits
            The bounds of queues, logs and caches.
        trace_events
            Whether telemetry has a row for each event, beside those for batches.
        detached
            Whether the network outlives this process. Requires a Ray that does too: a cluster, or ``ray
            start``. No Ray is started for it, because that Ray would run on unnoticed.
        recovery
            How quickly brokers detect and repair failures; None for a network that does not heal.
        stable
            The stores for what must outlive a broker. In a fixed tree Ray restarts a dead broker, which resumes
            from its store. In a network that heals, `restart_broker` does that, and nothing accepted is lost.
        admission
            The capacities of brokers, and how they judge subscriptions; None admits everything.
        telemetry
            The telemetry folder, and the bound on telemetry in memory; None keeps it in Ray's object store.
        nodes
            Ray's ids of the nodes for the brokers. Broker b runs on ``nodes[b % len(nodes)]``, or on another of
            them if that one has died, so members of a cluster run on different nodes. The rendezvous point and
            the collector run on the first node; if `detached`, not on the node of this process. None uses the nodes
            of `place`.
        place
            What the nodes of brokers must have, and what each process of brokers takes there; see docs/operations.md.
            Everything else that the network starts runs on such nodes, too. None uses all nodes with CPUs, those
            without GPUs if there are any; or leaves placement to Ray if there is one node only.
        gateway, access
            The gateways for clients outside Ray, one per node (of `nodes`, if given), also on nodes that join
            the Ray cluster later; and the rights of each client. None for no gateway. See docs/gateway.md.
        links, ports
            How bytes travel between processes: by calls of Ray (``"ray"``), or over a connection of their own
            wherever one can be opened (``"direct"``); and the ports at which hosts then listen, for example
            ``"20000-20100"``, None for any. See docs/operations.md.
        chaos
            Whether the network may have game days, which break it on purpose while its clients go on
            (docs/chaos.md).
        progress
            Called with (brokers ready, brokers in all). True shows progress on standard error, False does not.
            None shows it at a terminal and in a notebook.

        Raises
        ------
        NetworkExists
            If there is a network of that name.
        InputError
            If a parameter has the wrong type or is out of range, or if `detached` is requested on a Ray that
            ends with this process, or if no node has a place that is asked for. Nothing was started then.
        RayUnavailable
            If Ray could not be started or joined.
        """
        check_progress(progress)
        settings = Settings(
            topology,  # type: ignore[arg-type]  # a path is no topology, and is replaced below
            f"network-{uuid4().hex[:8]}" if name is None else name,
            scheme,
            brokers_per_actor,
            Limits() if limits is None else limits,
            trace_events,
            detached,
            recovery,
            stable,
            admission,
            telemetry,
            () if nodes is None else tuple(checks.texts("nodes", nodes)),
            gateway,
            access,
            links,
            ports,
            chaos,
            place,
        )
        if isinstance(topology, str | Path):
            # Imported here because it needs pydantic, and few networks come from a file.
            from .network_file import from_file

            settings = from_file(topology, name, settings)
        settings = replace(settings.validate(), telemetry=prepare(settings.telemetry))
        with told(progress) as stages:
            started_ray = ensure_ray(lasting=detached, stages=stages)
            try:
                directory, rendezvous = start_network(settings, stages)
                network = cls(directory, rendezvous, owner=not detached, started_ray=started_ray)
                network._start_gateways(settings.nodes)
            except BaseException:
                if started_ray:
                    ray.shutdown()
                raise
        return network

    @classmethod
    def attach(cls, name: str) -> Network:
        """Attach to a network that another process launched.

        Raises
        ------
        NetworkNotFound
            If this Ray cluster has no network of that name.
        """
        checks.text("name", name)
        if starts_ray():
            raise NetworkNotFound(
                f"no network {name!r}: no Ray is running here, and RAY_ADDRESS names none; "
                f"start one: rayvous up --name {quote(name)}"
            )
        ensure_ray()
        try:
            rendezvous = ray.get_actor(rendezvous_name(name), namespace=NAMESPACE)
        except ValueError:
            if parts := parts_of(name):
                raise NetworkNotFound(
                    f"network {name!r} has lost its rendezvous point, and {described(parts)} is left of it; "
                    f"end it: {how_to_end(name)}"
                ) from None
            known = ", ".join(sorted(networks()))
            others = (
                f"; there is: {known}"
                if known
                else f", and no other: rayvous up --name {quote(name)} starts one"
            )
            raise NetworkNotFound(f"no network {name!r} on this Ray cluster{others}") from None
        with broker_errors(f"attaching to {name!r}"):
            directory = ray.get(rendezvous.directory.remote(), timeout=60)
        if directory is None:
            raise NetworkNotFound(
                f"network {name!r} is still being launched: wait, or end it: {how_to_end(name)}"
            )
        spoken = getattr(directory, "protocol", 0)
        if spoken != PROTOCOL:
            raise NetworkNotFound(
                f"network {name!r} speaks protocol {spoken}, this process {PROTOCOL}: use the same version of rayvous"
            )
        return cls(directory, rendezvous, owner=False)

    def _start_gateways(self, named: Sequence[str]) -> None:
        """Start the gateways that were requested at launch; end the network if one cannot serve."""
        if self._hosts.directory.gateway is None:
            return
        try:
            self._supervisor = start_gateways(self._hosts.directory, named)
        except BaseException:
            self.shutdown()
            raise

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Detach from the network. The process that launched it ends it, unless it is detached.

        If this process has left Ray meanwhile (``ray.shutdown()``), nobody is told: what Ray started for it is gone.
        """
        if self._hosts.closed:
            return
        self._hosts.closed = True
        clients = self._attached.clients
        if self._process.has_left_ray:
            self._groups.abandon()
            for client in clients:
                client.abandon()
                client.process.close()
            self._process.close()
            return
        self._groups.close()
        if self._owner:
            own = self._process
            apart = [client.process for client in clients if client.process is not own and not client.closed]
            for process in (own, *apart):
                process.ending = True
            end_network(self._hosts)
            for process in apart:
                process.close()
            for client in clients:
                client.abandon()
        else:
            self._attached.close_all()
            self._process.end_sessions(self._hosts.hosts())
        self._process.close()
        if self._started_ray:
            ray.shutdown()

    def shutdown(self) -> None:
        """End the network for all processes, detached or not.

        Raises
        ------
        ClientError
            If this process has already closed it. Attach again to end it.
        """
        if not self._owner:
            self._hosts.require_open()
        self._owner = True
        self.close()

    # State.

    @property
    def inspect(self) -> Inspection:
        """What can be looked at beside `status`, `draw` and `telemetry`: positions, surveys, books, processes."""
        return self._inspection

    @property
    def name(self) -> str:
        """The name by which other processes attach."""
        return self._hosts.name

    def gateways(self) -> list[str]:
        """Return the URLs of the gateways, at which clients outside Ray reach the network."""
        with broker_errors(f"gateways of {self.name!r}", "a gateway"):
            return urls_of(self._hosts.directory)

    def telemetry(self, *, since: Telemetry | None = None) -> Telemetry:
        """Return the telemetry so far, convertible to Arrow, pandas, Parquet or Spark.

        In a network that heals, rows that an unreachable broker has not handed over are part of a later call's
        result.

        Parameters
        ----------
        since
            The result of an earlier call: return only newer rows.

        Raises
        ------
        InputError
            If `since` is of another run.
        BrokerUnavailable
            If the collector is gone, or a broker that is asked does not answer.
        StorageFailed
            If the network has a telemetry folder that cannot be written.
        """
        self._hosts.ask("flush_telemetry", timeout_seconds=60)
        return read_telemetry(self._hosts.directory.collector, since)

    def status(self) -> NetworkStatus:
        """Return the state of every broker, and what is not repaired yet. A dead or silent broker is not an error.

        The call takes slightly more than five seconds at most; a broker that has not answered by then is
        silent.

        Raises
        ------
        BrokerUnavailable
            If the rendezvous point does not answer.
        """
        status = status_of(self._hosts, self._convergence)
        by_ray = max(each.hosts_by_ray() for each in (self._attached, *self._elsewhere))
        return replace(status, hosts_by_ray=by_ray)

    def draw(self) -> Picture:
        """Draw the network as it is now: roles, dead and unreachable brokers, and the events over each link so far.

        Notebooks display the result; its `save` writes a file.

        Raises
        ------
        MissingExtra
            If matplotlib is not installed.
        BrokerUnavailable
            If the collector of telemetry is gone, or a broker that is asked does not answer.
        """
        from ..pictures.drawing import draw

        return draw(
            self._hosts.describe(), self._hosts.directory.positions, self.telemetry().table("transfers")
        )

    def __repr__(self) -> str:
        positions = self._hosts.directory.positions
        brokers, clusters = len(positions), len({position.cluster for position in positions})
        scheme = self._hosts.directory.scheme
        return f"Network({self.name!r}, brokers={brokers}, clusters={clusters}, scheme={scheme!r})"

    def _repr_html_(self) -> str:
        if self._hosts.closed:
            return f"<p><code>{escape(repr(self))}</code>, closed</p>"
        graph = self._hosts.describe()
        columns = ("role", "cluster", "filters", "subscriptions", "events_in", "notifications")
        head = "".join(f"<th>{name}</th>" for name in ("broker", *columns))
        rows = "".join(
            f"<tr><td>{broker}</td>"
            + "".join(f"<td>{escape(str(data.get(name, '')))}</td>" for name in columns)
            + "</tr>"
            for broker, data in graph.nodes(data=True)
        )
        return f"<p><code>{escape(repr(self))}</code></p><table><tr>{head}</tr>{rows}</table>"


def _require_no_group(names: Iterable[ClientId], shared: Mapping[str, object]) -> None:
    """Require that subscribers which are no workers have names and settings of their own."""
    if shared:
        raise InputError(f"{next(iter(shared))}: only a group has it: give group=True")
    for name in names:
        if name.startswith(GROUPS):
            raise InputError(
                f"name: {name!r} is the durable subscriber of a group, which its actor is; to be a worker of it, "
                f"use subscriber({name.removeprefix(GROUPS)!r}, group=True)"
            )


def _process_of(directory: Directory, *, here: bool = False) -> ClientProcess:
    features, limits = directory.features, directory.limits
    reached = directory.channels, limits.connection_bytes_max
    return ClientProcess(
        directory.name,
        features.client_patience_seconds,
        features.numbers,
        features.compare_seconds,
        limits.session_seconds,
        *reached,
        here=here,
    )


def attaching_here(network: Network) -> Attaching:
    """Return a part of a network whose clients live on the running event loop; closed by `Attaching.close_here`."""
    attached = Attaching(network._hosts, _process_of(network._hosts.directory, here=True))
    network._elsewhere.append(attached)
    return attached


def clients_of(network: Network) -> Attaching:
    """Return the part of a network that has the clients of this process, for a process that serves others."""
    return network._attached


def hosts_of(network: Network) -> Hosts:
    """Return the part of a network that has its hosts, for what operates it."""
    return network._hosts


def groups_of(network: Network) -> Groups:
    """Return the part of a network that has the groups, for a process that serves others."""
    return network._groups
