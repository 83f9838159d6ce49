"""Conversion of STOMP messages to events, and of events to messages."""

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.gateway.deliveries import json_of
from rayvous.gateway.stomp.content import event_of, message_of, selector_of
from rayvous.gateway.stomp.frames import Frame, encode
from rayvous.protocol.errors import EventError, SelectorError
from rayvous.protocol.values import NULL, Timestamp
from rayvous.routing.language.questions import evaluate, parse_selector


def sent(body=b"", content_type=None, destination="/events", **headers):
    kind = {} if content_type is None else {"content-type": content_type}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return event_of(Frame("SEND", {"destination": destination, **kind, **named}, body))


def matches(selector, event, destination="/events"):
    return evaluate(parse_selector(selector_of(destination, selector)), event)


# Incoming events.


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "application/json;charset=utf-8",
        "Application/JSON; charset=UTF-8",
        "application/json;charset=utf8",
        'application/json; charset = "utf-8"',
    ],
)
def test_a_body_in_json_is_the_event(kind):
    """STOMP 1.2, "Header content-type"."""
    event = sent(b'{"a": 1, "b": 1.0, "c": "1", "d": true, "e": null}', kind)
    assert event == {"a": 1, "b": 1.0, "c": "1", "d": True, "e": NULL}
    assert type(event["b"]) is float


def test_a_destination_is_an_attribute_but_for_all_events():
    assert sent(b"{}", "application/json", "/topic/a") == {"JMSDestination": "/topic/a"}
    assert sent(b"{}", "application/json") == {}


def test_text_is_a_body_and_headers_are_attributes():
    """As in JMS: properties beside a text body (JMS 1.1, 3.5)."""
    event = sent(b"hello", None, "/topic/a", origin="JFK", receipt="r", transaction="t", dep_delay="12")
    assert event == {
        "JMSDestination": "/topic/a",
        "content-type": "text/plain",
        "body": "hello",
        "origin": "JFK",
        "dep-delay": 12,
    }


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *(("12", 12), ("-3", -3), ("1.50", 1.5), ("true", True), ("false", False), ("0", 0)),
        *(
            ("007", "007"),
            ("1E5", "1E5"),
            ("TRUE", "TRUE"),
            ("", ""),
            ("٣", "٣"),
            ("nan", "nan"),
            ("1.", "1."),
        ),
        *(("9223372036854775807", 2**63 - 1), ("9223372036854775808", "9223372036854775808")),
    ],
)
def test_a_header_is_a_number_where_it_looks_like_one(written, value):
    found = sent(h=written)["h"]
    assert found == value
    assert type(found) is type(value)


def test_headers_that_jms_knows_have_the_names_of_jms(delivered):
    """JMS 1.1, 3.4: header fields in selectors begin with JMS."""
    event = sent(b"x", correlation_id="c", type="t", priority="4", reply_to="/temp/a")
    assert matches("JMSCorrelationID = 'c' AND JMSType = 't' AND JMSPriority = 4", event) is True
    assert message_of(delivered(1, event=event), {}).headers["correlation-id"] == "c"


def test_headers_beside_json_are_attributes_too_and_must_not_differ():
    assert sent(b'{"a": 1}', "application/json", b="2") == {"a": 1, "b": 2}
    assert sent(b'{"a": 1}', "application/json", a="1") == {"a": 1}
    for other in ("2", "1.0"):
        with pytest.raises(EventError, match="a is in the headers and in the body"):
            sent(b'{"a": 1}', "application/json", a=other)
    with pytest.raises(EventError, match="JMSDestination is in the headers"):
        sent(b'{"JMSDestination": "/b"}', "application/json", "/a")


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b"[1]", "application/json", "not a JSON object"),
        (b"{", "application/json", "not JSON: "),
        (b"\xff", "application/json", "not UTF-8 at byte 0"),
        (b"[" * 100_000, "application/json", "nested too deeply"),
        (b'{"a": NaN}', "application/json", "NaN is not a number in JSON"),
        (b'{"a": 1e400}', "application/json", "'1e400' is too large"),
        (b'{"a": {"b": ["\\ud800"]}}', "application/json", "half a surrogate pair"),
        (b'{"a": ' + b"9" * 5000 + b"}", "application/json", "not JSON: "),
        (b"\xff", "text/plain", "not UTF-8 text"),
        (b"x", "text/plain;charset=latin-1", "send text in UTF-8"),
        (b"{}", "application/problem+json", "send an object as application/json"),
        (b"x", "json", "send an object as application/json"),
    ],
)
def test_what_is_no_event_is_named(body, kind, says):
    with pytest.raises(EventError, match=says):
        sent(body, kind)


# Selectors.


def test_a_destination_is_a_condition():
    """STOMP 1.2, "SUBSCRIBE"; the destination of an event is an attribute like any other."""
    event = sent(b'{"x": 2}', "application/json", "/topic/it's")
    assert matches("x > 1", event, "/topic/it's") is True
    assert matches("", event, "/topic/it's") is True
    assert matches("x > 1", event) is True
    assert matches("", event) is True
    assert matches(" ", event) is True
    assert matches("x > 1", event, "/topic/b") is False
    assert matches("x > 2", event, "/topic/it's") is False


def test_a_selector_cannot_leave_its_parenthesis():
    with pytest.raises(SelectorError):
        selector_of("/topic/a", "TRUE) OR (TRUE")
    assert matches("TRUE OR TRUE", {"JMSDestination": "/topic/b"}, "/topic/a") is False


