"""Breadth-first search of all states that a system can reach.

Rules
-----
* A system is a first state, the actions of each state, and a judge of states. States with one key behave equally: a
  state that was seen before is not looked at again. Keys are whole states, no hashes of them: nothing is missed.
* States are found in the order of their distance from the first one, so the first violation has a shortest schedule.
* A search is *complete* if it ended because there were no further states. Otherwise a bound of actions, states or time
  ended it, and it says how far it came: every state within `depth` actions was judged.
* A schedule is the list of actions from the first state. Whoever has it can run it again, without the search.
* With `ends`, a complete search also looks for *traps*: states from which no end can be reached any more. Where there
  are none, a system that is not prevented forever gets to an end ("eventually always", paper 4, definitions 8 and 9).

Pure. `processes` makes states of machines; `crash_recovery` is a system.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from ...protocol.checks import number as checked_number
from ...protocol.checks import whole_number
from ..checker.verdict import HOLDS, UNDECIDED, VIOLATED

S = TypeVar("S")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

TRAP: Final = "from here on the system never comes to its end"
PROGRESS_EVERY: Final = 4096
"""After how many states a search says how far it is, and looks at its bounds."""


class System(Protocol[S, A_co]):
    """What can be searched."""

    def first(self) -> S:
        """Return the state in which the system begins."""
        ...

    def actions(self, state: S) -> Iterable[tuple[A_co, S]]:
        """Return every action that is possible in a state, with the state after it, in a fixed order."""
        ...

    def key(self, state: S) -> Hashable:
        """Return what tells a state from all others, in as little memory as possible."""
        ...

    def judge(self, state: S) -> tuple[str, ...]:
        """Return what is violated in a state, as sentences."""
        ...

    def ends(self, state: S) -> bool:
        """Return whether the system has done in this state what it was to do, and is at rest."""
        ...

    def decides(self, state: S) -> bool:
        """Return whether something was due at an end, so that its judgement says anything."""
        ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a search ends at the latest; None is no bound.

    Attributes
    ----------
    depth
        The number of actions from the first state.
    states
        The number of states.
    seconds
        The time, on the clock that the search is given.

    Raises
    ------
    InputError
        If a number is below 0, or none.
    """

    depth: int | None = None
    states: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("depth", "states"):
            if (most := getattr(self, name)) is not None:
                whole_number(name, most, 0)
        if self.seconds is not None:
            checked_number("seconds", self.seconds)


@dataclass(slots=True)
class Searched(Generic[A]):
    """The result of a search.

    Attributes
    ----------
    states, steps
        The number of distinct states, and of actions that led to a state, seen before or not.
    depth
        Every state within this many actions was judged.
    ended, decided
        The number of states at which the system ends, and of those of them at which something was due.
    complete
        Whether all states that can be reached were judged.
    seconds
        How long it took.
    violations
        What is violated, in the nearest state that violates anything; empty if nothing is.
    schedule
        The actions that lead there.
    """

    states: int = 0
    steps: int = 0
    depth: int = 0
    ended: int = 0
    decided: int = 0
    complete: bool = False
    seconds: float = 0.0
    violations: tuple[str, ...] = ()
    schedule: list[A] = field(default_factory=list)

    def outcome(self, bounds: Bounds) -> str:
        """Return what a search within these bounds says.

        It holds, or holds to the depth that was asked for, or is violated; it is undecided if another bound has ended
        it, or if nothing was due at any end.
        """
        if self.violations:
            return VIOLATED
        if self.complete:
            return HOLDS if self.decided else UNDECIDED
        return f"{HOLDS} to depth {self.depth}" if self.depth == bounds.depth else UNDECIDED


class _Graph(Generic[S, A]):
    """The states found so far, by their keys, each with the number of the state from which it was first found."""

    def __init__(self, system: System[S, A]) -> None:
        self._system = system
        self._numbers: dict[Hashable, int] = {system.key(system.first()): 0}
        self._found_from = array("q", [-1])
        self._edges_from, self._edges_to = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._found_from)

    def add(self, source: int, state: S) -> bool:
        """Note that an action leads from one state to another; return whether that one is new."""
        number = self._numbers.setdefault(self._system.key(state), len(self))
        self._edges_from.append(source)
        self._edges_to.append(number)
        if number < len(self):
            return False
        self._found_from.append(source)
        return True

    @property
    def steps(self) -> int:
        """The number of actions that led to a state."""
        return len(self._edges_to)

    def schedule(self, number: int) -> list[A]:
        """Return a shortest list of actions that leads to a state."""
        numbers = [number]
        while (source := self._found_from[numbers[-1]]) >= 0:
            numbers.append(source)
        state, found = self._system.first(), []
        for wanted in numbers[-2::-1]:
            action, state = next(
                each
                for each in self._system.actions(state)
                if self._numbers[self._system.key(each[1])] == wanted
            )
            found.append(action)
        return found

    def trap(self, ends: Sequence[int]) -> int | None:
        """Return the nearest state from which none of these states can be reached; None if there is none."""
        reaches = np.zeros(len(self), dtype=bool)
        reaches[list(ends)] = True
        sources, targets = np.asarray(self._edges_from), np.asarray(self._edges_to)
        before = -1
        while before != (before := int(reaches.sum())):
            reaches[sources[reaches[targets]]] = True
        return None if reaches.all() else int(reaches.argmin())


def search(
    system: System[S, A],
    bounds: Bounds | None = None,
    *,
    clock: Callable[[], float] = float,
    progress: Callable[[Searched[A]], None] | None = None,
) -> Searched[A]:
    """Look at all states of a system, up to the bounds or to the first violation.

    Parameters
    ----------
    system
        The system.
    bounds
        Where to end at the latest.
    clock
        Returns the time in seconds; without one no time passes.
    progress
        Called now and then with the result so far.
    """
    bounds = bounds or Bounds()
    found: Searched[A] = Searched()
    graph, began = _Graph(system), clock()
    first, ends = system.first(), []
    found.violations = system.judge(first)
    level, number = [first], -1
    while level and not found.violations and bounds.depth != found.depth:
        beyond: list[S] = []
        for state in level:
            number += 1
            if system.ends(state):
                ends.append(number)
                found.decided += system.decides(state)
            for _, after in system.actions(state):
                if graph.add(number, after):
                    beyond.append(after)
                    if not found.violations and (wrong := system.judge(after)):
                        found.violations, found.schedule = wrong, graph.schedule(len(graph) - 1)
            if found.violations:
                break
            if number % PROGRESS_EVERY == 0:
                _measure(found, graph, ends, clock() - began)
                if progress is not None:
                    progress(found)
                if _is_over(found, bounds):
                    return found
        else:
            found.depth += 1
            level = beyond
    if not level and not found.violations:
        found.depth -= 1  # at the last one there was nothing any more
        found.complete = True
        if (trapped := graph.trap(ends)) is not None:
            found.violations, found.schedule = (TRAP,), graph.schedule(trapped)
    _measure(found, graph, ends, clock() - began)
    return found


def _measure(found: Searched[A], graph: _Graph[S, A], ends: list[int], seconds: float) -> None:
    found.states, found.steps, found.ended = len(graph), graph.steps, len(ends)
    found.seconds = seconds


def _is_over(found: Searched[A], bounds: Bounds) -> bool:
    return (bounds.states is not None and found.states >= bounds.states) or (
        bounds.seconds is not None and found.seconds >= bounds.seconds
    )
