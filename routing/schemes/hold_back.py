"""Puts what comes over several ways back into its order: each number once, none before the one below it.

Rules
-----
* A sender numbers what it directs to one receiver from 1 without gaps. What comes early waits; what has been had
  already is dropped.
* No more than `held_max` wait. Past it the gap is given up: what is missing counts as lost, by name, never silently.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from ...protocol.effects import Plain

T = TypeVar("T")

HELD_MAX: Final = 8192


class HoldBack(Generic[T]):
    """The next number of one sender, and what came before its turn.

    Attributes
    ----------
    lost
        Numbers that were given up.
    """

    def __init__(self, held_max: int = HELD_MAX) -> None:
        self.lost = 0
        self._next = 1
        self._early: dict[int, T] = {}
        self._held_max = held_max

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._early)

    @property
    def full(self) -> bool:
        """Whether the next one that comes early lets a gap be given up."""
        return len(self._early) >= self._held_max

    @property
    def last(self) -> int:
        """The highest number that has come in its turn."""
        return self._next - 1

    def is_due(self, number: int) -> bool:
        """Return whether a number need not wait, or has been had already."""
        return number <= self._next

    def take(self, number: int, item: T) -> list[T]:
        """Take one in and return what is due now, in order."""
        if number < self._next or number in self._early:
            return []
        self._early[number] = item
        if len(self._early) > self._held_max:
            self._skip()
        return self._due()

    def give_up(self) -> list[T]:
        """Return all that waits, in order: what is missing will not come any more."""
        due = []
        while self._early:
            self._skip()
            due += self._due()
        return due

    def snapshot(self) -> Plain:
        """Return what it waits for, what was given up and what waits; `restore` takes it."""
        return self._next, self.lost, list(self._early.items())

    def restore(self, plain: Plain) -> None:
        """Be as the one was whose snapshot that is."""
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
