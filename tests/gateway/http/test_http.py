"""HTTP without sockets: all forms of publishing, streams, WebSocket, refusals."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import json
from urllib.parse import parse_qsl

import pytest
from cloudevents.core.bindings.http import (
    HTTPMessage,
    from_structured_event,
    to_binary_event,
    to_structured_event,
)
from cloudevents.core.v1.event import CloudEvent
from rayvous.gateway.terms import Terms
from rayvous.protocol.gateways import AccessConfig, GatewayLimits, Principal, digest_of

JSON = {"content-type": "application/json"}


FLIGHT = CloudEvent(
    {
        "specversion": "1.0",
        "id": "7",
        "source": "/jfk",
        "type": "delay",
        "time": datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.UTC),
        "subject": "Zürich",
    },
    {"dep_delay": 75.5, "origin": "JFK"},
)
AS_EVENT = {
    "dep_delay": 75.5, "origin": "JFK", "ce_id": "7", "ce_source": "/jfk", "ce_type": "delay", "ce_specversion": "1.0",
    "ce_subject": "Zürich", "ce_time": "2013-01-01T05:00:00Z",
}  # fmt: skip
BINARY = to_binary_event(FLIGHT)
STRUCTURED = json.loads(to_structured_event(FLIGHT).body)
CLOUD = {"content-type": "application/cloudevents+json"}


def told(**members):
    """Return a structured CloudEvent with these members."""
    return json.dumps({"specversion": "1.0", "id": "7", "source": "/jfk", "type": "delay"} | members).encode()


@pytest.mark.parametrize(
    ("headers", "body", "brings"),
    [
        (JSON, b'{"n": 1, "gone": null}', [{"n": 1, "gone": None}]),
        (JSON, b'{"n": {"a": [1, null], "b": null}}', [{"n": {"a": [1, None], "b": None}}]),
        (JSON, b'[{"n": 1}, {"n": true}, {"s": "\\u00e9"}]', [{"n": 1}, {"n": True}, {"s": "é"}]),
        ({"content-type": "application/x-ndjson"}, b'{"n": 1}\n\n{"n": 2}', [{"n": 1}, {"n": 2}]),
        ({"content-type": "application/json; charset=UTF-8"}, b'{"n": 1e308}', [{"n": 1e308}]),
        (to_structured_event(FLIGHT).headers, to_structured_event(FLIGHT).body, [AS_EVENT]),
        (BINARY.headers | JSON, BINARY.body, [AS_EVENT | {"ce_datacontenttype": "application/json"}]),
        ({"content-type": "application/cloudevents-batch+json"}, json.dumps([STRUCTURED] * 2).encode(), [AS_EVENT] * 2),
    ],
)  # fmt: skip
def test_every_form_of_publishing(web, run, tokens, headers, body, brings):
    async def story():
        http = web()
        async with http.open(
            "GET", "/subscribe", token=tokens["alice"], query={"selector": "TRUE"}
        ) as answer:
            await answer.messages(1)
            done = await http.ask("POST", "/events", body, token=tokens["alice"], headers=headers)
            assert done.status == 202, done.body
            return done.json(), (await answer.messages(1 + len(brings)))[1:]

    accepted, messages = run(story())
    assert accepted == {"publisher": "alice", "first": 1, "last": len(brings)}
    assert [json.loads(message["data"])["event"] for message in messages] == brings
    assert [message["id"] for message in messages] == [f"alice:{n}" for n in range(1, len(brings) + 1)]


@pytest.mark.parametrize(
    ("headers", "body", "count"),
    [
        (JSON, b'{"n": 1}', 1),
        ({"content-type": "application/x-ndjson"}, b'{"n": 1}\n{"n": 2}', 2),
        (CLOUD, told(data={"n": 1}), 1),
        ({"content-type": "application/cloudevents-batch+json"}, json.dumps([STRUCTURED]).encode(), 1),
        (BINARY.headers, BINARY.body, 1),
    ],
)
def test_every_body_may_be_in_gzip(web, run, tokens, headers, body, count):
    async def story():
        http = web()
        async with http.open(
            "GET", "/subscribe", token=tokens["alice"], query={"selector": "TRUE"}
        ) as answer:
            await answer.messages(1)
            for encoding, data in (("identity", body), ("gzip", gzip.compress(body))):
                given = headers | {"content-encoding": encoding}
                done = await http.ask("POST", "/events", data, token=tokens["alice"], headers=given)
                assert done.status == 202, done.body
            messages = (await answer.messages(1 + 2 * count))[1:]
            return [json.loads(each["data"])["event"] for each in messages]

    events = run(story())
    assert events[:count] == events[count:]


@pytest.mark.parametrize(
    ("encoding", "body", "status", "says"),
    [
        ("gzip", gzip.compress(b" " * 100_000), 413, "body_bytes_max"),
        ("gzip", b"{}", 400, "not gzip"),
        ("br", b"{}", 415, "content-encoding is 'br'"),
    ],
)
@pytest.mark.parametrize("path", ["/events", "/acknowledge"])
def test_a_bomb_is_refused_and_so_are_other_encodings(web, run, tokens, encoding, body, status, says, path):
    async def story():
        http = web(GatewayLimits(body_bytes_max=2_000))
        headers = JSON | {"content-encoding": encoding}
        answer = await http.ask("POST", path, body, token=tokens["alice"], headers=headers)
        with http.gateway.working(http.gateway.limits.bodies_bytes_max):  # nothing else is held any more
            pass
        return answer

    answer = run(story())
    assert answer.status == status and says in answer.json()["detail"]
    assert answer.headers.get("accept-encoding") == ("gzip, identity" if status == 415 else None)


@pytest.mark.parametrize("path", ["/events/", "/subscribe/", "//events", "/ui"])
def test_nothing_is_redirected(web, run, path):
    """A redirect would lead to http, out of TLS, and to whatever host the request names."""
    answer = run(web().ask("POST", path, headers={"host": "evil.example"}))
    assert answer.status == 404 and "location" not in answer.headers


@pytest.mark.parametrize("path", ["/events", "/healthz", "/metrics", "/nowhere"])
def test_a_request_for_another_host_is_misdirected(web, run, path):
    """DNS rebinding: the browser takes the page of that host for one of the gateway's."""

    async def story():
        http = web(hosts=["gateway"])
        right = await http.ask("GET", "/healthz")
        return right, await http.ask("GET", path, headers={"host": "evil.example:8080"})

    right, wrong = run(story())
    assert (right.status, wrong.status) == (200, 421)
    assert "'evil.example' is not a name of this gateway" in wrong.json()["detail"]


