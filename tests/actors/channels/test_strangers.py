"""Connections of strangers: silent, half open, cut off, or of TLS; they are few and short, and disturb nobody."""

import asyncio
import gc
import logging
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from patience import FrozenLoop, run_frozen
from rayvous.actors.channels import channel as channel_file
from rayvous.actors.channels import pool as pool_file
from rayvous.actors.channels.channel import Channel, Refusals, Waiting
from rayvous.actors.channels.config import ChannelConfig, tls_of_ray
from rayvous.actors.channels.connection import Connection, Self
from rayvous.actors.channels.handshakes import Handshake
from rayvous.actors.channels.lanes import Lane
from rayvous.actors.channels.pool import CROWDED, UNPROVEN_MAX, Channels
from rayvous.actors.channels.replies import Awaited, packed_error
from rayvous.actors.logs import Log

SILENT = 2_000
BATCH = 100


class Host(Channels):
    """The channels of a host, and why it has refused others."""

    def __init__(self) -> None:
        config = ChannelConfig(b"n" * 16, b"s" * 32)
        super().__init__(config, name=b"h" * 16, serve=self._answer, log=Log("rayvous.test"))
        self.why: list[str] = []
        self._refusals = Refusals(self._log, lambda: 9.0)  # no time passes between two
        self.tls = tls_of_ray(server=True)

    async def _answer(self, content: bytes) -> bytes:
        return content[::-1]

    def _has_refused(self, channel: Channel, why: str) -> None:
        self.why.append(why)
        super()._has_refused(channel, why)


class Peer:
    """A process that has the secret."""

    def __init__(self, name: bytes, parted: Callable[[bool], None] = lambda parted: None) -> None:
        machine: Connection[Waiting] = Connection(Self(b"n" * 16, name * 16, b"s" * 32), True, name * 32)
        self.channel = Channel(
            machine,
            None,
            packed_error,
            lambda _: None,
            lambda channel, lost, told: parted(told),
            lambda *_: None,
        )

    async def ask(self, content: bytes) -> bytes:
        lane = Lane()
        lane.enter(True)
        waiting = Awaited(lane)
        self.channel.call(content, waiting)
        return await waiting


