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
from ..network.hosts import Hosts
from .durable import DurableSubscriber, ReturningPublisher
from .nearness import Placement
from .process import ClientProcess


def subscriber_back(
    hosts: Hosts,
    process: ClientProcess,
    name: ClientId,
    broker: BrokerId | None,
    placement: Placement | None,
    near: Tiers | None,
) -> DurableSubscriber:
    """Return a durable subscriber, new or come back, with a poll of its own."""
    directory = hosts.directory
    with broker_errors(f"attaching to {directory.name!r}"):
        call = hosts.rendezvous.come_back.remote(name, broker, uuid4().hex, near)
        place, record = ray.get(call, timeout=directory.limits.call_seconds)
    assert directory.recovery is not None
    own = ClientProcess(directory.name, directory.recovery.client_patience_seconds)
    return DurableSubscriber(name, place, directory, own, hosts.rendezvous, record, placement=placement)


def publisher_back(
    hosts: Hosts,
    process: ClientProcess,
    name: ClientId,
    broker: BrokerId | None,
    placement: Placement | None,
    near: Tiers | None,
) -> ReturningPublisher:
    """Return a publisher that goes on where an earlier process of its name stopped, or begins."""
    directory, rendezvous = hosts.directory, hosts.rendezvous
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
