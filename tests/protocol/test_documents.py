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
from rayvous.protocol.batch import (
    ATTRIBUTES_MAX,
    NAME_CHARACTERS_MAX,
    WORK_CHARACTERS,
    WORK_VALUES,
    EventBatch,
    accepted_of,
    batch_of,
    concat,
)
from rayvous.protocol.documents import ELEMENTS_MAX, NESTING_MAX, of_json
from rayvous.protocol.errors import EventError
from rayvous.protocol.values import INTEGER_BITS_MAX, NULL, Timestamp
from rayvous.protocol.ways import Names, NestedEvent
from rayvous.recovery.durability.packed import pack, unpack

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
    """Return the ways, each once, in an order of their own: equal elements count once."""
    return sorted({repr(sorted(way.items())) for way in ways})


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
        parted = found.nested()
        assert (parted is None) == (not any(map(has_list, expected)))
        if parted is not None:
            assert [event.document() for event in parted.events] == list(filter(has_list, expected))
            assert parted.flat.events() == tuple(found.events()[row] for row in parted.flat_rows)
            assert sorted([*parted.rows, *parted.flat_rows]) == list(range(len(expected)))


@given(EVENTS.filter(has_list), st.sets(st.sampled_from(["a", "b", "a.b", "a.c", "b.a.c", "c.b"])))
def test_a_part_of_an_event_has_the_ways_of_what_it_is_asked_for(
    event: dict[str, Any], names: set[str]
) -> None:
    (nested,) = batch_of([event]).events()
    assert isinstance(nested, NestedEvent)
    part = nested.part(Names(names))
    expected = plain({name: value for name, value in way.items() if name in names} for way in taken(event))
    assert plain(part.ways()) == expected
    assert part.count() >= len(expected) and part.names <= names
    assert plain(part.only(part.names).ways()) == expected
    some = frozenset(sorted(names)[::2])
    left = {name for choice in part.choices for name in choice.names} - some
    assert plain(part.only(some).ways()) == plain(
        {name: value for name, value in way.items() if name in names - left} for way in taken(event)
    )
    first = list(itertools.islice(part.ways(), 3))
    assert list(part.ways(3)) == first


def test_a_batch_without_anything_nested_is_what_it_was() -> None:
    batch = batch_of([{"a": 1, "b.c": "x"}])
    assert list(batch.columns) == [key for key in batch.columns if key[0]] and batch.nested() is None
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
        ({"a": {5: 1}}, "event 0: attribute name 5 is a int"),
        ({"a": {"b": b"x"}}, "event 0: attribute 'a.b': .*bytes"),
        ({"a": [{"b": 2**INTEGER_BITS_MAX}]}, "event 0: attribute 'a.b': an integer of 14001 bits"),
        ({"a": -(2**INTEGER_BITS_MAX)}, "event 0: attribute 'a': an integer of 14001 bits"),
        ({"a": deep(NESTING_MAX + 1, 1)}, f"event 0: attribute 'a': nested more than {NESTING_MAX} deep"),
        ({"a": deep(5_000, 1)}, f"nested more than {NESTING_MAX} deep"),
        ({"a": {"b": [[]] * ELEMENTS_MAX}}, f"event 0: more than {ELEMENTS_MAX} elements"),
        ({"a": [1] * 1_025 + [b"no value"]}, "event 0: attribute 'a': .*bytes"),
        ({"a": ["x" * 1_048_576]}, "event 0: .* characters of strings, the limit"),
        ({"": "x" * 1_048_576}, "event 0: .* characters, the limit"),
    ],
    ids=range(15),
)
def test_what_is_nested_too_much_is_refused_by_name(event: Any, message: str) -> None:
    with pytest.raises(EventError, match=message):
        batch_of([event])


def test_json_that_is_too_large_for_an_event_is_left_as_it_is() -> None:
    large = [[]] * (ELEMENTS_MAX + 1)
    assert of_json({"a": large})["a"] is large


UNFIT: dict[str, dict[str, Any]] = {
    "many attributes": {f"n{i}": i for i in range(ATTRIBUTES_MAX + 1)},
    "many nested attributes": {"a": {f"n{i}": i for i in range(ATTRIBUTES_MAX)}, "b": 1},
    "a long path": {"a" * NAME_CHARACTERS_MAX: {"b": 1}, "c": [1, 2]},
    "a long name": {"a" * (NAME_CHARACTERS_MAX + 1): 1},
    "an empty name": {"": 1, "a": "x"},
    "empty names": {"": {"": {"": 1, "b": Timestamp(7)}}, "a": {"": [NULL, {"": {}}]}, ".b": 2},
    "a name that is not printed": {"a\nb": 1},
    "a long integer": {"a": 2**70, "b": [2**63]},
    "long integers": {"a": {"b": -(2**13_000)}},
}


@pytest.mark.parametrize("event", UNFIT.values(), ids=UNFIT)
def test_an_event_that_does_not_fit_into_columns_is_all_in_its_form(event: dict[str, Any]) -> None:
    batch = batch_of([{"x": 1}, event, {"x": 2, "y": [1]}])
    assert set(batch.columns) == {key for key in batch.columns if key[0] in ("", "x")}
    arrays: list[Any]
    description, arrays = pack(batch)
    packed = unpack(description, memoryview(b"".join(array.tobytes() for array in arrays)))
    for found in (batch, packed, pickle.loads(pickle.dumps(batch)), batch_of(batch.events())):
        assert found.documents() == [{"x": 1}, event, {"x": 2, "y": [1]}]


def test_a_part_has_what_is_all_in_the_form_too() -> None:
    event = {"": {"b": 3}, "a": {"": [2**70, NULL]}, ".c": -(2**13_000), "d.e": 1} | UNFIT["many attributes"]
    (nested,) = batch_of([event]).events()
    assert isinstance(nested, NestedEvent)
    part = nested.part(Names([".b", "a.", ".c", "d.e", "n256", "missing", "b"]))
    ways = list(part.ways())
    fixed = {".b": 3, ".c": float("-inf"), "d.e": 1, "n256": 256}
    assert ways == [fixed | {"a.": 2.0**70}, fixed | {"a.": NULL}]


def test_columns_that_would_be_too_large_become_forms() -> None:
    events = [{f"n{i}": i, "x": "y"} for i in range(100)]
    assert len(batch_of(events).columns) == 101
    batch = batch_of(iter(events), bytes_max=50_000)
    assert len(batch.columns) == 1 and batch.documents() == events


def test_work_grows_with_forms() -> None:
    assert batch_of([{"x": "y" * 100_000}] * 3).work == 3
    assert batch_of([{"x": ["y" * WORK_CHARACTERS] * 4}, {"x": 1}]).work == 2 + 4
    assert batch_of([{"x": list(range(5 * WORK_VALUES + 1))}] * 2).work == 2 * (1 + 5)


def test_an_invalid_event_leaves_nothing_behind() -> None:
    bad = {"x": 1, "y": "z", "w": b"no value"}
    batch, refused = accepted_of([bad, {"x": 2}, {"v": {"x": b""}, "x": 3}, {"x": [4]}])
    assert batch.documents() == [{"x": 2}, {"x": [4]}] and [name for name, _ in batch.columns] == ["x", ""]
    assert list(refused) == [0, 2]
    assert str(refused[2]).startswith("event 2: attribute 'v.x': ")
