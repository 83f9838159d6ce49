"""Launching a network on Ray: its name is claimed, and its hosts are started, given their brokers, and connected.

Rules
-----
* Every broker host is an actor that requests no CPU: brokers wait more than they compute, and Ray's CPU count
  limits placement, not use.
* Every actor that was started is reported to the caller, also on failure, so that the caller leaves nothing behind.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from typing import Any, Final
from uuid import uuid4

import ray
from ray._private import services, worker

from ...protocol.configs import Position
from ...protocol.errors import BrokerUnavailable, InputError, MissingExtra, NetworkExists, RayUnavailable
from ...protocol.ids import BrokerId
from ..channels.config import channels_of
from ..forks import require_same_process
from ..host.errors import broker_errors
from ..host.handle import HostHandle
from ..host.host import BrokerHost
from ..logs import Log
from ..telemetry.collector_actor import CollectorActor, packed_network
from ..telemetry.files import network_of, run_name
from .directory import NAMESPACE, Directory, collector_name, host_name, rendezvous_name
from .java import prepare_java
from .node_options import Ground, Options, await_room, dead_nodes, ground_of, near_broker
from .placing import Node, actors_of, check_place
from .remains import all_parts, described, how_to_end, parts_of, signs_of_life
from .rendezvous import KEYS, Rendezvous
from .resume_from_store import accepted, resume, store_of
from .settings import Settings
from .stages import BROKERS, RAY, Stages
from .store import LastingStore, RayStore, RendezvousStore

CALLS_AT_ONCE: Final = 10_000
_LOG: Final = Log("rayvous.network")

NICENESS: Final = "RAY_worker_niceness"
"""The Ray setting, 15 by default, that makes its workers yield to other processes on the machine."""

LAUNCHER_SECONDS: Final = 60.0
"""How long a launcher may give no sign of life before a detached network that is not open yet ends by itself."""

STILL_SECONDS: Final = 120.0
"""How long a launch goes on in which no process of brokers begins, where these take something of their nodes."""

KNOCK_SECONDS: Final = 3.0
"""How long the head of a Ray cluster may take to accept a connection."""

NEEDS_TOKEN: Final = (
    "it asks for a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN where ~/.ray/auth_token has none"
)
LOOK_HERE: Final = "what this machine lacks is said by: rayvous doctor"
START_RAY: Final = "ray start --head"
"""The command that starts a Ray that outlives its process."""


def networks() -> list[str]:
    """Return the names of the networks on this Ray cluster; none when there is no Ray to join."""
    if starts_ray():
        return []
    ensure_ray()
    suffix = rendezvous_name("")
    return [part.removesuffix(suffix) for part in all_parts() if part.endswith(suffix)]


def ensure_ray(*, lasting: bool = False, stages: Stages | None = None) -> bool:
    """Join the Ray cluster that is running, or start one on this machine; return whether this call did so.

    Parameters
    ----------
    lasting
        Whether Ray has to outlive this process.
    stages
        Receives the progress of Ray's start.

    Raises
    ------
    InputError
        If Ray has to outlive this process and would not; nothing was started then.
    RayUnavailable
        If Ray could not be started or joined.
    ClientError
        If this process was forked from one that had joined Ray.
    """
    if lasting and _ends_with_this_process():
        raise InputError(
            "detached=True: the network would end with this process, as the Ray that it runs on does. "
            f"Start one that lasts ({START_RAY}), or set RAY_ADDRESS to a cluster; then run this again"
        )
    require_same_process()
    if ray.is_initialized():
        return False
    prepare_workers()
    if stages is not None:
        stages.show(RAY, 0, 1)
    if _through_client():
        _knock_at_client_server(os.environ["RAY_ADDRESS"])
        init_ray(None)
    else:
        running = _running_ray()
        init_ray("auto" if running else "local")
        if running and not os.environ.get("RAY_ADDRESS"):
            _say_which(running, services.find_gcs_addresses())
    if stages is not None:
        stages.show(RAY, 1, 1)
    return True


def prepare_workers() -> None:
    """Make the workers of the Ray that this process starts next find a Java for Spark and run at normal priority.

    A broker that yields to every client on its machine answers only when the clients are done, and looks dead until
    then.
    """
    with suppress(MissingExtra):  # only Spark needs Java
        prepare_java()
    os.environ.setdefault(NICENESS, "0")


def init_ray(address: str | None, **options: Any) -> None:
    """Join the Ray at an address, or that of the machine for ``"auto"``; start one for ``"local"``.

    Parameters
    ----------
    address
        The address.
    options
        Of the Ray that is started: passed to ``ray.init``.

    Raises
    ------
    RayUnavailable
        If Ray could not be started or joined.
    """
    if address is None or address == "local":
        options.setdefault("include_dashboard", False)
    with starting_ray():
        ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level="error", **options)


@contextmanager
def starting_ray() -> Iterator[None]:
    """Start or join Ray inside the block, by Ray's own calls.

    Raises
    ------
    RayUnavailable
        If that fails, with whatever error: Ray has no type of its own for it.
    """
    try:
        yield
    except Exception as error:
        said = f"Ray could not be started or joined: {str(error).rstrip(' .') or type(error).__name__}"
        asks = "InvalidAuthToken" in f"{error.__cause__} {error.__context__}"
        raise RayUnavailable(f"{said}; {NEEDS_TOKEN if asks else LOOK_HERE}") from error


@contextmanager
def joined_ray(stages: Stages | None = None) -> Iterator[None]:
    """Be connected to Ray while the block runs; disconnect at its end if this call joined or started Ray."""
    joined = ensure_ray(stages=stages)
    try:
        yield
    finally:
        if joined:
            ray.shutdown()


def starts_ray() -> bool:
    """Return whether `ensure_ray` would start a Ray of this process, rather than join one.

    Raises
    ------
    RayUnavailable
        If RAY_ADDRESS names one that does not answer.
    """
    return not ray.is_initialized() and not _through_client() and _running_ray() is None


def _through_client() -> bool:
    return os.environ.get("RAY_ADDRESS", "").startswith("ray://")


def _knock_at_client_server(address: str) -> None:
    """Check that a Ray client server answers and takes our token, which Ray itself tries for half a minute.

    Raises
    ------
    RayUnavailable
        If nobody answers there, or it wants another token.
    """
    place = address.removeprefix("ray://")
    try:
        _knock(place)
    except (OSError, ValueError) as error:
        raise RayUnavailable(f"RAY_ADDRESS is {address!r}: nobody answers there: {error}") from None
    if _status_of_ping(place) == "UNAUTHENTICATED":
        raise RayUnavailable(f"RAY_ADDRESS is {address!r}: {NEEDS_TOKEN}")


def _knock(place: str) -> None:
    """Check that something listens at host:port; OSError if nothing does, ValueError if that is no place."""
    host, _, port = place.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS).close()


def _status_of_ping(place: str) -> str:
    """Return the name of the gRPC status with which a Ray client server answers a ping; "" if it answers well."""
    import grpc  # only Ray's client needs it
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import ray_client_pb2, ray_client_pb2_grpc

    channel = init_grpc_channel(place)
    ping = ray_client_pb2.ClusterInfoRequest(type=ray_client_pb2.ClusterInfoType.PING)
    try:
        ray_client_pb2_grpc.RayletDriverStub(channel).ClusterInfo(ping, timeout=KNOCK_SECONDS)
    except grpc.RpcError as error:
        return str(error.code().name)
    finally:
        channel.close()
    return ""


def _say_which(joined: str, found: Collection[str]) -> None:
    """Say which Ray was joined, if several run on this machine; Ray's own warning is silenced."""
    others = sorted(set(found) - {joined})
    if others:
        _LOG.warning(
            "several Rays run on this machine; joined %s, the last that was started; for another set RAY_ADDRESS: %s",
            joined,
            ", ".join(others),
        )


