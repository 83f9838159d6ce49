"""The telemetry of a run as Arrow, pandas, Parquet or Spark: all of it, or what is new.

Rules
-----
* It has what was recorded up to the call of `Network.telemetry`, and does not change.
* The rows stay where the collector stored them, in Ray's object store or in its folder, and are fetched on demand.
  Rows in the object store are gone when the network is closed: fetch them before.
* Missing rows are reported: `lost` counts them by table and reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray
from ray.exceptions import RayError

from ...protocol import checks
from ...protocol.errors import BrokerUnavailable, InputError
from ...protocol.telemetry.tables import SCHEMA_VERSION, SCHEMAS, TABLES, ColumnSpec
from .arrow import arrow_schema
from .files import (
    PartKey,
    check_run,
    choose_run,
    parts,
    prepare_folder,
    read_network,
    write_network,
    write_part,
)
from .reading import read_parts, rows_of

if TYPE_CHECKING:
    import pandas as pd

COLLECTOR = "the collector"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one table in Ray's object store."""

    key: PartKey
    ref: Any
    rows: int


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a collector has at one moment.

    Attributes
    ----------
    run
        Its name.
    end
        Later parts have this key or a greater one.
    chunks
        The chunks in the object store, by table.
    lost
        ``{table: {reason: rows}}`` since the run began.
    at_seconds
        The time of this moment.
    folder
        Where its parts are; None if all rows are in `chunks`.
    network
        Brokers and links, as `network_of` describes them.
    """

    run: str
    end: PartKey
    chunks: dict[str, list[Chunk]]
    lost: dict[str, dict[str, int]]
    at_seconds: float = 0.0
    folder: Path | None = None
    network: Mapping[str, Any] = field(default_factory=dict)


class Telemetry:
    """What a network recorded about itself up to now, or since an earlier reading.

    Made by :meth:`~rayvous.Network.telemetry`.

    Attributes
    ----------
    run
        The name of the run: the network's name, with a suffix that distinguishes runs of that name.
    schema_version
        The version of the tables; see docs/telemetry.md for when it changes.
    folder
        Where the rows are on disk; None if they are in Ray's object store.
    """

    schema_version = SCHEMA_VERSION

    def __init__(self, holdings: Holdings, since: Telemetry | None = None) -> None:
        self.run: str = holdings.run
        if since is not None and since.run != self.run:
            raise InputError(f"since: that is telemetry of run {since.run!r}, and this is {self.run!r}")
        self.folder = holdings.folder
        self.network = holdings.network
        self._holdings = holdings
        self._since = since
        start = PartKey(0, 0) if since is None else since._holdings.end
        self._chunks = {
            name: [chunk for chunk in holdings.chunks.get(name, ()) if chunk.key >= start] for name in TABLES
        }
        self._files: dict[str, dict[PartKey, Path]] = {name: {} for name in TABLES}
        if self.folder is not None:
            for name in TABLES:
                found = parts(self.folder, name, self.run).items()
                self._files[name] = {key: path for key, path in found if start <= key < holdings.end}

    @classmethod
    def from_arrow(cls, run: str, tables: Mapping[str, Sequence[pa.Table]]) -> Telemetry:
        """Return telemetry that did not come from a network: of a simulation, or read from elsewhere.

        Parameters
        ----------
        run
            A name for it.
        tables
            ``{name: Arrow tables}`` with the columns of `tables`, each of which becomes a chunk in Ray's object
            store; a missing table has no rows.
        """
        chunks: dict[str, list[Chunk]] = {}
        keys = (PartKey(1, number) for number in itertools.count())
        for name, pieces in tables.items():
            chunks[name] = [Chunk(next(keys), ray.put(piece), piece.num_rows) for piece in pieces]
        return cls(Holdings(run, next(keys), chunks, {}))

    @classmethod
    def from_folder(cls, folder: str | Path, run: str | None = None) -> Telemetry:
        """Return the telemetry of a run from the folder that the run, or `to_parquet`, has written.

        Parameters
        ----------
        folder
            The telemetry folder.
        run
            The name of the run; by default the run that was started last.

        Raises
        ------
        InputError
            If the folder does not exist, has no telemetry, or none of that run.
        UnreadableFile
            If a part is damaged, or has another schema version.
        """
        place = checks.path("folder", folder).absolute()
        chosen = choose_run(place, None if run is None else checks.text("run", run))
        check_run(place, chosen)
        lost: dict[str, dict[str, int]] = {}
        for row in read_parts(parts(place, "lost", chosen).values(), "lost").to_pylist():
            reasons = lost.setdefault(row["table"], {})
            reasons[row["reason"]] = reasons.get(row["reason"], 0) + row["rows"]
        ends = [key for name in TABLES for key in parts(place, name, chosen)]
        end = PartKey(max(ends).incarnation, max(ends).number + 1)
        return cls(Holdings(chosen, end, {}, lost, folder=place, network=read_network(place, chosen)))

    @property
    def tables(self) -> dict[str, dict[str, ColumnSpec]]:
        """The tables: ``{table: {column: (kind, unit, meaning)}}``."""
        return {name: dict(columns) for name, columns in TABLES.items()}

    @property
    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        counted = {
            name: sum(chunk.rows for chunk in self._chunks[name])
            + sum(rows_of(path, name) for path in self._files[name].values())
            for name in TABLES
        }
        if self.folder is None:
            counted["lost"] = self._lost_table().num_rows
        return counted

    @property
    def lost(self) -> dict[str, dict[str, int]]:
        """Missing rows: ``{table: {reason: rows}}``, with the reasons of `LOSS_REASONS`; empty if none are missing."""
        before = {} if self._since is None else self._since._holdings.lost
        found = {
            name: {
                reason: rows - before.get(name, {}).get(reason, 0)
                for reason, rows in reasons.items()
                if rows > before.get(name, {}).get(reason, 0)
            }
            for name, reasons in self._holdings.lost.items()
        }
        return {name: reasons for name, reasons in found.items() if reasons}

    @property
    def refs(self) -> dict[str, list[Any]]:
        """References to the Arrow tables in Ray's object store, by table; for rows in the folder see `files`."""
        return {name: [chunk.ref for chunk in self._chunks[name]] for name in SCHEMAS}

    @property
    def files(self) -> dict[str, list[Path]]:
        """The Parquet files in the folder, by table; for rows in the object store see `refs`."""
        return {name: list(found.values()) for name, found in self._files.items()}

    def to_arrow(self) -> dict[str, pa.Table]:
        """Return every table, ``{name: pyarrow.Table}``, with the schema version, units and meanings as metadata.

        Raises
        ------
        BrokerUnavailable
            If the rows were in the object store and are gone with the collector.
        """
        return {name: self.table(name) for name in TABLES}

    def to_pandas(self) -> dict[str, pd.DataFrame]:
        """Return every table, ``{name: pandas.DataFrame}``; raises what `to_arrow` raises."""
        return {name: table.to_pandas() for name, table in self.to_arrow().items()}

    def to_parquet(self, folder: str | Path) -> Path:
        """Write the tables to ``FOLDER/<table>/run=<run>/part-*.parquet``; return the folder.

        Writing the same run again rewrites the same files, and adds what is new; no file is deleted.

        Raises
        ------
        InputError
            If the folder cannot be used.
        BrokerUnavailable
            If the rows were in the object store and are gone with the collector.
        """
        place = prepare_folder(folder)
        try:
            if place != self.folder:
                for name in TABLES:
                    self._copy(place, name)
            write_network(place, self.run, self.network)
        except OSError as error:
            raise InputError(f"telemetry folder {place} cannot be written: {error}") from None
        return place

    def table(self, name: str) -> pa.Table:
        """Return one table as an Arrow table; raises what `to_arrow` raises."""
        if name == "lost" and self.folder is None:
            return self._lost_table()
        if self.folder is not None:
            return read_parts(self._files[name].values(), name)
        return pa.concat_tables([arrow_schema(name).empty_table(), *self._fetch(self._chunks[name])])

    def _fetch(self, chunks: list[Chunk]) -> list[pa.Table]:
        try:
            return list(ray.get([chunk.ref for chunk in chunks]))
        except RayError as error:
            raise BrokerUnavailable(
                f"these rows were lost with their collector ({type(error).__name__}): take them before their "
                "network is closed, or launch it with telemetry=TelemetryConfig(folder=...)"
            ) from None

    def _lost_table(self, lost: dict[str, dict[str, int]] | None = None) -> pa.Table:
        told = self.lost if lost is None else lost
        rows = [(name, reason, count) for name, found in told.items() for reason, count in found.items()]
        names, reasons, counts = zip(*rows, strict=True) if rows else ((), (), ())
        columns = [[self._holdings.at_seconds] * len(rows), names, reasons, counts]
        schema = arrow_schema("lost")
        return pa.table(
            [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)],
            schema=schema,
        )

    def _copy(self, place: Path, name: str) -> None:
        """Write each chunk or part of one table as its own part, one at a time."""
        for key, path in self._files[name].items():
            write_part(place, name, self.run, key, read_parts([path], name))
        for chunk in self._chunks[name]:
            write_part(place, name, self.run, chunk.key, self._fetch([chunk])[0])
        if name == "lost" and self.folder is None and self._holdings.lost:
            # Counts since the run began, not added rows: they replace the older counts.
            write_part(place, name, self.run, PartKey(0, 0), self._lost_table(self._holdings.lost))

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={rows:,}" for name, rows in self.rows.items())
        return f"Telemetry(run={self.run!r}, {told})"
