"""One sample event per filter, in columns, so that one pass finds which of them a new filter matches.

Rule: a new event goes to a short tail that is tested event by event. A full tail becomes a batch, and a few
batches are merged into one. So adding is cheap, and a query takes a few vectorised passes. A filter that asks for one
string, as most subscribers do, finds those whose event has it without a pass.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ...protocol.batch import EventBatch, batch_of, concat
from ...protocol.values import Value
from ..filters.clauses import Clause
from ..filters.domains import Domain
from ..filters.filter import Filter

TAIL_MAX: Final = 128
BATCHES_MAX: Final = 4
FEW: Final = 64
"""Up to so many events with a string, they are all returned: the caller compares filters anyway."""


class WitnessStore:
    """Witness events by the slot of their filter; a filter without one is always a candidate."""

    def __init__(self) -> None:
        self._unknown: dict[int, None] = {}
        self._tail: dict[int, dict[str, Value]] = {}
        self._with: dict[tuple[str, str], dict[int, None]] = {}  # by attribute and string
        self._packed: list[tuple[EventBatch, list[int]]] = []  # with the slot of each row
        self._home: dict[
            int, EventBatch
        ] = {}  # the batch with the event of each slot; the rows of a freed slot are dead

    def __len__(self) -> int:
        return len(self._unknown) + len(self._tail) + len(self._home)

    def add(self, slot: int, witnesses: list[dict[str, Value]]) -> None:
        """Store one of the witnesses of the filter at `slot`."""
        if not witnesses:
            self._unknown[slot] = None
            return
        self._tail[slot] = witnesses[0]
        for key in _strings_of(witnesses[0]):
            self._with.setdefault(key, {})[slot] = None
        if len(self._tail) >= TAIL_MAX:
            self._pack_tail()

    def discard(self, slot: int, witnesses: list[dict[str, Value]]) -> None:
        """Forget the filter at `slot`, which was added with these witnesses."""
        self._unknown.pop(slot, None)
        for key in _strings_of(witnesses[0]) if witnesses else ():
            slots = self._with[key]
            del slots[slot]
            if not slots:
                del self._with[key]
        self._tail.pop(slot, None)
        self._home.pop(slot, None)
        if sum(len(slots) for _, slots in self._packed) > 2 * len(self._home) + TAIL_MAX:
            self._repack()

    def matched_by(self, item: Filter) -> list[int]:
        """Return, in rising order, the slots whose witness `item` may match and the slots without a witness."""
        few = self._few(item)
        if few is not None:
            return sorted({*self._unknown, *few})
        found = list(self._unknown)
        found += [slot for slot, event in self._tail.items() if item.holds(event)]
        for batch, slots in self._packed:
            rows = item.evaluate_batch(batch).nonzero()[0].tolist()
            found += [slots[row] for row in rows if self._home.get(slots[row]) is batch]
        return sorted(found)

    def _few(self, item: Filter) -> set[int] | None:
        """Return slots among which are all whose witness `item` matches; None if they would be many."""
        found: set[int] = set()
        for clause in item.clauses:
            keys = _asked_by(clause)
            if not keys:
                return None
            fewest = min(keys, key=lambda key: len(self._with.get(key, ())))
            found.update(self._with.get(fewest, ()))
            if len(found) > FEW:
                return None
        return found

    def _pack_tail(self) -> None:
        batch = batch_of(self._tail.values())
        self._packed.append((batch, list(self._tail)))
        self._home.update(dict.fromkeys(self._tail, batch))
        self._tail.clear()
        if len(self._packed) > BATCHES_MAX:
            self._repack()

    def _repack(self) -> None:
        """Merge all batches into one, without the dead rows."""
        parts: list[EventBatch] = []
        alive: list[int] = []
        for batch, slots in self._packed:
            rows = [row for row, slot in enumerate(slots) if self._home.get(slot) is batch]
            alive += [slots[row] for row in rows]
            if rows:
                parts.append(batch.take(np.array(rows, np.intp)))
        self._packed = []
        if parts:
            whole = concat(parts)
            self._packed = [(whole, alive)]
            self._home = dict.fromkeys(alive, whole)


def _strings_of(event: dict[str, Value]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in event.items() if isinstance(value, str)]


def _asked_by(clause: Clause) -> list[tuple[str, str]]:
    """Return the attributes of which a clause asks for one string, with that string."""
    words = ((name, _only_string(domain)) for name, domain in clause.constraints)
    return [(name, word) for name, word in words if word is not None]


def _only_string(domain: Domain) -> str | None:
    intervals = domain.strings.intervals
    if len(intervals) != 1 or not intervals[0].is_point:
        return None
    if domain.missing or domain.null or domain.booleans or domain.numbers or domain.timestamps:
        return None
    return str(intervals[0].low)
