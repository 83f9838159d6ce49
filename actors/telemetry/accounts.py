"""The accounts of the collector: how many rows each host handed over, where they are, and which are lost.

Rules
-----
* With each flush a host says how many rows of each table it handed over before. Rows of these that a collector does
  not have are lost; rows that it already has are skipped. A restarted collector therefore knows what it lacks, and
  a repeated flush counts once.
* Two sums make up the accounts: rows received, and rows missing. The first is written with each part of its table,
  the second with each part of `lost`. Whenever the collector dies, the difference is correct.
* Beyond `HOSTS_MAX`, hosts that have been silent for longest are forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...protocol.telemetry.tables import SCHEMAS, Table

HOSTS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class HandOver:
    """What a host hands over at once.

    Attributes
    ----------
    source
        The host, in this life of its process.
    before
        Rows of each table that it has handed over before.
    tables
        The new records of its brokers, a dict of tables each.
    dropped
        Rows of each table for which its buffers had no room, since its start.
    """

    source: str
    before: Mapping[str, int]
    tables: tuple[dict[str, Table], ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)


class Accounts:
    """Rows by table and host: taken in, missing, and lost by reason."""

    def __init__(self) -> None:
        self._taken: dict[str, dict[str, int]] = {name: {} for name in SCHEMAS}
        self._missing: dict[str, dict[str, int]] = {name: {} for name in SCHEMAS}
        self._dropped: dict[str, dict[str, int]] = {name: {} for name in SCHEMAS}
        self._heard: dict[str, None] = {}
        self.lost: dict[str, dict[str, int]] = {}
        self.unwritten: dict[tuple[str, str], int] = {}

    def settle(self, flush: HandOver, name: str) -> int:
        """Process what a host says of a table; return how many rows of its flush are here already."""
        source = flush.source
        self._hear(source)
        known = self._taken[name].get(source, 0) + self._missing[name].get(source, 0)
        before = flush.before.get(name, 0)
        if before > known:
            self.miss(name, source, before - known, "collector")
        dropped = flush.dropped.get(name, 0) - self._dropped[name].get(source, 0)
        if dropped > 0:
            self._dropped[name][source] = flush.dropped[name]
            self._lose(name, "buffer", dropped)
        return max(0, known - before)

    def take(self, name: str, source: str, rows: int) -> None:
        """Record rows that are here."""
        self._taken[name][source] = self._taken[name].get(source, 0) + rows

    def drop(self, name: str, source: str, rows: int) -> None:
        """Record that rows which were here were dropped."""
        self.take(name, source, -rows)
        self.miss(name, source, rows, "memory")

    def miss(self, name: str, source: str, rows: int, reason: str) -> None:
        """Record that rows of a host are lost."""
        self._missing[name][source] = self._missing[name].get(source, 0) + rows
        self._lose(name, reason, rows)

    def _lose(self, name: str, reason: str, rows: int) -> None:
        reasons = self.lost.setdefault(name, {})
        reasons[reason] = reasons.get(reason, 0) + rows
        self.unwritten[name, reason] = self.unwritten.get((name, reason), 0) + rows

    def _hear(self, source: str) -> None:
        self._heard.pop(source, None)
        self._heard[source] = None
        if len(self._heard) > HOSTS_MAX:
            oldest = next(iter(self._heard))
            del self._heard[oldest]
            for sums in (self._taken, self._missing, self._dropped):
                for table in sums.values():
                    table.pop(oldest, None)

    # Metadata of the parts, read when the collector restarts.

    def of_table(self, name: str) -> str:
        """Return the metadata of a part of a table, when everything received is in its parts."""
        return json.dumps(self._taken[name])

    def of_lost(self) -> str:
        """Return the metadata of a part of `lost`."""
        return json.dumps({"missing": self._missing, "dropped": self._dropped, "lost": self.lost})

    def restore(self, tables: Mapping[str, str], lost: str | None) -> None:
        """Resume from the metadata of the last part of each table, and of `lost`."""
        for name, told in tables.items():
            self._taken[name] = json.loads(told)
        said: dict[str, Any] = {} if lost is None else json.loads(lost)
        for name in SCHEMAS:
            self._missing[name] = said.get("missing", {}).get(name, {})
            self._dropped[name] = said.get("dropped", {}).get(name, {})
            self._heard |= dict.fromkeys(self._taken[name]) | dict.fromkeys(self._missing[name])
        self.lost = said.get("lost", {})
