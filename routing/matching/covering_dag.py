"""The covering DAG: filters ordered by "covers", with edges from each filter to those that it covers directly.

Rules
-----
* ``f`` is above ``g`` when ``f`` covers ``g``. Only direct covers are edges: no filter is between the two (paper 3,
  definition 6: predecessor and successor sets).
* A *root* has no filter above it. The roots are the filters that a broker must forward (Siena; paper 1, section 1).
* Of two filters that cover each other, the one that was inserted first is above.

Candidates are found quickly as follows. A filter that covers ``g`` matches every event that ``g`` matches, so
matching the witness events of ``g`` with the index leaves few candidates above ``g``. Matching ``g`` against the
witness events of all filters at once leaves few candidates below it. Only candidates are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ...protocol.batch import flat_batch
from ...protocol.effects import Plain
from ...protocol.values import Value
from ..filters.covering import covers
from ..filters.filter import Filter
from .index import MatchIndex
from .witness_store import WitnessStore

SCAN_MAX: Final = 24
"""Up to this many filters, comparing with each is cheaper than using the indexes."""


@dataclass(slots=True, eq=False)
class DagNode:
    """A filter in the DAG with its direct covers; the dicts are used as ordered sets."""

    filter: Filter
    slot: int
    above: dict[int, DagNode] = field(default_factory=dict)
    below: dict[int, DagNode] = field(default_factory=dict)


class CoveringDag:
    """Filters under the covering order, inserted and removed one at a time.

    Parameters
    ----------
    index
        The match index that holds the same filters, and possibly others, under the same slots. The caller keeps
        the two consistent: it inserts a filter into the index first, and removes it from the index last.
    """

    def __init__(self, index: MatchIndex) -> None:
        self._index = index
        self._nodes: dict[Filter, DagNode] = {}
        self._by_slot: dict[int, DagNode] = {}
        self._roots: dict[int, DagNode] = {}
        self._witnesses = WitnessStore()

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, item: Filter) -> bool:
        return item in self._nodes

    def roots(self) -> Iterator[Filter]:
        """Iterate over the filters that no other filter covers."""
        return (node.filter for node in self._roots.values())

    def is_root(self, item: Filter) -> bool:
        """Return whether no other filter in the DAG covers the filter."""
        return not self._nodes[item].above

    def predecessors(self, item: Filter) -> list[Filter]:
        """Return the filters that cover `item` directly."""
        return [node.filter for node in self._nodes[item].above.values()]

    def successors(self, item: Filter) -> list[Filter]:
        """Return the filters that `item` covers directly."""
        return [node.filter for node in self._nodes[item].below.values()]

    def root_above(self, item: Filter) -> Filter:
        """Return a root that covers `item`: the filter itself when it is a root."""
        node = self._nodes[item]
        while node.above:
            node = next(iter(node.above.values()))
        return node.filter

    def insert(self, item: Filter, slot: int) -> list[Filter]:
        """Insert a filter and return the former roots that it now covers.

        Parameters
        ----------
        item
            A filter that is not in the DAG.
        slot
            Its slot in the match index, which already has the filter.
        """
        witnesses = _known(item)
        above = self._closure(self._find_above(item, witnesses), lambda node: node.above)
        below = self._closure(self._find_below(item), lambda node: node.below, stop=above)
        node = DagNode(item, slot)
        parents = [other for other in above.values() if above.keys().isdisjoint(other.below)]
        children = [other for other in below.values() if below.keys().isdisjoint(other.above)]
        for parent in parents:
            for child in children:
                if parent.below.pop(child.slot, None) is not None:
                    del child.above[parent.slot]
            _join(parent, node)
        covered_roots = [child.filter for child in children if child.slot in self._roots]
        for child in children:
            self._roots.pop(child.slot, None)
            _join(node, child)
        if not parents:
            self._roots[slot] = node
        self._nodes[item] = self._by_slot[slot] = node
        self._witnesses.add(slot, witnesses)
        return covered_roots

    def remove(self, item: Filter) -> list[Filter]:
        """Remove a filter and return the filters that became roots."""
        node = self._nodes.pop(item)
        del self._by_slot[node.slot]
        self._roots.pop(node.slot, None)
        self._witnesses.discard(node.slot, _known(item))
        for parent in node.above.values():
            del parent.below[node.slot]
        for child in node.below.values():
            del child.above[node.slot]
        exposed = []
        for child in node.below.values():
            known = self._closure(child.above.values(), lambda other: other.above)
            for parent in node.above.values():
                if parent.slot not in known:
                    _join(parent, child)
            if not child.above:
                self._roots[child.slot] = child
                exposed.append(child.filter)
        return exposed

    def _find_above(self, item: Filter, witnesses: list[dict[str, Value]]) -> list[DagNode]:
        """Return the nodes of all filters that cover `item`."""
        if len(self._nodes) <= SCAN_MAX or not witnesses:
            candidates: Iterable[DagNode] = self._nodes.values()
        else:
            found = self._index.match(flat_batch(witnesses)).slots
            if len(witnesses) > 1:
                slots, counts = np.unique(found, return_counts=True)
                found = slots[counts == len(witnesses)]
            candidates = [self._by_slot[other] for other in found.tolist() if other in self._by_slot]
        return [node for node in candidates if covers(node.filter, item)]

    def _find_below(self, item: Filter) -> list[DagNode]:
        """Return the nodes of all filters that `item` covers."""
        if len(self._nodes) <= SCAN_MAX:
            candidates: Iterable[DagNode] = self._nodes.values()
        else:
            candidates = [self._by_slot[slot] for slot in self._witnesses.matched_by(item)]
        return [node for node in candidates if covers(item, node.filter)]

    def _closure(
        self,
        start: Iterable[DagNode],
        step: Callable[[DagNode], dict[int, DagNode]],
        stop: dict[int, DagNode] | None = None,
    ) -> dict[int, DagNode]:
        """Return all nodes reached from `start`, without those in `stop`.

        "Covers" may be falsely negative (patterns), so its results are completed by transitivity. This keeps the
        graph free of cycles in any case.
        """
        seen: dict[int, DagNode] = {}
        todo = list(start)
        while todo:
            node = todo.pop()
            if node.slot in seen or (stop is not None and node.slot in stop):
                continue
            seen[node.slot] = node
            todo.extend(step(node).values())
        return dict(sorted(seen.items()))

    def snapshot(self) -> Plain:
        """Return filters and edges, for `restore`."""
        place = {node.slot: i for i, node in enumerate(self._nodes.values())}
        nodes = [
            (node.filter, [place[slot] for slot in node.above], [place[slot] for slot in node.below])
            for node in self._nodes.values()
        ]
        return nodes, [place[slot] for slot in self._roots]

    def restore(self, plain: Plain, slot_of: Callable[[Filter], int]) -> None:
        """Restore the DAG from a snapshot; `slot_of` returns the slot of each filter in the index."""
        nodes, roots = plain
        made = [DagNode(item, slot_of(item)) for item, _, _ in nodes]
        for node, (_, above, below) in zip(made, nodes, strict=True):
            node.above.update((made[i].slot, made[i]) for i in above)
            node.below.update((made[i].slot, made[i]) for i in below)
            self._nodes[node.filter] = self._by_slot[node.slot] = node
            self._witnesses.add(node.slot, _known(node.filter))
        self._roots.update((made[i].slot, made[i]) for i in roots)

    def check(self) -> None:
        """Assert that edges are mutual, roots are right and there is no cycle; for tests."""
        for node in self._nodes.values():
            assert all(node is parent.below[node.slot] for parent in node.above.values())
            assert all(node is child.above[node.slot] for child in node.below.values())
            assert (node.slot in self._roots) == (not node.above)
            for child in node.below.values():
                assert all(node.filter.holds(event) for event in _known(child.filter))
        order = _topological_order(self._nodes.values())
        assert len(order) == len(self._nodes), "the covering DAG has a cycle"
        assert len(self._witnesses) == len(self._nodes)


def _known(item: Filter) -> list[dict[str, Value]]:
    """Return the witness events that were found for a filter."""
    return [event for event in item.witnesses() if event is not None]


def _join(parent: DagNode, child: DagNode) -> None:
    parent.below[child.slot] = child
    child.above[parent.slot] = parent


def _topological_order(nodes: Iterable[DagNode]) -> list[int]:
    waiting = {node.slot: len(node.above) for node in nodes}
    ready = [node for node in nodes if not node.above]
    order: list[int] = []
    while ready:
        node = ready.pop()
        order.append(node.slot)
        for child in node.below.values():
            waiting[child.slot] -= 1
            if not waiting[child.slot]:
                ready.append(child)
    return order