def _running_ray() -> str | None:
    """Return the address of the Ray that can be joined, as host:port; None if there is none.

    Ray records in a file where the last Ray was started, and a Ray that was killed leaves the file behind. Joining
    that address would wait for minutes, so this first checks whether anything accepts connections there.
    """
    named = os.environ.get("RAY_ADDRESS")
    try:
        address = services.canonicalize_bootstrap_address(None)
    except (ConnectionError, ValueError) as error:
        raise RayUnavailable(f"RAY_ADDRESS is {named!r}: {error}") from None
    if address is None:
        return None
    try:
        _knock(address)
    except OSError as error:
        if named:
            raise RayUnavailable(f"RAY_ADDRESS is {named!r}: nobody answers there: {error}") from None
        return None
    return str(address)


def _ends_with_this_process() -> bool:
    """Return whether the Ray that this process is in, or would start, belongs to this process."""
    if not ray.is_initialized():
        return starts_ray()
    node = worker._global_node  # Ray has no public API for who has started it
    return node is not None and bool(node.is_head())


def actor(
    kind: type, name: str, detached: bool, *, groups: dict[str, int] | None = None, **options: Any
) -> Any:
    """Return an actor class that starts under a name when its `remote` is called.

    Calls of one of the `groups` run beside all others, at most as many at once as the group's number.
    """
    if detached:
        options["lifetime"] = "detached"
    made = _actor_class(kind, *(groups or {}).items())
    return made.options(**{"num_cpus": 0, "name": name, "namespace": NAMESPACE, **options})


