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
from .arrow import to_arrow


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
