"""How a client resumes under its name: the questions asked before it is created.

Rule: a publisher continues after what every broker reports that may have accepted its last events. Only a
broker that Ray reports dead is skipped, and reported as dead. An unreachable broker is asked again, and the
publisher does not resume while it is unreachable.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import ray
from ray.exceptions import ActorDiedError, RayActorError

from ...clients.places import Former, Tiers
from ...protocol.ids import BrokerId, ClientId
from ..host.errors import broker_errors
from ..host.handle import HostHandle
from ..host.requests import Accepted
from .client import CALL_AGAIN_SECONDS, Context
from .durable import DurableSubscriber, ReturningPublisher
from .process import ClientProcess


def reattached_subscriber(
    context: Context, name: ClientId, broker: BrokerId | None, near: Tiers | None
) -> DurableSubscriber:
    """Return a durable subscriber, new or returning, with a poll of its own."""
    directory, times, ticket = context.directory, context.directory.features.times, uuid4().hex
    own = ClientProcess(
        directory.name,
        times.client_patience_seconds,
        compare_seconds=times.compare_seconds,
        channels=directory.channels,
        unread_bytes_max=directory.limits.connection_bytes_max,
    )
    try:
        with broker_errors(f"attaching to {directory.name!r}"):
            call = context.rendezvous.reattach.remote(name, broker, ticket, near, own.owner)
            place, record, former = ray.get(call, timeout=directory.limits.call_seconds)
        evict("subscriber", former, times.client_patience_seconds)
        return DurableSubscriber(name, place, context._replace(process=own, ticket=ticket), record)
    except BaseException:
        own.close()
        raise


def reattached_publisher(
    context: Context, name: ClientId, broker: BrokerId | None, near: Tiers | None
) -> ReturningPublisher:
    """Return a publisher that continues where an earlier process of its name stopped, or starts."""
    directory, rendezvous, ticket = context.directory, context.rendezvous, uuid4().hex
    seconds, asked = directory.limits.call_seconds, (name, broker, ticket, near, context.process.owner)
    with broker_errors(f"attaching to {directory.name!r}"):
        call = rendezvous.reattach_publisher.remote(*asked)
        place, homes, reserved, former = ray.get(call, timeout=seconds)
        evict("publisher", former, seconds)  # first: from here on nothing more of it is accepted
        known: dict[BrokerId, Any] = {}
        for home, host in homes.items():
            if host is None:
                continue  # the broker has left the network
            try:
                known[home] = _accepted(host, home, name, seconds)
            except ActorDiedError:
                ray.get(rendezvous.bury.remote({home: host}), timeout=seconds)
        published, kept = 0, []
        if known:
            place = max(known, key=lambda home: known[home][0])
            published, kept = known[place]
        elif homes:
            call = rendezvous.reattach_publisher.remote(*asked)
            place = ray.get(call, timeout=seconds)[0]
        if len(known) < len(homes) or not published:
            published = reserved  # what a dead broker had accepted is unknown
        ray.get(rendezvous.home_of_publisher.remote(name, place, True), timeout=seconds)
    return ReturningPublisher(name, place, context._replace(ticket=ticket), (published, kept, reserved))


def evict(kind: str, former: Mapping[ClientId, tuple[Former, Any]], seconds: float) -> None:
    """Tell the hosts of those who had names before that they have them no more; wait for them for a limited time.

    A host that is dead or does not answer in time has nobody, or the former client finds out when it leaves it.
    """
    calls = [
        HostHandle(host).evict(kind, name, was.broker, was.session, was.ticket, was.durable)
        for name, (was, host) in former.items()
        if host is not None and was.ticket
    ]
    if calls:
        ray.wait(calls, num_returns=len(calls), timeout=seconds)


def _accepted(host: Any, broker: BrokerId, publisher: ClientId, seconds: float) -> Any:
    """Return what a broker has accepted of a publisher; retry for a limited time while its host is unreachable."""
    deadline = time.monotonic() + seconds
    while True:
        left = max(0.0, deadline - time.monotonic())
        try:
            return ray.get(HostHandle(host).request(broker, publisher, [Accepted()]), timeout=left)
        except ActorDiedError:
            raise
        except RayActorError:
            if not left:
                raise
            time.sleep(CALL_AGAIN_SECONDS)
