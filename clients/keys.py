"""The key of an event: the value of one of its attributes, or its publisher.

Rule: as in selectors, integers and floats are equal as numbers, and a truth value, a timestamp and a text are no
numbers. An event without the attribute has no key.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..protocol.batch import EventBatch
from ..protocol.groups import PUBLISHER_KEY
from ..protocol.values import Timestamp, Value


def keys_of(batch: EventBatch, attribute: str | None) -> list[Hashable | None]:
    """Return the key of each event: that of its publisher, of its value of an attribute, or None for no key."""
    if attribute is None:
        return [None] * len(batch)
    if attribute == PUBLISHER_KEY:
        return [batch.publishers[code] for code in batch.publisher.tolist()]
    return [_key(event.get(attribute)) for event in batch.events()]


def _key(value: Value | None) -> Hashable | None:
    return None if value is None else (isinstance(value, bool), isinstance(value, Timestamp), value)
