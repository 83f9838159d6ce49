"""Routing on a tree of brokers, as the hierarchical networks of JEDI and Siena do it (paper 1, section 1).

Rules
-----
* An event goes to every neighbour that wants it, and to the parent always, but never back over the link it came by.
* A subscription goes to the parent unless one that went before covers it; so the root knows of all, and an event that
  climbs to the root meets every subscription on its way or turns down to it.
* So an event crosses a link of the tree at most once, and reaches every subscriber exactly once (promises 1, 2, 4).

:class:`TreeRouter` is the whole of hierarchical routing; hybrid routing changes what "to the parent" and "back"
mean inside a cluster, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

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
from ..filters.filter import Filter
from ..interest.announcer import Announcer, AnnouncerSteps
from ..interest.merging import MergingAnnouncer
from ..matching.covering_dag import CoveringDag
from ..matching.table import RoutingTable


class TreeRouter:
    """One broker of a tree: its routing table, its covering DAG, and what it told its parent.

    Parameters
    ----------
    position
        The broker's place; every cluster has one member.

    Attributes
    ----------
    floods
        Whether an event goes over every link, be it wanted there or not.
    """

    floods: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    """Whether filters that one can stand for exactly are told as that one."""
    relays: ClassVar[bool] = True
    """Whether a broker tells others what is wanted at others still, and not only by its own clients."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self.table = RoutingTable()
        self.dag = CoveringDag(self.table.index)
        announcer = MergingAnnouncer if self.merges else Announcer
        self.announcer = announcer(self.dag, top=position.role == "REB")
        self.strays = 0
        self._subscriptions: dict[ClientId, dict[int, Filter]] = {}
        self._handlers: dict[type, Callable[[Link, Any], list[Effect]]] = {
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

    @property
    def takes(self) -> frozenset[type]:
        """The types of the messages that it takes in."""
        return frozenset(self._handlers)

    def handle(self, event: Received) -> list[Effect]:
        """Take in one message and return what is to be done about it."""
        return self._handlers[type(event.message)](event.source, event.message)

    def placed(self) -> Placed:
        """Return where it stands."""
        return self.position.placed(self.position.members, floods=self.floods)

    # The three points in which the schemes on a tree differ.

    def link_of(self, source: Link) -> Link:
        """Return the link under which what comes from `source` stands in the table."""
        return source

    def to_parent(self, message: BrokerMessage) -> Effect | None:
        """Return the effect that takes a message one step towards the root; None at the root."""
        return None if self.position.parent is None else Send(self.position.parent, message)

    def climbs_from(self, source: Link) -> bool:
        """Return whether an event from `source` still has to go towards the root."""
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
        if self.climbs_from(source):
            climb = self.to_parent(message)
            if climb is not None:
                effects.append(climb)
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
        """Do nothing: a tree that has lost a broker is mended by machines of its own, or not at all."""
        return []

    # To look at.

    def held(self) -> Iterator[tuple[Filter, Link, Hashable]]:
        """Iterate over (filter, link, holder): what is wanted over its links, and who behind each wants it."""
        for entry in self.table:
            for link, holders in entry.links.items():
                for holder in holders:
                    yield entry.filter, link, holder

    def kept(self) -> Iterable[Filter]:
        """Return what clients want and nobody else is told of, although others are told of such things."""
        return ()

    def told(self) -> dict[tuple[Link, BrokerId], tuple[Filter, ...]]:
        """Return what other brokers were told that is wanted here, by the link that leads there, and the broker."""
        parent = self.position.parent
        return {} if parent is None else {(parent, parent): tuple(self.announcer.announced())}

    # Publishers.

    def _on_advertise(self, source: Link, message: Advertise) -> list[Effect]:
        """Say that it is known wherever it has to be: events climb to the root, whoever publishes what."""
        return [Inform(source, Everywhere(message.number))] if isinstance(source, str) else self._stray()

    def _on_unadvertise(self, source: Link, message: Unadvertise) -> list[Effect]:
        return []

    # The one way in and the one way out of the table.

    def _hold(self, item: Any, link: Link, holder: Link, waiter: tuple[Link, int]) -> list[Effect]:
        effects: list[Effect] = []
        if self.table.add(item, link, holder):
            effects += self._carry_out(self.announcer.hold(item, self.table.slot(item)))
        return effects + self._carry_out(self.announcer.wait(waiter, item))

    def _release(self, item: Any, link: Link, holder: Link) -> list[Effect]:
        if not self.table.remove(item, link, holder):
            return []
        effects = self._carry_out(self.announcer.release(item))
        self.table.drop(item)
        return effects

    def _forget(self, waiter: tuple[Link, int], item: Any) -> None:
        self.announcer.forget(waiter, item)

    def _carry_out(self, steps: AnnouncerSteps) -> list[Effect]:
        effects: list[Effect] = []
        for message in steps.up:
            climb = self.to_parent(message)
            if climb is not None:
                effects.append(climb)
        for source, number in steps.ready:
            if isinstance(source, str):
                effects.append(Confirm(source, number))
            else:
                effects.append(Send(source, Installed(number)))
        return effects

    def _stray(self) -> list[Effect]:
        """Count a message that makes no sense from where it came, and do nothing."""
        self.strays += 1
        return []

    def changed_by(self, event: Received) -> bool:
        """Return whether a message can change what this router keeps."""
        return not isinstance(event.message, Events)

    def snapshot(self) -> dict[str, Plain]:
        """Return all that this router keeps; `restore` takes it."""
        return {
            "table": self.table.snapshot(),
            "dag": self.dag.snapshot(),
            "announcer": self.announcer.snapshot(),
            "subscriptions": {client: dict(mine) for client, mine in self._subscriptions.items()},
            "strays": self.strays,
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Be as the router at this position was whose snapshot that is; only for one that has not handled anything."""
        self.table.restore(plain["table"])
        self.dag.restore(plain["dag"], self.table.slot)
        self.announcer.restore(plain["announcer"])
        self._subscriptions = {client: dict(mine) for client, mine in plain["subscriptions"].items()}
        self.strays = plain["strays"]

    def describe(self) -> dict[str, int]:
        """Return the sizes of what this broker keeps."""
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
        told = self._to_be_told()
        assert len(told) == len(self.dag) and all(item in self.dag for item in told)

    def _to_be_told(self) -> list[Filter]:
        """Return the filters in the table that others have to know of."""
        return [entry.filter for entry in self.table]
