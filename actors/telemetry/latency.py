"""Recent latencies of notifications: hosts count them in buckets; readers add up the counts and compute quantiles.

Rules
-----
* Buckets are on a logarithmic scale, so a quantile is accurate to a factor of `STEP` for all latencies.
* Counts older than `SECONDS` are dropped, in slots of a sixth of that time. A host stores a few hundred numbers.
* A batch counts with the mean time of its notifications, as in the histogram for Prometheus.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

SECONDS: Final = 60.0
"""The minimum age up to which counts are included; the maximum is one slot more."""

STEP: Final = 1.1
"""The ratio of the times of consecutive buckets."""

_SLOTS: Final = 6
_SHORTEST_SECONDS: Final = 1e-4
_LAST_BUCKET: Final = math.ceil(math.log(1000.0 / _SHORTEST_SECONDS, STEP))


class RecentLatencies:
    """How many notifications had which latency in the last minute."""

    def __init__(self) -> None:
        self._slots: dict[int, dict[int, int]] = {}

    def add(self, now: float, seconds: float, count: int) -> None:
        """Count the notifications of a batch, with their mean latency, at a time in seconds."""
        slot = int(now // (SECONDS / _SLOTS))
        if slot not in self._slots:
            self._slots[slot] = {}
            self._forget(slot)
        bucket = _bucket(seconds)
        counts = self._slots[slot]
        counts[bucket] = counts.get(bucket, 0) + count

    def counts(self, now: float) -> dict[int, int]:
        """Return the counts of the last minute, by bucket."""
        self._forget(int(now // (SECONDS / _SLOTS)))
        return together(self._slots.values())

    def _forget(self, slot: int) -> None:
        for old in [each for each in self._slots if not slot - _SLOTS <= each <= slot]:
            del self._slots[old]


def _bucket(seconds: float) -> int:
    if seconds <= _SHORTEST_SECONDS:
        return 0
    return min(_LAST_BUCKET, math.ceil(math.log(seconds / _SHORTEST_SECONDS, STEP)))


def together(counts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return the sum of the counts of several hosts or slots."""
    out: dict[int, int] = {}
    for each in counts:
        for bucket, count in each.items():
            out[bucket] = out.get(bucket, 0) + count
    return out


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """Return this quantile of the latencies in seconds, to a factor of `STEP`; None if there were none."""
    left = share * sum(counts.values())
    for bucket in sorted(counts):
        left -= counts[bucket]
        if left <= 0:
            return _SHORTEST_SECONDS * STEP**bucket
    return None
