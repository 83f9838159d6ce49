"""The deadline after which a waiting event is dropped: one rule for both hosts.

Rules
-----
* An event that has waited at one broker for longer than the deadline is dropped there. It may have waited for
  its turn at the broker, counted from when it was handed over, or for its turn on a link. Time that it waited
  elsewhere does not count, so an event that takes long over many brokers is not dropped.
* Events held back by clients or by quotas of publishers are not in a broker's queue.

Source: paper 3, section 5.1 (5 s).
"""

from __future__ import annotations


def too_long(since: float | None, now: float, deadline_seconds: float | None) -> bool:
    """Return whether an event that waits since `since` is to be dropped; None means no wait, or no deadline."""
    return since is not None and deadline_seconds is not None and now - since > deadline_seconds