def test_a_socket_for_another_host_is_refused(web, run, tokens):
    async def story():
        async with web(hosts=["gateway"]).socket(
            tokens["alice"], headers={"host": "evil.example", "origin": "http://evil.example"}
        ) as wire:
            return await wire.told(), await wire.told()

    said, end = run(story())
    assert "--allow-host" in said["error"]["detail"]
    assert (end["type"], end["code"]) == ("websocket.close", 1008)


def test_a_cloud_event_comes_out_as_it_went_in(web, run, tokens):
    async def story():
        http = web()
        query = {"selector": "ce_type = 'delay'", "format": "cloudevents"}
        async with http.open("GET", "/subscribe", token=tokens["alice"], query=query) as answer:
            await answer.messages(1)
            message = to_structured_event(FLIGHT)
            await http.ask("POST", "/events", message.body, token=tokens["alice"], headers=message.headers)
            await http.publish(tokens["alice"], {"ce_type": "delay", "n": 1})
            return [message["data"] for message in (await answer.messages(3))[1:]]

    same, made = run(story())
    back = from_structured_event(HTTPMessage({"content-type": "application/cloudevents+json"}, same.encode()))
    assert (back.get_attributes(), back.get_data()) == (FLIGHT.get_attributes(), FLIGHT.get_data())
    other = from_structured_event(
        HTTPMessage({"content-type": "application/cloudevents+json"}, made.encode())
    )
    assert (other.get_id(), other.get_source(), other.get_data()) == (
        "2", "/rayvous/local/alice", {"ce_type": "delay", "n": 1},
    )  # fmt: skip


DATA = [
    {"n": 1}, {"data": 1}, {"data": {"n": [1]}}, {"data_base64": "AA=="}, {"n": {}}, {}, [], [1, "a", None],
    [{"n": 1}, {"n": 2}], [[1], [2, 3]], 5, 1.0, -2.5, True, "text", "", "Infinity",
]  # fmt: skip


@pytest.mark.parametrize("kind", [None, "application/json", "text/plain", "application/vnd.x+json"])
def test_whatever_data_a_cloud_event_has_comes_back(web, run, tokens, kind):
    """CloudEvents, JSON event format, 3.1: data is any JSON value, whatever its type is called."""
    typed = {} if kind is None else {"datacontenttype": kind}
    sent = [json.loads(told(id=str(n), data=data, **typed)) for n, data in enumerate(DATA)]
    sent += [
        json.loads(told(id="bytes", data_base64="/wA=", **typed | {"datacontenttype": "image/png"})),
        json.loads(told(id="none", **typed)),
    ]

    async def story():
        http = web()
        query = {"selector": "TRUE", "format": "cloudevents"}
        async with http.open("GET", "/subscribe", token=tokens["alice"], query=query) as answer:
            await answer.messages(1)
            headers = {"content-type": "application/cloudevents-batch+json"}
            done = await http.ask(
                "POST", "/events", json.dumps(sent).encode(), token=tokens["alice"], headers=headers
            )
            assert done.status == 202, done.body
            return [json.loads(each["data"]) for each in (await answer.messages(1 + len(sent)))[1:]]

    back = run(story())
    assert back == sent
    assert json.dumps([each.get("data") for each in back]) == json.dumps([each.get("data") for each in sent])


@pytest.mark.parametrize(
    ("kind", "body", "member"),
    [
        ("application/json", b"[1, 2]", {"data": [1, 2]}),
        ("application/json", b"null", {"data": None}),
        ("application/json", b'"x"', {"data": "x"}),
        ("text/csv", b"a,b", {"data": "a,b"}),
        ("image/png", b"\xff\x00", {"data_base64": "/wA="}),
        ("image/png", b"", {}),
    ],
)
def test_data_in_binary_mode_comes_back(web, run, tokens, kind, body, member):
    async def story():
        http = web()
        query = {"selector": "ce_id = '7'", "format": "cloudevents"}
        async with http.open("GET", "/subscribe", token=tokens["alice"], query=query) as answer:
            await answer.messages(1)
            headers = BINARY.headers | {"content-type": kind}
            done = await http.ask("POST", "/events", body, token=tokens["alice"], headers=headers)
            assert done.status == 202, done.body
            return json.loads((await answer.messages(2))[1]["data"])

    back = run(story())
    assert {
        name: value for name, value in back.items() if name.startswith("data") and name != "datacontenttype"
    } == member
    assert back["datacontenttype"] == kind


