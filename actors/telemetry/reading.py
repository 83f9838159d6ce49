"""Reading one part of a telemetry table; whatever is wrong with it is an `UnreadableFile`.

Rules
-----
* A file comes from a disk: it may be cut, changed, of another program, or of a later version. Nothing of that reaches
  the user as an error of Arrow, of Parquet or of Java.
* A part of an earlier revision lacks the columns that came later: they are null. A part that lacks a column of its own
  revision is damaged, and so is one without a value where it must have one. Columns of a later revision are left out.
* Parts are written with a checksum of each page; pages that have one are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...protocol.errors import UnreadableFile
from ...protocol.telemetry.tables import ADDED, SCHEMA_VERSION
from .arrow import REVISION_KEY, VERSION_KEY, arrow_schema


@contextmanager
def reading(path: Path, table: str = "") -> Iterator[None]:
    """Convert whatever a reader of Parquet raises in the block into an `UnreadableFile`."""
    try:
        yield
    except UnreadableFile:
        raise
    except FileNotFoundError:
        raise UnreadableFile(path, "is missing", table) from None
    except Exception as error:  # damaged bytes make readers fail in every way
        told = " ".join(str(error).split())[:200] or type(error).__name__
        raise UnreadableFile(path, f"cannot be read: {told}", table) from None


def check_present(
    path: Path, column: str, cells: pa.Array | pa.ChunkedArray, before: int = 0, table: str = ""
) -> None:
    """Check that a column has a value in every row; `before` is the number of rows before these.

    Raises
    ------
    UnreadableFile
        If a value misses; with its row.
    """
    if cells.null_count:
        row = 1 + before + pc.index(pc.is_null(cells), True).as_py()
        raise UnreadableFile(path, f"column {column!r} has no value", table, row)


def rows_of(path: Path, table: str) -> int:
    """Return the number of rows of a part, from its footer."""
    with reading(path, table):
        return int(pq.read_metadata(path).num_rows)


def metadata_of(path: Path) -> dict[str, str]:
    """Return the additional metadata of a part that `write_part` wrote."""
    with reading(path):
        told = pq.read_schema(path).metadata or {}
        return {
            key.decode().removeprefix("rayvous."): value.decode()
            for key, value in told.items()
            if key.startswith(b"rayvous.")
        }


def check_part(path: Path, table: str) -> list[str]:
    """Check version and columns of a part, without reading its rows.

    Returns
    -------
    list of str
        The columns that it has.

    Raises
    ------
    UnreadableFile
        If it is no Parquet file, has another schema version, or lacks a column of its revision.
    """
    with reading(path, table):
        found = pq.read_schema(path)
    _check_columns(path, table, found)
    return [name for name in arrow_schema(table).names if name in found.names]


def check_parts(paths: Iterable[Path], table: str) -> None:
    """Check version and columns of parts of one table; see `check_part`."""
    for path in paths:
        check_part(path, table)


def read_parts(paths: Iterable[Path], table: str) -> pa.Table:
    """Return the rows of several parts of one table.

    Raises
    ------
    UnreadableFile
        If a file is no Parquet file, has another schema version, lacks a column of its revision, or is damaged.
    """
    schema = arrow_schema(table)
    return pa.concat_tables([schema.empty_table(), *(_read_part(path, table, schema) for path in paths)])


def _read_part(path: Path, table: str, schema: pa.Schema) -> pa.Table:
    with reading(path, table):
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _check_columns(path, table, file.schema_arrow)
            rows = file.read()
        rows.validate(full=True)
    columns = []
    for field in schema:
        if field.name not in rows.column_names:
            columns.append(pa.nulls(rows.num_rows, field.type))
            continue
        column = rows[field.name]
        if (table, field.name) not in ADDED:  # a copy of an earlier part has nulls there
            check_present(path, field.name, column, table=table)
        columns.append(column)
    return pa.table(columns, schema=schema)


def _check_columns(path: Path, table: str, found: pa.Schema) -> None:
    metadata = found.metadata or {}
    version = _number(metadata.get(VERSION_KEY))
    if version != SCHEMA_VERSION:
        told = "no schema version" if version is None else f"schema version {version}"
        raise UnreadableFile(
            path,
            f"has {told}; this Rayvous reads version {SCHEMA_VERSION}: read it with the one that wrote it",
            table,
        )
    revision = _number(metadata.get(REVISION_KEY)) or 1
    for field in arrow_schema(table):
        places = found.get_all_field_indices(field.name)
        if not places and ADDED.get((table, field.name), 1) > revision:
            continue
        if len(places) != 1:
            why = f"it has no column {field.name!r}" if not places else f"it has column {field.name!r} twice"
            raise UnreadableFile(path, f"is not a part of that table: {why}", table)
        kind = found.field(places[0]).type
        if kind != field.type:
            raise UnreadableFile(
                path, f"is not a part of that table: column {field.name!r} is {kind}, not {field.type}", table
            )


def _number(given: bytes | None) -> int | None:
    return int(given) if given is not None and given.isdigit() and given.isascii() else None


@contextmanager
def naming_damage(parts: dict[str, list[Path]]) -> Iterator[None]:
    """Let an error in the block be that of the damaged part, if one of these parts is damaged.

    Parameters
    ----------
    parts
        The parts that are read in the block by something that does not name them, by table.
    """
    try:
        yield
    except UnreadableFile:
        raise
    except Exception as error:
        for table, paths in parts.items():
            for path in paths:
                try:
                    read_parts([path], table)
                except UnreadableFile as damage:
                    raise damage from error
        raise
