"""The wire format of batches: reading restores what was written, and the encoding is compact."""

import copyreg
import io
import pickle
from collections import Counter
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol import batch, wire
from rayvous.protocol.batch import Column, EventBatch, batch_from_columns, batch_of
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.pubsub import Ack, Events, Numbered, marks_of
from rayvous.protocol.values import NULL, Kind, Timestamp
from rayvous.protocol.wire import (
    KEPT_BATCH_BYTES_MAX,
    KEPT_BATCHES_MAX,
    NARROW_EVENTS_MIN,
    REDUCERS,
    SEPARATOR,
)


def written(value: Any) -> bytes:
    class Pickler(pickle.Pickler):
        dispatch_table = copyreg.dispatch_table | REDUCERS

    stream = io.BytesIO()
    Pickler(stream, protocol=5).dump(value)
    return stream.getvalue()


def there_and_back(value: Any) -> Any:
    return pickle.loads(written(value))


def same(one: Any, other: Any) -> bool:
    """Return whether two arrays are identical, bit by bit."""
    if one is None or other is None:
        return one is other
    return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())


def assert_same(one: EventBatch, other: EventBatch) -> None:
    assert list(one.columns) == list(other.columns) and one.publishers == other.publishers
    assert same(one.sequence, other.sequence) and same(one.publisher, other.publisher)
    assert same(one.published_at, other.published_at)
    for key, column in one.columns.items():
        found = other.columns[key]
        assert found.kind is column.kind and found.words == column.words
        assert same(found.data, column.data) and same(found.present, column.present)


WORDS = st.text(st.characters(codec="utf-8") | st.just(SEPARATOR) | st.just("\ud800"), max_size=3)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-3, 300)
    | st.floats(allow_nan=False)
    | WORDS
    | st.builds(Timestamp, st.integers(0, 2**62))
    | st.just(NULL)
    | st.lists(st.integers(0, 3), max_size=3)
)


@settings(max_examples=30)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), max_size=4), st.booleans())
def test_what_is_read_is_what_was_written(events: list[dict[str, Any]], large: bool) -> None:
    """The type, name and value of every attribute are restored. Reference: paper 1, section 2."""
    batch = batch_of(events * (NARROW_EVENTS_MIN if large else 1), publisher="p", published_at=1.5)
    assert_same(batch, there_and_back(batch))
    for marks in ((), (RoundNumber(3, 1), True, (1, 2), 0.5)):
        message = Events(batch, *marks)  # type: ignore[arg-type]
        small = wire.small_of(message)
        separated = any(SEPARATOR in word for column in batch.columns.values() for word in column.words)
        assert (small is None) == (not 0 < len(batch) < NARROW_EVENTS_MIN or separated)
        if small is not None:
            assert small[0] == wire.SMALL != written(message)[0]
            found = wire.read_small(b"head" + small, 4)
            assert marks_of(found) == marks_of(message)
            assert_same(batch, found.batch)
            assert all(column.data.flags.aligned for column in found.batch.columns.values())


@pytest.mark.parametrize("size", [1, 3, NARROW_EVENTS_MIN - 1, NARROW_EVENTS_MIN + 1])
def test_every_array_that_is_read_is_aligned(size: int) -> None:
    """The match index, in C, reads the numbers of columns in place. Reference: decision 0103."""
    values = {"a": True, "b": 2**40, "c": 0.5, "d": "word", "e": Timestamp(5), "f": NULL, "g": -1, "h": 1.5}
    events: list[dict[str, Any]] = [
        {name: value for place, (name, value) in enumerate(values.items()) if (row + place) % 3}
        for row in range(size)
    ]
    batch = batch_of(events, publisher="p", published_at=1.5)
    found = there_and_back(batch)
    assert_same(batch, found)
    arrays = [found.sequence, found.published_at, found.publisher]
    for column in found.columns.values():
        arrays += [column.data, *([] if column.present is None else [column.present])]
    assert len(arrays) >= 8 and all(array.flags.aligned for array in arrays)


@pytest.mark.parametrize(
    "numbers",
    [
        [-(2**63), 2**63 - 1],
        [-(2**63), -(2**63) + 255],
        [2**63 - 256, 2**63 - 1],
        [-1, 254],
        [-1, 255],
        [7, 2**32 + 6],
        [7, 2**32 + 7],
        [3],
    ],
)
def test_integers_of_every_range(numbers: list[int]) -> None:
    data = np.array((numbers * NARROW_EVENTS_MIN)[: 2 * NARROW_EVENTS_MIN], np.int64)
    batch = batch_from_columns({("n", Kind.INTEGER): Column(Kind.INTEGER, data)}, len(data))
    assert_same(batch, there_and_back(batch))


def test_numbers_that_rise_by_one_up_to_the_largest_there_is() -> None:
    data = np.arange(2**63 - NARROW_EVENTS_MIN, 2**63, dtype=np.uint64).astype(np.int64)
    batch = batch_from_columns({("n", Kind.INTEGER): Column(Kind.INTEGER, data)}, len(data))
    assert_same(batch, there_and_back(batch))


def test_zeros_of_both_signs_are_not_alike() -> None:
    data = np.zeros(NARROW_EVENTS_MIN)
    data[1] = -0.0
    batch = batch_from_columns({("f", Kind.FLOAT): Column(Kind.FLOAT, data)}, len(data))
    assert_same(batch, there_and_back(batch))