@pytest.mark.parametrize(
    ("time", "back"),
    [
        ("2013-01-01t05:00:00z", "2013-01-01T05:00:00Z"),
        ("2013-01-01T07:00:00.5+02:00", "2013-01-01T05:00:00.5Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("2016-12-31T23:59:60.25z", "2017-01-01T00:00:00.25Z"),
        ("1990-12-31T15:59:60-08:00", "1991-01-01T00:00:00Z"),
    ],
)
def test_every_time_of_rfc_3339_is_a_time(web, run, tokens, time, back):
    """RFC 3339, 5.6 and 5.7: letters in either case, and leap seconds."""

    async def story():
        http = web()
        query = {"selector": "ce_time > TIMESTAMP '1980-01-01T00:00:00Z'", "format": "cloudevents"}
        async with http.open("GET", "/subscribe", token=tokens["alice"], query=query) as answer:
            await answer.messages(1)
            done = await http.ask("POST", "/events", told(time=time), token=tokens["alice"], headers=CLOUD)
            assert done.status == 202, done.body
            return json.loads((await answer.messages(2))[1]["data"])["time"]

    assert run(story()) == back


@pytest.mark.parametrize(
    ("event", "same"),
    [
        ({"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t", "ce_data": [1]}, True),
        (
            {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t", "ce_data": 1, "n": 1},
            False,
        ),
        (
            {
                "ce_specversion": "1.0",
                "ce_id": "1",
                "ce_source": "/s",
                "ce_type": "t",
                "ce_data": 1,
                "ce_data_base64": "AA==",
            },
            False,
        ),
        (
            {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t", "ce_data_base64": 1},
            False,
        ),
        ({"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t", "ce_n": 5}, True),
        ({"ce_id": "1", "ce_source": "/s", "ce_type": "t"}, False),
        ({"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": 5}, False),
        ({"ce_specversion": "1.0", "ce_id": "", "ce_source": "/s", "ce_type": "t"}, False),
        ({"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t", "ce_n": 0.5}, False),
        ({"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t", "ce_n": {"a": 1}}, False),
    ],
)
def test_what_comes_out_as_a_cloud_event_is_one(web, run, tokens, event, same):
    async def story():
        http = web()
        query = {"selector": "TRUE", "format": "cloudevents"}
        async with http.open("GET", "/subscribe", token=tokens["alice"], query=query) as answer:
            await answer.messages(1)
            await http.publish(tokens["alice"], event)
            return json.loads((await answer.messages(2))[1]["data"])

    out = run(story())
    if same:
        assert out == {name.removeprefix("ce_"): value for name, value in event.items()}
    else:
        assert (out["type"], out["data"]) == ("rayvous.event", event)
        from_structured_event(HTTPMessage(CLOUD, json.dumps(out).encode()))


def test_headers_of_a_cloud_event_lose_their_quotes_and_escapes(web, run, tokens):
    async def story():
        http = web()
        async with http.open(
            "GET", "/subscribe", token=tokens["alice"], query={"selector": "TRUE"}
        ) as answer:
            await answer.messages(1)
            headers = BINARY.headers | {"ce-subject": '"a \\"b\\" %E2%82%AC"'}
            await http.ask("POST", "/events", b"", token=tokens["alice"], headers=headers)
            return json.loads((await answer.messages(2))[1]["data"])["event"]["ce_subject"]

    assert run(story()) == 'a "b" €'


def test_a_batch_of_cloud_events_may_be_empty(web, run, tokens):
    async def story():
        headers = {"content-type": "application/cloudevents-batch+json"}
        return await web().ask("POST", "/events", b"[]", token=tokens["alice"], headers=headers)

    done = run(story())
    assert (done.status, done.body) == (204, b"")


def test_when_asked_the_answer_waits_until_all_is_delivered(web, run, tokens):
    async def story():
        http = web()
        args = ("POST", "/events", b'{"n": 1}')
        done = await http.ask(*args, token=tokens["alice"], headers=JSON, query={"flush": "true"})
        return done.status, http.gateway.upstream.flushes

    assert run(story()) == (200, 1)


def test_moments_are_named_in_the_query(web, run, tokens):
    async def story():
        http = web()
        selector = {"selector": "at > TIMESTAMP '2013-01-01T00:00:00Z'"}
        async with http.open("GET", "/subscribe", token=tokens["alice"], query=selector) as answer:
            await answer.messages(1)
            body = b'{"at": "2013-01-01T05:00:00.123456789+01:00"}'
            args = {"token": tokens["alice"], "headers": JSON, "query": {"timestamp": ["at", "at"]}}
            await http.ask("POST", "/events", body, **args)
            return json.loads((await answer.messages(2))[1]["data"])["event"]

    assert run(story()) == {"at": "2013-01-01T04:00:00.123456789Z"}


BAD = [
    ("POST", "/events", JSON, b"{", 400, "is not JSON"),
    ("POST", "/events", JSON, b"\xff{}", 400, "not UTF-8 at byte 0"),
    ("POST", "/events", JSON, b'{"n": NaN}', 400, "NaN is not a number"),
    ("POST", "/events", JSON, b'{"s": "\\ud800"}', 400, "half a surrogate pair"),
    ("POST", "/events", JSON, b'{"n": [-1e400]}', 400, "'-1e400' is too large: numbers have 64 bits"),
    ("POST", "/events", JSON, b"[" * 100_000, 400, "nested too deeply"),
    ("POST", "/events", JSON, b'{"a": {"b": 1}, "a.b": 2}', 400, "'a.b' occurs twice"),
    ("POST", "/events", JSON, b'{"n": %s}' % (b"9" * 4_250), 400, "14,000 bits"),
    ("POST", "/events", JSON, b"[1]", 400, "event 0: is not a JSON object"),
    ("POST", "/events", JSON, b"[]", 400, "there is no event"),
    ("POST", "/events", JSON, b'[{}, {"a": {"b": 1}, "a.b": 2}]', 400, "event 1"),
    ("POST", "/events", JSON, b'"' + b"x" * 2000 + b'"', 413, "body_bytes_max"),
    ("POST", "/events", JSON, json.dumps([{}] * 21).encode(), 413, "batch_events_max"),
    ("POST", "/events", {"content-type": "text/plain"}, b"x", 415, "application/json, "),
    ("POST", "/events", {"content-type": "application/json; charset=latin-1"}, b"{}", 415, "UTF-8"),
    (
        "POST",
        "/events",
        {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t"},
        b"",
        400,
        "source is missing",
    ),
    (
        "POST",
        "/events",
        {"ce-specversion": "0.9", "ce-id": "1", "ce-type": "t", "ce-source": "s"},
        b"",
        400,
        "1.0",
    ),
    (
        "POST",
        "/events",
        {"content-type": "application/cloudevents+json"},
        b"[]",
        400,
        "as a CloudEvent must be",
    ),
    ("POST", "/events", BINARY.headers | {"ce-subject": "%FF"}, b"", 400, "ce-subject is not UTF-8"),
    ("POST", "/events", CLOUD, told(data={"ce_type": "another"}), 400, "the data has 'ce_type'"),
    ("POST", "/events", CLOUD, told(more=2**31), 400, "more is not a text"),
    ("POST", "/events", CLOUD, told(more=1.5), 400, "more is not a text"),
    ("POST", "/events", CLOUD, told(time="2013-01-01T05:00:00"), 400, "time has no offset"),
    ("POST", "/events", CLOUD, told(time="2013-13-01T05:00:00Z"), 400, "is not a time in ISO 8601"),
    ("POST", "/events", {"content-type": "application/cloudevents-batch+json"}, b"{}", 400, "a batch"),
    ("POST", "/acknowledge", JSON, b'{"durable": 1}', 400, "durable and id"),
    ("GET", "/subscribe?selector=a+%3D", {}, b"", 400, "line 1"),
    ("GET", "/subscribe", {}, b"", 400, "a selector is missing"),
    ("GET", "/subscribe?selector=TRUE&narrow=perhaps", {}, b"", 400, "true or false"),
    ("GET", "/subscribe?selector=TRUE&priority=high", {}, b"", 400, "priority is 'high'"),
    ("GET", "/subscribe?selector=TRUE&max_delay=soon", {}, b"", 400, "max_delay is 'soon'"),
    ("GET", "/subscribe?selector=TRUE&priority=1", {}, b"", 403, "no priority above 0"),
    ("GET", "/subscribe?selector=TRUE&format=xml", {}, b"", 400, "json, cloudevents"),
    ("DELETE", "/durables/none", {}, b"", 400, "no such name"),
]


@pytest.mark.parametrize(("method", "path", "headers", "body", "status", "words"), BAD)
def test_what_cannot_be_is_a_problem_with_words(web, run, tokens, method, path, headers, body, status, words):
    async def story():
        http = web(GatewayLimits(body_bytes_max=1000 if status == 413 else 200_000, batch_events_max=20))
        bare, _, query = path.partition("?")
        return await http.ask(
            method, bare, body, token=tokens["alice"], headers=headers, query=parse_qsl(query)
        )

    answer = run(story())
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert words in answer.json()["detail"]
    assert answer.json()["status"] == status


RIGHTS = [
    (None, "POST", 403, "publish"),
    ("wrong", "POST", 401, "token"),
    ("bob", "POST", 403, "publish"),
    ("alice", "POST", 202, None),
    (None, "GET", 403, "subscribe"),
    ("wrong", "GET", 401, "token"),
    ("bob", "GET", 403, "subscribe"),
    ("alice", "GET", 200, None),
]


@pytest.mark.parametrize(("who", "method", "status", "right"), RIGHTS)
def test_rights(web, run, tokens, who, method, status, right):
    async def story():
        http = web()
        token = tokens.get(who, who)
        if method == "POST":
            return await http.publish(token, {"n": 1})
        async with http.open("GET", "/subscribe", token=token, query={"selector": "n = 1"}) as answer:
            await answer.messages(1)
        return answer

    answer = run(story())
    assert answer.status == status
    if right is not None:
        assert answer.json()["right"] == right
    assert (answer.headers.get("www-authenticate") == "Bearer") == (status == 401)


def test_a_token_in_the_query_is_one(web, run, tokens):
    async def story():
        query = {"selector": "n = 1", "access_token": tokens["alice"]}
        async with web().open("GET", "/subscribe", query=query) as answer:
            return (await answer.messages(1))[0]["data"]

    assert json.loads(run(story())) == {"selector": "n = 1", "durable": None}


def test_who_publishes_too_fast_is_told_when_to_come_again(web, run, tokens):
    async def story():
        http = web(GatewayLimits(rate_wait_seconds=0.001))
        http.gateway.clock = lambda: 9.0  # no time passes
        first = await http.publish(tokens["alice"], *[{}] * 1000)
        return first, await http.publish(tokens["alice"], *[{}] * 900)

    first, second = run(story())
    assert (first.status, second.status) == (202, 429)
    assert (second.headers["retry-after"], second.json()["limit"]) == ("1", "events_per_second")


def test_a_body_that_does_not_come_is_not_waited_for(web, run, tokens):
    async def story():
        http = web(GatewayLimits(request_seconds=0.01))
        answer = await http.ask("POST", "/events", [b"{", None], token=tokens["alice"], headers=JSON)
        return answer, http.gateway.sessions

    answer, sessions = run(story())
    assert (answer.status, answer.json()["limit"], sessions) == (408, "request_seconds", 0)


# Streams.


@pytest.mark.parametrize(
    ("selector", "more"),
    [("a > 1", {}), ("a > 5 AND a < 3", {"doubts": ["no event can match it: its conditions on a exclude each other"]})],
)  # fmt: skip
def test_what_is_doubtful_about_a_selector_is_in_the_answer(web, run, tokens, selector, more):
    async def story():
        http = web()
        async with http.open(
            "GET", "/subscribe", query={"selector": selector}, token=tokens["alice"]
        ) as answer:
            (first,) = await answer.messages(1)
        async with http.socket(tokens["alice"]) as wire:
            await wire.ask(type="subscribe", selector=selector)
            return first, await wire.told()

    first, told = run(story())
    assert first["event"] == "subscribed"
    data = json.loads(first["data"])
    assert data == {"selector": data["selector"], "durable": None} | more
    assert told == {"type": "subscribed", "stream": "1", "selector": data["selector"], "durable": None} | more


def test_a_durable_stream_that_is_cut_goes_on_behind_the_last_id(web, run, tokens):
    async def story():
        http = web()
        alice = {"token": tokens["alice"]}
        query = {"selector": "TRUE", "durable": "mail"}
        async with http.open("GET", "/subscribe", query=query, **alice) as answer:
            await answer.messages(1)
            await http.publish(tokens["alice"], *({"n": n} for n in range(5)))
            first = (await answer.messages(6))[1:4]  # it has received three of five when it is cut off
        await http.publish(tokens["alice"], {"n": 5})
        headers = {"last-event-id": first[-1]["id"]}
        async with http.open(
            "GET", "/subscribe", query={"durable": "mail"}, headers=headers, **alice
        ) as answer:
            return first, (await answer.messages(4))[1:]

    first, then = run(story())
    assert [json.loads(each["data"])["event"]["n"] for each in [*first, *then]] == [0, 1, 2, 3, 4, 5]


def test_a_durable_stream_with_too_much_unacknowledged_ends_so_that_its_client_comes_back(web, run, tokens):
    async def story():
        http = web(GatewayLimits(unacknowledged_max=3))
        had, last = [], None
        args = {"token": tokens["alice"], "query": {"selector": "TRUE", "durable": "mail"}}
        for _ in range(3):
            headers = {} if last is None else {"last-event-id": last}
            async with http.open("GET", "/subscribe", headers=headers, **args) as answer:
                if last is None:
                    await answer.messages(1)
                    await http.publish(tokens["alice"], *({"n": n} for n in range(9)))
                messages = await answer.messages(5)
                assert answer.ended
                assert messages[-1]["event"] == "held"
                had += [json.loads(each["data"])["event"]["n"] for each in messages[1:-1]]
                last = messages[-2]["id"]
        return had, http.gateway.upstream.kept["alice/mail"].position

    had, position = run(story())
    assert had == list(range(9))
    assert position == {"alice": 6}


def test_a_durable_name_is_acknowledged_and_ended_by_requests(web, run, tokens):
    async def story():
        http = web()
        alice = {"token": tokens["alice"]}
        async with http.open(
            "GET", "/subscribe", query={"selector": "TRUE", "durable": "a/b"}, **alice
        ) as answer:
            await answer.messages(1)
            await http.publish(tokens["alice"], {"n": 1})
            last = (await answer.messages(2))[1]["id"]
            body = json.dumps({"durable": "a/b", "id": last}).encode()
            done = await http.ask("POST", "/acknowledge", body, headers=JSON, **alice)
            position = dict(http.gateway.upstream.kept["alice/a/b"].position)
            ended = await http.ask("DELETE", "/durables/a/b", **alice)
            told = (await answer.messages(3))[2]
        return done.status, position, ended.status, told, http.gateway.upstream.kept

    done, position, ended, told, kept = run(story())
    assert (done, position, ended) == (204, {"alice": 1}, 204)
    assert (told["event"], json.loads(told["data"])) == ("end", {"reason": "'a/b' was ended"})
    assert kept == {}


def test_a_silent_stream_says_that_it_is_there(web, run, tokens):
    async def story():
        http = web(GatewayLimits(heartbeat_seconds=0.005))
        async with http.open(
            "GET", "/subscribe", token=tokens["alice"], query={"selector": "TRUE"}
        ) as answer:
            while b"\n:\n\n" not in answer.body:
                answer.came.clear()
                await answer.came.wait()

    run(story())


def test_a_client_that_takes_nothing_is_cut_off_and_the_other_one_is_not(web, run, tokens):
    async def story():
        http = web(GatewayLimits(stall_seconds=20.0, queue_events_max=10))
        args = {"token": tokens["alice"], "query": {"selector": "TRUE"}}
        loop = asyncio.get_running_loop()
        clock = loop.time
        async with (
            http.open("GET", "/subscribe", **args) as slow,
            http.open("GET", "/subscribe", **args) as fast,
        ):
            await slow.messages(1)
            await fast.messages(1)
            slow.taking.clear()
            for n in range(100):
                await http.publish(tokens["alice"], {"n": n})
                await fast.messages(2 + n)
            loop.time = lambda: clock() + 20.0  # now the slow client has exceeded its time
            while http.gateway.streams == 2:
                await asyncio.sleep(0.01)
            slow.taking.set()
            return len(await fast.messages(101)), len(await slow.messages(101)), http.gateway.counts["shed"]

    fast, slow, shed = run(story())
    assert fast == 101
    assert (
        slow < 12
    )  # what was being sent when it stalled; the rest was shed, or still queued when it was cut off
    assert shed > 0


def test_a_stream_that_nobody_can_read_is_not_begun(web, run, tokens):
    async def story():
        http = web()
        answer = await http.ask("HEAD", "/subscribe", token=tokens["alice"], query={"selector": "TRUE"})
        return answer.status, answer.body, http.gateway.streams, http.gateway.sessions

    assert run(story()) == (200, b"", 0, 0)


def test_who_goes_in_the_middle_of_a_body_has_published_nothing(web, run, tokens):
    async def story():
        http = web()
        async with http.open("POST", "/events", [b"{}", None], token=tokens["alice"], headers=JSON):
            pass
        return http.gateway.upstream.calls, http.gateway.sessions, http.gateway._working_bytes

    assert run(story()) == (0, 0, 0)


def test_a_socket_gives_back_a_stream_that_has_ended(web, run, tokens):
    async def story():
        http = web(GatewayLimits(queue_events_max=2, slow="cut"))
        async with http.socket(tokens["alice"]) as wire:
            await wire.ask(type="subscribe", selector="TRUE")
            assert (await wire.told())["type"] == "subscribed"
            await http.publish(tokens["alice"], *[{}] * 9)
            while (told := await wire.told())["type"] != "end":
                pass
            return told["reason"], http.gateway.streams

    reason, streams = run(story())
    assert reason.startswith("too slow: 2 deliveries")
    assert streams == 0


def test_all_is_given_back_when_clients_go(web, run, tokens):
    async def story():
        http = web()
        args = {"token": tokens["alice"], "query": {"selector": "TRUE"}}
        async with http.open("GET", "/subscribe", **args) as answer:
            await answer.messages(1)
            assert (http.gateway.sessions, http.gateway.streams) == (1, 1)
        return http.gateway.sessions, http.gateway.streams, http.gateway.upstream.feeds

    assert run(story()) == (0, 0, [])


# The framing of a request.


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({"content-length": "8", "transfer-encoding": "chunked"}, 400, "one of the two"),
        ({"transfer-encoding": "chunked"}, 202, None),
        ({"x": "y" * 20_000}, 431, "header_bytes_max"),
    ],
)
def test_a_request_has_one_length_and_a_header_that_is_not_too_large(
    web, run, tokens, headers, status, words
):
    """RFC 9112, 6.3: a request with both lengths may be an attempt at request smuggling."""

    async def story():
        return await web().ask("POST", "/events", b'{"n": 1}', token=tokens["alice"], headers=JSON | headers)

    answer = run(story())
    assert answer.status == status
    if words is not None:
        assert words in answer.json()["detail"] and answer.headers["connection"] == "close"


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("PUT", "/events", 405)])
def test_also_a_path_that_is_not_there_is_a_problem(web, run, method, path, status):
    answer = run(web().ask(method, path))
    assert (answer.status, answer.json()["status"]) == (status, status)
    assert answer.headers["content-type"] == "application/problem+json"


