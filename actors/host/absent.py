"""Subscribers whose process is away, or does not keep up: what a host leaves out, and hands on later.

Rules
-----
* A durable subscriber has a session of its own. What is for it while its process is away is left out: the broker keeps
  it, and says it again when the process is back.
* A delivery may have waited for a commit, and its subscriber have left meanwhile: that is left out, and its next broker
  has it.
* When the session is full, what comes is left out too, and all after it, so that the order stays. When the process has
  caught up, the broker is asked for what was left out. So a slow durable subscriber slows nobody down and loses nothing
  but what goes past the bounds of what its broker keeps.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

import numpy as np

from ...protocol.batch import batch_of
from ...protocol.effects import Deliver
from ...protocol.ids import ClientId
from ...protocol.messages.pubsub import Lost
from .sessions import Parcel, Session


class Absent:
    """Who of one broker's durable subscribers is behind, and from which sequence of each publisher on."""

    def __init__(self) -> None:
        self._behind: dict[ClientId, dict[str, int]] = {}

    def here(self, client: ClientId) -> None:
        """Note that a subscriber comes anew: it is told all again."""
        self._behind.pop(client, None)

    def reachable(
        self, deliver: Deliver, owners: Mapping[ClientId, Session], durable: Container[ClientId]
    ) -> Deliver | None:
        """Return the delivery without who has left, is away, or is behind; None when nobody is left."""
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
        if len(picked) == len(deliver.clients):
            return deliver
        if not picked:
            return None
        pieces = [deliver.rows[deliver.starts[place] : deliver.starts[place + 1]] for place in picked]
        clients = tuple(deliver.clients[place] for place in picked)
        return Deliver(deliver.batch, clients, np.cumsum([0, *map(len, pieces)]), np.concatenate(pieces))

    def catching_up(
        self, session: Session, owners: Mapping[ClientId, Session]
    ) -> Iterator[tuple[ClientId, Mapping[str, int]]]:
        """Iterate over those of a session that may be told what was left out, and from which sequences on."""
        for client in [client for client in self._behind if owners.get(client) is session]:
            if not len(session):
                yield client, self._behind.pop(client)


def loss_parcel(session: Session, client: ClientId, losses: tuple[Lost, ...]) -> Parcel:
    """Return a parcel that tells a subscriber what it may have lost, and holds no events."""
    none = np.zeros(0, np.intp)
    return Parcel(session.take_number(), batch_of(()), (client,), np.array([0, 0]), none, losses=losses)
