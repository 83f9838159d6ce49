"""Encodes values as bytes for a store: only what the protocol and the filters are made of.

Rules
-----
* Bytes may come from a file that someone else wrote. Decoding creates objects of the classes of `protocol`
  and `routing` and arrays of numbers, and calls nothing else: no function, and no class from elsewhere.
* A decoded value equals the encoded one, including the order of its mappings.
* Events and deliveries, which are nearly everything that is written, are packed (`packed`). They contain no
  class names.
* A batch is packed once per commit, in however many messages it occurs.

The first byte is the type: ``E`` events, ``D`` a delivery, ``B`` a batch with numbers and strings before it, ``V``
any other value. Any other value is a pickle, which is read by an unpickler that accepts only these names. The others
continue with the length of a tuple of numbers and strings (4 bytes), the tuple as a pickle, which is read by an
unpickler that accepts no names, and the bytes of the arrays.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...protocol.batch import EventBatch
from ...protocol.effects import Deliver
from ...protocol.errors import StorageFailed
from ...protocol.messages.pubsub import DEFAULT_MARKS, Events, marks_of
from ...protocol.snapshots import RENAMED
from .packed import Content, Description, pack, unpack

_PACKAGE: Final = __name__.partition(".")[0]
_OURS: Final = (f"{_PACKAGE}.protocol.", f"{_PACKAGE}.routing.")
_ELSEWHERE: Final = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
}
"""The names from which numpy builds an array."""

_MAKE: Final[list[Callable[[Any], Any]]] = [
    getattr(type(default), "_make", lambda mark: mark) for default in DEFAULT_MARKS
]
"""Makes each mark of an event message from numbers and strings: a named tuple is written as a plain one."""

_PLAIN: Final = frozenset({bool, int, float, str})
"""What may stand before a batch."""
_HEAD: Final = struct.Struct("<cI")
_ROWS: Final = np.dtype("<i8")


class Encoder:
    """Encodes the values of one commit. The values must not change meanwhile."""

    def __init__(self) -> None:
        # Values are kept beside their encoding, so that no other value gets the same id.
        self._events: dict[int, tuple[Events, bytes]] = {}
        self._batches: dict[int, tuple[EventBatch, Description, Sequence[Content]]] = {}

    def encode(self, value: object) -> bytes:
        """Encode a value as bytes.

        Raises
        ------
        StorageFailed
            If a batch in it does not have the arrays that `EventBatch` requires.
        """
        if type(value) is Events:
            known = self._events.get(id(value))
            if known is None:
                known = self._events[id(value)] = value, self._encode_events(value)
            return known[1]
        if type(value) is Deliver:
            return self._encode_delivery(value)
        if (
            type(value) is tuple
            and value
            and type(value[-1]) is EventBatch
            and _PLAIN.issuperset(map(type, value[:-1]))
        ):
            batch, arrays = self._pack(value[-1])
            return _joined(b"B", (batch, *value[:-1]), arrays)
        return b"V" + pickle.dumps(value, protocol=5)

    def _encode_events(self, events: Events) -> bytes:
        batch, arrays = self._pack(events.batch)
        marks = (tuple(mark) if isinstance(mark, tuple) else mark for mark in marks_of(events))
        return _joined(b"E", (batch, *marks), arrays)

    def _encode_delivery(self, deliver: Deliver) -> bytes:
        batch, arrays = self._pack(deliver.batch)
        starts, rows = deliver.starts.astype(_ROWS, copy=False), deliver.rows.astype(_ROWS, copy=False)
        head = batch, deliver.clients, len(rows), deliver.number
        return _joined(b"D", head, [starts, rows, *arrays])

    def _pack(self, batch: EventBatch) -> tuple[Description, Sequence[Content]]:
        known = self._batches.get(id(batch))
        if known is None:
            known = self._batches[id(batch)] = batch, *pack(batch)
        return known[1], known[2]


def encode(value: object) -> bytes:
    """Encode one value as bytes; see :meth:`Encoder.encode`."""
    return Encoder().encode(value)


def _joined(letter: bytes, head: tuple[object, ...], content: Sequence[Content]) -> bytes:
    plain = pickle.dumps(head, protocol=5)
    start = _HEAD.pack(letter, len(plain))
    try:
        return b"".join((start, plain, *content))  # type: ignore[arg-type]  # numpy says Buffer from Python 3.12 on
    except (TypeError, ValueError, BufferError):  # an array is a view with gaps
        whole = [each if isinstance(each, bytes) else each.tobytes() for each in content]
        return b"".join((start, plain, *whole))


def decode(data: bytes) -> Any:
    """Decode a value.

    Raises
    ------
    StorageFailed
        If the bytes do not encode a value, or name something outside the protocol and the language of
        filters.
    """
    try:
        return _READERS[data[:1]](memoryview(data))
    except StorageFailed:
        raise
    except Exception as error:  # anything that a broken stream raises in the unpickler or our constructors
        raise StorageFailed(f"bytes that are not a stored value ({type(error).__name__}: {error})") from None


def _parted(data: memoryview) -> tuple[tuple[Any, ...], memoryview]:
    _, length = _HEAD.unpack_from(data)
    end = _HEAD.size + length
    return _PlainReader(io.BytesIO(data[_HEAD.size : end])).load(), data[end:]


def _events(data: memoryview) -> Events:
    (batch, *marks), rest = _parted(data)
    return Events(unpack(batch, rest), *(make(mark) for make, mark in zip(_MAKE, marks, strict=False)))


def _delivery(data: memoryview) -> Deliver:
    (batch, clients, count, number), rest = _parted(data)
    ends = (len(clients) + 1) * _ROWS.itemsize, (len(clients) + 1 + count) * _ROWS.itemsize
    starts = np.frombuffer(rest[: ends[0]], _ROWS).astype(np.intp)
    rows = np.frombuffer(rest[ends[0] : ends[1]], _ROWS).astype(np.intp)
    events = unpack(batch, rest[ends[1] :])
    if starts[0] != 0 or starts[-1] != count or np.any(starts[1:] < starts[:-1]):
        raise StorageFailed("a delivery whose clients have no rows of their own")
    if count and not 0 <= rows.min() <= rows.max() < len(events):
        raise StorageFailed("a delivery of events that are not in its batch")
    return Deliver(events, clients, starts, rows, number)


def _with_batch(data: memoryview) -> tuple[object, ...]:
    (batch, *before), rest = _parted(data)
    return *before, unpack(batch, rest)


def _value(data: memoryview) -> Any:
    return _Reader(io.BytesIO(data[1:])).load()


_READERS: Final = {b"E": _events, b"D": _delivery, b"B": _with_batch, b"V": _value}


class _PlainReader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        raise StorageFailed(
            f"bytes that name {module}.{name} where only numbers and strings may be: not read"
        )


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module, name) in _ELSEWHERE:
            return super().find_class(module, name)
        name = RENAMED.get((module.removeprefix(_PACKAGE), name), name)
        if module.startswith(_OURS) and "." not in name:
            found = getattr(sys.modules.get(module), name, None) or super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise StorageFailed(f"bytes that name {module}.{name}, which is no part of the protocol: not read")
