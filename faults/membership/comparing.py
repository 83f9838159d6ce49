"""The layer that compares the tables of brokers that tell each other what they want, and finds those that are damaged.

Rules
-----
* Every `compare_heartbeats` a broker says to each other that it has told something what that was, as a digest. Who is
  told compares it with what its table holds for that broker.
* What is on its way makes the two differ for a moment. So a difference counts when it stays: when the same two digests
  have met :data:`STRIKES` times in a row, each some time after the one before.
* Who says nothing is not compared with: whether it is silent, dead or elsewhere is for membership to find out.
* A broker whose table differs does not mend it by what it knows, which may be as wrong: it starts again, clean, as one
  that has died does (`StateDamaged`). What its neighbours and clients want it is then told as any broker that is new.

So a broker whose table is damaged starts again within ``STRIKES + 1`` comparisons; what follows is what follows a
crash. Nothing of it is by chance.

Source: paper 4, section 2 (a fault changes the state and not the behaviour, and the condition is to hold again from any
state); docs/decisions/0028-damaged-tables.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ...protocol.effects import Received, Send, Ticked
from ...protocol.errors import StateDamaged
from ...protocol.ids import BrokerId, Link
from ...protocol.layers import Handler, Inward, Out
from ...protocol.messages.recovery import Compare

STRIKES: Final = 3


class Tables(Protocol):
    """What is compared: of a router, what it holds and what it has told."""

    def held(self) -> Iterator[tuple[Any, Link, Hashable]]:
        """Iterate over (filter, link, holder)."""

    def told(self) -> Mapping[tuple[Link, BrokerId], Iterable[Any]]:
        """Return what others were told, by link and broker."""


@dataclass(slots=True)
class _Difference:
    """What was said and what was held, when last, and how often in a row."""

    said: bytes
    held: bytes
    at: float
    strikes: int = 1


class Comparing:
    """The comparisons of one broker.

    Parameters
    ----------
    broker
        Whose they are.
    every_seconds
        Between two comparisons.
    tables
        The router.
    """

    alters: Mapping[type, Handler] = {}

    def __init__(self, broker: BrokerId, every_seconds: float, tables: Tables) -> None:
        self._me = broker
        self._every = every_seconds
        self._tables = tables
        self._now = self._next = 0.0
        self._differ: dict[BrokerId, _Difference] = {}
        self.takes: Mapping[type, Handler] = {Compare: self._on_compare}
        self.sees: Mapping[type, Handler] = {Ticked: self._on_tick}

    def _on_tick(self, event: Ticked) -> list[Out]:
        self._now = event.now
        if event.now < self._next:
            return [Inward(event)]
        self._next = event.now + self._every
        told = [Send(other, Compare(digest(items))) for (_, other), items in self._tables.told().items()]
        return [*told, Inward(event)]

    def _on_compare(self, event: Received[BrokerId, Compare]) -> list[Out]:
        self._compare(event.source, event.message.digest)
        return []

    def _compare(self, broker: BrokerId, said: bytes) -> None:
        mine = ((item, link) for item, link, holder in self._tables.held() if holder == broker)
        held = digest(item for item, link in mine if not isinstance(link, str))
        if said == held:
            self._differ.pop(broker, None)
            return
        found = self._differ.get(broker)
        if found is None or (said, held) != (found.said, found.held):
            self._differ[broker] = _Difference(said, held, self._now)
            return
        if self._now - found.at < self._every / 2:
            return  # a link that was cut brings at once what was said one after the other
        found.at = self._now
        found.strikes += 1
        if found.strikes >= STRIKES:
            raise StateDamaged(
                f"broker {self._me} does not hold for broker {broker} what that has told it: it starts again"
            )

    def describe(self) -> Mapping[str, int]:
        """Return how many brokers differ just now."""
        return {"differences": len(self._differ)}

    def check(self) -> None:
        """Assert that no difference has stayed; for tests."""
        assert all(found.strikes < STRIKES for found in self._differ.values())


def digest(items: Iterable[Any]) -> bytes:
    """Return what stands for some filters, in whatever order."""
    texts = sorted({str(item) for item in items})
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=16).digest()
