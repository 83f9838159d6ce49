"""The speed of the match index, compared with a brute force in numpy, on a synthetic load.

The load (`loads`): by default ten integer attributes over 0..1,000,000; each filter constrains five of them,
drawn at random, each to an interval half of the domain wide at a random place; each event has all ten,
uniformly. A filter matches an event with probability 1/32.

The index is compared with several brute forces, all vectorised over all filters, one event at a time:

* `brute_force`: each filter's constraints as they are (attribute, low, high), in three arrays; the event's
  value is looked up for each. It takes any attributes and any integers, as the index does.
* `dense_brute_force`: knows the number of attributes, and holds bounds for all of them for every filter, with
  the whole range for an unconstrained one: ``((lows <= event) & (event <= highs)).all(axis=0)``.
* `tuned_brute_force`: the best that we could do for the default load alone, attribute by attribute in place
  in arrays that stay in the cache. The values fit 32 bits and each constraint is one closed interval, so one
  wrapping subtraction and one comparison in ``uint32`` per attribute suffice.

The last two are measured on the default load only. Index and brute force must agree on every match of the
events that both process; otherwise the run fails.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import psutil

from ..protocol.checks import one_of
from ..protocol.errors import InputError
from ..routing.matching.index import Matches, MatchIndex
from ..routing.matching.kernels import instructions
from .loads import KINDS, Integers, Load, Shape, make

GROUPS: Final = 8
DEFAULT: Final = Shape()
_CHANGES: Final = 200
_SINGLES: Final = 100
_ROUNDS: Final = 12
_CHUNK: Final = 20_000

Progress = Callable[[str], None]


def run(
    filter_counts: Sequence[int] = (1_000, 10_000, 100_000),
    events: int = 512,
    seed: int = 0,
    progress: Progress | None = None,
    shape: Shape = DEFAULT,
) -> dict[str, object]:
    """Measure the index for each number of filters, and the brute forces beside it.

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
    shape
        The shape of filters and events.

    Returns
    -------
    dict
        ``results`` has one entry for each number of filters; each key names the unit of its time.

    Raises
    ------
    InputError
        If there is no such load.
    AssertionError
        If index and brute force disagree.
    """
    one_of("--load", shape.kind, KINDS)
    most = shape.attributes - (shape.kind == "strings" and shape.constrained == 1)
    if not 1 <= shape.constrained <= most:
        raise InputError(f"--constrained {shape.constrained}: it must be 1 to --attributes, here {most}")
    if not 0 <= shape.width <= 1:
        raise InputError(f"--width {shape.width:g}: it must be a fraction of the domain, 0 to 1")
    say = progress or (lambda text: None)
    results = [_measure(count, events, seed, say, shape) for count in filter_counts]
    return {
        "benchmark": "matching",
        "load": shape.kind,
        "attributes": shape.attributes,
        "constraints_per_filter": shape.constrained,
        "width": shape.width,
        "seed": seed,
        "threads": 1,
        "results": results,
    }


def _measure(count: int, events: int, seed: int, say: Progress, shape: Shape) -> dict[str, object]:
    load = make(shape, count, events, seed)
    batch = load.batch()
    say(f"{count:,} filters: build")
    index, build_seconds, peak_bytes = _build(load, count)

    say(f"{count:,} filters: match {events:,} events, and brute force")
    brutes: dict[str, _AnyBruteForce] = {"brute_force": _BruteForce(load)}
    if shape == DEFAULT:
        brutes |= {"dense_brute_force": _DenseBruteForce(load), "tuned_brute_force": _TunedBruteForce(load)}
    brute_events = min(events, max(3, 4_000_000 // count))
    some, rows = batch.take(np.arange(brute_events)), load.values.T[:brute_events].tolist()
    for brute in brutes.values():
        _compare(index.match(some), [brute.match(event) for event in rows], count)
    generator = np.random.default_rng(seed)
    groups = np.left_shift(np.uint64(1), generator.integers(0, GROUPS, index.slots_end, dtype=np.uint64))
    singles = [batch.take(np.array([row])) for row in range(min(_SINGLES, events))]
    batch_seconds, group_seconds, single_seconds, *brute_seconds = _best_seconds(
        lambda: index.match(batch),
        lambda: index.match_groups(batch, groups),
        lambda: deque(map(index.match, singles), maxlen=0),  # as at a broker, no result is kept
        *(partial(_match_each, brute, rows) for brute in brutes.values()),
    )

    say(f"{count:,} filters: insert and remove")
    insert_seconds, remove_seconds = _changes(index, shape, seed)
    microseconds = batch_seconds / events * 1e6
    each = {name: s / brute_events * 1e6 for name, s in zip(brutes, brute_seconds, strict=True)}
    return {
        "filters": count,
        "kernel": index.kernel,
        "instructions": instructions() if index.kernel == "native" else "numpy's",
        "microseconds_per_event": microseconds,
        **{f"times_{name}": its / microseconds for name, its in each.items()},
        "build_seconds": build_seconds,
        "peak_bytes": peak_bytes,
        "index_bytes": index.nbytes,
        "insert_microseconds": insert_seconds * 1e6,
        "remove_microseconds": remove_seconds * 1e6,
        "matches_per_event": len(index.match(batch).rows) / events,
        **{f"{name}_microseconds_per_event": its for name, its in each.items()},
        "batch_events": events,
        "single_event_microseconds": single_seconds / len(singles) * 1e6,
        "groups_microseconds_per_event": group_seconds / events * 1e6,
        "groups": GROUPS,
    }


def _build(load: Load, count: int) -> tuple[MatchIndex, float, int]:
    """Return an index of all filters, the seconds that it took, and its peak memory.

    Filters are constructed in portions, and their construction is not counted; the first event is counted,
    since it builds the rows.
    """
    event = load.batch().take(np.arange(1))
    before = psutil.Process().memory_info().rss
    _forget_peak()
    index, seconds = MatchIndex(), 0.0
    for begin in range(0, count, _CHUNK):
        some = load.filters(begin, min(count, begin + _CHUNK))
        started = time.perf_counter()
        index.insert_many(some)
        seconds += time.perf_counter() - started
        del some
    started = time.perf_counter()
    index.match(event)
    seconds += time.perf_counter() - started
    return index, seconds, max(index.nbytes, _peak() - before)


def _forget_peak() -> None:
    """Reset the peak memory count of Linux; does nothing elsewhere."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5")


