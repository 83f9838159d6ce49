"""The layer that looks for damage in the state of a broker, by comparing it with what others know.

Rules
-----
* Every `compare_heartbeats` a broker says to each other what both have to know alike, as digests. Who is told compares
  them with what it knows itself. These are: what the one has told the other that it wants; where the two stand, for
  those that belong to one cluster or are joined in the tree, or the view for the rendezvous point, which gives it out;
  the numbers under which events have gone between them; and what the one has passed on of advertisements and asked for
  of filters, where there is admission control.
* A subscriber that is not durable says what it was notified of, which has to be what its broker takes it to have had.
  What a durable one says is compared by whoever keeps its position.
  A publisher says its last number: its broker cannot have accepted a higher one.
* What is on its way makes the two differ for a moment. So a difference counts when it stays: when the same two digests
  have met :data:`STRIKES` times in a row, each some time after the one before.
* Who says nothing is not compared with: whether it is silent, dead or elsewhere is for membership to find out.
* As often a broker looks whether its own state holds together: each layer asserts its invariants.
* A broker whose state is damaged does not mend it by what it knows, which may be as wrong: it starts again, clean, as
  one that has died does (`StateDamaged`). What its neighbours and clients want it is then told as any broker that is
  new.
* Two things need no new start. Numbers of rounds only rise: who hears of a later one begins it, be it that the other's
  is damaged. And the numbers of streams begin anew with the next view, so one is asked for.

So a broker whose state is damaged starts again within ``STRIKES + 1`` comparisons; what follows is what follows a
crash. Nothing of it is by chance.

Source: paper 4, section 2 (a fault changes the state and not the behaviour, and the condition is to hold again from any
state); docs/decisions/0028-damaged-tables.md, 0043-damaged-state.md and
0052-damaged-stores-books-and-positions.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ...protocol.effects import Received, Send, Ticked
from ...protocol.errors import StateDamaged
from ...protocol.ids import BrokerId, ClientId, Link, RoundNumber
from ...protocol.layers import Handler, Inward, Out, RoundHeard, RoundWanted
from ...protocol.messages.comparing import Compare
from ...protocol.messages.pubsub import HasHad, HasPublished
from ...protocol.messages.recovery import RENDEZVOUS
from ...protocol.snapshots import Restorable

STRIKES: Final = 3


class Tables(Protocol):
    """What is compared of a router: what it holds and what it has told."""

    def held(self) -> Iterator[tuple[Any, Link, Hashable]]:
        """Iterate over (filter, link, holder)."""

    def told(self) -> Mapping[tuple[Link, BrokerId], Iterable[Any]]:
        """Return what others were told, by link and broker."""


class Standing(Protocol):
    """What is compared of who knows where a broker stands."""

    def agreed(self) -> Mapping[BrokerId, Hashable]:
        """Return what it and each of these have to know alike of where they stand."""

    def streams(self) -> Mapping[BrokerId, Hashable]:
        """Return the numbers under which events have gone between it and each of these."""

    def untold(self) -> Collection[BrokerId]:
        """Return the brokers that have yet to tell it all that they want."""


class Accounts(Protocol):
    """What is compared of admission control: what it has told others of its books, and holds of what they have told."""

    def passed_on(self) -> Mapping[BrokerId, Iterable[Any]]:
        """Return for each neighbour the advertisements that went there, and the filters that it was asked for."""

    def taken_in(self, link: BrokerId) -> Iterable[Any]:
        """Return the same as it has come from a neighbour and stands in the books."""


class Streams(Protocol):
    """What is compared of who sends again what may be lost, and nothing twice."""

    def round(self) -> RoundNumber:
        """Return the last round that has begun here."""

    def marks(self, client: ClientId) -> Mapping[str, int] | None:
        """Return up to which sequence of each publisher a subscriber has had all; None for one unknown."""

    def accepted(self, publisher: ClientId) -> int:
        """Return the last number of a publisher that was accepted here, 0 for none."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The parts of a broker whose state is compared.

    Attributes
    ----------
    tables, place, streams
        See there.
    check
        Asserts what has to hold of all layers by themselves.
    books
        None where everything is admitted.
    """

    tables: Tables
    place: Standing
    streams: Streams
    check: Callable[[], None]
    books: Accounts | None = None


@dataclass(slots=True)
class _Difference:
    """What was said and what was known, when last, and how often in a row."""

    said: Any
    known: Any
    at: float
    strikes: int = 1


class Comparing(Restorable):
    """The comparisons of one broker.

    Parameters
    ----------
    broker
        Whose they are.
    every_seconds
        Between two comparisons.
    compared
        What is compared.
    """

    SHARED = frozenset({"_compared"})

    alters: Mapping[type, Handler] = {}

    def __init__(self, broker: BrokerId, every_seconds: float, compared: Compared) -> None:
        self._me = broker
        self._every = every_seconds
        self._compared = compared
        self._now = self._next = 0.0
        self._differ: dict[tuple[Link, str], _Difference] = {}
        self.takes: Mapping[type, Handler] = {
            Compare: self._on_compare,
            HasHad: self._on_has_had,
            HasPublished: self._on_has_published,
        }
        self.sees: Mapping[type, Handler] = {Ticked: self._on_tick}

    def _on_tick(self, event: Ticked) -> list[Out]:
        self._now = event.now
        if event.now < self._next:
            return [Inward(event)]
        self._next = event.now + self._every
        compared = self._compared
        compared.check()
        told = {other: digest(items) for (_, other), items in compared.tables.told().items()}
        agreed, streams = compared.place.agreed(), compared.place.streams()
        books = {} if compared.books is None else compared.books.passed_on()
        compares: list[Out] = [
            Send(
                other,
                Compare(
                    told.get(other, b""),
                    digest([agreed[other]]) if other in agreed else b"",
                    digest([streams[other]]) if other in streams else b"",
                    digest(books[other]) if other in books else b"",
                    compared.streams.round(),
                ),
            )
            for other in dict.fromkeys((*told, *agreed, *streams, *books))
        ]
        return [*compares, Inward(event)]

    # Other brokers.

    def _on_compare(self, event: Received[BrokerId, Compare]) -> list[Out]:
        source, said = event.source, event.message
        compared = self._compared
        if said.told and self._stays(source, "tables", said.told, self._held(source)):
            raise self._damaged(f"does not hold for broker {source} what that has told it")
        agreed, streams = compared.place.agreed(), compared.place.streams()
        if said.place and source in agreed:
            if self._stays(source, "place", said.place, digest([agreed[source]])):
                other = "the rendezvous point" if source == RENDEZVOUS else f"broker {source}"
                raise self._damaged(f"does not stand where {other} knows it")
            if source != RENDEZVOUS and said.round > compared.streams.round():
                return [Inward(RoundHeard(said.round))]
        if said.stream and source in streams:
            if self._stays(source, "stream", said.stream, digest([streams[source]])):
                return [Inward(RoundWanted())]
        if said.books and compared.books is not None:
            if self._stays(source, "books", said.books, digest(compared.books.taken_in(source))):
                raise self._damaged(f"has not in its books what broker {source} has passed on to it")
        return []

    def _held(self, broker: BrokerId) -> bytes:
        if broker in self._compared.place.untold():
            return b""  # it takes no part until it is told, and the other one may think that it has told it
        mine = ((item, link) for item, link, holder in self._compared.tables.held() if holder == broker)
        return digest(item for item, link in mine if not isinstance(link, str))

    # Clients.

    def _on_has_had(self, event: Received[ClientId, HasHad]) -> list[Out]:
        client, message = event.source, event.message
        marks = self._compared.streams.marks(client)
        if marks is not None and self._stays(client, "marks", _above_zero(message.marks), _above_zero(marks)):
            raise self._damaged(f"does not know what subscriber {client!r} has had")
        return []

    def _on_has_published(self, event: Received[ClientId, HasPublished]) -> list[Out]:
        client, message = event.source, event.message
        if self._compared.streams.accepted(client) > message.last:  # what it has said came ahead of this
            raise self._damaged(f"has accepted what publisher {client!r} has not published")
        return []

    # Differences.

    def _stays(self, other: Link, what: str, said: Any, known: Any) -> bool:
        """Return whether what another one says has differed from what is known here for long enough."""
        if said == known:
            self._differ.pop((other, what), None)
            return False
        found = self._differ.get((other, what))
        if found is None or (said, known) != (found.said, found.known):
            self._differ[other, what] = _Difference(said, known, self._now)
            return False
        if self._now - found.at < self._every / 2:
            return False  # a link that was cut brings at once what was said one after the other
        found.at = self._now
        found.strikes += 1
        return found.strikes >= STRIKES

    def _damaged(self, how: str) -> StateDamaged:
        return StateDamaged(f"broker {self._me} {how}: it starts again")

    def describe(self) -> Mapping[str, int]:
        """Return how many comparisons differ just now."""
        return {"differences": len(self._differ)}

    def check(self) -> None:
        """Assert that no difference of tables has stayed; for tests."""
        assert all(found.strikes < STRIKES for (_, what), found in self._differ.items() if what != "stream")


def _above_zero(marks: Mapping[str, int]) -> dict[str, int]:
    return {publisher: mark for publisher, mark in marks.items() if mark > 0}


def digest(items: Iterable[Any]) -> bytes:
    """Return what stands for some filters, in whatever order."""
    texts = sorted({str(item) for item in items})
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=16).digest()
