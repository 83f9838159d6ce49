"""How much a broker carries: events per second, for whoever asks it to take another child (paper 1, figure 3).

Rule: the rate is that of the last whole window; so a burst counts for one window at most, and silence is seen in two.
"""

from __future__ import annotations

from typing import Final

WINDOW_SECONDS: Final = 1.0


class Load:
    """The events per second that one broker handles.

    Attributes
    ----------
    events_per_second
        In the last window that has ended.
    """

    __slots__ = ("_events", "_since", "events_per_second")

    def __init__(self) -> None:
        self.events_per_second = 0.0
        self._events = 0
        self._since: float | None = None

    def count(self, events: int) -> None:
        """Note that events were handled."""
        self._events += events

    def tick(self, now: float) -> None:
        """Take in the time, in seconds; it never goes back."""
        if self._since is None:
            self._since = now
        elif now - self._since >= WINDOW_SECONDS:
            self.events_per_second = self._events / (now - self._since)
            self._events, self._since = 0, now
