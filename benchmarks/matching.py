"""How fast the match index is, beside a brute force in numpy, on a synthetic load.

The load: ten integer attributes over 0..1,000,000; each filter constrains five of them, drawn at random,
each to an interval half of the domain wide at a random place; each event has all ten, uniformly. A filter
matches an event with probability 1/32.

Three brute forces stand beside the index, all vectorised over all filters, one event at a time:

* `brute_force`: each filter's five constraints as they are (attribute, low, high), in three arrays; the event's
  value is looked up for each. It takes any attributes and any integers, as the index does.
* `dense_brute_force`: knows that there are just ten attributes, and holds bounds for all of them for every
  filter, an unconstrained one as the whole range: ``((lows <= event) & (event <= highs)).all(axis=0)``.
* `tuned_brute_force`: the best that we could do on just this load, attribute by attribute in place in
  arrays that stay in the cache. The values fit 32 bits and each constraint is one closed interval, so one
  wrapping subtraction and one comparison in ``uint32`` do an attribute.

Index and brute force must agree on every match of the events that both see; the run fails when they do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..protocol.batch import Column, EventBatch, batch_from_columns
from ..protocol.values import Kind
from ..routing.filters.domains import Domain, Interval
from ..routing.filters.filter import Clause, Filter
from ..routing.matching.index import Matches, MatchIndex

ATTRIBUTES: Final = 10
CONSTRAINED: Final = 5
DOMAIN: Final = 1_000_000
GROUPS: Final = 8
_CHANGES: Final = 200
_SINGLES: Final = 100
_ROUNDS: Final = 12

Integers = npt.NDArray[np.int64]
Progress = Callable[[str], None]


def run(
    filter_counts: Sequence[int] = (1_000, 10_000, 100_000),
    events: int = 512,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure the index at each number of filters, and the brute force beside it.

    Parameters
    ----------
    filter_counts
        Numbers of filters.
    events
        Events matched in one batch; the best of twelve runs counts.
    seed
        Of the filters and events.
    progress
        Called with one line of text before each step.

    Returns
    -------
    dict
        ``results`` has one entry for each number of filters; times are in the unit that the key names.

    Raises
    ------
    AssertionError
        If index and brute force disagree.
    """
    say = progress or (lambda text: None)
    results = [_measure(count, events, seed, say) for count in filter_counts]
    return {
        "benchmark": "matching",
        "attributes": ATTRIBUTES,
        "constraints_per_filter": CONSTRAINED,
        "domain": DOMAIN,
        "seed": seed,
        "threads": 1,
        "results": results,
    }


