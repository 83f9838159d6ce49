"""Encode MESSAGEs: the part common to all messages of an event, made for a whole batch from its columns.

Rules
-----
* The result equals that of `content.message_of` and `frames.encode` for each event, except for the order of
  headers.
* A batch whose events are not uniform, or need special treatment, is left to these functions.

Reference: STOMP 1.2, "MESSAGE".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ...protocol.batch import Column, ColumnKey, EventBatch
from ...protocol.documents import FORM
from ...protocol.gathering import TTLS
from ...protocol.values import Kind
from ..deliveries import Reading, shown
from ..positions import identity
from .content import (
    BODY,
    BODY_KIND,
    BYTES,
    DESTINATION,
    EVERYTHING,
    HEADER_NAMES,
    JSON,
    MESSAGE_ONLY,
    is_text,
    message_of,
    written,
)
from .frames import Frame, encode, escaped
from .runs import FORMS_KEPT, HEADERS_MAX

NUMBERS: Final = (Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN)
SPECIAL: Final = (DESTINATION, BODY_KIND, BODY)
"""Attributes that are no headers like others, if they are strings."""
UNLIKE: Final = (FORM, BYTES, TTLS[0])
"""Attributes of events that are not sent as text."""
_HEAD: Final = encode(Frame("MESSAGE"))[: len("MESSAGE\n")]


def parts_1_2(reading: Reading) -> Sequence[bytes]:
    """Return, for each event, the part of its messages that follows the headers of the subscription."""
    return _parts(reading, "\0")


def parts_1_1(reading: Reading) -> Sequence[bytes]:
    """Return the same for STOMP 1.1, which cannot represent CR in a header."""
    return _parts(reading, "\0\r")


def head_of(subscription: str) -> bytes:
    """Return the start of all messages of a subscription."""
    return _HEAD + header_line("subscription", subscription)


def header_line(name: str, value: str) -> bytes:
    """Return a header line of a frame."""
    return f"{name}:{escaped(value)}\n".encode()


def _parts(reading: Reading, unsayable: str) -> Sequence[bytes]:
    try:
        parts = _of_one(reading, unsayable) if len(reading.batch) == 1 else None
        if parts is None:
            parts = _of_columns(reading, unsayable)
    except UnicodeEncodeError:  # an unpaired surrogate, which JSON can represent
        parts = None
    if parts is not None:
        return parts
    return [
        encode(message_of(each, {"message-id": identity(each.publisher, each.sequence)}, unsayable))[
            len(_HEAD) :
        ]
        for each in reading.deliveries()
    ]


@dataclass(frozen=True, slots=True)
class _Form:
    """How a text event with certain columns is written.

    Attributes
    ----------
    heads
        What each column's header line begins with; empty for a column that has no line of its own.
    place, kind, body
        The numbers of the columns of the destination, of the body's type and of the body; -1 if there is none.
    """

    heads: tuple[str, ...]
    place: int
    kind: int
    body: int


@lru_cache(FORMS_KEPT)
def _form_of(keys: tuple[ColumnKey, ...]) -> _Form | None:
    """Return how a text event with these columns is written; None if it is not a plain one."""
    names, heads, places = list[str](), list[str](), dict[str, int]()
    for number, (attribute, kind) in enumerate(keys):
        if attribute in UNLIKE:
            return None
        if kind is not Kind.STRING and (attribute in SPECIAL or kind not in NUMBERS):
            return None
        places[attribute], name = number, HEADER_NAMES.get(attribute, attribute)
        apart = attribute in SPECIAL or name in MESSAGE_ONLY
        heads.append("" if apart else f"{escaped(name)}:")
        names += [] if apart else [name]
    if len(set(names)) < len(names) or BODY_KIND not in places:
        return None
    place, body = places.get(DESTINATION, -1), places.get(BODY, -1)
    return _Form(tuple(heads), place, places[BODY_KIND], body)


def _of_one(reading: Reading, unsayable: str) -> Sequence[bytes] | None:
    """Return the part of a text event that is alone in its batch, or None if it is not a plain one."""
    columns = reading.batch.columns
    form = _form_of(tuple(columns)) if len(columns) <= HEADERS_MAX else None
    if form is None:
        return None
    texts: list[str] = []
    for (_, kind), column in columns.items():
        if column.present is not None:
            return None
        value = column.data.item()
        texts.append(column.words[value] if kind is Kind.STRING else written(value))
    place, kind_of_body = texts[form.place] if form.place >= 0 else EVERYTHING, texts[form.kind]
    body = ""
    if form.body >= 0:
        body, texts[form.body] = texts[form.body], ""
    if not kind_of_body or not is_text(kind_of_body) or "\0" in body:
        return None
    if _has(unsayable, *texts):
        return None
    lines = [
        f"message-id:{escaped(identity(*reading.identities[0]))}\ndestination:{escaped(place)}\n"
        f"content-type:{escaped(kind_of_body)}\n"
    ]
    lines += [f"{head}{escaped(text)}\n" for head, text in zip(form.heads, texts, strict=True) if head]
    lines += [_length_of(body), body, "\0"]
    return ["".join(lines).encode()]


def _of_columns(reading: Reading, unsayable: str) -> Sequence[bytes] | None:
    """Return the parts of uniform events, or None."""
    batch = reading.batch
    places, kinds = _words(batch, DESTINATION), _words(batch, BODY_KIND)
    if places is None or kinds is None or ("" in places and (DESTINATION, Kind.STRING) in batch.columns):
        return None
    names = {name: escaped(identity(name, 0))[:-1] for name in batch.publishers}
    named = [f"message-id:{names[publisher]}{sequence}\n" for publisher, sequence in reading.identities]
    placed = [f"destination:{escaped(place or EVERYTHING)}\n" for place in places]
    if any(name in (BYTES, TTLS[0]) for name, _ in batch.columns):
        return None
    text = [bool(kind) and is_text(kind) for kind in kinds]
    if any(
        _has(unsayable, *column.words)
        for (name, _), column in batch.columns.items()
        if name != BODY and (name == DESTINATION or any(text))
    ):
        return None
    if not any(text):
        return _joined([named, placed, [f"content-type:{JSON}\n"] * len(batch)], reading.texts)
    bodies = _words(batch, BODY)
    if (
        bodies is None
        or not all(text)
        or _has("\0", *bodies)
        or any(name == FORM for name, _ in batch.columns)
    ):
        return None
    columns = [named, placed, [f"content-type:{escaped(kind)}\n" for kind in kinds]]
    said: dict[str, str] = {}
    for (attribute, _), column in batch.columns.items():
        name = HEADER_NAMES.get(attribute, attribute)
        if attribute in (BODY, DESTINATION) or name in MESSAGE_ONLY:
            continue
        if said.setdefault(name, attribute) != attribute:
            return None
        columns.append(shown(column, _line(name, column)))
    return _joined(columns, bodies)


def _words(batch: EventBatch, name: str) -> list[str] | None:
    """Return an attribute of each event, empty if absent; None if it is not always a string."""
    if any(other == name and kind is not Kind.STRING for other, kind in batch.columns):
        return None
    column = batch.columns.get((name, Kind.STRING))
    return [""] * len(batch) if column is None else shown(column, str)


def _has(characters: str, *texts: str) -> bool:
    together = "".join(texts)
    return any(character in together for character in characters)


def _line(name: str, column: Column) -> Callable[[Any], str]:
    """Return a function that writes a value of a column as a header line, escaped only where its kind needs it."""
    head = escaped(name)
    if column.kind is Kind.INTEGER or (column.kind is Kind.FLOAT and np.isfinite(column.data).all()):
        return lambda value: f"{head}:{value}\n"
    if column.kind in NUMBERS:
        return lambda value: f"{head}:{written(value)}\n"
    return lambda value: f"{head}:{escaped(written(value))}\n"


def _joined(columns: Sequence[Sequence[str]], bodies: Sequence[str]) -> list[bytes]:
    parts = []
    for *lines, text in zip(*columns, bodies, strict=True):
        parts.append("".join((*lines, _length_of(text), text, "\0")).encode())
    return parts


def _length_of(body: str) -> str:
    """Return the header with the length of a body, if it has one, and the end of the headers."""
    size = len(body) if body.isascii() else len(body.encode())
    return f"content-length:{size}\n\n" if size else "\n"
