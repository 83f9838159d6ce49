"""The queue for a client that may read slowly: bounded in number and in bytes; shed events are named. Pure.

Rules
-----
* A queue never exceeds its limits, except for a single delivery that is itself larger than the limit.
* The oldest deliveries are shed. The gap is reported at the position where they would have come: by
  publisher, first and last number, and count.
* One gap names at most :data:`NAMED_MAX` publishers; the rest is counted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

NAMED_MAX: Final = 64


class Sized(Protocol):
    """What a queue requires of its items."""

    @property
    def publisher(self) -> str: ...  # noqa: D102
    @property
    def sequence(self) -> int: ...  # noqa: D102
    @property
    def size(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that a stream does not deliver.

    Attributes
    ----------
    reason
        ``"slow"``: the client did not take them in time; ``"network"``: they were lost or shed in the
        network; ``"absent"``: the stream is not durable, and was disconnected.
    count
        The number of events; None if it is not known.
    of
        The first and the last of them, by publisher. Events in between may have been delivered.
    """

    reason: str
    count: int | None = None
    of: dict[str, tuple[int, int]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the gap in the form sent to clients."""
        of = [{"publisher": name, "first": first, "last": last} for name, (first, last) in self.of.items()]
        return {"reason": self.reason, "count": self.count, "of": of}


T = TypeVar("T", bound=Sized)


class DeliveryQueue(Generic[T]):
    """Deliveries in order, within limits.

    Attributes
    ----------
    bytes
        The total size of the queued deliveries.
    shed
        The number of deliveries shed so far.
    """

    def __init__(self, events_max: int, bytes_max: int) -> None:
        self._events_max, self._bytes_max = events_max, bytes_max
        self._waiting: deque[T] = deque()
        self._gap_of: dict[str, tuple[int, int]] = {}
        self._gap_count = 0
        self.bytes = 0
        self.shed = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def has_room(self, size: int) -> bool:
        """Return whether one more delivery of that size fits; an empty queue accepts any size."""
        if not self._waiting:
            return True
        return len(self._waiting) < self._events_max and self.bytes + size <= self._bytes_max

    def put(self, item: T) -> None:
        """Append a delivery; the oldest are shed until it fits."""
        while not self.has_room(item.size):
            self._shed(self._waiting.popleft())
        self._waiting.append(item)
        self.bytes += item.size

    def _shed(self, item: T) -> None:
        self.bytes -= item.size
        self.shed += 1
        self._gap_count += 1
        first, _ = self._gap_of.get(item.publisher, (item.sequence, 0))
        if item.publisher in self._gap_of or len(self._gap_of) < NAMED_MAX:
            self._gap_of[item.publisher] = first, item.sequence

    @property
    def idle(self) -> bool:
        """Whether nothing is queued, and no shedding is unreported."""
        return not self._waiting and not self._gap_count

    def gap(self) -> Gap | None:
        """Return what was shed since the last call; the gap precedes the deliveries queued now."""
        if not self._gap_count:
            return None
        gap = Gap("slow", self._gap_count, self._gap_of)
        self._gap_count, self._gap_of = 0, {}
        return gap

    def take(self) -> T:
        """Remove and return the oldest delivery; IndexError if there is none."""
        item = self._waiting.popleft()
        self.bytes -= item.size
        return item
