"""The ways of a process to hosts: how they open, what carries calls meanwhile, and what the end of a channel means."""

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import HERE, Ray
from patience import PATIENCE_SECONDS, FrozenLoop, run_frozen
from ray.exceptions import ActorDiedError, ActorUnavailableError
from rayvous.actors.channels import pool as pool_file
from rayvous.actors.channels.channel import Channel
from rayvous.actors.channels.config import ChannelConfig, Door
from rayvous.actors.channels.pool import Channels, Way
from rayvous.actors.channels.replies import Reply
from rayvous.actors.host.frames import packed, unpacked
from rayvous.actors.logs import Log

CONFIG = ChannelConfig(b"n" * 16, b"s" * 32)
WRITTEN_SECONDS = 0.2
"""More than a thread takes to write a request that waits for nothing."""


class Pool(Channels):
    """Channels whose connections are pairs of sockets; it takes those of other pools itself."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, log=Log("rayvous.test"), **options)
        EVERY.append(self)
        self.shut = False
        self.listens = True
        self.taken: list[Channel] = []

    async def _knock(self, door: Any) -> Channel:
        host = POOLS[door.name]
        if host.shut:
            raise ConnectionRefusedError("nobody listens")
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        _, taken = await loop.connect_accepted_socket(lambda: host._channel(opens=False), theirs)
        host.taken.append(taken)
        _, channel = await loop.create_connection(lambda: self._channel(opens=True), sock=ours)
        return channel

    async def _nobody_listens(self, way: Way) -> bool:
        return not POOLS[way.name].listens


POOLS: dict[bytes, Pool] = {}
EVERY: list[Pool] = []


class Actor:
    """A host: what it has been asked by Ray, and by its channel."""

    def __init__(self, name: bytes) -> None:
        self.name = name * 16
        self._actor_id = SimpleNamespace(binary=lambda: self.name)
        self.asked_for_door = 0
        self.door = SimpleNamespace(remote=self._door)
        self.pid = SimpleNamespace(remote=self._pid)
        self.drop_channel = SimpleNamespace(remote=lambda number: self.pool.drop(number))
        self.dead = False
        self.direct: list[Any] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.died: list[Any] = []
        self.pool = POOLS[self.name] = Pool(CONFIG, name=self.name, serve=self._serve)

    async def _serve(self, content: bytes) -> bytes:
        self.direct.append(unpacked([content]))
        await self.gate.wait()
        return packed(("direct", self.direct[-1]))

    async def _door(self) -> Door:
        self.asked_for_door += 1
        if self.dead:
            raise ActorDiedError
        return Door("node", self.name, "here", 1, pid=77)

    async def _pid(self) -> int:
        if self.dead:
            raise ActorDiedError
        return 1


class Ref:
    """The answer to a call of Ray, as far as a reply follows it."""

    def __init__(self) -> None:
        self.answer: Future[Any] = Future()

    def future(self) -> Future[Any]:
        return self.answer


@pytest.fixture(autouse=True)
def _alone() -> None:
    POOLS.clear()
    EVERY.clear()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await test()
            for pool in EVERY:
                await pool.close()
            await asyncio.sleep(0)

    asyncio.run(bounded())


async def turns(until: Callable[[], object]) -> None:
    while not until():
        await asyncio.sleep(0)


def request(way: Way, what: str, by_ray: list[tuple[str, Ref]]) -> Reply[Any]:
    reply = Reply[Any]()

    def ray() -> Any:
        by_ray.append((what, Ref()))
        return by_ray[-1][1]

    way.post(packed(what), reply, ray)
    return reply


def test_requests_wait_for_the_channel_once_and_are_carried_by_it_in_order() -> None:
    async def test() -> None:
        host, by_ray = Actor(b"h"), list[tuple[str, Ref]]()
        way = Pool(CONFIG, loop=asyncio.get_running_loop()).way(host)
        replies = [request(way, str(n), by_ray) for n in range(3)]
        assert [(await reply)[1] for reply in replies] == host.direct == ["0", "1", "2"]
        assert not by_ray and host.asked_for_door == 1

    run(test)


def test_where_no_channel_can_be_opened_calls_go_by_ray_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(pool_file, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def test() -> None:
        host, by_ray = Actor(b"h"), list[tuple[str, Ref]]()
        host.pool.shut = True
        pool = Pool(CONFIG, loop=asyncio.get_running_loop())
        way = pool.way(host)
        first = request(way, "0", by_ray)
        await turns(lambda: by_ray)
        by_ray[0][1].answer.set_result("by Ray")
        assert await first == "by Ray" and pool.carriers() == (0, 1)
        request(way, "1", by_ray)
        assert len(by_ray) == 2 and host.asked_for_door == 1, "it is not tried at each call"
        now[0] += 31.0
        request(way, "2", by_ray)
        await turns(lambda: host.asked_for_door == 2 and way.opening is None)
        host.pool.shut = False
        now[0] += 31.0
        request(way, "3", by_ray)
        await turns(lambda: way.channel is not None)
        assert not way.ready or pool.carriers() == (1, 0)
        fourth = request(way, "4", by_ray)
        assert [what for what, _ in by_ray] == ["0", "1", "2", "3", "4"], "none overtakes those by Ray"
        for _, ref in by_ray[1:]:
            ref.answer.set_result("late")
        assert await fourth == "late"
        await turns(lambda: not way.requests.out)
        assert await request(way, "5", by_ray) == ("direct", "5") and len(by_ray) == 5

    with caplog.at_level(logging.WARNING, "rayvous.test"):
        run(test)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "nobody listens" in said and "its calls go by Ray; tried again every 30 s" in said


@pytest.mark.parametrize("how", ["nobody listens", "Ray says so", "it lives"])
def test_a_channel_that_is_lost_is_news_of_a_death_only_if_the_process_is_dead(how: str) -> None:
    async def test() -> None:
        host, died, by_ray = Actor(b"h"), list[Any](), list[tuple[str, Ref]]()
        pool = Pool(CONFIG, loop=asyncio.get_running_loop(), died=died.append)
        way = pool.way(host)
        await request(way, "before", by_ray)
        host.gate.clear()
        lost = request(way, "in flight", by_ray)
        await turns(lambda: len(host.direct) == 2)
        host.pool.listens = how != "nobody listens"
        host.dead = how == "Ray says so"
        for channel in host.pool.taken:
            channel.abort("cut")
        with pytest.raises(ActorUnavailableError if how == "it lives" else ActorDiedError):
            await lost
        if how == "it lives":
            host.gate.set()
            assert await request(way, "after", by_ray) == ("direct", "after")
            assert not died and not by_ray
        else:
            assert died == [host] and pool.way(host) is not way
            request(way, "after", by_ray)
            assert [what for what, _ in by_ray] == ["after"], "Ray says what has become of it"

    run(test)


def test_what_a_host_has_not_read_of_a_lost_channel_does_not_come_after_later_calls() -> None:
    """A process that stands still for long has its channels ended by the system; it reads on when it goes on."""

    async def test() -> None:
        host, by_ray = Actor(b"h"), list[tuple[str, Ref]]()
        way = Pool(CONFIG, loop=asyncio.get_running_loop()).way(host)
        await request(way, "read", by_ray)
        host.pool.taken[0].rest("the process stands still")
        lost = request(way, "not read", by_ray)
        assert way.channel is not None
        way.channel.abort("the system has ended it")
        with pytest.raises(ActorUnavailableError):
            await lost
        assert await request(way, "later", by_ray) == ("direct", "later")
        host.pool.taken[0].go_on("the process stands still")
        await turns(lambda: host.pool.taken[0] not in host.pool._proven)
        assert host.direct == ["read", "later"] and not by_ray

    run(test)


def test_a_thread_does_not_overtake_what_was_held(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        host, by_ray = Actor(b"h"), list[tuple[str, Ref]]()
        way = Pool(CONFIG, loop=asyncio.get_running_loop()).way(host)
        replies = [request(way, "held", by_ray)]
        real, threads = way._request, list[threading.Thread]()

        def with_a_thread_between(*given: Any) -> None:
            if way.channel is not None and not threads:  # they are being made
                threads.append(threading.Thread(target=lambda: replies.append(request(way, "later", by_ray))))
                threads[0].start()
                threads[0].join(WRITTEN_SECONDS)
            real(*given)

        monkeypatch.setattr(Way, "_request", lambda way, *given: with_a_thread_between(*given))
        await turns(lambda: len(replies) == 2)
        assert [(await reply)[1] for reply in replies] == host.direct == ["held", "later"] and not by_ray

    run(test)


def test_two_hosts_share_the_connection_that_either_has_opened() -> None:
    async def test() -> None:
        one, other = Actor(b"1"), Actor(b"2")
        there, back = one.pool.way(other), other.pool.way(one)
        assert not there.ready
        await turns(lambda: there.channel)
        await turns(lambda: back.door)
        assert back.ready and len(other.pool.taken) == 1 and not one.pool.taken
        late = Actor(b"3")
        later = late.pool.way(one)
        assert not later.ready
        await turns(lambda: later.channel)
        again = one.pool.way(late)
        assert not again.ready
        await turns(lambda: again.channel and again.door)
        assert len(one.pool.taken) == 1 and not late.pool.taken
        for way, host in ((there, other), (back, one)):
            lane = way.lane("link")
            assert way.ready and lane.enter(way.ready)
            assert unpacked([await way.call(lane, packed("x"))]) == ("direct", "x") and host.direct == ["x"]

    run(test)


def test_a_host_that_was_not_called_has_no_channel_and_lacks_none() -> None:
    async def test() -> None:
        pool = Pool(CONFIG, loop=asyncio.get_running_loop())
        way = pool.way(Actor(b"h"))
        assert pool.carriers() == (0, 0)
        assert not way.ready and pool.carriers() == (0, 0), "it is being opened"
        await turns(lambda: way.channel)
        assert pool.carriers() == (1, 0)

    run(test)


def test_a_client_outside_the_cluster_is_on_none_of_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray names the node of its server: a refused connection or a missing process here would mean a death there."""
    Ray(monkeypatch, pool_file)
    assert pool_file.node_here() == HERE, "which is that of the server"
    monkeypatch.setattr(pool_file, "client", SimpleNamespace(is_connected=lambda: True))
    assert pool_file.node_here() == ""


