"""What waits for a client that may read slowly: bounded in number and in bytes; what is shed is named. Pure.

Rules
-----
* A queue never holds more than its limits, but for one delivery that is larger than the limit by itself.
* What is shed is the oldest, and is told in the place where it would have come: by publisher, first and last number,
  count.
* At most :data:`NAMED_MAX` publishers are named in one gap; the rest is counted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

NAMED_MAX: Final = 64


class Sized(Protocol):
    """What a queue asks of what waits in it."""

    @property
    def publisher(self) -> str: ...  # noqa: D102
    @property
    def sequence(self) -> int: ...  # noqa: D102
    @property
    def size(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that a stream does not bring.

    Attributes
    ----------
    reason
        ``"slow"``: the client did not take them in time; ``"network"``: they were lost on their way, or shed there;
        ``"absent"``: the stream is not durable, and was away.
    count
        How many; None when that is not known.
    of
        By publisher the first and the last of them. Between these some may have come.
    """

    reason: str
    count: int | None = None
    of: dict[str, tuple[int, int]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as it is told to clients."""
        of = [{"publisher": name, "first": first, "last": last} for name, (first, last) in self.of.items()]
        return {"reason": self.reason, "count": self.count, "of": of}


T = TypeVar("T", bound=Sized)


class DeliveryQueue(Generic[T]):
    """Deliveries in order, within limits.

    Attributes
    ----------
    bytes
        The size of all that waits.
    shed
        How many were shed since the beginning.
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
        """Return whether one more of that size fits in; into an empty queue anything does."""
        if not self._waiting:
            return True
        return len(self._waiting) < self._events_max and self.bytes + size <= self._bytes_max

    def put(self, item: T) -> None:
        """Take one more in; the oldest are shed until it fits."""
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
        """Whether nothing waits, and nothing was shed that is not told."""
        return not self._waiting and not self._gap_count

    def gap(self) -> Gap | None:
        """Return what was shed since it was asked for last; it stands before what waits now."""
        if not self._gap_count:
            return None
        gap = Gap("slow", self._gap_count, self._gap_of)
        self._gap_count, self._gap_of = 0, {}
        return gap

    def take(self) -> T:
        """Return the oldest that waits; IndexError when none does."""
        item = self._waiting.popleft()
        self.bytes -= item.size
        return item
