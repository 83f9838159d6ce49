"""Stable storage: what a broker has made stable, and finds again when it is started anew (paper 4, section 4).

Rules
-----
* A store is tables of rows: ``table[key] = value``. A commit changes rows of any tables, all of them or none, in the
  order of its writes.
* What a commit that returned has changed is there at the next start, whatever happens to the process.
* Rows come back in the order in which they were first written; writing a row anew keeps its place.

The store in memory stands for a disk in the simulator: it outlives the broker, as the host keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from ...protocol.effects import Key, Write


class Store(Protocol):
    """Where one broker keeps what must outlive it."""

    def commit(self, writes: Sequence[Write]) -> None:
        """Make changes stable, all of them or none.

        Raises
        ------
        StorageFailed
            If they cannot be; then nothing has changed.
        """
        ...

    def rows(self, table: str) -> Iterator[tuple[Key, Any]]:
        """Return the rows of a table, none when nothing was ever written to it."""
        ...

    def close(self) -> None:
        """Let go of what is open; what was committed stays."""
        ...


class MemoryStore:
    """A store that lasts as long as the object."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[Key, Any]] = {}

    def commit(self, writes: Sequence[Write]) -> None:
        """Make changes stable; it never fails."""
        for table, key, value in writes:
            rows = self._tables.setdefault(table, {})
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value

    def rows(self, table: str) -> Iterator[tuple[Key, Any]]:
        """Return the rows of a table, in the order in which they were first written."""
        return iter(list(self._tables.get(table, {}).items()))

    def close(self) -> None:
        """Do nothing: there is nothing open."""
