"""What a match comes to: pairs of an event and a filter, in two arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .bits import Columns


class Matches(NamedTuple):
    """Which filter matches which event: pairs, by row, then by slot, each once.

    Attributes
    ----------
    rows
        ``intp``: the position of the event in the batch. May be read-only: those of one event are zeros, made once.
    slots
        ``intp``: the filter.
    """

    rows: Columns
    slots: Columns


def owned(matches: Matches, owners: Columns) -> Matches:
    """Return pairs of an event and a column as pairs of an event and the column's owner, each once and in order."""
    rows, columns = matches
    keys = rows * len(owners) + owners[columns]
    keys.sort()
    if len(keys):
        keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
    rows = keys // len(owners)
    return Matches(rows, keys - rows * len(owners))


def folded(matches: Matches, events: Columns, slots_end: int) -> Matches:
    """Return which filters match which event, from those that match the flat events that it stands for."""
    span = max(slots_end, 1)
    keys = np.unique(events[matches.rows] * span + matches.slots)
    return Matches(*np.divmod(keys, span))
