"""Encode and decode STOMP 1.2 frames; decoding is independent of how the bytes are split.

Rules
-----
* Input is bounded before it is stored: the command, all headers together, their number, the body.
* A syntax error is a `FrameError` and ends decoding: the start of the next frame is unknown.
* Lines end with LF or CR LF. Line ends between frames are heart-beats, and yield no frame.
* A frame without a body ends with its NUL, whatever its content-length says: there is nothing to wait for.
* The first of repeated headers counts. Nothing is trimmed. A NUL in a header is rejected, because some
  clients search for it as the end of the frame.
* Every frame is escaped except those that open a connection, which 1.0 did not escape either.
* SENDs with the same headers are yielded together, as a run: `frames_of` splits it.

Reference: STOMP 1.2, "STOMP Frames", "Value Encoding", "Body", "Repeated Header Entries", "Augmented BNF".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from ...protocol import checks
from ...protocol.errors import InputError
from .runs import LENGTH, Forms, Sends

CLIENT_COMMANDS: Final = frozenset(
    (
        "CONNECT",
        "STOMP",
        "SEND",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "ACK",
        "NACK",
        "BEGIN",
        "COMMIT",
        "ABORT",
        "DISCONNECT",
    )
)
SERVER_COMMANDS: Final = frozenset(("CONNECTED", "MESSAGE", "RECEIPT", "ERROR"))
WITH_BODY: Final = frozenset(("SEND", "MESSAGE", "ERROR"))
NOT_ESCAPED: Final = frozenset(("CONNECT", "STOMP", "CONNECTED"))
HEARTBEAT: Final = b"\n"
NAMES_KEPT: Final = 256

_ESCAPES: Final = {"\\r": "\r", "\\n": "\n", "\\c": ":", "\\\\": "\\"}
_ESCAPED: Final = re.compile(r"\\.?", re.DOTALL)
_TO_BE_ESCAPED: Final = re.compile(r"[\r\n:\\]")
_TO_ESCAPE: Final = str.maketrans({plain: escaped for escaped, plain in _ESCAPES.items()})
_LENGTH: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_LINE_BYTES: Final = max(map(len, CLIENT_COMMANDS | SERVER_COMMANDS)) + 1


class FrameError(InputError):
    """The input is not a STOMP 1.2 frame, or exceeds the limits."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame.

    Attributes
    ----------
    command
        A command of the client or of the server.
    headers
        Names and values, unescaped.
    body
        The raw body; only SEND, MESSAGE and ERROR have one.
    """

    command: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """Limits on the size of a frame.

    Attributes
    ----------
    header_bytes_max
        The command and all headers, line ends included.
    headers_max
        The number of headers.
    body_bytes_max
        The body.
    run_frames_max
        The number of frames in a run; 0 yields frames one at a time.
    """

    header_bytes_max: int = 16 << 10
    headers_max: int = 256
    body_bytes_max: int = 1 << 20
    run_frames_max: int = 10_000


def frames_of(came: Frame | Sends) -> Iterator[Frame]:
    """Iterate over the frames of one item that a decoder has yielded."""
    if isinstance(came, Frame):
        yield came
    else:
        for headers, body in came.apart():
            yield Frame("SEND", headers, body)


class Decoder:
    """Decodes bytes into frames.

    Parameters
    ----------
    limits
        Limits on the size of a frame.
    commands
        The accepted commands: a server's decoder accepts the client's commands.
    """

    def __init__(self, limits: FrameLimits, commands: frozenset[str] = CLIENT_COMMANDS) -> None:
        self._limits = limits
        self._commands = commands
        self._buffer = bytearray()
        self._searched = 0  # no end of a line or body before this offset
        self._command: str | None = None
        self._headers: dict[str, str] = {}
        self._head_bytes = 0
        self._lines = 0
        self._in_body = False
        self._length: int | None = None
        self._broken: str | None = None
        self._forms = Forms(limits.run_frames_max)

    @property
    def within(self) -> bool:
        """Whether a frame has begun and is incomplete."""
        return self._command is not None or bool(self._buffer)

    @property
    def size(self) -> int:
        """The bytes held of an incomplete frame."""
        return len(self._buffer) + self._head_bytes * (self._command is not None)

    @property
    def partial(self) -> Frame | None:
        """The command and the headers so far of a frame that is incomplete or invalid."""
        return None if self._command is None else Frame(self._command, dict(self._headers))

    def feed(self, data: bytes) -> Iterator[Frame | Sends]:
        """Yield the frames that are complete now, runs of SENDs together; an incomplete frame waits for more bytes.

        Raises
        ------
        FrameError
            At the first syntax error; the frames before it were yielded. Every later call raises it again.
        """
        if self._broken is None:
            self._buffer += data
        looked = False
        while True:
            if self._broken is not None:
                raise FrameError(self._broken)
            if self._command is None and not looked:  # once per read, after the frame that it completes
                looked = True
                yield from self._plain_frames()
            try:
                frame = self._next()
            except FrameError as error:
                self._broken = str(error)
                self._buffer.clear()
                raise
            if frame is None:
                return
            yield frame

    def _plain_frames(self) -> Iterator[Frame | Sends]:
        """Yield complete frames by the fast path, as long as they are plain; most clients send no others.

        The rest is parsed line by line, which reports errors.
        """
        came, at, limits, apart = bytes(self._buffer), 0, self._limits, 0
        try:
            while True:
                if (form := self._forms.learnt) is not None and at >= apart:
                    run, end = form.read(came, at, limits.header_bytes_max, limits.body_bytes_max)
                    if run is None:
                        apart = end  # do not try these bytes again
                    else:
                        at = end
                        yield run
                found = self._plain_frame(came, at)
                if found is None:
                    return
                frame, at = found
                if frame.command == "SEND":
                    self._forms.note(frame.headers)
                yield frame
        finally:
            if at:
                del self._buffer[:at]
                self._searched = 0

    def _plain_frame(self, came: bytes, at: int) -> tuple[Frame, int] | None:
        """Return the frame that begins at an offset, and where it ends; None if the fast path cannot parse it."""
        end = came.find(b"\n\n", at)
        headers = None if end < 0 else self._plain_headers(came[at:end])
        if headers is None:
            return None
        stop = came.find(b"\0", end + 2)
        size = stop - end - 2
        if not 0 <= size <= self._limits.body_bytes_max or headers.get(LENGTH, str(size)) != str(size):
            return None
        command, body = headers.pop(""), came[end + 2 : stop]
        if body and command not in WITH_BODY:
            return None
        return Frame(command, headers, body), stop + 1

    def _plain_headers(self, head: bytes) -> dict[str, str] | None:
        """Return a frame's headers, with the command under the empty name; None if the fast path cannot parse them."""
        limits = self._limits
        if b"\\" in head or b"\r" in head or b"\0" in head or len(head) + 2 > limits.header_bytes_max:
            return None
        try:
            command, *lines = head.decode("utf-8").lstrip("\n").split("\n")
        except UnicodeDecodeError:
            return None
        if command not in self._commands or len(lines) > limits.headers_max:
            return None
        headers = {"": command}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name:
                return None
            headers.setdefault(name, value)
        return headers

    def _next(self) -> Frame | None:
        """Return the next complete frame, or None if more bytes are needed."""
        while not self._in_body:
            line = self._line()
            if line is None:
                return None
            if self._command is None:
                self._begin(line)
            elif line:
                self._header(line, self._command)
            else:
                self._in_body = True
                self._length = self._body_length()
        return self._whole()

    def _line(self) -> bytes | None:
        """Remove a complete line from the buffer and return it without its end, or None if it is incomplete."""
        end = self._buffer.find(b"\n", self._searched)
        here = len(self._buffer) if end < 0 else end + 1
        if self._command is None:
            if here > _LINE_BYTES + 1:
                raise FrameError(
                    "a frame begins with a command of STOMP 1.2, in capitals, on a line of its own"
                )
        elif self._head_bytes + here > self._limits.header_bytes_max:
            raise FrameError(f"the headers are longer than {self._limits.header_bytes_max:,} bytes")
        if end < 0:
            self._searched = here
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        self._head_bytes += here
        return line.removesuffix(b"\r")

    def _begin(self, line: bytes) -> None:
        self._head_bytes = len(line) + 1
        if not line:
            return  # a heart-beat
        command = line.decode("latin-1")
        if command not in self._commands:
            raise FrameError(
                f"{checks.shown(command)} is not a command: use {', '.join(sorted(self._commands))}"
            )
        self._command = command

    def _header(self, line: bytes, command: str) -> None:
        self._lines += 1
        if self._lines > self._limits.headers_max:
            raise FrameError(f"a frame may have {self._limits.headers_max} headers")
        try:
            name, colon, value = line.decode("utf-8").partition(":")
        except UnicodeDecodeError:
            raise FrameError("a header is not in UTF-8") from None
        if not colon or not name or b"\r" in line or b"\0" in line:
            raise FrameError(f"{checks.shown(line)} is not a header: write name:value on one line")
        if command not in NOT_ESCAPED:
            name, value = _unescaped(name), _unescaped(value)
        self._headers.setdefault(name, value)

    def _body_length(self) -> int | None:
        """Return the number of bytes of the body, or None if it ends with the first NUL."""
        if self._command not in WITH_BODY:
            return 0
        given = self._headers.get("content-length")
        if given is None:
            return None
        if not _LENGTH.fullmatch(given):
            raise FrameError(f"content-length is {checks.shown(given)}: it must be a whole number of bytes")
        if int(given) > self._limits.body_bytes_max:
            raise FrameError(
                f"content-length is {given}: a body may have {self._limits.body_bytes_max:,} bytes"
            )
        return int(given)

    def _whole(self) -> Frame | None:
        """Return the frame if its body is complete, and remove the body from the buffer."""
        end = self._buffer.find(b"\0", self._searched) if self._length is None else self._length
        have = len(self._buffer)
        if (have if end < 0 else end) > self._limits.body_bytes_max:
            raise FrameError(f"the body is longer than {self._limits.body_bytes_max:,} bytes")
        if end < 0 or have <= end:
            self._searched = have if self._length is None else 0
            return None
        assert self._command is not None
        if self._buffer[end]:
            if self._command not in WITH_BODY:
                raise FrameError("it has a body, which it must not have")
            raise FrameError(f"the body has {end} bytes, and then no NUL: see content-length")
        frame = Frame(self._command, self._headers, bytes(self._buffer[:end]))
        del self._buffer[: end + 1]
        self._command, self._headers, self._lines, self._in_body, self._searched = None, {}, 0, False, 0
        return frame


