"""The match index agrees with brute force on the raw dataclasses after any insertions and removals."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from rayvous.protocol.batch import Column, EventBatch, batch_from_columns, batch_of
from rayvous.protocol.values import INTEGER_MAX, INTEGER_MIN, NULL, Kind, Timestamp
from rayvous.routing.filters.domains import BOTH, Domain, Interval, LikePattern, Strings
from rayvous.routing.filters.filter import Clause, Filter
from rayvous.routing.filters.networks import Network
from rayvous.routing.filters.spans import spans_of
from rayvous.routing.matching import kernels, number_rows, numpy_rows, word_rows
from rayvous.routing.matching.index import MatchIndex

KERNELS = [
    "numpy",
    pytest.param(
        "native", marks=pytest.mark.skipif(kernels.compiled() is None, reason="the kernel is not built")
    ),
]
on_both = pytest.mark.parametrize("kernel", KERNELS)

# the reference


def in_interval(interval: Interval, value: Any) -> bool:
    low, high = interval.low, interval.high
    above = low is None or value > low or (value == low and not interval.low_open)
    return above and (high is None or value < high or (value == high and not interval.high_open))


def is_like(like: LikePattern | Network, text: str) -> bool:
    if isinstance(like, Network):
        return like.matches(text)  # tests/routing/filters/test_networks.py
    pieces = (
        "".join("." if c is None else "[" + re.escape(c) + "]" for c in piece) for piece in like.pattern
    )
    return (re.fullmatch(".*".join(pieces), text, re.DOTALL) is not None) != like.negated


def in_domain(domain: Domain, value: Any) -> bool:
    if value is None:
        return domain.missing
    if value is NULL:
        return domain.null
    if isinstance(value, bool):
        return value in domain.booleans
    if isinstance(value, str):
        inside = any(in_interval(i, value) for i in domain.strings.intervals)
        return inside and all(is_like(like, value) for like in domain.strings.likes)
    intervals = domain.timestamps if isinstance(value, Timestamp) else domain.numbers
    return any(in_interval(i, value) for i in intervals)


def accepts(filter: Filter, event: Mapping[str, Any]) -> bool:
    return any(all(in_domain(d, event.get(name)) for name, d in c.constraints) for c in filter.clauses)


def brute(filters: Mapping[int, Filter], events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [
        (row, slot)
        for row, event in enumerate(events)
        for slot in sorted(filters)
        if accepts(filters[slot], event)
    ]


def pairs(index: MatchIndex, batch: EventBatch) -> list[tuple[int, int]]:
    rows, slots = index.match(batch)
    assert rows.dtype == slots.dtype == np.intp
    return list(zip(rows.tolist(), slots.tolist(), strict=True))


def agree(index: MatchIndex, filters: Mapping[int, Filter], events: list[dict[str, Any]]) -> None:
    batch = batch_of(events)
    expected = brute(filters, events)
    assert pairs(index, batch) == expected
    generator = np.random.default_rng(len(events))
    groups = np.left_shift(np.uint64(1), generator.integers(0, 64, index.slots_end, dtype=np.uint64))
    wanted = np.zeros(len(events), np.uint64)
    for row, slot in expected:
        wanted[row] |= groups[slot]
    assert np.array_equal(index.match_groups(batch, groups), wanted)


# strategies

NAMES = ("a", "b", "c")
WORDS = ("", "a", "ab", "abc", "b", "ba", "ca%b", "é", "zz", "AB", "10.0.0.1")
EDGES = (2**53, 2**53 + 1, 2**53 + 2, INTEGER_MAX, INTEGER_MIN, 2**70, -(2**70), 10**400)
FLOATS = (0.5, -0.0, 1.5, 2.0**53, 1e308, -1e308, 5e-324)

small = st.integers(-6, 6)
numbers = small | st.sampled_from(EDGES) | st.sampled_from(FLOATS)
moments = small | st.sampled_from((INTEGER_MIN, INTEGER_MAX))
words = st.sampled_from(WORDS)


def intervals_of(bounds: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Interval, ...]]:
    @st.composite
    def draw_intervals(draw: st.DrawFn) -> tuple[Interval, ...]:
        values = sorted(set(draw(st.lists(bounds, max_size=6))))
        if draw(st.booleans()):
            return tuple(Interval(value, value) for value in values)  # an IN list
        cuts: list[Any] = [*values]
        out = []
        if cuts and draw(st.booleans()):
            out.append(Interval(None, cuts.pop(0), False, draw(st.booleans())))
        while len(cuts) >= 2:
            low, high = cuts.pop(0), cuts.pop(0)
            out.append(Interval(low, high, draw(st.booleans()), draw(st.booleans())))
        if cuts:
            out.append(Interval(cuts[0], None, draw(st.booleans()), False))
        return tuple(out) or ((Interval(),) if draw(st.booleans()) else ())

    return draw_intervals()


pieces = st.lists(st.sampled_from(("a", "b", "%", None, "Aa")), max_size=2).map(tuple)
likes = st.builds(LikePattern, st.lists(pieces, min_size=1, max_size=4).map(tuple), st.booleans())
networks = st.builds(Network, st.just(4), st.sampled_from((0, 10)), st.just(8), st.booleans())
strings = st.builds(Strings, intervals_of(words), st.lists(likes | networks, max_size=2).map(tuple))
domains = st.builds(
    Domain,
    st.booleans(),
    st.sampled_from((frozenset(), frozenset({True}), frozenset({False}), BOTH)),
    intervals_of(numbers),
    strings,
    intervals_of(moments),
    st.booleans(),
)
clauses = st.dictionaries(st.sampled_from(NAMES), domains, max_size=3).map(
    lambda named: Clause(tuple(sorted(named.items(), key=lambda item: item[0])))
)
filters = st.lists(clauses, max_size=3).map(lambda some: Filter(tuple(some)))

integers = small | st.sampled_from([edge for edge in EDGES if INTEGER_MIN <= edge <= INTEGER_MAX])
values = (
    st.booleans()
    | integers
    | integers
    | st.sampled_from((*FLOATS, math.inf, -math.inf, math.nan, 3.0, 2.0**63))
    | words
    | moments.map(Timestamp)
    | st.none()
    | st.just(NULL)
)
event = st.dictionaries(st.sampled_from((*NAMES, "d")), values, max_size=4)


def as_events(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events as the reference reads them, without None and NaN."""
    return [{k: v for k, v in event.items() if v is not None and v == v} for event in drawn]


