"""Batches hold the same events as lists of dicts after being made, taken from, joined, pickled and read."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.batch import (
    ATTRIBUTES_MAX,
    EVENT_BYTES_MAX,
    NAME_CHARACTERS_MAX,
    Column,
    EventBatch,
    batch_from_columns,
    batch_of,
    concat,
)
from rayvous.protocol.errors import EventError
from rayvous.protocol.values import INTEGER_MAX, INTEGER_MIN, Kind, Timestamp, kind_of

values = (
    st.booleans()
    | st.integers(INTEGER_MIN, INTEGER_MAX)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.integers(INTEGER_MIN + 1, INTEGER_MAX).map(Timestamp)
)
events = st.lists(st.dictionaries(st.sampled_from("abc"), values, max_size=3), max_size=12)
gaps = st.sampled_from((None, float("nan")))


def typed(some: list[dict[str, Any]] | tuple[dict[str, Any], ...]) -> list[dict[str, tuple[Kind, Any]]]:
    """Return the events with the kind of each value, so that 1, 1.0 and True differ."""
    return [{name: (kind_of(value), value) for name, value in event.items()} for event in some]


def by_value(batch: EventBatch) -> list[dict[str, Any]]:
    """Read a batch one value at a time."""
    out: list[dict[str, Any]] = [{} for _ in range(len(batch))]
    for (name, kind), column in batch.columns.items():
        for row, event in enumerate(out):
            value = column.value(row)
            if value is not None:
                assert name not in event, "an attribute has two values"
                assert kind_of(value) is kind is column.kind
                event[name] = value
    return out


@settings(max_examples=150, deadline=None)
@given(events, st.data())
def test_what_goes_in_comes_out(some: list[dict[str, Any]], data: st.DataObject) -> None:
    with_gaps = [event | dict.fromkeys("de"[: i % 3], data.draw(gaps)) for i, event in enumerate(some)]
    batch = batch_of(with_gaps, publisher="p", first_sequence=5, published_at=2.0)
    assert len(batch) == len(some)
    assert typed(batch.events()) == typed(by_value(batch)) == typed(some)
    assert [batch.identity(row) for row in range(len(batch))] == [("p", 5 + i) for i in range(len(some))]
    assert batch.published_at.tolist() == [2.0] * len(some)
    for column in batch.columns.values():
        assert column.present is None or (column.present.any() and not column.present.all())


@settings(max_examples=150, deadline=None)
@given(events, st.data())
def test_take_takes_these_rows_in_this_order(some: list[dict[str, Any]], data: st.DataObject) -> None:
    batch = batch_of(some, publisher="p")
    rows = data.draw(st.lists(st.integers(0, len(some) - 1), max_size=15)) if some else []
    part = batch.take(np.array(rows, np.intp))
    assert typed(part.events()) == typed(by_value(part)) == typed([some[row] for row in rows])
    assert [part.identity(i) for i in range(len(part))] == [("p", row + 1) for row in rows]
    assert typed(part.take(np.arange(len(part))[::-1]).events()) == typed([some[row] for row in rows[::-1]])


def test_take_of_all_rows_is_the_batch_itself() -> None:
    batch = batch_of([{"x": 1}, {"x": 2}])
    assert batch.take(np.arange(2)) is batch
    assert batch.take(np.array([1, 0])) is not batch
    assert batch.take(np.array([1, 1])).events() == ({"x": 2}, {"x": 2})
    assert batch.take(np.array([], np.intp)).events() == ()


def test_few_events_do_not_carry_the_words_of_many() -> None:
    batch = batch_of([{"tail": f"N{i}", "origin": "JFK"} for i in range(1_000)] + [{"origin": "EWR"}])
    part = batch.take(np.array([7, 1_000, 3]))
    assert part.events() == (
        {"tail": "N7", "origin": "JFK"},
        {"origin": "EWR"},
        {"tail": "N3", "origin": "JFK"},
    )
    assert sorted(part.columns["tail", Kind.STRING].words) == ["N3", "N7"]
    assert part.columns["origin", Kind.STRING].words is batch.columns["origin", Kind.STRING].words
    gone = batch.take(np.array([1_000]))
    assert gone.events() == ({"origin": "EWR"},)
    assert len(gone.columns["tail", Kind.STRING].words) <= 1
    assert part.nbytes < batch.nbytes / 50


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(events, st.sampled_from(("p", "q"))), min_size=1, max_size=4))
def test_concat_is_one_after_the_other(some: list[tuple[list[dict[str, Any]], str]]) -> None:
    batches = [
        batch_of(part, publisher=name, first_sequence=10 * i + 1, published_at=float(i))
        for i, (part, name) in enumerate(some)
    ]
    whole = concat(batches)
    assert typed(whole.events()) == typed(by_value(whole)) == typed([e for part, _ in some for e in part])
    assert [whole.identity(row) for row in range(len(whole))] == [
        batch.identity(row) for batch in batches for row in range(len(batch))
    ]
    assert whole.published_at.tolist() == [at for batch in batches for at in batch.published_at.tolist()]
    assert len(set(whole.publishers)) == len(whole.publishers)
    again = concat([whole.take(np.arange(len(whole))[::-1]), batches[0]])
    assert typed(again.events()) == typed([*whole.events()[::-1], *batches[0].events()])


def test_concat_of_one_is_that_one() -> None:
    batch = batch_of([{"x": 1}])
    assert concat([batch]) is batch


@settings(max_examples=50, deadline=None)
@given(events)
def test_a_batch_travels_without_what_was_made_for_speed(some: list[dict[str, Any]]) -> None:
    batch = batch_of(some, publisher="p")
    before = len(pickle.dumps(batch))
    batch.events()
    for column in batch.columns.values():
        column.codes()
    assert len(pickle.dumps(batch)) == before
    twin = pickle.loads(pickle.dumps(batch))
    assert not hasattr(twin, "_events") and not any(hasattr(each, "_codes") for each in twin.columns.values())
    assert typed(twin.events()) == typed(some)
    assert twin.publishers == batch.publishers and np.array_equal(twin.sequence, batch.sequence)


def test_events_and_codes_are_made_once() -> None:
    batch = batch_of([{"s": "a"}, {"s": "b"}, {"s": "a"}])
    column = batch.columns["s", Kind.STRING]
    assert batch.events() is batch.events()
    assert column.codes() is column.codes() and column.codes() == {"a": 0, "b": 1}


def test_what_stands_where_nothing_is_present_means_nothing() -> None:
    present = np.array([True, False])
    columns = {
        ("s", Kind.STRING): Column(Kind.STRING, np.array([0, -7], np.int32), present, ("a",)),
        ("x", Kind.FLOAT): Column(Kind.FLOAT, np.array([1.0, np.nan]), present),
    }
    batch = batch_from_columns(columns, 2)
    assert batch.events() == ({"s": "a", "x": 1.0}, {}) == tuple(by_value(batch))
    assert batch.take(np.array([1, 0])).events() == ({}, {"s": "a", "x": 1.0})


def test_nbytes_grows_with_what_is_in_it() -> None:
    small, large = batch_of([{"s": "a"}]), batch_of([{"s": "a" * 1_000}])
    assert large.nbytes - small.nbytes == 999
    assert batch_of([{"x": 1}, {}]).nbytes > batch_of([{"x": 1}, {"x": 2}]).nbytes


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({3: 1}, "event 1: attribute name 3 is a int"),
        ({"x": b"a"}, "event 1: attribute 'x': .*bytes"),
        ({"x": 10**5_000}, "event 1: attribute 'x': an integer of 16610 bits, the limit is 14,000 bits"),
        ({"x": "a" * EVENT_BYTES_MAX, "y": "a"}, "event 1: 1048577 characters .* limit is 1048576"),
        ("x=1", "event 1: an event is a mapping .* not a str"),
    ],
    ids=range(5),
)
def test_what_is_no_event_is_an_error_that_says_where(event: Any, message: str) -> None:
    with pytest.raises(EventError, match=message):
        batch_of([{"x": 1}, event])


def test_what_is_just_within_the_limits_is_an_event() -> None:
    event = {"a" * NAME_CHARACTERS_MAX: 1, "x": "a" * EVENT_BYTES_MAX}
    event |= {str(i): i for i in range(ATTRIBUTES_MAX - 2)}
    assert batch_of([event]).events() == (event,)


def test_batches_of_the_same_words_are_joined_without_a_look_at_them() -> None:
    one, other = (batch_of([{"s": "a"}, {"s": "b"}], publisher=name) for name in "pq")
    joined = concat([one, other])
    assert joined.columns["s", Kind.STRING].words is one.columns["s", Kind.STRING].words
    assert [event["s"] for event in joined.events()] == ["a", "b", "a", "b"]
    swapped = concat([one, batch_of([{"s": "b"}, {"s": "a"}, {"s": "c"}])])
    assert [event["s"] for event in swapped.events()] == ["a", "b", "b", "a", "c"]
