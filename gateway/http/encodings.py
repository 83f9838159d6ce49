"""Bodies that a client has compressed: gzip, decompressed piece by piece, so that a bomb costs no more than its limit.

Source: RFC 9110, 8.4 ("Content-Encoding"); RFC 1952, 2.2 (several members); RFC 7694, 3 (the answer to others).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from ...protocol import checks
from ...protocol.errors import InputError

ACCEPTED: Final = "gzip, identity"
_GZIP: Final = ("gzip", "x-gzip")
_PLAIN: Final = ("", "identity")
_PIECE_BYTES: Final = 64 << 10
_GZIP_HEADER: Final = zlib.MAX_WBITS | 16


class UnknownEncoding(InputError):
    """The content encoding of a body is not supported."""


def is_compressed(encoding: str) -> bool:
    """Return whether a body with this Content-Encoding has to be decompressed.

    Raises
    ------
    UnknownEncoding
        If it is neither gzip nor absent.
    """
    encoding = encoding.strip().lower()
    if encoding not in (*_GZIP, *_PLAIN):
        raise UnknownEncoding(
            f"content-encoding is {checks.shown(encoding)}: send the body as gzip, or as it is"
        )
    return encoding in _GZIP


def decompressed(body: bytes) -> Iterator[bytes]:
    """Iterate over the pieces of a body in gzip; whoever counts them may stop at any of them.

    Raises
    ------
    InputError
        If the body is not gzip, or not whole.
    """
    rest = body
    while True:
        member = zlib.decompressobj(_GZIP_HEADER)
        while not member.eof:
            try:
                piece = member.decompress(rest, _PIECE_BYTES)
            except zlib.error as error:
                raise InputError(f"the body is not gzip: {error}") from None
            if piece:
                yield piece
            elif not member.eof:
                raise InputError("the body is not gzip: it ends too early")
            rest = member.unconsumed_tail
        rest = member.unused_data
        if not rest:
            return
