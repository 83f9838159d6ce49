"""The extended advertisement DAG: from how many publishers, and how fast, the events of each filter may come.

Rules
-----
* A node is a distinct filter. Its `count` and `rate` are over the distinct advertisements that it covers, its own
  included (3.1). They rise along the order, so the least over all that cover a filter is the least over its direct
  predecessors, and the order need not be kept as edges: it is asked of the columns.
* Advertising adds to the node and to all that cover it; a new node starts with its own values and the *own* values of
  all that it covers, so that nothing is counted twice however successors overlap (3.2). Unadvertising takes the same
  away (3.3).
* Everything is kept by the link that it came over: what comes from a subscriber's own side does not cross to him.

The paper starts a new node with the sum over its direct successors less `d_rate`. That is the same sum where what
they have in common lies one step below them, and only there: below that, `d_rate` as printed counts some advertisements
twice and leaves out others (docs/decisions/0016-admission.md).

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
"""How many comparisons with all nodes are remembered: a subscription asks for the same one several times."""

LOCAL: Final = -2
"""The link that stands for all attached clients together."""


class AdvertisementDag:
    """Advertisements under the covering order, by the link that they came over.

    Attributes
    ----------
    own_rate, own_count
        ``[link, slot]``: micro-events a second, and advertisements, of exactly that filter.
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
        """Return the row of a link, which is made when it is first asked for."""
        row = self.rows.get(link)
        if row is None:
            row = self._free_rows.pop() if self._free_rows else len(self.own_rate)
            self.rows[link] = row
            if row == len(self.own_rate):
                self._resize(row + 1, self.columns.size)
        return row

    def forget(self, link: BrokerLink) -> None:
        """Give back the row of a link from which no advertisement is left."""
        row = self.rows.pop(link, None)
        if row is not None:
            assert not self.own_count[row].any()
            self._free_rows.append(row)

    def _resize(self, rows: int, size: int) -> None:
        for name in ("own_rate", "own_count", "rate", "count"):
            setattr(self, name, grown(getattr(self, name), rows, size))

    def relations(self, item: Filter) -> Relations:
        """Return how a filter stands to all nodes; remembered until the nodes change."""
        known = self._known.get(item)
        if known is None:
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            known = self._known[item] = self.columns.relations(item)
        return known

    def add(self, item: Filter, link: BrokerLink, rate: int) -> tuple[int, bool]:
        """Take in an advertisement; return its node's slot, and whether the node is new."""
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
        """Let go of an advertisement that was taken in; return its node's slot, and whether the node is gone."""
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
        """Return the nodes and all that is kept of them by link."""
        return {
            "columns": self.columns.snapshot(),
            "rows": list(self.rows.items()),
            "free_rows": list(self._free_rows),
            "values": [values.copy() for values in (self.own_rate, self.own_count, self.rate, self.count)],
        }

    def restore(self, plain: Plain) -> None:
        """Be as the DAG was whose snapshot that is; only for one that is empty."""
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
    """Return an array of that shape with the values in its corner, and zeros beside."""
    if values.shape == (rows, size):
        return values
    out: Micros = np.zeros((rows, size), np.int64)
    out[: len(values), : len(values[0])] = values
    return out
