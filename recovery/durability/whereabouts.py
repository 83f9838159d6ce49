"""Where durable subscribers and histories are: the rendezvous point tracks both.

Rules
-----
* Brokers report which subscribers they hold, and in which incarnation of each. A broker that holds a subscriber
  which has since returned at another broker is told to release it: one broker holds each subscriber.
* A broker with a history reports that when it starts, and when it leaves the network. Whoever reports is told who else
  has one, dead or alive.

Source: docs/decisions/0015-exactly-once.md and 0181-replay.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...protocol.effects import Send
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.history import Keepers, Keeps
from ...protocol.messages.recovery import Holds, LetGo


class Whereabouts:
    """The last broker and incarnation of each durable subscriber, and the brokers with a history."""

    def __init__(self) -> None:
        self._known: dict[ClientId, tuple[int, BrokerId]] = {}
        self._keepers: dict[BrokerId, None] = {}

    def heard(self, source: BrokerId, message: Holds | Keeps) -> list[Send]:
        """Record what a broker reports; return the answers."""
        return self.held(source, message) if isinstance(message, Holds) else self.kept(source, message)

    def kept(self, source: BrokerId, message: Keeps) -> list[Send]:
        """Record that a broker has a history, or leaves with it; return who has one."""
        if message.leaves:
            self._keepers.pop(source, None)
            return []
        self._keepers[source] = None
        return [Send(source, Keepers(tuple(sorted(self._keepers))))]

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

    def histories(self) -> dict[str, list[BrokerId]]:
        """Return the brokers with a history, which must outlive the rendezvous point, too; nothing if none has one."""
        return {"histories": list(self._keepers)} if self._keepers else {}

    def restore(self, state: Mapping[str, Any], histories: Iterable[Any] = ()) -> None:
        """Restore what `state` and `histories` returned.

        Raises
        ------
        TypeError, ValueError
            If the data was not returned by `state`.
        """
        self._keepers = {int(broker): None for broker in histories}
        self._known = {
            str(client): (int(incarnation), int(broker)) for client, (incarnation, broker) in state.items()
        }
