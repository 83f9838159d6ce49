"""Hosts of a network that heals in one process and in virtual time: their calls are late, fail or hang, processes die.

Rules
-----
* Everything is the code of production but Ray, sockets and the clock: hosts, brokers and the rendezvous point.
* A process that stands still is told no time; calls to it are not answered, and its own do not leave it.
* Whatever is drawn is drawn from the seed, so that a run is repeated to the letter.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from packed_calls import PackedCalls
from patience import FrozenLoop
from ray.exceptions import ActorDiedError
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.survey import survey_of
from rayvous.actors.network.directory import Directory
from rayvous.actors.network.rendezvous import Rendezvous
from rayvous.protocol.configs import Limits, Position
from rayvous.protocol.ids import BrokerId
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.queries import Said
from rayvous.recovery.membership.structure import problems

STEP = 0.05
"""The seconds by which the clock goes on."""
DELAY = 0.04
"""The longest way of a call without faults, in seconds."""
TURNS = 40
"""How often what is ready is run in a step: calls call each other."""
POINT = -1
"""The place of the rendezvous point."""


@dataclass(frozen=True)
class Process:
    """A process: its place, and how often one was started there before."""

    place: int
    number: int = 0


class Dead(asyncio.CancelledError):
    """The process that runs this code is dead."""


@dataclass
class State:
    """What is the matter with a process."""

    serves: Any
    runs: asyncio.Event = field(default_factory=asyncio.Event)
    dead: bool = False


class Named(PackedCalls):
    """A process as another one calls it; equal to all other names of the same process, as handles of Ray are."""

    def __init__(self, lab: "Lab", process: Process, caller: Process) -> None:
        self._lab, self._process, self._caller = lab, process, caller

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self._process == other._process

    def __hash__(self) -> int:
        return hash(self._process)

    def __getattr__(self, method: str) -> "Method":
        if method.startswith("__"):
            raise AttributeError(method)
        return Method(self._lab, self._process, self._caller, method)


class Method:
    """A method of a process, as another process calls it."""

    def __init__(self, lab: "Lab", process: Process, caller: Process, name: str) -> None:
        self._lab, self._process, self._caller, self._name = lab, process, caller, name

    def remote(self, *arguments: Any) -> "asyncio.Task[Any]":
        made = self._lab.call(self._process, self._caller, self._name, arguments)
        task = asyncio.get_running_loop().create_task(made)
        task.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # it is not always waited for
        return task


class Lab:
    """A network of hosts.

    Parameters
    ----------
    positions, scheme, recovery
        The network.
    place_of
        Returns the host of a broker.
    seed
        Of what is drawn.
    """

    def __init__(
        self,
        positions: Sequence[Position],
        scheme: str,
        recovery: Recovery,
        place_of: Callable[[BrokerId], int],
        seed: int,
    ) -> None:
        self.positions, self.scheme, self.recovery, self.place_of = positions, scheme, recovery, place_of
        self.rng = random.Random(seed)
        self.loop = asyncio.get_running_loop()
        assert isinstance(self.loop, FrozenLoop)
        self.states: dict[Process, State] = {}
        self.current: dict[int, Process] = {}
        self.cut: set[tuple[int, ...]] = set()
        self.slow: dict[tuple[int, ...], float] = {}
        self._last: dict[tuple[Process, Process], float] = {}
        self.began = self.now()

    def now(self) -> float:
        """Return the time that brokers are told."""
        return 1_000.0 + self.loop.time()

    # Calls.

    def named(self, process: Process, caller: Process) -> Named:
        return Named(self, process, caller)

    async def call(self, process: Process, caller: Process, name: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method of a process for another one, by the network between them."""
        await self._runs(caller)
        await self._travels(caller, process)
        state = self.states[process]
        if state.dead:
            await self._travels(process, caller)
            raise ActorDiedError
        await self._runs(process)
        made = [self._seen_by(each, process) for each in arguments]
        answer = getattr(state.serves, name)(*made)
        if asyncio.iscoroutine(answer) or isinstance(answer, asyncio.Future):
            answer = await answer
        if state.dead:
            raise ActorDiedError
        await self._runs(process)
        await self._travels(process, caller)
        await self._runs(caller)
        return self._seen_by(answer, caller)

    async def _runs(self, process: Process) -> None:
        state = self.states[process]
        while not state.runs.is_set():
            await state.runs.wait()
        if state.dead:
            raise Dead

    async def _travels(self, source: Process, to: Process) -> None:
        way = source.place, to.place
        if source == to:
            return
        if way in self.cut:
            raise ConnectionError("no way there")
        due = self.loop.time() + self.rng.uniform(0.0, DELAY + self.slow.get(way, 0.0))
        due = self._last[source, to] = max(due, self._last.get((source, to), 0.0))  # calls arrive in order
        await asyncio.sleep(due - self.loop.time())
        if way in self.cut:
            raise ConnectionError("no way there")

    def _seen_by(self, value: Any, process: Process) -> Any:
        """Return a value as another process has it: its names of processes are its own."""
        match value:
            case Named():
                return self.named(value._process, process)
            case tuple() if type(value) is tuple:
                return tuple(self._seen_by(each, process) for each in value)
            case dict():
                return {key: self._seen_by(each, process) for key, each in value.items()}
            case _:
                return value

    # Processes.

    async def start(self) -> "Lab":
        """Start all processes."""
        point = self.current[POINT] = Process(POINT)
        self.point = Rendezvous(None, self.now)
        self._began(point, self.point)
        for place in sorted({self.place_of(position.broker) for position in self.positions}):
            await self._host(Process(place), 0)
        at_point = {
            position.broker: self.named(self.current[self.place_of(position.broker)], point)
            for position in self.positions
        }
        limits = Limits.for_tests()
        self.point.open(
            Directory("net", self.scheme, limits, tuple(self.positions), at_point, None, self.recovery)
        )
        for place in self.hosts():
            await self._connect(self.current[place])
        return self

    def hosts(self) -> list[int]:
        return [place for place in self.current if place != POINT]

    def _began(self, process: Process, serves: Any) -> None:
        state = self.states[process] = State(serves)
        state.runs.set()

    def host(self, place: int) -> BrokerHost:
        host = self.states[self.current[place]].serves
        assert isinstance(host, BrokerHost)
        return host

    async def _host(self, process: Process, incarnation: int) -> None:
        host = BrokerHost(self.scheme, Limits.for_tests(), recovery=self.recovery)
        host.clock.now = self.now  # type: ignore[method-assign]
        await host.start_brokers(
            [position for position in self.positions if self.place_of(position.broker) == process.place],
            incarnation,
        )
        self.current[process.place] = process
        self._began(process, host)

    async def _connect(self, process: Process) -> None:
        host = self.host(process.place)
        known = {broker: self._seen_by(name, process) for broker, name in self.point.hosts().items()}
        await host.connect(known, rendezvous=self.named(self.current[POINT], process))
        host.clock.begin()

    def stop(self, place: int) -> None:
        """Let a process stand still."""
        self.states[self.current[place]].runs.clear()

    def go_on(self, place: int) -> None:
        """Let it run again."""
        self.states[self.current[place]].runs.set()

    def kill(self, place: int) -> None:
        """Kill a process."""
        state = self.states[self.current[place]]
        state.dead = True
        state.runs.set()

    def is_dead(self, place: int) -> bool:
        return self.states[self.current[place]].dead

    async def start_again(self, place: int) -> None:
        """Start the brokers of a dead process in a new one, as production does."""
        dead = self.current[place]
        brokers = [p.broker for p in self.positions if self.place_of(p.broker) == place]
        incarnation = self.point.start_again(brokers, self.named(dead, self.current[POINT]), "by")
        process = Process(place, dead.number + 1)
        await self._host(process, incarnation)
        await self._connect(process)
        for broker in brokers:
            self.point.reborn(broker, self.named(process, self.current[POINT]), incarnation)

    # Time.

    async def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; return whether `until` became true."""
        for _ in range(round(seconds / STEP)):
            self.loop.ahead += STEP  # type: ignore[attr-defined]
            for place in self.hosts():
                state, host = self.states[self.current[place]], self.host(place)
                every = self.recovery.heartbeat_seconds / 4
                offset = 0.01 * place
                if state.runs.is_set() and not state.dead and (self.loop.time() + offset) % every < STEP:
                    await host.ticking.turn()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            if until():
                return True
        return False

    # What is seen.

    def survey(self) -> dict[BrokerId, Said]:
        """Return the reports of the brokers that live."""
        found = {}
        for place in self.hosts():
            if not self.is_dead(place):
                for broker, hosted in self.host(place).hosted_brokers.items():
                    found[broker] = survey_of(hosted)
        return {broker: said for broker, said in found.items() if said is not None}

    def problems(self) -> list[str]:
        """Return what is wrong with the network."""
        return problems(self.survey())
