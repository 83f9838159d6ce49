"""An event with arrays matches if one of the flat events that it stands for does, however it is evaluated.

Reference: docs/decisions/0079-nested-events.md.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.batch import batch_of
from rayvous.protocol.documents import NestedEvent
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.language.comparing import covers
from rayvous.routing.language.predicates import compile_predicate, evaluate
from rayvous.routing.language.selectors import parse_selector
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
    {}, optional={"a": VALUES, "t": st.lists(st.sampled_from(["x1", "y"]), max_size=2) | st.just("X")}
)


@settings(max_examples=80)
@given(st.lists(SELECTORS, min_size=1, max_size=6), st.lists(EVENTS, min_size=1, max_size=6))
def test_all_ways_of_matching_agree(selectors: list[str], events: list[dict[str, Any]]) -> None:
    filters = [to_filter(selector) for selector in selectors]
    batch = batch_of(events)
    index = MatchIndex()
    slots = [index.insert(each) for each in filters]
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
            assert each.matches(event) is expected
            assert (evaluate(condition, event) is True) is expected
            assert (compile_predicate(condition)(event) is True) is expected
    for one, other in pairwise(filters):
        if covers(one, other):
            assert all(one.matches(event) for event in batch.events() if other.matches(event))


def test_an_array_of_objects_is_asked_about_one_of_them() -> None:
    events = batch_of([{"d": [{"a": 1, "b": 3}, {"a": 3, "b": 2}]}, {"d": [{"a": 1, "b": 2}]}])
    assert to_filter("d.a = 1 AND d.b = 2").evaluate_batch(events).tolist() == [False, True]
    assert to_filter("d.a = 1 AND d.b = 3").evaluate_batch(events, every=True).tolist() == [False, False]
