"""Where a host listens, and what it means that nobody listens any more."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Ray
from rayvous.actors.channels import pool as pool_file
from rayvous.actors.channels import processes
from rayvous.actors.channels.config import ChannelConfig, Door
from rayvous.actors.channels.pool import Channels, Way
from rayvous.actors.channels.processes import has_ended


class Actor:
    _actor_id = SimpleNamespace(binary=lambda: b"h" * 16)


DOOR = Door("node", b"h" * 16, "10.0.0.9", 20000, pid=77)


@pytest.fixture(autouse=True)
def _node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_file, "node_here", lambda: "node")
    Ray(monkeypatch, pool_file).joined = False


def door_of(ports: tuple[int, int] | None, use: Callable[[Channels, Door], None] = lambda *_: None) -> Door:
    async def test() -> Door:
        channels = Channels(ChannelConfig(b"n" * 16, b"s" * 32, ports), name=b"h" * 16)
        door = await channels.door()
        assert await channels.door() == door
        use(channels, door)
        await channels.close()
        return door

    return asyncio.run(test())


def test_a_host_listens_at_the_address_of_its_node_alone() -> None:
    def alone(channels: Channels, door: Door) -> None:
        assert channels.server is not None
        assert [each.getsockname() for each in channels.server.sockets] == [("127.0.0.1", door.port)]

    door = door_of(None, alone)
    assert (door.node, door.name, door.pid) == ("node", b"h" * 16, os.getpid()) and door.port


def test_it_listens_at_a_free_port_of_the_range_or_says_that_there_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"no port from {port} to {port} is free at 127.0.0.1"):
            door_of((port, port))
    last = min(port + 50, 65_535)
    assert port <= door_of((port, last)).port <= last


def nobody_listens(
    monkeypatch: pytest.MonkeyPatch,
    answer: Exception | None,
    door: Door | None = DOOR,
    heals: bool = True,
    ended: bool = True,
) -> bool:
    async def has_ended(pid: int) -> bool:
        assert pid == DOOR.pid
        return ended

    monkeypatch.setattr(pool_file, "has_ended", has_ended)

    async def knock(*_: Any) -> Any:
        if answer is not None:
            raise answer
        return None, SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(pool_file.asyncio, "open_connection", knock)

    async def test() -> bool:
        channels = Channels(ChannelConfig(b"n" * 16, b"s" * 32), heals=heals)
        way: Way = channels.way(Actor())
        way.door = door
        return await channels._nobody_listens(way)

    return asyncio.run(test())


def test_a_refused_connection_on_the_same_node_says_that_the_process_is_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = ConnectionRefusedError()
    assert nobody_listens(monkeypatch, refused)
    assert not nobody_listens(monkeypatch, refused, ended=False), "it lives, and only its door is shut"
    assert not nobody_listens(monkeypatch, None), "it takes connections"
    assert not nobody_listens(monkeypatch, TimeoutError()), "it is stopped, or slow"
    assert not nobody_listens(monkeypatch, OSError("no route")), "it is cut off"
    assert not nobody_listens(monkeypatch, refused, DOOR._replace(node="other")), "a firewall may refuse"
    assert not nobody_listens(monkeypatch, refused, heals=False), "Ray may restart it"
    assert not nobody_listens(monkeypatch, refused, door=None)


def test_the_kernel_says_whether_a_process_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "KNOCK_SECONDS", 0.01)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not asyncio.run(has_ended(process.pid))
        monkeypatch.setattr(processes, "KNOCK_SECONDS", 10.0)

        async def killed_meanwhile() -> bool:
            asyncio.get_running_loop().call_soon(process.send_signal, signal.SIGKILL)
            return await has_ended(process.pid)

        assert asyncio.run(killed_meanwhile())
        assert asyncio.run(has_ended(process.pid)), "also while nobody has asked how it ended"
    assert asyncio.run(has_ended(process.pid))
    assert not asyncio.run(has_ended(-1)), "the system cannot tell"
