"""MESSAGEs made from the columns of a batch equal those made from each event."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.actors.clients.columns import batch_from
from rayvous.gateway.deliveries import Reading, json_of, texts_of
from rayvous.gateway.positions import identity
from rayvous.gateway.stomp import messages
from rayvous.gateway.stomp.content import message_of
from rayvous.gateway.stomp.frames import SERVER_COMMANDS, Decoder, FrameLimits, encode
from rayvous.gateway.stomp.messages import head_of, header_line, parts_1_1, parts_1_2
from rayvous.protocol.batch import batch_of
from rayvous.protocol.values import NULL, Kind, Timestamp

LIMITS = FrameLimits(1 << 20, 1000, 1 << 24)
ODD = (
    "",
    "a\0b",
    "a\rb",
    "a:b\\c\n",
    "é",
    "\ud800",
    7,
    2.5,
    -math.inf,
    True,
    NULL,
    Timestamp(1),
    {"x": 1},
    ["y"],
)
PLAIN = {"content-type": "text/plain", "JMSDestination": "/a", "body": "hi", "price": 1.5, "symbol": "S"}
BYTES = {"content-type": "Image/PNG; q=1", "body_base64": "/4k=", "price": 1.5}


def decoded(data):
    (frame,) = Decoder(LIMITS, SERVER_COMMANDS).feed(data)
    return frame


@st.composite
def batches(draw):
    """Draw a batch of equal events, except for some attributes of some of them."""
    kinds = st.sampled_from(
        [PLAIN, PLAIN, BYTES, {"price": 1.5}, {"JMSDestination": "/a", "content-type": "x"}]
    )
    kind = draw(kinds)
    events = [dict(kind) for _ in range(draw(st.integers(1, 4)))]
    names = st.sampled_from([*PLAIN, "type", "JMSType", "message-id", "a:b", "gaps"])
    for _ in range(draw(st.integers(0, 3))):
        event = draw(st.sampled_from(events))
        if draw(st.booleans()):
            event[draw(names)] = draw(st.sampled_from(ODD))
        else:
            event.pop(draw(names), None)
    return batch_of(events, publisher=draw(st.sampled_from(["all@1", "é:\\\n"])), first_sequence=5)


def same(batch, old=False):
    reading = Reading(batch)
    for one in reading.deliveries():
        part = one.written(parts_1_1 if old else parts_1_2)
        known = {"subscription": "a:0", "message-id": identity(one.publisher, one.sequence), "ack": "1"}
        frame = message_of(one, known, "\0\r" if old else "\0")
        assert decoded(head_of("a:0") + header_line("ack", "1") + part) == decoded(encode(frame))
        assert part.count(b"\0") == 1


@settings(max_examples=100)
@given(batches(), st.booleans())
def test_what_is_made_of_columns_is_what_is_made_of_events(batch, old):
    same(batch, old)


@pytest.mark.parametrize(
    "of", [PLAIN, {"price": 1.5}, BYTES, PLAIN | {"content-type": "Text/HTML; charset=utf8"}]
)
@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_whatever_is_odd_in_one_event_of_a_batch(of, odd):
    for name in (*PLAIN, *BYTES, "type", "a:b", "gaps"):
        same(batch_of([of, of | {name: odd}]))
        same(batch_of([of, of | {name: odd}]), old=True)
        same(batch_of([of | {name: odd}]))
        same(batch_of([of | {name: odd}]), old=True)


def test_a_plain_event_that_is_alone_is_written_without_columns(monkeypatch):
    lone = batch_of([PLAIN | {"count": 7, "open": True, "type": "a:b"}])
    same(lone)
    monkeypatch.setattr(messages, "_of_columns", None)
    same(lone)


def test_one_that_is_left_of_others_lacks_what_it_lacked():
    for other in ({"count": 1}, {"body": "x", "price": "high"}):
        others = batch_of([PLAIN, PLAIN | other])
        for row in range(2):
            same(others.take(np.array([row])))


def test_two_attributes_that_are_one_header():
    same(batch_of([PLAIN | {"JMSType": "b", "type": "a"}]))
    same(batch_of([PLAIN | {"type": "a"}, PLAIN | {"JMSType": "b"}, PLAIN | {"JMSType": "b", "type": "a"}]))


@settings(max_examples=80)
@given(batches())
def test_json_of_columns_is_the_json_of_events(batch):
    assert texts_of(batch) == [json_of(event)[0] for event in batch.documents()]


@pytest.mark.parametrize("more", [{}, {"content-type": ["text/plain"] * 3, "body": [None, "b", "c"]}])
def test_what_is_absent_in_a_table_is_absent_whatever_stands_there(more):
    """A table has NaN where a number is missing, and JSON has no NaN."""
    moments = np.array(["2026-01-01", "NaT", "2026-01-02"], "datetime64[ns]")
    columns = {
        "price": [1.5, math.nan, math.inf],
        "count": [None, 7, 8],
        "open": [True, False, None],
        "symbol": ["S", None, "T"],
        "at": moments,
    }
    batch = batch_from(columns | more)
    assert math.isnan(batch.columns["price", Kind.FLOAT].data[1])
    assert texts_of(batch) == [json_of(event)[0] for event in batch.documents()]
    same(batch)


@pytest.mark.parametrize("event", [PLAIN, {"price": 1.5}])
def test_most_events_are_written_from_columns(event, monkeypatch):
    """The fallback would give the same result, but slowly."""
    batch = batch_of([event] * 3)
    monkeypatch.setattr("rayvous.protocol.batch.EventBatch.events", None)
    assert len({part.partition(b"\n")[2] for part in parts_1_2(Reading(batch))}) == 1