@pytest.mark.parametrize("selector", ["x = 1 OR y = 1", "NOT x = 1", "(x = 1)", "x <> 1", "x IN (1)"])
def test_a_selector_with_alternatives_is_put_in_parentheses(selector):
    assert selector_of("/topic/a", selector) == f"JMSDestination = '/topic/a' AND ({selector})"


WORDS = [
    "x",
    "1",
    "=",
    ">",
    "AND",
    "LIKE",
    "'a%'",
    "IS",
    "NULL",
    "MISSING",
    "ESCAPE",
    "+",
    "-",
    "/*",
    "UNKNOWN",
    "'",
]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=7))
@settings(max_examples=300, deadline=None)
def test_a_short_selector_is_refused_with_a_destination_as_it_is_alone(words):
    """It is put behind the destination without parentheses; so it must not mean anything only there."""
    selector = " ".join(words)
    try:
        alone = parse_selector(selector)
    except SelectorError as error:
        with pytest.raises(SelectorError) as refused:
            selector_of("/topic/a", selector)
        assert str(refused.value) == str(error)
        return
    together = parse_selector(selector_of("/topic/a", selector))
    for event in ({"x": 1}, {"x": 2}, {"x": "ab"}, {}):
        at, elsewhere = event | {"JMSDestination": "/topic/a"}, event | {"JMSDestination": "/topic/b"}
        assert evaluate(together, at) == evaluate(alone, at)
        assert evaluate(together, elsewhere) is False


# Outgoing events.


def test_an_event_goes_out_as_json_and_what_came_as_text_as_text(delivered):
    """STOMP 1.2, "MESSAGE": all headers of the SEND, and the unchanged body."""
    event = sent(b"hello", "text/html;charset=utf-8", "/topic/a", origin="JFK", b="true", n="1.5")
    frame = message_of(delivered(1, event=event), {"subscription": "0"})
    assert frame.body == b"hello"
    assert frame.headers == {
        "subscription": "0",
        "destination": "/topic/a",
        "content-type": "text/html;charset=utf-8",
        "origin": "JFK",
        "b": "true",
        "n": "1.5",
    }
    frame = message_of(delivered(1, event={"x": 1, "at": Timestamp(0)}), {})
    assert frame.headers == {"destination": "/events", "content-type": "application/json"}
    assert json.loads(frame.body) == {"x": 1, "at": "1970-01-01T00:00:00Z"}


@pytest.mark.parametrize("body", [b"\x00\xff\x89PNG", bytes(range(256)), b"plain", b""])
@pytest.mark.parametrize("kind", ["application/octet-stream", "Image/PNG; q=1", None])
def test_bytes_come_back_as_they_were_sent_with_their_type(delivered, body, kind):
    """STOMP 1.2, "Header content-type": a body without a type may be bytes."""
    event = sent(body, kind, "/topic/a", n="7")
    if kind is None and body in (b"plain", b""):
        assert event["content-type"] == "text/plain"
        return
    assert base64.b64decode(event["body_base64"]) == body and event["n"] == 7
    frame = message_of(delivered(1, event=event), {})
    assert frame.body == body
    assert frame.headers == {
        "destination": "/topic/a",
        "content-type": kind or "application/octet-stream",
        "n": "7",
    }


@pytest.mark.parametrize(
    "event",
    [
        {"content-type": "image/png"},
        {"content-type": "image/png", "body_base64": "no base64!"},
        {"content-type": "image/png", "body_base64": "é"},
        {"content-type": "image/png", "body_base64": "AA==", "body": "beside"},
        {"content-type": "application/json", "body_base64": "AA=="},
        {"content-type": "text/plain", "body_base64": "AA==", "body": "beside"},
        {"content-type": 7, "body_base64": "AA=="},
        {"content-type": "", "body_base64": "AA=="},
        {"body_base64": "AA=="},
    ],
)
def test_what_is_not_bytes_with_a_type_goes_out_as_json(delivered, event):
    frame = message_of(delivered(1, event=event), {})
    assert frame.headers["content-type"] == "application/json" and json.loads(frame.body) == event


def test_an_event_cannot_pass_for_the_gateway(delivered):
    """Attributes of an event do not override the headers that the gateway sets."""
    event = {
        "content-type": "text/plain",
        "subscription": "9",
        "ack": "9",
        "message-id": "9",
        "content-length": 9,
    }
    frame = message_of(delivered(1, event=event), {"subscription": "0", "message-id": "a:1"})
    assert frame.headers == {
        "subscription": "0",
        "message-id": "a:1",
        "destination": "/events",
        "content-type": "text/plain",
    }


values = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=9)
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1, max_size=5), values, max_size=4))
def test_json_comes_back_as_it_went(event):
    again = event_of(
        Frame(
            "SEND", {"destination": "/events", "content-type": "application/json"}, json_of(event)[0].encode()
        )
    )
    assert again == event
    assert [type(value) for value in again.values()] == [type(value) for value in event.values()]


@pytest.mark.parametrize("bad", ["a\0MESSAGE\n", "\ud800"])
@pytest.mark.parametrize("where", ["body", "h", "JMSDestination"])
def test_what_has_a_nul_or_is_no_text_goes_out_as_json_which_escapes_it(delivered, where, bad):
    """Otherwise an event could end its frame and begin another, for clients that stop at the first NUL."""
    frame = message_of(delivered(1, event={"content-type": "text/plain", where: bad}), {})
    assert where == "JMSDestination" or frame.headers["content-type"] == "application/json"
    assert frame.headers["destination"] == "/events"
    assert encode(frame).count(b"\0") == 1
