"""A store that verifies that what it reads is what was written: each row, and that no row is missing.

Rules
-----
* For each table the store records the number of rows and the sum of their checksums, written in the same
  commit. A row that is changed, missing, duplicated or foreign is found when its table is read. A checksum
  per row would not find a missing row.
* Damage is not repaired, since the original content is unknown. Reading raises, and the host that starts the
  broker clears the store and starts the broker clean. Everything that was stable only here is lost, and is
  reported as lost where it is missed.
* An empty store is that of a broker that never ran. No one relies on it, so nothing is wrong.

This wraps any other store. Values are stored as bytes (`codec`), which do not differ from one reading to the
next.

Source: paper 4, section 2 (a fault changes the state) and definition 10 (the recovery database);
docs/decisions/0052-damaged-stores-books-and-positions.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...protocol.effects import Key, Write
from ...protocol.errors import StateDamaged
from .codec import Encoder, decode
from .stores import Store

SUMS: Final = "sums"
_BITS: Final = 64


class SummedStore:
    """A store around another store.

    Parameters
    ----------
    inner
        The store of the rows. Only stores like this one have written to it.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self._rows: dict[tuple[str, Key], int] = {}
        self._sums: dict[str, tuple[int, int]] = {}
        for (table,), written in inner.rows(SUMS):
            self._sums[str(table)] = written
            self._rows |= {(str(table), key): _checksum(key, data) for key, data in inner.rows(str(table))}

    def commit(self, writes: Sequence[Write]) -> None:
        """Make changes stable together with the sums that they change, all of them or none.

        Raises
        ------
        StorageFailed
            If that fails; then nothing has changed.
        """
        encoder, sums = Encoder(), dict(self._sums)
        rows: dict[tuple[str, Key], int | None] = {}
        out: list[Write] = []
        for table, key, value in writes:
            name = table, key
            before = rows[name] if name in rows else self._rows.get(name)
            data = None if value is None else encoder.encode(value)
            rows[name] = None if data is None else _checksum(key, data)
            count, total = sums.get(table, (0, 0))
            count += (data is not None) - (before is not None)
            sums[table] = count, (total + (rows[name] or 0) - (before or 0)) % (1 << _BITS)
            out.append(Write(table, key, data))
        changed = [table for table, known in sums.items() if self._sums.get(table) != known]
        self.inner.commit([*out, *(Write(SUMS, (table,), sums[table]) for table in changed)])
        self._sums = sums
        for name, checksum in rows.items():
            if checksum is None:
                self._rows.pop(name, None)
            else:
                self._rows[name] = checksum

    def may_wait(self, writes: Sequence[Write]) -> bool:
        """Return whether a commit of these changes may wait, as the store of the rows says."""
        return self.inner.may_wait(writes)

    def rows(self, table: str) -> Iterator[tuple[Key, Any]]:
        """Return the rows of a table, in the order in which they were first written.

        Raises
        ------
        StateDamaged
            If they are not the rows that were written.
        """
        found = list(self.inner.rows(table))
        written = dict(self.inner.rows(SUMS)).get((table,), (0, 0))
        if (len(found), sum(_checksum(key, data) for key, data in found) % (1 << _BITS)) != written:
            self._sums.setdefault(
                table, (0, 0)
            )  # the sum itself may be what is missing; the table must be cleared all the same
            raise StateDamaged(f"the table {table!r} of a store is not what was written to it")
        return iter([(key, decode(data)) for key, data in found])

    def clear(self) -> bool:
        """Remove all rows of all tables that are known to have been written to; return whether there were any.

        A table is known by its sum, or because it was found damaged.
        """
        tables = {*self._sums, *(str(table) for (table,), _ in self.inner.rows(SUMS))}
        rows = [Write(table, key, None) for table in sorted(tables) for key, _ in self.inner.rows(table)]
        self.inner.commit([*rows, *(Write(SUMS, (table,), None) for table in sorted(tables))])
        self._sums, self._rows = {}, {}
        return bool(rows)

    def close(self) -> None:
        """Close the store. Committed changes stay."""
        self.inner.close()


def _checksum(key: Key, data: object) -> int:
    if not isinstance(data, bytes):
        return -1  # this was never written
    name = repr(key).encode()
    found = hashlib.blake2b(len(name).to_bytes(4, "big") + name + data, digest_size=_BITS // 8)
    return int.from_bytes(found.digest(), "big")
