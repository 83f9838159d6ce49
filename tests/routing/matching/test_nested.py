"""An event with arrays matches if one of the flat events that it stands for does, however it is evaluated.

Reference: docs/decisions/0079-nested-events.md, 0116-named-parts-of-events.md.
"""

import random
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.batch import EventBatch, batch_of, flat_batch
from rayvous.protocol.values import Value
from rayvous.protocol.ways import WAYS_MAX, NestedEvent
from rayvous.routing.filters.filter import Filter, to_filter
from rayvous.routing.language.comparing import covers
from rayvous.routing.language.predicates import compile_predicate, evaluate
from rayvous.routing.language.selectors import parse_selector
from rayvous.routing.matching import index as index_module
from rayvous.routing.matching import named, pieces
from rayvous.routing.matching.index import MatchIndex

LEAVES = [
    "a = 1",
    "a > 1",
    "a.b = 2",
    "a.b <> 2",
    "a.c IS NULL",
    "a IS NOT NULL",
    "t ILIKE 'X%'",
    "a + a.b > 2",
    "a CONTAINS ALL (1)",
    "SIZE(a.b) > 1",
    "SIZE(b) + a < 4",
    "b = ARRAY[1, 2.5]",
    "b CONTAINS NONE (0, 1)",
    "b = 1",
    "b <> 2 AND a.c = 1",
    "b < t",
    "a.c IS MISSING",
    "ONLY (a, a.b, b)",
    "NOT ONLY (b, t)",
]
SELECTORS = st.lists(st.sampled_from(LEAVES), min_size=1, max_size=3).flatmap(
    lambda leaves: st.sampled_from([" AND ", " OR ", " AND NOT "]).map(lambda word: word.join(leaves))
)
VALUES = st.recursive(
    st.sampled_from([0, 1, 2, 3, "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("bc"), inner, max_size=2),
    max_leaves=5,
)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "a": VALUES,
        "t": st.lists(st.sampled_from(["x1", "y"]), max_size=2) | st.just("X"),
        "b": st.lists(st.sampled_from([0, 1, 2.5]), max_size=3),
        "": st.just(2**70),
    },
)
PIECES = {"TOGETHER_MAX": 1, "TESTS_A_PIECE": 0, "TESTS_A_ROW": 0, "TESTS_A_GROUP": 0}
HOW = {
    "at once": {},
    "divided": {"TOGETHER_MAX": 1, "TESTS_A_WAY": 0},
    "in short runs": {"TOGETHER_MAX": 1, "TESTS_A_WAY": 0, "ROWS_MAX": 1},
    "one by one": {"TOGETHER_MAX": 1, "TESTS_A_WAY": 10**9, "TESTS_A_PIECE": 10**18},
    "in pieces": PIECES,
    "in pieces of few scopes": PIECES | {"SCOPES_MAX": 3, "ROWS_MAX": 4},
}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
@settings(max_examples=50)
@given(st.lists(SELECTORS, min_size=1, max_size=6), st.lists(EVENTS, min_size=1, max_size=6))
def test_all_ways_of_matching_agree(
    how: dict[str, int], selectors: list[str], events: list[dict[str, Any]]
) -> None:
    with pytest.MonkeyPatch.context() as changed:
        for name, value in how.items():
            changed.setattr(named, name, value)
        _all_agree(selectors, events)


