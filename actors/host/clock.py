"""The clock of one host: the time that its brokers are told.

Rules
-----
* It is the wall clock as it was at the start, behind by as long as the network stood still, and monotonic since then.
* A broker is late that was not told the time for a heartbeat, because its process was suspended or busy. Before brokers
  are told the time regularly, none is late.
"""

from __future__ import annotations

import time


class Clock:
    """The time of one host's brokers.

    Parameters
    ----------
    late_seconds
        How long after it was last told the time a broker is late; infinite where none ever is.
    still_seconds
        How far the clock of the network is behind the wall clock.

    Attributes
    ----------
    ticks
        Whether brokers are told the time regularly.
    """

    def __init__(self, late_seconds: float, still_seconds: float) -> None:
        self._late_seconds = late_seconds
        self._zero = time.time() - time.monotonic() - still_seconds
        self.ticks = False

    def now(self) -> float:
        """Return the time that brokers are told."""
        return self._zero + time.monotonic()

    def behind(self) -> float:
        """Return by how many seconds that is behind the wall clock, on which events expire."""
        return time.time() - self.now()

    def begin(self) -> None:
        """Note that brokers are told the time regularly from now on."""
        self.ticks = True

    def is_late(self, ticked_at: float) -> bool:
        """Return whether a broker that was last told the time then is late."""
        return self.ticks and self.now() - ticked_at > self._late_seconds
