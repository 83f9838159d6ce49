"""Channels over a pair of sockets, with and without the certificates of Ray."""

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from rayvous.actors.channels.channel import Channel, Waiting, bound_silence
from rayvous.actors.channels.config import tls_of_ray
from rayvous.actors.channels.connection import Connection, Self
from rayvous.actors.channels.handshakes import Handshake
from rayvous.actors.channels.lanes import Lane
from rayvous.actors.channels.replies import Awaited, packed_error


@pytest.fixture
def tls_in_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what a Ray with TLS has in its environment."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    made = ["openssl", "req", "-x509", *curve, "-subj", "/CN=ray", "-out", str(cert), "-keyout", str(key)]
    subprocess.run(made, check=True, capture_output=True)
    monkeypatch.setenv("RAY_USE_TLS", "1")
    for name, path in (("SERVER_CERT", cert), ("SERVER_KEY", key), ("CA_CERT", cert)):
        monkeypatch.setenv(f"RAY_TLS_{name}", str(path))


def make(name: bytes, opens: bool, ended: Callable[[bool], None] = lambda parted: None) -> Channel:
    async def serve(content: bytes) -> bytes:
        return content[::-1]

    machine: Connection[Waiting] = Connection(Self(b"n" * 16, name * 16, b"s" * 32), opens, name * 32)
    end: Any = lambda channel, lost, parted: ended(parted)  # noqa: E731
    return Channel(machine, serve, packed_error, lambda channel: None, end, lambda *_: None, 10.0)


async def connected(one: Channel, other: Channel) -> None:
    ours, theirs = socket.socketpair()
    loop, tls = asyncio.get_running_loop(), tls_of_ray(server=True)
    await loop.connect_accepted_socket(lambda: other if tls is None else Handshake(other, tls), theirs)
    client = tls_of_ray(server=False)
    named = {} if client is None else {"ssl": client.context, "server_hostname": "anything"}
    await loop.create_connection(lambda: one, sock=ours, **named)
    assert await one.done and await other.done


async def ask(channel: Channel, content: bytes) -> bytes:
    lane = Lane()
    lane.enter(True)
    waiting = Awaited(lane)
    channel.call(content, waiting)
    return await waiting


async def talk() -> bool | None:
    """Let two ends call each other with small and large contents; return whether the end was told of the parting."""
    told = asyncio.get_running_loop().create_future()
    one, other = make(b"a", True), make(b"b", False, told.set_result)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await connected(one, other)
        large = bytes(range(256)) * 8_192
        assert await asyncio.gather(ask(one, b"abc"), ask(other, b"xyz"), ask(one, large)) == [
            b"cba",
            b"zyx",
            large[::-1],
        ]
        one.part()
        return bool(await told)


def test_two_ends_talk_and_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(talk())


def test_the_certificates_of_ray_are_used_where_it_uses_them(
    tls_in_ray: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = tls_of_ray(server=True)
    assert tls is not None and tls.context.verify_mode == ssl.CERT_REQUIRED
    assert asyncio.run(talk())
    monkeypatch.delenv("RAY_USE_TLS")
    assert tls_of_ray(server=True) is None


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux bounds unacknowledged data")
def test_the_machine_of_a_connection_may_not_be_silent_for_long() -> None:
    with closing(socket.socket()) as connection:
        bound_silence(connection, 10.0)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, between, tries, unacknowledged = (
            connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{option}"))
            for option in ("KEEPIDLE", "KEEPINTVL", "KEEPCNT", "USER_TIMEOUT")
        )
        assert idle + between * tries == 10 and unacknowledged == 10_000
