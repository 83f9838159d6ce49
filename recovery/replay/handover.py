"""What a broker that leaves hands over to its trustee, part by part.

Rules
-----
* One part is on its way at a time. It is repeated until the trustee has answered; the trustee takes a repeated part
  over once more, which changes nothing.
* Another trustee gets everything from the beginning: the former one is dead, or is about to leave too.
* What is accepted after that is a further part: a publisher may still be here while the broker waits to leave.

Source: docs/decisions/0185-trustees.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Generic, TypeVar

from ...protocol.effects import Send
from ...protocol.ids import BrokerId
from ...protocol.messages.handover import Bequest, SubscriberBequest
from ...protocol.snapshots import Restorable

P = TypeVar("P", Bequest, SubscriberBequest)


class Handover(Restorable, Generic[P]):
    """The parts that one broker has to hand over.

    Parameters
    ----------
    repeat_seconds
        After how many seconds without an answer a part is sent again.

    Attributes
    ----------
    trustee
        Who gets them; None before the broker is to leave.
    """

    def __init__(self, repeat_seconds: float) -> None:
        self.trustee: BrokerId | None = None
        self._parts: deque[P] = deque()
        self._number = 0
        self._repeat_seconds = repeat_seconds
        self.repeat_at = math.inf

    def __len__(self) -> int:
        """Return how many parts the trustee has not taken over yet."""
        return len(self._parts)

    def begin(self, trustee: BrokerId, parts: Iterable[P], now: float) -> list[Send]:
        """Begin to hand these parts over, and no others."""
        self.trustee = trustee
        self._parts = deque()
        return self.add(parts, now)

    def add(self, parts: Iterable[P], now: float) -> list[Send]:
        """Hand these parts over, too, after those that are on their way."""
        waits = bool(self._parts)
        for part in parts:
            self._number += 1
            self._parts.append(replace(part, number=self._number))
        return [] if waits else self._next(now)

    def answered(self, source: BrokerId, number: int, now: float) -> list[Send]:
        """Hand over the next part, if this is the answer to the present one."""
        if source != self.trustee or not self._parts or self._parts[0].number != number:
            return []
        self._parts.popleft()
        return self._next(now)

    def due(self, now: float) -> list[Send]:
        """Hand over the present part again if it is time."""
        return self._next(now) if now >= self.repeat_at else []

    def _next(self, now: float) -> list[Send]:
        self.repeat_at = now + self._repeat_seconds if self._parts else math.inf
        return [Send(self.trustee, self._parts[0])] if self._parts and self.trustee is not None else []
