"""The last event of each key, found while the past of a subscriber is read in any order of its publishers.

Rules
-----
* Of one publisher, the event with the higher number is the later one. Of several, it is the one that was published
  later, by the time that events carry; at the same time, that of the publisher whose name is last.
* So the last event of each key *and publisher* is kept, and the last one of each key is chosen at the end: the order in
  which publishers are read decides nothing.
* An event without the key is not kept.
* What is kept is bounded, in events and in bytes. Beyond it an error says what to do: whoever was told some of the keys
  would take them for all.

Pure.
Source: docs/decisions/0190-last-value.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from heapq import merge
from typing import Final, NamedTuple

import numpy as np

from ..protocol.batch import EventBatch, concat
from ..protocol.errors import TooManyKeys
from ..protocol.ids import ClientId
from .keys import keys_of

KEYS_MAX: Final = 100_000
BYTES_MAX: Final = 64 << 20
SPARE_EVENTS: Final = 4_096
SPARE_BYTES: Final = 4 << 20


class _Place(NamedTuple):
    """Where an event is kept."""

    batch: int
    row: int


class LastValues:
    """The last events of one subscriber's past.

    Parameters
    ----------
    key
        The attribute whose values are the keys, or `PUBLISHER_KEY`.
    keys_max, bytes_max
        How many events are kept, one for each key and publisher, and how large they may be together.
    spare_events, spare_bytes
        How many events that are no longer the last, and of what size, may be kept beside as many last ones.
    """

    def __init__(
        self,
        key: str,
        *,
        keys_max: int = KEYS_MAX,
        bytes_max: int = BYTES_MAX,
        spare_events: int = SPARE_EVENTS,
        spare_bytes: int = SPARE_BYTES,
    ) -> None:
        self._key = key
        self._keys_max, self._bytes_max = keys_max, bytes_max
        self._spare_events, self._spare_bytes = spare_events, spare_bytes
        self._batches: list[EventBatch] = []
        self._rows = self._nbytes = 0  # of all batches
        self._nbytes_last = 0  # when there were last events only
        self._last: dict[Hashable, dict[ClientId, _Place]] = {}
        self._kept = 0  # in `_last`

    def add(self, batch: EventBatch) -> None:
        """Take further events, of each publisher in order.

        Raises
        ------
        TooManyKeys
            If there are too many keys to keep an event of each.
        """
        latest: dict[tuple[Hashable, ClientId], int] = {}
        for row, key in enumerate(keys_of(batch, self._key)):
            if key is not None:
                latest[key, batch.publishers[batch.publisher[row]]] = row
        if not latest:
            return
        self._batches.append(batch.take(np.array(list(latest.values()), np.intp)))
        self._rows += len(latest)
        self._nbytes += self._batches[-1].nbytes
        for row, (key, publisher) in enumerate(latest):
            places = self._last.setdefault(key, {})
            self._kept += publisher not in places
            places[publisher] = _Place(len(self._batches) - 1, row)
        if (
            self._rows > 2 * self._kept + self._spare_events
            or self._nbytes > 2 * self._nbytes_last + self._spare_bytes
        ):
            self._drop_others()
        if self._kept > self._keys_max or self._nbytes_last > self._bytes_max:
            raise TooManyKeys(
                f"last_per {self._key!r}: it has more than {self._keys_max:,} values, or their last events are larger "
                f"than {self._bytes_max >> 20} MiB. End the subscriber, and let another one want less, begin later "
                "(at=...), or choose another attribute"
            )

    def _drop_others(self) -> None:
        """Keep the last events only, in one batch."""
        order = [(key, name, at) for key, places in self._last.items() for name, at in places.items()]
        rows: list[list[int]] = [[] for _ in self._batches]
        for _, _, at in order:
            rows[at.batch].append(at.row)
        parts = [(number, sorted(each)) for number, each in enumerate(rows) if each]
        moved = {
            _Place(number, row): _Place(0, place)
            for place, (number, row) in enumerate((number, row) for number, each in parts for row in each)
        }
        self._batches = [
            concat([self._batches[number].take(np.array(each, np.intp)) for number, each in parts])
        ]
        self._rows, self._nbytes = self._kept, self._batches[0].nbytes
        self._nbytes_last = self._nbytes
        for key, name, at in order:
            self._last[key][name] = moved[at]

    def chosen(self, behind: Mapping[ClientId, int], part_events: int) -> list[EventBatch]:
        """Return the last event of each key, in the order of publication, of each publisher by number.

        Parameters
        ----------
        behind
            Per publisher, up to which number they are left out.
        part_events
            How many are in a batch at most.
        """
        if not self._last:
            return []
        self._drop_others()
        batch = self._batches[0]
        of: dict[ClientId, list[tuple[float, int, int]]] = {}
        for places in self._last.values():
            _, name, row = max(
                (float(batch.published_at[at.row]), name, at.row) for name, at in places.items()
            )
            number = int(batch.sequence[row])
            if number > behind.get(name, 0):
                of.setdefault(name, []).append((float(batch.published_at[row]), number, row))
        lines = [sorted(events, key=lambda event: event[1]) for _, events in sorted(of.items())]
        rows = [row for _, _, row in merge(*lines, key=lambda event: event[0])]
        starts = range(0, len(rows), part_events)
        return [batch.take(np.array(rows[start : start + part_events], np.intp)) for start in starts]
