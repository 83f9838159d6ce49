"""Whether what a broker sent has come to everybody, where nobody else would notice that it has not.

Rules
-----
* What is kept is numbered, so one number says all: up to it all has come to everybody. Half a retention after the first
  that it has not asked for was kept, a broker asks for all so far.
* What is forgotten before that is known may be lost. It counts as lost in every round until it is known after all.

Source: docs/decisions/0021-layers.md.
"""

from __future__ import annotations

import math

from ...protocol.ids import ClientId


class Arrived:
    """Up to where all that one broker has kept has come to everybody.

    Parameters
    ----------
    retention_seconds
        How long it keeps it.

    Attributes
    ----------
    confirmed
        The number up to which it has.
    in_doubt
        The last number of each publisher that was forgotten before that was known.
    """

    def __init__(self, retention_seconds: float) -> None:
        self.confirmed = 0
        self.in_doubt: dict[ClientId, int] = {}
        self._seconds = retention_seconds / 2
        self._last = 0
        self._first_at = math.inf  # when the first was kept of what it has not asked for
        self._asked: tuple[int, float] | None = None

    def kept(self, number: int, now: float) -> None:
        """Take in that something is kept from now on."""
        self._last, self._first_at = number, min(now, self._first_at)

    def forgotten(self, number: int, publisher: ClientId) -> None:
        """Take in that something is kept no longer."""
        if number > self.confirmed:
            self.in_doubt[publisher] = number

    def question(self, now: float) -> int | None:
        """Return up to which number it is to be asked whether all has come; None for not now."""
        if self._asked is not None or (not self.in_doubt and self._first_at > now - self._seconds):
            return None
        self._asked, self._first_at = (self._last, now), math.inf
        return self._last

    def answered(self, number: int) -> tuple[int, float]:
        """Take in that all up to a number has come; return what `restore` takes."""
        assert self._asked is not None and self._asked[0] == number
        asked, self._asked = self._asked, None
        self.confirmed = number
        self.in_doubt = {name: last for name, last in self.in_doubt.items() if last > number}
        return asked

    def restore(self, answer: tuple[int, float], gone: dict[ClientId, float]) -> None:
        """Take in the last answer of an earlier life, and when the last was kept of each publisher that is forgotten.

        What is still kept has been told before, under its numbers.
        """
        number, asked_at = answer
        self.confirmed = min(number, self._last)
        self.in_doubt = {name: self._last for name, at in gone.items() if at > asked_at}
