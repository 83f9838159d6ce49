"""The events of one publisher that a consumer group has taken above its position: which of them are done, as ranges.

Rules
-----
* Events of a publisher come in order. So between two events that came after each other there is none of the
  subscription, and a range of what is done may pass over the numbers between them. Ranges are as many as there are
  gaps of events that are not done, whatever the subscription matches.
* The position passes what is done without a gap, as far as it has come here.
* What an earlier process has stored may never come again. It is forgotten when the position has passed it.
* While workers may still say that they hold events that have not come, neither the position nor a range passes over
  numbers: such an event may be among them. What they hold and has not come is never passed over.

Each call takes time in the logarithm of the events, but for a copy of memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection
from typing import Final, TypeAlias

Range: TypeAlias = tuple[int, int]
"""The first and the last number."""

KEPT_MAX: Final = 1_000
"""How many numbers below the position are kept at least before they are cut off."""


class Taken:
    """The events of one publisher.

    Parameters
    ----------
    position
        The last number that is done with all before it.
    done
        What is done above it, as rising ranges.
    waits
        Whether workers may still say that they hold events, until `open`.

    Attributes
    ----------
    position
        As above, now.
    """

    def __init__(self, position: int = 0, done: Collection[Range] = (), *, waits: bool = False) -> None:
        self.position, self._waits = position, waits
        self._firsts = [first for first, _ in done]
        self._lasts = [last for _, last in done]
        self._numbers: list[int] = []  # that came, rising; those above the position begin at `_begin`
        self._begin = 0
        self._held: list[int] = []  # and has not come, rising

    def __len__(self) -> int:
        """Return how many events came that the position has not passed."""
        return len(self._numbers) - self._begin

    @property
    def holds(self) -> bool:
        """Whether a worker holds events that have not come."""
        return bool(self._held)

    @property
    def done(self) -> list[Range]:
        """What is done above the position."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def is_done(self, number: int) -> bool:
        """Return whether an event is done."""
        return number <= self.position or self._range_of(number) is not None

    def _range_of(self, number: int) -> int | None:
        place = bisect_right(self._firsts, number) - 1
        return place if place >= 0 and number <= self._lasts[place] else None

    def take(self, number: int) -> bool:
        """Take an event above the position; return whether it is not done."""
        place = bisect_left(self._numbers, number, self._begin)
        if place == len(self._numbers) or self._numbers[place] != number:
            self._numbers.insert(place, number)
        if self._range_of(number) is None:
            return True
        self._advance()
        return False

    def finish(self, number: int) -> None:
        """Record that an event is done, which was not."""
        if self.is_done(number):
            return
        place = bisect_left(self._numbers, number, self._begin)
        above = bisect_right(self._firsts, number)  # the range behind it
        if self._waits:
            joins_last = above > 0 and self._lasts[above - 1] == number - 1
            joins_next = above < len(self._firsts) and self._firsts[above] == number + 1
        elif place < len(self._numbers) and self._numbers[place] == number:
            before = self._numbers[place - 1] if place > self._begin else self.position
            joins_last = above > 0 and self._lasts[above - 1] >= before and self._are_free(before, number)
            after = self._numbers[place + 1 : place + 2]
            joins_next = above < len(self._firsts) and bool(after) and self._firsts[above] <= after[0]
            joins_next = joins_next and self._are_free(number, after[0])
        else:  # what is before it has not come yet
            joins_last = joins_next = False
        if joins_last and joins_next:
            del self._firsts[above], self._lasts[above - 1]
        elif joins_last:
            self._lasts[above - 1] = number
        elif joins_next:
            self._firsts[above] = number
        else:
            self._firsts.insert(above, number)
            self._lasts.insert(above, number)
        self._advance()

    def open(self) -> None:
        """Record that workers have said what they hold."""
        self._waits = False
        self._advance()

    def hold(self, number: int) -> None:
        """Record that a worker holds an event that has not come and is not done."""
        insort(self._held, number)

    def let_go(self, number: int) -> None:
        """Record that it has come, or is held no more."""
        self._held.remove(number)
        self._advance()

    def _are_free(self, low: int, high: int) -> bool:
        """Return whether no worker holds an event between two that have come."""
        place = bisect_right(self._held, low)
        return place == len(self._held) or self._held[place] > high

    def _advance(self) -> None:
        while not self._waits and self._begin < len(self._numbers):
            place = self._range_of(self._numbers[self._begin])
            if place is None or (self._held and self._held[0] < self._numbers[self._begin]):
                break
            self._begin = bisect_right(self._numbers, self._lasts[place], self._begin)
            self.position = self._numbers[self._begin - 1]
            passed = place + (self._lasts[place] <= self.position)
            del self._firsts[:passed], self._lasts[:passed]
            if passed == place:  # the rest of it has not come yet
                self._firsts[0] = self.position + 1
        if self._begin > max(KEPT_MAX, len(self)):
            del self._numbers[: self._begin]
            self._begin = 0
