"""What a stream hands out, and how an event reads outside: as JSON.

Rules
-----
* A timestamp is a text in ISO 8601. What JSON has no number for is a text: ``"Infinity"``, ``"-Infinity"``.
* What is told of one event is one line: no text of an event has a line break in it.
* What is made of an event, its JSON say, is made once, however many streams of a gateway bring it; and of all events
  of a batch together, from its columns.
* What waits does not keep a batch of which it is a small part.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np

from ..protocol.batch import Column, EventBatch
from ..protocol.documents import FORM
from ..protocol.values import NULL, Kind, Timestamp, Value, is_null
from .positions import identity

KEPT_BYTES_MAX: Final = 32 * 2**20
"""How large the batches may be together that a gateway keeps as it has read them.

A stream that is behind takes all that has come at once, and then the next stream takes the same: what is in flight has
to fit, or each of them reads all of it anew.
"""

READ_BYTES: Final = 4_096, 1_024
"""About what is made of a batch when it is read, and of each of its events, besides what came."""

PART: Final = 4
"""Less than one part in so many of a batch is kept without the rest."""
T = TypeVar("T")


class Delivery:
    """One event that a stream brings; all streams that are not durable are handed the same one.

    Attributes
    ----------
    publisher, sequence
        Name the event, the same for all who get it.
    """

    __slots__ = ("_id", "_reading", "_row", "publisher", "sequence")

    def __init__(self, reading: Reading, row: int, publisher: str, sequence: int, id: str = "") -> None:
        self._reading, self._row, self._id = reading, row, id
        self.publisher, self.sequence = publisher, sequence

    def under(self, id: str) -> Delivery:
        """Return the same delivery with an id of its own."""
        return Delivery(self._reading, self._row, self.publisher, self.sequence, id)

    @property
    def id(self) -> str:
        """Names the delivery in its stream: what `Stream.acknowledge` and ``subscribe(after=)`` take."""
        return self._id or identity(self.publisher, self.sequence)

    @property
    def event(self) -> Mapping[str, Value]:
        """Attribute names and values."""
        return self._reading.events[self._row]

    @property
    def published_at(self) -> float:
        """Seconds since 1970."""
        return float(self._reading.batch.published_at[self._row])

    @property
    def text(self) -> str:
        """The event as JSON."""
        return self._reading.texts[self._row]

    @property
    def size(self) -> int:
        """The bytes of its text."""
        text = self.text
        return len(text) if text.isascii() else len(text.encode())

    def written(self, write: Callable[[Reading], Sequence[T]]) -> T:
        """Return what `write` makes of the event; it makes that of all events of a batch, once."""
        return self._reading.written(write)[self._row]


class Reading:
    """A batch as the streams of one gateway read it: what is made of its events is made of all of them, once.

    Attributes
    ----------
    batch
        The batch.
    identities
        Publisher and number of each event.
    """

    def __init__(self, batch: EventBatch) -> None:
        self.batch = batch
        publishers = [batch.publishers[code] for code in batch.publisher.tolist()]
        self.identities = list(zip(publishers, batch.sequence.tolist(), strict=True))
        self._written: dict[Callable[[Reading], Sequence[Any]], Sequence[Any]] = {}

    def deliveries(self) -> list[Delivery]:
        """Return what to hand out; it is not kept, so that all of it goes with the last stream that has some of it."""
        return [Delivery(self, row, *identity) for row, identity in enumerate(self.identities)]

    @cached_property
    def events(self) -> Sequence[Mapping[str, Value]]:
        """The events."""
        return self.batch.documents()

    @cached_property
    def texts(self) -> Sequence[str]:
        """The events as JSON."""
        return texts_of(self.batch)

    def written(self, write: Callable[[Reading], Sequence[T]]) -> Sequence[T]:
        """Return what `write` makes of the batch, one an event."""
        found = self._written.get(write)
        if found is None:
            found = self._written[write] = write(self)
        return found


def apart(deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
    """Return deliveries of one batch, to be kept for a while: without the rest of it, where that is most of it."""
    batch = deliveries[0]._reading.batch
    if len(deliveries) * PART >= len(batch):
        return deliveries
    return Reading(batch.take(np.array([each._row for each in deliveries]))).deliveries()


def texts_of(batch: EventBatch) -> list[str]:
    """Return the events of a batch as JSON, as `json_of` does of each; a string of a column is written once."""
    parts = []
    for (name, _), column in batch.columns.items():
        if name == FORM:
            return [json_of(event)[0] for event in batch.documents()]
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
    """Return how each event's value in a column reads; empty where it has none. What is the same is shown once.

    What stands in `data` where nothing is present may be anything, and is not looked at.
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
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can say
        text = json.dumps(plain, separators=(",", ":"), allow_nan=False)
        return text, len(text)


def plain_value(value: Any) -> Any:
    """Return a value, or what is nested, as JSON has it."""
    if isinstance(value, dict):
        return {name: plain_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain_value(inner) for inner in value]
    if is_null(value):
        return None
    if type(value) is Timestamp:
        return value.isoformat()
    if type(value) is float and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


class Texts:
    """Reads batches for the streams of one gateway; what was read last is kept, since many streams get the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[EventBatch, Sequence[Delivery]]] = OrderedDict()
        self._bytes = 0

    def read(self, batch: EventBatch) -> Sequence[Delivery]:
        """Return the events of a batch."""
        found = self._kept.get(id(batch))
        if found is not None:
            self._kept.move_to_end(id(batch))
            return found[1]
        read = Reading(batch).deliveries()
        self._kept[id(batch)] = batch, read
        self._bytes += _weight(batch)
        while self._bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
            _, (oldest, _) = self._kept.popitem(last=False)
            self._bytes -= _weight(oldest)
        return read


def _weight(batch: EventBatch) -> int:
    a_batch, an_event = READ_BYTES
    return batch.nbytes + a_batch + an_event * len(batch)