def test_refusals_are_not_kept_on_the_way(web, run):
    """RFC 6750, 2.3: a refusal must not be cached, because the token may be in the URL."""
    answer = run(web().ask("GET", "/subscribe", query={"selector": "TRUE", "access_token": "wrong"}))
    assert (answer.status, answer.headers["cache-control"]) == (401, "no-store")


# WebSocket.


def test_a_socket_publishes_subscribes_and_acknowledges(web, run, tokens):
    async def story():
        http = web()
        told = []
        async with http.socket(tokens["alice"]) as wire:
            await wire.ask(type="subscribe", selector="n > 0", durable="mail", stream="s", ref=1)
            told.append(await wire.told())
            await wire.ask(type="publish", events=[{"n": 0}, {"n": 1}], ref=2)
            two = [await wire.told(), await wire.told()]
            told += sorted(two, key=lambda each: each["type"])
            await wire.ask(type="acknowledge", stream="s", id=two[-1].get("id") or two[0]["id"], ref=3)
            told.append(await wire.told())
            await wire.ask(type="unsubscribe", durable="mail", ref=4)
            end = [await wire.told(), await wire.told()]
        return told, sorted(each["type"] for each in end), http.gateway.sessions

    told, end, sessions = run(story())
    assert told[0] == {"type": "subscribed", "stream": "s", "selector": "n > 0", "durable": "mail", "ref": 1}
    assert told[1] == {"type": "accepted", "publisher": "alice", "first": 1, "last": 2, "ref": 2}
    assert (told[2]["type"], told[2]["stream"], told[2]["event"]) == ("event", "s", {"n": 1})
    assert told[3] == {"type": "done", "ref": 3}
    assert (end, sessions) == (["done", "end"], 0)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"type": "shout"}, "type is 'shout'"),
        ({"type": "publish"}, "events is missing"),
        ({"type": "publish", "events": [1]}, "a list of JSON objects"),
        ({"type": "publish", "events": [{}], "more": 1}, "no such member"),
        ({"type": "subscribe", "selector": 1}, "it must be a str"),
        ({"type": "subscribe", "selector": "a ="}, "line 1"),
        ({"type": "acknowledge", "stream": "s", "id": "x"}, "one of none"),
        ({"type": "unsubscribe"}, "give the stream"),
    ],
)
def test_a_socket_refuses_with_words_and_goes_on(web, run, tokens, asked, words):
    async def story():
        async with web().socket(tokens["alice"]) as wire:
            await wire.ask(**asked, ref="r")
            refused = await wire.told()
            await wire.ask(type="publish", events=[{"n": 1}])
            return refused, await wire.told()

    refused, then = run(story())
    assert (refused["type"], refused["ref"], then["type"]) == ("error", "r", "accepted")
    assert words in refused["error"]["detail"]


