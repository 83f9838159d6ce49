"""The typed handle of a host's actor."""

import ast
import asyncio
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import rayvous
from rayvous.actors.host.frames import packed, unpacked
from rayvous.actors.host.handle import HostHandle, Question
from rayvous.actors.host.host import BrokerHost

OWN = {"tell", "publish", "ask"}
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
        calls.append(unpacked(pieces))
        return packed("node")

    def end(name: str) -> None:
        calls.append(("end_session", (name,)))

    actor = SimpleNamespace(call=SimpleNamespace(remote=call), end_session=SimpleNamespace(remote=end))
    handle = HostHandle(actor)

    async def test() -> None:
        assert await handle.receive(3, 1, []) == "node"
        assert await handle.receive(3, 1, [], 2, 7.5) == "node"
        assert unpacked([await handle.publish(3, "alice", [], 7.5)]) == "node"
        assert unpacked([await handle.poll("session", 4, 0.5)]) == "node"
        handle.end_session("session")

    asyncio.run(test())
    assert calls == [
        ("receive", (3, 1, [])),
        ("receive", (3, 1, [], 2, 7.5)),
        ("request", (3, "alice", [], "", 7.5)),
        ("poll", ("session", 4, 0.5)),
        ("end_session", ("session",)),
    ]


def test_a_question_can_be_repeated_on_a_restarted_host() -> None:
    asked: list[dict[str, int]] = []
    pid = SimpleNamespace(remote=lambda: "now")
    pid.options = lambda **given: asked.append(given) or pid
    assert HostHandle(SimpleNamespace(pid=pid)).pid() == "now" and not asked  # type: ignore[comparison-overlap]
    HostHandle(SimpleNamespace(pid=pid), again=-1).pid()
    assert asked == [{"max_task_retries": -1}]


def test_hosts_are_called_through_the_handle_alone() -> None:
    # Names that actors of other classes have too.
    others = {"receive", "pid", "describe", "payload", "link_faults", "damage", "left", "begin", "connect"}
    root, found = Path(inspect.getfile(rayvous)).parent, []
    for folder in ("actors", "gateway", "pipelines", "cli"):
        for path in sorted((root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Attribute(value=ast.Attribute(attr=name), attr="remote" | "options") if (
                        name in CALLS.keys() - others
                    ):
                        found.append(f"{path}:{node.lineno}: write HostHandle(host).{name}(...)")
    assert not found, "\n".join(found)
