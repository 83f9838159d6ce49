"""One end of a connection between two processes of a network, as a value machine: bytes in, events and bytes out.

Rules
-----
* Each end first sends a hello: version, network, its own name, and a fresh nonce. Then each proves that it has the
  secret of the network, by an HMAC over its role, both hellos, and with TLS the certificate of the end that has
  accepted. So a proof is worth nothing on another connection, in the other direction, or through somebody between.
* Before the other end has proved itself, nothing of it is accepted but the greeting, whose frames are short.
* Afterwards each end makes calls with rising numbers, and answers those of the other, in any order. A call that takes
  them gets parts of its answer before the answer itself.
* Whatever breaks a rule is answered by the event `Refused`, after which the connection takes nothing in any more.
* A connection that ends without a farewell has been lost: its peer may have died.

Layout of a frame: length of its content (4 bytes), kind (1 byte), number of the call (8 bytes), content.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

MAGIC: Final = b"rayvous\n"
VERSION: Final = 2
"""Of the frames and of the greeting; the layout of a hello up to the version never changes."""

NAME_BYTES: Final = 16
NONCE_BYTES: Final = 32
SECRET_BYTES: Final = 32
GREETING_BYTES_MAX: Final = 512
FRAME_BYTES_MAX: Final = 1024 * 1024 * 1024

_HEAD: Final = struct.Struct("!IBQ")
_HELLO: Final = struct.Struct(f"!{len(MAGIC)}sH{NAME_BYTES}s{NAME_BYTES}s{NONCE_BYTES}s")
_START: Final = struct.Struct(f"!{len(MAGIC)}sH")
_HEAD_BYTES: Final = _HEAD.size

W = TypeVar("W")


class Kind(IntEnum):
    """The kinds of frames."""

    HELLO = 1
    PROOF = 2
    REFUSED = 3
    CALL = 4
    ANSWER = 5
    FAILED = 6
    FAREWELL = 7
    PART = 8


_CALL: Final = int(Kind.CALL)
_ANSWER: Final = int(Kind.ANSWER)
_FAILED: Final = int(Kind.FAILED)
_PART: Final = int(Kind.PART)


_made: Final = tuple.__new__
"""Makes a named tuple; its class would call a function of Python for that."""


class _Wrong(Exception):
    """What the other end has sent breaks a rule."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The other end has proved itself; `peer` is its name. Calls can be made."""

    peer: bytes


class Called(NamedTuple):
    """The other end makes a call."""

    number: int
    content: bytes


class Answered(NamedTuple, Generic[W]):
    """A call of this end is answered; `waiting` is what was given with the call."""

    waiting: W
    content: bytes
    failed: bool


class Continued(NamedTuple, Generic[W]):
    """A part of the answer to a call of this end has come; more follows."""

    waiting: W
    content: bytes


@dataclass(frozen=True, slots=True)
class Parted:
    """The other end takes its leave: it makes no calls, and answers none, any more."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The other end breaks a rule, is of another network or version, or has refused this end."""

    why: str


Event: TypeAlias = Opened | Called | Answered[W] | Continued[W] | Parted | Refused


class Self(NamedTuple):
    """What one end says of itself, and the secret that it proves to have."""

    network: bytes
    name: bytes
    secret: bytes


