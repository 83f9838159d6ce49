"""What was published under a key: who publishes it again, since an answer was lost, publishes it once.

Rules
-----
* A key belongs to an owner, and stands for the events that were first published under it; other events under it are
  refused.
* It is claimed before its events are published, with the numbers that they are about to have, and settled afterwards.
  In between, and when nobody settles it, whether they were accepted is not known here.
* What was claimed and certainly not published is withdrawn, before its numbers go to other events.
* Each owner's keys are bounded by number, bytes and time; the oldest are forgotten first. What is published again under
  a key that is forgotten is published twice.

Pure: the time is told. The rendezvous point keeps one, for all gateways of a network.

Source: docs/decisions/0100-published-again-once.md.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ...protocol.ids import ClientId

KEYS_MAX: Final = 10_000
BYTES_MAX: Final = 4 << 20
SECONDS_MAX: Final = 600.0
"""What is kept of one owner: keys, bytes, and for how long."""

RECORD_BYTES: Final = 400
"""What a record takes beside the characters of its key and its publisher, about."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Events that are about to be published: under which key, if any; a digest of them; how many."""

    key: str | None
    digest: bytes
    events: int


@dataclass(frozen=True, slots=True)
class Published:
    """What is known of the events of a key.

    Attributes
    ----------
    digest
        Of the events.
    publisher, first, last
        Who published them, under which numbers; or tried to.
    since
        When the key was claimed, on the clock of who keeps it.
    accepted
        Whether they are known to have been accepted.
    """

    digest: bytes
    publisher: ClientId
    first: int
    last: int
    since: float
    accepted: bool = False


Answer: TypeAlias = Published | None
"""What is known already; None where the key is claimed by this, or there is none."""


class Repeats:
    """The keys of all owners."""

    def __init__(
        self, keys_max: int = KEYS_MAX, bytes_max: int = BYTES_MAX, seconds_max: float = SECONDS_MAX
    ) -> None:
        self._keys_max, self._bytes_max, self._seconds_max = keys_max, bytes_max, seconds_max
        self._owners: dict[str, OrderedDict[str, Published]] = {}
        self._bytes: dict[str, int] = {}

    def claim(
        self, owner: str, publisher: ClientId, last: int, wishes: Sequence[Wish], now: float
    ) -> list[Answer]:
        """Claim the keys of what is about to be published at once, in this order; return what is known of each.

        Parameters
        ----------
        owner
            Whose keys they are.
        publisher, last
            Who is about to publish, and the last number that it has used. What is known is left out, so the numbers of
            the others follow each other.
        wishes
            What is to be published; what has no key is only counted.
        now
            The time.
        """
        self._forget(owner, now)
        there = self._owners.setdefault(owner, OrderedDict())
        answers: list[Answer] = []
        for wish in wishes:
            known = there.get(wish.key) if wish.key is not None else None
            if known is not None and (known.publisher, known.first) == (publisher, last + 1):
                known = None  # its events had no numbers yet: it is claimed again
            answers.append(known)
            if known is not None:
                continue
            first, last = last + 1, last + wish.events
            if wish.key is not None:
                self._drop(owner, wish.key)
                self._put(owner, wish.key, Published(wish.digest, publisher, first, last, now))
        return answers

    def settle(self, owner: str, keys: Sequence[str], publisher: ClientId, *, accepted: bool) -> None:
        """Take in that what a publisher published under these keys was accepted; or was not, then they are free."""
        there = self._owners.setdefault(owner, OrderedDict())
        for key in keys:
            known = there.get(key)
            if known is None or known.publisher != publisher:
                continue
            if accepted:
                there[key] = replace(known, accepted=True)
            elif not known.accepted:
                self._drop(owner, key)

    def withdraw(self, owner: str, publisher: ClientId, last: int) -> None:
        """Take in that what a publisher claimed above its number `last` was not published: those keys are free."""
        for key, known in list(self._owners.setdefault(owner, OrderedDict()).items()):
            if known.publisher == publisher and known.first > last and not known.accepted:
                self._drop(owner, key)

    def _put(self, owner: str, key: str, published: Published) -> None:
        there = self._owners[owner]
        there[key] = published
        self._bytes[owner] = self._bytes.get(owner, 0) + _size(key, published)
        while len(there) > self._keys_max or self._bytes[owner] > self._bytes_max:
            self._drop(owner, next(iter(there)))

    def _drop(self, owner: str, key: str) -> None:
        if (dropped := self._owners[owner].pop(key, None)) is not None:
            self._bytes[owner] -= _size(key, dropped)

    def _forget(self, owner: str, now: float) -> None:
        there = self._owners.get(owner)
        while there and now - next(iter(there.values())).since > self._seconds_max:
            self._drop(owner, next(iter(there)))

    def check(self) -> None:
        """Assert that what is counted is what is there."""
        for owner, there in self._owners.items():
            assert self._bytes.get(owner, 0) == sum(_size(key, each) for key, each in there.items())
            assert len(there) <= self._keys_max and self._bytes.get(owner, 0) <= self._bytes_max


def _size(key: str, published: Published) -> int:
    return RECORD_BYTES + 4 * len(key) + len(published.publisher)