def test_a_message_that_there_is_no_room_for_is_refused_and_the_socket_goes_on(web, run, tokens):
    async def story():
        http = web(GatewayLimits(bodies_bytes_max=100))
        async with http.socket(tokens["alice"]) as wire:
            with http.gateway.working(90):
                await wire.ask(type="publish", events=[{"n": 1}], ref="r")
                refused = await wire.told()
            await wire.ask(type="publish", events=[{"n": 1}], ref="r")
            return refused, await wire.told()

    refused, then = run(story())
    assert (refused["type"], refused["error"]["limit"]) == ("error", "bodies_bytes_max")
    assert (then["type"], then["ref"]) == ("accepted", "r")


@pytest.mark.parametrize("ref", [{}, [[]], "r" * 129])
def test_a_socket_gives_back_no_more_than_a_name(web, run, tokens, ref):
    async def story():
        async with web().socket(tokens["alice"]) as wire:
            await wire.ask(type="publish", events=[{"n": 1}], ref=ref)
            return await wire.told()

    refused = run(story())
    assert refused["error"]["detail"].startswith("ref must be") and "ref" not in refused


@pytest.mark.parametrize("text", ["{", "[]", "1", '{"a": NaN}', '{"ref": 1e400}', "[" * 50_000])
def test_a_message_that_is_none_ends_the_socket(web, run, tokens, text):
    async def story():
        async with web().socket(tokens["alice"]) as wire:
            await wire.text(text)
            return await wire.told()

    end = run(story())
    assert (end["type"], end["code"]) == ("websocket.close", 1003)


