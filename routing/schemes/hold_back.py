"""Restores the order of messages that arrive over several routes: each number once, in increasing order.

Rules
-----
* A sender numbers its messages to one receiver from 1 without gaps. A message that arrives early waits; a
  duplicate is dropped.
* At most `held_max` messages wait. Past this limit the gap is given up, and the missing numbers are counted as lost.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from ...protocol.effects import Plain

T = TypeVar("T")

HELD_MAX: Final = 8192


class HoldBack(Generic[T]):
    """The next number of one sender, and the messages that arrived early.

    Attributes
    ----------
    lost
        How many numbers were given up.
    """

    def __init__(self, held_max: int = HELD_MAX) -> None:
        self.lost = 0
        self._next = 1
        self._early: dict[int, T] = {}
        self._held_max = held_max

    def __len__(self) -> int:
        """Return how many messages wait."""
        return len(self._early)

    @property
    def full(self) -> bool:
        """Whether the next early message would make it give up a gap."""
        return len(self._early) >= self._held_max

    @property
    def last(self) -> int:
        """The highest number that was delivered in order."""
        return self._next - 1

    def is_due(self, number: int) -> bool:
        """Return whether a number is next or a duplicate, so that it need not wait."""
        return number <= self._next

    def take(self, number: int, item: T) -> list[T]:
        """Accept a message and return the messages that are now due, in order."""
        if number < self._next or number in self._early:
            return []
        self._early[number] = item
        if len(self._early) > self._held_max:
            self._skip()
        return self._due()

    def give_up(self) -> list[T]:
        """Return all waiting messages in order, because the missing ones will not arrive any more."""
        due = []
        while self._early:
            self._skip()
            due += self._due()
        return due

    def snapshot(self) -> Plain:
        """Return the next number, the lost count and the waiting messages, for `restore`."""
        return self._next, self.lost, list(self._early.items())

    def restore(self, plain: Plain) -> None:
        """Restore the state from a snapshot."""
        self._next, self.lost, early = plain
        self._early = dict(early)

    def _skip(self) -> None:
        first = min(self._early)
        self.lost += first - self._next
        self._next = first

    def _due(self) -> list[T]:
        due = []
        while self._next in self._early:
            due.append(self._early.pop(self._next))
            self._next += 1
        return due