@cache
def _actor_class(kind: type, *groups: tuple[str, int]) -> Any:
    """Return Ray's actor class for a class; cached, because Ray exports each new one to all processes with its code."""
    return ray.remote(concurrency_groups=dict(groups))(kind) if groups else ray.remote(kind)


def claim(name: str, detached: bool, store: RendezvousStore | None, where: Options) -> Any:
    """Start the rendezvous point, which takes the name; with a store, it resumes from there after its process dies."""
    _check_name(name)
    title, options = rendezvous_name(name), {"groups": {KEYS: 1}, **where}
    if store is not None:
        options |= {"max_restarts": -1, "max_task_retries": -1}
    try:
        watched = LAUNCHER_SECONDS if detached else None  # else its actors end with the launcher
        return actor(Rendezvous, title, detached, **options).remote(store, None, name, watched)
    except ValueError:  # since the check
        raise _exists(name) from None


def _exists(name: str) -> NetworkExists:
    return NetworkExists(
        f"there is already a network {name!r}: attach to it, choose another name, or end it: {how_to_end(name)}"
    )


def _check_name(name: str) -> None:
    """Raise NetworkExists if anything bears this name."""
    parts = parts_of(name)
    if rendezvous_name(name) in parts:
        raise _exists(name)
    if parts:
        raise NetworkExists(
            f"network {name!r} has lost its rendezvous point, and {described(parts)} is left of it: "
            f"end it first: {how_to_end(name)}"
        )


def start_network(settings: Settings, stages: Stages) -> tuple[Directory, Any]:
    """Start a network on the running Ray; return its directory and its rendezvous point, or leave nothing behind.

    Raises
    ------
    InputError
        If a node that brokers are to run on is not in the cluster, or no node has a place that is asked for.
    NetworkExists
        If there is a network of that name.
    BrokerUnavailable
        If an actor dies during the launch.
    """
    now = ray.nodes()
    _check_nodes(settings.nodes, now)
    ground = ground_of(settings, now)
    _check_places(settings, ground, now)
    name, token = settings.name, uuid4().hex
    store = store_of(settings, token)
    rendezvous = claim(name, settings.detached, store, ground.steady)
    with signs_of_life(lambda: _live(rendezvous), LAUNCHER_SECONDS):
        return _start_parts(settings, stages, rendezvous, token, store, ground), rendezvous


def _live(rendezvous: Any) -> None:
    rendezvous.launching.options(concurrency_group=KEYS).remote()


