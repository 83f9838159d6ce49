"""Events with objects and arrays: their attributes and ways, and that they are restored unchanged.

Reference: docs/decisions/0079-nested-events.md; Event Ruler, README, JSON array matching.
"""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.faults.durability.packed import pack, unpack
from rayvous.protocol.batch import ATTRIBUTES_MAX, CELL_BYTES, EventBatch, batch_of, concat
from rayvous.protocol.documents import ELEMENTS_MAX, NESTING_MAX, WAYS_MAX, NestedEvent, of_json
from rayvous.protocol.errors import EventError
from rayvous.protocol.values import NULL, Timestamp

SCALARS = st.sampled_from([0, 1, 2.5, True, "a", "", "é", Timestamp(5), NULL, float("inf")])
NAMES = st.sampled_from(["a", "b", "c"])
NESTED = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.dictionaries(NAMES, NESTED, max_size=3)


def taken(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the flat events that a nested event stands for, one for each choice of array elements."""

    def of(value: Any, path: str) -> list[list[tuple[str, Any]]]:
        if isinstance(value, dict):
            parts = [of(inner, f"{path}.{name}" if path else name) for name, inner in value.items()]
            return [list(itertools.chain(*chosen)) for chosen in itertools.product(*parts)]
        if isinstance(value, list):
            while any(isinstance(each, list) for each in value):
                value = [inner for each in value for inner in (each if isinstance(each, list) else [each])]
            whole = [chosen for each in value if isinstance(each, dict) for chosen in of(each, path)]
            single = [[(path, each)] for each in value if not isinstance(each, dict)]
            return [a + b for a in whole or [[]] for b in single or [[]]]
        return [[(path, value)]]

    return [dict(pairs) for pairs in of(event, "")]


def plain(ways: Any) -> list[str]:
    return sorted(repr(sorted(way.items())) for way in ways)


def has_list(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, dict) and any(map(has_list, value.values())))


@given(st.lists(EVENTS, min_size=1, max_size=4))
def test_events_come_back_and_have_their_ways(events: list[dict[str, Any]]) -> None:
    batch = batch_of(events)
    halves = [batch.take(np.arange(0, len(events), 2)), batch.take(np.arange(1, len(events), 2))]
    ordered = events[::2] + events[1::2]
    arrays: list[Any]
    description, arrays = pack(batch)
    packed = unpack(description, memoryview(b"".join(array.tobytes() for array in arrays)))
    for found, expected in (
        (batch, events),
        (packed, events),
        (pickle.loads(pickle.dumps(batch)), events),
        (concat(halves), ordered),
        (
            batch_of([event for event in batch.events() if isinstance(event, NestedEvent)]),
            list(filter(has_list, events)),
        ),
    ):
        assert found.documents() == expected
        for flat, event in zip(found.events(), expected, strict=True):
            assert isinstance(flat, NestedEvent) == has_list(event)
            assert plain(flat.ways if isinstance(flat, NestedEvent) else [flat]) == plain(taken(event))
        unfolded = found.unfolded()
        assert (unfolded is None) == (not any(map(has_list, expected))) == (not found.ways_bytes)
        if unfolded is not None:
            assert found.ways_bytes >= CELL_BYTES * len(unfolded.batch.columns) * (
                len(unfolded.owners) - sum(not has_list(event) for event in expected)
            )
            owned: dict[int, list[dict[str, Any]]] = {}
            for owner, way in zip(unfolded.owners.tolist(), unfolded.batch.events(), strict=True):
                owned.setdefault(owner, []).append(dict(way))
            assert {row: plain(ways) for row, ways in owned.items()} == {
                row: plain(taken(event)) for row, event in enumerate(expected)
            }


def test_a_batch_without_anything_nested_is_what_it_was() -> None:
    batch = batch_of([{"a": 1, "b.c": "x"}])
    assert list(batch.columns) == [key for key in batch.columns if key[0]] and batch.unfolded() is None
    assert batch.documents() == [{"a": 1, "b.c": "x"}]


def test_objects_are_names_with_dots_and_their_forms_are_shared() -> None:
    batch = batch_of([{"order": {"customer": {"tier": "gold"}, "lines": n}} for n in range(100)])
    assert batch.events()[7] == {"order.customer.tier": "gold", "order.lines": 7}
    assert batch.documents()[7] == {"order": {"customer": {"tier": "gold"}, "lines": 7}}
    assert sum(len(column.words) for column in batch.columns.values()) == 2


def test_what_has_no_value_is_left_out_of_objects_and_null_in_arrays() -> None:
    batch = batch_of([{"a": {"b": None, "c": float("nan")}, "d": [None, 1]}])
    assert batch.documents() == [{"a": {}, "d": [NULL, 1]}]
    assert EventBatch.__len__(batch) == 1


def deep(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"a": {"b": 1}, "a.b": 2}, "event 0: attribute 'a.b' occurs twice"),
        ({"a": {"b.c": 1, "b": {"c": 2}}}, "event 0: attribute 'a.b.c' occurs twice"),
        ({"a.b": "secret", "a": [{"b": "plain"}]}, "event 0: attribute 'a.b' occurs twice"),
        ({"a": {"b": ["secret"]}, "a.b": ["plain"]}, "event 0: attribute 'a.b' occurs twice"),
        ({"a": [{"b": {"c": 1}, "b.c": [2]}]}, "event 0: attribute 'a.b.c' occurs twice"),
        ({"a": {"": 1}}, "event 0: attribute name ''"),
        ({"a": {5: 1}}, "event 0: attribute name 5 is a int"),
        ({"a": {"b" * 127: 1}}, "event 0: attribute name 'a.bbb.*1 to 128"),
        ({"a": {"b": b"x"}}, "event 0: attribute 'a.b': .*bytes"),
        ({"a": [{"b": 2**63}]}, "event 0: attribute 'a.b': integer .* 64 bits"),
        ({"a": [1] * 40 + [{"b": [1] * 40}]}, "event 0: .*in 1600 ways, the limit is 1024"),
        ({"a": [1] * 33, "b": [1] * 33}, f"event 0: its arrays can be combined in 1089 ways, .* {WAYS_MAX}"),
        ({"a": deep(NESTING_MAX + 1, 1)}, f"event 0: attribute 'a': nested more than {NESTING_MAX} deep"),
        ({"a": deep(5_000, 1)}, f"nested more than {NESTING_MAX} deep"),
        (
            {"a": [{f"n{i}": 1} for i in range(ATTRIBUTES_MAX + 1)]},
            "event 0: 257 attributes, the limit is 256",
        ),
        ({"a": {f"n{i}": 1 for i in range(ATTRIBUTES_MAX)}, "b": 1}, "event 0: 257 attributes"),
        ({"a": {"b": [[]] * ELEMENTS_MAX}}, f"event 0: more than {ELEMENTS_MAX} elements"),
        ({"a": [1] * 1_025 + [b"no value"]}, "event 0: its arrays can be combined in 1026 ways"),
        ({"a": ["x" * 1_048_576]}, "event 0: .* characters of strings, the limit"),
    ],
    ids=range(19),
)
def test_what_is_nested_too_much_is_refused_by_name(event: Any, message: str) -> None:
    with pytest.raises(EventError, match=message):
        batch_of([event])


def test_json_that_is_too_large_for_an_event_is_left_as_it_is() -> None:
    large = [[]] * (ELEMENTS_MAX + 1)
    assert of_json({"a": large})["a"] is large


def test_what_ways_take_is_counted_without_unfolding_them() -> None:
    batch = batch_of([{"x": 1, "a": [1, 2], "b": [{"c": 1}, {"d": 2}, {"d": "x"}]}, {"e": [None]}, {"x": 2}])
    # 7 columns: x, the forms, a, b.c, e, and b.d as a number and as a text; 6 ways and 1
    assert batch.ways_bytes == CELL_BYTES * 7 * (6 + 1)
    assert not batch._events