def test_a_batch_of_other_types_travels_as_it_is() -> None:
    """A publisher may have made an `EventBatch` from arrays of another type or length."""
    size = 2 * NARROW_EVENTS_MIN
    for data in (np.arange(size, dtype=np.int16), np.arange(2 * size, dtype=np.int64)):
        batch = batch_from_columns({("n", Kind.INTEGER): Column(Kind.INTEGER, data)}, size)
        assert_same(batch, there_and_back(batch))


def test_many_alike_events_are_few_bytes() -> None:
    """Sequences are sent as their first number, times, publishers and words once, integers in few bytes."""
    size = 4_096
    columns = {
        ("symbol", Kind.STRING): Column(
            Kind.STRING, np.arange(size, dtype=np.int32) % 200, None, tuple(f"S{n}" for n in range(200))
        ),
        ("volume", Kind.INTEGER): Column(Kind.INTEGER, np.arange(size) % 9_000),
        ("odd", Kind.BOOLEAN): Column(Kind.BOOLEAN, np.arange(size) % 2 == 1),
    }
    batch = batch_from_columns(columns, size, publisher="p", first_sequence=17, published_at=3.0)
    words = 5 * 200
    assert len(written(batch)) < size * (1 + 2 + 1 / 8) + words + 600
    assert_same(batch, there_and_back(batch))


def test_one_event_is_few_bytes() -> None:
    event = Events(batch_of([{"ping": True, "number": 3}], publisher="p", published_at=1.5))
    assert len(written(event)) < 300 < len(pickle.dumps(event))
    found = there_and_back(event)
    assert_same(found.batch, event.batch)


@pytest.mark.parametrize("size", [0, 3, 2 * NARROW_EVENTS_MIN])
@pytest.mark.parametrize("dtype", [np.intp, np.int32, np.bool_, np.float64])
def test_other_arrays(size: int, dtype: Any) -> None:
    for array in (np.arange(size).astype(dtype), np.zeros(size, dtype), np.arange(size)[::-1].astype(dtype)):
        assert same(array, there_and_back(array))
    assert same(np.zeros((2, size), dtype), there_and_back(np.zeros((2, size), dtype)))


def test_no_field_of_what_is_taken_apart_is_forgotten() -> None:
    batch = batch_of([{"a": 1}])
    event = Events(batch, RoundNumber(2, 3), True, (1, 2), 0.25, 0.5, 0.75, 4, 5)
    for value in (event, Numbered(3, 2, event, True), Ack(4, True)):
        assert all(repr(getattr(value, each.name)) != repr(each.default) for each in fields(value))
        found = there_and_back(value)
        for each in fields(value):
            one, other = getattr(value, each.name), getattr(found, each.name)
            assert type(one) is type(other)
            if not isinstance(one, EventBatch | Events):
                assert one == other, each.name


@pytest.mark.parametrize("words", [(), ("",), ("", "a"), ("a\0b", "c"), ("\0", "a"), ("\ud800", "b")])
def test_words_of_every_kind(words: tuple[str, ...]) -> None:
    column = Column(Kind.STRING, np.zeros(1, np.int32), None if words else np.zeros(1, np.bool_), words)
    batch = batch_from_columns({("w", Kind.STRING): column}, 1)
    assert_same(batch, there_and_back(batch))


@pytest.mark.parametrize("size", [1, NARROW_EVENTS_MIN])
def test_a_batch_that_is_passed_on_is_not_encoded_again(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of([{"a": row, "b": f"word {row}", "c": True} for row in range(size)], publisher="p")
    found = there_and_back(batch)
    calls = Counter[int]()
    encode = wire.arrays_of

    def counted(one: EventBatch) -> Any:
        calls[id(one)] += 1
        return encode(one)

    monkeypatch.setattr(wire, "arrays_of", counted)
    again = written(found)
    assert not calls and again == written(batch) and calls == {id(batch): 1}
    part = found.take(np.arange(size - 1))
    assert_same(part, there_and_back(part))


def test_few_batches_are_remembered_and_none_that_is_large() -> None:
    found = [there_and_back(batch_of([{"a": row}], publisher="p")) for row in range(KEPT_BATCHES_MAX + 1)]
    kept = [batch for batch, _ in wire._recent]
    assert all(one is other for one, other in zip(kept, reversed(found[1:]), strict=True))
    constant = np.zeros(KEPT_BATCH_BYTES_MAX // 8, np.int64)  # short on the wire, and long here
    there_and_back(batch_from_columns({("n", Kind.INTEGER): Column(Kind.INTEGER, constant)}, len(constant)))
    assert [batch for batch, _ in wire._recent] == kept


def test_words_of_successive_batches_are_counted_and_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    words = tuple(f"word {number}" for number in range(500))

    def trades(known: tuple[str, ...]) -> EventBatch:
        codes = np.arange(len(known), dtype=np.int32)
        return batch_from_columns({("w", Kind.STRING): Column(Kind.STRING, codes, None, known)}, len(known))

    sums: list[int] = []

    def counted(numbers: Any) -> int:
        sums.append(sum(numbers))
        return sums[-1]

    monkeypatch.setattr(batch, "sum", counted, raising=False)
    assert trades(words).nbytes == trades(words).nbytes == 500 * 24 + sum(map(len, words))
    assert sums == [sum(map(len, words))]
    text = wire._joined(words)
    assert wire._joined(words) is text and wire._joined((*words[:1], *words[1:])) == text
    for known in (words, tuple(reversed(words)), (*words[1:], "a\0b"), words):
        assert there_and_back(trades(known)).columns["w", Kind.STRING].words == known
