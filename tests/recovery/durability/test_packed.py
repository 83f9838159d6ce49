"""A batch is unpacked exactly as it was packed, to the bit; invalid bytes are refused."""

import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.batch import Column, EventBatch, batch_from_columns, batch_of
from rayvous.protocol.effects import Deliver
from rayvous.protocol.errors import StorageFailed
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.values import Kind
from rayvous.recovery.durability.codec import Encoder, decode, encode

TYPES = {
    Kind.BOOLEAN: np.bool_,
    Kind.INTEGER: np.int64,
    Kind.FLOAT: np.float64,
    Kind.STRING: np.int32,
    Kind.TIMESTAMP: np.int64,
}
words_of = st.lists(st.text(max_size=4), min_size=1, max_size=4, unique=True).map(tuple)


@st.composite
def columns(draw: st.DrawFn, kind: Kind, size: int) -> Column:
    """Draw a column of any bits: all kinds of NaN, -0.0, infinities, extreme integers, absent values."""
    words = draw(words_of) if kind is Kind.STRING else ()
    if kind is Kind.STRING:
        entries = draw(st.lists(st.integers(0, len(words) - 1), min_size=size, max_size=size))
        data = np.array(entries, np.int32)
    elif kind in (Kind.BOOLEAN, Kind.NULL):
        data = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_)
    else:
        data = np.frombuffer(draw(st.binary(min_size=8 * size, max_size=8 * size)), TYPES[kind])
    present = draw(st.none() | st.lists(st.booleans(), min_size=size, max_size=size))
    if draw(st.booleans()):
        data = np.repeat(data, 2)[::2]  # a view with gaps
    return Column(kind, data, None if present is None else np.array(present, np.bool_), words)


@st.composite
def batches(draw: st.DrawFn) -> EventBatch:
    size = draw(st.integers(0, 5))
    names = st.text("abü", min_size=1, max_size=2)
    keys = draw(st.lists(st.tuples(names, st.sampled_from(Kind)), max_size=6, unique=True))
    publishers = draw(words_of)
    return EventBatch(
        {(name, kind): draw(columns(kind, size)) for name, kind in keys},
        publishers,
        np.array(draw(st.lists(st.integers(0, len(publishers) - 1), min_size=size, max_size=size)), np.int32),
        np.array(draw(st.lists(st.integers(1, 2**63 - 1), min_size=size, max_size=size)), np.int64),
        np.array(draw(st.lists(st.floats(), min_size=size, max_size=size)), np.float64),
    )


def _bits(array: np.ndarray | None) -> object:
    return None if array is None else (array.dtype, array.tobytes())


def bits(batch: EventBatch) -> list[object]:
    """Return the whole contents of a batch, so that NaN equals NaN and 0.0 differs from -0.0."""
    base = map(_bits, (batch.publisher, batch.sequence, batch.published_at))
    described = [
        (name, kind, type(kind), column.kind, column.words, _bits(column.data), _bits(column.present))
        for (name, kind), column in batch.columns.items()
    ]
    return [batch.publishers, *base, *described]


@settings(max_examples=150, deadline=None)
@given(batches(), st.integers(0, 9), st.booleans(), st.none() | st.tuples(st.integers(), st.integers(0, 9)))
def test_events_read_back_to_the_bit(batch, number, again, ballot) -> None:
    events = Events(batch, RoundNumber(3, number), again, ballot)
    found = decode(encode(events))
    assert bits(found.batch) == bits(batch)
    assert (found.round, found.retransmitted, found.ballot) == (events.round, again, ballot)
    assert type(found.round) is RoundNumber
    assert all(column.data.flags.writeable for column in found.batch.columns.values())


@settings(max_examples=60, deadline=None)
@given(batches(), st.data())
def test_deliveries_read_back_to_the_bit(batch, data) -> None:
    rows_of = st.lists(st.integers(0, len(batch) - 1), max_size=4) if len(batch) else st.just([])
    pieces = data.draw(st.lists(rows_of, min_size=1, max_size=3))
    starts = np.cumsum([0, *map(len, pieces)])
    rows = np.array([row for piece in pieces for row in piece], np.intp)
    given = Deliver(batch, tuple(f"c{i}" for i in range(len(pieces))), starts, rows, 7)
    found = decode(encode(given))
    assert bits(found.batch) == bits(batch)
    assert (found.clients, found.number) == (given.clients, 7)
    assert found.starts.dtype == found.rows.dtype == np.intp
    assert (found.starts.tolist(), found.rows.tolist()) == (starts.tolist(), rows.tolist())


