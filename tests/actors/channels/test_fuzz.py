"""Hostile bytes, drawn from a seed: refused with a reason or waited for, nothing is kept, no other is disturbed."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from draws import slow, thorough
from patience import PATIENCE_SECONDS
from rayvous.actors.channels.channel import Channel, Waiting
from rayvous.actors.channels.config import ChannelConfig
from rayvous.actors.channels.connection import (
    _HEAD,
    GREETING_BYTES_MAX,
    Answered,
    Called,
    Connection,
    Kind,
    Opened,
    Parted,
    Refused,
    Self,
)
from rayvous.actors.channels.lanes import Lane
from rayvous.actors.channels.pool import Channels
from rayvous.actors.channels.replies import Awaited, packed_error

NETWORK, SECRET = b"n" * 16, b"s" * 32
LONGEST = 4_096
CALLS = [b"", b"first", b"x" * 700, b"last"]
HEADS = [
    _HEAD.pack(length, kind, number)
    for length in (0, 5, LONGEST, LONGEST + 1, 2**32 - 1)
    for kind in (0, *Kind, 255)
    for number in (0, 1, 2**64 - 1)
]
PARTS = [
    b"\x00",
    b"\xff",
    b"GET / HTTP/1.1\r\n\r\n",
    b"rayvous\n",
    b"\x16\x03\x01\x02\x00\x01",
    bytes(600),
    *HEADS,
]


class Recorded(NamedTuple):
    """What the end that opens says in a whole conversation, in frames; the greeting first."""

    frames: list[bytes]
    answered: Callable[[], Connection[int]]
    """Returns an end to which all of it is valid, with a call of its own that waits."""


def recorded() -> Recorded:
    def end(name: bytes, opens: bool) -> Connection[int]:
        return Connection(Self(NETWORK, name * 16, SECRET), opens, name * 32, LONGEST)

    def answered() -> Connection[int]:
        one = end(b"b", False)
        one.call(b"question", 1)
        return one

    alice, bob = end(b"a", True), end(b"b", False)
    hello = b"".join(alice.out)
    bob.take(hello)
    alice.out.clear()
    alice.take(b"".join(bob.out))
    proof = b"".join(alice.out)
    alice.serving.add(1)
    calls = [alice.call(content, 0) for content in CALLS]
    return Recorded([hello, proof, *calls, alice.answer(1, b"answer"), alice.farewell()], answered)


def mangled(draw: random.Random, frames: list[bytes]) -> bytes:
    frames = list(frames)
    for _ in range(draw.choice([0, 0, 1, 1, 2])):  # whole frames
        at, change = draw.randrange(len(frames)), draw.randrange(4)
        if change == 0:
            frames.insert(at, draw.choice(frames))
        elif change == 1 and len(frames) > 1:
            del frames[at]
        elif change == 2:
            frames.insert(at, draw.choice(PARTS))
        else:
            draw.shuffle(frames)
    data = b"".join(frames)
    for _ in range(draw.choice([0, 1, 1, 2, 3])):
        at, change = draw.randrange(len(data) + 1), draw.randrange(4)
        if change == 0:
            data = data[:at]
        elif change == 1:
            data = data[:at] + draw.choice(PARTS) + data[at:]
        elif change == 2:
            data = data[:at] + draw.randbytes(draw.randrange(12)) + data[at + 6 :]
        elif data:
            flipped = bytearray(data)
            flipped[at % len(data)] ^= 1 << draw.randrange(8)
            data = bytes(flipped)
    return data


def pieces(draw: random.Random, data: bytes) -> list[bytes]:
    cuts = sorted(draw.randrange(len(data) + 1) for _ in range(draw.randrange(5)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def attack_machine(seed: int, rounds: int) -> dict[str, int]:
    """Send mangled conversations; return how often each kind of event came."""
    draw, conversation = random.Random(seed), recorded()
    counts: dict[str, int] = {}
    for _ in range(rounds):
        bob = conversation.answered()
        proven = refused = False
        numbers: list[int] = []
        for piece in pieces(draw, mangled(draw, conversation.frames)):
            events = bob.take(piece)
            assert not (refused and events), "nothing is taken in after a refusal"
            for event in events:
                counts[type(event).__name__] = counts.get(type(event).__name__, 0) + 1
                assert proven or isinstance(event, Opened | Refused), "before the proof nothing counts"
                assert not refused, "and nothing after the refusal"
                proven |= isinstance(event, Opened)
                if isinstance(event, Refused):
                    refused = True
                    assert event.why and len(bob.refusal(event.why)) <= GREETING_BYTES_MAX
                elif isinstance(event, Called):
                    numbers.append(event.number)
                    assert len(event.content) <= LONGEST
                elif isinstance(event, Answered):
                    assert event.waiting == 1 and not bob.waiting
                else:
                    assert isinstance(event, Opened | Parted)
            assert len(bob._held) <= (LONGEST if proven else GREETING_BYTES_MAX) + _HEAD.size
            assert not (refused and bob._held)
        assert numbers == list(range(1, len(numbers) + 1)), "calls are numbered without gaps"
    return counts


@pytest.mark.parametrize("seed", range(4))
def test_hostile_bytes_at_a_machine(seed: int) -> None:
    counts = attack_machine(seed, 400)
    assert min(counts.get(each, 0) for each in ("Opened", "Refused", "Called", "Answered", "Parted")) > 20, (
        counts
    )


@pytest.mark.parametrize("rounds", [slow(10_000), thorough(100_000)])
def test_many_hostile_bytes_at_a_machine(rounds: int) -> None:
    attack_machine(77, rounds)


def test_the_recorded_conversation_is_valid() -> None:
    conversation = recorded()
    events = conversation.answered().take(b"".join(conversation.frames))
    assert events == [
        Opened(b"a" * 16),
        *(Called(number, content) for number, content in enumerate(CALLS, 1)),
        Answered(1, b"answer", False),
        Parted(),
    ]


class Refusing(Channels):
    """The channels of a host, and why it has refused others."""

    def __init__(self) -> None:
        super().__init__(ChannelConfig(NETWORK, SECRET), name=b"h" * 16, serve=self._answer)
        self.served: list[bytes] = []
        self.why: list[str] = []

    async def _answer(self, content: bytes) -> bytes:
        self.served.append(content)
        return content[::-1]

    def _has_refused(self, channel: Channel, why: str) -> None:
        self.why.append(why)


async def accept(host: Refusing) -> tuple[socket.socket, Channel]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    taking = asyncio.get_running_loop().connect_accepted_socket(lambda: host._channel(opens=False), theirs)
    return ours, (await taking)[1]


async def attack_host(seed: int, rounds: int) -> Refusing:
    """Send mangled conversations to a host that also has a good peer, which asks something now and then."""
    draw, conversation = random.Random(seed), recorded()
    host, loop = Refusing(), asyncio.get_running_loop()
    host.loop  # noqa: B018  # it is this one
    ours, _ = await accept(host)
    machine: Connection[Waiting] = Connection(Self(NETWORK, b"c" * 16, SECRET), True, b"c" * 32)
    ended: list[Any] = []
    _, calm = await loop.create_connection(
        lambda: Channel(
            machine, None, packed_error, lambda _: None, lambda *all: ended.append(all), lambda *_: None
        ),
        sock=ours,
    )
    assert await calm.done
    for number in range(rounds):
        knock, channel = await accept(host)
        with knock:
            for piece in pieces(draw, mangled(draw, conversation.frames)):
                try:
                    await loop.sock_sendall(knock, piece)
                except OSError:  # it has been refused
                    break
        await channel.done
        lane = Lane()
        lane.enter(True)
        waiting = Awaited(lane)
        calm.call(b"%d" % number, waiting)
        assert await waiting == (b"%d" % number)[::-1]
    while host._unproven:
        await asyncio.sleep(0)
    assert host.served == [b"%d" % number for number in range(rounds)], "nobody else was served"
    assert list(host._taken) == [b"c" * 16] and len(host.opened()) == 1 and not ended
    await host.close()
    return host


@pytest.mark.parametrize("seed", range(3))
def test_hostile_bytes_at_a_host(seed: int) -> None:
    async def bounded() -> Refusing:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await attack_host(seed, 150)

    host = asyncio.run(bounded())
    assert all(host.why) and 100 < len(host.why) <= 150, "whoever said anything was refused, once"
    assert len(set(host.why)) > 5


@pytest.mark.parametrize("rounds", [slow(1_000), thorough(5_000)])
def test_many_hostile_bytes_at_a_host(rounds: int) -> None:
    asyncio.run(attack_host(99, rounds))
