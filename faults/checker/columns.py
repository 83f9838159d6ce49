"""A trace in columns, for checking it in one pass.

Rules
-----
* Events have codes: their index among the publications. Events that were never published come after them.
* Times are positions in the trace; :data:`NEVER` is after all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ...protocol.ids import EventId
from ...protocol.traces.trace import (
    Adv,
    Advertised,
    Life,
    LossTold,
    Notified,
    Published,
    Registered,
    Settled,
    Trace,
    by_client,
    lives,
)
from .ledger import Ledger, Moment
from .numbers import check_trace
from .predicates import test_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEVER: Final = np.iinfo(np.int64).max
MASKS_KEPT: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A trace in columns.

    Attributes
    ----------
    identities
        All events by code.
    events
        How many of them were published. These come first.
    published
        Where each of these was published; shape (events,).
    publishers
        The code of each publisher.
    publisher, sequence
        Each event's publisher, as a code, and its number; shape (all events,).
    quiet
        Where the network had settled, rising.
    clients
        All subscribers.
    notified
        (positions, event codes) of each subscriber's notifications, in order.
    subscriptions, notices, advertisements
        Each subscriber's subscriptions and notices, and each publisher's advertisements.
    lost
        Where each event was reported as lost, by subscriber; "" stands for all.
    ledger
        What was retained.
    seconds
        The time of each position.
    matches
        Which published events satisfy a selector; shape (events,).
    """

    identities: list[EventId]
    events: int
    published: Ints
    publishers: dict[str, int]
    publisher: Ints
    sequence: Ints
    quiet: Ints
    clients: list[str]
    notified: dict[str, tuple[Ints, Ints]]
    subscriptions: dict[str, list[Life]]
    notices: dict[str, list[Life]]
    advertisements: dict[str, list[Life]]
    lost: dict[str, dict[int, list[int]]]
    ledger: Ledger
    seconds: list[float]
    matches: Callable[[str], Bools]

    def quiet_after(self, positions: Ints) -> Ints:
        """Return the first position after each given one at which the network had settled, or NEVER."""
        padded = np.append(self.quiet, NEVER)
        found: Ints = padded[np.searchsorted(self.quiet, positions, side="right")]
        return found

    def passed(self, client: str, code: int) -> tuple[int, int] | None:
        """Return where a subscriber was first notified of a later event of the same publisher, and the code of that."""
        at, what = self.notified[client]
        later = (self.publisher[what] == self.publisher[code]) & (self.sequence[what] > self.sequence[code])
        found = np.flatnonzero(later & (at > self.published[code]))
        return (int(at[found[0]]), int(what[found[0]])) if len(found) else None

    def explained(self, client: str, code: int, wanted: Callable[[], Ints]) -> str | None:
        """Return the limit that explains why a subscriber lost an event, "" for none, None if no loss is reported."""
        published = int(self.published[code])
        said = [at for who in (client, "") for at in self.lost.get(who, {}).get(code, ()) if at > published]
        if not said:
            return None
        quiet = int(self.quiet_after(self.published[code : code + 1])[0])
        settled = None if quiet == NEVER else self._moment(quiet)
        event, begun = self.identities[code], self._moment(published)
        after = self.passed(client, code)
        passed = None if after is None else self._moment(after[0])
        for position in said:
            claimed = self._moment(position)
            limit = self.ledger.explain(
                client, event, begun, claimed, settled, passed, lambda: wanted().tolist()
            )
            if limit:
                return limit
        return ""

    def _moment(self, position: int) -> Moment:
        return Moment(position, self.seconds[position])


def columns_of(trace: Trace) -> Columns:
    """Return a trace in columns.

    Raises
    ------
    InputError
        If two events are published under one number, or a selector cannot be parsed.
    """
    check_trace(trace)
    contents: list[Mapping[str, object]] = []
    published: list[int] = []
    codes: dict[EventId, int] = {}
    for position, op in enumerate(trace):
        if type(op) is Published:
            codes[op.publisher, op.sequence] = len(codes)
            contents.append(op.event)
            published.append(position)
    quiet: list[int] = []
    notified: dict[str, tuple[list[int], list[int]]] = {}
    lost: dict[str, dict[int, list[int]]] = {}
    for position, op in enumerate(trace):
        if isinstance(op, Notified):
            at, what = notified.setdefault(op.client, ([], []))
            at.append(position)
            what.append(codes.setdefault((op.publisher, op.sequence), len(codes)))
        elif isinstance(op, Registered):
            notified.setdefault(op.client, ([], []))
        elif isinstance(op, Settled):
            quiet.append(position)
        elif isinstance(op, LossTold):
            code = codes.setdefault((op.publisher, op.sequence), len(codes))
            lost.setdefault(op.client, {}).setdefault(code, []).append(position)
    names: dict[str, int] = {}
    publisher = [names.setdefault(name, len(names)) for name, _ in codes]
    return Columns(
        identities=list(codes),
        events=len(contents),
        published=np.array(published, np.int64),
        publishers=names,
        publisher=np.array(publisher, np.int64),
        sequence=np.array([sequence for _, sequence in codes], np.int64),
        quiet=np.array(quiet, np.int64),
        clients=list(notified),
        notified={
            client: (np.array(at, np.int64), np.array(what, np.int64))
            for client, (at, what) in notified.items()
        },
        subscriptions=by_client(lives(trace)),
        notices=by_client(lives(trace, Adv)),
        advertisements=by_client(lives(trace, Advertised)),
        lost=lost,
        ledger=Ledger(enumerate(trace)),
        seconds=[op.at_seconds for op in trace],
        matches=_matcher(contents),
    )


def _matcher(contents: list[Mapping[str, object]]) -> Callable[[str], Bools]:
    @lru_cache(maxsize=MASKS_KEPT)
    def matches(selector: str) -> Bools:
        test = test_of(selector)
        return np.fromiter((test(event) is True for event in contents), np.bool_, len(contents))

    return matches


def when(position: int | None) -> int:
    """Return a position, or NEVER."""
    return NEVER if position is None else position
