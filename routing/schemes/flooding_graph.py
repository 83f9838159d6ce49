"""Flooding of a graph with cycles: every event goes over every link, and each broker drops further copies.

Rules
-----
* Subscriptions stay at the subscriber's broker, as under flooding of a tree. They are confirmed as soon as this broker
  takes part in a view.
* The links are those of a random graph (`routing.topologies.random_graph`), drawn anew with each view.
* The publisher's broker numbers what it sends. A broker passes on what it gets for the first time over all links but
  the one of arrival, and drops what is not above the last number of that origin. So each broker takes in an event
  once, and with ``E`` links an event costs ``2 E - (N - 1)`` messages: the origin sends over its links, every other
  broker over all of its links but one.
* The events of an origin arrive in order, whichever way is the fastest for each. Links keep the order, and each
  broker passes on in the order in which it takes in. Let ``e`` be sent before ``f``, and a broker take in ``f`` from a
  neighbour: that neighbour has either sent it ``e`` before, or has got ``e`` from this broker.
* All copies of an event are the same: whoever drops a further copy drops nothing that the first one lacked. Admission
  control reduces a message on its way, under the same number, to what its table says is wanted elsewhere. So every
  broker must have all filters in that table before it reduces anything: reduced copies then contain all that anybody
  wants, and differ only in what nobody does.
* A broadcast behind the events of its origin (`to_all`) follows the shortest paths in the graph from there. By the
  same argument each broker has the events before it has the broadcast.
* Nobody is asked along a cycle: admission control uses one spanning tree of the graph, and charges each link and each
  broker with all copies that may come (`Ways.copies`).

Source: paper 2, sections 2.3 and 3, where it is what a hypercube avoids; docs/decisions/0165-flooding-of-a-graph.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from ...protocol.configs import Placed, Position, Ways
from ...protocol.effects import Confirm, Deliver, Effect, Plain, Received, Send
from ...protocol.ids import BrokerId, ClientId, Link
from ...protocol.messages.pubsub import Answers, Events, Register
from ...protocol.messages.views import MembershipView, ViewWants
from ..filters.filter import Filter
from ..topologies.random_graph import RandomGraph, drawn_order, graph_of
from .claims import Claims
from .mesh import single_brokers
from .viewed import ViewedRouter


class GraphFlooding(ViewedRouter):
    """A broker of a graph with cycles on which events go everywhere.

    Parameters
    ----------
    position
        As returned by `positions`; without a view when the broker must join first.

    Attributes
    ----------
    graph
        The graph of the current view; None before the first.
    """

    claims = Claims(announces_first=False, rings=True, copies=True)

    def __init__(self, position: Position) -> None:
        self.graph: RandomGraph | None = None
        self._sent = 0
        self._had: dict[BrokerId, int] = {}  # the last number of each origin
        self._unconfirmed: dict[tuple[Link, int], None] = {}
        super().__init__(position)

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the same brokers in a random graph; another tree of the topology gives another graph."""
        tree = [(position.broker, position.parent) for position in positions]
        order = drawn_order([broker for broker, _ in tree], tree)
        return single_brokers(positions, order, lambda view, me: graph_of(view).beside(me))

    @staticmethod
    def joined(
        view: MembershipView,
    ) -> tuple[dict[BrokerId, set[BrokerId]], Callable[[BrokerId, BrokerId], list[BrokerId]]]:
        """Return the links that admission control asks along, and a function that returns a path over them."""
        graph = graph_of(view)
        above = {each: broker for broker, below in graph.tree(graph.root).items() for each in below}

        def to_root(broker: BrokerId) -> list[BrokerId]:
            path = [broker]
            while path[-1] in above:
                path.append(above[path[-1]])
            return path

        def way(source: BrokerId, to: BrokerId) -> list[BrokerId]:
            up, down = to_root(source), to_root(to)
            while len(up) > 1 and len(down) > 1 and up[-2] == down[-2]:
                del up[-1], down[-1]
            return up + down[-2::-1]

        return graph.tree_links(graph.root), way

    @staticmethod
    def beside(position: Position) -> Collection[BrokerId]:
        """Return the neighbours of a broker in its view."""
        return position.children if position.view is None else graph_of(position.view).beside(position.broker)

    # For comparison with other brokers.

    def streams(self) -> Mapping[BrokerId, Hashable]:
        """Return, per other broker, the view and the last numbers of the lower and of the higher broker."""
        if self.view is None:
            return {}
        last = {**self._had, self.me: self._sent}
        return {
            other: (self.view.version, *(last.get(each, 0) for each in sorted((self.me, other))))
            for other in self.view.born
            if other != self.me
        }

    # Views.

    def enter(self, view: MembershipView) -> None:
        """Make another view the current one, with its graph; numbers begin anew."""
        super().enter(view)
        self.graph = graph_of(view)
        self._sent = 0
        self._had.clear()

    def install(self, view: MembershipView, resend_to: Iterable[BrokerId] = ()) -> list[Effect]:
        """Switch to a view that includes this broker; return the messages to send under it."""
        return [*super().install(view, resend_to), *self._confirmed()]

    def adopt(self, source: BrokerId, wants: ViewWants) -> list[Effect]:
        """Note that another broker of the view has told that it wants nothing."""
        return [*super().adopt(source, wants), *self._confirmed()]

    def onwards(self, source: BrokerId | None) -> list[BrokerId]:
        """Return all others for a change of its own; none otherwise, since each broker tells all others itself."""
        return [] if source is not None or self.view is None else sorted(self.view.born.keys() - {self.me})

    def neighbours(self) -> list[BrokerId]:
        """Return the brokers that it is linked to."""
        return [] if self.graph is None else list(self.graph.beside(self.me))

    def behind(self, origin: BrokerId) -> Sequence[BrokerId]:
        """Return the brokers behind this one on the shortest paths from `origin`."""
        return (
            () if self.graph is None or origin not in self.graph.links else self.graph.tree(origin)[self.me]
        )

    def placed(self) -> Placed:
        """Return the links that admission control asks along, and those over which copies come and go."""
        if self.graph is None:
            return Placed(())
        asked = tuple(sorted(self.graph.tree_links(self.graph.root)[self.me]))
        onward = ((None, asked), *((each, tuple(to for to in asked if to != each)) for each in asked))
        return Placed(asked, ways=Ways(onward, floods=True, copies=self.graph.beside(self.me)))

    # Events.

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        if isinstance(source, str) or source == self.me:
            self._sent += 1
            message = replace(message, entry=self.me, number=self._sent)
        elif message.entry is None or self.graph is None or message.entry not in self.graph.links:
            return self._stray()
        elif message.entry == self.me or message.number <= self._had.get(message.entry, 0):
            return []
        else:
            self._had[message.entry] = message.number
        effects: list[Effect] = [Send(other, message) for other in self.neighbours() if other != source]
        routes = self.table.route(message.batch)
        if routes.clients:
            effects.append(Deliver(message.batch, routes.clients, routes.starts, routes.rows))
        return effects

    # Subscriptions, of which no other broker is told.

    def _on_register(self, source: Link, message: Register) -> list[Effect]:
        return super()._on_register(source, replace(message, local_first=False))

    def _hold(self, item: Filter, link: Link, holder: Link, waiter: tuple[Link, int]) -> list[Effect]:
        self.table.add(item, link, holder)
        self._unconfirmed[link, waiter[1]] = None
        return self._confirmed()

    def _forget(self, waiter: tuple[Link, int], item: Filter) -> None:
        self._unconfirmed.pop(waiter, None)

    def _confirmed(self) -> list[Effect]:
        """Return the confirmations that are due: all of them, where this broker takes part in the view."""
        if self.view is None or self.missing:
            return []
        waiting, self._unconfirmed = self._unconfirmed, {}
        return [Confirm(client, number) for client, number in waiting if isinstance(client, str)]

    def _release(self, item: Filter, link: Link, holder: Link) -> list[Effect]:
        if self.table.remove(item, link, holder):
            self.table.drop(item)
        return []

    def answers_of(self, client: ClientId) -> dict[int, Answers]:
        """Return nothing: a subscription is answered by events alone."""
        return {}

    def announced(self) -> dict[tuple[Link, BrokerId], tuple[Filter, ...]]:
        """Return nothing: no broker is told of filters."""
        return {}

    def _to_announce(self) -> list[Filter]:
        return []

    def kept(self) -> Iterable[Filter]:
        """Return nothing: no filter is withheld from brokers that would normally be told."""
        return ()

    # Snapshots.

    def changed_by(self, event: Received) -> bool:
        """Return True: events are numbered, so they change the state."""
        return True

    def snapshot(self) -> dict[str, Plain]:
        """Return the whole state of the router, for `restore`."""
        numbers = {"sent": self._sent, "had": dict(self._had), "unconfirmed": list(self._unconfirmed)}
        return {**super().snapshot(), **numbers}

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the state from a snapshot of this broker's router; only before anything was handled."""
        super().restore(plain)
        self._sent = plain["sent"]
        self._had = dict(plain["had"])
        self._unconfirmed = dict.fromkeys(plain["unconfirmed"])
