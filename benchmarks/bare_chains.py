"""Chains of three Ray actors that only forward: what three brokers in a row are compared with.

One is joined by calls of Ray, the other by connections of their own, which is the least that any design with
sockets can do. Both have one call in flight per link, and end where the driver waits, as it does for a
subscriber's broker: in a long poll, or at a connection. The chain of sockets forwards the bytes of a batch
unread; only the driver writes them, and only the last actor reads them.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Final, Self

import ray

from ..actors.host.frames import packed, unpacked
from ..protocol.batch import EventBatch

ACTORS: Final = 3
HEAD: Final = struct.Struct("!I?")
"""Before each content: its length, and whether it is answered when there is room for more."""
WAIT_SECONDS: Final = 60.0


class _Actor:
    """An actor of a chain; tells the CPU time of its process."""

    async def cpu_seconds(self) -> float:
        return time.process_time()


class _BareChain:
    """What both chains have in common: three actors, from the first to the last."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.actors: list[Any] = make()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for actor in self.actors:
            ray.kill(actor)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the three processes have used so far."""
        used: list[float] = ray.get([actor.cpu_seconds.remote() for actor in self.actors])
        return sum(used)


# Joined by calls of Ray.


class _CalledActor(_Actor):
    """Forwards its input, with one call in flight; the last actor stores it for the driver's poll."""

    def __init__(self, following: Any) -> None:
        self._following = following
        self._kept: list[Any] = []
        self._events = 0
        self._arrived = asyncio.Event()
        self._flying = asyncio.Lock()

    async def take(self, payload: object) -> None:
        if self._following is None:
            self._kept.append(payload)
            self._arrived.set()
        else:
            asyncio.get_running_loop().create_task(self._pass_on(payload))

    async def take_when_free(self, payload: Any) -> None:
        """Accept a batch and return when there is room for the next."""
        if self._following is None:
            self._events += len(payload)
            self._arrived.set()
            return
        await self._flying.acquire()
        asyncio.get_running_loop().create_task(self._pass_on_and_free(payload))

    async def _pass_on_and_free(self, payload: Any) -> None:
        try:
            await self._following.take_when_free.remote(payload)
        finally:
            self._flying.release()

    async def arrived(self, events: int) -> None:
        """Return when that many events have arrived."""
        while self._events < events:
            self._arrived.clear()
            await self._arrived.wait()

    async def _pass_on(self, payload: Any) -> None:
        await self._following.take.remote(payload)

    async def poll(self) -> list[Any]:
        while not self._kept:
            self._arrived.clear()
            await self._arrived.wait()
        kept, self._kept = self._kept, []
        return kept


class RayChain(_BareChain):
    """Three actors joined by calls of Ray."""

    def __init__(self) -> None:
        actor = ray.remote(_CalledActor).options(num_cpus=0, max_concurrency=1000)

        def make() -> list[Any]:
            chain: list[Any] = []
            for _ in range(ACTORS):
                chain.insert(0, actor.remote(chain[0] if chain else None))
            return chain

        super().__init__(make)
        self._first, self._last = self.actors[0], self.actors[-1]
        self._carried = 0

    def latency(self, number: int) -> float:
        """Return the latency of one event to the driver, which polls the last actor."""
        poll = self._last.poll.remote()
        sent = time.time()
        taken = self._first.take.remote({"ping": True, "number": number, "sent": sent})
        ray.get(poll)
        seconds = time.time() - sent
        ray.get(taken)
        return seconds

    def carry(self, batches: list[EventBatch]) -> None:
        """Send batches through the chain, and return when the last actor has all of them."""
        for batch in batches:
            ray.get(self._first.take_when_free.remote(batch))
        self._carried += sum(map(len, batches))
        ray.get(self._last.arrived.remote(self._carried))


# Joined by connections.


