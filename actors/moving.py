"""What a client keeps so that it can go on at another broker when its own dies.

Rules
-----
* A subscriber keeps, per publisher, the last sequence that it was handed. At its new broker it says these marks before
  it registers its subscriptions again; and what comes at or below a mark has come before and is dropped.
* A publisher keeps what it published, within retention, and publishes it again at its new broker, in order and under
  the same numbers and times, before anything newer.

Source: docs/decisions/0011-recovery.md.
"""

from __future__ import annotations

import threading
from collections import deque

import numpy as np

from ..protocol.batch import EventBatch, Rows


class Marks:
    """Per publisher the last sequence that a subscriber was handed; used on one event loop.

    Attributes
    ----------
    since
        When it first subscribed, in seconds since 1970. After a move, what was published before is not for it.
    """

    def __init__(self) -> None:
        self.since = float("inf")
        self._moved = False
        self._marks: dict[str, int] = {}

    def move(self) -> dict[str, int]:
        """Return the marks for a new broker."""
        self._moved = True
        return dict(self._marks)

    def admit(self, batch: EventBatch, rows: Rows) -> Rows:
        """Return those of the rows, which rise, that were not handed out before, and note that they are now."""
        if self._moved:
            rows = rows[batch.published_at[rows] >= self.since]
        publishers = batch.publisher[rows]
        keep = np.zeros(len(rows), np.bool_)
        for code in np.unique(publishers).tolist():
            name = batch.publishers[code]
            mine = np.flatnonzero(publishers == code)
            # A batch may have an event twice, when two copies were under way together.
            highest = np.maximum.accumulate([self._marks.get(name, 0), *batch.sequence[rows[mine]].tolist()])
            keep[mine] = highest[1:] > highest[:-1]
            self._marks[name] = int(highest[-1])
        return rows if keep.all() else rows[keep]


class Published:
    """What a publisher has published lately; used from any thread.

    Parameters
    ----------
    events_max, seconds
        How much is kept; the last batch always is.
    """

    def __init__(self, events_max: int, seconds: float) -> None:
        self._events_max = events_max
        self._seconds = seconds
        self._batches: deque[tuple[float, EventBatch]] = deque()
        self._events = 0
        self._lock = threading.Lock()

    def keep(self, now: float, batch: EventBatch) -> None:
        """Keep a batch that is published at `now` seconds, and let go of what is too much or too old."""
        with self._lock:
            self._batches.append((now, batch))
            self._events += len(batch)
            while len(self._batches) > 1 and (
                self._events > self._events_max or self._batches[0][0] < now - self._seconds
            ):
                self._events -= len(self._batches.popleft()[1])

    def kept(self, now: float) -> list[EventBatch]:
        """Return what there is to publish again at `now` seconds, in order."""
        with self._lock:
            return [batch for at, batch in self._batches if at >= now - self._seconds]
