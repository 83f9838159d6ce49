"""Hostile clients drawn from a seed: nothing fails, nothing is kept, and no other client is disturbed.

``RAYVOUS_FUZZ_INPUTS=100000 pytest -m thorough tests/gateway/stomp/test_fuzz.py`` runs that many.
"""

import asyncio
import logging
import os
import random
from dataclasses import replace

import pytest
from draws import slow, thorough
from rayvous.gateway.stomp.frames import CLIENT_COMMANDS, SERVER_COMMANDS, Frame, encode
from rayvous.protocol.gateways import GatewayLimits

LIMITS = replace(
    GatewayLimits(),
    header_bytes_max=2_000,
    body_bytes_max=5_000,
    bodies_bytes_max=50_000,
    queue_events_max=20,
    unacknowledged_max=20,
)
COMMANDS = sorted(CLIENT_COMMANDS | SERVER_COMMANDS)
NAMES = (
    *(
        "id",
        "destination",
        "transaction",
        "receipt",
        "selector",
        "ack",
        "content-type",
        "content-length",
        "requeue",
    ),
    *(
        "durable",
        "durable-subscription-name",
        "accept-version",
        "heart-beat",
        "passcode",
        "login",
        "prefetch-count",
    ),
    *("x", "é", "a:b", "a\nb", "JMSDestination", "narrow", "authorization"),
)
VALUES = (
    *(
        "0",
        "1",
        "2",
        "t",
        "/events",
        "/topic/a",
        "x > 1",
        "x = 'a' OR",
        "TRUE) OR (TRUE",
        "auto",
        "client",
        "true",
    ),
    *(
        "client-individual",
        "application/json",
        "text/plain",
        "image/png",
        "1.2",
        "1.1",
        "0,0",
        "1,1",
        "-1",
        "",
        "\0",
    ),
    *("token-of-alice", "token-of-bob", "9" * 30, "x" * 300, "a\r\nb:c", "99999999999999999999", "Bearer x"),
)
BODIES = (
    b"",
    b"{}",
    b'{"x": 2}',
    b'{"x": {}}',
    b"[" * 4_000,
    b"\0",
    b"\xff\xfe",
    b"hello",
    b"x" * 4_999,
    b'{"x":',
)


def frame(chance):
    command = chance.choice(COMMANDS)
    names = chance.sample(NAMES, chance.randrange(6))
    if chance.random() < 0.7:  # the headers that most frames need
        names += ["id", "destination"]
    headers = {name: chance.choice(VALUES) for name in names}
    plain = command in ("CONNECT", "STOMP", "CONNECTED")
    if plain:
        headers = {name: value for name, value in headers.items() if not set(name + value) & set("\r\n:")}
    return encode(Frame(command, headers, chance.choice(BODIES)))


def attack(chance):
    """Return the bytes of one hostile client, in pieces."""
    data = bytearray()
    if chance.random() < 0.9:
        data += encode(Frame("CONNECT", {"accept-version": "1.2", "passcode": "token-of-alice"}))
    for _ in range(chance.randrange(6)):
        data += frame(chance)
    for _ in range(chance.randrange(4)):  # damage some of it
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            data[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            del data[at : at + chance.randrange(20)]
        elif kind == 2:
            data[at:at] = chance.choice((b"\n", b"\r", b"\0", b":", b"\\", b"x" * 2_100, b"SEND\n"))
        else:
            del data[at:]
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(4)))
    edges = [0, *cuts, len(data)]
    return [piece for i in range(len(edges) - 1) if (piece := bytes(data[edges[i] : edges[i + 1]]))]


async def fall_upon(client, chance):
    hostile = client()
    if chance.random() < 0.1:
        hostile.reads.clear()
    for piece in attack(chance):
        hostile.coming.put_nowait(piece)
        if chance.random() < 0.5:
            await asyncio.sleep(0)
    hostile.coming.put_nowait(b"")
    hostile.reads.set()
    await hostile.task


def besiege(served, seed, inputs, caplog):
    chance = random.Random(seed)

    async def work(client, core):
        good = await client().connect("token-of-bob")
        await good.ask("SUBSCRIBE", id="0", destination="/events", selector="origin = 'JFK'")
        for i in range(inputs // 20):
            await asyncio.gather(*(fall_upon(client, chance) for _ in range(20)))
            good.put(Frame("SEND", {"destination": "/events", "origin": "JFK", "i": str(i)}))
            assert (await good.next("MESSAGE")).headers["i"] == str(i)
            assert core.sessions == core.streams == good.server.connections == 1
            assert good.server._held.bytes == 0
            assert not len(next(iter(good.server._connections))._out)
            for name in list(
                core.upstream.kept
            ):  # durable names of the hostile clients, which the broker keeps
                if name.startswith("alice/"):
                    del core.upstream.kept[name]

    with caplog.at_level(logging.WARNING):
        served(work, LIMITS, seconds=600)
    assert [
        record.getMessage() for record in caplog.records if record.name.startswith(("rayvous", "asyncio"))
    ] == []


def test_hostile_clients_disturb_nobody(served, caplog):
    besiege(served, 1, 200, caplog)


@pytest.mark.parametrize(
    "inputs", [slow(2_000), thorough(int(os.environ.get("RAYVOUS_FUZZ_INPUTS", "10000")))]
)
def test_thousands_of_hostile_clients_disturb_nobody(served, inputs, caplog):
    besiege(served, 2, inputs, caplog)
