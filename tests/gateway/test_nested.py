"""Events with objects and arrays at a gateway: who may publish them, and how they are told.

Reference: docs/decisions/0079-nested-events.md.
"""

import json

import pytest
from rayvous.gateway.access import Rights
from rayvous.gateway.deliveries import Texts
from rayvous.gateway.stomp.content import event_of
from rayvous.gateway.stomp.frames import Frame
from rayvous.protocol.batch import batch_of
from rayvous.protocol.documents import of_json
from rayvous.protocol.errors import AccessDenied, EventError
from rayvous.protocol.gateways import Principal
from rayvous.protocol.values import NULL, Timestamp
from rayvous.routing.filters.filter import to_filter

EVENT = {"a": {"b": 1}, "t": [{"at": Timestamp(10**9)}, None, "x"], "n": NULL}


def test_a_right_to_publish_has_to_match_every_way_of_an_event():
    rights = Rights("alice", to_filter("tenant = 'a'"), to_filter("TRUE"), Principal())
    rights.check_publish(batch_of([{"tenant": ["a"]}, {"tenant": "a"}, {"tenant": ["a", "a"], "x": [1, 2]}]))
    with pytest.raises(AccessDenied, match="event 1: the right to publish of 'alice' does not match it"):
        rights.check_publish(batch_of([{"tenant": "a"}, {"tenant": ["a", "b"]}]))


def test_an_event_is_told_as_it_was_published():
    told = json.loads(Texts().read(batch_of([{"x": 1}, EVENT]))[1].text)
    assert told == {"a": {"b": 1}, "t": [{"at": "1970-01-01T00:00:01Z"}, None, "x"], "n": None}


def test_what_is_nested_too_deep_is_refused_by_batches_and_not_by_the_stack():
    deep = json.loads("[" * 900 + "]" * 900)
    with pytest.raises(EventError, match="nested more than 32 deep"):
        batch_of([of_json({"a": deep})])


def test_a_stomp_message_may_be_nested():
    frame = Frame(
        "SEND", {"destination": "/events", "content-type": "application/json"}, b'{"a": {"b": [1, null]}}'
    )
    assert batch_of([event_of(frame)]).documents() == [{"a": {"b": [1, NULL]}}]
    frame = Frame("SEND", {"destination": "/events", "content-type": "application/json"}, b'{"a": {"": 1}}')
    with pytest.raises(EventError, match="attribute name ''"):
        batch_of([event_of(frame)])
