"""A batch is unpacked exactly as it was packed, to the bit; invalid bytes are refused."""

import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.actors.host.frames import packed
from rayvous.protocol import wire
from rayvous.protocol.arrays import arrays_of
from rayvous.protocol.batch import Column, EventBatch, batch_from_columns, batch_of
from rayvous.protocol.effects import Deliver
from rayvous.protocol.errors import StorageFailed
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.values import Kind
from rayvous.protocol.wire import NARROW_EVENTS_MIN
from rayvous.recovery.durability.codec import Encoder, decode, encode
from rayvous.recovery.durability.packed import EVENTS_MAX

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


@settings(max_examples=60, deadline=None)
@given(batches().filter(len), st.integers(NARROW_EVENTS_MIN, NARROW_EVENTS_MIN + 9))
def test_a_large_batch_reads_back_to_the_bit(batch, size) -> None:
    large = batch.take(np.resize(np.arange(len(batch)), size))
    rising = batch_from_columns(large.columns, size)
    for each in (large, rising):
        assert bits(decode(encode(Events(each))).batch) == bits(each)
        at, name, found = decode(encode((1.5, "p", each)))
        assert (at, name) == (1.5, "p") and bits(found) == bits(each)
        assert all(column.data.flags.writeable for column in found.columns.values())


def test_a_batch_behind_numbers_and_names_names_no_class() -> None:
    """Of an example: some number has the bytes of any name."""
    assert b"rayvous" not in encode((2.5, "p", batch_of([{"x": 1, "y": "a"}, {"z": 2.5}], publisher="p")))


@given(batches())
def test_a_batch_behind_numbers_and_names_reads_back(batch) -> None:
    at, name, found = decode(encode((2.5, "p", batch)))
    assert (at, name) == (2.5, "p") and bits(found) == bits(batch)


def test_what_else_stands_before_a_batch_is_written_as_any_other_value() -> None:
    before, found = decode(encode((RoundNumber(3, 1), batch_of([{"x": 1}]))))
    assert before == RoundNumber(3, 1) and type(before) is RoundNumber and len(found) == 1


def test_a_large_batch_is_narrow_and_one_that_was_just_read_is_not_encoded_again(monkeypatch) -> None:
    sent = batch_of([{"x": number} for number in range(500)], publisher="p")
    batch = pickle.loads(packed([Events(sent)]))[0].batch
    raw = sum(each.nbytes for each in arrays_of(batch)[1])
    encoded: list[object] = []
    monkeypatch.setattr(wire, "_narrow", encoded.append)
    assert len(encode((1.0, "p", batch))) < raw / 4
    assert not encoded


def test_a_large_batch_of_an_earlier_version_is_read() -> None:
    size = 2 * NARROW_EVENTS_MIN
    arrays = np.arange(1, size + 1), np.zeros(size), np.zeros(size, np.int32)
    written = framed(head(size), b"".join(each.tobytes() for each in arrays))
    assert decode(written).batch.sequence.tolist() == list(range(1, size + 1))


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


NARROW = ("+", 1, 0), ("=", 0, 8), ("=", 0, 4)
"""The arrays of events without columns, narrow."""


def narrow(forms: object = NARROW, data: bytes = bytes(12), size: object = 99, columns: object = ()) -> bytes:
    return framed(((size, ("p",), columns, forms), (0, 0), False, None), data)


def test_the_narrow_frame_of_these_tests_is_that_of_the_codec() -> None:
    assert decode(narrow()).batch.sequence.tolist() == list(range(1, 100))


@pytest.mark.parametrize(
    "bytes_of_another",
    [
        narrow(NARROW[:2], bytes(8)),
        narrow((*NARROW, ("=", 0, 1)), bytes(13)),
        narrow(data=bytes(11)),
        narrow(data=bytes(13)),
        narrow(size=0),
        narrow(size=1 << 40),
        narrow(size=EVENTS_MAX + 1),
        narrow((("+", 1.0, 0), *NARROW[1:])),
        narrow((("+", 1, 1), *NARROW[1:]), bytes(13)),
        narrow((("|u1", 1, 98), *NARROW[1:]), bytes(110)),
        narrow((("<u8", 1, 8 * 99), *NARROW[1:]), bytes(12 + 8 * 99)),
        narrow((NARROW[0], ("+", 0, 0), NARROW[2]), bytes(4)),  # times are no integers
        narrow((*NARROW[:2], ("=", 0, 4)), bytes(8) + struct.pack("<i", 1)),  # there is no publisher 1
        narrow((*NARROW[:2], ("<u4", 0, 4 * 99)), bytes(8 + 4 * 99)),  # as wide as what it narrows
        narrow((*NARROW, ("?", 0, 13)), bytes(25), columns=(("i", 1, False, ()),)),
        narrow((*NARROW, ("=", 0, 4)), bytes(16), columns=(("s", 3, False, 7),)),
        narrow((*NARROW, ("=", 0, 4)), bytes(12) + struct.pack("<i", 2), columns=(("s", 3, False, "a\0b"),)),
    ],
)
def test_narrow_arrays_that_cannot_be_are_refused(bytes_of_another: bytes) -> None:
    with pytest.raises(StorageFailed):
        decode(bytes_of_another)
