"""Where a durable stream stands: the id of each delivery, and what is handed out and not acknowledged. Pure.

Rules
-----
* The id of a delivery names it, ``publisher:sequence``, and after it how far the stream had come with others. So it
  stands for the delivery and all before it, whichever gateway hears it: nothing is lost, and nothing named in it
  comes again.
* At most :data:`PUBLISHERS_MAX` publishers are in an id, those that were heard last, and no more than it has room for;
  of others what is not acknowledged may come again.
* An id of a durable stream is signed for that stream: nobody acknowledges what was not delivered to it.
* To acknowledge an id acknowledges all before it, or with `alone` that delivery only. A broker is told how far a
  publisher is acknowledged without a gap.

Source: a position per publisher is that of decision 0015; ids that carry it are ours (decision 0058).
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
    """Return the text that names an event: its publisher, with what is no plain letter escaped, and its number."""
    return f"{_quoted(publisher)}:{sequence}"


@lru_cache(PUBLISHERS_KEPT)
def _quoted(publisher: str) -> str:
    return quote(publisher, safe=_SAFE)


class Seal:
    """Signs ids for one stream.

    Parameters
    ----------
    secret
        The same at all gateways of a network.
    stream
        Whose ids they are: a principal and a durable name.
    """

    def __init__(self, secret: str, stream: str) -> None:
        key = blake2b(secret.encode(), digest_size=32).digest()
        self._keyed = blake2b(stream.encode() + b"\0", key=key, digest_size=_TAG_BYTES)

    def _tag(self, text: str) -> str:
        made = self._keyed.copy()
        made.update(text.encode())
        return made.hexdigest()

    def id_of(self, marks: Marks, publisher: str) -> str:
        """Return the id of the last delivery of a publisher, where the stream stands at `marks`."""
        others = [other for other in reversed(marks) if other != publisher][: PUBLISHERS_MAX - 1]
        named = [identity(each, marks[each]) for each in (publisher, *others)]
        while len(text := ",".join(named)) > _TEXT_CHARACTERS_MAX and len(named) > 1:
            named.pop()
        return f"{text};{self._tag(text)}"

    def marks_of(self, id: str) -> Marks:
        """Return where the stream stood, by publisher; the delivery's own comes first.

        Raises
        ------
        InputError
            If it is no id of a delivery of this stream.
        """
        text, _, tag = id.partition(";") if len(id) <= ID_CHARACTERS_MAX else ("", "", "")
        genuine = text.isascii() and tag.isascii() and compare_digest(self._tag(text), tag)
        parts = [_MARK.fullmatch(part) for part in text.split(",")] if genuine else [None]
        if not all(parts):
            raise InputError(f"{id[:80]!r} is no id of a delivery of this stream")
        return {unquote(part[1]): int(part[2]) for part in parts if part is not None}


class Window:
    """What a durable stream has handed out: where it stands, and what is not acknowledged, in order.

    Parameters
    ----------
    most
        How many may be unacknowledged.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[Key, None] = {}
        self._each: dict[str, deque[int]] = {}
        self._alone: set[Key] = set()
        self.marks: Marks = {}
        """Per publisher the last that was handed out; who was heard last comes last."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether nothing more may be handed out before something is acknowledged."""
        return len(self._open) >= self._most

    def hand_out(self, publisher: str, sequence: int) -> None:
        """Note a delivery."""
        self._open[publisher, sequence] = None
        self._each.setdefault(publisher, deque()).append(sequence)
        self.marks.pop(publisher, None)
        self.marks[publisher] = sequence

    def is_open(self, publisher: str, sequence: int) -> bool:
        """Return whether a delivery is handed out and not acknowledged."""
        return (publisher, sequence) in self._open

    def up_to(self, publisher: str, sequence: int) -> Marks:
        """Acknowledge a delivery that is open and all before it; return how far each publisher is acknowledged now."""
        marks: Marks = {}
        last = (publisher, sequence)
        while True:
            key = next(iter(self._open))
            self._drop(key)
            marks[key[0]] = key[1]
            if key == last:
                return marks | self._grown(marks)

    def alone(self, publisher: str, sequence: int) -> Marks:
        """Acknowledge one delivery that is open; return how far its publisher is acknowledged now, if that changes."""
        self._alone.add((publisher, sequence))
        return self._grown({publisher: 0})

    def _grown(self, publishers: Mapping[str, int]) -> Marks:
        """Return how far publishers come with what was acknowledged alone."""
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
        waiting.popleft()  # what is open of a publisher is acknowledged in order
        if not waiting:
            del self._each[key[0]]