class _Frames(asyncio.Protocol):
    """One end of a connection in an actor."""

    def __init__(self, take: Callable[[_Frames, bytes, bool], None]) -> None:
        self._take = take
        self._held = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        while len(self._held) >= HEAD.size:
            length, answered = HEAD.unpack_from(self._held)
            stop = HEAD.size + length
            if len(self._held) < stop:
                return
            content = bytes(self._held[HEAD.size : stop])
            del self._held[:stop]
            self._take(self, content, answered)

    def send(self, content: bytes, answered: bool = False) -> None:
        self._transport.write(HEAD.pack(len(content), answered) + content)


class _JoinedActor(_Actor):
    """Forwards what arrives at its connections; the last actor passes it to the driver, or counts its events."""

    def __init__(self) -> None:
        self._following: _Frames | None = None
        self._driver: _Frames | None = None
        self._server: asyncio.Server | None = None
        self._flying = False
        self._kept: tuple[_Frames, bytes] | None = None  # a batch that waits, and its sender

    async def begin(self, following: tuple[str, int] | None) -> tuple[str, int]:
        """Connect to the next actor; return where this one listens."""
        loop = asyncio.get_running_loop()
        if following is not None:
            _, self._following = await loop.create_connection(lambda: _Frames(self._free), *following)
        address = ray.util.get_node_ip_address()
        self._server = await loop.create_server(lambda: _Frames(self._take), address, 0)
        return address, self._server.sockets[0].getsockname()[1]

    def _take(self, sender: _Frames, content: bytes, answered: bool) -> None:
        if not content:
            self._driver = sender  # it reads here
        elif self._following is None:
            assert self._driver is not None
            if answered:
                sender.send(b"")
                content = len(unpacked([content])).to_bytes(8, "big")
            self._driver.send(content)
        elif not answered:
            self._following.send(content)
        elif self._flying:
            self._kept = sender, content
        else:
            self._fly(sender, content)

    def _fly(self, sender: _Frames, content: bytes) -> None:
        assert self._following is not None
        self._flying = True
        self._following.send(content, True)
        sender.send(b"")

    def _free(self, following: _Frames, content: bytes, answered: bool) -> None:
        self._flying = False
        if self._kept is not None:
            (sender, waiting), self._kept = self._kept, None
            self._fly(sender, waiting)


class SocketChain(_BareChain):
    """Three actors joined by connections; the driver writes to the first and reads from the last, in its thread."""

    def __init__(self) -> None:
        actor = ray.remote(_JoinedActor).options(num_cpus=0, max_concurrency=1000)
        super().__init__(lambda: [actor.remote() for _ in range(ACTORS)])
        places: list[Any] = [None]
        for each in reversed(self.actors):
            places.append(ray.get(each.begin.remote(places[-1])))
        self._first, self._last = (socket.create_connection(places[at], WAIT_SECONDS) for at in (-1, 1))
        for each in (self._first, self._last):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._last.sendall(HEAD.pack(0, False))

    def __exit__(self, *error: object) -> None:
        self._first.close()
        self._last.close()
        super().__exit__(*error)

    def latency(self, number: int) -> float:
        """Return the latency of one event to the driver."""
        sent = time.time()
        content = packed({"ping": True, "number": number, "sent": sent})
        self._first.sendall(HEAD.pack(len(content), False) + content)
        unpacked([_read(self._last)])
        return time.time() - sent

    def carry(self, batches: list[EventBatch]) -> None:
        """Send batches through the chain, and return when the last actor has all of them."""
        for batch in batches:
            content = packed(batch)
            self._first.sendall(HEAD.pack(len(content), True) + content)
            _read(self._first)
        left = sum(map(len, batches))
        while left:
            left -= int.from_bytes(_read(self._last), "big")


def _read(source: socket.socket) -> bytes:
    """Return the next content of a connection."""
    length, _ = HEAD.unpack(_exactly(source, HEAD.size))
    return _exactly(source, length)


def _exactly(source: socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        some = source.recv(size - len(content))
        if not some:
            raise ConnectionError("the chain has ended")
        content += some
    return bytes(content)
