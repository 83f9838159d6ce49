"""Traces of routers: the operations of table 1 of paper 4 with their routers, so that definition 9 judges routers too.

Rules
-----
* In a tree, a router subscribes to its upstream router: ``Adv(Ri, Rj)`` and ``UnAdv(Ri, Rj)`` are the notices that it
  sends there, and an event that comes down from there is its notification. So the conditions of subscribers are those
  of routers: an event that matched no active notice of Ri when it was published never comes down to Ri.
* A subscription is recorded where its router takes it in, and a notification where its router sends it:
  ``Register(C, R)``, ``Cancel(C, R)``, and the notices ``Adv(C, R)`` and ``UnAdv(C, R)``.
* Whoever subscribes is a client of the trace, with the name of `at_router`. Publications and quiet moments are those
  of the clients' trace.
* Notices and withdrawals of routers are recorded as they are sent, events as they arrive. A message that is sent again
  after a crash is recorded again, so `once` holds only where none was.
* What goes over a multicast group is not judged: it reaches whoever is in the group.
* `complete` is not for routers: an event that came from below does not come down again.

Source: paper 4, section 2 (table 1, definitions 2 and 9) and section 3 (upstream and downstream routers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...protocol.effects import Deliver, Effect, Received, Send
from ...protocol.ids import BrokerId, Link
from ...protocol.messages.pubsub import Announce, Cancel, Events, Numbered, Register, Withdraw
from ...protocol.traces.trace import Published, Settled, Trace
from ...routing.filters.filter import Filter


def at_router(subscriber: Link, router: BrokerId) -> str:
    """Return the name under which a trace has a client, or a router, as a subscriber of a router."""
    who = subscriber if isinstance(subscriber, str) else f"router {subscriber}"
    return f"{who} at router {router}"


class RouterTrace:
    """Writes the trace of the routers of a tree, step by step.

    Parameters
    ----------
    clients
        The trace of the clients, which grows meanwhile.
    upstream
        The upstream router of each router that has one; it stays the same.

    Attributes
    ----------
    trace
        The operations so far.
    """

    def __init__(self, clients: Trace, upstream: Mapping[BrokerId, BrokerId]) -> None:
        self.trace = Trace()
        self._clients, self._seen = clients, 0
        self._upstream = upstream
        self._numbers: dict[tuple[str, Filter], int] = {}

    def step(self, now: float, router: BrokerId, event: object, effects: Iterable[Effect]) -> None:
        """Record what a router takes in from clients and its upstream router, and what it sends them."""
        self.follow()
        above = self._upstream.get(router)
        if isinstance(event, Received):
            self._take_in(now, router, above, event.source, _payload(event.message))
        for effect in effects:
            if isinstance(effect, Deliver):
                self._deliver(now, router, effect)
            elif isinstance(effect, Send) and effect.to == above:
                self._send(now, at_router(router, above), _payload(effect.message))

    def follow(self) -> None:
        """Take over what the clients have published, and where the network was quiescent, since the last call."""
        new = self._clients.operations[self._seen :]
        self._seen += len(new)
        self.trace.operations += [each for each in new if isinstance(each, Published | Settled)]

    def _take_in(
        self, now: float, router: BrokerId, above: BrokerId | None, source: Link, message: object
    ) -> None:
        if isinstance(message, Events) and source == above:
            for row in range(len(message.batch)):
                self.trace.notified(now, at_router(router, above), *message.batch.identity(row))
        elif isinstance(message, Register):
            name = at_router(source, router)
            self.trace.subscribed(now, name, message.subscription, str(message.filter))
        elif isinstance(message, Cancel):
            self.trace.cancelled(now, at_router(source, router), message.subscription)

    def _deliver(self, now: float, router: BrokerId, effect: Deliver) -> None:
        starts, rows = effect.starts.tolist(), effect.rows.tolist()
        for place, client in enumerate(effect.clients):
            for row in rows[starts[place] : starts[place + 1]]:
                self.trace.notified(now, at_router(client, router), *effect.batch.identity(row))

    def _send(self, now: float, name: str, message: object) -> None:
        if isinstance(message, Announce | Withdraw):
            item = message.filter
            number = self._numbers.setdefault((name, item), len(self._numbers) + 1)
            if isinstance(message, Announce):
                self.trace.subscribed(now, name, number, str(item))
            else:
                self.trace.cancelled(now, name, number)


def _payload(message: object) -> object:
    """Return what a message carries, if it is a numbered one."""
    return message.message if isinstance(message, Numbered) else message
