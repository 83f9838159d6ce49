"""Chaos without loss: retention so large that no loss is explained, so that every event has to come.

Rules
-----
* Nothing that the seed draws changes, but the limits on what is retained. What little retention a case with
  stores has drawn is lifted, too.
* A loss that any limit explains is then a problem of the run. Otherwise a system that reports what it should
  deliver as lost would pass, wherever retention is an excuse.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from .cases import Case

UNLIMITED: Final[dict[str, Any]] = {
    "retention_events_max": 10**9,
    "retention_bytes_max": 2**50,
    "retention_seconds": 1e9,
    "durable_events_max": 10**9,
    "durable_bytes_max": 2**50,
    "durable_seconds": 1e9,
}
"""Limits that no run reaches."""


def without_limits(case: Case) -> Case:
    """Return a case in which nothing has to be forgotten, and no loss is excused."""
    recovery = replace(case.features.times, **UNLIMITED) if case.features.heals else None
    return replace(case, recovery=recovery, lossless=True)
