"""The parts of a host know each other through their constructors only, and nobody sets what is another's."""

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.actors.channels.config import ChannelConfig
from rayvous.actors.channels.pool import Channels
from rayvous.actors.host import host as host_module
from rayvous.actors.host.broker_store import BrokerStores
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.numbered import NumberedLinks
from rayvous.protocol.batch import batch_of
from rayvous.protocol.messages.pubsub import Events, Register
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.language.questions import to_filter

FOLDER = Path(host_module.__file__).parent
PLACE = rv.ClusterTree(1, 1).positions()
RAY: frozenset[tuple[str, str]] = frozenset({("HostTelemetry", "collector"), ("Payloads", "actor_of")})
"""Arguments that are actors of Ray, or return one: these have no types."""


def kinds(tmp_path: Path) -> dict[str, dict[str, Any]]:
    return {
        "fixed": {},
        "heals": {"recovery": Recovery.for_tests()},
        "admits": {"admission": rv.AdmissionConfig()},
        "numbers": {"stable": rv.Stable(str(tmp_path))},
        "direct": {**ALL, "channels": ChannelConfig(b"n" * 16, b"s" * 32)},
    }


def parts_of(host: BrokerHost) -> dict[str, Any]:
    """Return the parts of a host by name."""
    return {
        name: value
        for name, value in vars(host).items()
        if type(value).__module__.startswith("rayvous.actors.") and type(value).__name__ != "Log"
    }


class Watch:
    """Notes what the constructors of parts are given, and who assigns attributes of parts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: dict[int, list[Any]] = {}
        self.strangers: list[str] = []
        usual = parts_of(BrokerHost("hybrid", rv.Limits.for_tests(), **ALL))
        for kind in {*map(type, usual.values()), NumberedLinks, BrokerStores, Channels}:
            monkeypatch.setattr(kind, "__init__", self._noting(kind.__init__))
            monkeypatch.setattr(kind, "__setattr__", self._assign, raising=False)

    def _noting(self, make: Any) -> Any:
        def init(part: Any, *args: Any, **kwargs: Any) -> None:
            given = [*args, *kwargs.values()]
            owners = [each.__self__ for each in given if isinstance(each, MethodType)]
            self.given[id(part)] = [*given, *owners]
            make(part, *args, **kwargs)

        return init

    @property
    def _assign(self) -> Any:
        def assign(part: Any, name: str, value: Any) -> None:
            frame = sys._getframe(1)
            if frame.f_locals.get("self") is not part:
                self.strangers.append(f"{frame.f_code.co_qualname} sets {type(part).__name__}.{name}")
            object.__setattr__(part, name, value)

        return assign


ALL: dict[str, Any] = {"recovery": Recovery.for_tests(), "admission": rv.AdmissionConfig()}


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    yield Watch(monkeypatch)


async def use(host: BrokerHost) -> None:
    """Let a host do what hosts do."""
    await host.start_brokers(PLACE)
    await host.connect({})
    await host.begin()
    if host.numbered is None:
        await host.request(0, "alice", [Register(1, to_filter("x > 0"))], "process")
    if host.numbered is None and not host.features.admits:
        batch = batch_of([{"x": 1}], publisher="bob", first_sequence=1)
        await host.request(0, "bob", [Events(batch)])
        assert len(await host.poll("process", 0, 1.0)) == 1
    await host.survey()
    await host.describe()


@pytest.mark.parametrize("kind", ["fixed", "heals", "admits", "numbers", "direct"])
def test_a_part_is_given_what_it_knows_and_sets_only_what_is_its_own(
    kind: str, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = SimpleNamespace(get_actor_id=lambda: "61" * 16)
    monkeypatch.setattr(host_module.ray, "get_runtime_context", lambda: me)

    async def test() -> None:
        host = BrokerHost("hybrid", rv.Limits.for_tests(), **kinds(tmp_path)[kind])
        await use(host)
        parts = parts_of(host)
        assert len(parts) >= 10 and ("channels" in parts) == (kind == "direct")
        assert unknown(parts, watch) == [] and watch.strangers == []

    asyncio.run(asyncio.wait_for(test(), PATIENCE_SECONDS))


def unknown(parts: dict[str, Any], watch: Watch) -> list[str]:
    """Return which parts have other parts that their constructors were not given."""
    known = {id(part): name for name, part in parts.items()}
    return [
        f"{name} has {known[id(value)]}"
        for name, part in parts.items()
        for value in vars(part).values()
        if id(value) in known and not any(value is each for each in watch.given[id(part)])
    ]


def test_what_is_set_from_outside_is_noticed(watch: Watch) -> None:
    host = BrokerHost("hybrid", rv.Limits.for_tests(), **ALL)
    host.transport.channels = host.driver  # type: ignore[assignment]
    assert unknown(parts_of(host), watch) == ["transport has driver"]
    (said,) = watch.strangers
    assert said.endswith("sets Transport.channels")


# What no test may happen to run.


def names() -> set[str]:
    """Return the names of the parts of hosts."""
    return {*parts_of(BrokerHost("hybrid", rv.Limits.for_tests(), **ALL)), "channels", "numbered"}


def wrongs(source: str, parts: set[str]) -> list[str]:
    """Return where a file sets an attribute of a part, or reaches one part through another."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Attribute):
            continue
        owner, via = node.value.value, node.value.attr.strip("_")
        if isinstance(owner, ast.Name) and owner.id == "self" and via in parts:
            if isinstance(node.ctx, ast.Store) or node.attr.strip("_") in parts:
                found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def test_no_line_sets_a_part_from_outside_or_reaches_one_through_another() -> None:
    parts = names()
    for path in sorted(FOLDER.glob("*.py")):
        assert wrongs(path.read_text(), parts) == [], path.name
    assert wrongs("self._driver.clock = 1", parts) == ["1: self._driver.clock"]
    assert wrongs("self.driver.attachments.bury()", parts) == ["1: self.driver.attachments"]


def test_what_parts_are_given_has_types() -> None:
    parts = parts_of(BrokerHost("hybrid", rv.Limits.for_tests(), **ALL)).values()
    given = {
        (type(part).__name__, name): str(each.annotation)
        for part in parts
        for name, each in inspect.signature(type(part).__init__).parameters.items()
        if name != "self"
    }
    assert given["Ticking", "driver"] == "Driver"
    assert {place for place, kind in given.items() if re.search(r"\bAny\b", kind)} == RAY
