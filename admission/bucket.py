"""A token bucket as a function of time, which holds a publisher to the rate that it advertised.

Rule: tokens are added at `rate` a second, up to `burst`; an event takes one. In any period of t seconds at
most ``burst + rate * t`` events pass.

Source: paper 3, section 3.1 (the system holds a publisher to its v_pmax).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..protocol.errors import InputError


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """The state of a bucket at `at` seconds.

    Attributes
    ----------
    rate
        Events per second.
    burst
        The number of events that may pass at once after a pause.
    tokens, at
        The number of tokens in it, and the time of that.
    """

    rate: float
    burst: float
    tokens: float
    at: float

    @classmethod
    def full(cls, rate: float, now: float, burst: float | None = None) -> TokenBucket:
        """Return a full bucket. Without `burst` its size is one second's events, and at least one.

        Raises
        ------
        InputError
            If the rate is not above 0, or the burst below 1.
        """
        burst = max(1.0, rate) if burst is None else burst
        if not rate > 0 or not burst >= 1:
            raise InputError(
                f"rate {rate!r}, burst {burst!r}: the rate must be above 0, the burst at least 1"
            )
        return cls(rate, burst, burst, now)

    def _filled(self, now: float) -> float:
        return min(self.burst, self.tokens + self.rate * max(0.0, now - self.at))

    def take(self, events: int, now: float) -> tuple[TokenBucket, int]:
        """Return the bucket after as many of `events` as may pass at `now`, and how many passed."""
        there = self._filled(now)
        passed = min(events, int(there + 1e-9))
        return replace(self, tokens=max(0.0, there - passed), at=max(now, self.at)), passed

    def wait_seconds(self, events: int, now: float) -> float:
        """Return how long after `now` that many events, or a full bucket's worth if fewer, may pass."""
        lacking = min(float(events), self.burst) - self._filled(now)
        return lacking / self.rate if lacking > 1e-9 else 0.0

    def pay(self, events: int, now: float) -> TokenBucket:
        """Return the bucket after `events` events have passed together at `now`; its tokens may fall below 0."""
        return replace(self, tokens=self._filled(now) - events, at=max(now, self.at))

    def fill(self, now: float) -> float:
        """Return the fill level, from 0 to 1; below 0 if tokens are owed."""
        return self._filled(now) / self.burst

    def at_rate(self, rate: float, burst: float, now: float) -> TokenBucket:
        """Return the bucket with another rate and burst from `now` on, and the same fill level."""
        return TokenBucket(rate, burst, self.fill(now) * burst, max(now, self.at))
