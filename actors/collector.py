"""The collector: takes the telemetry of the hosts and keeps it in the object store, as Arrow tables.

Rule: the collector puts the tables itself. An object dies with the process that put it, and telemetry has to outlive
the broker that wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import ray

from ..protocol.telemetry import SCHEMAS, Table

_ARROW = {"float64": pa.float64(), "int64": pa.int64(), "int32": pa.int32(), "str": pa.string()}


def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of one telemetry table."""
    return pa.schema([(name, _ARROW[dtype.__name__]) for name, dtype in SCHEMAS[table].items()])


def to_arrow(table: str, chunk: Table) -> pa.Table:
    """Return one chunk of a telemetry table as an Arrow table."""
    schema = arrow_schema(table)
    return pa.table({name: pa.array(chunk[name], schema.field(name).type) for name in schema.names}, schema)


class Collector:
    """Keeps references to all chunks of all tables."""

    def __init__(self) -> None:
        self._refs: dict[str, list[Any]] = {name: [] for name in SCHEMAS}
        self._rows: dict[str, int] = dict.fromkeys(SCHEMAS, 0)

    def add(self, flushes: Sequence[dict[str, Table]]) -> None:
        """Take what brokers wrote down since they last handed it over."""
        for name in SCHEMAS:
            parts = [to_arrow(name, flush[name]) for flush in flushes if name in flush]
            if parts:
                joined = pa.concat_tables(parts)
                self._refs[name].append(ray.put(joined))
                self._rows[name] += joined.num_rows

    def refs(self) -> dict[str, list[Any]]:
        """Return the references of every table's chunks."""
        return self._refs

    def rows(self) -> dict[str, int]:
        """Return how many rows each table has."""
        return self._rows
