"""Samples of what publishers publish, and the rates of advertisements divided over the events of the samples.

Rules
-----
* The broker of a publisher keeps a sample of the events that each advertisement covers (`Sampler`). The first events
  are all kept. Then each event takes, with a fixed probability, the place of another, so that the sample is of the
  last five hundred or so. The choice is a function of the event's number, not of chance.
* A sample is told seldom, because it goes over every link that its advertisement passes: 8 events of it after 8, 32
  after 640 and all after 2,540 (`TOLD_FIRST`), and then once for `BETWEEN` events published. So at most 8 and a
  fifteenth of what is published is told at first, and then a fiftieth.
* A publisher that has moved goes on with the sample that is known of it, so that no small sample replaces a full one.
* Every broker divides the rate of a sampled advertisement over columns (`Sampled`): one for each event of the sample,
  and one for the events that it may have missed. A filter that meets the advertisement wants the events of the sample
  that it matches, and always the last column. What several filters want is counted once, by the same sums as without
  samples.
* Events of which none was among n have a probability of at most 3/n with a confidence of about 95 % (the "rule of
  three"): the last column has `UNSEEN` times as much as one of the events.
* The books charge each account with what samples cost it in the long run, one in `TOLD_OF` of what is advertised
  elsewhere, whether anything of that is wanted or not.
* The columns of a sampled advertisement have a third more than its rate (`MARGIN`). An advertisement without a sample
  has its rate in the last column. The books charge an account with the columns, but with no more than the peaks of all
  that is wanted there: that ceiling is one for the account, not one for each advertisement.

Source: ours; paper 3, section 1, controls admission by measurement, and bounds demand by the peak (4.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..protocol.batch import EventBatch, concat
from ..protocol.effects import Plain
from ..protocol.ids import BrokerLink, ClientId
from ..routing.filters.filter import Filter
from .advertisements import AdvertisementDag, Micros, grown
from .columns import Mask

Key: TypeAlias = tuple[ClientId, int]
"""The key of an advertisement: its publisher, and its number there."""

SAMPLE: Final = 127
"""The number of events in a sample at most."""

WIDTH: Final = SAMPLE + 1
"""The number of columns of an advertisement."""

UNSEEN: Final = 3

TOLD_FIRST: Final = ((8, 8), (640, 32), (2540, SAMPLE))
"""After how many events published a sample is told at first, and how many events of it."""

TOLD_OF: Final = 50
"""One in so many of the events published is told, once a sample is full."""

BETWEEN: Final = TOLD_OF * SAMPLE
"""The events published between two times that a full sample is told."""

REPLACED: Final = 4
"""One event in so many is taken into a full sample."""

MARGIN: Final = 3
"""What is measured is charged with a part more, one in so many: traffic changes between two samples."""

SAMPLE_BYTES_MAX: Final = 64 * 2**10
"""The size of a sample at most; of larger events it has fewer, so that less is known."""


class Sampler:
    """The sample of the events of one advertisement.

    Parameters
    ----------
    item
        Its filter: an advertisement with another filter has another sample.
    known
        The sample that other brokers have of it, with which this one begins; None if there is none.

    Attributes
    ----------
    filter
        The same.
    seen
        How many events there were, or of how many the known sample was told, and those since.
    """

    def __init__(self, item: Filter, known: EventBatch | None = None) -> None:
        self.filter = item
        self._kept: list[EventBatch] = []  # of one event each
        self.seen = 0
        if known is not None:
            self._kept = [known.take(np.array([row])) for row in range(len(known))]
            self.seen = max((after for after, size in TOLD_FIRST if size <= len(known)), default=0)

    def saw(self, batch: EventBatch) -> bool:
        """Take in events; return whether the sample has changed so much that it is to be told."""
        before, self.seen = self.seen, self.seen + len(batch)
        places = _places(before, len(batch))
        last, rows = np.unique(places[::-1], return_index=True)  # of each place the last event that takes it
        for place, row in zip(last.tolist(), (len(batch) - 1 - rows).tolist(), strict=True):
            if place >= 0:
                self._kept[place : place + 1] = [batch.take(np.array([row]))]
        return _told(self.seen) > _told(before)

    @property
    def sample(self) -> EventBatch:
        """What is told of the sample now, without the events that are too many bytes."""
        told = max((size for after, size in TOLD_FIRST if self.seen >= after), default=0)
        kept = self._kept[:told]
        whole = concat(kept)
        sizes = np.cumsum([event.nbytes for event in kept])
        return whole.take(np.arange(int((sizes <= SAMPLE_BYTES_MAX).sum())))

    def snapshot(self) -> Plain:
        """Return the state."""
        return self.seen, list(self._kept)

    def restore(self, plain: Plain) -> None:
        """Restore a snapshot. Only for a sampler that has not seen anything."""
        self.seen, kept = plain
        self._kept = list(kept)


def _places(seen: int, count: int) -> npt.NDArray[np.int64]:
    """Return the place in the sample that each of the next events takes; -1 for none."""
    numbers = np.arange(seen, seen + count, dtype=np.uint64)
    mixed = (numbers * np.uint64(2654435761)) & np.uint64(0xFFFFFFFF)
    places = ((mixed * np.uint64(SAMPLE * REPLACED)) >> np.uint64(32)).astype(np.int64)
    places[places >= SAMPLE] = -1
    first = numbers < SAMPLE
    places[first] = numbers[first].astype(np.int64)
    return places


def _told(seen: int) -> int:
    """Return how often a sample was told after so many events."""
    full = TOLD_FIRST[-1][0]
    return sum(seen >= after for after, _ in TOLD_FIRST) + max(0, seen - full) // BETWEEN


@dataclass(slots=True)
class _Part:
    """The columns of one advertisement, and which of them each held filter wants."""

    filter: Filter
    start: int
    sample: EventBatch | None = None
    masks: dict[Filter, Mask] = field(default_factory=dict)

    @property
    def columns(self) -> slice:
        return slice(self.start, self.start + WIDTH)

    def mask(self, item: Filter) -> Mask:
        """Return which columns a filter that meets the advertisement wants."""
        known = self.masks.get(item)
        if known is not None:
            return known
        out = np.zeros(WIDTH, np.bool_)
        out[SAMPLE] = True
        if self.sample is not None:
            out[: len(self.sample)] = item.evaluate_batch(self.sample)
        return out


class Sampled:
    """The rates of the advertisements of one broker, divided over the events of their samples.

    Parameters
    ----------
    dag
        The same advertisements as they are, which also numbers the links.

    Attributes
    ----------
    own_rate
        ``[link, column]``: micro-events a second.
    """

    def __init__(self, dag: AdvertisementDag) -> None:
        self._dag = dag
        self._parts: dict[Key, _Part] = {}
        self._free: list[int] = []
        self.own_rate: Micros = np.zeros((1, WIDTH), np.int64)

    @property
    def rows(self) -> dict[BrokerLink, int]:
        """The row of each link."""
        return self._dag.rows

    def put(self, key: Key, item: Filter, link: BrokerLink, rate: int, sample: EventBatch | None) -> slice:
        """Divide the rate of an advertisement; return its columns."""
        part = self._parts.get(key)
        if part is None:
            start = self._free.pop() if self._free else len(self._parts) * WIDTH
            part = self._parts[key] = _Part(item, start)
        part.sample = sample
        part.masks.clear()
        row = self._dag.row(link)
        self.fit()
        count = 0 if sample is None else len(sample)
        rate = rate * (MARGIN + 1) // MARGIN if count else rate
        each = rate // (count + UNSEEN)
        columns = self.own_rate[:, part.columns]
        columns[:] = 0
        columns[row, :count] = each
        columns[row, SAMPLE] = rate - count * each
        return part.columns

    def remove(self, key: Key) -> slice:
        """Remove an advertisement; return the columns that it had."""
        part = self._parts.pop(key)
        self.own_rate[:, part.columns] = 0
        self._free.append(part.start)
        return part.columns

    def fit(self) -> None:
        """Grow to the present number of links and advertisements."""
        used = max((part.start for part in self._parts.values()), default=0) + WIDTH
        columns = len(self.own_rate[0])
        while columns < used:
            columns *= 2
        self.own_rate = grown(self.own_rate, max(len(self.own_rate), len(self._dag.own_rate)), columns)

    def sample(self, key: Key) -> EventBatch | None:
        """Return the sample of an advertisement; None if there is none yet."""
        part = self._parts.get(key)
        return None if part is None else part.sample

    def mask(self, item: Filter) -> Mask:
        """Return which columns a filter wants, over all advertisements."""
        out = np.zeros(len(self.own_rate[0]), np.bool_)
        meets, slot = self._dag.relations(item).meets, self._dag.columns.slot
        for part in self._parts.values():
            if meets[slot(part.filter)]:
                out[part.columns] = part.mask(item)
        return out

    def remember(self, item: Filter, key: Key) -> Mask:
        """Return which of its columns a held filter that meets an advertisement wants, and keep that."""
        part = self._parts[key]
        part.masks[item] = part.mask(item)
        return part.masks[item]

    def forget(self, item: Filter) -> None:
        """Forget what a filter wants that is not held any more."""
        for part in self._parts.values():
            part.masks.pop(item, None)

    def snapshot(self) -> Plain:
        """Return the columns of each advertisement, and the samples."""
        parts = [(key, part.filter, part.start, part.sample) for key, part in self._parts.items()]
        return {"parts": parts, "free": list(self._free), "own_rate": self.own_rate.copy()}

    def restore(self, plain: Plain) -> None:
        """Restore a snapshot. Only for an instance without advertisements whose DAG has been restored."""
        self._parts = {tuple(key): _Part(item, start, sample) for key, item, start, sample in plain["parts"]}
        self._free, self.own_rate = list(plain["free"]), plain["own_rate"].copy()
