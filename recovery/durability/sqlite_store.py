"""Stable storage in SQLite: one file per broker, ``broker-3.sqlite``, in a directory that the user names.

Rules
-----
* Each commit is one transaction (paper 4: the backup is atomic). The write-ahead log (WAL) has a checksum per
  frame, so a torn last write is dropped and the file is as the last complete commit left it.
* `synchronous` decides what a completed commit survives:

      off      the death of the process; a crash of the machine may corrupt the file
      normal   the death of the process; a crash of the machine may lose the last commits, but never corrupts
      the file
      full     the death of the process and of the machine, with one fsync per commit

* The log is copied into the file, which waits for the disk, by the first commit that finds `LOG_PAGES_MAX` in it. Until
  then a commit of little waits for nothing, unless `synchronous` is full (`may_wait`).

* The store rejects a file that is not a store of Rayvous, is of another version, is truncated, or has rows
  with a wrong checksum. The error names the file and the remedy. Nothing in a file is executed (`codec`).
* Only one process at a time can have a file open. Another one is rejected. So ``rendezvous.sqlite`` is the claim of a
  network.

`rows` defines the content of a row. Together with the store in PostgreSQL this is the only file of the pure
folders that does I/O; `tests/test_tidy.py` names them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ...protocol.checks import path as path_of
from ...protocol.effects import Key, Write
from ...protocol.errors import InputError, StorageFailed
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import RENDEZVOUS
from ...protocol.stability import SYNCHRONOUS, Synchronous
from .backend import Backend, Opening
from .identity import IDENTITY
from .rows import Plan, Rows, is_small, read
from .stores import Store

APPLICATION_ID: Final = 0x52595653
"""``RYVS``: identifies a file as a store of Rayvous."""

SCHEMA_VERSION: Final = 7
"""The version of the format.

