"""The layer that detects damage in a broker's state by comparing it with the state of others.

Rules
-----
* Every `compare_heartbeats` a broker sends each peer digests of the state that both must agree on. The
  receiver compares them with its own state. The digests cover: what the sender has told the receiver that it
  wants; the positions of the two brokers, for members of one cluster and for neighbours in the tree, or the
  view for the rendezvous point, which issues it; the sequence numbers of the events that went between them;
  and, under admission control, the advertisements that the sender passed on and the filters that it asked
  about.
* A subscriber that is not durable reports what it was notified of. This must equal the broker's record for
  the subscriber, except of a publisher whose last event for it had a time to live: it need not have had that.
  For a durable subscriber, the report is compared by the holder of its position. A publisher reports its last
  number: its broker cannot have accepted a higher one.
* Messages in flight make the two sides differ for a moment. A difference therefore counts only if it
  persists: the same two digests must meet :data:`STRIKES` times in a row, each time some time after the
  previous one.
* A peer that sends nothing is not compared. Membership finds out whether it is silent, dead or elsewhere.
* At the same interval a broker checks that its own state is consistent: each layer asserts its invariants.
* A broker whose state is damaged does not repair it from its own knowledge, which may be equally wrong. It
  restarts with a clean state, as after a crash (`StateDamaged`). Its neighbours and clients then tell it what
  they want, as they tell any new broker.
* Two cases need no restart. Round numbers only rise: a broker that hears of a later round begins it, even if
  the other broker's number is damaged. The numbers of streams restart with the next view, so the broker
  requests a round.

A broker whose state is damaged restarts within ``STRIKES + 1`` comparisons. What follows is the same as after
a crash. Nothing here is random.

Source: paper 4, section 2 (a fault changes the state but not the behaviour, and the condition must hold again
from any state); docs/decisions/0028-damaged-tables.md, 0043-damaged-state.md and
0052-damaged-stores-books-and-positions.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from ...protocol.effects import Received, Send, Ticked
from ...protocol.errors import StateDamaged
from ...protocol.ids import BrokerId, ClientId, Link, RoundNumber
from ...protocol.layers import Handler, Inward, Out, RoundHeard, RoundWanted
from ...protocol.messages.comparing import Compare
from ...protocol.messages.pubsub import HasHad, HasPublished
from ...protocol.messages.recovery import RENDEZVOUS
from ...protocol.snapshots import Restorable
from ...routing.filters.filter import Filter

STRIKES: Final = 3


class Tables(Protocol):
    """The part of a router that is compared: the filters that it holds and those that it has told."""

    def held(self) -> Iterator[tuple[Filter, Link, Hashable]]:
        """Iterate over (filter, link, holder)."""

    def announced(self) -> Mapping[tuple[Link, BrokerId], Iterable[Filter]]:
        """Return the filters that other brokers were told, by link and broker."""


class ComparedPlace(Protocol):
    """The part of a broker's position in the network that is compared."""

    def agreed(self) -> Mapping[BrokerId, Hashable]:
        """Return, for each peer, the position data on which this broker and that peer must agree."""

    def streams(self) -> Mapping[BrokerId, Hashable]:
        """Return, for each peer, the numbers of the events that went between this broker and that peer."""

    def unannounced(self) -> Collection[BrokerId]:
        """Return the brokers that have not yet told this broker everything that they want."""


class Accounts(Protocol):
    """The part of admission control that is compared: the entries passed on to others and those received from them."""

    def passed_on(self) -> Mapping[BrokerId, Iterable[object]]:
        """Return, for each neighbour, the advertisements sent to it and the filters that it was asked about."""

    def taken_in(self, link: BrokerId) -> Iterable[object]:
        """Return the same entries as received from one neighbour and recorded in the books."""


