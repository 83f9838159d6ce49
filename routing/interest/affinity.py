"""Finds subscribers that mostly receive events of another broker, and should move there (paper 2, section 2.4).

Rules
-----
* The notifications of each local subscriber are counted by the broker at which the event was published.
* At a review, a subscriber is proposed to move to another broker if, since the last review, it received at least
  `EVENTS_MIN` notifications, and at least `SHARE_MIN` of them came from that broker. Then all counts are reset.
* Each review proposes at most one move, of the subscriber with the most notifications, because each move causes
  recent events to be retransmitted.
"""

from __future__ import annotations

from typing import Final

from ...protocol.ids import BrokerId, ClientId

SHARE_MIN: Final = 0.8
EVENTS_MIN: Final = 20


class Affinity:
    """Counts of notifications, by subscriber and by the broker of the publisher."""

    def __init__(self) -> None:
        self._heard: dict[ClientId, dict[BrokerId, int]] = {}

    def note(self, client: ClientId, entry: BrokerId, count: int) -> None:
        """Count notifications of one subscriber."""
        heard = self._heard.setdefault(client, {})
        heard[entry] = heard.get(entry, 0) + count

    def forget(self, client: ClientId) -> None:
        """Forget a subscriber that left."""
        self._heard.pop(client, None)

    def review(self, here: BrokerId) -> tuple[ClientId, BrokerId] | None:
        """Return the subscriber that should move and its target broker, if any, and reset the counts."""
        best: tuple[int, ClientId, BrokerId] | None = None
        for client, heard in self._heard.items():
            total = sum(heard.values())
            entry = max(heard, key=lambda broker: (heard[broker], -broker))
            likes = entry != here and total >= EVENTS_MIN and heard[entry] >= SHARE_MIN * total
            if likes and (best is None or total > best[0]):
                best = total, client, entry
        self._heard.clear()
        return None if best is None else best[1:]