def encode(frame: Frame) -> bytes:
    """Return a frame as bytes; a frame with a body gets a content-length.

    Raises
    ------
    FrameError
        If an unescaped frame has a header with a line end, or a name with a colon.
    """
    plain = frame.command in NOT_ESCAPED
    lines = [frame.command]
    for name, value in frame.headers.items():
        if plain and (":" in name or any(end in name + value for end in "\r\n")):
            raise FrameError(f"{name}: {frame.command} cannot carry it")
        lines.append(f"{name}:{value}" if plain else f"{_escaped_name(name)}:{escaped(value)}")
    if frame.body and "content-length" not in frame.headers:
        lines.append(f"content-length:{len(frame.body)}")
    return "\n".join((*lines, "", "")).encode() + frame.body + b"\0"


def escaped(text: str) -> str:
    """Return the escaped name or value of a header."""
    return text.translate(_TO_ESCAPE) if _TO_BE_ESCAPED.search(text) else text


_escaped_name: Final = lru_cache(NAMES_KEPT)(escaped)
"""Cached, since names repeat with every frame."""


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(_plain, text) if "\\" in text else text


def _plain(found: re.Match[str]) -> str:
    try:
        return _ESCAPES[found[0]]
    except KeyError:
        raise FrameError(f"{checks.shown(found[0])} is not an escape: use \\r, \\n, \\c and \\\\") from None