def test_a_host_that_is_dead_before_there_is_a_channel_is_forgotten() -> None:
    async def test() -> None:
        host, by_ray = Actor(b"h"), list[tuple[str, Ref]]()
        host.dead = True
        pool = Pool(CONFIG, loop=asyncio.get_running_loop())
        way = pool.way(host)
        with pytest.raises(ActorDiedError):
            await request(way, "held", by_ray)
        assert pool.way(host) is not way and pool.carriers() == (0, 0)
        request(way, "later", by_ray)
        assert [what for what, _ in by_ray] == ["later"], "Ray says what has become of it"

    run(test)


def test_who_answers_at_a_door_must_be_the_host_that_was_asked() -> None:
    async def test() -> None:
        host, other = Actor(b"h"), Actor(b"o")
        POOLS[host.name] = other.pool
        pool = Pool(CONFIG, loop=asyncio.get_running_loop())
        way = pool.way(host)
        assert not way.ready
        await turns(lambda: way.opening is None)
        assert way.channel is None and pool.carriers() == (0, 1)

    run(test)


def test_a_host_that_does_not_greet_in_time_is_called_by_ray_and_its_connection_is_closed() -> None:
    known: list[Channel] = []
    silent: list[socket.socket] = []

    class Patient(Pool):
        async def _knock(self, door: Any) -> Channel:
            ours, theirs = socket.socketpair()
            silent.append(theirs)
            loop = asyncio.get_running_loop()
            _, channel = await loop.create_connection(lambda: self._channel(opens=True), sock=ours)
            known.append(channel)
            return channel

    async def test(loop: FrozenLoop) -> None:
        by_ray: list[tuple[str, Ref]] = []
        way = Patient(CONFIG, loop=loop).way(Actor(b"h"))
        request(way, "x", by_ray)
        await turns(lambda: known)
        assert not by_ray, "it has time"
        loop.ahead += pool_file.OPEN_SECONDS
        await turns(lambda: by_ray)
        assert not await known[0].done and way.channel is None
        silent[0].close()
        for pool in EVERY:
            await pool.close()

    run_frozen(test)


