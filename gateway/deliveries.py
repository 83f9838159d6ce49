"""What a stream hands out, and how an event reads outside: as JSON.

Rules
-----
* A timestamp is a text in ISO 8601. What JSON has no number for is a text: ``"Infinity"``, ``"-Infinity"``.
* What is told of one event is one line: no text of an event has a line break in it.
* An event is written as JSON once, however many streams of a gateway bring it.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..protocol.batch import EventBatch
from ..protocol.values import Timestamp, Value, is_null

BATCHES_KEPT: Final = 4


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event that a stream brings.

    Attributes
    ----------
    id
        Names the delivery in its stream: what `Stream.acknowledge` and ``subscribe(after=)`` take.
    event
        Attribute names and values.
    publisher, sequence
        Name the event, the same for all who get it.
    published_at
        Seconds since 1970.
    text
        The event as JSON.
    """

    id: str
    event: Mapping[str, Value]
    publisher: str
    sequence: int
    published_at: float
    text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event that waits to be handed out; `size` is the bytes of its text."""

    event: Mapping[str, Value]
    publisher: str
    sequence: int
    published_at: float
    text: str
    size: int


def json_of(event: Mapping[str, Value]) -> tuple[str, int]:
    """Return an event as JSON on one line, and how many bytes that has in UTF-8."""
    plain = {name: plain_value(value) for name, value in event.items()}
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
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
        self._kept: OrderedDict[int, tuple[EventBatch, Sequence[Mapping[str, Value]], dict[int, Waiting]]] = (
            OrderedDict()
        )

    def read(self, batch: EventBatch, row: int) -> Waiting:
        """Return one event of a batch."""
        found = self._kept.get(id(batch))
        if found is None:
            found = self._kept[id(batch)] = (batch, batch.documents(), {})
            if len(self._kept) > BATCHES_KEPT:
                self._kept.popitem(last=False)
        _, events, read = found
        waiting = read.get(row)
        if waiting is None:
            publisher, sequence = batch.identity(row)
            at, event = float(batch.published_at[row]), events[row]
            waiting = read[row] = Waiting(event, publisher, sequence, at, *json_of(event))
        return waiting
