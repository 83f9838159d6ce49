"""The unreported gaps of a subscription. The next message reports them, since STOMP has no frame for notices.

Rules
-----
* Gaps of one reason are merged: counts add up, and the span of each publisher grows. So the memory is
  bounded, as a `Gap` is: at most `NAMED_MAX` publishers are named, the rest is counted.
* An unknown count makes the sum unknown.
"""

from __future__ import annotations

import json

from ..queues import NAMED_MAX, Gap


class Gaps:
    """Gaps that are not reported yet."""

    def __init__(self) -> None:
        self._by_reason: dict[str, Gap] = {}

    def add(self, gap: Gap) -> None:
        """Record a gap."""
        there = self._by_reason.get(gap.reason, Gap(gap.reason, 0))
        of = dict(there.of)
        for publisher, (first, last) in gap.of.items():
            if publisher in of or len(of) < NAMED_MAX:
                known = of.get(publisher, (first, last))
                of[publisher] = min(first, known[0]), max(last, known[1])
        count = None if there.count is None or gap.count is None else there.count + gap.count
        self._by_reason[gap.reason] = Gap(gap.reason, count, of)

    def __bool__(self) -> bool:
        return bool(self._by_reason)

    def tell(self) -> str:
        """Return all recorded gaps as a JSON array and clear them; empty if there are none."""
        if not self._by_reason:
            return ""
        gaps, self._by_reason = self._by_reason, {}
        return json.dumps([gap.to_dict() for gap in gaps.values()], separators=(",", ":"))
