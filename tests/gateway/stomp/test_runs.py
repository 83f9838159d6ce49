"""SENDs read as a run give the same frames, events, receipts and errors as when read one by one."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.gateway.stomp import columns, runs
from rayvous.gateway.stomp.columns import batch_of_run
from rayvous.gateway.stomp.content import event_of
from rayvous.gateway.stomp.frames import Decoder, Frame, FrameError, FrameLimits, frames_of
from rayvous.gateway.stomp.runs import (
    FORMS_KEPT,
    HEADERS_MAX,
    KEY_HEADERS,
    LEARNT_AFTER,
    NAMES_BYTES_MAX,
    Form,
    Sends,
)
from rayvous.protocol.batch import ATTRIBUTES_MAX, EVENT_BYTES_MAX, batch_of
from rayvous.protocol.errors import EventError

LIMITS = FrameLimits(header_bytes_max=200, headers_max=5, body_bytes_max=20)
NAMES = (
    "price",
    "symbol",
    "type",
    "content-type",
    "content-length",
    "receipt",
    "body",
    "JMSType",
    "x" * 1_030,
)
VALUES = ("1.5", "-0", "7", "9" * 19, "1E5", "true", "false", "a", "", "é", "a:b", "\x85", "x" * 60)
KINDS = ("", "text/plain", "text/csv;charset=utf-8", "application/json", "image/png", "text/plain;charset=x")
BODIES = (b"", b"hi", b'{"price":2}', b"{}", b"[1", b"\xff", "é".encode(), b"x" * 21, b"a\0b")


def sent(headers, body, end=b"\0"):
    lines = b"".join(f"{name}:{value}\n".encode() for name, value in headers)
    return b"SEND\n" + lines + b"\n" + body + end


@st.composite
def programs(draw):
    """Draw the data of a publisher that mostly repeats the same headers, and the places where it is cut."""
    names = ("destination", *draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True)))

    def values(body):
        for name in names:
            known = {
                "destination": st.sampled_from(["/events", "/a", "/b"]),
                "content-type": st.sampled_from(KINDS),
                "content-length": st.sampled_from([str(len(body)), str(len(body)), "1", "02"]),
            }
            yield name, draw(known.get(name, st.sampled_from(VALUES)))

    body = st.sampled_from(BODIES[: draw(st.integers(1, len(BODIES)))])
    drawn = [draw(body) for _ in range(draw(st.integers(1, 6)))]
    pieces = [sent([(name, "0" if name == "content-length" else "1") for name in names], b"")] * LEARNT_AFTER
    pieces += [sent(values(each), each, draw(st.sampled_from([b"\0", b"\0\n", b"\0\r\n"]))) for each in drawn]
    if draw(st.booleans()):
        odd = (b"\n", b"SEND\n", b"SEND\na:\\n\n\n\0", b"ACK\nid:1\n\n\0", b"SEND\nsymbol:1\nsymbol:2\n\n\0")
        pieces.insert(draw(st.integers(LEARNT_AFTER, len(pieces))), draw(st.sampled_from(odd)))
    return b"".join(pieces), draw(st.lists(st.integers(0, 2_000), max_size=2))


def outcome(pieces, limits=LIMITS):
    decoder, came = Decoder(limits), []
    try:
        for piece in pieces:
            came += decoder.feed(piece)
    except FrameError as error:
        return came, str(error)
    return came, decoder.within


def apart(came):
    return [frame for each in came for frame in frames_of(each)]


@settings(max_examples=30)
@given(
    programs(),
    st.booleans(),
    st.sampled_from([LIMITS, replace(LIMITS, header_bytes_max=60, body_bytes_max=3)]),
)
def test_a_run_is_the_frames_that_it_stands_for(program, each_by_itself, limits):
    data, cuts = program
    cuts = [end.end() for end in re.finditer(b"\0", data)] if each_by_itself else cuts
    edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    came, end = outcome((data[a:b] for a, b in pairwise(edges)), limits)
    alone, end_alone = outcome([data], replace(limits, run_frames_max=0))
    assert not any(isinstance(each, Sends) for each in alone)
    assert apart(came) == alone and end == end_alone
    for run in came:
        if isinstance(run, Sends) and (batch := batch_of_run(run)) is not None:
            events = [event_of(frame) for frame in frames_of(run)]
            assert batch.documents() == events
            kinds = [{name: type(value) for name, value in event.items()} for event in batch.documents()]
            assert kinds == [{name: type(value) for name, value in event.items()} for event in events]


@pytest.mark.parametrize("price", ["1.5", "-7", "true", "12345678901234567890", "x", ""])
@pytest.mark.parametrize("more", [(), (("content-type", "text/css"),), (("type", "a"), ("receipt", "9"))])
def test_one_that_comes_by_itself_is_read_without_what_many_need(price, more):
    headers = [("destination", "/a"), ("price", price), *more]
    came, _ = outcome([sent(headers, b"{}")] * (LEARNT_AFTER + 2))
    run = came[-1]
    assert isinstance(run, Sends) and len(run) == 1
    batch, (frame,) = columns._of_one(run), frames_of(run)
    assert batch.documents() == columns._of_many(run).documents() == [event_of(frame)]
    assert list(batch.columns) == list(columns._of_many(run).columns)
    for texts, bodies in ((run.texts, (b"\xff",)), (("", *run.texts[1:]), run.bodies)):
        assert columns._of_one(replace(run, texts=texts, bodies=bodies)) is None, "others say what is wrong"


@pytest.mark.parametrize(
    "headers",
    [
        {"type": "1", "JMSType": "2"},
        {"content-type": "text/plain;charset=x"},
        {"content-type": "application/json"},
        {f"h{number}": "1" for number in range(ATTRIBUTES_MAX - 2)},
    ],
)
def test_one_that_comes_by_itself_and_is_not_plain_is_left_to_what_many_need(headers):
    names, texts = zip(("destination", "/a"), *headers.items(), strict=True)
    assert columns._of_one(Sends(names, texts, (b"{}",))) is None


def test_one_that_comes_by_itself_has_the_limits_of_many():
    def read(name, value, header_bytes, body_bytes):
        form = Form(("destination", name), 10)
        data = b"SEND\ndestination:/a\n%b:%b\n\nhello\0" % (name.encode(), value)
        one, end = form.read(data, 0, header_bytes, body_bytes)
        two, _ = form.read(data * 2, 0, header_bytes, body_bytes)
        assert end == len(data) and (one is None) == (two is None)
        assert one is None or (one.bodies * 2 == two.bodies and one.texts == ("/a", value.decode()))
        return one is not None

    head = len(b"SEND\ndestination:/a\nx:5\n\n")
    assert read("x", b"5", head, 5) and not read("x", b"5", head - 1, 5) and not read("x", b"5", head, 4)
    assert read("content-length", b"5", 100, 5) and not read("content-length", b"4", 100, 5)
    assert Form(("destination",), 0).read(b"SEND\ndestination:/a\n\n\0", 0, 100, 100) == (None, 0)


def test_what_comes_again_and_again_is_read_together():
    """Receipts, content lengths and content types do not prevent it; the first frames are read one by one."""
    for kind in (("content-type", "application/json"), ("content-type", "text/plain"), ("price", "1.5")):
        frames = [
            sent([("destination", "/a"), kind, ("receipt", str(i)), ("content-length", "2")], b"{}")
            for i in range(LEARNT_AFTER + 100)
        ]
        came, _ = outcome([b"".join(frames)])
        assert [len(each) for each in came[LEARNT_AFTER:]] == [100]
        assert len(batch_of_run(came[-1])) == 100


@pytest.mark.parametrize("name", ["transaction", *KEY_HEADERS])
def test_what_is_looked_at_one_by_one_is_not_read_together(name):
    """Ten SENDs with the same key are one publication, not ten."""
    frames = Decoder(FrameLimits()).feed(sent([("destination", "/a"), (name, "k")], b"") * (LEARNT_AFTER + 5))
    assert [type(frame) for frame in frames] == [Frame] * (LEARNT_AFTER + 5)


@pytest.mark.parametrize("names", [[f"h{i}" for i in range(32)], ["x" * 1024, "y" * 1025]])
def test_what_is_costly_to_look_for_together_is_not(names):
    """A pattern for hundreds of headers would cost as much as reading thousands of frames."""
    limits = FrameLimits(headers_max=300)
    assert len(names) + 1 > HEADERS_MAX or sum(map(len, names)) > NAMES_BYTES_MAX
    for some, together in ((names[:-1], True), (names, False)):
        data = sent([("destination", "/a"), *((name, "1") for name in some)], b"") * (LEARNT_AFTER + 5)
        came, _ = outcome([data], limits)
        assert isinstance(came[-1], Sends) is together


def test_who_changes_headers_has_fewer_and_fewer_patterns_made_and_goes_back_to_those(monkeypatch):
    made = []
    monkeypatch.setattr(runs, "Form", lambda names, most: made.append(names) or Form(names, most))

    def frames(name, times):
        return sent([("destination", "/a"), (f"changes-{name}", "1")], b"") * times

    decoder = Decoder(LIMITS)
    for name in range(20):
        list(decoder.feed(frames(name, 2 * LEARNT_AFTER)))
    assert [names[1] for names in made] == ["changes-0", "changes-1"]
    assert isinstance(list(decoder.feed(frames(0, LEARNT_AFTER + 5)))[-1], Sends)
    list(decoder.feed(frames(20, 3 * LEARNT_AFTER)))
    assert made.pop()[1] == "changes-20" and len(made) == 2


def test_of_forms_some_are_kept():
    for i in range(FORMS_KEPT + 1):
        outcome([sent([("destination", "/a"), (f"kept-{i}", "1")], b"") * LEARNT_AFTER])
        assert len(runs._kept) <= FORMS_KEPT
    assert [names[1] for names, _ in runs._kept] == [f"kept-{i + 1}" for i in range(FORMS_KEPT)]


@pytest.mark.parametrize("cut", [1, 7, 22, 30])
def test_behind_a_frame_that_a_read_has_cut_frames_are_read_together_again(cut):
    frame = sent([("destination", "/a"), ("x", "1")], b"hello")
    data = frame * (LEARNT_AFTER + 20)
    at = len(frame) * (LEARNT_AFTER + 5) + cut
    came, _ = outcome([data[:at], data[at:]])
    assert [len(each) for each in came if isinstance(each, Sends)] in ([5, 15], [5, 14])
    assert apart(came) == outcome([data], replace(LIMITS, run_frames_max=0))[0]


def test_a_run_has_no_more_frames_than_are_published_at_once():
    frames = [sent([("destination", "/a")], b"x")] * (LEARNT_AFTER + 8)
    came = list(Decoder(FrameLimits(run_frames_max=3)).feed(b"".join(frames)))
    assert [len(each) for each in came if isinstance(each, Sends)] == [3, 3]


@pytest.mark.parametrize(
    ("length", "value", "body"),
    [
        ("3", "1", b"a\0b"),  # extends beyond its first NUL
        ("1", "1", b"ab"),
        ("1", "1", b"\xff"),
        ("0", "\xe9", b""),
        ("21", "1", b"x" * 21),
        ("0", "x" * 180, b""),
    ],
)
def test_a_length_a_limit_and_what_is_no_utf_8_are_seen_in_a_run(length, value, body):
    """STOMP 1.2, "Body", "Size Limits", "Value Encoding"."""

    def frame(*values, body=b""):
        names = ("destination", "content-length", "a")
        return sent(zip(names, ("/a", *values), strict=True), body).replace("\xe9".encode(), b"\xe9")

    plain = frame("0", "1")
    data = plain * LEARNT_AFTER + plain + frame(length, value, body=body) + plain
    came, end = outcome([data])
    alone, end_alone = outcome([data], replace(LIMITS, run_frames_max=0))
    assert any(isinstance(each, Sends) for each in outcome([plain * (LEARNT_AFTER + 1)])[0])
    assert apart(came) == alone and end == end_alone


def run_of(*rows, **columns):
    form = Form(("destination", *columns), 100)
    data = b"".join(
        sent([("destination", "/a"), *zip(columns, values, strict=True)], body) for *values, body in rows
    )
    run, end = form.read(data, 0, 1 << 20, 1 << 20)
    assert end == len(data)
    return run


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ({"a": 0}, [("1", b""), ("x", b"t"), ("true", b""), ("2.5", b"")]),  # values of several kinds
        ({"a": 0}, [(str(2**63 - 1), b""), (str(2**63), b"")]),  # one does not fit into 64 bits
        ({"a": 0, "b": 0}, [("", "0.1", b"x"), ("", "-0.0", b"y")]),
    ],
)
def test_columns_have_the_kinds_of_their_values(columns, rows):
    run = run_of(*rows, **columns)
    events = [event_of(frame) for frame in frames_of(run)]
    assert list(map(repr, batch_of_run(run).documents())) == list(map(repr, events))


@pytest.mark.parametrize(
    "run",
    [
        Sends(("destination", "body"), ("/a", "x"), (b"y",)),
        Sends(("destination", "content-type"), ("/a", "application/json"), (b"[1",)),
        Sends(("destination", "content-type"), ("/a", "image/png"), (b"",)),
        Sends(("destination", "x" * 1_030), ("/a", "1"), (b"",)),
        Sends(("destination",), ("/a",), (b"x" * (1 << 20) + b"y",)),
    ],
)
def test_what_is_no_event_is_left_to_be_told_frame_by_frame(run):
    assert batch_of_run(run) is None


@pytest.mark.parametrize("size", [EVENT_BYTES_MAX - 12, EVENT_BYTES_MAX - 11])
def test_a_run_takes_no_event_that_its_frame_alone_would_not_be(size):
    """The content type that an event gets by default counts towards its size as well."""
    run = Sends(("destination",), ("/a",), (b"x" * size,))
    try:
        alone = batch_of([event_of(frame) for frame in frames_of(run)])
    except EventError:
        alone = None
    assert (batch_of_run(run) is None) == (alone is None) == (size > EVENT_BYTES_MAX - 12)


def test_bodies_in_json_do_not_end_each_other():
    kind = "application/json\napplication/json\napplication/json"
    run = Sends(("destination", "content-type"), ("/a\n/a\n/a", kind), (b'{"a":[1', b"2]}", b"{},{}"))
    assert batch_of_run(run) is None
    with pytest.raises(EventError):
        event_of(next(frames_of(run)))


def test_of_a_run_those_before_a_refused_one_are_published(served):
    async def work(client, core):
        bob = await client().connect("token-of-bob")
        for i in range(40):
            origin = "EWR" if i == 33 else "JFK"
            bob.coming.put_nowait(sent([("destination", "/a"), ("origin", origin), ("receipt", str(i))], b""))
        frames = [bob.coming.get_nowait() for _ in range(40)]
        bob.coming.put_nowait(b"".join(frames[:LEARNT_AFTER]))
        bob.coming.put_nowait(b"".join(frames[LEARNT_AFTER:]))  # which is one run
        for i in range(33):
            assert (await bob.next("RECEIPT")).headers["receipt-id"] == str(i)
        assert (await bob.next("ERROR")).headers["receipt-id"] == "33"
        await bob.ended()
        assert core.upstream.last["bob"] == 33

    served(work)


@pytest.mark.parametrize("receipts", [True, False])
def test_what_is_said_of_frames_behind_a_run_is_said_behind_all_of_it(served, receipts):
    """The only effect of BEGIN is its receipt, which also covers the frames before (STOMP 1.2, "RECEIPT")."""

    async def work(client, core):
        one = await client().connect()
        publish, sizes = next(iter(core._sessions)).publish, []

        async def publish_one(batch, **options):
            sizes.append(len(batch))
            if len(batch) > 1:
                raise EventError("one by one, please")
            await publish(batch, **options)

        next(iter(core._sessions)).publish = publish_one
        plain = [
            sent([("destination", "/a"), ("receipt" if receipts else "r", str(i))], b"") for i in range(40)
        ]
        begin = b"BEGIN\ntransaction:t\nreceipt:begun\n\n\0"
        one.coming.put_nowait(b"".join(plain[:LEARNT_AFTER]))
        one.coming.put_nowait(b"".join([*plain[LEARNT_AFTER:], begin]))
        for i in range(40 * receipts):
            assert (await one.next("RECEIPT")).headers["receipt-id"] == str(i)
        assert (await one.next("RECEIPT")).headers["receipt-id"] == "begun"
        assert core.upstream.last["alice"] == 40
        assert 40 - LEARNT_AFTER in sizes

    served(work)


def test_a_frame_that_was_put_in_alone_is_equal(talk):
    frames = [Frame("SEND", {"destination": "/a", "n": str(i), "receipt": str(i)}, b"x") for i in range(3)]
    run = Sends(("destination", "n", "receipt"), ("/a\n/a\n/a", "0\n1\n2", "0\n1\n2"), (b"x",) * 3)
    publish, *receipts = talk.session.sends(run)
    each = [talk.session.frame(frame) for frame in frames]
    assert publish.events.documents() == [event for outs in each for event in outs[0].events]
    assert receipts == [outs[1] for outs in each]
