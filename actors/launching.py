"""Starting a network on Ray: its name claimed, its hosts started, seated and connected.

Rules
-----
* Every broker host is an actor that asks for no CPU: brokers wait more than they compute, and Ray's CPU count is a
  limit on placement, not on use.
* Every actor that was started is told to the caller, also on failure, so that he leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import ray

from ..protocol.configs import Position
from ..protocol.errors import NetworkExists
from ..protocol.ids import BrokerId
from ..protocol.stability import Stable
from .errors import broker_errors
from .host import BrokerHost
from .java import prepare_java
from .rendezvous import Directory, Rendezvous
from .stable_host import StableHost
from .store import RayStore

NAMESPACE: Final = "rayvous"
CALLS_AT_ONCE: Final = 10_000

Progress = Callable[[int, int], None]
"""Called with (brokers ready, brokers in all)."""


def networks() -> list[str]:
    """Return the names of the networks on this Ray cluster."""
    prefix = rendezvous_name("")
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


@contextmanager
def joined_ray() -> Iterator[None]:
    """Be on Ray for a block; leave at its end if it was this that joined or started it."""
    joined = ensure_ray()
    try:
        yield
    finally:
        if joined:
            ray.shutdown()


def rendezvous_name(name: str) -> str:
    """Return the name of the actor that is the rendezvous point of a network."""
    return f"rendezvous:{name}"


def actor(kind: type, name: str, detached: bool, **options: Any) -> Any:
    """Return an actor class that starts under a name when its `remote` is called."""
    if detached:
        options["lifetime"] = "detached"
    return ray.remote(kind).options(name=name, namespace=NAMESPACE, num_cpus=0, **options)


class _LastingRendezvous(Rendezvous):
    """The rendezvous point of a network that heals: Ray starts it again when it dies, and it goes on where it was."""

    def __init__(self, token: str) -> None:
        super().__init__(RayStore(token))


def claim(name: str, detached: bool, token: str | None) -> Any:
    """Start the rendezvous point, which takes the name; with a token one that outlives its process."""
    title = rendezvous_name(name)
    try:
        if token is not None:
            lasting = actor(_LastingRendezvous, title, detached, max_restarts=-1, max_task_retries=-1)
            return lasting.remote(token)
        return actor(Rendezvous, title, detached).remote()
    except ValueError:
        raise NetworkExists(
            f"there is already a network {name!r}: attach to it, or take another name"
        ) from None


def launch_hosts(
    positions: list[Position],
    brokers_per_actor: int,
    arguments: tuple[Any, ...],
    name: str,
    detached: bool,
    actors: list[Any],
    progress: Progress | None,
    stable: Stable | None = None,
) -> tuple[dict[BrokerId, Any], list[tuple[Any, list[Position]]]]:
    """Start the host actors and seat the brokers; every actor that was started is in `actors`, also on failure."""
    hosts: dict[BrokerId, Any] = {}
    made: list[tuple[Any, list[Position]]] = []
    waiting: dict[Any, int] = {}
    for start in range(0, len(positions), brokers_per_actor):
        seated = positions[start : start + brokers_per_actor]
        title = f"{name}:host:{seated[0].broker}"
        kind, options = (BrokerHost, {}) if stable is None else (StableHost, {"max_restarts": -1})
        given = (*arguments, stable, rendezvous_name(name), NAMESPACE) if stable else arguments
        host = actor(kind, title, detached, max_concurrency=CALLS_AT_ONCE, **options).remote(*given)
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


def connect(directory: Directory, made: list[tuple[Any, list[Position]]], rendezvous: Any) -> None:
    """Give each host the actors of its brokers' neighbours, and no others."""
    calls = []
    for host, seated in made:
        needed = {other for position in seated for other in position.neighbours}
        known = {broker: directory.hosts[broker] for broker in sorted(needed)}
        calls.append(host.connect.remote(known, None if directory.recovery is None else rendezvous))
    with broker_errors("connecting brokers"):
        ray.get(calls)


def _another_host(directory: Directory, title: str) -> Any:
    """Start an actor for brokers of a running network, with the settings of all the others."""
    arguments = (
        directory.scheme, directory.limits, directory.trace_events, directory.collector, directory.name,
        directory.recovery, directory.admission, directory.stores,
    )  # fmt: skip
    return actor(BrokerHost, title, directory.detached, max_concurrency=CALLS_AT_ONCE).remote(*arguments)


def start_new(directory: Directory, rendezvous: Any, places: list[Position], life: int) -> None:
    """Start brokers that join a running network, each in an actor of its own; all of them, or none on an error."""
    hosts: dict[BrokerId, Any] = {}
    try:
        for place in places:
            title = f"{directory.name}:host:{place.broker}"
            hosts[place.broker] = _another_host(directory, title)
        ray.get([hosts[place.broker].seat_newcomer.remote(place, life) for place in places])
        ray.get(rendezvous.admit.remote(places, hosts))
        known = {**directory.hosts, **hosts}
        ray.get(
            [
                hosts[place.broker].connect.remote(
                    {other: known[other] for other in place.neighbours}, rendezvous
                )
                for place in places
            ]
        )
        ray.get([host.begin.remote() for host in hosts.values()])
    except BaseException:
        for broker, host in hosts.items():
            rendezvous.forget.remote(broker)
            ray.kill(host)
        raise


def start_again(directory: Directory, rendezvous: Any, broker: BrokerId, life: int) -> Any:
    """Start a dead broker in an actor of its own, known to the rendezvous point before it says a word."""
    position = next(position for position in directory.positions if position.broker == broker)
    title = f"{directory.name}:host:{broker}:{life}"
    host = _another_host(directory, title)
    try:
        ray.get(host.seat.remote([position], life))
        ray.get(rendezvous.reborn.remote(broker, host))
        known = {other: directory.hosts[other] for other in position.neighbours}
        ray.get(host.connect.remote(known, rendezvous))
        ray.get(host.begin.remote())
    except BaseException:
        ray.kill(host)
        raise
    return host
