"""How long notifications took, by the time of publication: rows of a bounded number, however long a game day is.

Rules
-----
* A row is of all events that were published in its time. When there would be more than :data:`ROWS_MAX` rows, each
  becomes twice as wide, and two are joined.
* Only the last :data:`EVENTS_MAX` events are remembered one by one: what comes later than that is not counted.
* Pure.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from ...protocol.ids import EventId

ROWS_MAX: Final = 240
EVENTS_MAX: Final = 10_000
FIRST_WIDTH_SECONDS: Final = 0.5


@dataclass(slots=True)
class LatencyRow:
    """What became of the events that were published in a time.

    Attributes
    ----------
    at_seconds, seconds
        When it begins, and how long it is.
    published, notified
        How many events, and how many notifications of them.
    fastest_seconds, slowest_seconds
        The shortest and the longest time from the call of the publisher to a notification; 0 if there is none.
    """

    at_seconds: float
    seconds: float
    published: int = 0
    notified: int = 0
    fastest_seconds: float = 0.0
    slowest_seconds: float = 0.0

    def took(self, seconds: float) -> None:
        """Count a notification that took so long."""
        self._join(1, seconds, seconds)

    def add(self, other: LatencyRow) -> None:
        """Add the row that follows."""
        self.published += other.published
        if other.notified:
            self._join(other.notified, other.fastest_seconds, other.slowest_seconds)

    def _join(self, notified: int, fastest: float, slowest: float) -> None:
        self.fastest_seconds = min(self.fastest_seconds, fastest) if self.notified else fastest
        self.slowest_seconds = max(self.slowest_seconds, slowest)
        self.notified += notified

    def to_dict(self) -> dict[str, object]:
        """Return it as plain data."""
        return asdict(self)


class Latencies:
    """The rows of a game day, as they come to be.

    Parameters
    ----------
    rows_max, events_max
        The maximum number of rows, and of events that are remembered.
    """

    def __init__(self, rows_max: int = ROWS_MAX, events_max: int = EVENTS_MAX) -> None:
        self._rows_max, self._events_max = rows_max, events_max
        self._width = FIRST_WIDTH_SECONDS
        self._rows: dict[int, LatencyRow] = {}
        self._published_at: dict[EventId, float] = {}

    def published(self, now: float, event: EventId) -> None:
        """Count an event."""
        while now >= self._width * self._rows_max:
            self._widen()
        self._row(now).published += 1
        self._published_at[event] = now
        if len(self._published_at) > self._events_max:
            del self._published_at[next(iter(self._published_at))]

    def notified(self, now: float, event: EventId) -> None:
        """Count a notification of an event."""
        if (began := self._published_at.get(event)) is not None:
            self._row(began).took(max(0.0, round(now - began, 6)))

    def rows(self) -> list[LatencyRow]:
        """Return the rows, in order; a time in which nothing was published has none."""
        return [self._rows[place] for place in sorted(self._rows)]

    def _row(self, at: float) -> LatencyRow:
        place = max(0, int(at / self._width))
        if place not in self._rows:
            self._rows[place] = LatencyRow(place * self._width, self._width)
        return self._rows[place]

    def _widen(self) -> None:
        narrow = self.rows()
        self._width *= 2.0
        self._rows = {}
        for row in narrow:
            self._row(row.at_seconds).add(row)


__all__ = ["Latencies", "LatencyRow"]
