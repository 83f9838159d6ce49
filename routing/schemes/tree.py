"""Routing on a tree of brokers, as in the hierarchical networks of JEDI and Siena (paper 1, section 1).

Rules
-----
* An event goes to every neighbour that wants it, and always to the parent, but never back over the link on which it
  arrived.
* A subscription goes to the parent unless an earlier one covers it. So the root knows of all subscriptions, and an
  event on its way to the root passes every broker at which it must turn down to a subscriber.
* So an event crosses a link of the tree at most once, and reaches every subscriber exactly once (promises 1, 2, 4).

:class:`TreeRouter` is the complete hierarchical routing. Hybrid routing only changes what "to the parent" and "back"
mean inside a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Never

from ...protocol.configs import Placed, Position
from ...protocol.effects import Confirm, Deliver, Effect, Inform, Multicast, Plain, Received, Send
from ...protocol.ids import GROUP, BrokerId, ClientId, Link
from ...protocol.messages.admission import Advertise, Everywhere, Unadvertise
from ...protocol.messages.pubsub import (
    Announce,
    BrokerMessage,
    Cancel,
    Detach,
    Events,
    Gone,
    Installed,
    Register,
    Withdraw,
)
from ...protocol.messages.recovery import Recovery
from ..filters.filter import Filter
from ..interest.announcer import Announcer, AnnouncerSteps
from ..interest.forwarding import ForwardingAnnouncer
from ..interest.merging import MergingAnnouncer
from ..matching.covering_dag import CoveringDag
from ..matching.table import RoutingTable
from .claims import Claims, Membership
from .router import LayerOf, Router


class TreeRouter:
    """One broker of a tree: its routing table, its covering DAG, and its announcements to the parent.

    Parameters
    ----------
    position
        The broker's place; every cluster has one member.

    Attributes
    ----------
    floods
        Whether an event goes over every link, whether or not it is wanted there.
    """

    claims: ClassVar[Claims] = Claims()
    membership: ClassVar[Membership] = Membership.FIXED
    options: ClassVar[Mapping[str, type[Router]]] = {}
    layers: ClassVar[tuple[LayerOf, ...]] = ()
    floods: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    """Whether filters are announced as one merged filter where that filter is exactly their union."""
    forwards_all: ClassVar[bool] = False
    """Whether every subscription goes up to the root, also one that another covers or equals."""
    relays: ClassVar[bool] = True
    """Whether a broker announces the filters of other brokers too, and not only those of its own clients."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self.table = RoutingTable()
        self.dag = CoveringDag(self.table.index)
        self.announcer = self._announcer_type()(self.dag, top=position.role == "REB")
        self.strays = 0
        self._subscriptions: dict[ClientId, dict[int, Filter]] = {}
        self._handlers: dict[type, Callable[[Link, Never], list[Effect]]] = {
            Events: self._on_events,
            Announce: self._on_announce,
            Withdraw: self._on_withdraw,
            Installed: self._on_installed,
            Register: self._on_register,
            Cancel: self._on_cancel,
            Detach: self._on_detach,
            Advertise: self._on_advertise,
            Unadvertise: self._on_unadvertise,
            Gone: self._on_gone,
        }

    @classmethod
    def _announcer_type(cls) -> type[Announcer]:
        return MergingAnnouncer if cls.merges else ForwardingAnnouncer if cls.forwards_all else Announcer

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places unchanged."""
        return list(positions)

    @classmethod
    def healing(cls, position: Position, recovery: Recovery) -> Router:
        """Return the router of a place in a network that heals: one of the same class."""
        return cls(position)

    @staticmethod
    def beside(position: Position) -> Collection[BrokerId] | None:
        """Return None: of two brokers that are linked, one is above the other."""
        return None

    @property
    def takes(self) -> frozenset[type]:
        """The types of the messages that the router handles."""
        return frozenset(self._handlers)

    def handle(self, event: Received) -> list[Effect]:
        """Handle one message and return the resulting effects."""
        return self._handlers[type(event.message)](event.source, event.message)  # type: ignore[arg-type]

    def placed(self) -> Placed:
        """Return the place of the broker."""
        return self.position.placed(self.position.members, floods=self.floods)

    # The three points in which schemes on a tree differ.

    def link_of(self, source: Link) -> Link:
        """Return the link under which the table stores what comes from `source`."""
        return source

    def to_parent(self, message: BrokerMessage) -> Effect | None:
        """Return the effect that takes a message one step towards the root; None at the root."""
        return None if self.position.parent is None else Send(self.position.parent, message)

    def goes_up_from(self, source: Link) -> bool:
        """Return whether an event from `source` must still go towards the root."""
        return source != self.position.parent

    # Events.

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        batch = message.batch
        routes = self.table.route(batch)
        back = self.link_of(source)
        effects: list[Effect] = []
        for link, rows in routes.links:
            if link != back:
                part = message if rows is None else replace(message, batch=batch.take(rows))
                effects.append(Multicast(part) if link == GROUP else Send(link, part))
        if routes.clients:
            effects.append(Deliver(batch, routes.clients, routes.starts, routes.rows))
        if self.goes_up_from(source):
            upward = self.to_parent(message)
            if upward is not None:
                effects.append(upward)
        return effects

    # Subscriptions of neighbours.

    def _on_announce(self, source: Link, message: Announce) -> list[Effect]:
        if not self._is_below(source):
            return self._stray()
        return self._hold(message.filter, self.link_of(source), source, (source, message.token))

    def _on_withdraw(self, source: Link, message: Withdraw) -> list[Effect]:
        if not self._is_below(source):
            return self._stray()
        return self._release(message.filter, self.link_of(source), source)

    def _on_installed(self, source: Link, message: Installed) -> list[Effect]:
        return self._carry_out(self.announcer.installed(message.token))

    def _is_below(self, source: Link) -> bool:
        """Return whether subscriptions may come from this neighbour."""
        return source in self.position.children

    # Subscriptions of clients.

    def _on_register(self, source: Link, message: Register) -> list[Effect]:
        if not isinstance(source, str):
            return self._stray()
        mine = self._subscriptions.setdefault(source, {})
        effects: list[Effect] = []
        before = mine.get(message.subscription)
        if before is not None and before != message.filter:
            effects += self._on_cancel(source, Cancel(message.subscription))
            mine = self._subscriptions.setdefault(source, {})
        mine[message.subscription] = message.filter
        waiter = (source, message.subscription)
        return effects + self._hold(message.filter, source, message.subscription, waiter)

    def _on_cancel(self, source: Link, message: Cancel) -> list[Effect]:
        if not isinstance(source, str) or message.subscription not in self._subscriptions.get(source, ()):
            return self._stray()
        mine = self._subscriptions[source]
        item = mine.pop(message.subscription)
        if not mine:
            del self._subscriptions[source]
        self._forget((source, message.subscription), item)
        return self._release(item, source, message.subscription)

    def _on_detach(self, source: Link, message: Detach) -> list[Effect]:
        effects: list[Effect] = []
        mine = self._subscriptions.get(source, {}) if isinstance(source, str) else {}
        for subscription in list(mine):
            effects += self._on_cancel(source, Cancel(subscription))
        return effects

    def _on_gone(self, source: Link, message: Gone) -> list[Effect]:
        """Do nothing: other machines repair a tree that has lost a broker, or nothing does."""
        return []

    # Introspection.

    def held(self) -> Iterator[tuple[Filter, Link, Hashable]]:
        """Iterate over (filter, link, holder): the filters that are wanted over each link, and their holders."""
        for entry in self.table:
            for link, holders in entry.links.items():
                for holder in holders:
                    yield entry.filter, link, holder

    def kept(self) -> Iterable[Filter]:
        """Return the filters of clients that are withheld from other brokers, which normally receive such filters."""
        return ()

    def announced(self) -> dict[tuple[Link, BrokerId], tuple[Filter, ...]]:
        """Return the filters that were announced to other brokers, by (link that leads there, broker)."""
        parent = self.position.parent
        return {} if parent is None else {(parent, parent): tuple(self.announcer.announced())}

    # Publishers.

    def _on_advertise(self, source: Link, message: Advertise) -> list[Effect]:
        """Report the advertisement as known everywhere: all events go to the root, so no broker needs it."""
        return [Inform(source, Everywhere(message.number))] if isinstance(source, str) else self._stray()

    def _on_unadvertise(self, source: Link, message: Unadvertise) -> list[Effect]:
        return []

    # All additions to and removals from the table go through these methods.

    def _hold(self, item: Filter, link: Link, holder: Link, waiter: tuple[Link, int]) -> list[Effect]:
        effects: list[Effect] = []
        if self.table.add(item, link, holder):
            effects += self._carry_out(self.announcer.hold(item, self.table.slot(item)))
        elif isinstance(self.announcer, ForwardingAnnouncer):
            effects += self._carry_out(self.announcer.reannounce(item))
        return effects + self._carry_out(self.announcer.wait(waiter, item))

    def _release(self, item: Filter, link: Link, holder: Link) -> list[Effect]:
        if not self.table.remove(item, link, holder):
            return []
        effects = self._carry_out(self.announcer.release(item))
        self.table.drop(item)
        return effects

    def _forget(self, waiter: tuple[Link, int], item: Filter) -> None:
        self.announcer.forget(waiter, item)

    def _carry_out(self, steps: AnnouncerSteps) -> list[Effect]:
        effects: list[Effect] = []
        for message in steps.up:
            upward = self.to_parent(message)
            if upward is not None:
                effects.append(upward)
        for source, number in steps.ready:
            if isinstance(source, str):
                effects.append(Confirm(source, number))
            else:
                effects.append(Send(source, Installed(number)))
        return effects

    def _stray(self) -> list[Effect]:
        """Count a message that makes no sense from its source, and do nothing."""
        self.strays += 1
        return []

    def changed_by(self, event: Received) -> bool:
        """Return whether a message can change the router's state."""
        return not isinstance(event.message, Events)

    def snapshot(self) -> dict[str, Plain]:
        """Return the whole state of the router, for `restore`."""
        return {
            "table": self.table.snapshot(),
            "dag": self.dag.snapshot(),
            "announcer": self.announcer.snapshot(),
            "subscriptions": {client: dict(mine) for client, mine in self._subscriptions.items()},
            "strays": self.strays,
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the state from a snapshot of the router at this position; only before anything was handled."""
        self.table.restore(plain["table"])
        self.dag.restore(plain["dag"], self.table.slot)
        self.announcer.restore(plain["announcer"])
        self._subscriptions = {client: dict(mine) for client, mine in plain["subscriptions"].items()}
        self.strays = plain["strays"]

    def describe(self) -> dict[str, int]:
        """Return the sizes of the router's tables and queues."""
        return {
            "filters": len(self.table),
            "announced": len(list(self.announcer.announced())),
            "subscriptions": sum(map(len, self._subscriptions.values())),
            "strays": self.strays,
        }

    def check(self) -> None:
        """Assert that table, DAG and announcements agree; for tests."""
        self.table.check()
        self.dag.check()
        self.announcer.check()
        told = self._to_announce()
        assert len(told) == len(self.dag) and all(item in self.dag for item in told)

    def _to_announce(self) -> list[Filter]:
        """Return the filters in the table that others must know of."""
        return [entry.filter for entry in self.table]
