"""When an event has waited too long: one rule for both hosts.

Rules
-----
* An event that has waited at one broker for longer than the deadline is dropped there: for its turn at the broker, from
  when it was handed over, or for its turn on a link. What it waited for elsewhere does not count, so one that takes
  long over many brokers is not dropped.
* Clients that hold events back, and quotas of publishers, are no broker's queue.

Source: paper 3, section 5.1 (5 s).
"""

from __future__ import annotations


def too_long(since: float | None, now: float, deadline_seconds: float | None) -> bool:
    """Return whether what waits since then is to be dropped; None for what does not wait, and for no deadline."""
    return since is not None and deadline_seconds is not None and now - since > deadline_seconds