# properties


@on_both
@settings(max_examples=60, deadline=None)
@given(st.lists(filters, max_size=12), st.lists(event, min_size=1, max_size=20), st.integers(1, 10))
def test_equals_brute_force(kernel: str, some: list[Filter], drawn: list[dict[str, Any]], times: int) -> None:
    index = MatchIndex(kernel)
    slots = index.insert_many(some[::2]) + [index.insert(filter) for filter in some[1::2]]
    held = dict(zip(slots, some[::2] + some[1::2], strict=True))
    assert len(held) == len(some) == len(index)
    agree(index, held, as_events(drawn) * times)
    index.check()


@settings(max_examples=200, deadline=None)
@given(intervals_of(numbers), st.sampled_from((Kind.INTEGER, Kind.FLOAT)), st.lists(values, max_size=30))
def test_spans_hold_the_same_values(intervals: tuple[Interval, ...], kind: Kind, some: list[Any]) -> None:
    spans = spans_of(intervals, kind)
    assert spans == sorted(spans) and all(first <= last for first, last in spans)
    wanted = int if kind is Kind.INTEGER else float
    for value in [v for v in some if type(v) is wanted and v == v]:
        in_spans = any(first <= value <= last for first, last in spans)
        assert in_spans == any(in_interval(interval, value) for interval in intervals)


