"""The extended advertisement DAG: the number of publishers of each filter's events, and the rate of these events.

Rules
-----
* A node is a distinct filter. Its `count` and `rate` are over the distinct advertisements that it covers, its
  own included (3.1). They rise along the covering order. The least value over all nodes that cover a filter
  is therefore the least over its direct predecessors, and the order need not be stored as edges: it is
  computed from the columns.
* Advertising adds to the node and to all nodes that cover it. A new node starts with its own values and the
  *own* values of all nodes that it covers, so nothing is counted twice however successors overlap (3.2).
  Unadvertising subtracts the same (3.3).
* All values are stored by the link over which the advertisement came: advertisements from a subscriber's own
  side do not cross to it.

The paper starts a new node with the sum over its direct successors less `d_rate`. That is the same sum only
where what they have in common lies one step below them. Further below, `d_rate` as printed counts some
advertisements twice and omits others (docs/decisions/0016-admission.md).

Source: paper 3, sections 3.1 to 3.3 and figure 4.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..protocol.effects import Plain
from ..protocol.ids import BrokerLink
from ..routing.filters.filter import Filter
from .columns import FilterColumns, Relations

Micros: TypeAlias = npt.NDArray[np.int64]

REMEMBERED_MAX: Final = 64
"""How many comparisons with all nodes are cached. A subscription needs the same one several times."""

LOCAL: Final = -2
"""The link that represents all attached clients together."""


class AdvertisementDag:
    """Advertisements under the covering order, by the link over which they came.

    Attributes
    ----------
    own_rate, own_count
        ``[link, slot]``: micro-events a second, and number of advertisements, of exactly that filter.
    rate, count
        The same over everything that the filter covers.
    """

    def __init__(self) -> None:
        self.columns = FilterColumns()
        self.rows: dict[BrokerLink, int] = {LOCAL: 0}
        self._free_rows: list[int] = []
        self.own_rate: Micros = np.zeros((1, self.columns.size), np.int64)
        self.own_count, self.rate, self.count = (self.own_rate.copy() for _ in range(3))
        self._known: dict[Filter, Relations] = {}

    def __len__(self) -> int:
        return len(self.columns)

    def row(self, link: BrokerLink) -> int:
        """Return the row of a link, which is created on first use."""
        row = self.rows.get(link)
        if row is None:
            row = self._free_rows.pop() if self._free_rows else len(self.own_rate)
            self.rows[link] = row
            if row == len(self.own_rate):
                self._resize(row + 1, self.columns.size)
        return row

    def forget(self, link: BrokerLink) -> None:
        """Release the row of a link from which no advertisement is left."""
        row = self.rows.pop(link, None)
        if row is not None:
            assert not self.own_count[row].any()
            self._free_rows.append(row)

    def _resize(self, rows: int, size: int) -> None:
        for name in ("own_rate", "own_count", "rate", "count"):
            setattr(self, name, grown(getattr(self, name), rows, size))

    def relations(self, item: Filter) -> Relations:
        """Return the relations of a filter to all nodes, cached until the nodes change."""
        known = self._known.get(item)
        if known is None:
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            known = self._known[item] = self.columns.relations(item)
        return known

    def add(self, item: Filter, link: BrokerLink, rate: int) -> tuple[int, bool]:
        """Add an advertisement; return its node's slot, and whether the node is new."""
        row, relations = self.row(link), self.relations(item)
        slot = relations.same
        if slot < 0:
            self._known.clear()
            slot = self.columns.insert(item)
            if self.columns.size > self.own_rate.shape[1]:
                self._resize(len(self.own_rate), self.columns.size)
            below = np.flatnonzero(relations.below)
            self.rate[:, slot] = self.own_rate[:, below].sum(axis=1)
            self.count[:, slot] = self.own_count[:, below].sum(axis=1)
        self._change(row, slot, relations, rate, 1)
        return slot, relations.same < 0

    def remove(self, item: Filter, link: BrokerLink, rate: int) -> tuple[int, bool]:
        """Remove an advertisement; return its node's slot, and whether the node is gone."""
        row, relations = self.row(link), self.relations(item)
        slot = relations.same
        assert slot >= 0 and self.own_count[row, slot] > 0
        self._change(row, slot, relations, -rate, -1)
        gone = not self.own_count[:, slot].any()
        if gone:
            assert not self.own_rate[:, slot].any()
            self.rate[:, slot] = self.count[:, slot] = 0
            self.columns.remove(item)
            self._known.clear()
        return slot, gone

    def _change(self, row: int, slot: int, relations: Relations, rate: int, count: int) -> None:
        self.own_rate[row, slot] += rate
        self.own_count[row, slot] += count
        touched = np.append(np.flatnonzero(relations.above[: self.rate.shape[1]]), slot)
        self.rate[row, touched] += rate
        self.count[row, touched] += count

    def snapshot(self) -> Plain:
        """Return the nodes and their values by link."""
        return {
            "columns": self.columns.snapshot(),
            "rows": list(self.rows.items()),
            "free_rows": list(self._free_rows),
            "values": [values.copy() for values in (self.own_rate, self.own_count, self.rate, self.count)],
        }

    def restore(self, plain: Plain) -> None:
        """Restore a snapshot. Only for an empty DAG."""
        self.columns.restore(plain["columns"])
        self.rows, self._free_rows = dict(plain["rows"]), list(plain["free_rows"])
        self.own_rate, self.own_count, self.rate, self.count = (values.copy() for values in plain["values"])
        self._known.clear()

    def node(self, item: Filter) -> tuple[int, int] | None:
        """Return (rate, count) of a filter that is a node, over all links; else None."""
        slot = self.columns.slot(item)
        return None if slot < 0 else (int(self.rate[:, slot].sum()), int(self.count[:, slot].sum()))

    def predecessors(self, item: Filter) -> list[Filter]:
        """Return the filters that cover `item` directly (definition 6)."""
        above = {
            slot: self.columns.filter(slot) for slot in np.flatnonzero(self.relations(item).above).tolist()
        }
        return [
            node
            for slot, node in above.items()
            if not any(self._between(other, slot) for other in above if other != slot)
        ]

    def _between(self, lower: int, upper: int) -> bool:
        relations = self.relations(self.columns.filter(lower))
        return bool(relations.above[upper]) and not bool(relations.below[upper])

    def successors(self, item: Filter) -> list[Filter]:
        """Return the filters that `item` covers directly (definition 6)."""
        below = {
            slot: self.columns.filter(slot) for slot in np.flatnonzero(self.relations(item).below).tolist()
        }
        return [
            node
            for slot, node in below.items()
            if not any(self._between(slot, other) for other in below if other != slot)
        ]


def grown(values: Micros, rows: int, size: int) -> Micros:
    """Return an array of that shape with the values in its corner, and zeros elsewhere."""
    if values.shape == (rows, size):
        return values
    out: Micros = np.zeros((rows, size), np.int64)
    out[: len(values), : len(values[0])] = values
    return out
