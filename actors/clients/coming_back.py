"""How a client comes back under its name: what it asks before it is made."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import ray
from ray.exceptions import RayActorError

from ...faults.membership.places import Tiers
from ...protocol.ids import BrokerId, ClientId
from ..host.errors import broker_errors
from ..host.requests import Accepted
from .client import Context
from .durable import DurableSubscriber, ReturningPublisher
from .process import ClientProcess


def subscriber_back(
    context: Context, name: ClientId, broker: BrokerId | None, near: Tiers | None
) -> DurableSubscriber:
    """Return a durable subscriber, new or come back, with a poll of its own."""
    directory = context.directory
    with broker_errors(f"attaching to {directory.name!r}"):
        call = context.rendezvous.come_back.remote(name, broker, uuid4().hex, near)
        place, record = ray.get(call, timeout=directory.limits.call_seconds)
    assert directory.recovery is not None
    recovery = directory.recovery
    own = ClientProcess(
        directory.name, recovery.client_patience_seconds, compare_seconds=recovery.compare_seconds
    )
    return DurableSubscriber(name, place, context._replace(process=own), record)


def publisher_back(
    context: Context, name: ClientId, broker: BrokerId | None, near: Tiers | None
) -> ReturningPublisher:
    """Return a publisher that goes on where an earlier process of its name stopped, or begins."""
    directory, rendezvous = context.directory, context.rendezvous
    seconds = directory.limits.call_seconds
    with broker_errors(f"attaching to {directory.name!r}"):
        call = rendezvous.publisher_comes_back.remote(name, broker, uuid4().hex, near)
        place, homes, reserved = ray.get(call, timeout=seconds)
        known: dict[BrokerId, Any] = {}
        for home, host in homes.items():
            if host is None:
                continue  # it has left the network
            try:
                known[home] = ray.get(host.request.remote(home, name, [Accepted()]), timeout=seconds)
            except RayActorError:
                ray.get(rendezvous.bury.remote({home: host}), timeout=seconds)
        published, kept = 0, []
        if known:
            place = max(known, key=lambda home: known[home][0])
            published, kept = known[place]
        elif homes:
            call = rendezvous.publisher_comes_back.remote(name, broker, uuid4().hex, near)
            place, _, _ = ray.get(call, timeout=seconds)
        if len(known) < len(homes) or not published:
            published = reserved  # what one had accepted that died is not known
        ray.get(rendezvous.home_of_publisher.remote(name, place, True), timeout=seconds)
    return ReturningPublisher(name, place, context, (published, kept, reserved))
