"""Calls of a host's methods whose arguments and answers are bytes, which Ray carries inside the call.

Rules
-----
* Ray passes a bytes argument unchanged. Any other argument goes through its serialiser, in Python, each on its
  own. On a path through three brokers this was most of the cost of an event.
* Ray puts an argument of more than 100 KiB into the object store, from which it is fetched. That takes several
  times as long as carrying it in the call. A longer value is therefore split into arguments of
  :data:`PIECE_BYTES`, up to :data:`CALL_BYTES_MAX` in all. A value longer than that is one argument, in the
  store.
* Ray keeps no record of such a call for its lists and timelines of tasks (`BrokerHost.call`): writing the
  record takes up to a tenth of the time of the call.
* Values that another process could not import by name are written by Ray's serialiser: classes of the user's
  own script, and of modules that the user has registered to be pickled by value.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Awaitable, Sequence
from functools import lru_cache
from typing import Any, Final

from ray import ObjectRef, cloudpickle

from ...protocol.errors import InputError
from ...protocol.wire import REDUCERS, by_fields
from ..later import Later
from .sessions import DeliveryBatch

PIECE_BYTES: Final = 64 * 1024
CALL_BYTES_MAX: Final = 2 * 1024 * 1024

METHODS: Final = frozenset({"end_session", "host_beat", "poll", "receive", "request"})
"""The methods that are called this way: those that carry events, and those that must not overtake them."""

AT_ONCE: Final = frozenset({"poll", "receive", "request"})
"""The methods that begin at once, and may end at once; see `Incoming`."""

_SCRIPT: Final = b"__main__"


class _Pickler(pickle.Pickler):
    dispatch_table = {  # noqa: RUF012  # it is never changed
        **REDUCERS,
        DeliveryBatch: by_fields(
            DeliveryBatch, "number", "batch", "clients", "starts", "rows", "broker", "note", "losses", "last"
        ),
    }


def packed(value: Any) -> bytes:
    """Serialise a value into bytes."""
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
    """Return the value that was packed, from its bytes in one or more pieces."""
    return pickle.loads(pieces[0] if len(pieces) == 1 else b"".join(pieces))


def in_pieces(data: bytes) -> list[bytes]:
    """Split bytes into the arguments of a call."""
    if PIECE_BYTES < len(data) <= CALL_BYTES_MAX:
        return [data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES)]
    return [data]


def called(host: Any, method: str, *arguments: Any) -> ObjectRef[bytes]:
    """Call one of :data:`METHODS` of a host's actor by `BrokerHost.call`; return a reference to the packed answer."""
    return host.call.remote(*in_pieces(packed((method, arguments))))


async def answered(host: Any, pieces: Sequence[bytes]) -> bytes:
    """Call the host's method that the pieces of a call name, and return its packed answer.

    Raises
    ------
    InputError
        If the method is not one of :data:`METHODS`.
    """
    answer = begun(host, pieces)
    return answer if isinstance(answer, bytes) else await answer


def begun(host: Any, pieces: Sequence[bytes]) -> bytes | Later[bytes] | Awaitable[bytes]:
    """Begin such a call; return its packed answer at once, if nothing has to be waited for.

    Raises
    ------
    InputError
        If the method is not one of :data:`METHODS`.
    """
    method, arguments = pickle.loads(pieces[0]) if len(pieces) == 1 else unpacked(pieces)
    if method not in METHODS:
        raise InputError(f"no method {method!r} is called with bytes: there are {sorted(METHODS)}")
    where = host.incoming if method in AT_ONCE else host
    answer = getattr(where, method)(*arguments)
    if isinstance(answer, Later):
        return answer.made_into(packed)
    if type(answer) is str:
        return _packed_text(answer)
    return _packed_later(answer) if isinstance(answer, Awaitable) else packed(answer)


@lru_cache(maxsize=4)
def _packed_text(text: str) -> bytes:
    """Serialise the name of this node, the answer to most calls."""
    return packed(text)


async def _packed_later(answer: Awaitable[Any]) -> bytes:
    return packed(await answer)
