"""Accounting in the collector: how many rows each host sent, where the rows are, and which rows are lost.

Rules
-----
* With each flush a host says how many rows of each table it sent before. Rows among those that the collector does
  not have are lost; rows that it has already are skipped. A restarted collector therefore knows what it lacks, and
  a flush that arrives twice counts once.
* Two sums make up the account: rows taken in, and rows missing. The first is written with each part of its table,
  the second with each part of `lost`. Whenever the collector dies, the difference is correct.
* Beyond `HOSTS_MAX`, the hosts that have been silent for longest are forgotten.
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
    """What a host sends in one flush.

    Attributes
    ----------
    source
        The host, in this incarnation of its process.
    before
        Rows of each table that it has sent before.
    tables
        The rows of its brokers since then, one dict of tables per broker.
    dropped
        Rows of each table that did not fit into its buffers, since it was started.
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
        """Account for a flush of a host; return how many of its rows of this table are here already."""
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
        """Count rows as taken in."""
        self._taken[name][source] = self._taken[name].get(source, 0) + rows

    def drop(self, name: str, source: str, rows: int) -> None:
        """Count rows that were taken in as lost."""
        self.take(name, source, -rows)
        self.miss(name, source, rows, "memory")

    def miss(self, name: str, source: str, rows: int, reason: str) -> None:
        """Count rows of a host as lost."""
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

    # State that is written with the parts, and read when the collector restarts.

    def of_table(self, name: str) -> str:
        """Return the state to write with a part of a table; all rows taken in must be in its parts."""
        return json.dumps(self._taken[name])

    def of_lost(self) -> str:
        """Return the state to write with a part of `lost`."""
        return json.dumps({"missing": self._missing, "dropped": self._dropped, "lost": self.lost})

    def restore(self, tables: Mapping[str, str], lost: str | None) -> None:
        """Restore the state from the last part of each table and of `lost`."""
        for name, told in tables.items():
            self._taken[name] = json.loads(told)
        said: dict[str, Any] = {} if lost is None else json.loads(lost)
        for name in SCHEMAS:
            self._missing[name] = said.get("missing", {}).get(name, {})
            self._dropped[name] = said.get("dropped", {}).get(name, {})
            self._heard |= dict.fromkeys(self._taken[name]) | dict.fromkeys(self._missing[name])
        self.lost = said.get("lost", {})
