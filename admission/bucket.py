"""How a publisher is held to the rate that it advertised: a token bucket, as a function of time.

Rule: tokens come in at `rate` a second, up to `burst`; an event takes one. Over any stretch of t seconds at most
``burst + rate * t`` events pass.

Source: paper 3, section 3.1 (the system keeps a publisher to its v_pmax).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..protocol.errors import InputError


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """A bucket as it was at `at` seconds.

    Attributes
    ----------
    rate
        Events per second.
    burst
        Events that may pass at once after a pause.
    tokens, at
        What was in it, and when.
    """

    rate: float
    burst: float
    tokens: float
    at: float

    @classmethod
    def full(cls, rate: float, now: float, burst: float | None = None) -> TokenBucket:
        """Return a full bucket; without a `burst` it holds one second's events, and one at least.

        Raises
        ------
        InputError
            If the rate is not above 0, or the burst below 1.
        """
        burst = max(1.0, rate) if burst is None else burst
        if not rate > 0 or not burst >= 1:
            raise InputError(f"rate {rate!r}, burst {burst!r}: they must be above 0, and from 1")
        return cls(rate, burst, burst, now)

    def _filled(self, now: float) -> float:
        return min(self.burst, self.tokens + self.rate * max(0.0, now - self.at))

    def take(self, events: int, now: float) -> tuple[TokenBucket, int]:
        """Return the bucket after as many of `events` as may pass at `now`, and how many these are."""
        there = self._filled(now)
        passed = min(events, int(there + 1e-9))
        return replace(self, tokens=max(0.0, there - passed), at=max(now, self.at)), passed

    def wait_seconds(self, events: int, now: float) -> float:
        """Return how long after `now` that many events may pass, or a full bucket's worth if that is fewer."""
        lacking = min(float(events), self.burst) - self._filled(now)
        return lacking / self.rate if lacking > 1e-9 else 0.0

    def pay(self, events: int, now: float) -> TokenBucket:
        """Return the bucket after as many events have passed at `now` at once, be it that it owes for some of them."""
        return replace(self, tokens=self._filled(now) - events, at=max(now, self.at))

    def fill(self, now: float) -> float:
        """Return how full it is, from 0 to 1; below 0 where it owes."""
        return self._filled(now) / self.burst

    def at_rate(self, rate: float, burst: float, now: float) -> TokenBucket:
        """Return the bucket with another rate and burst from `now` on, as full as it is."""
        return TokenBucket(rate, burst, self.fill(now) * burst, max(now, self.at))
