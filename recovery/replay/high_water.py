"""The highest number of each publisher that a broker knows of: from these numbers its subscriptions begin.

Rules
-----
* A broker learns a number from every event that it takes in, for whomever the event is, and from other brokers:
  they state what they know when they confirm a filter, and when they join each other.
* Numbers of a publisher only rise. An event that is published after a subscription was confirmed has a higher
  number than any that existed then. So what the broker knows at the confirmation is a *position*: nothing up to it
  is owed to the subscription, and everything after the confirmation is beyond it.
* What another broker was told over a link is not repeated over that link, unless the link is new. If such a
  message is lost, a position may be too low, never too high.
* A publisher that nothing was heard of for so long that nobody can retain its events is forgotten, and so is the
  longest silent one beyond a limit.

Source: promise 1; paper 4, definition 9; docs/decisions/0107-a-subscription-begins-at-a-position.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from ...protocol.batch import EventBatch
from ...protocol.ids import ClientId, Link

PUBLISHERS_MAX: Final = 65_536
"""How many publishers are known at most."""

Marks: TypeAlias = Mapping[ClientId, int]
"""The highest known number of each publisher. It does not change."""

NOTHING: Final[Marks] = {}


class _Mark(NamedTuple):
    """A publisher's highest number, the change that brought it, and when that was."""

    number: int
    change: int
    at: float


class HighWater:
    """The numbers that one broker knows.

    Parameters
    ----------
    seconds
        How long a publisher is known after the last news of it: longer than anybody retains an event.
    publishers_max
        How many publishers are known at most.
    """

    def __init__(self, seconds: float = math.inf, publishers_max: int = PUBLISHERS_MAX) -> None:
        self._seconds = seconds
        self._publishers_max = publishers_max
        self._now = 0.0
        self._changes = 0
        self._marks: dict[ClientId, _Mark] = {}  # the one that changed last comes last
        self._told: dict[Link, int] = {}  # the last change that is known behind a link
        self._known: tuple[int, dict[ClientId, int]] = 0, {}

    def __len__(self) -> int:
        """Return how many publishers are known."""
        return len(self._marks)

    # Learning.

    def learn(self, publisher: ClientId, number: int) -> None:
        """Note that a publisher has used a number."""
        known = self._marks.get(publisher)
        if known is not None:
            if known.number >= number:
                return
            del self._marks[publisher]
        elif len(self._marks) >= self._publishers_max:
            del self._marks[next(iter(self._marks))]
        self._changes += 1
        self._marks[publisher] = _Mark(number, self._changes, self._now)

    def saw(self, batch: EventBatch) -> None:
        """Note the numbers of events."""
        names, sequence = batch.publishers, batch.sequence
        size = len(sequence)
        if not size:
            return
        if len(names) == 1:
            self.learn(names[0], int(sequence[0] if size == 1 else sequence.max()))
            return
        highest = np.zeros(len(names), np.int64)
        np.maximum.at(highest, batch.publisher, sequence)
        for name, number in zip(names, highest.tolist(), strict=True):
            if number:
                self.learn(name, number)

    def taught(self, marks: Marks) -> None:
        """Note what another broker knows."""
        for publisher, number in marks.items():
            self.learn(publisher, number)

    def expire(self, now: float) -> None:
        """Advance the time, and forget the publishers that nothing was heard of for too long."""
        self._now = now
        while self._marks and now - self._marks[first := next(iter(self._marks))].at > self._seconds:
            del self._marks[first]

    # Stating.

    def marks(self) -> Marks:
        """Return everything that is known, as the position of a subscription that begins now."""
        change, known = self._known
        if change != self._changes:
            known = {publisher: mark.number for publisher, mark in self._marks.items()}
            self._known = self._changes, known
        return known

    def all_for(self, link: Link) -> Marks:
        """Return everything that is known, to state it over a link that is new."""
        self._told[link] = self._changes
        return self.marks()

    def news_for(self, link: Link) -> Marks:
        """Return what is not known behind a link yet, to state it there."""
        told = self._told.get(link, 0)
        if told == self._changes:
            return NOTHING
        news: dict[ClientId, int] = {}
        for publisher in reversed(self._marks):
            mark = self._marks[publisher]
            if mark.change <= told:
                break
            news[publisher] = mark.number
        self._told[link] = self._changes
        return news

    def forget(self, link: Link) -> None:
        """Note that nothing is known behind a link: it is new, or no longer exists."""
        self._told.pop(link, None)

    def check(self) -> None:
        """Assert that the marks are in the order of their changes, and that there are not too many."""
        changes = [mark.change for mark in self._marks.values()]
        assert changes == sorted(changes) and all(each <= self._changes for each in changes)
        assert len(self._marks) <= self._publishers_max
