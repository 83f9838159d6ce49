"""Consecutive SENDs with the same headers, parsed together; most publishers send no others.

Rules
-----
* A run is equivalent to the frames that it stands for: the same is published and answered.
* A run is formed only of plain frames: no escapes, lines end with LF, no repeated headers, valid UTF-8, and a
  body that ends where its length says and with the first NUL. Other frames are parsed one by one, which
  reports errors.
* Headers are matched together once they have come `LEARNT_AFTER` times in a row. Compiling a pattern costs as
  much as parsing some frames one by one: so each pattern compiled for a client postpones the next by as many
  frames. No pattern is compiled for more than `HEADERS_MAX` headers, or names longer than `NAMES_BYTES_MAX`.
* `FORMS_KEPT` patterns are cached, for all clients; `re` caches the last 512 patterns in any case.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

LEARNT_AFTER: Final = 16
FORMS_KEPT: Final = 64
HEADERS_MAX: Final = 32
NAMES_BYTES_MAX: Final = 2 << 10
LENGTH: Final = "content-length"

_VALUE: Final = rb"[^\n\r\\\0]*+"
_BODY: Final = rb"[^\0]*+"
KEY_HEADERS: Final = ("idempotency-key", "_AMQ_DUPL_ID")
"""A SEND with one of these is published separately, and once. The first is HTTP's, the second Artemis's."""

_NEVER: Final = frozenset({"transaction", "expires", *KEY_HEADERS})


@dataclass(frozen=True, slots=True)
class Sends:
    """SENDs with the same headers, in order of arrival.

    Attributes
    ----------
    names
        The names of the headers.
    texts
        The values of each header, separated by LF.
    bodies
        The raw bodies.
    """

    names: tuple[str, ...]
    texts: tuple[str, ...]
    bodies: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.bodies)

    def values(self, name: str) -> list[str]:
        """Return the value of a header in each frame; empty if the frames do not have it."""
        return self.texts[self.names.index(name)].split("\n") if name in self.names else []

    def apart(self) -> Iterator[tuple[dict[str, str], bytes]]:
        """Iterate over the headers and the body of each frame."""
        rows = zip(*(text.split("\n") for text in self.texts), strict=True)
        for values, body in zip(rows, self.bodies, strict=True):
            yield dict(zip(self.names, values, strict=True)), body


class Form:
    """Matches SENDs with these headers, in this order.

    Parameters
    ----------
    names
        The names of the headers, at least one.
    most
        The maximum number of frames in a run.
    """

    def __init__(self, names: tuple[str, ...], most: int) -> None:
        self.names = names
        self._most = most
        heads = [re.escape(name.encode()) for name in names]
        plain = b"".join(rb"%b:%b\n" % (head, _VALUE) for head in heads)
        taken = b"".join(rb"%b:(%b)\n" % (head, _VALUE) for head in heads)
        self._many = re.compile(rb"(?:SEND\n%b\n%b\0\n*+){0,%d}+" % (plain, _BODY, most))
        self._one = re.compile(rb"SEND\n%b\n(%b)\0\n*+" % (taken, _BODY))
        self._fixed = sum(len(head) + 2 for head in heads) + len("SEND\n\n")

    def read(
        self, data: bytes, at: int, header_bytes_max: int, body_bytes_max: int
    ) -> tuple[Sends | None, int]:
        """Return the run at an offset, and its end; no run and its end if its frames must be parsed one by one."""
        alone = self._one.match(data, at) if self._most else None
        if alone is not None and alone.end() == len(data):
            return self._alone(alone, header_bytes_max, body_bytes_max), len(data)
        found = self._many.match(data, at)
        end = at if found is None else found.end()
        if end == at:
            return None, at
        *columns, bodies = zip(*self._one.findall(data, at, end), strict=True)
        longest = self._fixed + sum(max(map(len, column)) for column in columns)
        if longest > header_bytes_max or max(map(len, bodies)) > body_bytes_max:
            return None, end
        if LENGTH in self.names:
            lengths = tuple(b"%d" % len(body) for body in bodies)
            if columns[self.names.index(LENGTH)] != lengths:
                return None, end
        try:
            texts = tuple(b"\n".join(column).decode() for column in columns)
        except UnicodeDecodeError:
            return None, end
        return Sends(self.names, texts, bodies), end

    def _alone(self, found: re.Match[bytes], header_bytes_max: int, body_bytes_max: int) -> Sends | None:
        """Return a run of one frame, as `read` would."""
        *values, body = found.groups()
        if self._fixed + sum(map(len, values)) > header_bytes_max or len(body) > body_bytes_max:
            return None
        if LENGTH in self.names and values[self.names.index(LENGTH)] != b"%d" % len(body):
            return None
        try:
            return Sends(self.names, tuple(map(bytes.decode, values)), (body,))
        except UnicodeDecodeError:
            return None


_kept: Final[OrderedDict[tuple[tuple[str, ...], int], Form]] = OrderedDict()
"""Cached forms; publishers of one program send the same headers."""


class Forms:
    """The headers that one client repeats; repeated headers are matched as runs from then on.

    Parameters
    ----------
    most
        The maximum number of frames in a run.
    """

    def __init__(self, most: int) -> None:
        self.learnt: Form | None = None
        self._most = most
        self._last: tuple[str, ...] = ()
        self._times = 0
        self._made = 0

    def note(self, headers: Mapping[str, str]) -> None:
        """Record a plain SEND that was parsed individually."""
        names = tuple(headers)
        if names != self._last:
            self._last, self._times = names, 0
        self._times += 1
        if self._times < LEARNT_AFTER or not 0 < len(names) <= HEADERS_MAX:
            return
        form = _kept.get((names, self._most))
        if form is None:
            due = self._times == LEARNT_AFTER * (1 + self._made) and _NEVER.isdisjoint(names)
            if not due or len("".join(names).encode()) > NAMES_BYTES_MAX:
                return
            self._made += 1
            form = _kept[names, self._most] = Form(names, self._most)
            if len(_kept) > FORMS_KEPT:
                _kept.popitem(last=False)
        _kept.move_to_end((names, self._most))
        self.learnt = form
