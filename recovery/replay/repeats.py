"""Idempotency keys: a publisher that publishes again because an answer was lost publishes only once.

Rules
-----
* A key belongs to an owner, and stands for the events that were first published under it. Other events under
  the same key are refused.
* A key is claimed before its events are published, with the numbers that they will get, and settled
  afterwards. In between, and if it is never settled, it is not known here whether the events were accepted.
* A key that was claimed and whose events were certainly not published is withdrawn before its numbers are
  reused for other events.
* Each owner's keys are bounded by number, bytes and time. The oldest are forgotten first. Events that are
  published again under a forgotten key are published twice.

Pure: the caller supplies the time. The rendezvous point keeps one instance for all gateways of a network.

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
"""The bounds per owner: keys, bytes, and how long a key is retained."""

RECORD_BYTES: Final = 400
"""The approximate size of a record apart from the characters of its key and its publisher."""


@dataclass(frozen=True, slots=True)
class NumbersRequest:
    """Events that are about to be published: their key, if any, a digest of them, and their number."""

    key: str | None
    digest: bytes
    events: int


@dataclass(frozen=True, slots=True)
class Published:
    """What is known of the events of a key.

    Attributes
    ----------
    digest
        A digest of the events.
    publisher, first, last
        The publisher that published or tried to publish them, and their numbers.
    since
        When the key was claimed, on the clock of the keeper of this record.
    accepted
        Whether the events are known to have been accepted.
    """

    digest: bytes
    publisher: ClientId
    first: int
    last: int
    since: float
    accepted: bool = False


Answer: TypeAlias = Published | None
"""The known record; None if this call has claimed the key, or there is no key."""


class Repeats:
    """The keys of all owners."""

    def __init__(
        self, keys_max: int = KEYS_MAX, bytes_max: int = BYTES_MAX, seconds_max: float = SECONDS_MAX
    ) -> None:
        self._keys_max, self._bytes_max, self._seconds_max = keys_max, bytes_max, seconds_max
        self._owners: dict[str, OrderedDict[str, Published]] = {}
        self._bytes: dict[str, int] = {}

    def claim(
        self, owner: str, publisher: ClientId, last: int, requests: Sequence[NumbersRequest], now: float
    ) -> list[Answer]:
        """Claim the keys of events that are about to be published together, in this order; return the known records.

        Parameters
        ----------
        owner
            The owner of the keys.
        publisher, last
            The publisher, and the last number that it has used. Events whose key is known are left out, so
            the numbers of the others are consecutive.
        requests
            The events to publish. Events without a key are only counted.
        now
            The time.
        """
        self._forget(owner, now)
        there = self._owners.setdefault(owner, OrderedDict())
        answers: list[Answer] = []
        for request in requests:
            known = there.get(request.key) if request.key is not None else None
            if known is not None and (known.publisher, known.first) == (publisher, last + 1):
                known = None  # its events had no numbers yet: claim it again
            answers.append(known)
            if known is not None:
                continue
            first, last = last + 1, last + request.events
            if request.key is not None:
                self._drop(owner, request.key)
                self._put(owner, request.key, Published(request.digest, publisher, first, last, now))
        return answers

    def settle(self, owner: str, keys: Sequence[str], publisher: ClientId, *, accepted: bool) -> None:
        """Record that a publisher's events under these keys were accepted; or were not, which frees the keys."""
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
        """Free the keys that a publisher claimed above its number `last`: their events were not published."""
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
        """Assert that the counters match the records."""
        for owner, there in self._owners.items():
            assert self._bytes.get(owner, 0) == sum(_size(key, each) for key, each in there.items())
            assert len(there) <= self._keys_max and self._bytes.get(owner, 0) <= self._bytes_max


def _size(key: str, published: Published) -> int:
    return RECORD_BYTES + 4 * len(key) + len(published.publisher)
