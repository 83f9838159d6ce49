"""A sink that appends to a table of Delta Lake.

Rules
-----
* A roll is first a Parquet file in a folder of the table that its readers leave out, as in `folder`. To give it its
  name means to append its rows in one transaction of the table, with the roll's number under the sink's application id.
  A roll whose number the table has is not appended again: so each is there once, whenever the process dies.
* The last file stays until the next one has its name. The layout goes on from it, and whoever begins looks whether the
  table has it.
* Columns keep their types, and are added to the table as they come.

Source: "Delta Transaction Log Protocol", section "Transaction Identifiers".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ...protocol.extras import extra
from ...protocol.sinks import Columns
from .folder import REFUSED, SinkFolder
from .rolling import Acknowledged, parsed

ROLLS: Final = "_rolls"


class DeltaTarget(SinkFolder):
    """The table that a sink appends to.

    Parameters
    ----------
    target
        The table: an absolute path, or a URL that both pyarrow and Delta Lake know.
    stem, columns
        The sink's application id, and its columns (see `files.ParquetFiles`).

    Raises
    ------
    MissingExtra
        If Delta Lake is not installed.
    """

    def __init__(self, target: str, stem: str, columns: Columns | None = None) -> None:
        with extra("delta"):
            import deltalake  # noqa: F401
        super().__init__(f"{target.rstrip('/')}/{ROLLS}", stem, "delta", columns)
        self._table = target

    def find(self, acknowledged: Acknowledged) -> int:
        """Append the last roll if it is acknowledged and not in the table; return the highest number of a roll."""
        last = super().find(acknowledged)
        for path in self._named():
            self._append(path)
        return max(last, self._appended())  # also if the folder of rolls was removed

    def _give_name(self, unnamed: str, named: str) -> None:
        self._append(unnamed)
        for path in self._named():
            self._system.delete_file(path)
        self._system.move(unnamed, named)

    def _named(self) -> list[str]:
        found = [
            (each.path, parsed(self._stem, each.base_name))
            for each in self._system.get_file_info(pafs.FileSelector(self._root))
        ]
        return [path for path, known in found if known is not None and not known[1]]

    def _append(self, path: str) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake

        known = parsed(self._stem, path.rpartition("/")[2])
        assert known is not None
        number = known[0].number
        if number <= self._appended():
            return
        with self._system.open_input_file(path) as file:
            rows = pq.read_table(file)
        said = CommitProperties(app_transactions=[Transaction(self._stem, number)])
        with _refusing():
            write_deltalake(self._table, rows, mode="append", schema_mode="merge", commit_properties=said)

    def _appended(self) -> int:
        """Return the number of the last roll that is in the table; 0 if there is none."""
        from deltalake import DeltaTable

        with _refusing():
            if not DeltaTable.is_deltatable(self._table):
                return 0
            return DeltaTable(self._table).transaction_version(self._stem) or 0


@contextmanager
def _refusing() -> Iterator[None]:
    """Raise what Delta Lake raises, whose classes have nothing in common, as what file systems do."""
    try:
        yield
    except REFUSED:
        raise
    except Exception as error:
        raise OSError(f"Delta Lake: {error}") from error
