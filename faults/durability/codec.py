"""Values as bytes, for a store: what the protocol and the filters are made of, and nothing else.

Rules
-----
* Bytes may come from a file that somebody else wrote. Reading them makes objects of the classes of `protocol` and
  `routing` and arrays of numbers, and calls nothing else: no function, no class from elsewhere.
* The same value read back is equal, also in the order of its mappings.
* Events and deliveries, which are nearly all that is written, are packed (`packed`). They are read without a single
  name in them.
* A batch is packed once a commit, in however many messages it stands.

The first byte says which: ``E`` events, ``D`` a delivery, ``V`` any other value. Any other value is a pickle, read by
an unpickler that knows these names only. Of the other two the length of a tuple of numbers and strings (4 bytes)
follows, the tuple as a pickle, read by one that knows no names, and the bytes of the arrays.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...protocol.batch import EventBatch
from ...protocol.effects import Deliver
from ...protocol.errors import StorageFailed
from ...protocol.ids import RoundNumber
from ...protocol.messages.pubsub import Events
from .packed import Description, pack, unpack

_PACKAGE: Final = __name__.partition(".")[0]
_OURS: Final = (f"{_PACKAGE}.protocol.", f"{_PACKAGE}.routing.")
_ELSEWHERE: Final = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
}
"""What numpy makes an array from."""

_Array: TypeAlias = npt.NDArray[Any]
_HEAD: Final = struct.Struct("<cI")
_ROWS: Final = np.dtype("<i8")


class Encoder:
    """Makes bytes of the values of one commit; they must not change meanwhile."""

    def __init__(self) -> None:
        # Values are kept beside what became of them, so that no other one gets the same id.
        self._events: dict[int, tuple[Events, bytes]] = {}
        self._batches: dict[int, tuple[EventBatch, Description, list[_Array]]] = {}

    def encode(self, value: Any) -> bytes:
        """Return a value as bytes.

        Raises
        ------
        StorageFailed
            If a batch in it is not made of what `EventBatch` says.
        """
        if type(value) is Events:
            known = self._events.get(id(value))
            if known is None:
                known = self._events[id(value)] = value, self._encode_events(value)
            return known[1]
        if type(value) is Deliver:
            return self._encode_delivery(value)
        return b"V" + pickle.dumps(value, protocol=5)

    def _encode_events(self, events: Events) -> bytes:
        batch, arrays = self._pack(events.batch)
        term, number = events.round
        rest = events.age_seconds, events.forgot_seconds, events.doubt_seconds, events.entry
        return _joined(b"E", (batch, term, number, events.again, events.ballot, *rest), arrays)

    def _encode_delivery(self, deliver: Deliver) -> bytes:
        batch, arrays = self._pack(deliver.batch)
        starts, rows = deliver.starts.astype(_ROWS, copy=False), deliver.rows.astype(_ROWS, copy=False)
        head = batch, deliver.clients, len(rows), deliver.number
        return _joined(b"D", head, [starts, rows, *arrays])

    def _pack(self, batch: EventBatch) -> tuple[Description, list[_Array]]:
        known = self._batches.get(id(batch))
        if known is None:
            known = self._batches[id(batch)] = batch, *pack(batch)
        return known[1], known[2]


def encode(value: Any) -> bytes:
    """Return one value as bytes; see :meth:`Encoder.encode`."""
    return Encoder().encode(value)


def _joined(letter: bytes, head: tuple[Any, ...], arrays: list[_Array]) -> bytes:
    plain = pickle.dumps(head, protocol=5)
    start = _HEAD.pack(letter, len(plain))
    try:
        return b"".join((start, plain, *arrays))  # type: ignore[arg-type]  # numpy says Buffer from Python 3.12 on
    except (TypeError, ValueError, BufferError):  # one of them is a view with gaps
        return b"".join((start, plain, *[array.tobytes() for array in arrays]))


def decode(data: bytes) -> Any:
    """Return the value that the bytes stand for.

    Raises
    ------
    StorageFailed
        If they stand for none, or name something that is not in the protocol or the language of filters.
    """
    try:
        return _READERS[data[:1]](memoryview(data))
    except StorageFailed:
        raise
    except Exception as error:  # whatever a broken stream does to the unpickler or to our constructors
        raise StorageFailed(f"bytes that stand for no value ({type(error).__name__}: {error})") from None


def _parted(data: memoryview) -> tuple[tuple[Any, ...], memoryview]:
    _, length = _HEAD.unpack_from(data)
    end = _HEAD.size + length
    return _PlainReader(io.BytesIO(data[_HEAD.size : end])).load(), data[end:]


def _events(data: memoryview) -> Events:
    (batch, term, number, *others), rest = _parted(data)
    return Events(unpack(batch, rest), RoundNumber(term, number), *others)


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


def _value(data: memoryview) -> Any:
    return _Reader(io.BytesIO(data[1:])).load()


_READERS: Final = {b"E": _events, b"D": _delivery, b"V": _value}


class _PlainReader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise StorageFailed(f"bytes that name {module}.{name} where numbers and strings stand: not read")


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ELSEWHERE:
            return super().find_class(module, name)
        if module.startswith(_OURS) and "." not in name:
            found = getattr(sys.modules.get(module), name, None) or super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise StorageFailed(f"bytes that name {module}.{name}, which is no part of the protocol: not read")
