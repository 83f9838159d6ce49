"""Where durable subscribers are: the rendezvous point knows, so that each is held by one broker.

Rule: brokers say whom they hold, and in which life of its own; whoever holds one that has since come back elsewhere is
told to let it go.

Source: docs/decisions/0015-exactly-once.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...protocol.effects import Send
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.recovery import Holds, LetGo


class Whereabouts:
    """In which life each durable subscriber was seen last, and where."""

    def __init__(self) -> None:
        self._known: dict[ClientId, tuple[int, BrokerId]] = {}

    def held(self, source: BrokerId, message: Holds) -> list[Send]:
        """Take in whom a broker holds; return who is to let go whom."""
        gone: dict[BrokerId, list[tuple[ClientId, int]]] = {}
        for client, life in message.clients:
            known = self._known.get(client, (0, source))
            if life > known[0]:
                self._known[client] = (life, source)
                if known[1] != source:
                    gone.setdefault(known[1], []).append((client, life))
            elif life < known[0]:
                gone.setdefault(source, []).append((client, known[0]))
        return [Send(broker, LetGo(tuple(clients))) for broker, clients in gone.items()]

    def state(self) -> dict[ClientId, list[int]]:
        """Return what must outlive the rendezvous point, as plain data (JSON has all of it)."""
        return {client: list(place) for client, place in self._known.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take what `state` gave.

        Raises
        ------
        TypeError, ValueError
            If it is not what `state` gives.
        """
        self._known = {str(client): (int(life), int(broker)) for client, (life, broker) in state.items()}