class Connection(Generic[W]):
    """One end of a connection.

    Parameters
    ----------
    me
        This end.
    opens
        Whether this end has opened the connection, and the other one has accepted it.
    nonce
        `NONCE_BYTES` that were never used before.
    frame_bytes_max
        The maximum length of the content of a frame.

    Attributes
    ----------
    out
        Bytes to be written, in order; the host takes them out.
    certificate
        With TLS, that of the end that has accepted the connection, as each end knows it; set before anything is
        taken in.
    peer
        The name of the other end; None as long as that has not proved itself.
    waiting
        What was given with each call of this end that has no answer yet, by number.
    serving
        The numbers of the other end's calls that have no answer yet.
    """

    def __init__(self, me: Self, opens: bool, nonce: bytes, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._me = me
        self._opens = opens
        self._frame_bytes_max = frame_bytes_max
        self._hello = _HELLO.pack(MAGIC, VERSION, me.network, me.name, nonce)
        self._theirs = b""
        self._held = bytearray()
        self._asked = 0
        self._heard = 0
        self._refused = False
        self.certificate = b""
        self.peer: bytes | None = None
        self.waiting: dict[int, W] = {}
        self.serving: set[int] = set()
        self._in_parts: set[int] = set()  # the calls of this end that take parts
        self.out: list[bytes] = [frame(Kind.HELLO, 0, self._hello)]

    @property
    def number(self) -> bytes:
        """What tells this connection from all others, at both ends; once both have greeted."""
        return hashlib.sha256(b"".join(sorted((self._hello, self._theirs)))).digest()

    @property
    def begun(self) -> bool:
        """Whether the other end has begun its greeting, and not ended it."""
        return self.peer is None and bool(self._held or self._theirs)

    # What this end does.

    def call(self, content: bytes, waiting: W, parts: bool = False) -> bytes:
        """Make a call, which may take parts; return its frame. The answer comes as `Answered`, with `waiting`."""
        number = self._asked = self._asked + 1
        self.waiting[number] = waiting
        if parts:
            self._in_parts.add(number)
        return _HEAD.pack(len(content), _CALL, number) + content

    def answer(self, number: int, content: bytes, *, failed: bool = False) -> bytes:
        """Answer a call of the other end; return the frame."""
        self.serving.discard(number)
        return _HEAD.pack(len(content), _FAILED if failed else _ANSWER, number) + content

    @staticmethod
    def part(number: int, content: bytes) -> bytes:
        """Give a part of the answer to a call of the other end that takes parts; return the frame."""
        return _HEAD.pack(len(content), _PART, number) + content

    @staticmethod
    def farewell() -> bytes:
        """Return the frame by which this end takes its leave."""
        return frame(Kind.FAREWELL, 0, b"")

    @staticmethod
    def refusal(why: object) -> bytes:
        """Return the frame that tells the other end why it is refused."""
        return frame(Kind.REFUSED, 0, str(why).encode()[: GREETING_BYTES_MAX // 2])

    # What the other end does.

    def take(self, data: bytes) -> list[Event[W]]:
        """Take in what has arrived; return what it means, in order. After `Refused`, nothing is taken in."""
        events: list[Event[W]] = []
        if self._refused:
            return events
        try:
            # Most often whole frames arrive: they are not copied before they are read.
            held: bytes | bytearray = data
            if self._held:
                self._held += data
                held = self._held
            start, end = 0, len(held)
            while end - start >= _HEAD_BYTES:
                length, kind, number = _HEAD.unpack_from(held, start)
                if length > (GREETING_BYTES_MAX if self.peer is None else self._frame_bytes_max):
                    raise self._too_long(length)
                begin, stop = start + _HEAD_BYTES, start + _HEAD_BYTES + length
                if stop > end:
                    break
                if held is data:
                    content = data[begin:stop]
                else:
                    with memoryview(held) as view:
                        content = bytes(view[begin:stop])
                start = stop
                # What carries events is told apart here, without a further call: these are nearly all frames.
                if kind == _CALL and number == self._heard + 1 and self.peer is not None:
                    self._heard = number
                    self.serving.add(number)
                    events.append(_made(Called, (number, content)))
                elif kind == _ANSWER and number in self.waiting and self.peer is not None:
                    self._in_parts.discard(number)
                    events.append(_made(Answered, (self.waiting.pop(number), content, False)))
                elif kind == _PART and number in self._in_parts and self.peer is not None:
                    events.append(_made(Continued, (self.waiting[number], content)))
                else:
                    event = (
                        self._greeted(kind, content)
                        if self.peer is None
                        else self._told(kind, number, content)
                    )
                    if event is not None:
                        events.append(event)
            if held is not data:
                del self._held[:start]
            elif start < end:
                self._held += data[start:]
        except _Wrong as wrong:
            self._refused = True
            self._held.clear()
            events.append(Refused(str(wrong)))
        return events

    def _too_long(self, length: int) -> _Wrong:
        most = GREETING_BYTES_MAX if self.peer is None else self._frame_bytes_max
        return _Wrong(f"a frame of {length:,} bytes; at most {most:,} are allowed here")

    def _told(self, kind: int, number: int, content: bytes) -> Event[W]:
        """Return what any other frame means after the greeting."""
        if kind == _PART:
            raise _Wrong(f"a part of an answer to call {number}, which takes none")
        if kind == _CALL:
            raise _Wrong(f"call {number} follows call {self._heard}")
        if kind in (_ANSWER, _FAILED):
            if number not in self.waiting:
                raise _Wrong(f"an answer to call {number}, which is not open")
            self._in_parts.discard(number)
            return Answered(self.waiting.pop(number), content, True)
        if kind == Kind.FAREWELL:
            return Parted()
        raise _Wrong(f"a frame of kind {kind} after the greeting")

    def _greeted(self, kind: int, content: bytes) -> Opened | None:
        if kind == Kind.REFUSED:
            raise _Wrong(f"the other end refuses: {content.decode(errors='replace')!r}")
        if kind == Kind.HELLO and not self._theirs:
            self._theirs = self._checked(content)
            self.out.append(frame(Kind.PROOF, 0, self._proof(self._opens, self._hello, self._theirs)))
            return None
        if kind == Kind.PROOF and self._theirs:
            if not hmac.compare_digest(content, self._proof(not self._opens, self._theirs, self._hello)):
                raise _Wrong("it does not have the secret of this network")
            self.peer = _HELLO.unpack(self._theirs)[3]
            return Opened(self.peer)
        raise _Wrong(f"a frame of kind {kind} in the greeting")

    def _checked(self, hello: bytes) -> bytes:
        """Return a hello that this end can answer."""
        if len(hello) < _START.size or not hello.startswith(MAGIC):
            raise _Wrong("it does not speak this protocol")
        version = _START.unpack_from(hello)[1]
        if version != VERSION:
            raise _Wrong(f"it speaks version {version} of channels, this process {VERSION}")
        if len(hello) != _HELLO.size:
            raise _Wrong(f"a hello of {len(hello)} bytes")
        if _HELLO.unpack(hello)[2] != self._me.network:
            raise _Wrong("it is of another network")
        if hello == self._hello:
            raise _Wrong("it sends back what it was sent")
        return hello

    def _proof(self, opens: bool, prover: bytes, verifier: bytes) -> bytes:
        role = b"opens" if opens else b"accepts"
        return hmac.digest(self._me.secret, role + prover + verifier + self.certificate, "sha256")


def frame(kind: int, number: int, content: bytes) -> bytes:
    """Return a frame; `number` is that of its call."""
    return _HEAD.pack(len(content), kind, number) + content
