"""Hostile input, drawn from a seed: refused with a reason, nothing is kept, no other client is disturbed."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from draws import slow, thorough
from patience import PATIENCE_SECONDS
from rayvous.gateway.http.bodies import TYPES
from rayvous.protocol.gateways import GatewayLimits

KNOWN = {200, 202, 204, 400, 401, 403, 404, 405, 408, 413, 415, 429, 503}
GOOD = [
    b'{"origin": "JFK", "n": 1}',
    b'[{"n": 1}, {"s": "text"}]',
    b'{"a": 1}\n{"b": 2}\n',
    json.dumps({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"n": 1}}).encode(),
    b'{"durable": "mail", "id": "alice:1;00"}',
]
PARTS = [
    b"{", b"}", b"[", b"]", b'"', b"\\", b"\x00", b"\xff\xfe", b"\\ud800", b"NaN", b"-", b"1e999", b"9" * 400, b"null",
    b":", b",", b"\n", b'{"specversion":"1.0"}', b"[" * 3000, b'{"a":' * 3000, b"\xf0\x9f\x92\xa9", b"data_base64",
]  # fmt: skip
SELECTORS = [
    "TRUE", "a = 1", "a =", "(" * 3000, "NOT " * 2000 + "a = 1", "a LIKE '" + "%_" * 800 + "'",
    "a IN (" + "1," * 900 + "1)",
    " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(40)), "\x00", "é = 'ü'", "a BETWEEN 2 AND 1", "'" * 99,
    "a = 99999999999999999999999999", "a = 1e400", "",
]  # fmt: skip
PATHS = [
    "/events",
    "/subscribe",
    "/acknowledge",
    "/durables/x",
    "/durables/",
    "/ws",
    "/none",
    "/metrics",
    "/events/../x",
]

METHODS = {"/events": "POST", "/acknowledge": "POST", "/durables/x": "DELETE", "/durables/": "DELETE"}


def mangled(draw: random.Random, body: bytes) -> bytes:
    for _ in range(draw.choice([0, 1, 1, 2, 3])):
        at = draw.randrange(len(body) + 1)
        change = draw.randrange(4)
        if change == 0:
            body = body[:at]
        elif change == 1:
            body = body[:at] + draw.choice(PARTS) + body[at:]
        elif change == 2:
            body = body[:at] + bytes(draw.randrange(256) for _ in range(draw.randrange(8))) + body[at + 4 :]
        else:
            body = body * draw.randrange(1, 4)
    return body


def text(draw: random.Random) -> str:
    return "".join(chr(draw.choice((9, 32, 44, 59, 65, 58, 200, 255))) for _ in range(draw.randrange(12)))


async def one_request(draw: random.Random, http, token) -> None:
    body = mangled(draw, draw.choice(GOOD))
    headers = {
        "content-type": draw.choice([*TYPES, "text/plain", "", "application/json; charset=x", text(draw)])
    }
    for name in (
        "ce-specversion",
        "ce-id",
        "ce-type",
        "ce-source",
        "ce-time",
        "last-event-id",
        "content-length",
    ):
        if draw.random() < 0.2:
            headers[name] = draw.choice(["1.0", "1", "%ff", "2013-01-01T00:00:00Z", text(draw), "9" * 50])
    if draw.random() < 0.1:
        headers["authorization"] = draw.choice(["Bearer", "Bearer  x", "Basic eDp5", text(draw)])
    query = [
        (name, draw.choice([*SELECTORS, "1", "mail", text(draw)]))
        for name in ("selector", "durable", "narrow", "after", "format", "flush", "timestamp", "access_token")
        if draw.random() < 0.3
    ]
    path = draw.choice([*PATHS, "/events", "/events", "/subscribe", "/acknowledge"])
    method = METHODS.get(path, "GET")
    if draw.random() < 0.05:
        method = draw.choice(["POST", "GET", "HEAD", "DELETE", "PUT", "OPTIONS"])
    cut = draw.randrange(len(body) + 1)
    parts = [body[:cut], body[cut:]] if draw.random() < 0.9 else [body[:cut], None]
    who = draw.choice([token] * 8 + [None, "wrong"])
    async with http.open(method, path, parts, token=who, headers=headers, query=query) as answer:
        while not answer.status:
            answer.came.clear()
            await answer.came.wait()
        assert answer.status in KNOWN, (answer.status, answer.body)
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return  # it continues; the client disconnects
        while not answer.ended:
            answer.came.clear()
            await answer.came.wait()
    if answer.headers.get("content-type") == "application/problem+json":
        assert answer.json()["detail"], answer.body


async def one_socket(draw: random.Random, http, token) -> None:
    asked = [
        {"type": "publish", "events": [{"n": 1}]},
        {"type": "subscribe", "selector": draw.choice(SELECTORS), "stream": "s"},
        {"type": "acknowledge", "stream": "s", "id": "alice:1;x"},
        {"type": "unsubscribe", "stream": "s"},
        {
            "type": draw.choice(["publish", "subscribe", [], {}, None]),
            "events": draw.choice([1, {}, [[]], [None]]),
        },
        {"type": "subscribe", "selector": "a = 1", "durable": draw.choice([1, "", "x" * 999, [], "\n"])},
    ]
    async with http.socket(token) as wire:
        for _ in range(draw.randrange(1, 6)):
            message = json.dumps(draw.choice(asked)).encode()
            if draw.random() < 0.3:
                message = mangled(draw, message)
            await wire.text(message.decode("utf-8", "replace"))
        told = await wire.told()
        assert told["type"] in (
            "error",
            "accepted",
            "subscribed",
            "websocket.close",
            "event",
            "done",
            "end",
            "gap",
        )


async def attacked(web, tokens, seed: int, rounds: int) -> None:
    draw = random.Random(seed)
    limits = GatewayLimits(
        body_bytes_max=20_000,
        batch_events_max=50,
        request_seconds=0.02,
        rate_wait_seconds=0.01,
        queue_events_max=50,
    )
    http = web(limits)
    async with http.open(
        "GET", "/subscribe", token=tokens["bob"], query={"selector": "origin = 'JFK'"}
    ) as calm:
        await calm.messages(1)
        for _ in range(rounds):
            await (one_socket if draw.random() < 0.2 else one_request)(draw, http, tokens["alice"])
        assert http.gateway.sessions == http.gateway.streams == 1, "something was kept"
        assert len(http.gateway.upstream.feeds) == 1
        assert http.gateway._working_bytes == 0
        done = await http.ask(
            "POST", "/events", b'{"origin": "JFK", "calm": true}', token=tokens["bob"],
            headers={"content-type": "application/json"},
        )  # fmt: skip
        assert done.status == 202
        while b'"calm":true' not in calm.body:
            calm.came.clear()
            await calm.came.wait()


@pytest.mark.parametrize("seed", range(3))
def test_hostile_input(web, run, tokens, seed):
    run(attacked(web, tokens, seed, 25))


@pytest.mark.parametrize("rounds", [slow(600), thorough(3_000)])
def test_much_hostile_input(web, tokens, rounds):
    async def bounded():
        async with asyncio.timeout(PATIENCE_SECONDS):
            await attacked(web, tokens, 1234, rounds)

    asyncio.run(bounded())
