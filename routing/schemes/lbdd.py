"""LBDD: the brokers that want an event take part in distributing it (paper 5).

Rules, beside those of the mesh
-------------------------------
* The publisher's broker (the *origin*) determines the set of brokers that want an event. The set travels with the
  event, so that all relaying brokers use the same plan (`lbdd_plan`), even if subscriptions change in the meantime.
  Each broker of the set receives exactly one copy.
* Events for different sets take different routes, and one may overtake another. So the origin numbers the events for
  each broker, and receivers hold back early ones (promise 3). The paper has one topic, and therefore one route.
* In a network that heals, all brokers of a set are in the origin's view, and only brokers with this view relay.
  So with the next view, brokers that failed or left are removed from all paths, and new ones are added (algorithm
  3). Numbers restart under each view: the origin retransmits events that were in flight through a broker that is
  gone, together with all other events that it retains (`recovery.replay.replay`). A receiver that would have to
  hold back too many events does not give up the gap: it discards further events, and when the gap has closed it
  asks for retransmission.
* In a network that does not heal, the origin retains its most recent events. When a broker is gone, the origin
  resends them to the brokers that were behind it in the plan; these drop duplicates (section 3.4: a failed node
  is removed from all paths). A receiver that would have to hold back too many events gives up the gap, and counts
  the lost events.

The paper's agents share the subscriptions to topics; here, brokers share the filters of subscriptions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any, Final

from ...protocol.configs import Placed, Position
from ...protocol.effects import Deliver, Effect, Plain, Received, Send
from ...protocol.ids import BrokerId, Link
from ...protocol.messages.pubsub import Directed, Events, part_of
from ...protocol.messages.recovery import Recovery
from ...protocol.messages.rounds import Forgotten, Marker
from ...protocol.messages.views import MembershipView, ToAll
from .claims import Claims
from .dissemination import Destined, Numbering, Targets, gathered, loads_of, passed_on, passing_on, plan_of
from .hold_back import HELD_MAX, HoldBack
from .mesh import MeshRouter
from .router import Router

KEPT_MAX: Final = 4096
"""The events that an origin retains where the network does not heal, to resend them when a broker is gone."""


class Lbdd(MeshRouter):
    """A broker of a mesh that relays events by a plan that it computes itself.

    Parameters
    ----------
    position
        As returned by `positions`; without a view when the broker must join first.
    held_max
        How many events of one origin may be held back; in a network that heals, this must exceed what an origin
        retransmits at once.
    heals
        Whether views define the membership.
    """

    claims = Claims(wanted_only=True, survives_deaths=True, rings=True)

    def __init__(self, position: Position, held_max: int = HELD_MAX, *, heals: bool = False) -> None:
        self.lacking = False
        self._held_max = held_max
        self._heals = heals
        self._kept: deque[Destined] = deque(maxlen=0 if heals else KEPT_MAX)
        self._overfull: set[BrokerId] = set()
        self._numbers = Numbering()
        self._incoming: dict[BrokerId, HoldBack[tuple[Directed | ToAll, int]]] = {}
        super().__init__(position)
        self._handlers[Directed] = self._on_directed

    @classmethod
    def healing(cls, position: Position, recovery: Recovery) -> Router:
        """Return a router that holds back as much as an origin retransmits at once, and asks for what it lacks."""
        return cls(position, HELD_MAX + recovery.retention_events_max, heals=True)

    def enter(self, view: MembershipView) -> None:
        """Make another view the current one, with other plans and numbers from 1."""
        super().enter(view)
        self._numbers = Numbering()
        self._incoming.clear()
        self._overfull.clear()
        self.lacking = False

    def to_all(self, message: Forgotten | Marker) -> list[Effect]:
        """Return the effects that broadcast a message to the view; it is numbered among the events to each broker."""
        assert self.view is not None
        numbers = zip(self._others, self._numbers.next_of(self._others), strict=True)
        return [Send(other, ToAll(self.view.version, self.me, message, number)) for other, number in numbers]

    def placed(self) -> Placed:
        """Return the place, and the brokers to which this one may have to relay."""
        return passing_on(super().placed(), self.me)

    # Events.

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        if source != self.me and not isinstance(source, str):
            return self._stray()
        loads = self._numbers.loads(message.batch, self.others.route(message.batch).links)
        self._kept.extend(loads)
        return [*passed_on(self.me, self.me, loads, message), *self.deliver(message.batch)]

    def _on_directed(self, source: Link, message: Directed) -> list[Any]:
        return [
            *passed_on(self.me, message.origin, loads_of(message), message.events),
            *self._taken_in(message),
        ]

    def _on_to_all(self, source: Link, told: ToAll) -> list[Any]:
        return [*self.pass_to_all(told), *self._taken_in(told)]

    def _taken_in(self, message: Directed | ToAll) -> list[object]:
        """Return the effects for a received message, and for the messages that waited for it."""
        return self._notify(self.in_order(message))

    def _notify(self, parts: list[Events | ToAll]) -> list[Any]:
        effects: list[Any] = []
        for each in parts:
            if isinstance(each, ToAll):
                effects.append(each)
            else:
                routes = self.table.route(each.batch)
                if routes.clients:
                    notes = routes.clients, routes.starts, routes.rows
                    effects.append(Deliver(each.batch, *notes, brought_by=each))
        return effects

    def in_order(self, message: Directed | ToAll) -> list[Events | ToAll]:
        """Accept events, and return those that are due, in order; each part comes from one message."""
        order = self._incoming.setdefault(message.origin, HoldBack(self._held_max))
        due: list[tuple[Directed | ToAll, int]] = []
        for number, row in self._numbered(message):
            if self._heals and order.full and not order.is_due(number):
                self._overfull.add(message.origin)
                continue
            due += order.take(number, (message, row))
        self.lacking = self.lacking or (bool(due) and message.origin in self._overfull)
        return _parts(due)

    def _numbered(self, message: Directed | ToAll) -> list[tuple[int, int]]:
        """Return the number of each row at this broker, as (number, row)."""
        if isinstance(message, ToAll):
            return [(message.number, 0)]
        return [(load.numbers[load.targets.index(self.me)], load.row) for load in loads_of(message)]

    def streams(self) -> Mapping[BrokerId, Hashable]:
        """Return, per other broker, the view and the event counts sent by the lower and by the higher broker."""
        counts = {}
        for other in self._others:
            order = self._incoming.get(other)
            sent, taken = self._numbers.last(other), 0 if order is None else order.last
            there, here = (sent, taken) if self.me < other else (taken, sent)
            counts[other] = None if self.view is None else self.view.version, there, here
        return counts

    def forget(self, broker: BrokerId) -> list[Effect]:
        """Remove a broker that is gone from all paths, and serve the brokers that were behind it."""
        effects = super().forget(broker)
        self._numbers.forget(broker)
        others = []
        for load in self._kept:
            if broker in load.targets and (behind := plan_of(self.me, load.targets).below(broker)):
                number_of = dict(zip(load.targets, load.numbers, strict=True))
                targets = tuple(sorted(behind))
                numbers = tuple(number_of[each] for each in targets)
                others.append(Destined(load.batch, load.row, targets, numbers))
        self._kept.extend(others)  # another broker may fail before they arrive
        effects += passed_on(self.me, self.me, others)
        order = self._incoming.get(broker)
        return effects if order is None else [*effects, *self._notify(_parts(order.give_up()))]

    # Payloads that travel separately from the events (see `actors.clients.bulk`).

    def copies(self, origin: BrokerId, targets: Targets) -> dict[BrokerId, Targets]:
        """Return the brokers to which each of these sends a copy, by the plan."""
        return plan_of(origin, targets).children

    def changed_by(self, event: Received) -> bool:
        """Return True: events are numbered and may be held back, so they change the state."""
        return True

    def snapshot(self) -> dict[str, Plain]:
        """Return the whole state of the router, for `restore`."""
        return {
            **super().snapshot(),
            "lacking": self.lacking,
            "overfull": sorted(self._overfull),
            "numbers": self._numbers.snapshot(),
            "kept": [(load.batch, load.row, load.targets, load.numbers) for load in self._kept],
            "incoming": {origin: order.snapshot() for origin, order in self._incoming.items()},
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the state from a snapshot of this broker's router; only before anything was handled."""
        super().restore(plain)
        self.lacking = plain["lacking"]
        self._overfull.update(plain["overfull"])
        self._numbers.restore(plain["numbers"])
        self._kept.extend(Destined(*load) for load in plain["kept"])
        for origin, order in plain["incoming"].items():
            self._incoming[origin] = HoldBack(self._held_max)
            self._incoming[origin].restore(order)

    def describe(self) -> dict[str, int]:
        """Return the sizes of the router's tables and queues."""
        waiting = self._incoming.values()
        sizes = {"held_back": sum(map(len, waiting)), "lost_events": sum(each.lost for each in waiting)}
        return {**super().describe(), **sizes}


def _parts(due: list[tuple[Directed | ToAll, int]]) -> list[Events | ToAll]:
    """Return the due messages; each part comes from one message."""
    parts: list[tuple[Directed | ToAll, list[int]]] = []
    for source, row in due:
        if not parts or parts[-1][0] is not source:
            parts.append((source, []))
        parts[-1][1].append(row)
    return [source if isinstance(source, ToAll) else _part(source, rows) for source, rows in parts]


def _part(message: Directed, rows: list[int]) -> Events:
    whole = message.batch
    return part_of(message.events, gathered([(whole, row) for row in rows]), message.origin)