def _peak() -> int:
    """Return the peak memory of the process, in bytes; 0 where it is not counted."""
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


class _BruteForce:
    """Every filter's constraints, each compared with the event's value of its attribute."""

    def __init__(self, load: Load) -> None:
        self._attributes, self._lows, self._highs = load.chosen, load.lows, load.highs

    def match(self, event: Sequence[int]) -> npt.NDArray[np.intp]:
        """Return the filters that match an event."""
        values = np.array(event)[self._attributes]
        return np.flatnonzero(((self._lows <= values) & (values <= self._highs)).all(axis=1))


def _dense(load: Load) -> tuple[Integers, Integers]:
    """Return first and last values by attribute, ``[attributes, filters]``; the whole range without a constraint."""
    size = (len(load.values), len(load.chosen))
    lows, highs = np.zeros(size, np.int64), np.full(size, np.iinfo(np.int32).max, np.int64)
    np.put_along_axis(lows, load.chosen.T, load.lows.T, 0)
    np.put_along_axis(highs, load.chosen.T, load.highs.T, 0)
    return lows, highs


class _DenseBruteForce:
    """All filters' bounds of all attributes, compared with one event at a time."""

    def __init__(self, load: Load) -> None:
        self._lows, self._highs = _dense(load)

    def match(self, event: Sequence[int]) -> npt.NDArray[np.intp]:
        """Return the filters that match an event."""
        values = np.array(event)[:, None]
        return np.flatnonzero(((self._lows <= values) & (values <= self._highs)).all(axis=0))


class _TunedBruteForce:
    """The same for one closed 32-bit interval per attribute: ``value - low <= high - low``, unsigned."""

    def __init__(self, load: Load) -> None:
        lows, highs = _dense(load)
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
            np.subtract(
                np.uint32(value), low, out=distance
            )  # wraps to a large distance if the value is below
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


def _changes(index: MatchIndex, shape: Shape, seed: int) -> tuple[float, float]:
    """Return the mean seconds of one insertion and of one removal."""
    filters = make(shape, _CHANGES, 1, seed).filters(0, _CHANGES)
    begin = time.perf_counter()
    slots = [index.insert(filter) for filter in filters]
    middle = time.perf_counter()
    for slot in slots:
        index.remove(slot)
    return (middle - begin) / _CHANGES, (time.perf_counter() - middle) / _CHANGES


def _best_seconds(*actions: Callable[[], object]) -> list[float]:
    """Return the least seconds of each action; they take turns, so that other load on the machine affects all."""
    best = [float("inf")] * len(actions)
    for _ in range(_ROUNDS):
        for number, action in enumerate(actions):
            begin = time.perf_counter()
            action()
            best[number] = min(best[number], time.perf_counter() - begin)
    return best