class Churn(RuleBasedStateMachine):
    """Insert, remove and match in any order, with few buckets, so that every path is taken."""

    slots = Bundle("slots")
    kernel = "numpy"

    @initialize(buckets=st.integers(2, 12))
    def start(self, buckets: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(number_rows, "_BUCKETS_MAX", buckets)
        self.patch.setattr(number_rows, "_BUCKETS_MIN", 1)
        if self.kernel == "native":
            kernels.compiled().set_limits(buckets)
        self.index = MatchIndex(self.kernel)
        self.held: dict[int, Filter] = {}

    def teardown(self) -> None:
        for slot in sorted(self.held):
            self.index.remove(slot)
            self.index.check()
        assert self.index.nbytes == MatchIndex(self.kernel).nbytes and len(self.index) == 0
        self.patch.undo()
        if self.kernel == "native":
            kernels.compiled().set_limits()

    @rule(target=slots, filter=filters)
    def insert(self, filter: Filter) -> int:
        slot = self.index.insert(filter)
        assert slot not in self.held
        self.held[slot] = filter
        return slot

    @rule(some=st.lists(filters, min_size=1, max_size=8), times=st.sampled_from((1, 1, 30)))
    def insert_many(self, some: list[Filter], times: int) -> None:
        slots = self.index.insert_many(some * times)
        assert not self.held.keys() & set(slots) and len(set(slots)) == len(slots)
        self.held.update(zip(slots, some * times, strict=True))
        for slot in slots[5:]:
            self.index.remove(slot)
            del self.held[slot]

    @rule(slot=consumes(slots))
    def remove(self, slot: int) -> None:
        self.index.remove(slot)
        del self.held[slot]

    @rule(drawn=st.lists(event, min_size=1, max_size=10), times=st.sampled_from((1, 1, 20)))
    def match(self, drawn: list[dict[str, Any]], times: int) -> None:
        agree(self.index, self.held, as_events(drawn) * times)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "index"):
            self.index.check()
            assert len(self.index) == len(self.held)


@pytest.mark.skipif(kernels.compiled() is None, reason="the kernel is not built")
class NativeChurn(Churn):
    kernel = "native"


TestChurn = Churn.TestCase
TestNativeChurn = NativeChurn.TestCase
TestChurn.settings = TestNativeChurn.settings = settings(
    max_examples=20, stateful_step_count=20, deadline=None
)

# single cases


def number_filter(name: str, *intervals: Interval) -> Filter:
    return Filter((Clause(((name, Domain(numbers=intervals)),)),))


def word_filter(name: str, *some: str) -> Filter:
    inside = tuple(Interval(word, word) for word in sorted(some))
    return Filter((Clause(((name, Domain(strings=Strings(inside))),)),))


def interval_table(count: int, seed: int) -> dict[int, Filter]:
    generator = np.random.default_rng(seed)
    ends = np.sort(generator.integers(0, 1000, (count, 2, 2)), axis=2).tolist()
    return {
        slot: Filter(
            (Clause((("x", Domain(numbers=(Interval(*x),))), ("y", Domain(numbers=(Interval(*y),))))),)
        )
        for slot, (x, y) in enumerate(ends)
    }


def random_batch(size: int, seed: int) -> tuple[EventBatch, list[dict[str, Any]]]:
    generator = np.random.default_rng(seed)
    x, y = generator.integers(-5, 1005, (2, size))
    columns = {("x", Kind.INTEGER): Column(Kind.INTEGER, x), ("y", Kind.INTEGER): Column(Kind.INTEGER, y)}
    return batch_from_columns(columns, size), [
        {"x": a, "y": b} for a, b in zip(x.tolist(), y.tolist(), strict=True)
    ]


