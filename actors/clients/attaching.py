"""How clients attach to a network and leave it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any
from uuid import uuid4

import ray

from ...faults.durability.durable_cursor import DeadLetter
from ...faults.membership.places import Tiers
from ...protocol import checks
from ...protocol.errors import ClientError, InputError, RayvousError
from ...protocol.ids import BrokerId, ClientId
from ..host.errors import broker_errors
from ..network.hosts import Hosts
from .client import Context
from .coming_back import publisher_back, subscriber_back
from .durable import DurableSubscriber
from .nearness import Placement, checked
from .process import ClientProcess
from .publisher import Publisher
from .subscriber import Subscriber


class Attaching:
    """The clients of this process in a network.

    Attributes
    ----------
    process
        Polls for the clients.
    clients
        All clients that have attached here and were not released.
    """

    def __init__(self, hosts: Hosts, process: ClientProcess) -> None:
        self._hosts = hosts
        self.process = process
        self.clients: list[Publisher | Subscriber] = []
        self._inbox_events_max: int | None = None

    def publisher(
        self,
        name: ClientId,
        *,
        broker: BrokerId | None = None,
        place: Placement | None = None,
        durable: bool = False,
    ) -> Publisher:
        """Attach a publisher, by default at the broker with the fewest clients.

        Parameters
        ----------
        name, broker
            The client's name, and the broker at which it attaches.
        place
            The broker at which the publisher attaches when none is named, and to which it moves when it must
            leave its broker: ``"nearest"`` by measured round trip, or ``"least-loaded"``, which has the fewest
            clients. None attaches at the least loaded broker, and on a move prefers another broker of the same
            cluster. See docs/operations.md.
        durable
            Whether numbering continues where an earlier, dead process of that name stopped: `published` is the
            last number that was accepted. Requires a network that heals.

        Raises
        ------
        ClientError
            If a publisher of that name exists, and this one is not durable.
        InputError
            If it is durable and the network does not heal.
        """
        checks.text("name", name)
        if checks.flag("durable", durable):
            publisher: Publisher = self._lasting(publisher_back, name, broker, place)
            return publisher
        return self.publishers([name], broker=broker, place=place)[0]

    def subscriber(
        self,
        name: ClientId,
        *,
        broker: BrokerId | None = None,
        place: Placement | None = None,
        durable: bool = False,
    ) -> Subscriber:
        """Attach a subscriber; see :meth:`Network.subscriber`."""
        checks.text("name", name)
        if checks.flag("durable", durable):
            subscriber: DurableSubscriber = self._lasting(subscriber_back, name, broker, place)
            return subscriber
        return self.subscribers([name], broker=broker, place=place)[0]

    def publishers(
        self, names: Iterable[ClientId], *, broker: BrokerId | None = None, place: Placement | None = None
    ) -> list[Publisher]:
        """Attach several publishers at once; see `publisher`."""
        return self._attach(Publisher, checks.texts("names", names), broker, place)

    def subscribers(
        self, names: Iterable[ClientId], *, broker: BrokerId | None = None, place: Placement | None = None
    ) -> list[Subscriber]:
        """Attach several subscribers at once; see `subscriber`."""
        return self._attach(Subscriber, checks.texts("names", names), broker, place)

    def _near(self, broker: BrokerId | None, place: Placement | None) -> Tiers | None:
        """Return the brokers by nearness, if that decides where a client attaches."""
        if broker is not None:
            return None
        with broker_errors(f"attaching to {self._hosts.name!r}"):
            return self.process.run(self.process.nearness.tiers(place, self._hosts.rendezvous))

    def _lasting(self, back: Any, name: ClientId, broker: BrokerId | None, place: Placement | None) -> Any:
        self._hosts.require_open()
        placement = checked(place)
        if self._hosts.recovery is None:
            raise InputError(
                f"network {self._hosts.name!r} does not heal: launch it with recovery=Recovery()"
            )
        if broker is not None:
            checks.whole_number("broker", broker)
        self._hosts.find_reborn()
        near = self._near(broker, placement)
        client = back(self._context(placement), name, broker, near)
        self.clients.append(client)
        return client

    def accepted(self, publisher: ClientId, without: Collection[BrokerId] = ()) -> int:
        """Return the last number of a publisher that any live broker has accepted, 0 for none.

        Parameters
        ----------
        publisher
            Its name.
        without
            Brokers that are not asked, because they could not answer.

        Raises
        ------
        BrokerUnavailable
            If another broker does not answer and is not known to be dead.
        """
        checks.text("publisher", publisher)
        checks.instance("without", without, Collection, "a collection of brokers")
        found = self._hosts.ask(
            "accepted_here", publisher, timeout_seconds=60, without=without, all_living=True
        )
        return max((answer[publisher] for answer in found), default=0)

    def dead_letters(self) -> list[DeadLetter]:
        """Return the events that could not be delivered to durable subscribers, oldest first.

        Raises
        ------
        BrokerUnavailable
            If a broker does not answer and is not known to be dead.
        """
        answers = self._hosts.ask("dead_letters", timeout_seconds=60, all_living=True)
        return sorted(chain.from_iterable(answers), key=lambda letter: letter.at_seconds)

    def _attach(
        self, kind: Any, names: list[ClientId], broker: BrokerId | None, place: Placement | None
    ) -> list[Any]:
        self._hosts.require_open()
        placement = checked(place)
        if broker is not None:
            checks.whole_number("broker", broker)
        near = self._near(broker, placement)
        with broker_errors(f"attaching to {self._hosts.name!r}"):
            call = self._hosts.rendezvous.place.remote(kind.kind, names, broker, uuid4().hex, near)
            places = ray.get(call, timeout=60)
            if any(at not in self._hosts.directory.hosts for at in places):
                self._hosts.find_reborn()
            last = [0] * len(names)
            if self._hosts.recovery is not None and kind is Publisher:
                last = ray.get(self._hosts.rendezvous.sequences.remote(names), timeout=60)
            context, clients = self._context(placement), list[Any]()
            try:
                for name, at, used in zip(names, places, last, strict=True):
                    clients.append(kind(name, at, context, *([used] if used else [])))
            except BaseException:  # all or none
                for client in clients:
                    with suppress(RayvousError):
                        client.close()
                self._hosts.rendezvous.leave.remote(kind.kind, names, {})
                raise
        self.clients += clients
        return clients

    def _context(self, placement: Placement | None) -> Context:
        directory = self._hosts.directory
        if self._inbox_events_max is not None:
            limits = replace(directory.limits, delivery_events_max=self._inbox_events_max)
            directory = replace(directory, limits=limits)
        return Context(directory, self.process, self._hosts.rendezvous, placement)

    def release(self, client: Publisher | Subscriber) -> None:
        """Close a client of this process and free its name.

        Raises
        ------
        ClientError
            If it is not a client of this network in this process, or the network is closed.
        """
        self._hosts.require_open()
        if client not in self.clients:
            raise ClientError(
                f"{checks.shown(client)} is not a client of network {self._hosts.name!r} in this process"
            )
        client.close()
        self.clients.remove(client)
        self.leave([client])

    def bound_inboxes(self, events_max: int) -> None:
        """Bound the unread notifications of each subscriber that attaches from now on.

        Without this, the bound is that of a broker (`Limits.delivery_events_max`). Further notifications wait
        at the broker, or are shed as `Limits` says.
        """
        self._inbox_events_max = checks.whole_number("events_max", events_max, 1)

    def forget(self, client: Publisher | Subscriber) -> None:
        """Drop the record of a closed durable client; its name remains in use."""
        if client in self.clients:
            self.clients.remove(client)

    def leave(self, clients: Iterable[Publisher | Subscriber]) -> None:
        """Free the names of closed clients."""
        for kind in ("publisher", "subscriber"):
            leaving = [client for client in clients if client.kind == kind]
            used = {client.name: client.published for client in leaving if isinstance(client, Publisher)}
            if leaving:
                self._hosts.rendezvous.leave.remote(kind, [client.name for client in leaving], used)
