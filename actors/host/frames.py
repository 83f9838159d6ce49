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
* A load of one link, and what a publisher publishes, has a head of fixed layout before its messages. A message of
  events that came so is remembered with its bytes: a broker that passes it on writes another head before them, and
  one that delivers all of a small one writes them into the delivery.
* So is a delivery of such a message to few clients, as most answers to polls are: a head, the rows, the clients, and
  the message as it came.
* Values that another process could not import by name are written by Ray's serialiser: classes of the user's
  own script, and of modules that the user has registered to be pickled by value.
"""

from __future__ import annotations

import io
import math
import pickle
import struct
from collections.abc import Awaitable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from ray import ObjectRef, cloudpickle

from ...protocol.batch import EventBatch, Recent
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.pubsub import Events
from ...protocol.wire import (
    KEPT_BATCH_BYTES_MAX,
    KEPT_BATCHES_MAX,
    REDUCERS,
    SMALL,
    Reduced,
    by_fields,
    read_small,
    small_of,
)
from ..later import Later
from .sessions import DeliveryBatch

PIECE_BYTES: Final = 64 * 1024
CALL_BYTES_MAX: Final = 2 * 1024 * 1024

METHODS: Final = frozenset({"end_session", "host_beat", "poll", "quiet", "receive", "request", "survey"})
"""The methods that are called this way: those that carry events, those that must not overtake them, and the questions
of who waits for a network to come to rest."""

AT_ONCE: Final = frozenset({"poll", "receive", "request"})
"""The methods that begin at once, and may end at once; see `Incoming`."""

LOAD: Final = 1
PUBLISHED: Final = 2
DELIVERED: Final = 3
"""The first bytes of calls and answers with a head; any other is a pickle, which begins with 128."""
_LOAD_HEAD: Final = struct.Struct("!Bqqqd")
"""Before the messages of a link: kind, receiver, sender, its incarnation, and since when they wait (NaN: unknown)."""
_PUBLISHED_HEAD: Final = struct.Struct("!BqdII")
"""Before those of a publisher: kind, broker, when it called, and the bytes of its name and its ticket, which follow."""
_DELIVERED_HEAD: Final = struct.Struct("<BBHIqqqI4x")
"""Before a delivery: kind, whether it is the last, how many clients and rows, its number, the broker, the broker's
number for it, and the bytes of the names. Its size is a multiple of eight: the arrays behind it are aligned."""
_NAMES: Final = "surrogatepass"  # as pickle writes texts
_SEPARATOR: Final = "\0"

_came: Recent[Events, memoryview] = Recent(KEPT_BATCHES_MAX)
"""The messages of events that were read last, each alone in its call, with the bytes from which they were read."""

SMALL_ROWS_MAX: Final = 64
"""Up to how many numbers the arrays of a delivery batch are written together."""
ROWS: Final = np.dtype(np.intp)

_SCRIPT: Final = b"__main__"


_plain_delivery = by_fields(
    DeliveryBatch, "number", "batch", "clients", "starts", "rows", "broker", "note", "losses", "last"
)


def _reduce_delivery(delivery: DeliveryBatch) -> Reduced:
    """Reduce a delivery batch; a small one has its two arrays as one run of bytes."""
    starts, rows = delivery.starts, delivery.rows
    if not _has_few_rows(delivery):
        return _plain_delivery(delivery)
    beside = delivery.broker, delivery.note, delivery.losses, delivery.last
    run = starts.tobytes() + rows.tobytes()
    came = _came_with(delivery.batch)
    batch = delivery.batch if came is None else came.tobytes()
    return _small_delivery, (delivery.number, batch, delivery.clients, run, *beside)


def _came_with(batch: EventBatch) -> memoryview | None:
    """Return the small message that has brought a batch, as it came lately; None if there is none."""
    for message, written in _came:
        if message.batch is batch and written[0] == SMALL:
            return written
    return None


def _has_few_rows(delivery: DeliveryBatch) -> bool:
    """Return whether the arrays of a delivery batch are few numbers of the usual type, as its clients ask for."""
    starts, rows = delivery.starts, delivery.rows
    small = len(starts) + len(rows) <= SMALL_ROWS_MAX and starts.dtype == rows.dtype == ROWS
    return small and len(starts) == len(delivery.clients) + 1


def _delivered(answer: Any) -> bytes | None:
    """Return an answer to a poll, if it is one delivery of a small message that came as bytes; None for any other."""
    if type(answer) is not list or len(answer) != 1 or type(answer[0]) is not DeliveryBatch:
        return None
    delivery: DeliveryBatch = answer[0]
    clients = delivery.clients
    if delivery.losses or not _has_few_rows(delivery):
        return None
    came = _came_with(delivery.batch)
    if came is None:
        return None
    names = clients[0] if len(clients) == 1 else _SEPARATOR.join(clients)
    if names.count(_SEPARATOR) != len(clients) - 1:
        return None
    told, rows = names.encode(errors=_NAMES), delivery.rows
    head = _DELIVERED_HEAD.pack(
        DELIVERED,
        delivery.last,
        len(clients),
        len(rows),
        delivery.number,
        delivery.broker,
        delivery.note,
        len(told),
    )
    return b"".join((head, delivery.starts.tobytes(), rows.tobytes(), told, came))


def _read_delivered(content: bytes) -> list[DeliveryBatch]:
    """Return the answer that `_delivered` has written."""
    _, last, count, size, number, broker, note, told = _DELIVERED_HEAD.unpack_from(content)
    start = _DELIVERED_HEAD.size
    starts = np.frombuffer(content, ROWS, count + 1, start)
    start += starts.nbytes
    rows = np.frombuffer(content, ROWS, size, start)
    start += rows.nbytes
    clients = tuple(content[start : start + told].decode(errors=_NAMES).split(_SEPARATOR))
    batch = read_small(content, start + told).batch
    return [DeliveryBatch(number, batch, clients, starts, rows, broker, note, (), bool(last))]


def _small_delivery(
    number: int,
    batch: EventBatch | bytes,
    clients: tuple[ClientId, ...],
    run: bytes,
    *beside: Any,
) -> DeliveryBatch:
    if isinstance(batch, bytes):  # of the message that brought it
        batch = read_small(batch).batch
    both = np.frombuffer(run, ROWS)
    starts = len(clients) + 1
    return DeliveryBatch(number, batch, clients, both[:starts], both[starts:], *beside)


class _Pickler(pickle.Pickler):
    dispatch_table = {  # noqa: RUF012  # it is never changed
        **REDUCERS,
        DeliveryBatch: _reduce_delivery,
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
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return _read_delivered(data) if data[0] == DELIVERED else pickle.loads(data)


def load_of(
    to: BrokerId, source: BrokerId, messages: Sequence[object], incarnation: int = 0, since: float = math.nan
) -> bytes:
    """Return the call `receive` of a link."""
    known = _came.get(messages[0]) if len(messages) == 1 else None  # type: ignore[arg-type]
    return _LOAD_HEAD.pack(LOAD, to, source, incarnation, since) + (known or _written(messages))


def published_of(
    at: BrokerId, client: ClientId, messages: Sequence[object], ticket: str, since: float
) -> bytes:
    """Return the call `request` of a publisher that publishes."""
    name, right = client.encode(errors=_NAMES), ticket.encode(errors=_NAMES)
    head = _PUBLISHED_HEAD.pack(PUBLISHED, at, since, len(name), len(right))
    return b"".join((head, name, right, _written(messages)))


def _written(messages: Sequence[object]) -> bytes | memoryview:
    if len(messages) == 1 and isinstance(messages[0], Events):
        known = small_of(messages[0])
        if known is not None:
            return known
    return packed(messages)


def _read(content: bytes, start: int) -> list[object]:
    """Return the messages that follow a head."""
    written = memoryview(content)[start:]
    if content[start] == SMALL:
        message = read_small(content, start)
        _came.keep(message, written)
        return [message]
    messages: list[object] = pickle.loads(written)
    if len(messages) == 1 and type(messages[0]) is Events and len(written) <= KEPT_BATCH_BYTES_MAX:
        _came.keep(messages[0], written)
    return messages


def call_of(content: bytes) -> tuple[str, tuple[Any, ...]]:
    """Return the method and the arguments of a call."""
    if content[0] == LOAD:
        _, to, source, incarnation, since = _LOAD_HEAD.unpack_from(content)
        messages = _read(content, _LOAD_HEAD.size)
        if not math.isnan(since):
            return "receive", (to, source, messages, incarnation, since)
        return "receive", (to, source, messages, incarnation) if incarnation else (to, source, messages)
    if content[0] == PUBLISHED:
        _, at, since, name, right = _PUBLISHED_HEAD.unpack_from(content)
        start = _PUBLISHED_HEAD.size
        client = content[start : start + name].decode(errors=_NAMES)
        ticket = content[start + name : start + name + right].decode(errors=_NAMES)
        return "request", (at, client, _read(content, start + name + right), ticket, since)
    found: tuple[str, tuple[Any, ...]] = pickle.loads(content)
    return found


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
    answer = begun(host, pieces[0] if len(pieces) == 1 else b"".join(pieces))
    return answer if isinstance(answer, bytes) else await answer


def begun(host: Any, content: bytes) -> bytes | Later[bytes] | Awaitable[bytes]:
    """Begin such a call; return its packed answer at once, if nothing has to be waited for.

    Raises
    ------
    InputError
        If the method is not one of :data:`METHODS`.
    """
    method, arguments = call_of(content)
    if method not in METHODS:
        raise InputError(f"no method {method!r} is called with bytes: there are {sorted(METHODS)}")
    where = host.incoming if method in AT_ONCE else host
    answer = getattr(where, method)(*arguments)
    if type(answer) is str or answer is None:
        return _packed_usual(answer)
    if isinstance(answer, Later):
        return answer.made_into(_packed_answer)
    return _packed_later(answer) if isinstance(answer, Awaitable) else packed(answer)


def _packed_answer(answer: Any) -> bytes:
    """Serialise an answer that is given later: mostly that to a poll."""
    return _delivered(answer) or packed(answer)


@lru_cache(maxsize=4)
def _packed_usual(answer: str | None) -> bytes:
    """Serialise the name of this node, or nothing: the answers to most calls."""
    return packed(answer)


async def _packed_later(answer: Awaitable[Any]) -> bytes:
    return packed(await answer)
