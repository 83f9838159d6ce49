"""Runs that can be made again, each time the same, and recorded: a simulation, a scenario, a case of chaos.

Rules
-----
* A simulation is never touched: each run is driven on a copy (:mod:`rayvous.simulator.snapshots`), from the moment at
  which it was given. On the way snapshots are taken, so that going back to a moment takes a part of a run.
* A scenario and a case are driven as `rayvous run` and `rayvous chaos` do it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final, Never, Protocol

from ...protocol.effects import Received
from ...protocol.scenarios.scenario import Scenario
from ...simulator.hosts import Connection
from ...simulator.parts import Spectator
from ...simulator.run import prepare, run_prepared
from ...simulator.simulation import Simulation
from ...simulator.snapshots import Snapshot
from ..chaos_run import ChaosRun
from ..plans.cases import Case
from ..report import ChaosReport
from ..simulated.on_simulator import OnSimulator
from .frames import Texts
from .recording import Enough, Recording

ACTIONS_A_SNAPSHOT: Final = 2_500
SNAPSHOT_BYTES_MAX: Final = 4 * 1024 * 1024
"""The size of all snapshots of a run together; they take time by their size."""


class Run(Protocol):
    """A run: a network in virtual time, and what drives it."""

    @property
    def name(self) -> str:
        """What it is called beside another one."""

    def record(self, texts: Texts) -> Recording:
        """Make the run and record it."""

    def simulation(self, reached: tuple[int, int]) -> Simulation:
        """Make the run up to a moment, and return the network as it is then."""


class _Stop:
    """A spectator that ends a run at a moment."""

    def __init__(self, reached: tuple[int, int], actions: int = 0, looks: int = 0) -> None:
        self._reached, self._actions, self._looks = reached, actions, looks

    def aside(self) -> None:
        self._looks += 1
        self._look()

    def before(self, action: Callable[[Never], None], value: object) -> None:
        """Do nothing: the moment is after it."""

    def after(self) -> None:
        self._actions += 1
        self._look()

    def lost(self, connection: Connection, received: Received, why: str) -> None:
        """Do nothing: it is not asked."""

    def _look(self) -> None:
        if (self._actions, self._looks) == self._reached:
            raise Enough


class _Driven:
    """A run whose driver begins at the beginning."""

    def __init__(self, name: str, make: Callable[[], tuple[Simulation, Callable[[], object]]]) -> None:
        self.name, self._make = name, make

    def record(self, texts: Texts) -> Recording:
        network, drive = self._make()
        recording = Recording(network, texts)
        _watched(network, recording, drive)
        return recording

    def simulation(self, reached: tuple[int, int]) -> Simulation:
        network, drive = self._make()
        if reached != (0, 0):
            _watched(network, _Stop(reached), drive)
        return network


class _Copied:
    """A simulation that goes on for some time."""

    def __init__(self, name: str, simulation: Simulation, seconds: float) -> None:
        self.name = name
        self._until = simulation.now + seconds
        self._snapshots = [(0, Snapshot(simulation))]

    def record(self, texts: Texts) -> Recording:
        network = self._snapshots[0][1].network()
        recording = Recording(network, texts, lambda actions: self._keep(network, actions))
        _watched(network, recording, lambda: network.advance_to(self._until))
        return recording

    def _keep(self, network: Simulation, actions: int) -> None:
        sizes = [len(each) for _, each in self._snapshots]
        if actions % ACTIONS_A_SNAPSHOT == 0 and sum(sizes) + sizes[-1] <= SNAPSHOT_BYTES_MAX:
            self._snapshots.append((actions, Snapshot(network)))

    def simulation(self, reached: tuple[int, int]) -> Simulation:
        place = bisect_right(self._snapshots, reached[0], key=lambda each: each[0]) - 1
        actions, snapshot = self._snapshots[place]
        network = snapshot.network()
        if actions < reached[0]:
            _watched(network, _Stop((reached[0], 0), actions, -1), lambda: network.advance_to(self._until))
        return network


def _watched(network: Simulation, spectator: Spectator, drive: Callable[[], object]) -> None:
    """Drive a network that somebody watches, to the end or until that one has seen enough."""
    network.spectator = spectator
    try:
        drive()
        spectator.aside()
    except Enough:
        pass
    network.spectator = None


def run_of(given: Simulation | Scenario | Case, seconds: float, name: str = "") -> Run:
    """Return a simulation, a scenario or a case as a run.

    Parameters
    ----------
    given
        What is run.
    seconds
        How long a simulation goes on; the others end by themselves.
    name
        What it is called; the scheme if not given.

    Raises
    ------
    InputError
        If a simulation cannot be taken as it is, for example because it has stores in files.
    """
    name = name or given.scheme
    if isinstance(given, Simulation):
        return _Copied(name, given, seconds)
    if isinstance(given, Scenario):
        return _Driven(name, lambda: _scenario(given))
    return _Driven(name, lambda: _case(given))


def _scenario(scenario: Scenario) -> tuple[Simulation, Callable[[], object]]:
    simulation, explicit = prepare(scenario)
    return simulation, lambda: run_prepared(simulation, explicit)


def _case(case: Case) -> tuple[Simulation, Callable[[], object]]:
    system = OnSimulator(case)
    return system.network, ChaosRun(case, system, ChaosReport("sim", case.describe(), drawn=case)).run


__all__ = ["Run", "run_of"]
