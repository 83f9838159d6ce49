"""Channels over real connections of one process: many strangers, certificates, and addresses of both versions."""

import asyncio
import gc
import resource
import socket
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import ray
from patience import PATIENCE_SECONDS
from rayvous.actors.channels import pool as pool_file
from rayvous.actors.channels.channel import Channel
from rayvous.actors.channels.config import ChannelConfig, Door
from rayvous.actors.channels.pool import UNPROVEN_MAX, Channels, Way
from rayvous.actors.host.frames import packed, unpacked

CONFIG = ChannelConfig(b"n" * 16, b"s" * 32)
STRANGERS = 10_000
BATCH = 250
SPARE_FILES = 1_000
GROWTH_BYTES_MAX = 64 * 1024 * 1024


def has_version_6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


class Host:
    """A host with a door, as a process that calls it knows it."""

    def __init__(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pool_file, "node_here", lambda: "node")
        monkeypatch.setattr(pool_file, "OPEN_SECONDS", PATIENCE_SECONDS)
        known = SimpleNamespace(get_node_ip_address=lambda: address)
        monkeypatch.setattr(pool_file, "ray", SimpleNamespace(util=known, is_initialized=lambda: False))
        self._actor_id = SimpleNamespace(binary=lambda: b"h" * 16)
        self.door = SimpleNamespace(remote=self._door)
        self.pid = SimpleNamespace(remote=self._door)
        self.drop_channel = SimpleNamespace(remote=lambda number: self.channels.drop(number))
        self.channels = Channels(CONFIG, name=b"h" * 16, serve=self._serve)

    async def _serve(self, content: bytes) -> bytes:
        return packed(("served", unpacked([content])))

    async def _door(self) -> Door:
        return await self.channels.door()


async def opened(host: Host) -> tuple[Channels, Way]:
    """Return the channels of a client process, and its way to the host, whose channel is open."""
    client = Channels(CONFIG, loop=asyncio.get_running_loop())
    way = client.way(host)
    if not way.ready:
        assert way.opening is not None
        await way.opening
    return client, way


async def ask(way: Way, what: Any) -> Any:
    lane = way.lane("test")
    assert lane.enter(way.ready), "there is a channel"
    return unpacked([await way.call(lane, packed(what))])


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await test()

    asyncio.run(bounded())


def test_thousands_of_connections_that_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number and memory are bounded, each is closed in time, and a channel goes on meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files = STRANGERS if hard == resource.RLIM_INFINITY else min(STRANGERS, hard - SPARE_FILES)
    process, host = psutil.Process(), Host("127.0.0.1", monkeypatch)

    async def test() -> None:
        client, way = await opened(host)
        door, loop = await host.channels.door(), asyncio.get_running_loop()
        at_first = process.memory_info().rss
        with ExitStack() as every:
            for first in range(0, files, BATCH):
                for _ in range(BATCH):
                    stranger = every.enter_context(socket.socket())
                    stranger.setblocking(False)
                    await loop.sock_connect(stranger, (door.address, door.port))
                assert await ask(way, first) == ("served", first)
                assert len(host.channels._unproven) <= UNPROVEN_MAX
            assert process.memory_info().rss - at_first < GROWTH_BYTES_MAX
            gc.collect()
            assert sum(isinstance(each, Channel) for each in gc.get_objects()) <= UNPROVEN_MAX + BATCH
            while await loop.sock_recv(stranger, 1_000):  # the last one is told why
                pass
            while host.channels._unproven:
                await asyncio.sleep(0)
            assert await ask(way, "after") == ("served", "after")
            assert len(host.channels.opened()) == 1
        await client.close()
        await host.channels.close()

    try:
        run(test)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def certified(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an authority and a certificate signed by it, and let this process use them as Ray does."""
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    here = (
        f"subjectAltName=IP:127.0.0.1,IP:{ray.util.get_node_ip_address()},DNS:localhost"  # Ray looks at them
    )
    made = {part: str(folder / f"{name}-{part}.pem") for part in ("ca", "ca-key", "cert", "key", "request")}
    for words in (
        ["req", "-x509", *curve, "-days", "2", "-subj", f"/CN={name}", "-out", made["ca"], "-keyout", made["ca-key"]],
        ["req", *curve, "-subj", "/CN=ray", "-addext", here, "-out", made["request"], "-keyout", made["key"]],
        ["x509", "-req", "-in", made["request"], "-CA", made["ca"], "-CAkey", made["ca-key"], "-CAcreateserial",
         "-days", "2", "-copy_extensions", "copy", "-out", made["cert"]],
    ):  # fmt: skip
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    monkeypatch.setenv("RAY_USE_TLS", "1")
    for variable, part in (("SERVER_CERT", "cert"), ("SERVER_KEY", "key"), ("CA_CERT", "ca")):
        monkeypatch.setenv(f"RAY_TLS_{variable}", made[part])


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "[::1]"])
def test_a_host_is_reached_at_its_own_address_only(
    address: str, tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ":" in address and not has_version_6():
        pytest.skip("this machine has no address of version 6")
    if tls:
        certified(tmp_path, "ours", monkeypatch)
    host = Host(address, monkeypatch)

    async def test() -> None:
        client, way = await opened(host)
        large = bytes(range(256)) * 20_000
        assert await ask(way, large) == ("served", large)
        assert way.channel is not None and way.channel.source == address.strip("[]")
        assert way.channel.transport is not None
        assert (way.channel.transport.get_extra_info("ssl_object") is not None) == tls
        door = await host.channels.door()
        assert door.address == address.strip("[]")
        for other in ("127.0.0.1", "127.0.0.2", "::1"):
            if other != door.address and (":" not in other or has_version_6()):
                with pytest.raises(ConnectionRefusedError), socket.create_connection((other, door.port)):
                    pass
        await client.close()
        await host.channels.close()

    run(test)


def test_who_has_the_secret_and_a_certificate_of_another_authority_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified(tmp_path, "ours", monkeypatch)
    host = Host("127.0.0.1", monkeypatch)

    async def test() -> None:
        await host.channels.door()
        with monkeypatch.context() as elsewhere:
            certified(tmp_path, "theirs", elsewhere)
            _, way = await opened(host)
            assert way.channel is None and way.said
        client, way = await opened(host)
        assert await ask(way, 1) == ("served", 1)
        await client.close()
        await host.channels.close()

    run(test)


def test_channels_where_ray_runs_with_tls(
    found_by: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified(tmp_path, "ray", monkeypatch)
    found = found_by("with_tls.py")
    assert found["came"] == list(range(50))
    assert len(found["protocols"]) == 2 and all(each.startswith("TLS") for each in found["protocols"])
    assert found["by_ray"] == [0, 0], "every host is reached by a channel"
