"""Where clients are placed: the round trips that a process measures, and the choice based on them.

Reference: paper 1, section 2 (a client attaches to the nearest broker).
"""

import asyncio
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed_calls import PackedCalls
from patience import PATIENCE_SECONDS
from ray.exceptions import RayActorError
from rayvous.actors.clients import nearness as nearness_file
from rayvous.actors.clients.client import Context
from rayvous.actors.clients.nearness import (
    AT_ONCE,
    FRESH_SECONDS,
    HOSTS_MAX,
    PINGS,
    TIE_FACTOR,
    TIE_SECONDS,
    Nearness,
    RoundTrip,
    checked,
    tiers_of,
)
from rayvous.actors.clients.process import ClientProcess
from rayvous.actors.clients.publisher import Publisher
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import InputError
from rayvous.protocol.features import Features
from rayvous.protocol.messages.recovery import Recovery


class Machine:
    """Hosts and a clock: a ping advances the clock by its round trip."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.hosts: dict[int, Any] = {}
        self.rendezvous = SimpleNamespace(hosts=SimpleNamespace(remote=self._hosts))

    async def _hosts(self) -> dict[int, Any]:
        return dict(self.hosts)

    def host(self, *trips: float, node: str = "elsewhere") -> "Host":
        return Host(self, trips, node)

    def nearness(self, node: str = "here") -> Nearness:
        return Nearness("process", lambda: self.now, lambda: node)


class Host(PackedCalls):
    """A fake actor of a host; its pings take these times in turn, and then the last one again and again."""

    def __init__(self, machine: Machine, trips: tuple[float, ...], node: str) -> None:
        self.machine, self.trips, self.node = machine, trips, node
        self.asked: list[int] = []
        self.ping = SimpleNamespace(remote=self._ping)

    async def _ping(self, broker: int) -> str:
        self.asked.append(broker)
        self.machine.now += self.trips[min(len(self.asked), len(self.trips)) - 1]
        return self.node


class Dead(Host):
    """The actor of a host that is dead."""

    async def _ping(self, broker: int) -> str:
        self.asked.append(broker)
        raise RayActorError


class Silent(Host):
    """The actor of a host that does not answer."""

    async def _ping(self, broker: int) -> str:
        self.asked.append(broker)
        await asyncio.Event().wait()
        raise AssertionError


class Stops(Silent):
    """The actor of a host that answers once."""

    async def _ping(self, broker: int) -> str:
        return await (Host._ping if not self.asked else Silent._ping)(self, broker)


def nearest(machine: Machine, nearness: Nearness | None = None) -> Any:
    return asyncio.run((nearness or machine.nearness()).tiers("nearest", machine.rendezvous))


def test_the_shortest_of_some_round_trips_counts() -> None:
    machine = Machine()
    machine.hosts = {1: machine.host(0.2, 0.2, 0.001, 0.2), 2: machine.host(0.05), 3: machine.host(0.01)}
    assert nearest(machine) == ((1,), (3,), (2,))
    assert all(len(host.asked) == PINGS for host in machine.hosts.values())


def test_brokers_of_one_host_are_equally_near_and_asked_for_once() -> None:
    machine = Machine()
    shared = machine.host(0.001)
    machine.hosts = {5: shared, 4: shared, 6: machine.host(0.1)}
    assert nearest(machine) == ((4, 5), (6,))
    assert shared.asked == [4] * PINGS


def test_the_own_node_comes_first_of_those_that_are_equally_near() -> None:
    machine = Machine()
    machine.hosts = {
        1: machine.host(0.0010),
        2: machine.host(0.0014, node="here"),
        3: machine.host(0.1, node="here"),
    }
    assert nearest(machine) == ((2,), (1,), (3,)), "but a node does not make up for a slow host"
    assert nearest(machine, machine.nearness("elsewhere")) == ((1,), (2,), (3,))


def test_who_is_dead_or_silent_is_not_near_and_nobody_waits_for_it_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nearness_file, "PING_SECONDS", 0.01)
    machine = Machine()
    dead, silent = Dead(machine, (), ""), Silent(machine, (), "")
    machine.hosts = {1: dead, 2: silent, 3: machine.host(0.3)}
    nearness = machine.nearness()

    async def twice() -> None:
        for _ in range(2):
            assert await nearness.tiers("nearest", machine.rendezvous) == ((3,),)

    asyncio.run(twice())
    assert dead.asked == [1] and silent.asked == [2]


def test_a_host_that_stops_while_it_is_measured_counts_by_what_it_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nearness_file, "PING_SECONDS", 0.01)
    machine = Machine()

    machine.hosts = {1: Stops(machine, (0.001,), ""), 2: machine.host(0.3)}
    assert nearest(machine) == ((1,), (2,))


def test_a_host_that_is_still_measured_when_time_is_over_counts_by_what_it_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nearness_file, "MEASURE_SECONDS", 0.05)
    machine = Machine()

    machine.hosts = {1: Stops(machine, (0.2,), ""), 2: machine.host(0.001)}
    assert nearest(machine) == ((2,), (1,))


def test_measuring_ends_in_time_whatever_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearness_file, "MEASURE_SECONDS", 0.02)
    machine = Machine()
    machine.hosts = {broker: Silent(machine, (), "") for broker in range(2 * AT_ONCE)}
    assert nearest(machine) == ()
    assert sum(len(host.asked) for host in machine.hosts.values()) == AT_ONCE


def test_what_is_fresh_is_not_measured_again_and_what_is_new_or_old_is() -> None:
    machine = Machine()
    first, second = machine.host(0.001, 0.001, 0.001, 0.001, 0.5), machine.host(0.1)
    machine.hosts = {1: first}
    nearness = machine.nearness()

    async def test() -> None:
        async def ask(*expected: tuple[int, ...]) -> None:
            assert await nearness.tiers("nearest", machine.rendezvous) == expected

        await ask((1,))
        machine.hosts[2] = second
        await asyncio.gather(ask((1,), (2,)), ask((1,), (2,)), ask((1,), (2,)))
        assert (len(first.asked), len(second.asked)) == (PINGS, PINGS)
        machine.now += FRESH_SECONDS
        await ask((2,), (1,))
        assert (len(first.asked), len(second.asked)) == (2 * PINGS, 2 * PINGS)
        del machine.hosts[1]
        await ask((2,))
        assert list(nearness._known) == [second], "what has left is not kept"

    asyncio.run(test())


def test_in_a_large_network_each_process_measures_some_hosts_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PING_SECONDS", "MEASURE_SECONDS"):  # all answer, however long that takes
        monkeypatch.setattr(nearness_file, name, PATIENCE_SECONDS)
    asked: list[set[int]] = []
    for process in ("one", "two"):
        machine = Machine()
        flying = most = 0

        class Counted(Host):
            async def _ping(self, broker: int) -> str:
                nonlocal flying, most
                flying += 1
                most = max(most, flying)
                await asyncio.sleep(0)
                flying -= 1
                return await super()._ping(broker)

        machine.hosts = {broker: Counted(machine, (0.001,), "") for broker in range(5 * HOSTS_MAX)}
        nearness = Nearness(process, lambda: machine.now, lambda: "here")  # noqa: B023
        for _ in range(2):
            found = nearest(machine, nearness)
            assert sum(map(len, found)) == HOSTS_MAX
            nearness._turn = asyncio.Lock()  # the next run has another loop
        asked.append({broker for broker, host in machine.hosts.items() if host.asked})
        assert len(asked[-1]) == HOSTS_MAX and most == AT_ONCE
    assert asked[0] != asked[1]


trips = st.dictionaries(
    st.integers(0, 50),
    st.builds(RoundTrip, st.floats(1e-5, 1.0), st.sampled_from(["here", "there"])),
)


@given(trips)
def test_tiers_have_every_broker_once_and_none_is_much_nearer_than_one_before(
    measured: dict[int, RoundTrip],
) -> None:
    tiers = tiers_of(measured, "here")
    order = [broker for tier in tiers for broker in tier]
    assert sorted(order) == sorted(measured) and all(tiers)
    for place, broker in enumerate(order):
        nearest_after = min(measured[other].seconds for other in order[place:])
        assert measured[broker].seconds <= TIE_FACTOR * nearest_after + TIE_SECONDS
    for tier in tiers:
        assert len({measured[broker].node == "here" for broker in tier}) == 1


def test_nobody_is_measured_for_any_other_placement() -> None:
    machine = Machine()
    machine.hosts = {1: machine.host(0.001)}
    nearness = machine.nearness()
    assert asyncio.run(nearness.tiers(None, machine.rendezvous)) is None
    assert asyncio.run(nearness.tiers("least-loaded", machine.rendezvous)) == ()
    assert machine.hosts[1].asked == []


@pytest.mark.parametrize("place", ["near", "", 3, True, ["nearest"], b"nearest"])
def test_a_wrong_placement_is_named(place: Any) -> None:
    with pytest.raises(InputError, match=r"place is .*: it must be one of nearest, least-loaded"):
        checked(place)


def test_the_right_ones_are_taken() -> None:
    assert [checked(place) for place in (None, "nearest", "least-loaded")] == [
        None,
        "nearest",
        "least-loaded",
    ]


class At(PackedCalls):
    """The actor of a broker, with the methods that a publisher calls when it moves there."""

    def __init__(self, seconds: float, pause: Callable[[float], Any]) -> None:
        async def ping(_: int) -> str:
            pause(seconds)
            return "node"

        async def poll(*_: Any) -> list[Any]:
            await asyncio.Event().wait()
            return []

        self.ping = SimpleNamespace(remote=ping)
        self.poll = SimpleNamespace(remote=poll)
        self.pid = SimpleNamespace(remote=lambda: asyncio.sleep(0))
        self.end_session = SimpleNamespace(remote=lambda *_: None)


@pytest.mark.parametrize(
    ("placement", "told"), [("nearest", ((2,), (0,), (1,))), ("least-loaded", ()), (None, None)]
)
def test_a_client_that_must_move_says_how_near_the_brokers_are(placement: Any, told: Any) -> None:
    machine = Machine()

    def passes(seconds: float) -> None:
        machine.now += seconds

    hosts = {broker: At(seconds, passes) for broker, seconds in enumerate((0.05, 0.3, 0.001))}
    heard: list[Any] = []

    async def relocate(*arguments: Any) -> Any:
        heard.append(arguments[6])
        return 2, hosts[2]

    async def all_hosts() -> Any:
        return hosts

    directory: Any = SimpleNamespace(hosts=hosts, limits=Limits(), features=Features(Recovery.for_tests()))
    rendezvous = SimpleNamespace(
        relocate=SimpleNamespace(remote=relocate), hosts=SimpleNamespace(remote=all_hosts)
    )
    process = ClientProcess("test", 60.0)
    process.nearness = machine.nearness()
    try:
        ann = Publisher("ann", 1, Context(directory, process, rendezvous, placement))
        process.submit(ann.move(hosts[1], True)).result()
        assert heard == [told] and ann.broker == 2
    finally:
        process.close()


def test_pings_are_no_chance_of_the_process() -> None:
    """A process draws the hosts to measure from its own stream: the global random state is unchanged."""
    machine = Machine()
    machine.hosts = {broker: machine.host(0.001) for broker in range(HOSTS_MAX + 1)}
    before = random.getstate()
    nearest(machine)
    assert random.getstate() == before
