"""Deliveries of a stream, and the JSON representation of events.

Rules
-----
* Values that JSON lacks are strings (`protocol.json_events`).
* Everything written for one event is one line: no event text contains a line break.
* A representation of an event, such as its JSON, is computed once, however many streams of a gateway deliver
  the event. It is computed for all events of a batch together, from the batch's columns.
* A queued delivery does not keep a batch alive of which it is a small part.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np

from ..protocol.batch import Column, EventBatch
from ..protocol.documents import FORM
from ..protocol.expiry import deadline
from ..protocol.gathering import TTLS, UNSEEN
from ..protocol.json_events import plain_value
from ..protocol.values import NULL, Kind, Timestamp, Value
from .positions import identity

KEPT_BYTES_MAX: Final = 32 * 2**20
"""Total size of the batches whose reading a gateway caches.

A stream that lags takes everything that has arrived at once, and the next stream then takes the same. What is
in flight has to fit, or each stream reads all of it again.
"""

READ_BYTES: Final = 4_096, 1_024
"""Approximate memory that reading adds to a batch, and to each of its events, beyond the received bytes."""

PART: Final = 4
"""Less than one part in this many of a batch is retained without the rest of the batch."""
T = TypeVar("T")


class Delivery:
    """One event that a stream delivers; all non-durable streams share the same object.

    Attributes
    ----------
    publisher, sequence
        Identify the event, identically for all its receivers.
    deliveries
        How often it was given to a worker of a consumer group, with this time; 0 where there is no group.
    """

    __slots__ = ("_id", "_reading", "_row", "deliveries", "publisher", "sequence")

    def __init__(
        self, reading: Reading, row: int, publisher: str, sequence: int, id: str = "", deliveries: int = 0
    ) -> None:
        self._reading, self._row, self._id = reading, row, id
        self.publisher, self.sequence, self.deliveries = publisher, sequence, deliveries

    def under(self, id: str) -> Delivery:
        """Return the same delivery under the given id."""
        return Delivery(self._reading, self._row, self.publisher, self.sequence, id)

    def given(self, deliveries: int) -> Delivery:
        """Return the same delivery, given to a worker of a group for this time."""
        return Delivery(self._reading, self._row, self.publisher, self.sequence, self._id, deliveries)

    @property
    def id(self) -> str:
        """Identifies the delivery in its stream; accepted by `Stream.acknowledge` and ``subscribe(after=)``."""
        return self._id or identity(self.publisher, self.sequence)

    @property
    def event(self) -> Mapping[str, Value]:
        """Attribute names and values."""
        return self._reading.events[self._row]

    @property
    def published_at(self) -> float:
        """Publication time, in seconds since 1970."""
        return float(self._reading.batch.published_at[self._row])

    @property
    def expires(self) -> bool:
        """Whether it may expire: some event of its batch does."""
        return self._reading.expires

    @property
    def expires_at(self) -> float | None:
        """When it expires, in seconds since 1970; None for never."""
        return deadline(self._reading.batch, self._row)

    @property
    def text(self) -> str:
        """The event as JSON."""
        return self._reading.texts[self._row]

    @property
    def size(self) -> int:
        """The size of the JSON text, in bytes of UTF-8."""
        text = self.text
        return len(text) if text.isascii() else len(text.encode())

    def written(self, write: Callable[[Reading], Sequence[T]]) -> T:
        """Return `write`'s result for this event; `write` runs once per batch, for all its events."""
        found = self._reading._written.get(write)
        return (self._reading.written(write) if found is None else found)[self._row]


class Reading:
    """A batch as the streams of one gateway read it: representations are computed once, for all its events.

    Attributes
    ----------
    batch
        The batch.
    expires
        Whether some of its events expire.
    """

    def __init__(self, batch: EventBatch) -> None:
        self.batch = batch
        self.expires = TTLS in batch.columns
        self._written: dict[Callable[[Reading], Sequence[Any]], Sequence[Any]] = {}

    def deliveries(self) -> list[Delivery]:
        """Return the deliveries, uncached: their memory is freed with the last stream that uses them."""
        return [Delivery(self, row, *identity) for row, identity in enumerate(self.identities)]

    def delivery(self, row: int) -> Delivery:
        """Return one of the deliveries, uncached."""
        return Delivery(self, row, *self.identities[row])

    @cached_property
    def identities(self) -> Sequence[tuple[str, int]]:
        """Publisher and sequence number of each event."""
        batch = self.batch
        publishers = [batch.publishers[code] for code in batch.publisher.tolist()]
        return list(zip(publishers, batch.sequence.tolist(), strict=True))

    @cached_property
    def events(self) -> Sequence[Mapping[str, Value]]:
        """The events."""
        return self.batch.documents()

    @cached_property
    def texts(self) -> Sequence[str]:
        """The events as JSON."""
        return texts_of(self.batch)

    def written(self, write: Callable[[Reading], Sequence[T]]) -> Sequence[T]:
        """Return `write`'s result for the batch, one item per event."""
        found = self._written.get(write)
        if found is None:
            found = self._written[write] = write(self)
        return found


