"""LBDD in a network that heals: the plan of each event is made of who is in the present view (paper 5, section 3.4).

Rules, beside those of a mesh in views
--------------------------------------
* The broker of a publisher settles who wants an event, and it goes to them by the plan of LBDD, one copy each. All of
  them are in its view, and only brokers that have this view pass it on. So who has failed, left or come is out of all
  paths, or in them, as soon as the next view is there (algorithm 3), and no two work by different sets.
* Under each view the numbers that put events into their order begin anew: what was on its way through a broker that is
  gone is sent again by its origin, under the next view, with all else that it keeps (`faults.replay.replay`).
* A receiver that would have to hold back too many gives up no gap: it takes no more of them, and when the gap has
  closed it wants all sent again.
"""

from __future__ import annotations

from typing import Any

from ...protocol.configs import Placed, Position
from ...protocol.effects import Deliver, Effect, Plain, Received, Send
from ...protocol.ids import BrokerId, Link
from ...protocol.messages.pubsub import Directed, Events
from ...protocol.messages.views import CubeView, ToAll
from .dissemination import Numbering, Targets, gathered, loads_of, passed_on, passing_on, plan_of
from .hold_back import HELD_MAX, HoldBack
from .mesh_views import MeshInViews


class LbddInViews(MeshInViews):
    """A broker of a mesh that heals, and sends on what it gets.

    Parameters
    ----------
    position
        As `positions` gives it; without a view when the broker has to join first.
    held_max
        How many events of one origin may wait for their turn: more than an origin sends again at once.
    """

    def __init__(self, position: Position, held_max: int = HELD_MAX) -> None:
        self.lacking = False
        self._held_max = held_max
        self._overfull: set[BrokerId] = set()
        self._numbers = Numbering()
        self._incoming: dict[BrokerId, HoldBack[tuple[Directed | ToAll, int]]] = {}
        super().__init__(position)
        self._handlers[Directed] = self._on_directed

    def enter(self, view: CubeView) -> None:
        """Take another view for the present one: other plans, and numbers from 1."""
        super().enter(view)
        self._numbers = Numbering()
        self._incoming.clear()
        self._overfull.clear()
        self.lacking = False

    def to_all(self, message: Any) -> list[Effect]:
        """Return what tells every other broker of the view something; it has a number among the events to each."""
        assert self.view is not None
        numbers = zip(self._others, self._numbers.next_of(self._others), strict=True)
        return [Send(other, ToAll(self.view.version, self.me, message, number)) for other, number in numbers]

    def placed(self) -> Placed:
        """Return where it stands, and what it may have to pass on."""
        return passing_on(super().placed(), self.me)

    # Events.

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        if source != self.me and not isinstance(source, str):
            return self._stray()
        loads = self._numbers.loads(message.batch, self.others.route(message.batch).links)
        return [*passed_on(self.me, self.me, loads, message), *self.deliver(message.batch)]

    def _on_directed(self, source: Link, message: Directed) -> list[Any]:
        return [*passed_on(self.me, message.origin, loads_of(message), message), *self._taken_in(message)]

    def _on_to_all(self, source: Link, told: ToAll) -> list[Any]:
        return [*self.pass_to_all(told), *self._taken_in(told)]

    def _taken_in(self, message: Directed | ToAll) -> list[Any]:
        """Return what is to be done about what has come, and about all that has waited for it."""
        effects: list[Any] = []
        for each in self.in_order(message):
            if isinstance(each, ToAll):
                effects.append(each)
            else:
                routes = self.table.route(each.batch)
                if routes.clients:
                    notes = routes.clients, routes.starts, routes.rows
                    effects.append(Deliver(each.batch, *notes, brought_by=each))
        return effects

    def in_order(self, message: Directed | ToAll) -> list[Events | ToAll]:
        """Take events in, and return those whose turn has come, in order; each part is of one message."""
        order = self._incoming.setdefault(message.origin, HoldBack(self._held_max))
        due: list[tuple[Directed | ToAll, int]] = []
        for number, row in self._numbered(message):
            if order.full and not order.is_due(number):
                self._overfull.add(message.origin)
                continue
            due += order.take(number, (message, row))
        self.lacking = self.lacking or (bool(due) and message.origin in self._overfull)
        parts: list[tuple[Directed | ToAll, list[int]]] = []
        for source, row in due:
            if not parts or parts[-1][0] is not source:
                parts.append((source, []))
            parts[-1][1].append(row)
        return [source if isinstance(source, ToAll) else _part(source, rows) for source, rows in parts]

    def _numbered(self, message: Directed | ToAll) -> list[tuple[int, int]]:
        """Return the number that each row has here."""
        if isinstance(message, ToAll):
            return [(message.number, 0)]
        return [(load.numbers[load.targets.index(self.me)], load.row) for load in loads_of(message)]

    # Payloads that travel beside the events (see `actors.clients.bulk`).

    def copies(self, origin: BrokerId, targets: Targets) -> dict[BrokerId, Targets]:
        """Return to whom each of these sends a copy, by the plan."""
        return plan_of(origin, targets).children

    def changed_by(self, event: Received) -> bool:
        """Return True: events take numbers, and wait for their turn."""
        return True

    def snapshot(self) -> dict[str, Plain]:
        """Return all that this router keeps; `restore` takes it."""
        return {
            **super().snapshot(),
            "lacking": self.lacking,
            "overfull": sorted(self._overfull),
            "numbers": self._numbers.snapshot(),
            "incoming": {origin: order.snapshot() for origin, order in self._incoming.items()},
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Be as the router of this broker was whose snapshot that is; only for one that has not handled anything."""
        super().restore(plain)
        self.lacking = plain["lacking"]
        self._overfull.update(plain["overfull"])
        self._numbers.restore(plain["numbers"])
        for origin, order in plain["incoming"].items():
            self._incoming[origin] = HoldBack(self._held_max)
            self._incoming[origin].restore(order)

    def describe(self) -> dict[str, int]:
        """Return the sizes of what this broker keeps."""
        return {**super().describe(), "held_back": sum(map(len, self._incoming.values()))}


def _part(message: Directed, rows: list[int]) -> Events:
    batch = gathered([(message.batch, row) for row in rows])
    return Events(batch, message.round, message.again, age_seconds=message.age_seconds, entry=message.origin)
