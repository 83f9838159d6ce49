"""The time to live of events: how it travels, and which events are past it.

Rules
-----
* An event with a time to live has it in a column of its own, under a name that no attribute can have. So whatever
  cuts, joins, sends or stores a batch keeps it, filters do not see it, and a batch without it is unchanged.
* It is the number of seconds after the time of publication, which every event has: together they are a deadline on
  the publisher's clock. It does not become more while an event waits for a broker that stands still or is down, as a
  remaining time would.
* Whoever hands an event on reads its own clock. Where that differs from the publisher's by d seconds, the event
  expires d seconds early or late.
* At its deadline an event may still be handed over, after it no more.

Source: docs/decisions/0180-expiry.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Final

import numpy as np
import numpy.typing as npt

from . import checks
from .batch import Column, EventBatch, Mask, Rows
from .effects import Deliver
from .gathering import TTLS
from .messages.pubsub import Events
from .values import Kind

PAST_TTL: Final = "past_ttl_events"
"""The name under which events are counted that were dropped because their time to live had passed."""


def checked_ttl(ttl: object) -> float | None:
    """Return a time to live as a number of seconds; None for events that do not expire.

    Raises
    ------
    InputError
        If it is not a number of seconds above 0.
    """
    seconds = checks.optional_seconds("ttl", ttl)
    if seconds == 0:
        raise checks.wrong("ttl", ttl, "more than 0 seconds, or None for events that do not expire")
    return seconds


def with_ttl(batch: EventBatch, ttl: float | None) -> EventBatch:
    """Return the events with a time to live of so many seconds after their publication; unchanged if None."""
    if ttl is None:
        return batch
    columns = {**batch.columns, TTLS: Column(Kind.FLOAT, np.full(len(batch), ttl))}
    return replace(batch, columns=columns)


def with_deadlines(batch: EventBatch, until: Mapping[int, float], now: float) -> EventBatch:
    """Return the events, published `now`, with the times at which some of them expire, by row; all in one clock."""
    if not until:
        return batch
    data, present = np.zeros(len(batch)), np.zeros(len(batch), np.bool_)
    for row, at in until.items():
        data[row], present[row] = max(at - now, 0.0), True
    column = Column(Kind.FLOAT, data, None if present.all() else present)
    return replace(batch, columns={**batch.columns, TTLS: column})


def deadlines(batch: EventBatch) -> npt.NDArray[np.float64] | None:
    """Return when each event expires, in seconds since 1970, infinity for never; None if none of them does."""
    column = batch.columns.get(TTLS)
    if column is None:
        return None
    until = batch.published_at + column.data
    return until if column.present is None else np.where(column.present, until, np.inf)


def deadline(batch: EventBatch, row: int) -> float | None:
    """Return when an event expires, in seconds since 1970; None for never."""
    column = batch.columns.get(TTLS)
    if column is None or (column.present is not None and not column.present[row]):
        return None
    return float(batch.published_at[row] + column.data[row])


def first_deadline(batch: EventBatch, rows: Rows | None = None) -> float:
    """Return when the first of the events, or of these rows, expires; infinity if none of them does."""
    until = deadlines(batch)
    if until is None or (rows is not None and not len(rows)):
        return inf
    return float((until if rows is None else until[rows]).min())


def _in_time(batch: EventBatch, now: float) -> Mask | None:
    """Return which events may be handed over; None if all may."""
    until = deadlines(batch)
    if until is None:
        return None
    in_time: Mask = until >= now
    return None if in_time.all() else in_time


def living(batch: EventBatch, rows: Rows, now: float) -> Rows:
    """Return those of the rows whose events may be handed over."""
    in_time = _in_time(batch, now)
    return rows if in_time is None else rows[in_time[rows]]


def timely(deliver: Deliver, now: float) -> tuple[Deliver | None, int]:
    """Return a delivery without what is past its time, None if nothing is left; and how many notifications that was.

    A numbered one, which is repeated until the client has it, stays as it is.
    """
    in_time = None if deliver.number else _in_time(deliver.batch, now)
    if in_time is None:
        return deliver, 0
    keep = in_time[deliver.rows]
    gone = len(keep) - int(keep.sum())
    if not gone:
        return deliver, 0
    left = np.concatenate(([0], np.cumsum(keep)))[deliver.starts]
    some = np.flatnonzero(np.diff(left))
    if not len(some):
        return None, gone
    clients = tuple(deliver.clients[place] for place in some.tolist())
    starts = np.concatenate((left[some], left[-1:]))
    return replace(deliver, clients=clients, starts=starts, rows=deliver.rows[keep]), gone


def passable(events: Events, now: float) -> tuple[Events | None, int]:
    """Return a message to another broker without what is past its time, None if nothing is left, and how much that was.

    Messages of which the receiver counts how many there are stay as they are.
    """
    in_time = None if events.number else _in_time(events.batch, now)
    if in_time is None:
        return events, 0
    rows = np.flatnonzero(in_time)
    gone = len(events.batch) - len(rows)
    return (replace(events, batch=events.batch.take(rows)) if len(rows) else None), gone
