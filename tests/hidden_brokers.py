"""Brokers that err only after something has happened often, which seeds of small networks hardly draw.

``python tests/hidden_brokers.py`` prints the table of docs/chaos.md: of 2,000 seeds only those are run whose plan and
actions are enough for the error, since in the others it cannot show; and one search runs, in which each broker is tried
with the cases in which it errs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from rayvous.broker import Broker, rendezvous_of
from rayvous.faults.checker.verdict import VIOLATED
from rayvous.faults.plans.cases import Case
from rayvous.faults.plans.plans import Crash, CrashCluster, CrashRendezvous, CrashRoot
from rayvous.faults.searching.attempts import Attempt, attempt
from rayvous.faults.searching.search import search
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.protocol.effects import Deliver
from rayvous.protocol.messages.pubsub import Register
from rayvous.routing.topologies.cluster_trees import topology_of
from rayvous.simulator.hosts import FromClient
from rayvous.simulator.processes import collect_rarely

SEEDS: Final = 2_000
RUNS_MAX: Final = SEEDS // 3
SMALL: Final[dict[str, Any]] = {"brokers_max": 5, "seconds": 2.0, "late": False}


def draw(seed: int) -> Case:
    """Return the case of a seed."""
    return draw_sim_case(seed, **SMALL)


# What must be in a case for an error to show.


def deaths(case: Case) -> Counter[int]:
    """Return how often each broker may die."""
    found: Counter[int] = Counter()
    for fault in case.plan.faults:
        for place in topology_of(case.topology).positions():
            named = isinstance(fault, Crash) and fault.broker == place.broker
            within = isinstance(fault, CrashCluster) and fault.cluster == place.cluster
            found[place.broker] += named or within
    return found


def root_deaths(case: Case) -> int:
    """Return how often the root dies, whichever broker that is then."""
    return sum(isinstance(fault, CrashRoot) for fault in case.plan.faults)


def rendezvous_deaths(case: Case) -> int:
    """Return how often the rendezvous point dies."""
    return sum(isinstance(fault, CrashRendezvous) for fault in case.plan.faults)


def highest_number(case: Case) -> int:
    """Return the highest number of a subscription."""
    return max(action.number for action in (*case.opening, *case.actions))


def connections(case: Case) -> int:
    """Return to how many further brokers a client may connect: it moves, or its broker dies."""
    moves = Counter(action.client for action in case.actions if action.do == "move")
    return max(moves.values(), default=0) + sum(deaths(case).values()) + root_deaths(case)


class Errors:
    """All errors in one: each counts its chances in a run, and has its effect only if it is `active`."""

    def __init__(self) -> None:
        self.active = ""
        self.chances: Counter[str] = Counter()
        self._back: set[int] = set()
        self._lives = 0

    def run(self, case: Case, how: Callable[..., Any] = run_case, active: str = "") -> Any:
        """Run a case with one of the errors, or without."""
        self.active, self._lives = active, 0
        self.chances.clear()
        self._back.clear()
        return how(case, broker=self._broker, rendezvous=self._rendezvous)

    def _errs(self, name: str) -> bool:
        self.chances[name] += 1
        return name == self.active

    def _broker(self, position: Any, scheme: str, recovery: Any, incarnation: int, seed: int) -> Broker:
        made = Broker(position, scheme, recovery=recovery, incarnation=incarnation, seed=seed)
        inner = made.handle
        if incarnation:
            self._back.add(position.broker)

        def handle(event: Any) -> list[Any]:
            message = getattr(event, "message", None)
            if isinstance(event, FromClient) and event.connection >= 7 and self._errs("seventh_connection"):
                return []
            if (
                isinstance(message, Register)
                and message.subscription >= 9
                and self._errs("ninth_subscription")
            ):
                return []
            effects = inner(event)
            if any(isinstance(each, Deliver) for each in effects):
                lost = incarnation >= 5 and self._errs("fifth_return")
                if lost or (len(self._back) >= 5 and self._errs("five_are_back")):
                    return [each for each in effects if not isinstance(each, Deliver)]
            return effects

        made.handle = handle  # type: ignore[method-assign]
        return made

    def _rendezvous(self, *given: Any) -> Any:
        made = rendezvous_of(*given)
        self._lives += 1
        inner = made.handle
        if self._lives > 3:
            made.handle = lambda event: [] if self._errs("third_return_of_the_rendezvous") else inner(event)
        return made


MAY: Final[dict[str, Callable[[Case], bool]]] = {
    "fifth_return": lambda case: max(deaths(case).values(), default=0) + root_deaths(case) >= 5,
    "five_are_back": lambda case: sum(map(bool, deaths(case).values())) + root_deaths(case) >= 5,
    "third_return_of_the_rendezvous": lambda case: rendezvous_deaths(case) >= 3,
    "ninth_subscription": lambda case: highest_number(case) >= 9,
    "seventh_connection": lambda case: connections(case) >= 6,
}
"""The errors, and whether a case may show them."""


def seeds_that_fail(errors: Errors, name: str, cases: Sequence[Case]) -> tuple[int, int]:
    """Return how many of the cases of seeds may show an error, and how many fail with it."""
    may = [case for case in cases if MAY[name](case)]
    return len(may), sum(errors.run(case, active=name).outcome == VIOLATED for case in may)


def searched(errors: Errors, start: int, runs_max: int) -> tuple[dict[str, int], int]:
    """Search right brokers; return after how many runs a case fails with each error, and the number of runs."""
    fails: dict[str, int] = {}
    count = 0

    def run(cases: Sequence[Case]) -> Iterator[Attempt]:
        nonlocal count
        for case in cases:
            count += 1
            done = errors.run(case, attempt)
            chances = [name for name in errors.chances if name not in fails]
            for name in chances:
                if errors.run(case, active=name).outcome == VIOLATED:
                    fails[name] = count
            yield done

    runs = search(draw, seed=start, runs_max=runs_max, run=run).runs
    return fails, runs


def main(start: int, runs_max: int) -> None:
    """Print the table."""
    collect_rarely()
    errors = Errors()
    fails, runs = searched(errors, start, runs_max)
    _line(["the error", f"of {SEEDS:,} seeds may show it", "fail", f"a search of {runs} runs"])
    _line(["---"] * 4)
    cases = [draw(seed) for seed in range(SEEDS)]
    for name in MAY:
        _line([f"`{name}`", *seeds_that_fail(errors, name, cases), fails.get(name, "not found")])


def _line(cells: Iterable[object]) -> None:
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    main(*given, *(0, RUNS_MAX)[len(given) :])
