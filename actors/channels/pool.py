"""The channels of one process: the door at which it takes them, and the way to each host that it calls.

Rules
-----
* A way is made when a host is first called. Its first calls go by Ray, which meanwhile says where the host listens;
  once the channel is open, calls go by it (`lanes` keeps their order). Two processes share one connection, whichever
  of them opened it; both may open one at the same moment, and then both stay.
* A channel that cannot be opened within `OPEN_SECONDS` is tried again after `RETRY_SECONDS`; that is said once.
* A channel that ends without a farewell is news: the host is asked at once whether it lives (`_inquire`). A process
  is dead if Ray says so, or if it was on this same node, where nobody listens at its door and the kernel knows no such
  process any more, and Ray does not restart it.
  What was in flight fails as a failed call of Ray does, with Ray's errors.
* A lost channel may hold calls that the host has not read yet, above all if its process stood still. It is told by Ray
  to drop them, ahead of all later calls, so that none of them begins after a later one.
* A process has a bounded number of channels (`OPEN_MAX`). For one more, that at rest longest ends, and is opened again
  when it is needed; while none is at rest, further calls go by Ray.
* A host listens at the address by which Ray knows its node, from when the first process asks for its door.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import resource
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import ray
from ray import ObjectRef
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, RayError
from ray.util.client import ray as client

from ...protocol.configs import CONNECTION_BYTES_MAX
from ..later import Later
from ..logs import Log
from .channel import GREETING_SECONDS, Channel, Refusals, Serve, Waiting
from .config import ChannelConfig, Door, Tls, tls_of_ray
from .connection import NAME_BYTES, NONCE_BYTES, Connection, Self
from .handshakes import Handshake
from .lanes import Lane
from .processes import KNOCK_SECONDS, has_ended
from .replies import Awaited, Reply, follow, packed_error

ByRay = Callable[[], ObjectRef[Any]]

OPEN_SECONDS: Final = 2.0
RETRY_SECONDS: Final = 30.0
INQUIRY_SECONDS: Final = 2.0
SILENT_SECONDS: Final = 10.0
"""How long the machine of another process may be silent, where calls that are lost are repaired."""
GONE_SECONDS: Final = 60.0
"""The same elsewhere: about as long as Ray waits before it gives up a node and all of its processes."""
OPEN_MAX: Final = 4_096
"""Channels of a process, and at most a quarter of the files that it may open; for one more, one at rest ends."""
UNPROVEN_MAX: Final = 256
"""Connections that have not proved themselves; the oldest is closed for one more."""
BACKLOG: Final = 1024
CROWDED: Final = "too many connections have not proved themselves"
LEFT: Final = "this process has left Ray"
FULL: Final = "the process has as many connections as it may have"


class Way:
    """How one process calls one host; used on the event loop of its channels, except `post`.

    Attributes
    ----------
    channel
        The channel, once it has opened; None while calls go by Ray.
    said
        Whether the log says that none can be opened.
    requests
        The lane of all requests of a client process, which another request never overtakes.
    """

    def __init__(self, channels: Channels, actor: Any) -> None:
        self._channels = channels
        self.actor = actor
        self.name: bytes = actor._actor_id.binary()
        self.channel: Channel | None = None
        self.requests = Lane()
        self._posting = threading.RLock()  # requests of threads take turns
        self._passed = 0  # requests that threads have passed to the event loop, which has not made them yet
        self._lanes: dict[Any, Lane] = {}
        self._held: (
            list[tuple[bytes, Reply[Any], ByRay]] | None
        ) = []  # until it is known what carries requests
        self._next_try = 0.0
        self.opening: asyncio.Task[None] | None = None
        self.door: Door | None = None
        self.said = False

    def lane(self, key: Any) -> Lane:
        """Return the lane of one sender of a host."""
        lane = self._lanes.get(key)
        return self._lanes.setdefault(key, Lane()) if lane is None else lane

    def straight(self, key: Any) -> Lane | None:
        """Return the lane of a sender whose next call can go by the channel; None if it cannot, or not yet."""
        channel = self.channel
        if channel is None or not channel.open:
            self._open_in_time()
            return None
        lane = self._lanes.get(key) or self.lane(key)
        return lane if lane.direct or not lane.out else None

    @property
    def opened(self) -> bool:
        """Whether the channel is open."""
        return self.channel is not None and self.channel.open

    @property
    def ready(self) -> bool:
        """Whether the channel is open; if it is not, it is opened for later calls."""
        if self.channel is not None and self.channel.open:
            return True
        self._open_in_time()
        return False

    def prepare(self) -> None:
        """Open the channel if there is none: the host is likely to be called soon."""
        if self.channel is None or not self.channel.open:
            self._open_in_time()

    def _open_in_time(self) -> None:
        """Open the channel, unless that has just failed."""
        if self.opening is None and time.monotonic() >= self._next_try and not self._channels.has_left_ray:
            self.open()

    def open(self) -> None:
        """Open the channel in the background, unless that is under way."""
        if self._channels.has_left_ray:
            self.decide()
        elif self.opening is None:
            self._next_try = time.monotonic() + RETRY_SECONDS
            self.opening = self._channels.open_way(self)

    def try_soon(self) -> None:
        """Do not wait long before the channel is opened again."""
        self._next_try = time.monotonic() + INQUIRY_SECONDS

    # Calls.

    def call(self, lane: Lane, content: bytes, take: Callable[[bytes], None] | None = None) -> Later[bytes]:
        """Make a call by the channel, after `lane.enter`; return the answer, which is given as soon as it comes.

        It is an error, RayTaskError or RayActorError, where a call of Ray raises that. Parts of the answer that come
        before it are given to `take`.
        """
        waiting = Awaited(lane, take)
        channel = self.channel
        if channel is None or not channel.open:
            self._send(content, waiting)  # which fails it
        else:
            channel.call(content, waiting, take is not None)
        return waiting

    def call_straight(self, lane: Lane, content: bytes) -> Later[bytes]:
        """Enter a lane that is `straight`, and make a call by the channel."""
        lane.enter(True)
        waiting = Awaited(lane)
        channel = self.channel
        assert channel is not None
        channel.call(content, waiting)
        return waiting

    def post(self, content: bytes, reply: Reply[Any], by_ray: ByRay) -> None:
        """Make a request, from any thread: by the channel, or by `by_ray` if there is none."""
        if threading.get_ident() == self._channels.thread:
            self._request(content, reply, by_ray)
            return
        with self._posting:
            if not self._passed and self._written(content, reply):
                return
            self._passed += 1
            self._channels.loop.call_soon_threadsafe(self._request_passed, content, reply, by_ray)

    def _written(self, content: bytes, reply: Reply[Any]) -> bool:
        """Write a request to the open channel from another thread; return False if it has to wait for its turn."""
        channel = self.channel
        if channel is None or self._held is not None or not self.requests.enter_channel():
            return False
        reply.lane = self.requests
        if channel.call_from_thread(content, reply):
            return True
        self.requests.leave()
        return False

    def _request_passed(self, content: bytes, reply: Reply[Any], by_ray: ByRay) -> None:
        with self._posting:
            self._passed -= 1
            self._request(content, reply, by_ray)

    def _request(self, content: bytes, reply: Reply[Any], by_ray: ByRay) -> None:
        if self._held is not None:
            self._held.append((content, reply, by_ray))
            if self.opening is None:
                self.open()
        elif self.requests.enter(self.ready):
            reply.lane = self.requests
            self._send(content, reply)
        elif self._channels.has_left_ray:
            self.requests.leave()
            reply.failed(unavailable(LEFT, self.name))
        else:
            try:
                follow(by_ray(), reply, self._left_ray)
            except Exception as error:  # its arguments cannot be sent
                self.requests.leave()
                reply.failed(error)

    def _left_ray(self) -> None:
        with suppress(RuntimeError):  # this process has ended its part
            self._channels.loop.call_soon_threadsafe(self.requests.leave)

    def _send(self, content: bytes, waiting: Waiting) -> None:
        if self.channel is None or not self.channel.open:
            waiting.lane.leave()
            waiting.failed(unavailable("the channel has just ended", self.name))
        else:
            self.channel.call(content, waiting)

    # What happens to the channel.

    def decide(self) -> None:
        """Make the requests that were held until it was known whether there is a channel, ahead of all others."""
        with self._posting:
            held, self._held = self._held, None
            for each in held or ():
                self._request(*each)

    def lost(self) -> None:
        """Hold requests until it is known whether the host lives."""
        self.channel = None
        self._held = [] if self._held is None else self._held

    def end(self) -> None:
        """Make what is held by Ray: this process ends, and opens no channel any more."""
        self._next_try = math.inf
        self.decide()

    def bury(self, error: Exception) -> None:
        """Fail what is held: the host is dead. Later calls learn that from Ray."""
        held, self._held = self._held, None
        self._next_try = math.inf
        for _, reply, _ in held or ():
            reply.failed(error)


class Channels:
    """The channels of one process, or of one part of it with an event loop of its own.

    Parameters
    ----------
    config
        The network's.
    loop
        The event loop that carries the channels; None for that on which the first way is made, or the door.
    name
        The name of the process in greetings: the id of its actor, for a host. None draws one.
    serve
        Carries out calls of other processes; None for a process that takes none.
    heals
        Whether the network heals: then Ray restarts no host, and what is lost is sent again.
    died
        Called with the actor of a host that was found dead.
    log
        Of the process.
    unread_bytes_max
        How much waits in each channel for the other end to read it (`Limits.connection_bytes_max`).
    """

    def __init__(
        self,
        config: ChannelConfig,
        loop: asyncio.AbstractEventLoop | None = None,
        name: bytes | None = None,
        serve: Serve | None = None,
        heals: bool = True,
        died: Callable[[Any], None] = lambda actor: None,
        log: Log | None = None,
        unread_bytes_max: int = CONNECTION_BYTES_MAX,
    ) -> None:
        self._unread_bytes_max = unread_bytes_max
        self._loop = loop
        self.thread: int | None = None  # that runs the loop
        self._config = config
        self._me = Self(config.network, name or secrets.token_bytes(NAME_BYTES), config.secret)
        self._serve = serve
        self._heals = heals
        self._died = died
        self._log = log or Log("rayvous.channels")
        self._refusals = Refusals(self._log, time.monotonic)
        self._ways: dict[Any, Way] = {}
        self._by_name: dict[bytes, Way] = {}
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._joined = ray.is_initialized()
        self._most = OPEN_MAX if files == resource.RLIM_INFINITY else min(OPEN_MAX, files // 4)
        self._proven: dict[Channel, None] = {}
        self._unproven: dict[Channel, None] = {}
        self._taken: dict[bytes, Channel] = {}  # opened by others
        self._door: Door | None = None
        self.server: asyncio.Server | None = None
        self._opening_door = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that carries the channels."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    @property
    def has_left_ray(self) -> bool:
        """Whether this process has left the Ray that it was in: a call of Ray would now join or start another."""
        return self._joined and not ray.is_initialized()

    # Ways to hosts.

    def way(self, actor: Any) -> Way:
        """Return the way to a host; the same one for each call."""
        way = self._ways.get(actor)
        if way is None:
            way = self._ways.setdefault(actor, Way(self, actor))
            self._by_name[way.name] = way
        return way

    def carriers(self) -> tuple[int, int]:
        """Return to how many hosts there is a channel, and to how many none could be opened."""
        direct = sum(way.channel is not None for way in self._ways.values())
        return direct, sum(way.channel is None and way.said for way in self._ways.values())

    def opened(self) -> list[Channel]:
        """Return every open channel of this process."""
        every = (*self._taken.values(), *(way.channel for way in self._ways.values()))
        return [channel for channel in dict.fromkeys(every) if channel is not None and channel.open]

    def open_way(self, way: Way) -> asyncio.Task[None]:
        """Open the channel of a way in the background."""
        self.thread = threading.get_ident()
        return self._go(self._open(way))

    def _go(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _open(self, way: Way) -> None:
        try:
            known = self._taken.get(way.name)
            if known is not None and known.open:
                channel = known
                self._go(self._learn_door(way))
            else:
                channel = await self._opened(way)
            if (
                way.channel is None or not way.channel.open
            ):  # else the other end was first, and calls are on it
                way.channel = channel
            way.said = False
        except ActorDiedError as error:
            self._forget(way, error)
        except RayActorError:
            way.try_soon()  # the calls by Ray find that, too
        except (OSError, TimeoutError, RayError) as error:
            level = logging.DEBUG if way.said else logging.WARNING
            where = "" if way.door is None else f" at {way.door.address} port {way.door.port}"
            way.said = True
            why = error or "no answer in time"
            said = "no channel to a host%s (%s): its calls go by Ray; tried again every %g s"
            self._log.log(level, said, where, why, RETRY_SECONDS)
        finally:
            way.opening = None
            way.decide()

    def _forget(self, way: Way, error: RayActorError) -> None:
        """Let go of a host that is dead for good."""
        self._ways.pop(way.actor, None)
        self._by_name.pop(way.name, None)
        way.bury(error)

    async def _learn_door(self, way: Way) -> None:
        """Note the door of a host that has opened the channel itself; it is asked there when the channel is lost."""
        with suppress(RayError, TimeoutError):
            async with asyncio.timeout(OPEN_SECONDS):
                way.door = await way.actor.door.remote()

    async def _opened(self, way: Way) -> Channel:
        """Return a new channel to a host.

        Raises
        ------
        OSError, TimeoutError
            If there is none in time.
        """
        if self._is_full():
            raise OSError(FULL)
        channel = None
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                way.door = await way.actor.door.remote()
                if way.door is None:
                    raise OSError("the host has no door")
                channel = await self._knock(way.door)
                if not await asyncio.shield(channel.done) or not channel.open:
                    raise OSError(channel.why)
            if channel.peer != way.name:
                raise OSError("another process answers there")
        except BaseException:
            if channel is not None:
                channel.abort("it is of no use")
            raise
        return channel

    async def _knock(self, door: Door) -> Channel:
        _, channel = await self.loop.create_connection(
            lambda: self._channel(opens=True), door.address, door.port, **_tls(tls_of_ray(server=False))
        )
        return channel

    def _is_full(self) -> bool:
        """Return whether there may be no further channel: so many are open, and none is at rest.

        Those that were told to part, and whose other ends do not answer, count up to as many again.
        """
        most = self._most
        return len(self._proven) >= most and (len(self._proven) >= 2 * most or not self._resting())

    def _resting(self) -> list[Channel]:
        return [channel for channel in self._proven if channel.open and channel.at_rest]

    def _make_room(self, newest: Channel) -> None:
        """Let the channel that is at rest longest end for one that has proved itself; no other has this effect."""
        if len(self._proven) > self._most:
            resting = [channel for channel in self._resting() if channel is not newest]
            if resting:
                min(resting, key=lambda channel: channel.used_at).retire()

    def _channel(self, *, opens: bool) -> Channel:
        connection: Connection[Waiting] = Connection(self._me, opens, secrets.token_bytes(NONCE_BYTES))
        channel = Channel(
            connection,
            self._serve,
            packed_error,
            self._has_opened,
            self._has_ended,
            self._has_refused,
            SILENT_SECONDS if self._heals else GONE_SECONDS,
            FULL if not opens and self._is_full() else "",
            self._unread_bytes_max,
        )
        if not opens:
            self._unproven[channel] = None
            while len(self._unproven) > UNPROVEN_MAX:
                oldest = next(iter(self._unproven))
                del self._unproven[oldest]
                oldest.abort(CROWDED)
                self._refusals.add(oldest.source, CROWDED)
        return channel

    # What happens to channels.

    def _has_opened(self, channel: Channel) -> None:
        self._proven[channel] = None
        self._make_room(channel)
        if channel in self._unproven:
            del self._unproven[channel]
            assert channel.peer is not None
            self._taken[channel.peer] = channel
            way = self._by_name.get(channel.peer)
            if way is not None and way.channel is None:
                way.channel = channel
                way.decide()
                self._go(self._learn_door(way))

    def _has_refused(self, channel: Channel, why: str) -> None:
        self._refusals.add(channel.source, why)

    def _has_ended(self, channel: Channel, lost: list[Waiting], parted: bool) -> None:
        self._unproven.pop(channel, None)
        self._proven.pop(channel, None)
        if channel.peer is None:
            return
        if self._taken.get(channel.peer) is channel:
            del self._taken[channel.peer]
        way = self._by_name.get(channel.peer)
        if way is not None and way.channel is channel:
            way.lost()
        inquired = None if parted or self.has_left_ray else way
        if inquired is not None and lost:
            with suppress(RayError):
                inquired.actor.drop_channel.remote(channel.number)  # before a later call can be made
        for waiting in lost:
            waiting.lane.leave()
        if inquired is None:
            for waiting in lost:
                waiting.failed(unavailable(channel.why, channel.peer))
            if way is not None and self.has_left_ray:
                way.bury(unavailable(LEFT, way.name))
        else:
            self._go(self._inquire(inquired, lost, channel.why))

    async def _inquire(self, way: Way, lost: list[Waiting], why: str) -> None:
        """Ask whether a process is dead whose channel has been lost; tell those who wait."""
        error: RayActorError = unavailable(why, way.name)
        try:
            dead = await self._nobody_listens(way) or await self._ray_says_dead(way)
            error = ActorDiedError() if dead else error
        except asyncio.CancelledError:  # this process ends
            way.decide()
            raise
        finally:
            for waiting in lost:
                waiting.failed(error)
        if dead:
            self._log.debug("a host is dead: its channel was lost (%s)", why)
            self._forget(way, error)
            self._died(way.actor)
        elif way.channel is None:
            way.open()
        else:
            way.decide()  # another connection has opened meanwhile

    async def _nobody_listens(self, way: Way) -> bool:
        """Return whether a host of this node is gone, whose door refuses connections, and nobody restarts it."""
        door = way.door
        if door is None or not self._heals or door.node != node_here():
            return False
        try:
            async with asyncio.timeout(KNOCK_SECONDS):
                _, writer = await asyncio.open_connection(door.address, door.port)
            writer.close()
        except ConnectionRefusedError:
            return await has_ended(door.pid)
        except (OSError, TimeoutError):
            return False
        return False

    async def _ray_says_dead(self, way: Way) -> bool:
        try:
            async with asyncio.timeout(INQUIRY_SECONDS):
                await way.actor.pid.remote()
        except ActorDiedError:
            return True
        except Exception:
            return False
        return False

    # The door.

    async def door(self) -> Door:
        """Return where this process takes channels; it begins to listen when it is first asked.

        Raises
        ------
        OSError
            If it cannot listen.
        """
        async with self._opening_door:
            if self._door is None:
                address = ray.util.get_node_ip_address().strip("[]")  # of version 6
                first, last = self._config.ports or (0, 0)
                ports = list(range(first, last + 1))
                random.shuffle(ports)  # many hosts of a node begin at the same moment
                self.server = await self.listen(address, ports)
                port = self.server.sockets[0].getsockname()[1]
                self._door = Door(node_here(), self._me.name, address, port, os.getpid())
            return self._door

    async def listen(self, address: str, ports: Sequence[int]) -> asyncio.Server:
        """Take channels at the first of these ports that is free.

        Raises
        ------
        OSError
            If none is.
        """
        tls = tls_of_ray(server=True)

        def accepted() -> asyncio.Protocol:
            channel = self._channel(opens=False)
            return channel if tls is None else Handshake(channel, tls)

        for port in ports:
            try:
                return await self.loop.create_server(accepted, address, port, backlog=BACKLOG)
            except OSError as error:
                failed = error
        raise OSError(f"no port from {min(ports)} to {max(ports)} is free at {address}: {failed}")

    def drop(self, number: bytes) -> None:
        """End a channel that its other end has lost, and read nothing of it any more."""
        for channel in [channel for channel in self._proven if channel.number == number]:
            channel.abort("the other end has lost it")

    async def close(self) -> None:
        """Take leave of every peer."""
        for task in list(self._tasks):
            task.cancel()
        for way in self._ways.values():
            way.end()
        if self.server is not None:
            self.server.close()
        for channel in self.opened():
            channel.part()
        for unproven in list(self._unproven):
            unproven.abort("this process ends")
        await asyncio.sleep(0)  # the farewells are written


def _tls(tls: Tls | None) -> dict[str, Any]:
    """Return the options of a connection with these settings, whose handshake takes no longer than a greeting."""
    return {} if tls is None else {"ssl": tls.context, "ssl_handshake_timeout": GREETING_SECONDS}


def node_here() -> str:
    """Return the Ray node of this process; "" outside Ray, and for a client outside the cluster."""
    if not ray.is_initialized() or client.is_connected():
        return ""  # of a client Ray would name the node of its server
    return str(ray.get_runtime_context().get_node_id())


def unavailable(why: str, name: bytes) -> ActorUnavailableError:
    """Return the error of a call whose outcome is unknown."""
    return ActorUnavailableError(why, name)
