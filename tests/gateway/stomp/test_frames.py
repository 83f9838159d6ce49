"""The codec of STOMP 1.2, rule by rule; references are to the sections of the specification."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.gateway.stomp.frames import (
    CLIENT_COMMANDS,
    SERVER_COMMANDS,
    WITH_BODY,
    Decoder,
    Frame,
    FrameError,
    FrameLimits,
    encode,
)

ALL = CLIENT_COMMANDS | SERVER_COMMANDS
SMALL = FrameLimits(header_bytes_max=200, headers_max=4, body_bytes_max=20)


def decode(data, limits=SMALL, commands=ALL):
    return list(Decoder(limits, commands).feed(data))


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@st.composite
def frames(draw):
    command = draw(st.sampled_from(sorted(ALL - {"CONNECT", "STOMP", "CONNECTED"})))
    headers = draw(st.dictionaries(texts.filter(bool), texts, max_size=3))
    headers.pop("content-length", None)
    body = draw(st.binary(max_size=20)) if command in WITH_BODY else b""
    return Frame(command, headers, body)


def plain(frame):
    return frame.command, {k: v for k, v in frame.headers.items() if k != "content-length"}, frame.body


@settings(max_examples=60)
@given(
    st.lists(frames(), max_size=4),
    st.lists(st.integers(0, 300), max_size=6),
    st.sampled_from(["", "\n", "\r\n\n"]),
)
def test_frames_come_back_as_they_went_however_their_bytes_are_cut(sent, cuts, beats):
    data = beats.encode().join(map(encode, sent))
    decoder, came = Decoder(SMALL, ALL), []
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for begin, end in pairwise(edges):
        came += decoder.feed(data[begin:end])
    assert list(map(plain, came)) == list(map(plain, sent))
    assert not decoder.within


def test_a_line_that_was_begun_is_forgotten_with_the_frame_that_it_began():
    """The search position in a partial line is not used for what follows its frame, here a heart-beat."""
    decoder = Decoder(FrameLimits())
    assert list(decoder.feed(b"AC")) == []
    came = list(decoder.feed(b"K\nid:1\n\n\0\nABORT\ntransaction:2\n\n\0"))
    assert [frame.command for frame in came] == ["ACK", "ABORT"]


hostile = st.lists(
    st.sampled_from(
        [b"SEND", b"ACK", b"CONNECT", b"\n", b"\r\n", b"\r", b"\0", b"a:b", b":", b"\\", b"\\n", b"\\t"]
    )
    | st.sampled_from([b"content-length:3", b"content-length:-1", b"content-length:99", b"\xff", b"x" * 30])
    | st.binary(max_size=4),
    max_size=20,
).map(b"".join)


def outcome(pieces):
    decoder, came = Decoder(SMALL, ALL), []
    try:
        for piece in pieces:
            for frame in decoder.feed(piece):
                came.append(frame)
    except FrameError as error:
        return came, str(error)
    return came, decoder.within


@settings(max_examples=60)
@given(hostile)
def test_what_is_wrong_is_found_at_the_same_place_however_it_is_cut(data):
    whole = outcome([data])
    assert outcome([data[i : i + 1] for i in range(len(data))]) == whole
    assert outcome([data[:7], data[7:]]) == whole


@settings(max_examples=60)
@given(hostile)
def test_no_more_is_kept_than_a_frame_may_have(data):
    decoder = Decoder(SMALL, ALL)
    try:
        for i in range(len(data)):
            list(decoder.feed(data[i : i + 1]))
            assert decoder.size <= SMALL.header_bytes_max
    except FrameError:
        assert decoder.size == 0


def test_lines_end_with_lf_or_cr_lf():
    """STOMP 1.2, "STOMP Frames"."""
    assert decode(b"SEND\r\ndestination:/a\r\n\r\nhi\0") == decode(b"SEND\ndestination:/a\n\nhi\0")


def test_headers_are_utf_8_and_escaped():
    """STOMP 1.2, "Value Encoding"."""
    (frame,) = decode("SEND\na\\cb:é\\n\\r\\\\\\c\n\n\0".encode())
    assert frame.headers == {"a:b": "é\n\r\\:"}
    assert encode(frame) == "SEND\na\\cb:é\\n\\r\\\\\\c\n\n\0".encode()


@pytest.mark.parametrize("command", ["CONNECT", "STOMP", "CONNECTED"])
def test_what_opens_a_connection_is_not_escaped(command):
    """STOMP 1.2, "Value Encoding": to stay compatible with 1.0."""
    (frame,) = decode(f"{command}\npasscode:a\\tb:c\n\n\0".encode())
    assert frame.headers == {"passcode": "a\\tb:c"}
    assert encode(frame) == f"{command}\npasscode:a\\tb:c\n\n\0".encode()
    with pytest.raises(FrameError):
        encode(Frame(command, {"passcode": "a\nlogin:root"}))


def test_of_a_header_that_comes_twice_the_first_counts():
    """STOMP 1.2, "Repeated Header Entries"."""
    assert decode(b"SEND\nfoo:World\nfoo:Hello\n\n\0")[0].headers == {"foo": "World"}


def test_nothing_is_trimmed():
    """STOMP 1.2, "Value Encoding": white space is significant."""
    assert decode(b"SEND\n a : b \n\n\0")[0].headers == {" a ": " b "}


def test_a_body_is_as_long_as_it_says_or_ends_with_the_first_nul():
    """STOMP 1.2, "Header content-length"."""
    assert decode(b"SEND\ncontent-length:3\n\na\0b\0")[0].body == b"a\0b"
    assert decode(b"SEND\n\na\0\nACK\n\n\0") == [Frame("SEND", {}, b"a"), Frame("ACK")]


@pytest.mark.parametrize("length", [b"0", b"5", b"999", b"x"])
def test_a_frame_without_a_body_is_not_waited_for_whatever_its_length_says(length):
    data = b"ACK\ncontent-length:" + length + b"\nid:1\n\n\0SEND\n\nx\0"
    ack, send = decode(data)
    assert (ack.command, ack.headers["id"], ack.body) == ("ACK", "1", b"") and send.body == b"x"


def test_a_frame_that_is_invalid_or_incomplete_can_be_named():
    decoder = Decoder(SMALL)
    assert decoder.partial is None
    assert list(decoder.feed(b"ACK\nreceipt:7\n")) == []
    assert decoder.partial == Frame("ACK", {"receipt": "7"})
    with pytest.raises(FrameError):
        list(decoder.feed(b"\nbody\0"))
    assert decoder.partial == Frame("ACK", {"receipt": "7"})


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "begins with a command"),
        (b"get\n", "'get' is not a command"),
        (b"MESSAGE\n\n\0", "'MESSAGE' is not a command"),
        (b"x" * 14, "begins with a command"),
        (b"SEND\ndestination\n\n\0", "is not a header"),
        (b"SEND\n:/a\n\n\0", "is not a header"),
        (b"SEND\na:b\rc\n\n\0", "is not a header"),
        (b"SEND\na:b\0c\n\n\0", "is not a header"),
        (b"SEND\na:\xff\n\n\0", "not in UTF-8"),
        (b"SEND\na:\\t\n\n\0", "is not an escape"),
        (b"SEND\na:\\\n\n\0", "is not an escape"),
        (b"SEND\ncontent-length:x\n\n\0", "whole number"),
        (b"SEND\ncontent-length:-1\n\n\0", "whole number"),
        ("SEND\ncontent-length:٣\n\nabc\0".encode(), "whole number"),
        (b"SEND\ncontent-length:1\n\nab\0", "and then no NUL"),
        (b"SEND\ncontent-length:21\n\n", "may have 20 bytes"),
        (b"SEND\n\n" + b"x" * 21, "longer than 20 bytes"),
        (b"SEND\na:1\nb:1\nc:1\nd:1\ne:1\n", "4 headers"),
        (b"SEND\na:" + b"x" * 200, "headers are longer than 200 bytes"),
        (b"ACK\nid:1\n\nbody\0", "has a body, which"),
        (b"ACK\ncontent-length:4\n\nbody\0", "has a body, which"),
    ],
)
def test_a_mistake_is_named_and_ends_what_is_read(data, says):
    """STOMP 1.2, "Body", "Size Limits", "Augmented BNF"."""
    decoder = Decoder(SMALL)
    with pytest.raises(FrameError, match=says):
        list(decoder.feed(data))
    with pytest.raises(FrameError, match=says):
        list(decoder.feed(b"\nACK\nid:1\n\n\0"))
