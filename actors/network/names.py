"""The rendezvous point's records of clients whose name outlives their process.

Rules
-----
* Everything is in the store before it is answered. Every call may be repeated, and gives the same answer.
* A durable subscriber that calls has attached before: if it is unknown, the call is rejected and nothing is
  written.
* A durable subscriber has a life, which grows with every process that attaches and every broker to which it moves.
  A call of an earlier process is rejected; a call during a process's own move is not.
* A publisher reserves its numbers in blocks, so that one whose broker is gone can continue above all that it has
  used.
"""

from __future__ import annotations

import time
from typing import Any, Final

from ...protocol.errors import ClientError
from ...protocol.ids import BrokerId, ClientId
from .store import RendezvousStore

BLOCK: Final = 1_000_000

SUBSCRIBER: Final = "subscriber:"
PUBLISHER: Final = "publisher:"
SEQUENCE: Final = "sequence:"
"""What names of values begin with: the record of a durable subscriber, and of a publisher that comes back; in the copy
also the last number of any publisher that has left."""


def seen_later(record: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the record of a subscriber as if all in it had been so much later."""
    since = record["since"]
    return record | {"seen": record["seen"] + seconds, "since": None if since is None else since + seconds}


class LastingNames:
    """The records of durable subscribers and returning publishers.

    Parameters
    ----------
    store
        Where they are kept.
    """

    def __init__(self, store: RendezvousStore) -> None:
        self._store = store

    # Subscribers.

    def subscriber(self, name: ClientId) -> dict[str, Any]:
        """Return the record of a subscriber; a new one if there is none."""
        fresh = {
            "life": 0, "came": 0, "position": {}, "subscriptions": {}, "since": None, "broker": None, "ticket": "",
            "seen": time.time(),
        }  # fmt: skip
        return self._store.get(f"{SUBSCRIBER}{name}") or fresh

    def _put(self, name: ClientId, record: dict[str, Any]) -> None:
        self._store.put(f"{SUBSCRIBER}{name}", record | {"seen": time.time()})

    def come(self, name: ClientId, broker: BrokerId, ticket: str) -> dict[str, Any]:
        """Start a new life at a broker and return the record; a repeated call, by its ticket, starts only one."""
        record = self.subscriber(name)
        if record["ticket"] != ticket:
            life = record["life"] + 1
            news = {"life": life, "came": life, "broker": broker, "ticket": ticket}
            self._store.put(
                f"{SUBSCRIBER}{name}", record | news
            )  # the time of the last contact is for this life
            record |= news
        return record

    def _own(self, name: ClientId, life: int) -> dict[str, Any]:
        record: dict[str, Any] | None = self._store.get(f"{SUBSCRIBER}{name}")
        if record is None:
            raise ClientError(f"there is no durable subscriber {name!r} any more: its network has ended")
        if life < record["came"]:
            raise ClientError(
                f"durable subscriber {name!r} has come back in another process: this one is to close it"
            )
        return record

    def renew(self, name: ClientId, life: int, broker: BrokerId) -> int:
        """Start the next life of a process that moves to another broker, and return its number."""
        record = self.subscriber(name)
        if record["life"] == life + 1 and record["broker"] == broker:
            return life + 1
        record = self._own(name, life)
        self._put(name, record | {"life": life + 1, "broker": broker})
        return life + 1

    def acknowledge(self, name: ClientId, life: int, position: dict[ClientId, int]) -> None:
        """Store a position."""
        self._put(name, self._own(name, life) | {"position": position})

    def subscriptions(self, name: ClientId, life: int, machine: dict[str, Any]) -> None:
        """Store subscriptions."""
        news = {key: value for key, value in machine.items() if key not in ("life", "position")}
        self._put(name, self._own(name, life) | news)

    def end(self, name: ClientId, life: int) -> None:
        """Delete a subscriber, except its life: brokers that still hold it have an earlier one."""
        record = self._own(name, life)
        self._put(name, record | {"position": {}, "subscriptions": {}, "since": None, "broker": None})

    # Publishers.

    def publisher(self, name: ClientId) -> tuple[list[BrokerId], int]:
        """Return the brokers that may have accepted a publisher's last events, and its highest number."""
        record: tuple[list[BrokerId], int] = self._store.get(f"{PUBLISHER}{name}") or ([], 0)
        return record

    def home(self, name: ClientId, broker: BrokerId, sole: bool) -> None:
        """Store the broker to which a publisher moves; once that has everything retained, it is the only one."""
        homes, reserved = self.publisher(name)
        homes = [broker] if sole else [*(other for other in homes if other != broker), broker]
        self._store.put(f"{PUBLISHER}{name}", (homes, reserved))

    def reserve(self, name: ClientId, number: int) -> int:
        """Reserve numbers for a publisher up to at least `number`, and return the last reserved one."""
        homes, reserved = self.publisher(name)
        if number > reserved:
            reserved = number + BLOCK
            self._store.put(f"{PUBLISHER}{name}", (homes, reserved))
        return reserved
