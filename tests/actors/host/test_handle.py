"""The typed handle of a host's actor."""

import ast
import asyncio
import inspect
import re
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import rayvous
from ray import ObjectRef
from ray.exceptions import ActorDiedError
from rayvous.actors.channels.lanes import Lane
from rayvous.actors.channels.replies import Reply
from rayvous.actors.host.frames import call_of, packed, unpacked
from rayvous.actors.host.handle import AHEAD_EVENTS, HostHandle, Question, waited
from rayvous.actors.host.host import BrokerHost

OWN = {"tell", "send", "publish", "ask"}
"""Methods of the handle that are ways to call other methods of a host."""

CALLS = {name: of for name, of in vars(HostHandle).items() if not name.startswith("_") and callable(of)}


def required(function: Any) -> list[str]:
    """Return the names of the arguments that every call has."""
    found = inspect.signature(function).parameters.values()
    return [each.name for each in found if each.default is each.empty and each.kind != each.VAR_POSITIONAL]


def test_each_call_has_the_name_and_the_arguments_of_a_method_of_the_host() -> None:
    assert CALLS.keys() > OWN
    for name in CALLS.keys() - OWN:
        assert required(CALLS[name])[1:] == required(getattr(BrokerHost, name))[1:], name
    assert all(hasattr(BrokerHost, question) for question in get_args(Question))


def test_calls_that_carry_events_go_as_bytes_and_the_rest_by_name() -> None:
    calls: list[tuple[Any, ...]] = []

    async def call(*pieces: bytes) -> bytes:
        calls.append(call_of(b"".join(pieces)))
        return packed("node")

    def end(name: str) -> None:
        calls.append(("end_session", (name,)))

    actor = SimpleNamespace(call=SimpleNamespace(remote=call), end_session=SimpleNamespace(remote=end))
    handle = HostHandle(actor)

    async def test() -> None:
        assert await handle.receive(3, 1, []) == "node"
        assert await handle.receive(3, 1, [], 2, 7.5) == "node"
        assert unpacked([await handle.publish(3, "alice", [], 7.5)]) == "node"
        assert await handle.poll("session", 4, 0.5) == "node"  # type: ignore[comparison-overlap]
        handle.end_session("session")

    asyncio.run(test())
    assert calls == [
        ("receive", (3, 1, [])),
        ("receive", (3, 1, [], 2, 7.5)),
        ("request", (3, "alice", [], "", 7.5)),
        ("poll", ("session", 4, 0.5)),
        ("end_session", ("session",)),
    ]


class FakeWay:
    """A way to a host whose channel is open; calls wait at the gate."""

    def __init__(self) -> None:
        self.lanes: dict[Any, Lane] = {}
        self.ready = self.opened = True
        self.posted: list[Any] = []
        self.gate = asyncio.Event()

    def lane(self, key: Any) -> Lane:
        return self.lanes.setdefault(key, Lane())

    async def call(self, lane: Lane, content: bytes) -> bytes:
        self.posted.append(call_of(content))
        await self.gate.wait()
        lane.leave()
        return packed("direct")

    def post(self, content: bytes, reply: Reply[Any], by_ray: Any) -> None:
        self.posted.append(call_of(content))
        reply.given_by_ray("posted")