@pytest.mark.parametrize(
    ("token", "headers", "options", "words"),
    [
        ("wrong", {}, {}, "not known"),
        ("token-of-alice", {"origin": "https://evil.example"}, {}, "origins"),
        ("token-of-alice", {"origin": "http://["}, {}, "origins"),
        ("token-of-alice", {"origin": "null", "host": ""}, {}, "origins"),
        ("token-of-alice", {"origin": "https://good.example"}, {"origins": ["https://good.example"]}, None),
        ("token-of-alice", {"origin": "http://gateway"}, {}, None),
    ],
)
def test_who_may_open_a_socket(web, run, token, headers, options, words):
    async def story():
        async with web(**options).socket(token, headers) as wire:
            if words is None:
                await wire.ask(type="publish", events=[{}])
            return await wire.told()

    told = run(story())
    assert told["type"] == ("accepted" if words is None else "error")
    assert words is None or words in told["error"]["detail"]


# Health, metrics and description.


def test_health_metrics_and_description(web, run, tokens):
    async def story():
        http = web()
        await http.publish(tokens["alice"], {"n": 1}, {"n": 2})
        await http.publish(tokens["bob"], {"n": 1})
        well = await http.ask("GET", "/healthz")
        http.gateway.upstream.broken = True
        ill = await http.ask("GET", "/healthz")
        return well, ill, await http.ask("GET", "/metrics"), await http.ask("GET", "/openapi.json"), http

    well, ill, metrics, description, http = run(story())
    assert (well.status, well.json()) == (200, {"network": "local", "status": "ok"})
    assert ill.status == 503
    assert b'rayvous_gateway_published_total{network="local"} 2.0' in metrics.body
    assert b'rayvous_gateway_refused_total{network="local",reason="publish"} 1.0' in metrics.body
    described = {
        (path, method.upper()) for path, methods in description.json()["paths"].items() for method in methods
    }
    served = set()
    for route in http.app.routes:
        methods = getattr(route, "methods", None) or {"GET"}
        served |= {(route.path.replace(":path", ""), method) for method in methods - {"HEAD"}}
    assert described == served


