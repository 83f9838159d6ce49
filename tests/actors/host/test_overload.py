"""Hosts with more to do than time for it: nobody is suspected for that, so the work ends and the network is one tree.

The clock goes on by what each event costs, and to the next timer when there is nothing to do.

Reference: promise 6; docs/decisions/0210-a-host-that-is-behind-suspects-nobody.md.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from patience import FrozenLoop
from rayvous.actors.host import ticking
from rayvous.actors.host.clock import Clock
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.membership.succession import Succession
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from virtual_hosts import Lab

RECOVERY = Recovery(heartbeat_seconds=1.0, suspect_after_seconds=3.0, retention_seconds=8.0)
TREE = ClusterTree(20, 10)
BROKERS = 200
HOSTS = 2
EVENT_SECONDS = 0.006
"""What an event costs: there is no time for it as long as all brokers are told the time four times a heartbeat."""
BOUND_SECONDS = 240.0


@pytest.fixture(autouse=True)
def portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a host tell as small a part of its brokers the time at once as one with a thousand of them does."""
    monkeypatch.setattr(ticking, "TOLD_AT_ONCE", BROKERS // HOSTS * ticking.TOLD_AT_ONCE // 1_000)


class BusyLoop(FrozenLoop):
    """A loop whose clock goes to the next timer when nothing is ready; `spend` puts it forward."""

    def spend(self, seconds: float) -> None:
        self.ahead += seconds

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.ahead = max(self.ahead, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


async def started(loop: BusyLoop, told: Counter[str]) -> Lab:
    """Start hosts that tell their brokers the time by themselves, and count the events."""
    positions = scheme("hybrid", heals=True).positions(TREE.positions())
    lab = await Lab(positions, "hybrid", RECOVERY, lambda broker: broker * HOSTS // BROKERS, 0).start()
    for place in lab.hosts():
        host = lab.host(place)
        host._network = None  # no name to tell anybody about
        for hosted in host.hosted_brokers.values():

            def handle(event: Any, handle: Any = hosted.broker.handle) -> Any:
                loop.spend(EVENT_SECONDS)
                told[type(event).__name__] += 1
                return handle(event)

            hosted.broker.handle = handle
        host.resting._went_on_at = lab.now()  # type: ignore[attr-defined]
        host.ticking.begin()
    return lab


def run(test: Callable[[BusyLoop], Awaitable[None]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, BusyLoop)
        await test(loop)

    with asyncio.Runner(loop_factory=BusyLoop) as runner:
        runner.run(main())


def suspicions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return, as they happen, the members that designated brokers leave out."""
    found: list[tuple[int, ...]] = []
    change = Succession._change

    def changed(self: Any, joined: tuple[int, ...], left: tuple[int, ...]) -> Any:
        found.append(left)
        return change(self, joined, left)

    monkeypatch.setattr(Succession, "_change", changed)
    return found


async def rests(loop: BusyLoop, lab: Lab) -> bool:
    """Wait until all brokers but the root rest in one tree; return False if that takes too long."""
    while loop.time() < BOUND_SECONDS:
        await asyncio.sleep(1.0)
        awake = [
            hosted
            for place in lab.hosts()
            for hosted in lab.host(place).hosted_brokers.values()
            if hosted.rests_until is None
        ]
        if len(awake) == 1 and not lab.problems():
            return True
    return False


def test_a_network_that_starts_without_time_for_it_becomes_one_tree_and_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suspected = suspicions(monkeypatch)

    async def test(loop: BusyLoop) -> None:
        told: Counter[str] = Counter()
        lab = await started(loop, told)
        assert await rests(loop, lab), lab.problems()[:3]
        assert suspected == []

    run(test)


def test_without_that_rule_it_takes_the_living_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "stalled", lambda clock: 0.0)
    suspected = suspicions(monkeypatch)

    async def test(loop: BusyLoop) -> None:
        lab = await started(loop, Counter())
        await rests(loop, lab)
        assert suspected != []

    run(test)
