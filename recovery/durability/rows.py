"""The rows of one broker's store, in the format of every store: the place of each row, its encoding and its checksum.

Rules
-----
* A new row gets the next place, so rows are read in the order in which they were first written.
* The places of the rows are held in memory, so that a commit touches one tree, mostly at its end.
* The changes of a commit are planned before anything is written, and adopted when they are stable. A plan
  contains places, so writing it is idempotent.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias

from ...protocol.batch import EventBatch
from ...protocol.effects import Deliver, Key, Write
from ...protocol.errors import StorageFailed
from ...protocol.messages.pubsub import Events
from .codec import Encoder, decode

SMALL_BYTES_MAX: Final = 16 * 1024
SMALL_ROWS_MAX: Final = 16

Name: TypeAlias = tuple[str, Key]

Row: TypeAlias = tuple[int, str, str, bytes, int]
"""The place, the section, the key as a JSON list, the value, and the CRC-32 of section, key and value."""


@dataclass(frozen=True, slots=True)
class Change:
    """Removals, followed by writes: the first and last place of each removed run, and the written rows."""

    gone: list[tuple[int, int]]
    put: list[Row]


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of a commit, in order, and the places of the rows afterwards."""

    changes: list[Change]
    places: dict[Name, int | None]
    last: int


class Rows:
    """The place of each row of a broker.

    Parameters
    ----------
    found
        Section, key and place of every row, in the order of the places.

    Raises
    ------
    ValueError
        If a key cannot be parsed, or a row occurs twice.
    """

    def __init__(self, found: Sequence[tuple[str, str, int]]) -> None:
        self._places: dict[Name, int] = {
            (section, tuple(json.loads(key))): place for section, key, place in found
        }
        if len(self._places) != len(found):
            raise ValueError("a row occurs twice")
        self._last = found[-1][2] if found else 0

    def plan(self, writes: Sequence[Write]) -> Plan:
        """Return the changes of a commit of these writes."""
        plan, encoder = Plan([], {}, self._last), Encoder()
        places, last = plan.places, self._last
        for changed in _last_of_each(writes):
            gone: list[int] = []
            put: list[Row] = []
            for name, value in changed.items():
                place = places[name] if name in places else self._places.get(name)
                if value is None:
                    if place is not None:
                        gone.append(place)
                    places[name] = None
                    continue
                if place is None:
                    last = place = last + 1
                places[name] = place
                key, data = _text(name[1]), encoder.encode(value)
                put.append((place, name[0], key, data, checksum(name[0], key, data)))
            plan.changes.append(Change(_runs(gone), put))
        return Plan(plan.changes, places, last)

    def take(self, plan: Plan) -> None:
        """Record that a plan is stable."""
        for name, place in plan.places.items():
            if place is None:
                self._places.pop(name, None)
            else:
                self._places[name] = place
        self._last = plan.last


def read(
    found: Iterable[tuple[str, bytes, int]], table: str, where: str, restore: str
) -> Iterator[tuple[Key, Any]]:
    """Check and decode rows of a table, given the key, value and checksum of each.

    Raises
    ------
    StorageFailed
        If a row is not what was written. The message names the row and the remedy.
    """
    rows = []
    for key, value, told in found:
        if checksum(table, key, value) != told:
            raise StorageFailed(f"{where}: row {key} of {table!r} has a wrong checksum: {restore}")
        try:
            rows.append((tuple(json.loads(key)), decode(value)))
        except StorageFailed as error:
            raise StorageFailed(f"{where}: row {key} of {table!r}: {error}: {restore}") from None
    return iter(rows)


def checksum(table: str, key: str, value: bytes) -> int:
    """Return the CRC-32 of a row."""
    return zlib.crc32(value, zlib.crc32(f"{table}\0{key}".encode()))


def is_small(writes: Sequence[Write]) -> bool:
    """Return whether changes are quickly written: few rows of events or numbers, and nothing removed.

    What is removed may have to be read first.
    """
    if len(writes) > SMALL_ROWS_MAX:
        return False
    left: float = SMALL_BYTES_MAX
    for _, _, value in writes:
        left -= _bytes_of(value)
    return left >= 0


def _bytes_of(value: object) -> float:
    """Return about how many bytes a value has; infinity if that is not known, or it is removed."""
    if isinstance(value, tuple):
        return sum(map(_bytes_of, value))
    if isinstance(value, EventBatch):
        return value.nbytes
    if isinstance(value, Events):
        return value.batch.nbytes
    if isinstance(value, Deliver):
        return value.batch.nbytes + value.rows.nbytes
    if isinstance(value, str | bytes):
        return len(value)
    return 8 if isinstance(value, int | float) else math.inf


def _last_of_each(writes: Sequence[Write]) -> Iterator[dict[Name, object]]:
    """Yield the last value of each row; start a new mapping where a removed row is put again, as that moves it."""
    changed: dict[Name, object] = {}
    for table, key, value in writes:
        name = table, key
        if value is not None and changed.get(name, value) is None:
            yield changed
            changed = {}
        changed[name] = value
    yield changed


def _runs(places: list[int]) -> list[tuple[int, int]]:
    """Return the first and last place of each run without gaps. Rows that go together mostly came together."""
    runs: list[tuple[int, int]] = []
    for place in sorted(places):
        if runs and runs[-1][1] == place - 1:
            runs[-1] = runs[-1][0], place
        else:
            runs.append((place, place))
    return runs


def _text(key: Key) -> str:
    """Return a key as JSON; `json.dumps` takes several times as long."""
    return f"[{','.join([encode_basestring(part) if isinstance(part, str) else str(part) for part in key])}]"
