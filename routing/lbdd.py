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
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from ..protocol.batch import EventBatch, concat
from ..protocol.configs import Position
from ..protocol.effects import Deliver, Effect, Send
from ..protocol.ids import BrokerId, Link
from ..protocol.messages import Directed, Events
from .hold_back import HoldBack
from .lbdd_plan import Plan, plan
from .mesh import MeshRouter

KEPT_MAX: Final = 4096
"""Loads that an origin keeps, to send them again when a broker is gone."""

Targets = tuple[BrokerId, ...]


@lru_cache(maxsize=4096)
def plan_of(origin: BrokerId, targets: Targets) -> Plan[BrokerId]:
    """Return the plan for one set of brokers; the same set comes again and again."""
    return plan(origin, targets)


@dataclass(frozen=True, slots=True)
class _Row:
    """One event of a batch, the brokers that it is for, and its number at each."""

    batch: EventBatch
    row: int
    targets: Targets
    numbers: tuple[int, ...]


class Lbdd(MeshRouter):
    """A broker of a mesh that sends on what it gets, by a plan that it works out for itself."""

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self._numbers: dict[BrokerId, int] = {}
        self._kept: deque[_Row] = deque(maxlen=KEPT_MAX)
        self._incoming: dict[BrokerId, HoldBack[tuple[EventBatch, int]]] = {}
        self._handlers[Directed] = self._on_directed

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        if not isinstance(source, str):
            return self._stray()
        batch = message.batch
        routes = self.table.route(batch)
        targets: list[list[BrokerId]] = [[] for _ in range(len(batch))]
        for link, rows in routes.links:
            for row in range(len(batch)) if rows is None else rows.tolist():
                targets[row].append(link)
        loads = [
            _Row(batch, row, tuple(sorted(wanted)), self._number(sorted(wanted)))
            for row, wanted in enumerate(targets)
            if wanted
        ]
        self._kept.extend(loads)
        effects = self._pass_on(self.position.broker, loads)
        if routes.clients:
            effects.append(Deliver(batch, routes.clients, routes.starts, routes.rows))
        return effects

    def _number(self, targets: Iterable[BrokerId]) -> tuple[int, ...]:
        out = []
        for target in targets:
            self._numbers[target] = self._numbers.get(target, 0) + 1
            out.append(self._numbers[target])
        return tuple(out)

    def _on_directed(self, source: Link, message: Directed) -> list[Effect]:
        batch, me = message.batch, self.position.broker
        loads = [
            _Row(batch, row, targets, numbers)
            for row, (targets, numbers) in enumerate(zip(message.targets, message.numbers, strict=True))
        ]
        effects = self._pass_on(message.origin, loads)
        order = self._incoming.setdefault(message.origin, HoldBack())
        due: list[tuple[EventBatch, int]] = []
        for load in loads:
            number = load.numbers[load.targets.index(me)]
            due += order.take(number, (batch, load.row))
        return effects + self._deliver(due)

    def _pass_on(self, origin: BrokerId, loads: Iterable[_Row]) -> list[Effect]:
        """Return what goes to this broker's children in the plan of each load: one message for each neighbour."""
        out: dict[BrokerId, list[_Row]] = {}
        for load in loads:
            for child in plan_of(origin, load.targets).children[self.position.broker]:
                out.setdefault(child, []).append(load)
        return [
            Send(
                child,
                Directed(
                    _gather([(load.batch, load.row) for load in group]),
                    origin,
                    tuple(load.targets for load in group),
                    tuple(load.numbers for load in group),
                ),
            )
            for child, group in out.items()
        ]

    def _deliver(self, due: list[tuple[EventBatch, int]]) -> list[Effect]:
        return self.deliver(_gather(due)) if due else []

    def copies(self, origin: BrokerId, targets: Targets) -> dict[BrokerId, Targets]:
        """Return to whom each of these sends a copy, by the plan."""
        return plan_of(origin, targets).children

    def forget(self, broker: BrokerId) -> list[Effect]:
        """Take a broker that is gone out of all paths, and serve those who stood behind it."""
        effects = super().forget(broker)
        self._numbers.pop(broker, None)
        again = []
        for load in list(self._kept):
            if broker in load.targets:
                behind = plan_of(self.position.broker, load.targets).below(broker)
                if behind:
                    number_of = dict(zip(load.targets, load.numbers, strict=True))
                    targets = tuple(sorted(behind))
                    again.append(
                        _Row(load.batch, load.row, targets, tuple(number_of[each] for each in targets))
                    )
        self._kept.extend(again)  # another broker may be gone by the time that they arrive
        effects += self._pass_on(self.position.broker, again)
        order = self._incoming.get(broker)
        return effects if order is None else effects + self._deliver(order.give_up())

    def describe(self) -> dict[str, int]:
        """Return the sizes of what this broker keeps."""
        waiting = [*self._incoming.values()]
        return {
            **super().describe(),
            "held_back": sum(map(len, waiting)),
            "lost_events": sum(each.lost for each in waiting),
        }


def _gather(rows: list[tuple[EventBatch, int]]) -> EventBatch:
    """Return a batch of these rows in this order, neighbours of one batch taken together."""
    parts: list[tuple[EventBatch, list[int]]] = []
    for batch, row in rows:
        if not parts or parts[-1][0] is not batch:
            parts.append((batch, []))
        parts[-1][1].append(row)
    taken = [
        batch if chosen == list(range(len(batch))) else batch.take(np.array(chosen, np.intp))
        for batch, chosen in parts
    ]
    return taken[0] if len(taken) == 1 else concat(taken)