def _all_agree(selectors: list[str], events: list[dict[str, Any]]) -> None:
    filters = [to_filter(selector) for selector in selectors]
    batch = batch_of(events)
    index = MatchIndex()
    slots = [index.insert(each) for each in filters]
    index.match(batch)  # the first time makes pieces
    rows, found = index.match(batch)
    assert rows.dtype == found.dtype == np.intp
    pairs = list(zip(rows.tolist(), found.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    groups = np.left_shift(np.uint64(1), np.arange(index.slots_end, dtype=np.uint64))
    wanted = index.match_groups(batch, groups)
    for row, event in enumerate(batch.events()):
        ways = event.ways if isinstance(event, NestedEvent) else (event,)
        for selector, each, slot in zip(selectors, filters, slots, strict=True):
            condition = parse_selector(selector)
            truths = [evaluate(condition, way) is True for way in ways]
            expected = any(truths)
            assert ((row, slot) in pairs) is expected
            assert bool(wanted[row] >> np.uint64(slot) & np.uint64(1)) is expected
            assert bool(each.evaluate_batch(batch)[row]) is expected
            assert bool(each.evaluate_batch(batch, every=True)[row]) is all(truths)
            assert each.holds(event) is each.matches(events[row]) is expected
            assert (evaluate(condition, event) is True) is expected
            assert (compile_predicate(condition)(event) is True) is expected
    for one, other in pairwise(filters):
        if covers(one, other):
            assert all(one.matches(event) for event in events if other.matches(event))


def test_an_array_of_objects_is_asked_about_one_of_them() -> None:
    events = batch_of([{"d": [{"a": 1, "b": 3}, {"a": 3, "b": 2}]}, {"d": [{"a": 1, "b": 2}]}])
    assert to_filter("d.a = 1 AND d.b = 2").evaluate_batch(events).tolist() == [False, True]
    assert to_filter("d.a = 1 AND d.b = 3").evaluate_batch(events, every=True).tolist() == [False, False]


def found(filters: dict[int, Filter], index: MatchIndex, events: list[dict[str, Any]]) -> None:
    """Assert that the index finds the filters that match each event, and that its books are right."""
    batch = batch_of(events)
    rows, slots = index.match(batch)
    pairs = [
        (row, slot)
        for row, event in enumerate(batch.events())
        for slot, each in sorted(filters.items())
        if each.holds(event)
    ]
    assert list(zip(rows.tolist(), slots.tolist(), strict=True)) == pairs
    index.check()


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_an_index_that_changes_keeps_what_its_filters_name(
    how: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in how.items():
        monkeypatch.setattr(named, name, value)
    rng = random.Random(7)
    index, filters = MatchIndex(), dict[int, Filter]()
    events = [
        {f"n{i}": [{"x": i, "y": [3, 4]}, {"x": 2, "y": [i]}] for i in range(5)},
        {"n0": 3, "m": [1, 2]},
        {"m": 2},
        {"n1": [1, 2, 3], "n2": [[2], 1], "": 1, "m": 1},
    ]
    for step in range(150):
        if len(filters) < 90 and (step < 90 or not filters):
            names = rng.sample([f"n{i}{tail}" for i in range(5) for tail in ("", ".x", ".y")] + ["m"], 3)
            terms = [f"{name} {rng.choice('<>=')} {rng.randrange(5)}" for name in names]
            made = to_filter(rng.choice((" AND ", " OR ")).join(terms))
            filters[index.insert(made)] = made
        else:
            slot = rng.choice(sorted(filters))
            index.remove(slot)
            del filters[slot]
        if step % 20 == 0 or len(filters) < 3:
            found(filters, index, events)
    while filters:
        index.remove(filters.popitem()[0])
        if len(filters) % 30 == 0:
            found(filters, index, events)


def rows_matched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the rows that are given to kernels from now on."""
    counts: list[int] = []

    def counted(events: Iterable[dict[str, Value]]) -> EventBatch:
        batch = flat_batch(events)
        counts.append(len(batch))
        return batch

    monkeypatch.setattr(index_module, "flat_batch", counted)
    monkeypatch.setattr(pieces, "flat_batch", counted)
    return counts


def test_elements_are_added_not_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    index, filters = MatchIndex(), dict[int, Filter]()
    for i in range(40):
        made = to_filter(
            f"a < {rng.randrange(60)} AND o.p > {i} AND (o.q = {i % 7} OR t = 'x')"
            + (" AND SIZE(a) > 31" if i % 2 else "")
        )
        filters[index.insert(made)] = made
    events = [
        {
            "a": [rng.randrange(300) for _ in range(32)],
            "o": [{"p": rng.randrange(100), "q": [1, 2, i % 9]} for _ in range(10)],
            "t": rng.choice("xy"),
        }
        for i in range(20)
    ]
    found(filters, index, events)  # the first of them pay for the pieces
    counts = rows_matched(monkeypatch)
    found(filters, index, events)
    assert sum(counts) <= 20 * (1 + 32 + 10 * 4 + 1)


def test_pieces_are_made_when_they_pay_and_dropped_when_they_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(named, "ROWS_MAX", 64)
    index = MatchIndex()
    index.insert_many(to_filter(f"a = {i} AND b = {i}") for i in range(1_000))
    batch = batch_of([{"a": list(range(40)), "b": list(range(40))}])
    counts = rows_matched(monkeypatch)
    for _ in range(12):
        assert len(index.match(batch).rows) == 40
    assert counts[0] == 1_600 and counts[-2:] == [40, 40]
    scopes = 3  # a, b, and what is in neither
    assert counts.count(1_600) * 1_600 * named.TESTS_A_WAY <= 2 * scopes * 1_000 * named.TESTS_A_PIECE
    for _ in range(600):
        index.remove(index.insert(to_filter("c = 1")))
    counts.clear()
    assert len(index.match(batch).rows) == 40
    assert counts == [1_600]
    index.check()


MANY = {name: list(range(1_000)) for name in "abcdefgh"} | {
    "o": [{"p": list(range(200)), "q": list(range(200)), "r": [i]} for i in range(50)]
}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("a = 999", True),
        ("a = 999 AND b = 3 AND c = 500 AND d = 0 AND e = 1 AND f = 2 AND g = 3 AND h = 999", True),
        ("a = 999 AND b = 3 AND c = 500 AND d = 0 AND e = 1 AND f = 2 AND g = 3 AND h = 1000", False),
        ("o.p = 199 AND o.q = 0 AND o.r = 49", True),
        ("o.p = 199 AND o.q = 200 AND o.r = 49", False),
        ("o.r = 1 AND a = 1 AND NOT (o.p > 0)", True),
        ("o.s IS MISSING AND o.p IS MISSING", False),
        ("a + 0 = 998", True),
        ("a + b = 3", True),
    ],
)
def test_the_number_of_ways_does_not_matter(selector: str, expected: bool) -> None:
    index, item = MatchIndex(), to_filter(selector)
    others = [
        to_filter(f"{one} = 1 AND {other} > {i}") for i, (one, other) in enumerate(pairwise("abcdefgh"))
    ]
    slot, *_ = [index.insert(each) for each in (item, *others)]
    batch = batch_of([{"x": 1}, MANY])
    rows, slots = index.match(batch)
    assert ((1, slot) in zip(rows.tolist(), slots.tolist(), strict=True)) is expected
    assert np.count_nonzero(rows == 1) == len(others) + expected
    assert item.matches(MANY) is expected
    assert bool(item.evaluate_batch(batch)[1]) is expected


@pytest.mark.slow
def test_computed_values_look_at_the_first_ways_only() -> None:
    event = {"a": list(range(WAYS_MAX // 256)), "b": list(range(512)), "c": [1, 2]}
    assert to_filter("a + b = 1").matches(event)
    assert to_filter("a + b = 255 + 255").matches(event | {"b": list(range(256))})
    assert not to_filter("a + b = 255 + 511").matches(event)
    index = MatchIndex()
    first, last = index.insert(to_filter("a + b = 1")), index.insert(to_filter("a + b = 255 + 511"))
    assert index.match(batch_of([event])).slots.tolist() == [first] and first != last
    (nested,) = [batch_of([event])]
    assert to_filter("a + b >= 0").evaluate_batch(nested, every=True).tolist() == [False]
    assert to_filter("a >= 0 AND b < 512").evaluate_batch(nested, every=True).tolist() == [True]
    assert to_filter("a < 100 OR a >= 100").evaluate_batch(nested, every=True).tolist() == [True]
    assert to_filter("a < 100 AND b < 9 OR a >= 100 OR b >= 9").evaluate_batch(
        nested, every=True
    ).tolist() == [False]
