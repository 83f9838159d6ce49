"""The failure detector: how long a broker may be silent before it is suspected (paper 1, 4.1: "for a period of time").

Rules
-----
* A slow sender is not a dead one. The adaptive detector keeps the last `GAPS_KEPT` gaps between arrivals of
  each sender. Its timeout for a sender is

      suspicion timeout = max(suspect_after_seconds, mean + suspect_deviations * deviation)

  A sender that is always slow, or often late, gets more time. A regular sender never gets less than
  `suspect_after_seconds`. The "fixed" detector always waits `suspect_after_seconds`, as in the paper.
* One very long gap does not blind the detector. A gap counts for at most `GAP_MAX` times the suspicion timeout that it
  exceeded, and no suspicion timeout exceeds `SUSPICION_TIMEOUT_MAX` times `suspect_after_seconds`. The timeout
  therefore grows step by step while a sender remains slow, and a dead sender is always suspected in the end.
* A sender is suspected when it has been silent for *longer* than its suspicion timeout, or when its process is known to
  be dead. The suspicion ends when the sender is heard or forgotten.

Pure arithmetic on times that the caller supplies. All times come from one clock and never go back.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import Recovery

GAPS_KEPT: Final = 16
"""The number of arrival gaps of one sender from which its suspicion timeout is computed."""

GAP_MAX: Final = 1.25
"""The maximum that one gap counts, in suspicion timeouts of that time; above 1, so that these can grow."""

SUSPICION_TIMEOUT_MAX: Final = 4.0
"""The longest suspicion timeout, as a multiple of `suspect_after_seconds`."""


def mean_and_deviation(gaps: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the population standard deviation of the gaps; zeros if there are none."""
    if not gaps:
        return 0.0, 0.0
    mean = math.fsum(gaps) / len(gaps)
    return mean, math.sqrt(math.fsum((gap - mean) ** 2 for gap in gaps) / len(gaps))


def suspicion_timeout_for(gaps: Sequence[float], recovery: Recovery) -> float:
    """Return how many seconds a sender with these arrival gaps may be silent."""
    least = recovery.suspect_after_seconds
    if recovery.detector == "fixed":
        return least
    mean, deviation = mean_and_deviation(gaps)
    return min(max(least, mean + recovery.suspect_deviations * deviation), SUSPICION_TIMEOUT_MAX * least)


@dataclass(slots=True)
class _Sender:
    """The record of one sender."""

    heard_at: float
    suspicion_timeout: float
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=GAPS_KEPT))


class Detector:
    """Tells which of the senders that a broker listens to have been silent for too long.

    Parameters
    ----------
    recovery
        The kind of detector and its timeouts.
    """

    __slots__ = ("_recovery", "_senders")

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self._senders: dict[BrokerId, _Sender] = {}

    def expect(self, sender: BrokerId, now: float) -> None:
        """Start to wait for a sender as if it had been heard now, without counting a gap."""
        known = self._senders.get(sender)
        if known is None:
            self._senders[sender] = _Sender(now, suspicion_timeout_for((), self._recovery))
        else:
            known.heard_at = now

    def heard(self, sender: BrokerId, now: float) -> None:
        """Record a sign of life. The first one from a sender starts its record."""
        known = self._senders.get(sender)
        if known is None:
            self.expect(sender, now)
            return
        if known.heard_at > -math.inf:  # else it was said to be dead, and how long it was silent is not known
            known.gaps.append(min(now - known.heard_at, GAP_MAX * known.suspicion_timeout))
        known.heard_at = now
        known.suspicion_timeout = suspicion_timeout_for(known.gaps, self._recovery)

    def was_heard(self, sender: BrokerId, moments: Sequence[float]) -> None:
        """Record signs of life from a period without reports, in rising order; only the last `GAPS_KEPT` gaps count."""
        if len(moments) > GAPS_KEPT:
            self.expect(sender, moments[0])
        for moment in moments:
            if moment > self._senders[sender].heard_at:
                self.heard(sender, moment)

    def excuse(self, seconds: float) -> None:
        """Count so many seconds, which follow, as silence of nobody."""
        for known in self._senders.values():
            known.heard_at += seconds

    def learn_dead(self, sender: BrokerId) -> None:
        """Suspect a sender at once, since its process is known to be dead; nothing if the sender is unknown."""
        if sender in self._senders:
            self._senders[sender].heard_at = -math.inf

    def forget(self, sender: BrokerId) -> None:
        """Stop waiting for this sender and discard its record."""
        self._senders.pop(sender, None)

    def suspicion_timeout(self, sender: BrokerId) -> float:
        """Return how many seconds the sender may be silent at present; the minimum if the sender is unknown."""
        known = self._senders.get(sender)
        return suspicion_timeout_for((), self._recovery) if known is None else known.suspicion_timeout

    def deadline(self, sender: BrokerId) -> float:
        """Return the time after which the sender is suspected, unless it is heard before.

        Raises
        ------
        KeyError
            If the detector does not wait for the sender.
        """
        known = self._senders[sender]
        return known.heard_at + known.suspicion_timeout

    def suspects(self, now: float) -> list[BrokerId]:
        """Return the senders that have been silent for longer than their suspicion timeout, in rising order."""
        return sorted(sender for sender in self._senders if now > self.deadline(sender))
