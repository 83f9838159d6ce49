"""The fault table of a host: cut links hold messages back, bad periods delay them, and order is kept."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from patience import PATIENCE_SECONDS, FrozenLoop, run_frozen
from rayvous.faults.plans.plans import Shake
from rayvous.faults.real.link_faults import PASSED_SECONDS, HostLinkFaults, LinkFaultTable


def go(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(test(), PATIENCE_SECONDS)

    asyncio.run(run())


class Link:
    """Sends numbers over one lane, each in its own task, and records the order in which they leave."""

    def __init__(self, link_faults: HostLinkFaults, source: int, to: int, lane: str = "link") -> None:
        self.link_faults = link_faults
        self.lane = source, to, lane
        self.left: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []

    def send(self, *numbers: int) -> None:
        self.tasks += [asyncio.create_task(self._send(number)) for number in numbers]

    async def _send(self, number: int) -> None:
        await self.link_faults.passage(*self.lane)
        self.left.append(number)

    async def done(self) -> list[int]:
        await asyncio.gather(*self.tasks)
        return self.left


async def turn(times: int = 20) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def test_a_cut_link_holds_what_it_is_given_until_it_is_mended_and_nothing_overtakes() -> None:
    async def test() -> None:
        link_faults = HostLinkFaults(0.2)
        there, back = Link(link_faults, 3, 7), Link(link_faults, 7, 3)
        group, other = Link(link_faults, 3, 7, "group"), Link(link_faults, 3, 8)
        link_faults.set(LinkFaultTable(frozenset({(3, 7)})))
        for link in (there, back, group, other):
            link.send(1, 2, 3)
        await turn()
        assert other.left == [1, 2, 3], "another link is not cut"
        assert there.left == back.left == group.left == []
        link_faults.set(LinkFaultTable(frozenset({(3, 7), (1, 2)})))  # another link is cut as well
        await turn()
        assert there.left == []
        link_faults.set(LinkFaultTable())
        there.send(4)  # at the moment of mending
        for link in (there, back, group):
            assert await link.done() == sorted(link.left) and len(link.left) >= 3
        assert there.left == [1, 2, 3, 4]

    go(test)


def test_cut_again_before_all_that_waits_has_left() -> None:
    async def test() -> None:
        link_faults = HostLinkFaults(0.2)
        link = Link(link_faults, 1, 2)
        link_faults.set(LinkFaultTable(frozenset({(1, 2)})))
        link.send(1, 2)
        await turn()
        link_faults.set(LinkFaultTable())
        link_faults.set(LinkFaultTable(frozenset({(1, 2)})))
        link.send(3)
        await turn()
        assert link.left == []
        link_faults.set(LinkFaultTable())
        assert await link.done() == [1, 2, 3]

    go(test)


def test_a_bad_period_makes_messages_late_and_keeps_their_order() -> None:
    async def test(loop: FrozenLoop) -> None:
        link_faults = HostLinkFaults(0.2, seed=4)
        shaken, calm = Link(link_faults, 1, 2), Link(link_faults, 5, 6)
        link_faults.set(LinkFaultTable(shakes=((60.0, Shake(0.0, 60.0, delay_seconds=0.02, brokers=(1,))),)))
        shaken.send(*range(10))
        calm.send(*range(10))
        await turn()
        assert calm.left == list(range(10)) and len(shaken.left) < 10
        while len(shaken.left) < 10:
            loop.ahead += 0.001
            await turn()
        assert await shaken.done() == list(range(10)) and loop.ahead > 0.03
        link_faults.set(LinkFaultTable(shakes=((0.0, Shake(0.0, 60.0, delay_seconds=9.0)),)))  # already over
        shaken.send(10)
        await turn()
        assert shaken.left[-1] == 10

    run_frozen(test)


def test_faults_with_a_lease_end_by_themselves_and_leave_nothing_behind() -> None:
    class Host:
        """What a table uses of a host."""

        def __init__(self) -> None:
            self.transport = self.resting = self.features = self.usual_times = self
            self.passage: HostLinkFaults | None = None
            self.heartbeat_seconds, self.hosted_brokers = 0.2, {1: None}

        def stop(self) -> None:
            """Every broker is awake."""

    async def test(loop: FrozenLoop) -> None:
        host = Host()
        LinkFaultTable(frozenset({(1, 2)}), lease_seconds=5.0)(host)  # type: ignore[arg-type]
        assert host.passage is not None
        link = Link(host.passage, 1, 2)
        link.send(1, 2)
        loop.ahead += 4.9
        await turn()
        assert link.left == []
        LinkFaultTable(frozenset({(1, 2)}), lease_seconds=3.0)(host)  # type: ignore[arg-type]
        loop.ahead += 2.9
        await turn()
        assert link.left == [], "the lease of another fault ends it no more"
        loop.ahead += 0.2
        assert await link.done() == [1, 2] and host.passage is not None
        lane = host.passage._lanes[1, 2, "link"]
        await lane.acquire()  # a message that is late: what is sent without the passage would overtake it
        loop.ahead += PASSED_SECONDS + 0.1
        await turn()
        assert host.passage is not None
        lane.release()
        loop.ahead += PASSED_SECONDS + 0.1
        await turn()
        assert host.passage is None

    run_frozen(test)


def test_a_slow_broker_takes_its_messages_one_after_the_other_and_others_do_not_wait() -> None:
    async def test(loop: FrozenLoop) -> None:
        link_faults = HostLinkFaults(0.01)
        link_faults.set(LinkFaultTable(factors={1: 100.0}))  # a millisecond per message
        order: list[str] = []

        async def serve(broker: int, messages: int, name: str) -> None:
            await link_faults.service(broker, messages)
            order.append(name)

        slow = [asyncio.create_task(serve(1, 5, "a")), asyncio.create_task(serve(1, 5, "b"))]
        await turn()
        await serve(2, 1000, "quick")
        assert order == ["quick"]
        link_faults.set(LinkFaultTable())
        slow.append(asyncio.create_task(serve(1, 1, "c")))  # quick again, but still behind the others
        loop.ahead += 0.0049
        await turn()
        assert order == ["quick"]
        loop.ahead += 0.0002
        await asyncio.gather(*slow)
        assert order == ["quick", "a", "b", "c"]

    run_frozen(test)
