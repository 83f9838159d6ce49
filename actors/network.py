"""A network of brokers on Ray: launched, joined from elsewhere, described, closed.

Rules
-----
* Launching either gives a network that works or leaves nothing behind.
* Every broker host is an actor that asks for no CPU: brokers wait more than they compute, and Ray's CPU count is a
  limit on placement, not on use.
* A network has a name; a detached one outlives the process that launched it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from html import escape
from types import TracebackType
from typing import Any, Final
from uuid import uuid4

import networkx as nx
import ray

from ..protocol.configs import Limits, Position
from ..protocol.errors import BrokerUnavailable, InputError, NetworkExists, NetworkNotFound
from ..protocol.ids import BrokerId, ClientId
from ..routing.schemes import scheme as routing_scheme
from ..routing.topologies import Topology
from .clients import Publisher, Subscriber
from .collector import Collector
from .errors import broker_errors
from .host import BrokerHost
from .java import prepare_java
from .process import ClientProcess
from .rendezvous import Directory, Rendezvous

NAMESPACE: Final = "rayvous"
CALLS_AT_ONCE: Final = 10_000

Progress = Callable[[int, int], None]
"""Called with (brokers ready, brokers in all)."""


class Network:
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
        self._process = ClientProcess(directory.name)
        self._clients: list[Publisher | Subscriber] = []
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
            The routing scheme, for example ``"hybrid"`` or ``"hierarchical"``.
        brokers_per_actor
            How many brokers share an actor (a process of about 120 MB).
        limits
            What brokers keep at most.
        trace_events
            Whether telemetry has a row for each event, beside those for batches.
        detached
            Whether the network outlives this process.
        progress
            Called as brokers get ready.

        Raises
        ------
        NetworkExists
            If there is a network of that name.
        InputError
            If a parameter is out of range.
        """
        if not isinstance(brokers_per_actor, int) or brokers_per_actor < 1:
            raise InputError(f"brokers_per_actor is {brokers_per_actor!r}: it must be a whole number from 1")
        limits = (limits or Limits()).validate()
        positions = routing_scheme(scheme).positions(topology.positions())
        name = name or f"network-{uuid4().hex[:8]}"
        started_ray = ensure_ray()
        rendezvous = _claim(name, detached)
        actors = [rendezvous]
        try:
            collector = _actor(Collector, f"{name}:collector", detached).remote()
            actors.append(collector)
            arguments = (scheme, limits, trace_events, collector, name)
            hosts, made = _launch_hosts(
                positions, brokers_per_actor, arguments, name, detached, actors, progress
            )
            directory = Directory(name, scheme, limits, tuple(positions), hosts, collector)
            _connect(directory, made)
            ray.get(rendezvous.open.remote(directory))
        except BaseException:
            for actor in actors:
                ray.kill(actor)
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
        ensure_ray()
        try:
            rendezvous = ray.get_actor(_rendezvous_name(name), namespace=NAMESPACE)
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
            self._end()
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
        """End the network for everybody, detached or not."""
        self._owner = True
        self.close()

    def _end(self) -> None:
        for actor in {*self._directory.hosts.values(), self._directory.collector, self._rendezvous}:
            ray.kill(actor)

    # Clients.

    def publisher(self, name: ClientId, *, broker: BrokerId | None = None) -> Publisher:
        """Attach a publisher, at the broker with the fewest clients unless one is named.

        Raises
        ------
        ClientError
            If there is a publisher of that name.
        """
        return self.publishers([name], broker=broker)[0]

    def subscriber(self, name: ClientId, *, broker: BrokerId | None = None) -> Subscriber:
        """Attach a subscriber, at the broker with the fewest clients unless one is named.

        Raises
        ------
        ClientError
            If there is a subscriber of that name.
        """
        return self.subscribers([name], broker=broker)[0]

    def publishers(self, names: Iterable[ClientId], *, broker: BrokerId | None = None) -> list[Publisher]:
        """Attach several publishers at once."""
        return self._attach(Publisher, list(names), broker)

    def subscribers(self, names: Iterable[ClientId], *, broker: BrokerId | None = None) -> list[Subscriber]:
        """Attach several subscribers at once."""
        return self._attach(Subscriber, list(names), broker)

    def _attach(self, kind: Any, names: list[ClientId], broker: BrokerId | None) -> list[Any]:
        if self._closed:
            raise InputError(f"this process has left network {self.name!r}")
        for name in names:
            if not isinstance(name, str) or not name:
                raise InputError(f"client name {name!r}: a name is a string of at least one character")
        with broker_errors(f"attaching to {self.name!r}"):
            places = ray.get(self._rendezvous.place.remote(kind.kind, names, broker), timeout=60)
        clients = [
            kind(name, place, self._directory, self._process)
            for name, place in zip(names, places, strict=True)
        ]
        self._clients += clients
        return clients

    def release(self, client: Publisher | Subscriber) -> None:
        """Close a client of this process and free its name."""
        client.close()
        self._clients.remove(client)
        self._leave([client])

    def _leave(self, clients: Iterable[Publisher | Subscriber]) -> None:
        for kind in ("publisher", "subscriber"):
            names = [client.name for client in clients if client.kind == kind]
            if names:
                self._rendezvous.leave.remote(kind, names)

    # What it is and how it is.

    @property
    def name(self) -> str:
        """By which other processes attach."""
        return self._directory.name

    @property
    def positions(self) -> tuple[Position, ...]:
        """Every broker's place."""
        return self._directory.positions

    def hosts(self) -> list[Any]:
        """Return the host actors, each once, in the order of their first broker."""
        return list(dict.fromkeys(self._directory.hosts.values()))

    def _ask(self, method: str, *args: Any, timeout_seconds: float | None = None) -> list[Any]:
        with broker_errors(f"{method} in network {self.name!r}"):
            calls = [getattr(host, method).remote(*args) for host in self.hosts()]
            return ray.get(calls, timeout=timeout_seconds)  # type: ignore[no-any-return]

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
        deadline = time.monotonic() + timeout_seconds
        before: list[int] = []
        while True:
            left = max(0.001, deadline - time.monotonic())
            handled = self._ask("quiet", deliveries, timeout_seconds=left)
            if handled == before:
                return
            before = handled

    def describe(self) -> nx.Graph:
        """Return the network as a graph.

        Nodes are broker ids with `label`, `role`, `cluster` and the sizes of what the broker keeps and has done; edges
        have `kind`, "tree" or "group".
        """
        graph = nx.Graph(name=self.name, scheme=self._directory.scheme)
        sizes: dict[BrokerId, Mapping[str, int]] = {}
        for answer in self._ask("describe", timeout_seconds=60):
            sizes |= answer
        for position in self.positions:
            graph.add_node(
                position.broker,
                label=position.label,
                role=position.role,
                cluster=position.cluster,
                **sizes[position.broker],
            )
        for position in self.positions:
            if position.role != "NEB":
                for child in position.children:
                    graph.add_edge(position.broker, child, kind="tree")
                for member in position.members:
                    if member != position.broker:
                        graph.add_edge(position.broker, member, kind="group")
        return graph

    def telemetry(self) -> dict[str, list[Any]]:
        """Return references to the Arrow tables of what was seen so far, by table name (see `protocol.telemetry`)."""
        self._ask("flush_telemetry", timeout_seconds=60)
        with broker_errors("reading telemetry"):
            return ray.get(self._directory.collector.refs.remote(), timeout=60)  # type: ignore[no-any-return]

    def check(self) -> None:
        """Assert the invariants of every broker; for tests and the curious."""
        self._ask("check", timeout_seconds=60)

    def __repr__(self) -> str:
        brokers, clusters = len(self.positions), len({position.cluster for position in self.positions})
        scheme = self._directory.scheme
        return f"Network({self.name!r}, brokers={brokers}, clusters={clusters}, scheme={scheme!r})"

    def _repr_html_(self) -> str:
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


