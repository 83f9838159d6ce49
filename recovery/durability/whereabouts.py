"""The locations of durable subscribers: the rendezvous point tracks them, so that one broker holds each subscriber.

Rule: brokers report which subscribers they hold, and in which incarnation of each. A broker that holds a subscriber
which has since returned at another broker is told to release it.

Source: docs/decisions/0015-exactly-once.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...protocol.effects import Send
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.recovery import Holds, LetGo


class Whereabouts:
    """The broker at which each durable subscriber was last seen, and in which incarnation."""

    def __init__(self) -> None:
        self._known: dict[ClientId, tuple[int, BrokerId]] = {}

    def held(self, source: BrokerId, message: Holds) -> list[Send]:
        """Record the subscribers that a broker holds; return the requests to release subscribers."""
        gone: dict[BrokerId, list[tuple[ClientId, int]]] = {}
        for client, incarnation in message.clients:
            known = self._known.get(client, (0, source))
            if incarnation > known[0]:
                self._known[client] = (incarnation, source)
                if known[1] != source:
                    gone.setdefault(known[1], []).append((client, incarnation))
            elif incarnation < known[0]:
                gone.setdefault(source, []).append((client, known[0]))
        return [Send(broker, LetGo(tuple(clients))) for broker, clients in gone.items()]

    def state(self) -> dict[ClientId, list[int]]:
        """Return the data that must outlive the rendezvous point, as plain data that JSON can represent."""
        return {client: list(place) for client, place in self._known.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned.

        Raises
        ------
        TypeError, ValueError
            If the data was not returned by `state`.
        """
        self._known = {
            str(client): (int(incarnation), int(broker)) for client, (incarnation, broker) in state.items()
        }
