"""Notifications, confirmations and judgements for clients, retained until the clients have acknowledged them.

Rules
-----
* Each delivery, confirmation or judgement has a number, which rises over the whole broker. A client
  acknowledges the last one that it has, which covers all before it. The number also lets a client recognize a
  duplicate.
* Nothing is delivered to a subscriber that has not sent `Back` in this incarnation of the broker: what it lacks
  comes first.
* Per subscriber at most `notifications_max` are retained; a judgement counts as one. The oldest are shed, and
  counted under the subscriber's name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ...protocol.effects import Confirm, Deliver, Inform, Key, Write
from ...protocol.ids import ClientId

Kept: TypeAlias = Deliver | Confirm | Inform

TABLE = "unacknowledged"
SHED = "shed"


class Unacknowledged:
    """The numbered deliveries and confirmations of one broker.

    Parameters
    ----------
    notifications_max
        The maximum number of retained notifications per subscriber.

    Attributes
    ----------
    shed
        How many notifications each subscriber has lost to the limit.
    """

    def __init__(self, notifications_max: int) -> None:
        self.shed: dict[ClientId, int] = {}
        self._max = notifications_max
        self._last = 0
        self._kept: dict[int, Kept] = {}
        self._holders: dict[int, int] = {}  # how many clients have not acknowledged each
        self._waiting: dict[ClientId, deque[tuple[int, int]]] = {}  # (number, notifications)
        self._sizes: dict[ClientId, int] = {}
        self._here: set[ClientId] = set()

    def __len__(self) -> int:
        """Return the number of unacknowledged notifications."""
        return sum(self._sizes.values())

    def restore(self, last: int, kept: Iterable[tuple[Key, Any]], shed: Iterable[tuple[Key, Any]]) -> None:
        """Restore the state in which these effects were retained."""
        for _, effect in kept:
            self._keep(effect)
        self._last = last
        self.shed = {str(key[0]): count for key, count in shed}

    def put(self, effect: Kept) -> tuple[list[Write], list[Kept]]:
        """Retain an effect under a new number; return what to make stable, and what to send now."""
        number = self._last = self._last + 1
        if isinstance(effect, Deliver):
            effect = _compact(effect, number)
        else:
            effect = replace(effect, number=number)
        self._keep(effect)
        writes = [Write(TABLE, (number,), effect), Write("sent", ("clients",), number)]
        for client in _clients(effect):
            writes += self._shed_oldest(client)
        return writes, [here for client in self._absent(effect) for here in _only(effect, client)]

    def _absent(self, effect: Kept) -> list[set[ClientId]]:
        """Return the connected clients of an effect, as a list of one set; an empty list if there are none."""
        here = self._here.intersection(_clients(effect))
        return [here] if here else []

    def _keep(self, effect: Kept) -> None:
        clients = _clients(effect)
        self._kept[effect.number] = effect
        self._holders[effect.number] = len(clients)
        for place, client in enumerate(clients):
            size = int(isinstance(effect, Inform))
            if isinstance(effect, Deliver):
                size = int(effect.starts[place + 1] - effect.starts[place])
            self._waiting.setdefault(client, deque()).append((effect.number, size))
            self._sizes[client] = self._sizes.get(client, 0) + size

    def acknowledged(self, client: ClientId, number: int) -> list[Write]:
        """Release what a subscriber has acknowledged; return the deletions from the store."""
        writes: list[Write] = []
        waiting = self._waiting.get(client)
        while waiting and waiting[0][0] <= number:
            writes += self._drop_first(client)
        return writes

    def back(self, client: ClientId, number: int) -> tuple[list[Write], list[Kept]]:
        """Record that a subscriber is connected and has everything up to a number; return what it lacks."""
        writes = self.acknowledged(client, number)
        self._here.add(client)
        lacking = [self._kept[kept] for kept, _ in self._waiting.get(client, ())]
        return writes, [only for effect in lacking for only in _only(effect, {client})]

    def forget(self, client: ClientId) -> list[Write]:
        """Release everything that is retained for a subscriber that has left."""
        self._here.discard(client)
        writes = self.acknowledged(client, self._last)
        if self.shed.pop(client, None) is not None:
            writes.append(Write(SHED, (client,), None))
        return writes

    def _drop_first(self, client: ClientId) -> list[Write]:
        waiting = self._waiting[client]
        number, size = waiting.popleft()
        self._sizes[client] -= size
        if not waiting:
            del self._waiting[client], self._sizes[client]
        self._holders[number] -= 1
        if self._holders[number]:
            return []
        del self._holders[number], self._kept[number]
        return [Write(TABLE, (number,), None)]

    def _shed_oldest(self, client: ClientId) -> list[Write]:
        writes: list[Write] = []
        while self._sizes.get(client, 0) > self._max and len(self._waiting[client]) > 1:
            size = self._waiting[client][0][1]
            self.shed[client] = self.shed.get(client, 0) + size
            writes += [*self._drop_first(client), Write(SHED, (client,), self.shed[client])]
        return writes


def _clients(effect: Kept) -> tuple[ClientId, ...]:
    return effect.clients if isinstance(effect, Deliver) else (effect.client,)


def _compact(effect: Deliver, number: int) -> Deliver:
    """Return the delivery with its number and only the events that some client gets."""
    used = np.unique(effect.rows)
    if len(used) == len(effect.batch):
        return replace(effect, number=number)
    rows = np.searchsorted(used, effect.rows)
    return Deliver(effect.batch.take(used), effect.clients, effect.starts, rows, number)


def _only(effect: Kept, clients: set[ClientId]) -> list[Kept]:
    """Return the part of the effect that is for these clients."""
    if not isinstance(effect, Deliver) or clients.issuperset(effect.clients):
        return [effect]
    picked = [place for place, client in enumerate(effect.clients) if client in clients]
    pieces = [effect.rows[effect.starts[place] : effect.starts[place + 1]] for place in picked]
    starts = np.cumsum([0, *map(len, pieces)])
    names = tuple(effect.clients[place] for place in picked)
    return [Deliver(effect.batch, names, starts, np.concatenate(pieces), effect.number)]
