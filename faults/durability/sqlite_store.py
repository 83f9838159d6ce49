"""Stable storage in an SQLite file: one file a broker, in a directory that the user names.

Rules
-----
* One transaction a commit (paper 4: the backup is atomic). The write-ahead log (WAL) has a checksum a frame, so a torn
  last write is dropped and the file is as the last whole commit left it.
* What a commit that returned survives depends on `synchronous`:

      off      the death of the process; a crash of the machine may break the file
      normal   the death of the process; a crash of the machine may lose the last commits, never break the file
      full     the death of the process and of the machine, one fsync a commit

* A file that is not ours, is of another version, is cut short or has rows whose checksum is wrong is refused, with its
  name and what to do. Nothing in a file is executed (`codec`).
* Which row has which place is kept in memory, so that a commit touches one tree, mostly at its end.
* One process at a time has a file open; another one is refused.

This is the one file of the pure folders that does I/O; `tests/test_tidy.py` names it.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...protocol.effects import Key, Write
from ...protocol.errors import InputError, StorageFailed
from ...protocol.stability import SYNCHRONOUS, Synchronous
from .codec import Encoder, decode

APPLICATION_ID: Final = 0x52595653
"""``RYVS``: how a file says that it is ours."""

SCHEMA_VERSION: Final = 6
"""1 had every value as a pickle; 2 had snapshots of two schemes only, and events without where they were published; 3
had durable subscribers without priorities; 4 named the classes of its values by modules that stand elsewhere now."""

OPEN_SECONDS: Final = 5.0
"""How long opening waits for a process that has the file and is about to end."""

_SCHEMA: Final = """
CREATE TABLE rows (
    place INTEGER PRIMARY KEY, -- rises with the first write of each row
    section TEXT NOT NULL,
    key TEXT NOT NULL,         -- a JSON list
    value BLOB NOT NULL,
    checksum INTEGER NOT NULL  -- CRC-32 of section, key and value
) STRICT
"""
_PUT: Final = "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?)"
_DELETE: Final = "DELETE FROM rows WHERE place BETWEEN ? AND ?"
_Name: TypeAlias = tuple[str, Key]
_RESTORE: Final = (
    "restore it from a copy, or delete it together with its -wal file to start this broker empty"
)


class SqliteStore:
    """Where one broker keeps what must outlive its process.

    Parameters
    ----------
    path
        The file; made, with its directory, when it is not there.
    synchronous
        What a commit waits for: "off", "normal" or "full".
    pages_max
        Pages of 4 KiB that the file may grow to; None for as many as the disk has.

    Raises
    ------
    StorageFailed
        If the file cannot be opened or is not a whole store of this version.
    InputError
        If `synchronous` is none of the three.
    """

    def __init__(
        self, path: str | Path, synchronous: Synchronous = "normal", pages_max: int | None = None
    ) -> None:
        if synchronous not in SYNCHRONOUS:
            raise InputError(f"synchronous is {synchronous!r}: it is one of {', '.join(SYNCHRONOUS)}")
        self.path = Path(path)
        self._places: dict[_Name, int] = {}
        try:
            if not self.path.exists():
                _create(self.path)
            self._connection = _connect(self.path)
        except (sqlite3.Error, OSError) as error:
            raise StorageFailed(f"{self.path}: cannot be opened: {error}") from None
        try:
            self._open(synchronous, pages_max)
        except BaseException:
            self._connection.close()
            raise

    def _open(self, synchronous: Synchronous, pages_max: int | None) -> None:
        if not self.path.stat().st_size:
            raise StorageFailed(f"{self.path}: the file is empty, so its content is lost: {_RESTORE}")
        try:
            ours = self._pragma("application_id")
            version = self._pragma("user_version")
        except sqlite3.Error as error:
            raise self._unreadable(error) from None
        if ours != APPLICATION_ID:
            raise StorageFailed(f"{self.path}: not a store of Rayvous, left as it is: name another directory")
        if version != SCHEMA_VERSION:
            raise StorageFailed(
                f"{self.path}: written by another version of Rayvous (format {version}, this one reads "
                f"{SCHEMA_VERSION}): use that version, or name another directory"
            )
        try:
            self._pragma("journal_mode = wal")
            self._pragma(f"synchronous = {synchronous}")
            if pages_max is not None:
                self._pragma(f"max_page_count = {pages_max}")
            found = self._pragma("quick_check")
        except sqlite3.Error as error:
            raise self._unreadable(error) from None
        if found != "ok":
            raise StorageFailed(f"{self.path}: broken ({found}): {_RESTORE}")
        self._find_places()

    def _find_places(self) -> None:
        try:
            found = self._connection.execute("SELECT section, key, place FROM rows ORDER BY place").fetchall()
            self._places = {(section, tuple(json.loads(key))): place for section, key, place in found}
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise StorageFailed(f"{self.path}: cannot be read ({error}): {_RESTORE}") from None
        if len(self._places) != len(found):
            raise StorageFailed(f"{self.path}: broken (a row is there twice): {_RESTORE}")
        self._last = found[-1][2] if found else 0

    def _unreadable(self, error: sqlite3.Error) -> StorageFailed:
        if "locked" in str(error):
            return StorageFailed(f"{self.path}: another process has it open: end that one first")
        if "not a database" in str(error):
            return StorageFailed(
                f"{self.path}: not a store of Rayvous, left as it is: name another directory"
            )
        return StorageFailed(f"{self.path}: cannot be read ({error}): {_RESTORE}")

    def _pragma(self, text: str) -> Any:
        row = self._connection.execute(f"PRAGMA {text}").fetchone()
        return None if row is None else row[0]

    def commit(self, writes: Sequence[Write]) -> None:
        """Make changes stable in one transaction, all of them or none.

        Raises
        ------
        StorageFailed
            If they cannot be (the disk is full or fails); then nothing has changed.
        """
        places, last, encoder = dict[_Name, int | None](), self._last, Encoder()
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            try:
                for changed in _last_of_each(writes):
                    last = self._change(changed, places, last, encoder)
                execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise StorageFailed(
                f"{self.path}: {error}; what was committed before is safe: make room or mend the disk, and start "
                f"the broker again"
            ) from None

        for name, place in places.items():
            if place is None:
                self._places.pop(name, None)
            else:
                self._places[name] = place
        self._last = last

    def _change(
        self, changed: dict[_Name, Any], places: dict[_Name, int | None], last: int, encoder: Encoder
    ) -> int:
        """Write rows, and note their new places in `places`; return the last place that is taken."""
        gone: list[int] = []
        put: list[tuple[Any, ...]] = []
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
            put.append((place, *_row(name, encoder.encode(value))))
        self._connection.executemany(_DELETE, _runs(gone))
        self._connection.executemany(_PUT, put)
        return last

    def rows(self, table: str) -> Iterator[tuple[Key, Any]]:
        """Return the rows of a table, in the order in which they were first written.

        Raises
        ------
        StorageFailed
            If the file cannot be read, or a row is not what was written.
        """
        query = "SELECT key, value, checksum FROM rows WHERE section = ? ORDER BY place"
        try:
            found = self._connection.execute(query, (table,)).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from None
        return iter([self._checked(table, *row) for row in found])

    def _checked(self, table: str, key: str, value: bytes, checksum: int) -> tuple[Key, Any]:
        if _checksum(table, key, value) != checksum:
            raise StorageFailed(f"{self.path}: row {key} of {table!r} has a wrong checksum: {_RESTORE}")
        try:
            return tuple(json.loads(key)), decode(value)
        except StorageFailed as error:
            raise StorageFailed(f"{self.path}: row {key} of {table!r}: {error}: {_RESTORE}") from None

    def close(self) -> None:
        """Let go of the file; what was committed stays."""
        self._connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    """Open a file for this process alone; commits may come from any thread, one at a time."""
    connection = sqlite3.connect(path, timeout=OPEN_SECONDS, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA locking_mode = exclusive")
    return connection


def _create(path: Path) -> None:
    """Make an empty store beside its place and move it there whole: a file that is empty was cut short."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    connection = sqlite3.connect(new, isolation_level=None)
    try:
        statements: Iterable[str] = (
            "BEGIN",
            f"PRAGMA application_id = {APPLICATION_ID}",
            f"PRAGMA user_version = {SCHEMA_VERSION}",
            _SCHEMA,
            "COMMIT",
        )
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()
    new.replace(path)


def _last_of_each(writes: Sequence[Write]) -> Iterator[dict[_Name, Any]]:
    """Return of each row what it is in the end; anew when a row is put after it was removed, as that moves it."""
    changed: dict[_Name, Any] = {}
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


def _row(name: _Name, data: bytes) -> tuple[str, str, bytes, int]:
    table, key = name[0], _text(name[1])
    return table, key, data, _checksum(table, key, data)


def _text(key: Key) -> str:
    """Return a key as JSON; what `json.dumps` does takes several times as long."""
    return f"[{','.join([encode_basestring(part) if isinstance(part, str) else str(part) for part in key])}]"


def _checksum(table: str, key: str, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(f"{table}\0{key}".encode()))