def test_with_a_channel_what_is_ordered_goes_by_it_and_a_reference_by_ray_after_it() -> None:
    by_ray: list[Any] = []

    async def receive(to: int, source: int, messages: Any, *said: Any) -> str:
        by_ray.append(messages)
        return "by Ray"

    async def test() -> None:
        way, loop = FakeWay(), asyncio.get_running_loop()
        actor = SimpleNamespace(receive=SimpleNamespace(remote=receive))
        handle = HostHandle(actor, SimpleNamespace(way=lambda actor: way))  # type: ignore[arg-type]
        first = loop.create_task(handle.receive(3, 1, []))
        other: Any = ObjectRef.nil()
        second = loop.create_task(handle.receive(3, 1, other))
        elsewhere = loop.create_task(handle.receive(4, 1, []))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert way.posted == [("receive", (3, 1, [])), ("receive", (4, 1, []))] and not by_ray
        way.gate.set()
        assert [await first, await second, await elsewhere] == ["direct", "by Ray", "direct"]
        assert by_ray == [other] and not any(lane.out for lane in way.lanes.values())
        assert await handle.poll("session", 4, 0.5) == "direct"  # type: ignore[comparison-overlap]
        await handle.host_beat("host", [])
        assert waited(handle.request(3, "alice", []), 1.0) == "posted"
        assert waited(handle.publish(3, "alice", [], 7.5), 1.0) == "posted"
        handle.end_session("session")
        assert [method for method, _ in way.posted[2:]] == [
            "poll",
            "host_beat",
            "request",
            "request",
            "end_session",
        ]

    asyncio.run(test())


def test_who_waits_for_rest_asks_by_the_channel_if_it_is_open_and_opens_none() -> None:
    async def test() -> None:
        way, by_ray = FakeWay(), list[bool]()
        actor = SimpleNamespace(quiet=SimpleNamespace(remote=by_ray.append))
        handle = HostHandle(actor, SimpleNamespace(way=lambda actor: way))  # type: ignore[arg-type]
        assert waited(handle.quiet(False), 1.0) == "posted"
        assert way.posted == [("quiet", (False,))] and not by_ray
        way.opened = False
        handle.quiet()
        HostHandle(actor).quiet()
        assert by_ray == [True, True] and len(way.posted) == 1

    asyncio.run(test())


def test_a_question_can_be_repeated_on_a_restarted_host() -> None:
    asked: list[dict[str, int]] = []
    pid = SimpleNamespace(remote=lambda: "now")
    pid.options = lambda **given: asked.append(given) or pid
    assert HostHandle(SimpleNamespace(pid=pid)).pid() == "now" and not asked  # type: ignore[comparison-overlap]
    HostHandle(SimpleNamespace(pid=pid), again=-1).pid()
    assert asked == [{"max_task_retries": -1}]


def test_hosts_are_called_through_the_handle_alone() -> None:
    # Names that actors of other classes have too.
    others = {"receive", "pid", "describe", "payload", "poll", "left", "begin", "connect"}
    root, found = Path(inspect.getfile(rayvous)).parent, []
    for folder in ("actors", "gateway", "pipelines", "cli"):
        for path in sorted((root / folder).rglob("*.py")):
            if path.parent.name == "channels":
                continue  # the handle stands on them
            source = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(source)) if re.search(r"\.(remote|options)\b", source) else ():
                match node:
                    case ast.Attribute(value=ast.Attribute(attr=name), attr="remote" | "options") if (
                        name in CALLS.keys() - others
                    ):
                        found.append(f"{path}:{node.lineno}: write HostHandle(host).{name}(...)")
    assert not found, "\n".join(found)


class Call:
    """A call of Ray: it can be awaited, and others can be told when it is done."""

    def __init__(self) -> None:
        self.done: Future[bytes] = Future()

    def __await__(self) -> Any:
        return asyncio.wrap_future(self.done).__await__()

    def future(self) -> Future[bytes]:
        told: Future[bytes] = Future()
        self.told = told
        return told


def test_a_call_by_ray_that_fails_after_its_process_has_left_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    call, way = Call(), FakeWay()
    way.ready = False
    actor = SimpleNamespace(call=SimpleNamespace(remote=lambda *pieces: call))
    handle = HostHandle(actor, SimpleNamespace(way=lambda actor: way))  # type: ignore[arg-type]

    async def leave() -> None:
        poll = asyncio.get_running_loop().create_task(handle.poll("session", 0, 1.0))
        await asyncio.sleep(0)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)

    asyncio.run(leave())
    call.told.set_exception(ActorDiedError())
    assert not caplog.records and way.lanes["session"].out == 1


def test_the_architecture_says_how_much_a_poll_brings_ahead() -> None:
    text = (Path(rayvous.__path__[0]) / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"up to {AHEAD_EVENTS} notifications as parts" in text