def _measure(count: int, events: int, seed: int, say: Progress) -> dict[str, Any]:
    generator = np.random.default_rng([seed, count])
    lows, highs = _bounds(count, generator)
    filters = filters_of(lows, highs)
    values = generator.integers(0, DOMAIN + 1, (ATTRIBUTES, events))
    batch = batch_of_values(values)

    say(f"{count:,} filters: build")
    index = MatchIndex()
    begin = time.perf_counter()
    index.insert_many(filters)
    index.match(batch.take(np.arange(1)))  # the first batch makes the rows; that is part of building
    build_seconds = time.perf_counter() - begin

    say(f"{count:,} filters: match {events:,} events, and brute force")
    brutes = (_BruteForce(lows, highs), _DenseBruteForce(lows, highs), _TunedBruteForce(lows, highs))
    brute_events = min(events, max(10, 4_000_000 // count))
    some = batch.take(np.arange(brute_events))
    for brute in brutes:
        _compare(index.match(some), [brute.match(event) for event in values.T[:brute_events].tolist()], count)
    groups = np.left_shift(np.uint64(1), generator.integers(0, GROUPS, index.slots_end, dtype=np.uint64))
    singles = [batch.take(np.array([row])) for row in range(min(_SINGLES, events))]
    rows = values.T[:brute_events].tolist()
    batch_seconds, group_seconds, single_seconds, *brute_seconds = _best_seconds(
        lambda: index.match(batch),
        lambda: index.match_groups(batch, groups),
        lambda: [index.match(single) for single in singles],
        *(partial(_match_each, brute, rows) for brute in brutes),
    )

    say(f"{count:,} filters: insert and remove")
    insert_seconds, remove_seconds = _changes(index, generator)
    found = len(index.match(batch).rows)
    microseconds = batch_seconds / events * 1e6
    plain, dense, tuned = (seconds / brute_events * 1e6 for seconds in brute_seconds)
    return {
        "filters": count,
        "microseconds_per_event": microseconds,
        "times_brute_force": plain / microseconds,
        "times_dense_brute_force": dense / microseconds,
        "times_tuned_brute_force": tuned / microseconds,
        "build_seconds": build_seconds,
        "insert_microseconds": insert_seconds * 1e6,
        "remove_microseconds": remove_seconds * 1e6,
        "matches_per_event": found / events,
        "brute_force_microseconds_per_event": plain,
        "dense_brute_force_microseconds_per_event": dense,
        "tuned_brute_force_microseconds_per_event": tuned,
        "batch_events": events,
        "single_event_microseconds": single_seconds / len(singles) * 1e6,
        "groups_microseconds_per_event": group_seconds / events * 1e6,
        "groups": GROUPS,
        "index_bytes": index.nbytes,
    }


def _bounds(count: int, generator: np.random.Generator) -> tuple[Integers, Integers]:
    """Return each filter's first and last value by attribute; -1 as the first where it is unconstrained."""
    half = DOMAIN // 2
    lows = generator.integers(0, DOMAIN - half + 1, (ATTRIBUTES, count))
    chosen = np.argsort(generator.random((ATTRIBUTES, count)), axis=0) < CONSTRAINED
    lows = np.where(chosen, lows, -1)
    return lows, np.where(chosen, lows + half, DOMAIN)


def filters_of(lows: Integers, highs: Integers) -> list[Filter]:
    """Return the filters of these bounds, ``[attributes, filters]``; a low of -1 is no constraint."""
    names = [f"a{number}" for number in range(len(lows))]
    out = []
    for low_values, high_values in zip(lows.T.tolist(), highs.T.tolist(), strict=True):
        constraints = tuple(
            (name, Domain(numbers=(Interval(low, high),)))
            for name, low, high in zip(names, low_values, high_values, strict=True)
            if low >= 0
        )
        out.append(Filter((Clause(constraints),)))
    return out


def batch_of_values(values: Integers) -> EventBatch:
    """Return a batch of events of integers, ``[attributes, events]``."""
    columns = {
        (f"a{number}", Kind.INTEGER): Column(Kind.INTEGER, np.ascontiguousarray(line))
        for number, line in enumerate(values)
    }
    return batch_from_columns(columns, values.shape[1])


class _BruteForce:
    """Every filter's constraints, each compared with the event's value of its attribute."""

    def __init__(self, lows: Integers, highs: Integers) -> None:
        chosen = np.argsort(lows < 0, axis=0, kind="stable")[:CONSTRAINED]
        self._attributes = np.ascontiguousarray(chosen.T)
        self._lows = np.ascontiguousarray(np.take_along_axis(lows, chosen, 0).T)
        self._highs = np.ascontiguousarray(np.take_along_axis(highs, chosen, 0).T)

    def match(self, event: Sequence[int]) -> npt.NDArray[np.intp]:
        """Return the filters that match an event."""
        values = np.array(event)[self._attributes]
        return np.flatnonzero(((self._lows <= values) & (values <= self._highs)).all(axis=1))


class _DenseBruteForce:
    """All filters' bounds of all attributes, compared with one event at a time."""

    def __init__(self, lows: Integers, highs: Integers) -> None:
        self._lows, self._highs = lows, highs

    def match(self, event: Sequence[int]) -> npt.NDArray[np.intp]:
        """Return the filters that match an event."""
        values = np.array(event)[:, None]
        return np.flatnonzero(((self._lows <= values) & (values <= self._highs)).all(axis=0))


class _TunedBruteForce:
    """The same for one closed interval of 32 bits an attribute: ``value - low <= high - low``, unsigned."""

    def __init__(self, lows: Integers, highs: Integers) -> None:
        lows = np.maximum(lows, 0)
        self._lows = [line.astype(np.uint32) for line in lows]
        self._widths = [line.astype(np.uint32) for line in highs - lows]
        self._distance = np.empty(lows.shape[1], np.uint32)
        self._inside = np.empty(lows.shape[1], np.bool_)
        self._all = np.empty(lows.shape[1], np.bool_)

    def match(self, event: Sequence[int]) -> npt.NDArray[np.intp]:
        """Return the filters that match an event."""
        everything, inside, distance = self._all, self._inside, self._distance
        out = everything
        for low, width, value in zip(self._lows, self._widths, event, strict=True):
            np.subtract(np.uint32(value), low, out=distance)  # wraps to a large distance when it is below
            np.less_equal(distance, width, out=out)
            if out is inside:
                np.logical_and(everything, inside, out=everything)
            out = inside
        return np.flatnonzero(everything)


_AnyBruteForce: TypeAlias = _BruteForce | _DenseBruteForce | _TunedBruteForce


def _match_each(brute: _AnyBruteForce, rows: Sequence[Sequence[int]]) -> None:
    for row in rows:
        brute.match(row)


def _compare(matches: Matches, expected: list[npt.NDArray[np.intp]], count: int) -> None:
    rows = np.repeat(np.arange(len(expected)), list(map(len, expected)))
    same = np.array_equal(matches.rows, rows) and np.array_equal(matches.slots, np.concatenate(expected))
    if not same:
        raise AssertionError(f"index and brute force disagree at {count} filters")


def _changes(index: MatchIndex, generator: np.random.Generator) -> tuple[float, float]:
    """Return the mean seconds of one insertion and of one removal."""
    filters = filters_of(*_bounds(_CHANGES, generator))
    begin = time.perf_counter()
    slots = [index.insert(filter) for filter in filters]
    middle = time.perf_counter()
    for slot in slots:
        index.remove(slot)
    return (middle - begin) / _CHANGES, (time.perf_counter() - middle) / _CHANGES


def _best_seconds(*actions: Callable[[], object]) -> list[float]:
    """Return the least seconds that each takes; they take turns, so that a busy machine is busy for all."""
    best = [float("inf")] * len(actions)
    for _ in range(_ROUNDS):
        for number, action in enumerate(actions):
            begin = time.perf_counter()
            action()
            best[number] = min(best[number], time.perf_counter() - begin)
    return best
