"""Which subscribers mostly hear publishers of another broker, and should move there (paper 2, section 2.4).

Rules
-----
* What each subscriber here is notified of is counted by the broker that it was published at.
* At a review, a subscriber of whose notifications since the last review at least `SHARE_MIN` came from one other
  broker, and at least `EVENTS_MIN` in all, is proposed to move to that one. Then everybody's count begins anew.
* At most one at a review, the one that heard most, since each move lets what was published lately be sent again.
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
        """Return who should move where, if anybody should, and begin to count anew."""
        best: tuple[int, ClientId, BrokerId] | None = None
        for client, heard in self._heard.items():
            total = sum(heard.values())
            entry = max(heard, key=lambda broker: (heard[broker], -broker))
            likes = entry != here and total >= EVENTS_MIN and heard[entry] >= SHARE_MIN * total
            if likes and (best is None or total > best[0]):
                best = total, client, entry
        self._heard.clear()
        return None if best is None else best[1:]
