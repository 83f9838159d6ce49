"""The rows of one broker's store, as every store writes them: which row has which place, encoded and with a checksum.

Rules
-----
* A place rises with the first write of each row, so rows come back in the order in which they were first written.
* Which row has which place is kept in memory, so that a commit touches one tree, mostly at its end.
* What a commit changes is planned before anything is written, and taken over when it is stable. A plan names places, so
  writing it twice does the same as writing it once.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, TypeAlias

from ...protocol.effects import Key, Write
from ...protocol.errors import StorageFailed
from .codec import Encoder, decode

Name: TypeAlias = tuple[str, Key]

Row: TypeAlias = tuple[int, str, str, bytes, int]
"""Place, section, key as a JSON list, value, CRC-32 of section, key and value."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is removed, and then put: the first and last of each run of places, and rows."""

    gone: list[tuple[int, int]]
    put: list[Row]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a commit changes, in this order, and where the rows are afterwards."""

    changes: list[Change]
    places: dict[Name, int | None]
    last: int


class Rows:
    """Which row of a broker has which place.

    Parameters
    ----------
    found
        Section, key and place of every row, in the order of the places.

    Raises
    ------
    ValueError
        If a key cannot be read, or a row is there twice.
    """

    def __init__(self, found: Sequence[tuple[str, str, int]]) -> None:
        self._places: dict[Name, int] = {
            (section, tuple(json.loads(key))): place for section, key, place in found
        }
        if len(self._places) != len(found):
            raise ValueError("a row is there twice")
        self._last = found[-1][2] if found else 0

    def plan(self, writes: Sequence[Write]) -> Plan:
        """Return what a commit of these writes changes."""
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
        """Take note that a plan is stable."""
        for name, place in plan.places.items():
            if place is None:
                self._places.pop(name, None)
            else:
                self._places[name] = place
        self._last = plan.last


def read(
    found: Iterable[tuple[str, bytes, int]], table: str, where: str, restore: str
) -> Iterator[tuple[Key, Any]]:
    """Return rows of a table, given key, value and checksum of each, checked and decoded.

    Raises
    ------
    StorageFailed
        If one is not what was written; it says where, and how to restore it.
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


def _last_of_each(writes: Sequence[Write]) -> Iterator[dict[Name, Any]]:
    """Return of each row what it is in the end; anew when a row is put after it was removed, as that moves it."""
    changed: dict[Name, Any] = {}
    for table, key, value in writes:
        name = table, key
        if value is not None and changed.get(name, value) is None:
            yield changed
            changed = {}
        changed[name] = value
    yield changed


def _runs(places: list[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of places without gaps: what goes together mostly came together."""
    runs: list[tuple[int, int]] = []
    for place in sorted(places):
        if runs and runs[-1][1] == place - 1:
            runs[-1] = runs[-1][0], place
        else:
            runs.append((place, place))
    return runs


def _text(key: Key) -> str:
    """Return a key as JSON; what `json.dumps` does takes several times as long."""
    return f"[{','.join([encode_basestring(part) if isinstance(part, str) else str(part) for part in key])}]"
