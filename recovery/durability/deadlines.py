"""When things expire that wait for somebody: in a snapshot it is plain, since it refers to nothing else.

Source: docs/decisions/0180-expiry.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Generic, TypeVar

Key = TypeVar("Key")

FORGOTTEN_FROM: Final = 64


class Deadlines(Generic[Key]):
    """Which of the things that are known expires next, without looking at the others.

    Most of what has a time to live is done long before. What is not known any more is therefore forgotten, so that
    there is never much more here than is known.

    Whoever has them keeps them by key, and passes them as `known`: here are the times alone.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, Key]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, key: Key, until: float, known: Mapping[Key, object]) -> None:
        """Note when one of them expires, infinity for never."""
        if until == inf:
            return
        if len(self._heap) > 2 * len(known) + FORGOTTEN_FROM:
            self._heap = [*{each for each in self._heap if each[1] in known}]
            heapify(self._heap)
        heappush(self._heap, (until, key))

    def due(self, now: float, known: Mapping[Key, object]) -> Iterator[Key]:
        """Yield what is known and has expired; it may be added again, with a later time."""
        while self._heap and self._heap[0][0] < now:
            key = heappop(self._heap)[1]
            if key in known:
                yield key
