"""Durable subscribers that are disconnected or slow: what a host withholds, and when it requests redelivery.

Rules
-----
* A durable subscriber has a session of its own. While its process is disconnected, the host withholds its
  notifications. The broker retains them and delivers them again when the process reconnects.
* Who gets a delivery is determined when the broker makes it. It may then wait for a commit, and a subscriber may leave
  or come back meanwhile. The host drops that part of the delivery: the subscriber's next broker delivers it, or this
  one again, with everything else that the subscriber has not had, in order. The same holds for one that is behind:
  what waits for a commit when it has caught up was withheld already, and comes again in order.
* When the session is full, the host withholds new notifications and all later ones, so that order is preserved.
  When the process has caught up, the host asks the broker for what was withheld. A slow durable subscriber
  therefore slows down nobody, and loses only what exceeds the retention limits of its broker.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from ...protocol.batch import batch_of
from ...protocol.effects import Deliver
from ...protocol.ids import ClientId
from ...protocol.messages.pubsub import Lost
from .sessions import DeliveryBatch, ProcessSession

Stay: TypeAlias = tuple[ProcessSession | None, int]
"""The session of a subscriber, and the number of its last coming to the broker; 0 if it has never come again."""

LEFT_MAX: Final = 10_000
"""Of how many subscribers to remember when they left; of others the rendezvous point knows when they acknowledged."""


class Absent:
    """The durable subscribers of one broker that are behind, with the first withheld sequence of each publisher."""

    def __init__(self) -> None:
        self._behind: dict[ClientId, dict[str, int]] = {}
        self._left_at: dict[ClientId, float] = {}
        self._comings = 0
        self._came: dict[ClientId, int] = {}  # the number of the coming of each subscriber that is here again

    def here(self, client: ClientId) -> None:
        """Note that a subscriber has reconnected: the broker delivers everything to it again."""
        self._behind.pop(client, None)
        self._left_at.pop(client, None)
        self._comings += 1
        self._came[client] = self._comings

    def gone(self, client: ClientId) -> None:
        """Note that a subscriber is not attached any more."""
        self._came.pop(client, None)

    def left(self, client: ClientId, now: float) -> None:
        """Note that no process has a subscriber any more, at `now` seconds."""
        self.gone(client)
        self._left_at[client] = now
        if len(self._left_at) > LEFT_MAX:
            del self._left_at[next(iter(self._left_at))]

    def away_seconds(self, client: ClientId, now: float) -> float | None:
        """Return for how long no process has had a subscriber; None if that is not known here."""
        at = self._left_at.get(client)
        return None if at is None else now - at

    def stays(self, deliver: Deliver, owners: Mapping[ClientId, ProcessSession]) -> list[Stay]:
        """Return where each subscriber of a delivery is, and since which coming."""
        return [(owners.get(client), self._came.get(client, 0)) for client in deliver.clients]

    def reachable(
        self, deliver: Deliver, owners: Mapping[ClientId, ProcessSession], durable: Container[ClientId]
    ) -> Deliver | None:
        """Return the delivery without subscribers that have left, are disconnected or behind; None if none remain."""
        picked = []
        for place, client in enumerate(deliver.clients):
            owner = owners.get(client)
            if owner is None:
                continue
            if client not in durable or (client not in self._behind and not owner.full):
                picked.append(place)
                continue
            first = self._behind.setdefault(client, {})
            for row in deliver.rows[deliver.starts[place] : deliver.starts[place + 1]].tolist():
                first.setdefault(*deliver.batch.identity(row))
        return deliver if len(picked) == len(deliver.clients) else _part(deliver, picked)

    def catching_up(
        self, session: ProcessSession, owners: Mapping[ClientId, ProcessSession]
    ) -> Iterator[tuple[ClientId, Mapping[str, int]]]:
        """Yield the subscribers of a drained session that are behind, each with its first withheld sequences."""
        for client in [client for client in self._behind if owners.get(client) is session]:
            if not len(session):
                yield client, self._behind.pop(client)


def still_there(deliver: Deliver, before: Sequence[Stay], now: Sequence[Stay]) -> Deliver | None:
    """Return the delivery for those subscribers that have not left or come again since; None if none remain."""
    return _part(deliver, [place for place, stay in enumerate(before) if now[place] == stay])


def _part(deliver: Deliver, places: list[int]) -> Deliver | None:
    """Return a delivery to the clients at these places only; None if there are none."""
    if len(places) == len(deliver.clients):
        return deliver
    if not places:
        return None
    pieces = [deliver.rows[deliver.starts[place] : deliver.starts[place + 1]] for place in places]
    clients = tuple(deliver.clients[place] for place in places)
    return Deliver(deliver.batch, clients, np.cumsum([0, *map(len, pieces)]), np.concatenate(pieces))


def loss_batch(session: ProcessSession, client: ClientId, losses: tuple[Lost, ...]) -> DeliveryBatch:
    """Return a delivery batch without events that tells a subscriber which events it may have lost."""
    none = np.zeros(0, np.intp)
    return DeliveryBatch(
        session.take_number(), batch_of(()), (client,), np.array([0, 0]), none, losses=losses
    )