def networks() -> list[str]:
    """Return the names of the networks on this Ray cluster."""
    prefix = _rendezvous_name("")
    found = ray.util.list_named_actors(all_namespaces=True)
    return [
        entry["name"].removeprefix(prefix)
        for entry in found
        if entry["namespace"] == NAMESPACE and entry["name"].startswith(prefix)
    ]


def ensure_ray() -> bool:
    """Join the Ray cluster that is running, or start one on this machine; return whether one was started or joined."""
    if ray.is_initialized():
        return False
    prepare_java()
    ray.init(namespace=NAMESPACE, log_to_driver=False, include_dashboard=False, logging_level="error")
    return True


def _rendezvous_name(name: str) -> str:
    return f"rendezvous:{name}"


def _actor(kind: type, name: str, detached: bool, **options: Any) -> Any:
    if detached:
        options["lifetime"] = "detached"
    return ray.remote(kind).options(name=name, namespace=NAMESPACE, num_cpus=0, **options)


def _claim(name: str, detached: bool) -> Any:
    """Start the rendezvous point, which takes the name."""
    try:
        return _actor(Rendezvous, _rendezvous_name(name), detached).remote()
    except ValueError:
        raise NetworkExists(
            f"there is already a network {name!r}: attach to it, or take another name"
        ) from None


def _launch_hosts(
    positions: list[Position],
    brokers_per_actor: int,
    arguments: tuple[Any, ...],
    name: str,
    detached: bool,
    actors: list[Any],
    progress: Progress | None,
) -> tuple[dict[BrokerId, Any], list[tuple[Any, list[Position]]]]:
    """Start the host actors and seat the brokers; every actor that was started is in `actors`, also on failure."""
    hosts: dict[BrokerId, Any] = {}
    made: list[tuple[Any, list[Position]]] = []
    waiting: dict[Any, int] = {}
    for start in range(0, len(positions), brokers_per_actor):
        seated = positions[start : start + brokers_per_actor]
        title = f"{name}:host:{seated[0].broker}"
        host = _actor(BrokerHost, title, detached, max_concurrency=CALLS_AT_ONCE).remote(*arguments)
        actors.append(host)
        made.append((host, seated))
        hosts |= {position.broker: host for position in seated}
        waiting[host.seat.remote(seated)] = len(seated)
    ready = 0
    pending = list(waiting)
    while pending:
        done, pending = ray.wait(pending, num_returns=1)
        with broker_errors("launching brokers"):
            ray.get(done)
        ready += sum(waiting[call] for call in done)
        if progress is not None:
            progress(ready, len(positions))
    return hosts, made


def _connect(directory: Directory, made: list[tuple[Any, list[Position]]]) -> None:
    """Give each host the actors of its brokers' neighbours, and no others."""
    calls = []
    for host, seated in made:
        needed = {other for position in seated for other in position.neighbours}
        calls.append(host.connect.remote({broker: directory.hosts[broker] for broker in sorted(needed)}))
    with broker_errors("connecting brokers"):
        ray.get(calls)