class Streams(Protocol):
    """The part of the layer that retransmits events and removes duplicates that is compared."""

    def round(self) -> RoundNumber:
        """Return the last round that has begun at this broker."""

    def marks(self, client: ClientId) -> Mapping[str, int] | None:
        """Return, per publisher, the sequence up to which a subscriber has had all events; None if it is unknown."""

    def expiring(self, client: ClientId) -> Mapping[str, int]:
        """Return, per publisher, the number of the last event with a time to live that was for a subscriber."""

    def accepted(self, publisher: ClientId) -> int:
        """Return the last number that was accepted from a publisher, 0 if there is none."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The parts of a broker whose state is compared.

    Attributes
    ----------
    tables, place, streams
        See the protocols above.
    check
        Asserts the invariants of all layers.
    books
        The books of admission control; None without admission control.
    """

    tables: Tables
    place: ComparedPlace
    streams: Streams
    check: Callable[[], None]
    books: Accounts | None = None


@dataclass(slots=True)
class _Difference:
    """The reported value, the known value, the time of the last comparison, and the number of equal ones in a row."""

    said: object
    known: object
    at: float
    strikes: int = 1


class Comparing(Restorable):
    """Runs the comparisons of one broker.

    Parameters
    ----------
    broker
        The broker that compares.
    every_seconds
        The interval between two comparisons, in seconds.
    compared
        The parts of the broker that are compared.
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
        told = {other: digest(items) for (_, other), items in compared.tables.announced().items()}
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
        if broker in self._compared.place.unannounced():
            return b""  # this broker takes no part until that one has told it, and that one may believe that it has
        mine = ((item, link) for item, link, holder in self._compared.tables.held() if holder == broker)
        return digest(item for item, link in mine if not isinstance(link, str))

    # Clients.

    def _on_has_had(self, event: Received[ClientId, HasHad]) -> list[Out]:
        client, message = event.source, event.message
        streams = self._compared.streams
        marks = streams.marks(client)
        if marks is None:
            return []
        # It need not have had an event that has expired on the way; whatever else it has had says nothing then.
        expired = {name for name, mark in streams.expiring(client).items() if marks.get(name) == mark}
        said, known = (_above_zero(each, expired) for each in (message.marks, marks))
        if self._stays(client, "marks", said, known):
            raise self._damaged(f"does not know what subscriber {client!r} has had")
        return []

    def _on_has_published(self, event: Received[ClientId, HasPublished]) -> list[Out]:
        client, message = event.source, event.message
        if self._compared.streams.accepted(client) > message.last:  # all that it sent before this has arrived
            raise self._damaged(f"has accepted what publisher {client!r} has not published")
        return []

    # Differences.

    def _stays(self, other: Link, what: str, said: object, known: object) -> bool:
        """Return whether a report has differed from the known state often enough to count."""
        if said == known:
            self._differ.pop((other, what), None)
            return False
        found = self._differ.get((other, what))
        if found is None or (said, known) != (found.said, found.known):
            self._differ[other, what] = _Difference(said, known, self._now)
            return False
        if self._now - found.at < self._every / 2:
            return False  # a link that was cut delivers in one burst what was sent over time
        found.at = self._now
        found.strikes += 1
        return found.strikes >= STRIKES

    def _damaged(self, how: str) -> StateDamaged:
        return StateDamaged(f"broker {self._me} {how}: it starts again")

    def describe(self) -> Mapping[str, int]:
        """Return the number of comparisons that differ at present."""
        return {"differences": len(self._differ)}

    def check(self) -> None:
        """Assert that no difference has persisted, except of stream numbers; for tests."""
        assert all(found.strikes < STRIKES for (_, what), found in self._differ.items() if what != "stream")


def _above_zero(marks: Mapping[str, int], without: Collection[str]) -> dict[str, int]:
    return {publisher: mark for publisher, mark in marks.items() if mark > 0 and publisher not in without}


def digest(items: Iterable[object]) -> bytes:
    """Return a digest of some items that does not depend on their order."""
    texts = sorted({str(item) for item in items})
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=16).digest()