@on_both
@pytest.mark.parametrize("size", [1, 2, 200, pytest.param(1100, marks=pytest.mark.slow)])
def test_many_filters_and_few_buckets(kernel: str, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(number_rows, "_BUCKETS_MAX", 16)
    monkeypatch.setattr(number_rows, "_BUCKETS_MIN", 1)
    table = interval_table(300, 1)
    index = MatchIndex(kernel)
    assert index.insert_many(table.values()) == list(table)
    batch, events = random_batch(size, size)
    assert pairs(index, batch) == brute(table, events)
    index.check()


@on_both
@pytest.mark.parametrize("links", [1, 3, 64])
def test_groups_are_the_fold_of_matches_over_several_stretches(kernel: str, links: int) -> None:
    table = interval_table(9000, 2)
    index = MatchIndex(kernel)
    index.insert_many(table.values())
    for slot in range(0, 9000, 7):
        index.remove(slot)
    batch, _ = random_batch(300, 3)
    groups = np.left_shift(np.uint64(1), np.arange(9000, dtype=np.uint64) // np.uint64(-(-9000 // links)))
    wanted = np.zeros(300, np.uint64)
    matches = index.match(batch)
    np.bitwise_or.at(wanted, matches.rows, groups[matches.slots])
    assert len(matches.rows) > 1000
    assert np.array_equal(index.match_groups(batch, groups), wanted)


@on_both
def test_integers_and_floats_compare_exactly_beyond_two_to_the_53(kernel: str) -> None:
    index = MatchIndex(kernel)
    big = 2**53
    over = index.insert(number_filter("x", Interval(big, None, True)))
    exact = index.insert(number_filter("x", Interval(big + 1, big + 1)))
    huge = index.insert(number_filter("x", Interval(10**400)))
    half = index.insert(number_filter("x", Interval(None, 0.5)))
    found = pairs(index, batch_of([{"x": v} for v in (big, big + 1, float(big), big + 2.0, math.inf, 0, 1)]))
    assert found == [(1, over), (1, exact), (3, over), (4, over), (4, huge), (5, half)]


@on_both
def test_nan_is_a_missing_value(kernel: str) -> None:
    index = MatchIndex(kernel)
    anything = index.insert(number_filter("x", Interval()))
    missing = index.insert(Filter((Clause((("x", Domain(missing=True)),)),)))
    for present in (None, np.array([True, True])):
        column = Column(Kind.FLOAT, np.array([1.0, math.nan]), present)
        batch = batch_from_columns({("x", Kind.FLOAT): column}, 2)
        assert pairs(index, batch) == [(0, anything), (1, missing)]


@on_both
@pytest.mark.parametrize("buckets", [2, 5, 1024])
@pytest.mark.parametrize("as_float", [False, True])
def test_lists_of_numbers_in_few_buckets(
    kernel: str, monkeypatch: pytest.MonkeyPatch, buckets: int, as_float: bool
) -> None:
    monkeypatch.setattr(number_rows, "_BUCKETS_MAX", buckets)
    monkeypatch.setattr(number_rows, "_BUCKETS_MIN", 1)
    generator = np.random.default_rng(buckets)
    lists = [np.unique(generator.integers(0, 60, 5)).tolist() for _ in range(80)]
    some = [number_filter("x", *(Interval(value, value) for value in values)) for values in lists]
    index = MatchIndex(kernel)
    held = dict(zip(index.insert_many(some), some, strict=True))
    values = list(range(-2, 63)) * 2
    events = [{"x": float(value) if as_float else value} for value in values]
    assert pairs(index, batch_of(events)) == brute(held, events)
    for filter in some[:40]:  # inserted one by one, now that rows exist
        held[index.insert(filter)] = filter
    for slot in range(0, 80, 3):
        index.remove(slot)
        del held[slot]
    index.check()
    assert pairs(index, batch_of(events)) == brute(held, events)


@on_both
def test_no_clause_matches_nothing_and_an_empty_clause_everything(kernel: str) -> None:
    index = MatchIndex(kernel)
    index.insert(Filter(()))
    everything = index.insert(Filter((Clause(()),)))
    assert pairs(index, batch_of([{"x": 1}, {}])) == [(0, everything), (1, everything)]
    assert pairs(index, batch_of([])) == []
    assert index.match_groups(batch_of([]), np.ones(2, np.uint64)).tolist() == []


@on_both
def test_a_disjunction_matches_once_under_its_slot(kernel: str) -> None:
    index = MatchIndex(kernel)
    both = Filter((*number_filter("x", Interval(0)).clauses, *number_filter("y", Interval(0)).clauses))
    first, second = index.insert(both), index.insert(both)
    batch = batch_of([{"x": 1, "y": 1}, {"y": 2}, {"y": -1}])
    assert pairs(index, batch) == [(0, first), (0, second), (1, first), (1, second)]
    index.remove(first)
    assert pairs(index, batch) == [(0, second), (1, second)]
    assert index.insert(both) == first


@on_both
def test_more_words_than_rows_are_kept(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_rows, "_CHUNK_EVENTS", 128)
    monkeypatch.setattr(word_rows, "WORDS_MIN", 150)
    monkeypatch.setattr(word_rows, "ROW_BYTES_MAX", 12_500)
    index = MatchIndex(kernel)
    some = [word_filter("w", f"w{n}", f"w{n + 1}") for n in range(375)]
    held = {index.insert(filter): filter for filter in some}
    events = [{"w": f"w{n % 425}"} for n in range(0, 1250, 3)]
    assert pairs(index, batch_of(events)) == brute_words(held, events)
    index.check()
    more = [word_filter("w", f"w{n % 225}") for n in range(625)]  # longer rows, so fewer are kept
    held |= {index.insert(filter): filter for filter in more}
    index.check()
    assert pairs(index, batch_of(events)) == brute_words(held, events)
    for slot in held:
        index.remove(slot)
    index.check()


def brute_words(held: Mapping[int, Filter], events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    lists: dict[str, list[int]] = {}
    for slot, filter in sorted(held.items()):
        for interval in filter.clauses[0].constraints[0][1].strings.intervals:
            lists.setdefault(str(interval.low), []).append(slot)
    return [(row, slot) for row, event in enumerate(events) for slot in lists.get(event["w"], ())]


@on_both
@pytest.mark.parametrize("where", ["rising", "one place", "anywhere"])
def test_churn_does_not_degrade(kernel: str, where: str) -> None:
    """A sliding window of filters keeps the index as small as one that was built at once."""
    generator = np.random.default_rng(5)
    index, fresh, held = MatchIndex(kernel), MatchIndex(kernel), {}
    index.match(random_batch(1, 0)[0])
    for step in range(4000):
        low = {"rising": step, "one place": 500, "anywhere": int(generator.integers(0, 4000))}[where]
        filter = number_filter("x", Interval(low, low + int(generator.integers(1, 50))))
        held[index.insert(filter)] = filter
        if step == 0:
            index.match(random_batch(1, 0)[0])
        if len(held) > 200:
            oldest = next(iter(held))
            index.remove(oldest)
            del held[oldest]
    index.check()
    batch, events = random_batch(100, 6)
    assert pairs(index, batch) == brute(held, events)
    fresh.insert_many(held.values())
    fresh.match(batch)
    assert index.nbytes < 4 * fresh.nbytes
    assert index.slots_end <= 201


@on_both
def test_removing_what_is_not_there_is_an_error(kernel: str) -> None:
    index = MatchIndex(kernel)
    slot = index.insert(number_filter("x", Interval(0)))
    with pytest.raises(KeyError):
        index.remove(slot + 1)
    index.remove(slot)
    with pytest.raises(KeyError):
        index.remove(slot)
    index.check()


@on_both
def test_an_index_that_shrank_is_as_small_as_one_that_was_never_large(kernel: str) -> None:
    table = interval_table(5000, 7)
    two = Filter(
        (*number_filter("x", Interval(0, 50)).clauses, *number_filter("y", Interval(0, 400)).clauses)
    )
    index, fresh = MatchIndex(kernel), MatchIndex(kernel)
    slots = index.insert_many(table.values())
    held = {index.insert(two): two}
    batch, events = random_batch(30, 8)
    index.match(batch)
    for slot in slots:
        if slot % 100 == 7:
            held[slot] = table[slot]
        else:
            index.remove(slot)
    agree(index, held, events)
    fresh.insert_many(held.values())
    fresh.match(batch)
    assert index.nbytes < 3 * fresh.nbytes
    for slot in list(held)[::2]:
        index.remove(slot)
        del held[slot]
    for item in (two, number_filter("y", Interval(300, 600)), Filter(()), two):
        held[index.insert(item)] = item
    agree(index, held, events)
    index.check()
    again = MatchIndex(kernel)
    again.restore(index.snapshot())
    agree(again, held, events)
    for slot in held:
        index.remove(slot)
    index.check()
