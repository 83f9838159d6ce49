"""Stable storage: what a broker has made stable, and finds again when it restarts (paper 4, section 4).

Rules
-----
* A store is tables of rows: ``table[key] = value``. A commit changes rows of any tables, all of them or none,
  in the order of its writes.
* The changes of a completed commit are there at the next start, whatever happens to the process.
* Rows are read in the order in which they were first written. Overwriting a row keeps its place.

The store in memory stands for a disk in the simulator. The host keeps it, so it outlives the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from ...protocol.effects import Key, Write


class Store(Protocol):
    """The stable store of one broker."""

    def commit(self, writes: Sequence[Write]) -> None:
        """Make changes stable, all of them or none.

        Raises
        ------
        StorageFailed
            If that fails; then nothing has changed.
        """
        ...

    def may_wait(self, writes: Sequence[Write]) -> bool:
        """Return whether a commit of these changes, now, may wait for a disk or a server, or takes long."""
        ...

    def rows(self, table: str) -> Iterator[tuple[Key, Any]]:
        """Return the rows of a table; none if nothing was ever written to it."""
        ...

    def close(self) -> None:
        """Close the store. Committed changes stay."""
        ...


class MemoryStore:
    """A store that lasts as long as the object."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[Key, object]] = {}

    def commit(self, writes: Sequence[Write]) -> None:
        """Make changes stable. This never fails."""
        for table, key, value in writes:
            rows = self._tables.setdefault(table, {})
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value

    def may_wait(self, writes: Sequence[Write]) -> bool:
        """Return False: nothing is waited for."""
        return False

    def rows(self, table: str) -> Iterator[tuple[Key, Any]]:
        """Return the rows of a table, in the order in which they were first written."""
        return iter(list(self._tables.get(table, {}).items()))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
