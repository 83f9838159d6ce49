"""Rounds of sending again: what a publisher's broker keeps, and which links are open from which round on.

Rules
-----
* A link that is new, or whose other end is, is closed. It opens with the next round that begins after it is *ready*:
  after all that is wanted over it is installed up to the root. Events of earlier rounds never pass it. A round that is
  only now heard of may have begun before; so with *ready* goes the highest round that was known then up to the root.
* So over a repaired link each publisher's events arrive from the first one that its broker keeps, in order, and
  whoever has had some of them drops those (see `ledger`).
* What is kept is bounded by count and by age; a batch that goes beyond is forgotten, the oldest first.

Source: docs/decisions/0011-recovery.md; the paper leaves open how nothing is lost while a tree is mended.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ..protocol.batch import EventBatch
from ..protocol.ids import FIRST_ROUND, ClientId, Link, RoundNumber


@dataclass(slots=True)
class _Closed:
    """A link that is closed, or opened in some round."""

    ready_after: RoundNumber | None = None
    open_from: RoundNumber | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A batch that was published here, by whom and when."""

    at: float
    publisher: ClientId
    batch: EventBatch


class Rounds:
    """The rounds as one broker sees them.

    Parameters
    ----------
    retention_events_max, retention_seconds
        How much is kept to be sent again.

    Attributes
    ----------
    current
        The round that has begun here last.
    forgotten
        How many events were forgotten because too many were kept.
    """

    def __init__(self, retention_events_max: int, retention_seconds: float) -> None:
        self.current = FIRST_ROUND
        self.forgotten = 0
        self._events_max = retention_events_max
        self._seconds = retention_seconds
        self._links: dict[Link, _Closed] = {}
        self._kept: deque[Kept] = deque()
        self._kept_events = 0

    # Links.

    def close(self, link: Link) -> None:
        """Let nothing pass over a link until a round begins after it is ready."""
        self._links[link] = _Closed()

    def make_ready(self, link: Link, after: RoundNumber) -> None:
        """Note that all that is wanted over the link is installed up to the root, where `after` may have begun."""
        entry = self._links.get(link)
        if entry is not None:
            entry.ready_after = after

    def forget(self, link: Link) -> None:
        """Forget a link that is not there any more."""
        self._links.pop(link, None)

    def closed_links(self) -> list[Link]:
        """Return the links that no round has opened yet."""
        return [link for link, entry in self._links.items() if entry.open_from is None]

    def passes(self, link: Link, number: RoundNumber) -> bool:
        """Return whether events of a round may pass over a link."""
        entry = self._links.get(link)
        return entry is None or (entry.open_from is not None and number >= entry.open_from)

    def begin(self, number: RoundNumber) -> bool:
        """Begin a round and open the links that are ready; return False, and do nothing, when it is not newer."""
        if number <= self.current:
            return False
        self.current = number
        for entry in self._links.values():
            if entry.open_from is None and entry.ready_after is not None and number > entry.ready_after:
                entry.open_from = number
        return True

    # What is kept.

    def keep(self, now: float, publisher: ClientId, batch: EventBatch) -> None:
        """Keep what a publisher here has published, to send it again."""
        self._kept.append(Kept(now, publisher, batch))
        self._kept_events += len(batch)
        while self._kept_events > self._events_max and len(self._kept) > 1:
            self.forgotten += self._drop_oldest()

    def expire(self, now: float) -> None:
        """Forget what is too old."""
        while self._kept and now - self._kept[0].at > self._seconds:
            self._drop_oldest()

    def _drop_oldest(self) -> int:
        size = len(self._kept.popleft().batch)
        self._kept_events -= size
        return size

    def kept(self) -> list[Kept]:
        """Return what is kept, in the order of publication."""
        return list(self._kept)
