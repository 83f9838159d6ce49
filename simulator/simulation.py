"""A whole system in virtual time: brokers, and clients that subscribe, publish and are notified.

Rules
-----
* A client is attached to one broker, the one where it first does something.
* A publisher's events are numbered from 1 without gaps.
* What a client asks for reaches its broker `client_seconds` later, and so do notifications on their way back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappush
from typing import Any, NamedTuple

from ..protocol import checks
from ..protocol.admission import MICRO, AdmissionRequest, Advertise, News, Unadvertise, WouldAdmit
from ..protocol.batch import batch_of
from ..protocol.effects import Received
from ..protocol.errors import ClientError
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Cancel, ClientMessage, Detach, Events, Register
from ..routing.language import FilterLike, to_filter
from .network import Node, VirtualNetwork


class Notification(NamedTuple):
    """One event at one subscriber, and when it arrived there."""

    time_seconds: float
    publisher: ClientId
    sequence: int


class Simulation(VirtualNetwork):
    """A deterministic network of brokers with its clients; for the parameters see :class:`VirtualNetwork`.

    Examples
    --------
    >>> from rayvous.routing.topologies import ClusterTree
    >>> simulation = Simulation(ClusterTree(clusters=3, brokers_per_cluster=2).positions())
    >>> number = simulation.subscribe("alice", 0, "price > 10")
    >>> simulation.run_until_installed("alice", number)
    True
    >>> simulation.publish("bob", 5, [{"price": 12}, {"price": 8}])
    range(1, 3)
    >>> steps = simulation.run()
    >>> simulation.notifications("alice")
    [('bob', 1)]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._homes: dict[ClientId, Node] = {}
        self._numbers: dict[ClientId, int] = {}
        self._sequences: dict[ClientId, int] = {}
        self._inboxes: dict[ClientId, list[Notification]] = {}

    def subscribe(
        self, client: ClientId, broker: BrokerId, given: FilterLike, number: int = 0, priority: int = 0
    ) -> int:
        """Subscribe a client at a broker; return the number of the subscription.

        Parameters
        ----------
        client, broker
            Who, and where it is attached.
        given
            A filter, or whatever describes one.
        number
            The client's own number for it; 0 takes the next one.
        priority
            With admission control: the lowest degrades first.

        Raises
        ------
        SelectorError, FilterTooComplex
            If the filter cannot be read, or is too large.
        ClientError
            If there is no such broker, or the client is attached to another one.
        """
        wanted = to_filter(given)
        checks.whole_number("number", number, 0)
        checks.whole_number("priority", priority)
        node = self._attach(client, broker)
        last = self._numbers.get(client, 0)
        number = number or last + 1
        self._numbers[client] = max(number, last)
        self._installed.pop((client, number), None)
        self._enter(node, client, Register(number, wanted, priority))
        return number

    def unsubscribe(self, client: ClientId, number: int) -> None:
        """Cancel a subscription.

        Raises
        ------
        ClientError
            If the client is not attached.
        """
        self._enter(self._home(client), client, Cancel(checks.whole_number("number", number)))
        self._installed.pop((client, number), None)

    def detach(self, client: ClientId) -> None:
        """Cancel all subscriptions of a client; it may attach to another broker afterwards.

        Raises
        ------
        ClientError
            If the client is not attached.
        """
        self._enter(self._home(client), client, Detach())
        del self._homes[client]
        for key in [key for key in self._installed if key[0] == client]:
            del self._installed[key]

    def publish(self, client: ClientId, broker: BrokerId, events: Iterable[Mapping[str, Any]]) -> range:
        """Publish events as one batch; return their sequence numbers.

        Raises
        ------
        EventError
            If an event has a bad name or value.
        ClientError
            If there is no such broker, or the client is attached to another one.
        """
        first = self._sequences.get(checks.text("client", client), 0) + 1
        batch = batch_of(events, publisher=client, first_sequence=first, published_at=self.now)
        node = self._attach(client, broker)
        if len(batch):
            self._sequences[client] = first + len(batch) - 1
            self._event_messages["publish"] += 1
            self._enter(node, client, Events(batch))
        return range(first, first + len(batch))

    # Admission control.

    def advertise(
        self, client: ClientId, broker: BrokerId, given: FilterLike, max_rate: float, number: int = 1
    ) -> None:
        """Advertise what a publisher will publish, at most `max_rate` events per second, under a number of its own."""
        rate = checks.number("max_rate", max_rate, above=True)
        message = Advertise(checks.whole_number("number", number, 1), to_filter(given), round(rate * MICRO))
        self._enter(self._attach(client, broker), client, message)

    def unadvertise(self, client: ClientId, number: int = 1) -> None:
        """Withdraw an advertisement."""
        self._enter(self._home(client), client, Unadvertise(checks.whole_number("number", number)))

    def would_admit(self, client: ClientId, broker: BrokerId, given: FilterLike, number: int = 0) -> None:
        """Ask whether a subscription would be admitted; the judgement comes with the news."""
        message = WouldAdmit(checks.whole_number("number", number), to_filter(given))
        self._enter(self._attach(client, broker), client, message)

    def news(self, client: ClientId) -> list[News]:
        """Return what the client has been told so far about its subscriptions and advertisements, in order."""
        return [
            news for arrives, news in self._news.get(checks.text("client", client), ()) if arrives <= self.now
        ]

    def installed(self, client: ClientId, number: int) -> bool:
        """Return whether the client has heard that its subscription is installed up to the root."""
        key = checks.text("client", client), checks.whole_number("number", number)
        return self._installed.get(key, float("inf")) <= self.now

    def notifications(self, client: ClientId) -> list[tuple[ClientId, int]]:
        """Return (publisher, sequence) of what the client was notified of, in order of arrival."""
        return [(publisher, sequence) for _, publisher, sequence in self.timed_notifications(client)]

    def timed_notifications(self, client: ClientId) -> list[Notification]:
        """Return what the client was notified of, in order of arrival, with the virtual times."""
        self._sort_out()
        return list(self._inboxes.get(checks.text("client", client), ()))

    def subscribers(self) -> list[ClientId]:
        """Return the clients that were notified of anything, in order of their names."""
        self._sort_out()
        return sorted(self._inboxes)

    def _sort_out(self) -> None:
        """Hand out to the clients what was delivered since this was last called."""
        for arrives, effect in self._delivered:
            batch, starts, rows = effect.batch, effect.starts.tolist(), effect.rows.tolist()
            for place, client in enumerate(effect.clients):
                inbox = self._inboxes.setdefault(client, [])
                for row in rows[starts[place] : starts[place + 1]]:
                    inbox.append(Notification(arrives, *batch.identity(row)))
        self._delivered.clear()

    def _attach(self, client: ClientId, broker: BrokerId) -> Node:
        node = self._homes.setdefault(checks.text("client", client), self._node(broker))
        if node.id != broker:
            raise ClientError(f"client {client!r} is attached to broker {node.id}, not {broker}")
        return node

    def _home(self, client: ClientId) -> Node:
        try:
            return self._homes[checks.text("client", client)]
        except KeyError:
            raise ClientError(f"client {client!r} is not attached to a broker") from None

    def _enter(self, node: Node, client: ClientId, message: ClientMessage | AdmissionRequest) -> None:
        arrives = self.now + self.links.client_seconds
        heappush(self._heap, (arrives, next(self._order), node, Received(client, message)))