def test_a_batch_is_packed_once_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    from rayvous.recovery.durability import codec

    packed: list[EventBatch] = []
    whole = codec.pack
    monkeypatch.setattr(codec, "pack", lambda batch: packed.append(batch) or whole(batch))
    batch = batch_of([{"x": 1}])
    encoder, events = Encoder(), Events(batch)
    assert encoder.encode(events) is encoder.encode(events)
    encoder.encode(Events(batch, retransmitted=True))
    encoder.encode(Deliver(batch, ("c",), np.array([0, 1]), np.array([0])))
    assert packed == [batch]


def test_an_array_of_another_type_or_length_is_not_stored() -> None:
    for data in (
        np.zeros(2, np.float32),
        np.zeros(2, np.uint64),
        np.zeros(3, np.int64),
        np.zeros((2, 1), np.int64),
    ):
        batch = batch_from_columns({("x", Kind.INTEGER): Column(Kind.INTEGER, data)}, 2)
        with pytest.raises(StorageFailed, match="cannot be stored"):
            encode(Events(batch))


def framed(head: object, data: bytes, letter: bytes = b"E") -> bytes:
    plain = pickle.dumps(head)
    return struct.pack("<cI", letter, len(plain)) + plain + data


ONE = struct.pack("<qdi", 1, 0.0, 0)
"""The arrays of one event without columns."""


def head(size: object = 1, publishers: object = ("p",), columns: object = ()) -> tuple[object, ...]:
    return (size, publishers, columns), (0, 0), False, None


def test_the_frame_of_these_tests_is_that_of_the_codec() -> None:
    assert decode(framed(head(), ONE)).batch.identity(0) == ("p", 1)


@pytest.mark.parametrize(
    "bytes_of_another",
    [
        framed(head(), ONE[:-1]),
        framed(head(), ONE + b"\0"),
        framed(head(size=-1), ONE),
        framed(head(size=2**62), ONE),
        framed(head(size=1.0), ONE),
        framed(head(publishers=()), ONE),  # there is no publisher 0
        framed(head(publishers=["p"]), ONE),
        framed(head(publishers=(1,)), ONE),
        framed(head(columns=(("s", 3, False, ("a",)),)), ONE + struct.pack("<i", 1)),  # there is no such word
        framed(head(columns=(("s", 3, False, ("a",)),)), ONE + struct.pack("<i", -1)),
        framed(head(columns=(("s", 9, False, ()),)), ONE + bytes(8)),  # there is no such kind
        framed(head(columns=(("", 1, False, ()),)), ONE + bytes(8)),
        framed(head(columns=(("", 3, False, ("{",)),)), ONE + struct.pack("<i", 0)),  # not a valid form
        framed(head(columns=(("", 3, False, ("[]",)),)), ONE + struct.pack("<i", 0)),
        framed(head(columns=(("i", 1, False, ()),) * 2), ONE + bytes(16)),
        framed(head(columns=(("i", 1, False),)), ONE + bytes(8)),
        framed(("x",), ONE),
        framed((Events, (0, 0), False, None), ONE),  # a name, even if it is ours
        framed(head(), ONE)[:7],
        b"E",
        framed(
            ((1, ("p",), ()), ("c",), 1, 7), struct.pack("<3q", 0, 1, 5) + ONE, b"D"
        ),  # there is no such event
        framed(((1, ("p",), ()), ("c",), 1, 7), struct.pack("<3q", 0, 9, 0) + ONE, b"D"),
        framed(((1, ("p",), ()), ("c",), -1, 7), struct.pack("<3q", 0, 1, 0) + ONE, b"D"),
    ],
)
def test_anything_else_is_refused(bytes_of_another: bytes) -> None:
    with pytest.raises(StorageFailed):
        decode(bytes_of_another)
