"""The client side of admission control: what a publisher may publish, and how fast (paper 3, section 3.1).

Rules
-----
* An event that none of the publisher's advertisements covers is rejected before anything is sent.
* Each advertisement has its own token bucket. Excess events wait, are dropped and counted, or raise, as chosen
  in the advertisement. Events keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..admission.bucket import TokenBucket
from ..admission.meters import RateHistory
from ..protocol.batch import EventBatch
from ..protocol.errors import InputError, NotAdvertised, RateExceeded
from ..routing.filters.filter import Filter

Excess: TypeAlias = Literal["wait", "drop", "raise"]


@dataclass(slots=True)
class Advertisement:
    """One advertisement of a publisher: its filter, its highest rate, and how it treats excess events."""

    filter: Filter
    bucket: TokenBucket
    excess: Excess


class PublisherQuota:
    """The advertisements of one publisher, enforced.

    Parameters
    ----------
    clock
        Returns the time in seconds.

    Attributes
    ----------
    dropped
        The number of events that were dropped because they came too fast.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.advertisements: dict[int, Advertisement] = {}
        self.history = RateHistory()
        self.dropped = 0
        self._clock = clock

    def advertise(self, number: int, item: Filter, max_rate: float, excess: Excess) -> None:
        """Let events of a filter pass from now on.

        Raises
        ------
        InputError
            If the rate is not above 0, or `excess` is not one of its values.
        """
        if excess not in ("wait", "drop", "raise"):
            raise InputError(f"excess is {excess!r}: it must be 'wait', 'drop' or 'raise'")
        bucket = TokenBucket.full(max_rate, self._clock())
        self.advertisements[number] = Advertisement(item, bucket, excess)

    def pass_on(self, batch: EventBatch) -> Iterator[EventBatch | float]:
        """Yield the events that may go now, in order, and between them the seconds to wait until more of them may.

        Raises
        ------
        NotAdvertised
            If no advertisement covers an event; nothing has been sent then.
        RateExceeded
            If there are more than may pass now and the advertisement raises; nothing has been sent then.
        """
        numbers = self._numbers(batch)
        self.history.saw(len(batch), self._clock())
        self._refuse_excess(numbers)
        start = 0
        while start < len(numbers):
            passed = self._passing(numbers[start:])
            if passed:
                yield batch if passed == len(batch) else batch.take(np.arange(start, start + passed))
                start += passed
                continue
            blocked = self.advertisements[int(numbers[start])]
            if blocked.excess == "drop":
                self.dropped += 1
                start += 1
            else:
                left = int((numbers[start:] == numbers[start]).sum())
                yield blocked.bucket.wait_seconds(left, self._clock())

    def _numbers(self, batch: EventBatch) -> npt.NDArray[np.int64]:
        """Return for each event the number of the first advertisement that covers it."""
        numbers = np.zeros(len(batch), np.int64)
        for number, mine in self.advertisements.items():
            numbers[(numbers == 0) & mine.filter.evaluate_batch(batch, every=True)] = number
        if not numbers.all():
            row = int(np.flatnonzero(numbers == 0)[0])
            known = ", ".join(str(mine.filter) for mine in self.advertisements.values()) or "nothing"
            raise NotAdvertised(
                f"event {row} of {len(batch)} is not advertised: {batch.events()[row]}; advertised is: {known}"
            )
        return numbers

    def _refuse_excess(self, numbers: npt.NDArray[np.int64]) -> None:
        for number, mine in self.advertisements.items():
            count = int((numbers == number).sum())
            if mine.excess == "raise" and count:
                _, passed = mine.bucket.take(count, self._clock())
                if passed < count:
                    raise RateExceeded(
                        f"{count} events of advertisement {number} ({mine.filter}), {passed} may pass now: "
                        f"it has {mine.bucket.rate:g} events per second"
                    )

    def _passing(self, numbers: npt.NDArray[np.int64]) -> int:
        """Take the tokens of as many events as may pass now, in order, and return their number."""
        passing = len(numbers)
        now = self._clock()
        for number, mine in self.advertisements.items():
            places = np.flatnonzero(numbers == number)
            _, passed = mine.bucket.take(len(places), now)
            if passed < len(places):
                passing = min(passing, int(places[passed]))
        for number, mine in self.advertisements.items():
            taken = int((numbers[:passing] == number).sum())
            mine.bucket, _ = mine.bucket.take(taken, now)
        return passing
