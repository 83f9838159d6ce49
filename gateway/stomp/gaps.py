"""What a subscription was not brought, until the next message tells of it: STOMP has no frame for news.

Rules
-----
* Gaps of one reason are one: the counts add up, and each publisher's span grows. So what waits here is bounded, as a
  `Gap` is: at most `NAMED_MAX` publishers are named, the rest is counted.
* A count that is not known makes the sum unknown.
"""

from __future__ import annotations

import json

from ..queues import NAMED_MAX, Gap


class Gaps:
    """Gaps that are not told yet."""

    def __init__(self) -> None:
        self._by_reason: dict[str, Gap] = {}

    def add(self, gap: Gap) -> None:
        """Note a gap."""
        there = self._by_reason.get(gap.reason, Gap(gap.reason, 0))
        of = dict(there.of)
        for publisher, (first, last) in gap.of.items():
            if publisher in of or len(of) < NAMED_MAX:
                known = of.get(publisher, (first, last))
                of[publisher] = min(first, known[0]), max(last, known[1])
        count = None if there.count is None or gap.count is None else there.count + gap.count
        self._by_reason[gap.reason] = Gap(gap.reason, count, of)

    def tell(self) -> str:
        """Return all that was noted as a JSON array, and forget it; empty where there is none."""
        if not self._by_reason:
            return ""
        gaps, self._by_reason = self._by_reason, {}
        return json.dumps([gap.to_dict() for gap in gaps.values()], separators=(",", ":"))
