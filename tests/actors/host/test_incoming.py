"""Calls that a host handles and answers at once, and those in which something has to be waited for."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from ray.exceptions import ActorDiedError
from rayvous.actors.channels.lanes import Lane
from rayvous.actors.host import frames
from rayvous.actors.host.frames import call_of, packed, unpacked
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.outbox import Unreached
from rayvous.actors.host.overdue import Overdue
from rayvous.actors.later import Later
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import ClientError
from rayvous.protocol.messages.pubsub import Announce, Events, Installed, Register, Resume
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree

ROOT, LEAF = 0, 1
ANY = to_filter("x > 0")


class Wire:
    """The channels of a host: its calls stay open until they are answered here."""

    def __init__(self) -> None:
        self.ready = True
        self.calls: list[tuple[Any, Later[bytes]]] = []
        self.lanes: dict[Any, Lane] = {}

    def way(self, actor: Any) -> Any:
        return self

    def lane(self, key: Any) -> Lane:
        return self.lanes.setdefault(key, Lane())

    def straight(self, key: Any) -> Lane | None:
        lane = self.lane(key)
        return lane if self.ready and (lane.direct or not lane.out) else None

    def call(self, lane: Lane, content: bytes) -> Later[bytes]:
        answer = Later[bytes]()
        self.calls.append((call_of(content), answer))
        return answer

    def call_straight(self, lane: Lane, content: bytes) -> Later[bytes]:
        lane.enter(True)
        return self.call(lane, content)


def events(first: int, count: int = 1) -> Events:
    return Events(batch_of([{"x": 1}] * count, publisher="bob", first_sequence=first))


async def leaf(wire: Wire, limits: Limits | None = None, recovery: Recovery | None = None) -> BrokerHost:
    """Return the host of a broker whose parent is elsewhere, behind `wire`."""
    host = BrokerHost("hybrid", limits or Limits.for_tests(), recovery=recovery)
    host.transport.channels = wire  # type: ignore[assignment]
    place = next(each for each in ClusterTree(2, 1).positions() if each.broker == LEAF)
    await host.start_brokers([place])
    await host.connect({ROOT: "actor"})
    return host


def straight(host: BrokerHost, overdue: Overdue | None = None) -> Any:
    """Return the call by which a message goes to the parent; None if it goes slowly."""
    slowly: Any = lambda load: None  # noqa: E731
    return host.transport._carry(LEAF, ROOT, overdue, slowly, [events(1)])


async def wanted(wire: Wire, host: BrokerHost) -> None:
    """Let the parent want every event."""
    said = frames.begun(host, packed(("receive", (LEAF, ROOT, [Announce(1, ANY)]))))
    assert isinstance(said, bytes)
    wire.calls.clear()


def run(test: Callable[[Wire], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(Wire()), PATIENCE_SECONDS))  # type: ignore[arg-type]


def test_what_a_call_brings_has_left_when_it_is_answered_in_the_same_turn() -> None:
    async def test(wire: Wire) -> None:
        host = await leaf(wire)
        await wanted(wire, host)
        for turn in (1, 2):
            call = packed(("request", (LEAF, "bob", [events(turn)], "", 1.0)))
            assert isinstance(frames.begun(host, call), bytes)
        ((method, arguments), first) = wire.calls[0]
        assert len(wire.calls) == 1 and method == "receive" and arguments[:2] == (ROOT, LEAF)
        first.give(packed("node"))
        await asyncio.sleep(0)
        assert len(wire.calls) == 2, "the next call leaves when the one in flight is answered"

    run(test)


def test_no_event_waits_for_the_record_of_itself() -> None:
    """What tells of an event is written down when it is on its way, and before its call is answered."""

    async def test(wire: Wire) -> None:
        host = await leaf(wire)
        await wanted(wire, host)
        records = host.hosted_brokers[LEAF].telemetry
        asked, rows, seen = wire.call, records.rows, list[int]()

        def call(lane: Lane, content: bytes) -> Later[bytes]:
            seen.append(records.rows)
            return asked(lane, content)

        wire.call = call  # type: ignore[method-assign]
        frames.begun(host, packed(("request", (LEAF, "bob", [events(1)], "", 1.0))))
        assert seen == [rows] and records.rows == rows + 2, "it was published, and went up"

    run(test)


def test_a_poll_that_waits_is_answered_by_the_call_that_brings_something() -> None:
    async def test(wire: Wire) -> None:
        host = await leaf(wire)
        asked = frames.begun(host, packed(("request", (LEAF, "alice", [Register(1, ANY)], "process"))))
        assert not isinstance(asked, bytes), "a subscription is answered when it is installed"
        registering = asyncio.ensure_future(asked)
        poll = frames.begun(host, packed(("poll", ("process", 0, 20.0))))
        assert isinstance(poll, Later) and not poll.done
        frames.begun(host, packed(("request", (LEAF, "bob", [events(1)], "", 1.0))))
        assert poll.done and [delivery.number for delivery in unpacked([poll.value])] == [1]
        await asyncio.sleep(0)
        registering.cancel()

    run(test)


def test_a_subscription_that_is_installed_at_once_is_answered_at_once() -> None:
    """At the root, and where one that covers it is installed."""

    async def test(wire: Wire) -> None:
        host = await leaf(wire)

        def ask(number: int, wanted: Any) -> Any:
            said = [Register(number, wanted)]
            return frames.begun(host, packed(("request", (LEAF, "alice", said, "process"))))

        first = ask(1, ANY)
        assert not isinstance(first, bytes), "the parent has not installed it"
        waiting = asyncio.ensure_future(first)
        ((_, (_, _, [announced], *_)), _) = wire.calls[0]
        installed = [Installed(announced.token)]
        frames.begun(host, packed(("receive", (LEAF, ROOT, installed))))
        assert unpacked([await waiting]) == {1: {}}
        assert unpacked([ask(2, to_filter("x > 5"))]) == {2: {}}

    run(test)


def test_a_call_that_fills_an_outbox_is_answered_when_that_has_room() -> None:
    async def test(wire: Wire) -> None:
        host = await leaf(wire, Limits.for_tests(call_events_max=4, outbox_events_max=4))
        await wanted(wire, host)
        answer = frames.begun(host, packed(("request", (LEAF, "bob", [events(1, 5)], "", 1.0))))
        assert not isinstance(answer, bytes)
        waiting = asyncio.ensure_future(answer)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done() and len(wire.calls) == 1
        wire.calls[0][1].give(packed("node"))
        await waiting

    run(test)


def test_calls_of_a_life_that_is_not_known_wait_in_order() -> None:
    async def test(wire: Wire) -> None:
        host = await leaf(wire)
        asked, gate = [], asyncio.Event()

        async def whereabouts(broker: int) -> Any:
            asked.append(broker)
            await gate.wait()
            return "new actor", 1

        host.transport.ask_at(SimpleNamespace(whereabouts=SimpleNamespace(remote=whereabouts)))
        said = [
            frames.begun(host, packed(("receive", (LEAF, ROOT, [Announce(number, ANY)], 1))))
            for number in (1, 2)
        ]
        assert not any(isinstance(each, bytes) for each in said), "the second must not overtake the first"
        waiting = [asyncio.ensure_future(each) for each in said if not isinstance(each, bytes)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert asked == [ROOT] and host.driver.handled == 0
        gate.set()
        await asyncio.gather(*waiting)
        assert host.driver.handled == 2
        last = frames.begun(host, packed(("receive", (LEAF, ROOT, [Announce(3, ANY)], 1))))
        assert isinstance(last, bytes), "now the incarnation is known"

    run(test)


def test_an_error_is_raised_at_once_and_leaves_no_answer_owed() -> None:
    async def test(wire: Wire) -> None:
        host = await leaf(wire)
        host.attachments.require_own = _refuse  # type: ignore[method-assign]
        with pytest.raises(ClientError, match="not its own"):
            frames.begun(host, packed(("request", (LEAF, "bob", [events(1)], "", 1.0))))
        host.driver.handle = _refuse  # type: ignore[method-assign]
        with pytest.raises(ClientError, match="not its own"):
            frames.begun(host, packed(("request", (LEAF, "alice", [Register(1, ANY)], "process"))))
        assert host.hosted_brokers[LEAF].answers.of("alice", Register) == []

    run(test)


def _refuse(*_: Any) -> None:
    raise ClientError("not its own")


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OSError("reset"), Unreached), (ActorDiedError(), ActorDiedError)],
    ids=["lost", "dead"],
)
def test_what_was_in_flight_is_missed_as_a_call_of_ray_is(error: Exception, raised: type) -> None:
    async def test(wire: Wire) -> None:
        host = await leaf(wire)
        landing = straight(host)
        assert landing is not None
        wire.calls[-1][1].fail(error)
        assert isinstance(landing.error, raised)

    run(test)


def test_where_messages_have_a_passage_to_pass_nothing_goes_straight() -> None:
    async def test(wire: Wire) -> None:
        host = await leaf(wire)
        wire.ready = False
        assert straight(host) is None
        wire.ready = True
        host.transport.passage = SimpleNamespace()  # type: ignore[assignment]
        assert straight(host) is None and not wire.calls

    run(test)


def test_a_call_that_is_not_answered_in_time_is_missed() -> None:
    async def test(wire: Wire) -> None:
        host = await leaf(wire)
        landing = straight(host, Overdue(0.0))
        assert landing is not None
        with pytest.raises(Unreached):
            await landing

    run(test)


def test_a_request_that_resumes_twice_is_refused_and_changes_nothing() -> None:
    async def test(wire: Wire) -> None:
        host = await leaf(wire)
        said = [Resume({}, 0.0, 0.0, incarnation) for incarnation in (1, 2)]
        with pytest.raises(ClientError, match=r"'alice' resumes 2 times in one request: send one Resume"):
            frames.begun(host, packed(("request", (LEAF, "alice", said, "process"))))
        assert not host.hosted_brokers[LEAF].owners

    run(test)
