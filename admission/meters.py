"""Measured rates: the highest rate of a publisher, the highest intake of a broker, and how long events wait.

Rule: all use only the times and counts that the caller supplies.

Source: paper 3, sections 3.1 (a default rate from history) and 4.1 (the highest rate seen at the utilisation
limit).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ..protocol.checks import number

_TENTHS: Final = 10


@dataclass(slots=True)
class RateHistory:
    """The highest rate of a publisher over any complete window.

    Attributes
    ----------
    window_seconds
        The length of a window.
    highest
        Events per second in the busiest window so far; None before anything was published.
    """

    window_seconds: float = 1.0
    highest: float | None = None
    _window: int = -1
    _count: int = 0

    def saw(self, events: int, now: float) -> None:
        """Record events published at `now` seconds."""
        window = int(now // self.window_seconds)
        self._count = self._count + events if window == self._window else events
        self._window = window
        self.highest = max(self.highest or 0.0, self._count / self.window_seconds)

    def rate(self, given: float | None, default: float) -> float:
        """Return a publisher's maximum rate: the rate that it gives, else its highest rate, else the default.

        Raises
        ------
        InputError
            If the given value is not a valid rate.
        """
        return number("max_rate", self.highest or default if given is None else given, above=True)


@dataclass(slots=True)
class CapacityMeter:
    """The highest event rate that was measured while the CPU was at its limit.

    Attributes
    ----------
    utilisation_max
        The share of one CPU that counts as the limit, 0 to 1.
    highest
        Events per second; 0 until the limit has been reached (the paper's initial value: nothing is known).
    """

    utilisation_max: float
    highest: float = 0.0
    _before: tuple[float, float, int] | None = None

    def sample(self, now: float, cpu_seconds: float, events: int) -> bool:
        """Record the clock, the CPU time and the events so far; return whether `highest` rose."""
        before, self._before = self._before, (now, cpu_seconds, events)
        if before is None or now <= before[0]:
            return False
        seconds = now - before[0]
        rate = (events - before[2]) / seconds
        if (cpu_seconds - before[1]) / seconds < self.utilisation_max or rate <= self.highest:
            return False
        self.highest = rate
        return True


@dataclass(slots=True)
class DelayMeter:
    """The longest wait of events at one place, over the last `window_seconds` or a tenth more.

    Of n waits that are alike (exchangeable) and one more, the last is the longest with probability 1 / (n + 1). So the
    next event waits longer than the `highest` of n with that probability.
    """

    window_seconds: float
    _tenths: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_TENTHS + 1))

    def saw(self, seconds: float, now: float) -> None:
        """Record that events waited so long, at `now` seconds."""
        tenth = self._tenth(now)
        if self._tenths and self._tenths[-1][0] == tenth:
            seconds = max(seconds, self._tenths.pop()[1])
        self._tenths.append((tenth, seconds))

    def highest(self, now: float) -> float:
        """Return the longest wait, in seconds; 0 if nothing has waited."""
        first = self._tenth(now) - _TENTHS
        return max((seconds for tenth, seconds in self._tenths if tenth >= first), default=0.0)

    def _tenth(self, now: float) -> int:
        return int(now / self.window_seconds * _TENTHS)
