"""The client side of one process: its background loop, and the long polls that fetch its notifications.

A driver cannot be called, so it fetches. One loop in a thread of its own polls every host that has a subscriber
of this process, and puts arrivals into the subscribers' inboxes. When an inbox is full the poll waits, the
broker's queue fills, and publishers slow down (promise 9).

A poll also detects the death of its host and, in a network that heals, its silence. Polls are short there, and
clients leave a host that does not answer one within `client_patience_seconds`. Every client is therefore
watched here, publishers included, and is told to move. A host that was left is told so, and ends the session of
this process when it responds again. A host may also have given up this process, for example because the process
was stalled. The clients then move to another broker; in a network that does not heal, they are told.

A process that serves on an event loop of its own, as a gateway does, may have all this on that loop instead of in a
thread. Then channels, polls, inboxes and the readers of these inboxes are in one thread, and nothing is handed over.

Another process may take over the name of a client. The next poll says so, and the client is lost. Publishers in a
network that does not heal are not polled for: the process gives their hosts a sign of life periodically.

If brokers compare state, every client reports from time to time what it has received or published
(`recovery.membership.comparing`).
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError

from ...clients.places import Owner, taken_over
from ...protocol.configs import CONNECTION_BYTES_MAX
from ...protocol.errors import BrokerUnavailable, ClientError, NameTaken, StorageFailed
from ...protocol.ids import BrokerId, ClientId
from ..channels.config import ChannelConfig
from ..channels.pool import Channels
from ..forks import require_same_process
from ..host.handle import HostHandle
from ..host.sessions import Farewell, Proposal, Taken
from ..logs import Log
from .arrivals import Arrivals
from .inbox import Inbox
from .nearness import Nearness

POLL_SECONDS: Final = 20.0
COME_BACK_SECONDS: Final = 0.1
CLOSED: Final = "the network is closed in this process: attach to it again"
BEATS_A_SESSION: Final = 4
"""How often in the time of a session a process of publishers gives a sign of life."""
PROCESS: Final = uuid.uuid4().hex
"""Names this process of the operating system, together with its id."""
GIVEN_UP: Final = "its broker has let it go, as this process was silent for too long: subscribe again"


T = TypeVar("T")


def _job() -> str | None:
    """Return the job of this process in Ray, which is another one each time it joins; None outside Ray."""
    return ray.get_runtime_context().get_job_id() if ray.is_initialized() else None


def _same(one: Any, other: Any) -> bool:
    """Return whether these are handles of one actor. Usually they are one object, which is quicker to compare."""
    return one is other or bool(one == other)


class Mover(Protocol):
    """A client that moves to another broker when its own fails."""

    name: ClientId
    kind: str

    @property
    def host(self) -> Any:
        """The actor of the client's broker."""
        ...

    @property
    def broker(self) -> BrokerId:
        """The client's broker."""
        ...

    async def go_from(self, broker: BrokerId) -> None:
        """Go to another broker if the client is still at this one, which leaves the network."""
        ...

    async def go_to(self, broker: BrokerId) -> None:
        """Go to the broker that was proposed."""
        ...

    async def move(self, left: Any, dead: bool) -> None:
        """Go to another broker if the client is still at this actor, which is dead or does not answer."""
        ...

    def say(self) -> None:
        """Tell the broker what the client knows, for comparison."""
        ...


class Holder(Protocol):
    """A client, which has a name."""

    name: ClientId
    kind: str
    ticket: str

    @property
    def host(self) -> Any:
        """The actor of the client's broker."""
        ...

    def lose(self, error: NameTaken) -> None:
        """Record that another process has taken over the name."""
        ...