def _start_parts(
    settings: Settings,
    stages: Stages,
    rendezvous: Any,
    token: str,
    store: RendezvousStore | None,
    ground: Ground,
) -> Directory:
    """Start everything but the rendezvous point, and open the network; on an error end all of it."""
    name, recovery = settings.name, settings.recovery
    actors = [rendezvous]
    try:
        earlier = resume(settings, rendezvous) if isinstance(store, LastingStore) else None
        positions = settings.positions() if earlier is None else list(earlier.positions)
        stages.show(BROKERS, 0, len(positions))
        collector = _start_collector(settings, token, positions, ground)
        actors.append(collector)
        directory = Directory(
            name, settings.scheme, settings.limits, tuple(positions), {}, collector, recovery, token,
            settings.trace_events, settings.detached, settings.stable, settings.admission, settings.telemetry,
            nodes=ground.nodes, gateway=settings.gateway, access=settings.access, seal=token,
            channels=channels_of(settings.links, settings.ports), place=settings.place, spared=ground.spared,
            chaos=settings.chaos,
        )  # fmt: skip
        if earlier is not None:
            launches, still, seal = earlier.launches, earlier.still_seconds, earlier.seal
            directory = replace(directory, launches=launches, still_seconds=still, seal=seal)
        incarnation = 0 if earlier is None else earlier.incarnation
        made = launch_hosts(directory, settings.brokers_per_actor, actors, stages, incarnation)
        connect(directory, made, rendezvous)
        with broker_errors(f"launching network {name!r}"):
            numbers = {} if earlier is None else accepted([host for host, _ in made])
            ray.get(rendezvous.open.remote(directory, earlier, numbers))
            ray.get([HostHandle(host).begin() for host, _ in made])
    except BaseException:
        for started in actors:
            ray.kill(started)
        if store is not None:
            RayStore(token).clear()
        raise
    return directory


def _check_nodes(nodes: Sequence[str], now: Sequence[Node]) -> None:
    living = [node["NodeID"] for node in now if node["Alive"]]
    for node in nodes:
        if node not in living:
            raise InputError(f"nodes: there is no Ray node {node!r}; there is: {', '.join(sorted(living))}")


def _check_places(settings: Settings, ground: Ground, now: Sequence[Node]) -> None:
    """Require that what is to be started has room, before anything is."""
    if settings.gateway is not None and settings.gateway.place is not None:
        check_place("gateway place", settings.gateway.place, now)
    if settings.place is not None:
        actors = actors_of(settings.positions(), ground.nodes, settings.brokers_per_actor)
        await_room("place", settings.place, len(actors))


def _start_collector(settings: Settings, token: str, positions: list[Position], ground: Ground) -> Any:
    """Start the collector of a network, which Ray restarts whenever it dies."""
    title = collector_name(settings.name)
    lasting = actor(
        CollectorActor, title, settings.detached, max_restarts=-1, max_task_retries=-1, **ground.steady
    )
    network = packed_network(network_of(positions, settings.scheme))
    return lasting.remote(run_name(settings.name, token), settings.telemetry, *network)


def launch_hosts(
    directory: Directory,
    brokers_per_actor: int,
    actors: list[Any],
    stages: Stages,
    incarnation: int = 0,
) -> list[tuple[Any, Sequence[Position]]]:
    """Start all host actors at once and their brokers; the started actors are in `actors`, also on failure."""
    positions = directory.positions
    made: list[tuple[Any, Sequence[Position]]] = []
    waiting: dict[Any, int] = {}
    for hosted in actors_of(positions, directory.nodes, brokers_per_actor):
        host = _start_host(directory, [position.broker for position in hosted], incarnation)
        actors.append(host)
        made.append((host, hosted))
        directory.hosts.update(dict.fromkeys([position.broker for position in hosted], host))
        waiting[HostHandle(host).start_brokers(hosted, incarnation)] = len(hosted)
    ready = 0
    pending = list(waiting)
    while pending:
        done, pending = ray.wait(pending, num_returns=1, timeout=directory.place and STILL_SECONDS)
        if not done:
            raise BrokerUnavailable(
                f"launching brokers: none of {len(pending):,} has begun in {STILL_SECONDS:g} s; something else has "
                f"taken what they are to have: {directory.place}"
            )
        with broker_errors("launching brokers"):
            ray.get(done)
        ready += sum(waiting[call] for call in done)
        stages.show(BROKERS, ready, len(positions))
    return made


