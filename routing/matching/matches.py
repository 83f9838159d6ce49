"""The result of matching: pairs of an event and a filter, in two arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .bits import Columns


class Matches(NamedTuple):
    """Pairs of an event and a filter that matches it, sorted by row, then by slot, without duplicates.

    Attributes
    ----------
    rows
        ``intp``: the position of the event in the batch. May be read-only: for a single event it is a shared array of
        zeros.
    slots
        ``intp``: the slot of the filter.
    """

    rows: Columns
    slots: Columns


def owned(matches: Matches, owners: Columns) -> Matches:
    """Convert (event, column) pairs to (event, owner of the column) pairs, sorted and without duplicates."""
    return distinct(matches.rows, owners[matches.slots], len(owners))


def distinct(rows: Columns, slots: Columns, slots_end: int) -> Matches:
    """Return pairs as matches: sorted and without duplicates."""
    span = max(slots_end, 1)
    keys = rows * span + slots
    keys.sort()  # np.unique takes ten times as long
    if len(keys):
        keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
    rows = keys // span
    return Matches(rows, keys - rows * span)
