"""Selects the events that are new to a receiver that has had each publisher's events up to a number.

Rules
-----
* Each publisher's events arrive in the order of their sequence, also when they are retransmitted. One number
  per publisher, a *mark*, is therefore enough: an event that is not above the mark was received before or was
  not wanted.
* Most deliveries have one event or a few. For these a loop over Python's numbers is faster than any array,
  and for deliveries from many publishers it is no slower.
* Whether a batch rises is found once for all receivers. Of one that does, the first and the last event of a receiver
  say for nearly all deliveries that all or none of them is new.

Source: promises 1 and 3; docs/decisions/0011-recovery.md.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ...protocol.batch import EventBatch, Rows
from ...protocol.ids import ClientId

FEW: Final = 64
"""The largest number of events for the loop (measured: 1 against 8 microseconds for one, equal at about 100)."""


def rising(batch: EventBatch, rows: Rows, marks: dict[ClientId, int]) -> Rows:
    """Return those of the rising rows that are above the marks of their publishers, and raise the marks.

    A batch may contain an event twice, when two copies were in flight together. The second is not new.
    """
    if len(rows) == 1:  # most deliveries: no array is made
        name, sequence = batch.identity(int(rows[0]))
        if sequence <= marks.get(name, 0):
            return rows[:0]
        marks[name] = sequence
        return rows
    names = batch.publishers
    if len(rows) > FEW and batch.rises:
        mark, last = marks.get(names[0], 0), int(batch.sequence[rows[-1]])
        if last <= mark:
            return rows[:0]
        if batch.sequence[rows[0]] > mark:
            marks[names[0]] = last
            return rows
    sequences = batch.sequence[rows]
    new = np.zeros(len(rows), np.bool_)
    if len(rows) > FEW and len(names) == 1:
        highest = np.maximum.accumulate(np.concatenate(([marks.get(names[0], 0)], sequences)))
        new[:] = highest[1:] > highest[:-1]
        marks[names[0]] = int(highest[-1])
        return rows if new.all() else rows[new]
    codes = batch.publisher[rows].tolist()
    for place, (code, sequence) in enumerate(zip(codes, sequences.tolist(), strict=True)):
        name = names[code]
        if sequence > marks.get(name, 0):
            marks[name] = sequence
            new[place] = True
    return rows if new.all() else rows[new]