def connect(directory: Directory, made: list[tuple[Any, Sequence[Position]]], rendezvous: Any) -> None:
    """Give each host the actors of its brokers' neighbours, and no others."""
    calls = []
    for host, hosted in made:
        needed = {other for position in hosted for other in position.neighbours}
        # A position may name a broker that has since left an earlier network.
        known = {broker: directory.hosts[broker] for broker in sorted(needed) if broker in directory.hosts}
        calls.append(HostHandle(host).connect(known, rendezvous if directory.features.heals else None))
    with broker_errors("connecting brokers"):
        ray.get(calls)


def _start_host(
    directory: Directory,
    brokers: Sequence[BrokerId],
    incarnation: int = 0,
    members: Sequence[BrokerId] = (),
    dead: Sequence[str] = (),
) -> Any:
    """Start an actor for brokers of a network; Ray restarts it if its brokers resume from their stores."""
    title = host_name(directory.name, brokers, incarnation)
    options: Options = {"max_concurrency": CALLS_AT_ONCE} | near_broker(directory, brokers[0], members, dead)
    if directory.features.numbers:
        options["max_restarts"] = -1
    arguments = (
        directory.scheme, directory.limits, directory.trace_events, directory.collector, directory.name,
        directory.recovery, directory.admission, directory.stable, directory.still_seconds, directory.channels,
    )  # fmt: skip
    return actor(BrokerHost, title, directory.detached, **options).remote(*arguments)


def start_new(directory: Directory, rendezvous: Any, places: list[Position], incarnation: int) -> None:
    """Start brokers that join a running network, each in an actor of its own; on an error, none of them remains."""
    if directory.place is not None:
        await_room("place", directory.place, len(places))
    hosts: dict[BrokerId, Any] = {}
    dead = dead_nodes(directory)
    try:
        for place in places:
            hosts[place.broker] = _start_host(directory, [place.broker], members=place.members, dead=dead)
        ray.get([HostHandle(hosts[place.broker]).start_newcomer(place, incarnation) for place in places])
        known = {**directory.hosts, **hosts}
        for place in places:  # skips neighbours that have left in the meantime
            met = {other: known[other] for other in place.neighbours if other in known}
            ray.get(HostHandle(hosts[place.broker]).connect(met, rendezvous))
        ray.get(rendezvous.admit.remote(places, hosts))
        ray.get([HostHandle(host).begin() for host in hosts.values()])
    except BaseException:
        for broker, host in hosts.items():
            rendezvous.forget.remote(broker)
            ray.kill(host)
        raise


def start_again(directory: Directory, rendezvous: Any, brokers: Sequence[BrokerId], incarnation: int) -> Any:
    """Restart dead brokers in one new actor, which the rendezvous point knows before the brokers send anything."""
    positions = [position for position in directory.positions if position.broker in brokers]
    _end_unborn(directory, rendezvous, brokers, incarnation)
    if directory.place is not None:
        await_room("place", directory.place, 1)
    host = _start_host(directory, brokers, incarnation, dead=dead_nodes(directory))
    try:
        ray.get(HostHandle(host).start_brokers(positions, incarnation))
        known, met = directory.hosts, {other for position in positions for other in position.neighbours}
        ray.get(
            HostHandle(host).connect(
                {other: known[other] for other in sorted(met) if other in known}, rendezvous
            )
        )
        ray.get([rendezvous.reborn.remote(broker, host, incarnation) for broker in brokers])
        ray.get(HostHandle(host).begin())
    except BaseException:
        ray.kill(host)
        raise
    return host


def _end_unborn(directory: Directory, rendezvous: Any, brokers: Sequence[BrokerId], incarnation: int) -> None:
    """End actors of earlier incarnations that were never registered: their starter has ended; they hold the stores."""
    known = ray.get([rendezvous.whereabouts.remote(broker) for broker in brokers])
    born = max(incarnation for _, incarnation in known)
    for earlier in range(born + 1, incarnation):
        with suppress(ValueError):  # there is no such actor
            unborn = ray.get_actor(host_name(directory.name, brokers, earlier), namespace=NAMESPACE)
            ray.kill(unborn)
