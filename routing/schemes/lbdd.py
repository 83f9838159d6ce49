"""LBDD: the brokers that want an event take part in distributing it (paper 5).

Rules, beside those of the mesh
-------------------------------
* The publisher's broker (the *origin*) settles who wants an event; this set goes with it, so that all who pass it on
  work by one plan (`lbdd_plan`), however subscriptions change meanwhile. Exactly one copy goes to each.
* Events for different sets take different ways, and one may overtake another. So the origin numbers what it directs
  to each broker, and receivers hold back what comes before its turn (promise 3). The paper has one topic, so one way.
* When a broker is gone, the origin sends what it still keeps again, to those who stood behind that broker in the plan;
  who has it already drops it (section 3.4: a failed node is removed from all paths).

The paper's agents share the subscriptions to topics; here the filter of a subscription is what is shared.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ...protocol.batch import EventBatch
from ...protocol.configs import Placed, Position
from ...protocol.effects import Deliver, Effect, Plain, Received
from ...protocol.ids import BrokerId, Link
from ...protocol.messages.pubsub import Directed, Events
from .dissemination import Destined, Numbering, Targets, gathered, loads_of, passed_on, passing_on, plan_of
from .hold_back import HoldBack
from .mesh import MeshRouter

KEPT_MAX: Final = 4096
"""Loads that an origin keeps, to send them again when a broker is gone."""


class Lbdd(MeshRouter):
    """A broker of a mesh that sends on what it gets, by a plan that it works out for itself."""

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self._numbers = Numbering()
        self._kept: deque[Destined] = deque(maxlen=KEPT_MAX)
        self._incoming: dict[BrokerId, HoldBack[tuple[EventBatch, int]]] = {}
        self._handlers[Directed] = self._on_directed

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        if not isinstance(source, str):
            return self._stray()
        routes = self.table.route(message.batch)
        loads = self._numbers.loads(message.batch, routes.links)
        self._kept.extend(loads)
        effects = passed_on(self.position.broker, self.position.broker, loads)
        if routes.clients:
            effects.append(Deliver(message.batch, routes.clients, routes.starts, routes.rows))
        return effects

    def _on_directed(self, source: Link, message: Directed) -> list[Effect]:
        me, loads = self.position.broker, loads_of(message)
        effects = passed_on(me, message.origin, loads)
        order = self._incoming.setdefault(message.origin, HoldBack())
        due: list[tuple[EventBatch, int]] = []
        for load in loads:
            number = load.numbers[load.targets.index(me)]
            due += order.take(number, (load.batch, load.row))
        return effects + self._deliver(due)

    def _deliver(self, due: list[tuple[EventBatch, int]]) -> list[Effect]:
        return self.deliver(gathered(due)) if due else []

    def placed(self) -> Placed:
        """Return where it stands, and what it may have to pass on."""
        return passing_on(super().placed(), self.position.broker)

    def copies(self, origin: BrokerId, targets: Targets) -> dict[BrokerId, Targets]:
        """Return to whom each of these sends a copy, by the plan."""
        return plan_of(origin, targets).children

    def forget(self, broker: BrokerId) -> list[Effect]:
        """Take a broker that is gone out of all paths, and serve those who stood behind it."""
        effects = super().forget(broker)
        self._numbers.forget(broker)
        again = []
        for load in list(self._kept):
            if broker in load.targets:
                behind = plan_of(self.position.broker, load.targets).below(broker)
                if behind:
                    number_of = dict(zip(load.targets, load.numbers, strict=True))
                    targets = tuple(sorted(behind))
                    again.append(
                        Destined(load.batch, load.row, targets, tuple(number_of[each] for each in targets))
                    )
        self._kept.extend(again)  # another broker may be gone by the time that they arrive
        effects += passed_on(self.position.broker, self.position.broker, again)
        order = self._incoming.get(broker)
        return effects if order is None else effects + self._deliver(order.give_up())

    def changed_by(self, event: Received) -> bool:
        """Return True: events take numbers, and wait for their turn."""
        return True

    def snapshot(self) -> dict[str, Plain]:
        """Return all that this router keeps; `restore` takes it."""
        return {
            **super().snapshot(),
            "numbers": self._numbers.snapshot(),
            "kept": [(load.batch, load.row, load.targets, load.numbers) for load in self._kept],
            "incoming": {origin: order.snapshot() for origin, order in self._incoming.items()},
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Be as the router at this position was whose snapshot that is; only for one that has not handled anything."""
        super().restore(plain)
        self._numbers.restore(plain["numbers"])
        self._kept.extend(Destined(*load) for load in plain["kept"])
        for origin, order in plain["incoming"].items():
            self._incoming[origin] = HoldBack()
            self._incoming[origin].restore(order)

    def describe(self) -> dict[str, int]:
        """Return the sizes of what this broker keeps."""
        waiting = [*self._incoming.values()]
        return {
            **super().describe(),
            "held_back": sum(map(len, waiting)),
            "lost_events": sum(each.lost for each in waiting),
        }