class ClientProcess:
    """The pollers of one process in one network.

    Parameters
    ----------
    network
        The network's name, for the log and the thread's name.
    patience_seconds
        How long a host may be silent; None in a network that does not heal.
    returns
        Whether a dead host is restarted and resumes, as those of stable brokers do.
    compare_seconds
        How often clients report what they know; None where brokers do not compare state.
    session_seconds
        How long hosts remember a process that gives no sign of life.
    channels
        How hosts are reached directly; None in a network whose links are calls of Ray.
    unread_bytes_max
        How much waits in a connection for a host to read it (`Limits.connection_bytes_max`).
    here
        Whether it lives on the running event loop, which must run until after `close`, instead of in a thread.
    """

    def __init__(
        self,
        network: str,
        patience_seconds: float | None = None,
        returns: bool = False,
        compare_seconds: float | None = None,
        session_seconds: float = 60.0,
        channels: ChannelConfig | None = None,
        unread_bytes_max: int = CONNECTION_BYTES_MAX,
        *,
        here: bool = False,
    ) -> None:
        self._log = Log("rayvous.client", network=network)
        self.session = uuid.uuid4().hex
        self._job = _job()
        self.nearness = Nearness(self.session)
        self._patience_seconds = patience_seconds
        self._compare_seconds = compare_seconds
        self._session_seconds = session_seconds
        self._saying: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._holders: dict[tuple[str, ClientId], Holder] = {}
        self._loop = asyncio.get_running_loop() if here else asyncio.new_event_loop()
        self._channels: Channels | None = None
        self._returns = returns
        self._brokers: dict[ClientId, BrokerId] = {}
        self._inboxes: dict[ClientId, Inbox] = {}
        self._polls: dict[Any, asyncio.Task[None]] = {}
        self._movers: list[Mover] = []
        self._expected: Counter[Any] = Counter()
        self._moves: set[asyncio.Task[None]] = set()
        self.given_up: Counter[Any] = Counter()  # how often clients left each host because it was silent
        self.ending = False  # whether this process is about to end the network, so that no client moves
        self._taking = threading.Lock()
        self._closed = False
        self._submitted: set[Future[Any]] = set()
        self._thread: threading.Thread | None = None
        self._ident: int | None = threading.get_ident()  # of the thread that runs the event loop
        if not here:
            self._thread = threading.Thread(target=self._run, name=f"rayvous-{network}", daemon=True)
            self._thread.start()
            self._ident = self._thread.ident
        if channels is not None:
            heals, most = patience_seconds is not None, unread_bytes_max
            self._channels = Channels(channels, self._loop, heals=heals, log=self._log, unread_bytes_max=most)
            self._channels.thread = self._ident

    def handle(self, host: Any) -> HostHandle:
        """Return the handle by which clients of this process call a host."""
        return HostHandle(host, self._channels)

    def carriers(self) -> tuple[int, int]:
        """Return to how many hosts this process has a channel, and to how many it could open none."""
        return (0, 0) if self._channels is None else self._channels.carriers()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    @property
    def is_here(self) -> bool:
        """Whether the calling thread runs the event loop."""
        return threading.get_ident() == self._ident

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop on which everything here happens."""
        return self._loop

    @property
    def returns(self) -> bool:
        """Whether a dead host is restarted and resumes, as those of stable brokers do."""
        return self._returns

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the background loop.

        Raises
        ------
        ClientError
            If the network is closed in this process.
        """
        try:
            require_same_process()
        except ClientError:
            work.close()
            raise
        with self._taking:
            if self._closed:
                work.close()
                raise ClientError(CLOSED)
            submitted = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._submitted.add(submitted)
        submitted.add_done_callback(self._submitted.discard)
        return submitted

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the background loop and return its result; like `submit`, and also if closed meanwhile."""
        if self.is_here:
            work.close()
            raise RuntimeError("an event loop cannot wait for itself: await this instead")
        try:
            return self.submit(work).result()
        except CancelledError:
            raise ClientError(CLOSED) from None

    def _change(self, make: Callable[[], T]) -> T:
        """Change something on the event loop, at once, from any thread; like `run`."""
        if self.is_here:
            require_same_process()
            if self._closed:
                raise ClientError(CLOSED)
            return make()

        async def change() -> T:
            return make()

        return self.run(change())

    @property
    def has_left_ray(self) -> bool:
        """Whether this process has left the Ray in which it attached; another Ray knows nothing of its network."""
        return self._job != _job()

    @property
    def owner(self) -> Owner:
        """This process, as the rendezvous point knows it."""
        actor = ray.get_runtime_context().get_actor_id() if ray.is_initialized() else None
        return Owner(self.session, f"{PROCESS}-{os.getpid()}", actor or "")

    # Names.

    def hold(self, client: Holder) -> None:
        """Tell a client when its name is taken over, and keep the name in use as long as this process lives."""

        def start() -> None:
            self._holders[client.kind, client.name] = client
            beats = self._patience_seconds is None and client.kind == "publisher"
            if beats and self._beating is None:
                self._beating = self._loop.create_task(self._beat())

        self._change(start)

    async def _beat(self) -> None:
        """Give the hosts of publishers a sign of life, periodically."""
        while True:
            publishers = [client for (kind, _), client in self._holders.items() if kind == "publisher"]
            for host in dict.fromkeys(client.host for client in publishers):
                with suppress(RayError):  # it is started again, or gone
                    self._lose_taken(await HostHandle(host).alive(self.session))
            await asyncio.sleep(self._session_seconds / BEATS_A_SESSION)

    def _lose_taken(self, taken: Iterable[Taken]) -> None:
        for each in taken:
            client = self._holders.get((each.kind, each.name))
            if client is not None and client.ticket == each.ticket:
                client.lose(taken_over(each.kind, each.name))

    def lose(self, client: Any) -> None:
        """Do nothing more for a client that has lost its name; on the background loop only."""
        self._drop(client)
        if client in self._movers:
            self._movers.remove(client)
        if client.kind == "subscriber":
            self._inboxes.pop(client.name, None)

    # Polls.

    def watch(self, host: Any, client: ClientId, inbox: Inbox, broker: BrokerId) -> None:
        """Start fetching what `host` has for the subscriber of this broker; in a thread if the host `returns`."""
        if self._returns:

            async def say_back() -> None:
                await self.handle(host).request(broker, client, inbox.links.back(), self.session)

            self.run(say_back())

        def start() -> None:
            self._inboxes[client], self._brokers[client] = inbox, broker
            self.poll(host)

        self._change(start)

    @contextmanager
    def expected_at(self, host: Any) -> Iterator[None]:
        """Count a client that is on its way to a host as attached, because its messages there continue a session."""
        self._expected[host] += 1
        try:
            yield
        finally:
            self._expected[host] -= 1

    def poll(self, host: Any) -> None:
        """Start polling a host, unless it is polled already, or this is closed; on the background loop only."""
        if host not in self._polls and not self._closed:
            self._polls[host] = asyncio.get_running_loop().create_task(self._poll(host))

    def follow(self, mover: Mover) -> None:
        """Watch the host of a client, wherever it moves, and tell the client to move when the host dies."""

        def start() -> None:
            self._movers.append(mover)
            self.poll(mover.host)
            if self._saying is None and self._compare_seconds is not None:
                self._saying = self._loop.create_task(self._say(self._compare_seconds))

        self._change(start)

    async def _say(self, every_seconds: float) -> None:
        """Let every client report what it knows, periodically."""
        while True:
            await asyncio.sleep(every_seconds)
            for mover in self._movers:
                mover.say()

    def leave(self, mover: Mover) -> None:
        """Stop following a client."""

        def drop() -> None:
            if mover in self._movers:
                self._movers.remove(mover)

        self._change(drop)

    def let_go(self, client: Holder) -> None:
        """Forget the name of a client that has left."""
        self._change(lambda: self._drop(client))

    def _drop(self, client: Holder) -> None:
        if self._holders.get((client.kind, client.name)) is client:
            del self._holders[client.kind, client.name]

    def _move_all(self, host: Any, dead: bool) -> None:
        for mover in self._movers:
            if mover.host == host:
                self.begin(mover.move(host, dead))

    def _move_one(self, proposal: Proposal) -> None:
        for mover in self._movers:
            if mover.kind == "subscriber" and mover.name == proposal.client:
                self.begin(mover.go_to(proposal.broker))

    def begin(self, move: Coroutine[Any, Any, None]) -> None:
        """Let a client move, unless this is closed, on the background loop only; an error is logged."""
        if self._closed:
            move.close()
            return
        task = asyncio.get_running_loop().create_task(move)
        self._moves.add(task)
        task.add_done_callback(self._moved)

    def _move_from(self, broker: BrokerId) -> None:
        """Tell the clients at a broker that it leaves the network."""
        for mover in self._movers:
            if mover.broker == broker:
                self.begin(mover.go_from(broker))

    def _moved(self, task: asyncio.Task[None]) -> None:
        self._moves.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._log.warning("%s", task.exception())

    def forget(self, client: ClientId) -> None:
        """Drop arrivals for a subscriber from now on."""
        self._change(lambda: self._inboxes.pop(client, None))

    async def _poll(self, host: Any) -> None:
        error: Exception | None
        arrivals = Arrivals(self, host)
        while self._anybody_at(host):
            try:
                deliveries = await self._fetch(host, arrivals)
                error = None if await arrivals.take_all(deliveries) else BrokerUnavailable(GIVEN_UP)
            except (RayError, TimeoutError) as failed:
                error = failed
            except Exception as failed:
                self._log.error("what a host has sent could not be taken", exc_info=failed)
                error = failed
            if error is None:
                continue
            with suppress(Exception):  # else nothing more comes anyway
                await arrivals.placed()
            comes_back = self._returns and isinstance(error, RayError | TimeoutError) and not self.ending
            if comes_back and await self._reattach(host):
                arrivals = Arrivals(self, host)
                continue
            self._give_up(host, error)
            return
        del self._polls[host]
        self.handle(host).end_session(self.session)

    def inbox_of(self, client: ClientId, host: Any) -> Inbox | None:
        """Return the inbox of a subscriber that is at a host; None if none is there."""
        inbox = self._inboxes.get(client)
        if inbox is None or inbox.host is host:  # mostly one object
            return inbox
        return inbox if inbox.host == host else None

    def told(self, news: Taken | Farewell | Proposal) -> None:
        """Do what a host tells this process besides events."""
        match news:
            case Taken():
                self._lose_taken([news])
            case Farewell(broker):
                self._move_from(broker)
            case Proposal():
                self._move_one(news)

    def heard(self, host: Any, now: float) -> None:
        """Record that a host had nothing more for its subscribers: if it dies, they may lack only what came later."""
        for inbox in self._inboxes.values():
            if _same(inbox.host, host):
                inbox.heard_at = now

    def _anybody_at(self, host: Any) -> bool:
        for inbox in self._inboxes.values():
            if inbox.host is host:
                return True
        hosts = chain((each.host for each in self._movers), (each.host for each in self._inboxes.values()))
        return self._expected[host] > 0 or any(_same(each, host) for each in hosts)

    async def _fetch(self, host: Any, arrivals: Arrivals) -> list[Any]:
        patience = self._patience_seconds
        if patience is None:
            # A longer poll would make the process look gone.
            seconds = min(POLL_SECONDS, self._session_seconds / BEATS_A_SESSION)
            return await self.handle(host).poll(self.session, arrivals.acknowledged, seconds, arrivals.take)
        async with asyncio.timeout(patience * 1.5):
            asked = self.session, arrivals.acknowledged, patience / 2
            return await self.handle(host).poll(*asked, arrivals.take)

    def _give_up(self, host: Any, error: Exception) -> None:
        """Leave a host that is dead or silent, or tell the readers if there is no other host to go to."""
        del self._polls[host]
        if self.has_left_ray:  # and its network with it, as far as this process can know
            self._fail(host, error)
            return
        left = isinstance(error, RayActorError | TimeoutError | BrokerUnavailable | StorageFailed)
        dead = isinstance(error, ActorDiedError)
        if not dead and not self.ending:
            self.handle(host).end_session(self.session)  # before anything that this process tells it later
        if left and self._movers and not self.ending:
            self.given_up[host] += not dead
            self._move_all(host, dead)
            return
        self._fail(host, error)

    def _fail(self, host: Any, error: Exception) -> None:
        """Tell the readers of subscribers at a host that nothing more comes."""
        for inbox in self._inboxes.values():
            if inbox.host == host:
                inbox.fail(error)

    async def _reattach(self, host: Any) -> bool:
        """Send BACK for every subscriber at a restarted host; return False if the host is dead for good."""
        while True:
            try:
                for client, inbox in list(self._inboxes.items()):
                    if inbox.host == host:
                        broker, back = self._brokers[client], inbox.links.back()
                        await self.handle(host).request(broker, client, back, self.session)
                return True
            except ActorDiedError:
                return False
            except RayError:
                await asyncio.sleep(COME_BACK_SECONDS)

    def end_sessions(self, hosts: Iterable[Any]) -> None:
        """Let these hosts forget this process."""
        for host in hosts:
            self.handle(host).end_session(self.session)

    def _tasks(self) -> set[asyncio.Task[None]]:
        """Cancel what threads wait for, and return the other tasks; for an event loop that has tasks of others, too."""
        for submitted in list(self._submitted):
            submitted.cancel()
        every = (*self._polls.values(), *self._moves, self._saying, self._beating)
        return {task for task in every if task is not None}

    def close(self) -> None:
        """Stop polling, and end the thread if it has one. Threads that wait for something here get an error.

        Not in the thread of an event loop that is not its own: that would wait for itself.
        """

        async def stop() -> None:
            if self._channels is not None:
                await self._channels.close()
            tasks = self._tasks() if self._thread is None else asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        with self._taking:  # everything submitted before this has started when this starts
            if self._closed:
                return
            self._closed = True
            stopped = asyncio.run_coroutine_threadsafe(stop(), self._loop)
        stopped.result()
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