def test_what_a_subscription_asks_of_admission_control_comes_to_the_network(web, run):
    mine = Principal((digest_of("t"),), "TRUE", "TRUE", priority_max=5, max_delay=True)

    async def story():
        http = web(None, AccessConfig({"me": mine}))
        query = {"selector": "TRUE", "priority": "5", "max_delay": "0.5"}
        async with http.open("GET", "/subscribe", token="t", query=query) as answer:
            await answer.messages(1)
        past = {"selector": "TRUE", "durable": "mail", "at": "oldest", "last_per": "k"}
        async with http.open("GET", "/subscribe", token="t", query=past) as answer:
            await answer.messages(1)
        async with http.socket("t") as wire:
            await wire.ask(type="subscribe", selector="TRUE", priority=-2, max_delay=1)
            await wire.told()
            await wire.ask(type="subscribe", selector="TRUE", durable="box", at={"faa": 1}, last_per="k")
            await wire.told()
            await wire.ask(type="subscribe", selector="TRUE", priority=True)
            return http.gateway.upstream.terms, (await wire.told())["error"]["detail"]

    terms, words = run(story())
    past = Terms(at="oldest", last_per="k"), Terms(at={"faa": 1}, last_per="k")
    assert terms == [Terms(5, 0.5), past[0], Terms(-2, 1), past[1]]
    assert "priority is True" in words


