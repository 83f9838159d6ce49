"""The position of a durable stream: the ids of its deliveries, and its unacknowledged deliveries. Pure.

Rules
-----
* The id of a delivery names the delivery, ``publisher:sequence``, followed by the stream's position for other
  publishers. So it stands for the delivery and all before it, whichever gateway receives it: nothing is lost,
  and nothing named in it is redelivered.
* An id names at most :data:`PUBLISHERS_MAX` publishers, the most recent ones, and no more than fit.
  Unacknowledged deliveries of other publishers may be redelivered.
* An id of a durable stream is signed for that stream: no client can acknowledge events that were not
  delivered to the stream.
* Acknowledging an id acknowledges all deliveries before it, or with `alone` that delivery only. A broker is
  told up to where a publisher is acknowledged without a gap.

Source: a position per publisher is that of decision 0015. Ids that carry the position are ours (decision
0058).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from ..protocol.errors import InputError

PUBLISHERS_MAX: Final = 16
ID_CHARACTERS_MAX: Final = 8_192
PUBLISHERS_KEPT: Final = 1_024
_TAG_BYTES: Final = 9
_TEXT_CHARACTERS_MAX: Final = ID_CHARACTERS_MAX - 2 * _TAG_BYTES - 1
_MARK: Final = re.compile(r"([^:,;\s]+):([0-9]{1,19})")
_SAFE: Final = "/@-._~"

Key: TypeAlias = tuple[str, int]
Marks: TypeAlias = dict[str, int]


def identity(publisher: str, sequence: int) -> str:
    """Return the text that names an event: its publisher, percent-encoded, and its sequence number."""
    return f"{_quoted(publisher)}:{sequence}"


@lru_cache(PUBLISHERS_KEPT)
def _quoted(publisher: str) -> str:
    return quote(publisher, safe=_SAFE)


class Seal:
    """Signs the ids of one stream.

    Parameters
    ----------
    secret
        The secret of the network, the same at all its gateways.
    stream
        The stream that the ids belong to: a principal and a durable name.
    """

    def __init__(self, secret: str, stream: str) -> None:
        key = blake2b(secret.encode(), digest_size=32).digest()
        self._keyed = blake2b(stream.encode() + b"\0", key=key, digest_size=_TAG_BYTES)

    def _tag(self, text: str) -> str:
        made = self._keyed.copy()
        made.update(text.encode())
        return made.hexdigest()

    def id_of(self, marks: Marks, publisher: str) -> str:
        """Return the id of the last delivery of a publisher, with the stream at position `marks`."""
        others = [other for other in reversed(marks) if other != publisher][: PUBLISHERS_MAX - 1]
        named = [identity(each, marks[each]) for each in (publisher, *others)]
        while len(text := ",".join(named)) > _TEXT_CHARACTERS_MAX and len(named) > 1:
            named.pop()
        return f"{text};{self._tag(text)}"

    def marks_of(self, id: str) -> Marks:
        """Return the position in an id, by publisher; the publisher of the delivery itself comes first.

        Raises
        ------
        InputError
            If it is not the id of a delivery of this stream.
        """
        text, _, tag = id.partition(";") if len(id) <= ID_CHARACTERS_MAX else ("", "", "")
        genuine = text.isascii() and tag.isascii() and compare_digest(self._tag(text), tag)
        parts = [_MARK.fullmatch(part) for part in text.split(",")] if genuine else [None]
        if not all(parts):
            raise InputError(f"{id[:80]!r} is not the id of a delivery of this stream")
        return {unquote(part[1]): int(part[2]) for part in parts if part is not None}


class Window:
    """The deliveries of a durable stream: its position, and the unacknowledged deliveries in order.

    Parameters
    ----------
    most
        The limit on unacknowledged deliveries.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[Key, None] = {}
        self._each: dict[str, deque[int]] = {}
        self._alone: set[Key] = set()
        self.marks: Marks = {}
        """The last delivered sequence number per publisher, the most recent publisher last."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether no more may be delivered until something is acknowledged."""
        return len(self._open) >= self._most

    def hand_out(self, publisher: str, sequence: int) -> None:
        """Record a delivery."""
        self._open[publisher, sequence] = None
        self._each.setdefault(publisher, deque()).append(sequence)
        self.marks.pop(publisher, None)
        self.marks[publisher] = sequence

    def is_open(self, publisher: str, sequence: int) -> bool:
        """Return whether a delivery is unacknowledged."""
        return (publisher, sequence) in self._open

    def up_to(self, publisher: str, sequence: int) -> Marks:
        """Acknowledge an open delivery and all before it; return the new acknowledged position per publisher."""
        marks: Marks = {}
        last = (publisher, sequence)
        while True:
            key = next(iter(self._open))
            self._drop(key)
            marks[key[0]] = key[1]
            if key == last:
                return marks | self._grown(marks)

    def alone(self, publisher: str, sequence: int) -> Marks:
        """Acknowledge one open delivery; return the new acknowledged position of its publisher, if it changes."""
        self._alone.add((publisher, sequence))
        return self._grown({publisher: 0})

    def _grown(self, publishers: Mapping[str, int]) -> Marks:
        """Return how far the positions of publishers advance over deliveries acknowledged individually."""
        grown: Marks = {}
        for publisher in publishers:
            while (waiting := self._each.get(publisher)) and (publisher, waiting[0]) in self._alone:
                key = (publisher, waiting[0])
                self._drop(key)
                grown[publisher] = key[1]
        return grown

    def _drop(self, key: Key) -> None:
        del self._open[key]
        self._alone.discard(key)
        waiting = self._each[key[0]]
        waiting.popleft()  # open deliveries of a publisher leave in order
        if not waiting:
            del self._each[key[0]]
