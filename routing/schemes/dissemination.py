"""Events with fixed destinations, relayed by the plan of their origin (paper 5, section 3).

Rules
-----
* The set of an event's destinations travels with the event, so all relaying brokers use the same plan (`lbdd_plan`),
  even if subscriptions change in the meantime. Each destination receives exactly one copy.
* Everything that goes to one neighbour at one time is one message.
* The origin numbers the events for each broker from 1 without gaps; receivers detect missing events by these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from ...protocol.batch import EventBatch, Rows, concat
from ...protocol.configs import Placed
from ...protocol.effects import Effect, Plain, Send
from ...protocol.ids import BrokerId
from ...protocol.messages.pubsub import Directed, Events, part_of
from ..topologies.lbdd_plan import Plan, may_relay, plan

Targets: TypeAlias = tuple[BrokerId, ...]


@lru_cache(maxsize=4096)
def plan_of(origin: BrokerId, targets: Targets) -> Plan[BrokerId]:
    """Return the plan for one set of brokers; cached, because the same sets recur."""
    return plan(origin, targets)


@dataclass(frozen=True, slots=True)
class Destined:
    """One event of a batch, its destinations, and its number at each of them."""

    batch: EventBatch
    row: int
    targets: Targets
    numbers: tuple[int, ...]


class Numbering:
    """The number of events that an origin has sent to each broker."""

    def __init__(self) -> None:
        self._last: dict[BrokerId, int] = {}

    def loads(self, batch: EventBatch, wanted: Iterable[tuple[BrokerId, Rows | None]]) -> list[Destined]:
        """Return the wanted events of a batch, with their numbers.

        Parameters
        ----------
        batch
            The events.
        wanted
            The rows that each broker wants; None for all.
        """
        targets: list[list[BrokerId]] = [[] for _ in range(len(batch))]
        for broker, rows in wanted:
            for row in range(len(batch)) if rows is None else rows.tolist():
                targets[row].append(broker)
        return [
            Destined(batch, row, tuple(sorted(mine)), self.next_of(sorted(mine)))
            for row, mine in enumerate(targets)
            if mine
        ]

    def next_of(self, targets: Iterable[BrokerId]) -> tuple[int, ...]:
        """Return the next number of each of these brokers."""
        out = []
        for target in targets:
            self._last[target] = self._last.get(target, 0) + 1
            out.append(self._last[target])
        return tuple(out)

    def last(self, target: BrokerId) -> int:
        """Return the last number of a broker, 0 for none."""
        return self._last.get(target, 0)

    def forget(self, broker: BrokerId) -> None:
        """Forget a broker that is gone."""
        self._last.pop(broker, None)

    def snapshot(self) -> Plain:
        """Return the last number of each broker, for `restore`."""
        return list(self._last.items())

    def restore(self, plain: Plain) -> None:
        """Restore the numbering from a snapshot."""
        self._last = dict(plain)


def loads_of(message: Directed) -> list[Destined]:
    """Return the events of a message, each with its destinations and numbers."""
    batch = message.batch
    return [
        Destined(batch, row, targets, numbers)
        for row, (targets, numbers) in enumerate(zip(message.targets, message.numbers, strict=True))
    ]


def passed_on(
    here: BrokerId, origin: BrokerId, loads: Iterable[Destined], like: Events | None = None
) -> list[Effect]:
    """Return the messages to the children of `here` in the plan of each load: one per neighbour.

    Parameters
    ----------
    here, origin
        The relaying broker, and the broker at which the events were published.
    loads
        The events.
    like
        The message that brought the events, whose marks they keep; None for events of this broker.
    """
    out: dict[BrokerId, list[Destined]] = {}
    for load in loads:
        for child in plan_of(origin, load.targets).children[here]:
            out.setdefault(child, []).append(load)
    effects: list[Effect] = []
    for child, group in out.items():
        batch = gathered([(load.batch, load.row) for load in group])
        events = Events(batch) if like is None else part_of(like, batch, like.entry)
        targets, numbers = zip(*((load.targets, load.numbers) for load in group), strict=True)
        effects.append(Send(child, Directed(events, origin, targets, numbers)))
    return effects


def passing_on(placed: Placed, here: BrokerId) -> Placed:
    """Return a place on a mesh with the relays of a broker that helps to distribute events that it wants itself."""
    relays = tuple(may_relay(here, placed.neighbours).items())
    return placed._replace(ways=placed.ways._replace(relays=relays))


def gathered(rows: Sequence[tuple[EventBatch, int]]) -> EventBatch:
    """Return a batch of these rows in this order; adjacent rows of one batch are taken together."""
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
