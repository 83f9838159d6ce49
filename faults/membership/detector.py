"""Suspicion: how long a broker may be silent before it counts as dead (paper 1, 4.1: "for a period of time").

Rules
-----
* Slow is not dead. The adaptive detector keeps the last `GAPS_KEPT` gaps between arrivals of each sender and waits

      patience = max(suspect_after_seconds, mean + suspect_deviations * deviation)

  so a sender that is always slow, or is often late, gets more time; one that is regular never gets less than
  `suspect_after_seconds`. "fixed" waits `suspect_after_seconds` always (the paper).
* One very long gap does not make it blind: a gap counts at most as `GAP_MAX` times the patience that it outlasted, and
  no patience is above `PATIENCE_MAX` times `suspect_after_seconds`. So patience grows step by step, while a sender
  keeps being slow, and a dead one is suspected in the end whatever it did before.
* Suspect is who has been silent for *longer* than its patience; it stays so until it is heard or forgotten.

Pure arithmetic on moments that the caller gives; they are on one clock, and never go back.
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
"""Arrival gaps of one sender that its patience is made from."""

GAP_MAX: Final = 1.25
"""The longest that a gap can count, in patiences at its time; above 1, so that patience can follow a slow sender."""

PATIENCE_MAX: Final = 4.0
"""The longest patience, in `suspect_after_seconds`."""


def mean_and_deviation(gaps: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation (of the whole, not of a sample) of the gaps; zeros for none."""
    if not gaps:
        return 0.0, 0.0
    mean = math.fsum(gaps) / len(gaps)
    return mean, math.sqrt(math.fsum((gap - mean) ** 2 for gap in gaps) / len(gaps))


def patience_for(gaps: Sequence[float], recovery: Recovery) -> float:
    """Return how many seconds a sender with these arrival gaps may be silent."""
    least = recovery.suspect_after_seconds
    if recovery.detector == "fixed":
        return least
    mean, deviation = mean_and_deviation(gaps)
    return min(max(least, mean + recovery.suspect_deviations * deviation), PATIENCE_MAX * least)


@dataclass(slots=True)
class _Sender:
    """What is kept of one sender."""

    heard_at: float
    patience: float
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=GAPS_KEPT))


class Detector:
    """Who of the senders that this broker listens to is silent for too long.

    Parameters
    ----------
    recovery
        The kind of detector and its times.
    """

    __slots__ = ("_recovery", "_senders")

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self._senders: dict[BrokerId, _Sender] = {}

    def expect(self, sender: BrokerId, now: float) -> None:
        """Begin to wait for a sender as if it had been heard now, without counting a gap."""
        known = self._senders.get(sender)
        if known is None:
            self._senders[sender] = _Sender(now, patience_for((), self._recovery))
        else:
            known.heard_at = now

    def heard(self, sender: BrokerId, now: float) -> None:
        """Take note of a sign of life; the first of a sender begins its record."""
        known = self._senders.get(sender)
        if known is None:
            self.expect(sender, now)
            return
        known.gaps.append(min(now - known.heard_at, GAP_MAX * known.patience))
        known.heard_at = now
        known.patience = patience_for(known.gaps, self._recovery)

    def was_heard(self, sender: BrokerId, moments: Sequence[float]) -> None:
        """Take note of signs of life while nobody told of them, rising; of more than are kept, the last ones."""
        if len(moments) > GAPS_KEPT:
            self.expect(sender, moments[0])
        for moment in moments:
            if moment > self._senders[sender].heard_at:
                self.heard(sender, moment)

    def forget(self, sender: BrokerId) -> None:
        """Wait for this sender no longer, and lose what was learned of it."""
        self._senders.pop(sender, None)

    def patience(self, sender: BrokerId) -> float:
        """Return how many seconds the sender may be silent, as it stands; the least for one that is not known."""
        known = self._senders.get(sender)
        return patience_for((), self._recovery) if known is None else known.patience

    def deadline(self, sender: BrokerId) -> float:
        """Return the moment after which the sender is suspect, if it is not heard before.

        Raises
        ------
        KeyError
            If nobody waits for the sender.
        """
        known = self._senders[sender]
        return known.heard_at + known.patience

    def suspects(self, now: float) -> list[BrokerId]:
        """Return who has been silent for longer than its patience, rising."""
        return sorted(sender for sender in self._senders if now > self.deadline(sender))
