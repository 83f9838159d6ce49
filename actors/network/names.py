"""The rendezvous point's records of clients whose names outlive their processes.

Rules
-----
* Every change is in the store before the call is answered. Every call is idempotent and returns the same answer
  again.
* A durable subscriber must have come before it makes any other call: a call for an unknown subscriber is refused
  and nothing is written.
* A durable subscriber has an incarnation, a number that grows with every process that takes the name and every move to
  another broker. A call of an earlier process is refused. A call that the same process makes while it moves to
  another broker is accepted.
* A publisher reserves its numbers in blocks, so a publisher whose broker is gone can resume above all numbers that
  it has used.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any, Final

from ...clients.beginnings import Beginning
from ...clients.subscriber import Past, SubscriberMachine
from ...protocol.errors import ClientError, NameTaken
from ...protocol.ids import BrokerId, ClientId
from .store import RendezvousStore

BLOCK: Final = 1_000_000

SUBSCRIBER: Final = "subscriber:"
PUBLISHER: Final = "publisher:"
SEQUENCE: Final = "sequence:"
"""Prefixes of the names of values: the record of a durable subscriber, the record of a returning publisher, and, in
the copy only, the last number of any publisher that has left."""


def seen_later(record: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the record of a subscriber with all its times moved later by so many seconds."""
    since = record["since"]
    return record | {"seen": record["seen"] + seconds, "since": None if since is None else since + seconds}


class LastingNames:
    """The records of durable subscribers and returning publishers.

    Parameters
    ----------
    store
        Where the records are stored.
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

    def seen(self, held: Collection[ClientId], also: Collection[ClientId]) -> dict[ClientId, float]:
        """Return when subscribers were last heard of, in seconds since 1970.

        Parameters
        ----------
        held
            Subscribers that brokers hold. Of the others those are returned that have subscriptions.
        also
            Those of them that are returned, too.
        """
        names = [name.removeprefix(SUBSCRIBER) for name in self._store.names(SUBSCRIBER)]
        records = {name: self.subscriber(name) for name in names if name in also or name not in held}
        return {
            name: record["seen"]
            for name, record in records.items()
            if name in also or record["subscriptions"]
        }

    def _put(self, name: ClientId, record: dict[str, Any]) -> None:
        self._store.put(f"{SUBSCRIBER}{name}", record | {"seen": time.time()})

    def come(self, name: ClientId, broker: BrokerId, ticket: str) -> dict[str, Any]:
        """Begin a new incarnation at a broker and return the record; a repeated call (same ticket) begins no other."""
        record = self.subscriber(name)
        if record["ticket"] != ticket:
            incarnation = record["life"] + 1
            news = {"life": incarnation, "came": incarnation, "broker": broker, "ticket": ticket}
            self._store.put(
                f"{SUBSCRIBER}{name}", record | news
            )  # `seen` is not updated: the new incarnation needs to know when the subscriber was last seen
            record |= news
        return record

    def _own(self, name: ClientId, incarnation: int) -> dict[str, Any]:
        record: dict[str, Any] | None = self._store.get(f"{SUBSCRIBER}{name}")
        if record is None:
            raise ClientError(f"there is no durable subscriber {name!r} any more: its network has ended")
        if incarnation < record["came"]:
            raise NameTaken(
                f"durable subscriber {name!r} has returned in another process: close it in this one"
            )
        return record

    def renew(self, name: ClientId, incarnation: int, broker: BrokerId) -> int:
        """Begin the next incarnation of a process that moves to another broker, and return its number."""
        record = self.subscriber(name)
        if record["life"] == incarnation + 1 and record["broker"] == broker:
            return incarnation + 1
        record = self._own(name, incarnation)
        self._put(name, record | {"life": incarnation + 1, "broker": broker})
        return incarnation + 1

    def acknowledge(
        self,
        name: ClientId,
        incarnation: int,
        position: dict[ClientId, int],
        beside: object = None,
        past: Past | None = None,
    ) -> None:
        """Store a subscriber's position, its past, and `beside` them what its next process finds; None keeps it."""
        also = {"beside": beside, "past": past}
        news = {"position": position} | {key: value for key, value in also.items() if value is not None}
        self._put(name, self._own(name, incarnation) | news)

    def subscriptions(self, name: ClientId, incarnation: int, machine: dict[str, Any]) -> None:
        """Store a subscriber's subscriptions."""
        news = {key: value for key, value in machine.items() if key not in ("life", "position")}
        self._put(name, self._own(name, incarnation) | news)

    def rewind(self, name: ClientId, beginning: Beginning) -> bool:
        """Move a subscriber back into the past; return False if there is none with a subscription.

        A process that has the name is refused from now on. The next one begins there.
        """
        record = self.subscriber(name)
        if not record["subscriptions"]:
            return False
        machine = SubscriberMachine(durable=True)
        machine.restore(record)  # type: ignore[arg-type]
        machine.rewind(beginning.since, beginning.marks)
        incarnation = record["life"] + 1
        news = {"past": machine.past, "life": incarnation, "came": incarnation, "ticket": ""}
        self._put(name, record | news)
        return True

    def end(self, name: ClientId, incarnation: int) -> None:
        """Forget a subscriber except for its incarnation: brokers that still hold it have an earlier one."""
        record = {key: value for key, value in self._own(name, incarnation).items() if key != "past"}
        self._put(
            name,
            record | {"position": {}, "subscriptions": {}, "since": None, "broker": None, "beside": None},
        )

    # Publishers.

    def publisher(self, name: ClientId) -> tuple[list[BrokerId], int]:
        """Return the brokers that may have accepted a publisher's last events, and its highest number."""
        record: tuple[list[BrokerId], int] = self._store.get(f"{PUBLISHER}{name}") or ([], 0)
        return record

    def home(self, name: ClientId, broker: BrokerId, sole: bool) -> None:
        """Record the broker that a publisher moves to.

        With `sole`, that broker has everything that the publisher retained, and the other brokers are dropped from
        the record.
        """
        homes, reserved = self.publisher(name)
        homes = [broker] if sole else [*(other for other in homes if other != broker), broker]
        self._store.put(f"{PUBLISHER}{name}", (homes, reserved))

    def inherit(self, broker: BrokerId, trustee: BrokerId) -> None:
        """Record that a broker has left, and that another knows what it had accepted of publishers."""
        for key in self._store.names(PUBLISHER):
            homes, reserved = self.publisher(key.removeprefix(PUBLISHER))
            if broker in homes:
                homes = list(dict.fromkeys(trustee if home == broker else home for home in homes))
                self._store.put(key, (homes, reserved))

    def inherit_subscribers(self, broker: BrokerId, trustee: BrokerId) -> None:
        """Record that another broker holds the durable subscribers of a leaving one."""
        for key in self._store.names(SUBSCRIBER):
            record = self.subscriber(key.removeprefix(SUBSCRIBER))
            if record["broker"] == broker:
                self._store.put(key, record | {"broker": trustee})

    def reserve(self, name: ClientId, number: int) -> int:
        """Reserve numbers for a publisher up to at least `number`, and return the highest reserved number."""
        homes, reserved = self.publisher(name)
        if number > reserved:
            reserved = number + BLOCK
            self._store.put(f"{PUBLISHER}{name}", (homes, reserved))
        return reserved
