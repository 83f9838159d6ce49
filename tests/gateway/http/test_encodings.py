"""Bodies in gzip, without a gateway."""

import gzip
import itertools
import zlib

import pytest
from rayvous.gateway.http.encodings import UnknownEncoding, decompressed, is_compressed
from rayvous.protocol.errors import InputError

BODY = bytes(range(256)) * 1000


def test_what_was_compressed_comes_back_in_pieces():
    pieces = list(decompressed(gzip.compress(BODY)))
    assert b"".join(pieces) == BODY and max(map(len, pieces)) <= 64 << 10
    assert b"".join(decompressed(gzip.compress(b""))) == b""


def test_several_members_are_one_body():
    """RFC 1952, 2.2."""
    assert b"".join(decompressed(gzip.compress(b"a") + gzip.compress(b"b"))) == b"ab"


@pytest.mark.slow
def test_of_a_bomb_no_more_is_made_than_is_taken():
    bomb = gzip.compress(bytes(1 << 28), 9)
    taken = list(itertools.islice(decompressed(bomb), 3))
    assert sum(map(len, taken)) <= 3 * (64 << 10)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"plain", id="plain"),
        pytest.param(zlib.compress(b"zlib"), id="zlib"),
        pytest.param(gzip.compress(BODY)[:-1], id="cut at its end"),
        pytest.param(gzip.compress(BODY)[:100], id="cut early"),
        pytest.param(gzip.compress(b"a") + b"behind", id="something behind"),
        pytest.param(gzip.compress(b"a")[:-8] + bytes(8), id="wrong sum"),
    ],
)
def test_what_is_no_gzip_is_refused(body):
    with pytest.raises(InputError, match="the body is not gzip"):
        list(decompressed(body))


def test_encodings_are_gzip_and_none():
    assert all(map(is_compressed, ("gzip", "x-gzip", " GZIP ")))
    assert not any(map(is_compressed, ("", "identity")))
    for other in ("br", "zstd", "deflate", "gzip, gzip"):
        with pytest.raises(UnknownEncoding, match="content-encoding is"):
            is_compressed(other)