def apart(deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
    """Return deliveries of one batch for longer retention: without the rest of the batch, if that is most of it."""
    batch = deliveries[0]._reading.batch
    if len(deliveries) * PART >= len(batch):
        return deliveries
    return Reading(batch.take(np.array([each._row for each in deliveries]))).deliveries()


def texts_of(batch: EventBatch) -> list[str]:
    """Return the events of a batch as JSON, as `json_of` does for each; each string of a column is encoded once."""
    parts = []
    for (name, _), column in batch.columns.items():
        if name == FORM:
            return [json_of(event)[0] for event in batch.documents()]
        if name in UNSEEN:
            continue
        head = _to_json(name) + ":"
        parts.append(shown(column, lambda value, head=head: head + _to_json(plain_value(value))))  # type: ignore[misc]
    if not parts:
        return ["{}"] * len(batch)
    texts = ["{" + ",".join(filter(None, some)) + "}" for some in zip(*parts, strict=True)]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return [json_of(event)[0] for event in batch.documents()]
    return texts


def shown(column: Column, show: Callable[[Any], str]) -> list[str]:
    """Return the text of each event's value in a column, or an empty text if absent. Equal strings are shown once.

    Entries of `data` where no value is present may hold anything and are not read.
    """
    if column.present is not None:
        rows = np.flatnonzero(column.present)
        texts = [""] * len(column.data)
        there = Column(column.kind, column.data[rows], None, column.words)
        for row, text in zip(rows.tolist(), shown(there, show), strict=True):
            texts[row] = text
        return texts
    if column.kind is Kind.STRING:
        words = [show(word) for word in column.words]
        return [words[code] for code in column.data.tolist()]
    if column.kind is Kind.TIMESTAMP:
        return [show(Timestamp(value)) for value in column.data.tolist()]
    if column.kind is Kind.NULL:
        return [show(NULL)] * len(column.data)
    return list(map(show, column.data.tolist()))


_to_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def json_of(event: Mapping[str, Value]) -> tuple[str, int]:
    """Return an event as JSON on one line, and how many bytes that has in UTF-8."""
    plain = {name: plain_value(value) for name, value in event.items()}
    text = _to_json(plain)
    try:
        return text, len(text.encode())
    except UnicodeEncodeError:  # an unpaired surrogate, which only an escape can represent
        text = json.dumps(plain, separators=(",", ":"), allow_nan=False)
        return text, len(text)


class Texts:
    """Reads batches for the streams of one gateway; caches recent readings, since many streams get the same batch."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, _Kept] = OrderedDict()  # by `id` of the batch
        self._last: _Kept | None = None  # the one that was asked for last
        self._bytes = 0

    def reading(self, batch: EventBatch) -> Reading:
        """Return a batch as streams read it."""
        last = self._last
        return last.reading if last is not None and last.reading.batch is batch else self._find(batch).reading

    def read(self, batch: EventBatch) -> Sequence[Delivery]:
        """Return the events of a batch; all streams get the same objects."""
        kept = self._find(batch)
        if kept.deliveries is None:
            kept.deliveries = kept.reading.deliveries()
        return kept.deliveries

    def _find(self, batch: EventBatch) -> _Kept:
        found = self._kept.get(id(batch))
        if found is None:
            found = self._kept[id(batch)] = _Kept(Reading(batch))
            self._bytes += _weight(batch)
            while self._bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= _weight(oldest.reading.batch)
        else:
            self._kept.move_to_end(id(batch))
        self._last = found
        return found


@dataclass(slots=True, eq=False)
class _Kept:
    reading: Reading
    deliveries: Sequence[Delivery] | None = None  # made for the first that asks for them


def _weight(batch: EventBatch) -> int:
    a_batch, an_event = READ_BYTES
    return batch.nbytes + a_batch + an_event * len(batch)