def test_unproven_connections_are_few_and_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_file, "UNPROVEN_MAX", 3)

    async def test() -> None:
        host, strangers = Actor(b"h"), list[socket.socket]()
        loop = asyncio.get_running_loop()
        taken = []
        for _ in range(5):
            ours, theirs = socket.socketpair()
            strangers.append(ours)
            taken.append(
                (await loop.connect_accepted_socket(lambda: host.pool._channel(opens=False), theirs))[1]
            )
        await asyncio.gather(*(channel.done for channel in taken[:2]))
        assert [channel.done.done() for channel in taken] == [True, True, False, False, False]
        pool = Pool(CONFIG, loop=loop)
        assert (await request(pool.way(host), "served", []))[1] == "served"
        for each in strangers:
            each.close()
        await asyncio.gather(*(channel.done for channel in taken))
        assert not host.pool._unproven

    run(test)


@pytest.mark.parametrize("full", ["the client", "the host"])
def test_a_process_has_a_bounded_number_of_channels(monkeypatch: pytest.MonkeyPatch, full: str) -> None:
    monkeypatch.setattr(pool_file, "OPEN_MAX", 1)

    async def test() -> None:
        loop, by_ray = asyncio.get_running_loop(), list[tuple[str, Ref]]()
        hosts, clients = [Actor(b"1"), Actor(b"2")], [Pool(CONFIG, loop=loop) for _ in range(2)]
        pairs = ((0, 0), (0, 1)) if full == "the client" else ((0, 0), (1, 0))
        ways = [clients[client].way(hosts[host]) for client, host in pairs]
        hosts[0].gate.clear()
        busy = request(ways[0], "x", by_ray)
        await turns(lambda: hosts[0].direct)
        request(ways[1], "y", by_ray)
        await turns(lambda: by_ray)
        hosts[0].gate.set()
        assert await busy == ("direct", "x")
        assert ways[1].said and ways[1].channel is None
        assert await request(ways[0], "z", by_ray) == ("direct", "z") and [what for what, _ in by_ray] == [
            "y"
        ]
        await clients[0].close()
        await turns(lambda: not hosts[0].pool._proven)
        third = Pool(CONFIG, loop=loop)
        assert await request(third.way(hosts[0]), "again", by_ray) == ("direct", "again")

    run(test)