# Consumer groups.


def test_streams_of_events_share_a_group_and_say_of_each_what_became_of_it(web, run, tokens):
    async def story():
        http = web()
        query = {"selector": "n > 0", "durable": "work", "group": "true", "group_key": "k"}
        token = tokens["alice"]

        async def say(path, **body):
            return (await http.ask("POST", path, json.dumps(body).encode(), token=token)).status

        async with (
            http.open("GET", "/subscribe", token=token, query=query) as one,
            http.open("GET", "/subscribe", token=token, query=query) as two,
        ):
            await one.messages(1)
            await two.messages(1)
            body = json.dumps([{"n": 1, "k": 1}, {"n": 2, "k": 2}]).encode()
            headers = {"content-type": "application/json"}
            assert (await http.ask("POST", "/events", body, token=token, headers=headers)).status == 202
            group = http.gateway.upstream.groups["alice/work"]
            while sum(group.machine.workers.values()) < 2:
                await asyncio.sleep(0)
            told = [json.loads(each["data"]) for each in (await one.messages(2))[1:]]
            assert told[0]["deliveries"] == 1
            ids = [each["id"] for each in told]
            assert await say("/acknowledge", durable="work", id=ids[0], alone=True) == 204
            assert await say("/acknowledge", durable="work", id=ids[0], alone=True) == 409
            assert await say("/refuse", durable="work", id=ids[0], seconds=1) == 409
            assert await say("/refuse", durable="mail", id=ids[0]) == 400
            assert await say("/refuse", durable="work", id=ids[0], seconds="x") == 400
            assert await say("/refuse", durable="work") == 400
            assert group.machine.position == {"alice": 1}
        gone = await http.ask("DELETE", "/durables/work", token=token, query={"group": "true"})
        return gone.status, http.gateway.upstream.groups

    assert run(story()) == (204, {})


def test_a_socket_refuses_an_event_of_a_group(web, run, tokens):
    async def story():
        told = []
        async with web().socket(tokens["alice"]) as wire:
            await wire.ask(type="subscribe", selector="n > 0", durable="work", group=True, stream="s", ref=1)
            told.append(await wire.told())
            await wire.ask(type="publish", events=[{"n": 1}])
            first = next(each for each in [await wire.told(), await wire.told()] if each["type"] == "event")
            await wire.ask(type="refuse", stream="s", id=first["id"], seconds=0, ref=2)
            more = sorted([await wire.told(), await wire.told()], key=lambda each: each["type"])
            await wire.ask(type="subscribe", selector="n > 0", group_key="k", ref=3)
            told += [*more, await wire.told()]
        return told

    subscribed, done, again, refused = run(story())
    assert subscribed["type"] == "subscribed" and done == {"type": "done", "ref": 2}
    assert (again["deliveries"], again["event"]) == (2, {"n": 1})
    assert "only a group has it" in refused["error"]["detail"]


def test_events_have_the_time_to_live_of_their_request(web, run, tokens):
    async def story():
        http, alice = web(), {"token": tokens["alice"], "headers": JSON}
        async with http.open(
            "GET", "/subscribe", token=tokens["alice"], query={"selector": "TRUE"}
        ) as answer:
            await answer.messages(1)
            for number, query in enumerate(({"ttl": "1e-9"}, {"ttl": "60"}, {})):
                body = json.dumps({"n": number}).encode()
                assert (await http.ask("POST", "/events", body, query=query, **alice)).status == 202
            refused = [
                await http.ask("POST", "/events", b'{"n": 1}', query={"ttl": ttl}, **alice)
                for ttl in ("0", "-1", "nan", "inf", "soon", "1e300", "")
            ]
            return await answer.messages(3), refused

    messages, refused = run(story())
    events = [json.loads(message["data"]) for message in messages[1:]]
    assert [event["event"]["n"] for event in events] == [1, 2]
    assert ["expires_at" in event for event in events] == [True, False]
    assert {each.status for each in refused} == {400} and all(
        "ttl" in each.json()["detail"] for each in refused
    )
