"""How a client comes back under its name: what it asks before it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import ray
from ray.exceptions import RayActorError

from ...faults.membership.places import Tiers
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId, ClientId
from ..host.errors import broker_errors
from ..host.requests import Accepted
from .durable import DurableSubscriber, ReturningPublisher
from .nearness import Placement
from .process import ClientProcess

if TYPE_CHECKING:
    from ..network.rendezvous import Directory


def _named(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise InputError(f"client name {name!r}: a name is a string of at least one character")


def subscriber_back(
    directory: Directory,
    rendezvous: Any,
    process: ClientProcess,
    name: ClientId,
    broker: BrokerId | None,
    placement: Placement | None,
    near: Tiers | None,
) -> DurableSubscriber:
    """Return a durable subscriber, new or come back, with a poll of its own."""
    _named(name)
    with broker_errors(f"attaching to {directory.name!r}"):
        call = rendezvous.come_back.remote(name, broker, uuid4().hex, near)
        place, record = ray.get(call, timeout=directory.limits.call_seconds)
    assert directory.recovery is not None
    own = ClientProcess(directory.name, directory.recovery.client_patience_seconds)
    return DurableSubscriber(name, place, directory, own, rendezvous, record, placement=placement)


def publisher_back(
    directory: Directory,
    rendezvous: Any,
    process: ClientProcess,
    name: ClientId,
    broker: BrokerId | None,
    placement: Placement | None,
    near: Tiers | None,
) -> ReturningPublisher:
    """Return a publisher that goes on where an earlier process of its name stopped, or begins."""
    _named(name)
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
    known_of_it = (published, kept, reserved)
    return ReturningPublisher(name, place, directory, process, rendezvous, known_of_it, placement=placement)