def test_a_channel_at_rest_makes_room_for_one_that_is_needed_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_file, "OPEN_MAX", 2)

    async def test() -> None:
        by_ray, hosts = list[tuple[str, Ref]](), [Actor(b"1"), Actor(b"2"), Actor(b"3")]
        pool = Pool(CONFIG, loop=asyncio.get_running_loop())
        ways = [pool.way(host) for host in hosts]
        for way in (*ways[:2], ways[0], ways[2]):
            assert (await request(way, "x", by_ray))[0] == "direct"
        await turns(lambda: ways[1].channel is None)
        assert len(pool._proven) == 2 and not hosts[1].pool._proven, "it had been at rest longest"
        assert (await request(ways[1], "again", by_ray))[0] == "direct" and not by_ray
        await turns(lambda: len(pool._proven) == 2)
        stranger, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: pool._channel(opens=False), theirs)
        assert all(channel.open for channel in pool._proven), "who has proved nothing gets no room"
        stranger.close()

    run(test)


def test_a_call_that_is_under_way_when_the_other_end_retires_is_answered() -> None:
    async def test() -> None:
        by_ray, host = list[tuple[str, Ref]](), Actor(b"1")
        way = Pool(CONFIG, loop=asyncio.get_running_loop()).way(host)
        await request(way, "before", by_ray)
        host.gate.clear()
        (taken,) = host.pool._proven
        under_way = request(way, "x", by_ray)
        taken.retire()
        await turns(lambda: len(host.direct) == 2 and way.channel is not None and not way.channel.open)
        host.gate.set()
        assert await under_way == ("direct", "x")
        await turns(lambda: not host.pool._proven)
        assert (await request(way, "after", by_ray))[0] == "direct" and not by_ray

    run(test)


def test_a_process_that_has_left_ray_asks_it_nothing_when_its_channels_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call of Ray would join it again, or start another one."""
    fake = Ray(monkeypatch, pool_file)

    async def test() -> None:
        by_ray, host, other = list[tuple[str, Ref]](), Actor(b"h"), Actor(b"o")
        pool = Pool(CONFIG, loop=asyncio.get_running_loop())
        way = pool.way(host)
        await request(way, "before", by_ray)
        host.gate.clear()
        lost = request(way, "in flight", by_ray)
        await turns(lambda: len(host.direct) == 2)
        fake.joined, host.dead = False, True
        for channel in host.pool.taken:
            channel.abort("cut")
        for reply in (lost, request(way, "later", by_ray), request(pool.way(other), "first", by_ray)):
            with pytest.raises(ActorUnavailableError):
                await reply
        assert host.asked_for_door == 1 and not other.asked_for_door and not by_ray

    run(test)


def test_a_process_that_ends_takes_its_leave_and_loses_no_request() -> None:
    async def test() -> None:
        host, died, by_ray = Actor(b"h"), list[Any](), list[tuple[str, Ref]]()
        pool = Pool(CONFIG, loop=asyncio.get_running_loop(), died=died.append)
        await request(pool.way(host), "x", by_ray)
        other = Actor(b"o")
        request(pool.way(other), "held", by_ray)
        await pool.close()
        await turns(lambda: by_ray and not host.pool._taken)
        assert [what for what, _ in by_ray] == ["held"] and not died

    run(test)
