"""Tracks whether the events of a broker have reached every broker, in networks where nobody else would notice a loss.

Rules
-----
* Retained batches are numbered, so one number states up to which batch all have arrived everywhere. Half a
  retention period after the first batch not yet asked about was retained, the broker asks for all batches so
  far.
* A batch that is forgotten before the answer may be lost. It counts as lost in every round until the answer
  arrives.

Source: docs/decisions/0021-layers.md.
"""

from __future__ import annotations

import math

from ...protocol.ids import ClientId


class Arrived:
    """The number up to which all batches of one broker have reached every broker.

    Parameters
    ----------
    retention_seconds
        How long the broker retains a batch.

    Attributes
    ----------
    confirmed
        The number up to which all batches have arrived.
    in_doubt
        Per publisher, the last number that was forgotten before its arrival was known.
    """

    def __init__(self, retention_seconds: float) -> None:
        self.confirmed = 0
        self.in_doubt: dict[ClientId, int] = {}
        self._seconds = retention_seconds / 2
        self._last = 0
        self._first_at = math.inf  # when the first batch that was not asked about yet was retained
        self._asked: tuple[int, float] | None = None

    def kept(self, number: int, now: float) -> None:
        """Record that a batch is retained from now on."""
        self._last, self._first_at = number, min(now, self._first_at)

    def forgotten(self, number: int, publisher: ClientId) -> None:
        """Record that a batch is no longer retained."""
        if number > self.confirmed:
            self.in_doubt[publisher] = number

    def question(self, now: float) -> int | None:
        """Return the number up to which to ask whether all has arrived; None if it is not time to ask."""
        if self._asked is not None or (not self.in_doubt and self._first_at > now - self._seconds):
            return None
        self._asked, self._first_at = (self._last, now), math.inf
        return self._last

    def answered(self, number: int) -> tuple[int, float]:
        """Record that everything up to a number has arrived; return the argument for `restore`."""
        assert self._asked is not None and self._asked[0] == number
        asked, self._asked = self._asked, None
        self.confirmed = number
        self.in_doubt = {name: last for name, last in self.in_doubt.items() if last > number}
        return asked

    def restore(self, answer: tuple[int, float], gone: dict[ClientId, float]) -> None:
        """Restore the last answer of an earlier incarnation; `gone` has when the last forgotten batch of each was kept.

        Batches that are still retained were passed to `kept` before, under their numbers.
        """
        number, asked_at = answer
        self.confirmed = min(number, self._last)
        self.in_doubt = {name: self._last for name, at in gone.items() if at > asked_at}