async def knock(host: Host) -> socket.socket:
    """Open a connection to the host, as its listening socket takes it; return the other end."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    def accepted() -> asyncio.Protocol:
        channel = host._channel(opens=False)
        return channel if host.tls is None else Handshake(channel, host.tls)

    await asyncio.get_running_loop().connect_accepted_socket(accepted, theirs)
    return ours


async def friend(
    host: Host, name: bytes = b"c", parted: Callable[[bool], None] = lambda parted: None
) -> Peer:
    peer, loop, tls = Peer(name, parted), asyncio.get_running_loop(), tls_of_ray(server=False)
    ours = await knock(host)
    named = {} if tls is None else {"ssl": tls.context, "server_hostname": "anything"}
    await loop.create_connection(lambda: peer.channel, sock=ours, **named)  # type: ignore[call-overload]
    assert await peer.channel.done
    return peer


async def closed(stranger: socket.socket) -> bytes:
    """Return what a stranger is told until its connection is closed."""
    loop, said = asyncio.get_running_loop(), b""
    try:
        while data := await loop.sock_recv(stranger, 65_536):
            said += data
    except ConnectionResetError:
        pass
    return said


def run(test: Callable[[FrozenLoop, Host], Awaitable[None]]) -> None:
    async def with_host(loop: FrozenLoop) -> None:
        host = Host()
        await test(loop, host)
        await host.close()

    run_frozen(with_host)


def channels_alive() -> int:
    gc.collect()
    return sum(isinstance(each, Channel) for each in gc.get_objects())


def test_silent_connections_are_few_and_end_in_time(caplog: pytest.LogCaptureFixture) -> None:
    before = channels_alive()

    async def test(loop: FrozenLoop, host: Host) -> None:
        calm, strangers = await friend(host), list[socket.socket]()
        for batch in range(SILENT // BATCH):
            strangers = [*strangers, *[await knock(host) for _ in range(BATCH)]][-UNPROVEN_MAX:]
            assert len(host._unproven) <= UNPROVEN_MAX
            assert await calm.ask(b"%d" % batch) == (b"%d" % batch)[::-1]
        assert channels_alive() - before <= UNPROVEN_MAX + BATCH, "the others are gone"
        assert len(host._unproven) == UNPROVEN_MAX and not host.why
        loop.ahead += channel_file.GREETING_SECONDS / 2
        await asyncio.sleep(0)
        assert len(host._unproven) == UNPROVEN_MAX, "they have time"
        loop.ahead += channel_file.GREETING_SECONDS / 2
        for said in await asyncio.gather(*map(closed, strangers)):
            assert b"it does not greet in time" in said
        assert host.why == ["it does not greet in time"] * UNPROVEN_MAX and not host._unproven
        assert await calm.ask(b"abc") == b"cba" and len(host.opened()) == 1
        for stranger in strangers:
            stranger.close()

    with caplog.at_level(logging.WARNING, "rayvous.test"):
        run(test)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == f"a channel from ? is refused: {CROWDED}", "one line, not one for each"


def test_who_greets_half_and_leaves_or_waits_is_noticed() -> None:
    async def test(loop: FrozenLoop, host: Host) -> None:
        hello = b"".join(Peer(b"x").channel._connection.out)
        for said, why in (
            (b"", None),
            (hello[:1], "it leaves in the middle of the greeting"),
            (hello[:-1], "it leaves in the middle of the greeting"),
            (hello, "it leaves in the middle of the greeting"),
        ):
            stranger = await knock(host)
            await loop.sock_sendall(stranger, said)
            stranger.shutdown(socket.SHUT_WR)
            await closed(stranger)
            assert host.why == ([] if why is None else [why])
            host.why.clear()
            stranger.close()
        half = await knock(host)
        await loop.sock_sendall(half, hello)
        while not any(channel._connection.begun for channel in host._unproven):
            await asyncio.sleep(0)
        loop.ahead += channel_file.GREETING_SECONDS
        assert b"it does not greet in time" in await closed(half)
        assert host.why == ["it does not greet in time"] and not host._unproven
        half.close()

    run(test)


def test_strangers_take_no_room_from_channels_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_file, "OPEN_MAX", 2)

    async def test(loop: FrozenLoop, host: Host) -> None:
        parted: list[bool] = []
        friends = [await friend(host, name, parted.append) for name in (b"1", b"2")]
        strangers = [await knock(host) for _ in range(20)]
        for each in friends:
            assert await each.ask(b"abc") == b"cba"
        assert not parted and len(host.opened()) == 2
        third = await friend(host, b"3", parted.append)
        assert await third.ask(b"xyz") == b"zyx"
        while not parted:
            await asyncio.sleep(0)
        assert parted == [True] and not friends[0].channel.open, (
            "that at rest longest makes room for a friend"
        )
        for stranger in strangers:
            stranger.close()

    run(test)


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


@pytest.mark.slow
@pytest.mark.usefixtures("tls_in_ray")
def test_silent_connections_of_tls_are_few_and_end_in_time() -> None:
    before = channels_alive()

    async def test(loop: FrozenLoop, host: Host) -> None:
        calm, strangers = await friend(host), list[socket.socket]()
        for _ in range(4):
            strangers = [*strangers, *[await knock(host) for _ in range(BATCH)]]
            assert len(host._unproven) <= UNPROVEN_MAX
            assert await calm.ask(b"abc") == b"cba"
        await asyncio.gather(*map(closed, strangers[: len(strangers) - UNPROVEN_MAX]))
        assert len(host._unproven) == UNPROVEN_MAX and channels_alive() - before <= UNPROVEN_MAX + BATCH
        loop.ahead += channel_file.GREETING_SECONDS
        await asyncio.gather(*map(closed, strangers))
        while host._unproven:
            await asyncio.sleep(0)
        assert all(why.startswith("no handshake of TLS") for why in host.why)
        assert await calm.ask(b"abc") == b"cba" and len(host.opened()) == 1
        for stranger in strangers:
            stranger.close()

    run(test)


@pytest.mark.usefixtures("tls_in_ray")
def test_who_has_no_certificate_of_ray_or_speaks_no_tls_is_refused() -> None:
    async def test(loop: FrozenLoop, host: Host) -> None:
        stranger = await knock(host)
        await loop.sock_sendall(stranger, b"".join(Peer(b"x").channel._connection.out))
        await closed(stranger)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        peer, ours = Peer(b"y"), await knock(host)
        await loop.create_connection(lambda: peer.channel, sock=ours, ssl=context, server_hostname="anything")
        assert not await peer.channel.done, "it is closed, although it has the secret"
        while host._unproven:
            await asyncio.sleep(0)
        assert len(host.why) == 2 and all(why.startswith("no handshake of TLS: ") for why in host.why)
        assert not host.opened()
        calm = await friend(host)
        assert await calm.ask(b"abc") == b"cba"
        stranger.close()

    run(test)