Version 1 had every value as a pickle. 2 had snapshots of two schemes only, and events without their place of
publication. 3 had durable subscribers without priorities. 4 named the classes of its values by modules that
have moved. 5 had snapshots of routers that no longer exist. 6 had the fields of event messages one by one.
"""

OPEN_SECONDS: Final = 5.0
"""How long opening waits for a process that has the file open and is about to end."""

PAGE_BYTES: Final = 4_096
LOG_PAGES_MAX: Final = 1_000

_SQLITE: Final = "sqlite:///"
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
_RESTORE: Final = (
    "restore it from a copy, or delete it together with its -wal file to start this broker empty"
)


class SqliteStore:
    """The stable store of one broker, in a file.

    Parameters
    ----------
    path
        The file. It is created, with its directory, if it does not exist.
    synchronous
        What a commit waits for: "off", "normal" or "full".
    pages_max
        The maximum size of the file in pages of 4 KiB; None for no limit but the disk.
    open_seconds
        How long to wait for another process that has the file open.

    Raises
    ------
    StorageFailed
        If the file cannot be opened or is not a complete store of this version.
    InputError
        If `synchronous` is none of the three values.
    """

    def __init__(
        self,
        path: str | Path,
        synchronous: Synchronous = "normal",
        pages_max: int | None = None,
        open_seconds: float = OPEN_SECONDS,
    ) -> None:
        if synchronous not in SYNCHRONOUS:
            raise InputError(f"synchronous is {synchronous!r}: it must be one of {', '.join(SYNCHRONOUS)}")
        self.path = Path(path)
        self._syncs = synchronous == "full"
        self._logged = 0  # about how many pages of the log are not in the file
        log = self.path.with_name(f"{self.path.name}-wal")
        try:
            if not self.path.exists():
                if log.exists():  # SQLite would take the content of the log for the whole store
                    raise StorageFailed(
                        f"{self.path}: it is missing, but its log {log.name} exists: restore it from a copy, or delete "
                        "the log to start this broker empty"
                    )
                _create(self.path)
            self._connection = _connect(self.path, open_seconds)
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
            raise StorageFailed(
                f"{self.path}: not a store of Rayvous, and not changed: name another directory"
            )
        if version != SCHEMA_VERSION:
            raise StorageFailed(
                f"{self.path}: written by another version of Rayvous (format {version}, this one reads "
                f"{SCHEMA_VERSION}): use that version, or name another directory"
            )
        try:
            self._pragma("journal_mode = wal")
            self._pragma("wal_autocheckpoint = 0")
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
            self._rows = Rows(found)
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise StorageFailed(f"{self.path}: broken ({error}): {_RESTORE}") from None

    def _unreadable(self, error: sqlite3.Error) -> StorageFailed:
        if "locked" in str(error):
            return StorageFailed(f"{self.path}: another process has it open: end that one first")
        if "not a database" in str(error):
            return StorageFailed(
                f"{self.path}: not a store of Rayvous, and not changed: name another directory"
            )
        return StorageFailed(f"{self.path}: cannot be read ({error}): {_RESTORE}")

    def _pragma(self, text: str) -> object:
        row = self._connection.execute(f"PRAGMA {text}").fetchone()
        return None if row is None else row[0]

    def commit(self, writes: Sequence[Write]) -> None:
        """Make changes stable in one transaction, all of them or none.

        Raises
        ------
        StorageFailed
            If that fails because the disk is full or broken; then nothing has changed.
        """
        plan = self._rows.plan(writes)
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            try:
                for change in plan.changes:
                    self._connection.executemany(_DELETE, change.gone)
                    self._connection.executemany(_PUT, change.put)
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
        self._rows.take(plan)
        if self._logged >= LOG_PAGES_MAX:
            self._empty_log()
        self._logged += _pages_of(plan)

    def _empty_log(self) -> None:
        self._logged = 0
        with suppress(sqlite3.Error):  # everything is in the log, and the next time is soon
            self._pragma("wal_checkpoint(PASSIVE)")

    def may_wait(self, writes: Sequence[Write]) -> bool:
        """Return whether a commit of these changes may wait for the disk, or takes long."""
        return self._syncs or self._logged >= LOG_PAGES_MAX or not is_small(writes)

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
        return read(found, table, str(self.path), _RESTORE)

    def close(self) -> None:
        """Close the file. Committed changes stay."""
        self._connection.close()


class SqliteBackend(Backend):
    """The files of a folder, which the first store that is opened creates.

    Parameters
    ----------
    address
        The folder, or ``sqlite:///folder`` (``sqlite:////folder`` from the root).
    """

    form = "sqlite:///folder"
    limits_pages = True

    def __init__(self, address: str | Path) -> None:
        super().__init__(address)
        named = isinstance(address, str) and address.startswith(_SQLITE) and address != _SQLITE
        if not named and str(address).lower().startswith("sqlite:/"):
            raise InputError(f"address: an address of files is a folder, or {self.form}")
        self.folder = path_of("address", str(address).removeprefix(_SQLITE) if named else address)

    def open(self, broker: BrokerId, how: Opening) -> Store:
        """Return the store in a broker's file."""
        file = self.file_of(broker)
        store = SqliteStore(file, how.synchronous, how.pages_max, how.wait_seconds)
        if how.fresh and any(True for _ in store.rows(IDENTITY)):
            raise StorageFailed(
                f"{file} belongs to an earlier network: name an empty directory, or remove it"
            )
        return store

    def claim(self, how: Opening) -> None:
        """Do nothing: the file of the rendezvous point is the claim."""

    def show(self) -> str:
        """Return the folder."""
        return str(self.folder)

    def part(self, name: str) -> Path:
        """Return a folder below this one."""
        return self.folder / name

    def beside(self, folder: Path) -> Path:
        """Return the folder, relative to another one unless it is absolute."""
        return folder / self.folder

    def file_of(self, broker: BrokerId) -> Path:
        """Return the file of a broker or of the rendezvous point."""
        name = "rendezvous" if broker == RENDEZVOUS else f"broker-{broker}"
        return self.folder.absolute() / f"{name}.sqlite"


def _connect(path: Path, open_seconds: float) -> sqlite3.Connection:
    """Open a file for this process alone. Commits may come from any thread, one at a time."""
    connection = sqlite3.connect(path, timeout=open_seconds, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA locking_mode = exclusive")
    return connection


def _pages_of(plan: Plan) -> int:
    """Return about how many pages a commit has written: rows are added at the end of one tree."""
    pages = 1
    for change in plan.changes:
        pages += 2 * len(change.gone) + sum(len(value) for _, _, _, value, _ in change.put) // PAGE_BYTES
    return pages


def _create(path: Path) -> None:
    """Create an empty store beside its path and move it there complete: an empty file is a truncated one."""
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
