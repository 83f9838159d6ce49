"""Calls of a host's methods whose arguments and answers are bytes, which Ray carries inside the call.

Rules
-----
* Ray passes an argument of bytes unchanged. Any other argument goes through its serialiser, in Python, one by
  one. On the path through three brokers that took most of the time of an event.
* An argument of more than 100 KiB is put into the object store and fetched from there, which takes several
  times as long as carrying it in the call. Longer data than :data:`PIECE_BYTES` therefore goes as several
  arguments, up to :data:`CALL_BYTES_MAX` in all. Beyond that it is one argument, in the store.
* Ray does not record such a call for its task lists (`BrokerHost.call`): recording takes up to a tenth of the
  time of the call.
* Ray's serialiser writes what another process could not find by name: classes of the user's own script, and of
  modules that the user has registered to be carried whole.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ray import ObjectRef, cloudpickle

from ...protocol.errors import InputError
from ...protocol.wire import REDUCERS, by_fields
from .sessions import Parcel

PIECE_BYTES: Final = 64 * 1024
CALL_BYTES_MAX: Final = 2 * 1024 * 1024

METHODS: Final = frozenset({"receive", "request", "poll"})
"""The methods that are called this way: all that carry events."""

_SCRIPT: Final = b"__main__"


class _Pickler(pickle.Pickler):
    dispatch_table = {  # noqa: RUF012  # it is never changed
        **REDUCERS,
        Parcel: by_fields(
            Parcel, "number", "batch", "clients", "starts", "rows", "broker", "note", "losses", "last"
        ),
    }


def packed(value: Any) -> bytes:
    """Return a value as bytes."""
    stream = io.BytesIO()
    try:
        _Pickler(stream, protocol=5).dump(value)
        data = stream.getvalue()
        if _SCRIPT not in data and not cloudpickle.list_registry_pickle_by_value():
            return data
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    return bytes(cloudpickle.dumps(value, protocol=5))


def unpacked(pieces: Sequence[bytes]) -> Any:
    """Return the value that was packed, and possibly cut into pieces."""
    return pickle.loads(pieces[0] if len(pieces) == 1 else b"".join(pieces))


def in_pieces(data: bytes) -> list[bytes]:
    """Return bytes as the arguments of a call."""
    if PIECE_BYTES < len(data) <= CALL_BYTES_MAX:
        return [data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES)]
    return [data]


def called(host: Any, method: str, *arguments: Any) -> ObjectRef[bytes]:
    """Call one of :data:`METHODS` of a host's actor by `BrokerHost.call`; the answer, a reference, is packed."""
    return host.call.remote(*in_pieces(packed((method, arguments))))


def receiver(host: Any) -> Callable[..., Awaitable[object]]:
    """Return how loads are handed to an actor's brokers: ``receive(to, source, messages, ...)``.

    The messages may be a reference to an object in the store.
    """

    async def receive(to: int, source: int, messages: Any, *said: Any) -> object:
        if isinstance(messages, ObjectRef):
            return await host.receive.remote(to, source, messages, *said)
        return unpacked([await called(host, "receive", to, source, messages, *said)])

    return receive


async def answered(host: Any, pieces: Sequence[bytes]) -> bytes:
    """Call the method of a host that the pieces of a call name, and return its packed answer.

    Raises
    ------
    InputError
        If the method is not one of :data:`METHODS`.
    """
    method, arguments = unpacked(pieces)
    if method not in METHODS:
        raise InputError(f"no method {method!r} is called with bytes: there are {sorted(METHODS)}")
    return packed(await getattr(host, method)(*arguments))
