"""Ten brokers that err only where seeds of small networks do not get.

Five err after something has happened often. Four err once a broker has handled a kind of message in two circumstances:
all that never came together in 2,000 seeds, although each two of the three did in at least `OFTEN` of them. One was
ours until a search found it (decision 0204).

``python tests/hidden_brokers.py search`` prints after how many runs of one search of right brokers a case fails with
each, which is tried with the cases in which it errs; ``seeds`` how many of 2,000 seeds fail; ``never`` what never came
together in them.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from rayvous.broker import Broker, rendezvous_of
from rayvous.faults.checker.verdict import VIOLATED
from rayvous.faults.plans.cases import Case
from rayvous.faults.searching.attempts import Attempt, attempt
from rayvous.faults.searching.search import search
from rayvous.faults.simulated import on_simulator
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.protocol.effects import Deliver, Ticked
from rayvous.protocol.messages.beats import is_beat
from rayvous.protocol.messages.pubsub import Register
from rayvous.recovery.replay.replay import Replay
from rayvous.simulator.hosts import FromClient
from rayvous.simulator.processes import collect_rarely

SEEDS: Final = 2_000
RUNS_MAX: Final = SEEDS // 3
SMALL: Final[dict[str, Any]] = {"brokers_max": 5, "seconds": 2.0, "late": False}


OFTEN: Final = 20
"""In how many seeds each two of three things come together that never came together all three."""


class Together(NamedTuple):
    """A kind of message that a broker handles in two circumstances."""

    kind: str
    one: str
    other: str

    def __str__(self) -> str:
        return f"{self.kind} while {self.one} and {self.other}"


NEVER: Final = (
    Together("Installed", "a link is cut", "it was restarted"),
    Together("Goodbye", "one of its cluster is dead", "the rendezvous point was restarted"),
    Together("Root", "a link is cut", "it was restarted"),
    Together("AskRound", "a link is cut", "it was restarted"),
)
"""What ``never`` prints."""


def draw(seed: int) -> Case:
    """Return the case of a seed."""
    return draw_sim_case(seed, **SMALL)


def circumstances(network: Any, broker: int) -> list[str]:
    """Return what is so while a broker handles something, sorted."""
    hosts, here = network.hosts, network.hosts[broker]
    others = [host for host in hosts.values() if host is not here]
    dead = [host for host in others if not host.alive]
    point = network.rendezvous
    words = {
        "it was restarted": here.incarnation > 0,
        "it was restarted twice": here.incarnation > 1,
        "it is slow": here.factor > 1.0,
        "one of its cluster is dead": any(host.cluster == here.cluster for host in dead),
        "one of another cluster is dead": any(host.cluster != here.cluster for host in dead),
        "two are dead": len(dead) > 1,
        "another was restarted": any(host.incarnation > 0 for host in others),
        "another is paused": any(host.alive and host.paused for host in others),
        "another is slow": any(host.alive and host.factor > 1.0 for host in others),
        "a link is cut": bool(network.cuts.reasons),
        "the rendezvous point is dead": point is not None and not point.alive,
        "the rendezvous point was restarted": point is not None and point.incarnation > 0,
    }
    return sorted(word for word, so in words.items() if so)


class Errors:
    """All errors in one: each counts its chances in a run, and has its effect only if it is `active`."""

    def __init__(self, together: Iterable[Together] = NEVER) -> None:
        self.active = ""
        self.chances: Counter[str] = Counter()
        self.met: set[Together] = set()
        self._together = {each: str(each) for each in together}
        self._back: set[int] = set()
        self._lives = 0
        self._network: Any = None

    def run(self, case: Case, how: Callable[..., Any] = run_case, active: str = "") -> Any:
        """Run a case with one of the errors, or without."""
        self.active, self._lives, self._network = active, 0, None
        self.chances.clear()
        self.met.clear()
        self._back.clear()
        real = on_simulator.BreakableSimulation

        def made(*given: Any, **options: Any) -> Any:
            self._network = real(*given, **options)
            return self._network

        on_simulator.BreakableSimulation = made  # type: ignore[assignment,misc]
        try:
            return how(case, broker=self._broker, rendezvous=self._rendezvous)
        finally:
            on_simulator.BreakableSimulation = real  # type: ignore[misc]

    def _meets(self, event: Any, broker: int) -> bool:
        """Note in which circumstances a message is handled; return whether it is those of the active error."""
        message = getattr(event, "message", None)
        if self._network is None or isinstance(event, Ticked) or message is None or is_beat(message):
            return False
        kind = type(getattr(message, "message", message)).__name__
        errs = False
        words = circumstances(self._network, broker)
        self.met.update(Together(kind, word, "") for word in words)
        for one, other in combinations(words, 2):
            here = Together(kind, one, other)
            self.met |= {here, Together("", one, other)}
            if (name := self._together.get(here)) is not None:
                errs |= self._errs(name)
        return errs

    def _errs(self, name: str) -> bool:
        self.chances[name] += 1
        return name == self.active

    def _broker(self, position: Any, scheme: str, recovery: Any, incarnation: int, seed: int) -> Broker:
        made = Broker(position, scheme, recovery=recovery, incarnation=incarnation, seed=seed)
        inner = made.handle
        struck = False
        if incarnation:
            self._back.add(position.broker)
        if (replay := made.layer(Replay)) is not None:
            self._opens_early(replay)

        def handle(event: Any) -> list[Any]:
            nonlocal struck
            struck |= self._meets(event, position.broker)
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
                if struck or lost or (len(self._back) >= 5 and self._errs("five_are_back")):
                    return [each for each in effects if not isinstance(each, Deliver)]
            return effects

        made.handle = handle  # type: ignore[method-assign]
        return made

    def _opens_early(self, replay: Replay) -> None:
        """Let the link of a client that has moved be ready before all that it announced is registered."""
        rounds, complete = replay.rounds, replay.rounds.complete_links

        def links() -> list[Any]:
            closed, right = rounds.closed_links(), complete()
            return closed if len(closed) > len(right) and self._errs(OURS) else right

        rounds.complete_links = links  # type: ignore[method-assign]

    def _rendezvous(self, *given: Any) -> Any:
        made = rendezvous_of(*given)
        self._lives += 1
        inner = made.handle
        if self._lives > 3:
            made.handle = lambda event: [] if self._errs("third_return_of_the_rendezvous") else inner(event)
        return made


OFTEN_NEEDED: Final = (
    "fifth_return", "ninth_subscription", "third_return_of_the_rendezvous", "seventh_connection", "five_are_back",
)  # fmt: skip
"""The errors that need something several times."""

OURS: Final = "opens_before_all_is_registered"

NAMES: Final = (*OFTEN_NEEDED, *map(str, NEVER), OURS)


class Blind(NamedTuple):
    """What 2,000 seeds came to: in how many each error had a chance, and in how many it failed."""

    chances: Counter[str]
    fails: Counter[str]
    met: Counter[Together]


def blind(errors: Errors, seeds: Iterable[int]) -> Blind:
    """Run seeds with right brokers, and those in which an error has a chance also with it."""
    found = Blind(Counter(), Counter(), Counter())
    for seed in seeds:
        case = draw(seed)
        errors.run(case)
        found.met.update(errors.met)
        for name in tuple(errors.chances):
            found.chances[name] += 1
            found.fails[name] += errors.run(case, active=name).outcome == VIOLATED
    return found


def never_together(met: Counter[Together]) -> list[Together]:
    """Return kinds with two circumstances that never came together, although each two of the three did often."""
    kinds = sorted({each.kind for each in met} - {""})
    pairs = sorted((each.one, each.other) for each in met if not each.kind)
    return [
        here
        for kind in kinds
        for one, other in pairs
        if (here := Together(kind, one, other)) not in met
        and min(met[Together(kind, one, "")], met[Together(kind, other, "")], met[Together("", one, other)])
        >= OFTEN
    ]


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
                    sys.stderr.write(f"{name}: fails in run {count}\n")
            yield done
            if len(fails) == len(NAMES):
                raise KeyboardInterrupt  # as a user ends a search

    found = search(draw, seed=start, runs_max=runs_max, run=run)
    if found.failed is not None:
        sys.stderr.write(
            f"right brokers fail in run {found.runs}, which ends the search: {found.failed.case}\n"
        )
    return fails, found.runs


def search_all(start: int, runs_max: int) -> None:
    """Print after how many runs of a search each error is found."""
    errors, began = Errors(), time.process_time()
    fails, runs = searched(errors, start, runs_max)
    _line(
        [
            "the error",
            f"a search of {runs} runs from seed {start:,}, {time.process_time() - began:,.0f} s of CPU time",
        ]
    )
    _line(["---"] * 2)
    for name in NAMES:
        _line([f"`{name}`", f"fails in run {fails[name]}" if name in fails else f"not by run {runs}"])


def run_seeds() -> None:
    """Print how many of the seeds fail with each error."""
    errors, began = Errors(), time.process_time()
    seeds = blind(errors, range(SEEDS))
    spent = f"{time.process_time() - began:,.0f} s of CPU time"
    _line(["the error", f"of {SEEDS:,} seeds have a chance, {spent}", "fail"])
    _line(["---"] * 3)
    for name in NAMES:
        _line([f"`{name}`", seeds.chances[name], seeds.fails[name]])


def print_never() -> None:
    """Print what never came together in the seeds."""
    for each in never_together(blind(Errors(()), range(SEEDS)).met):
        sys.stdout.write(f"{tuple(each)}\n")


def _line(cells: Iterable[object]) -> None:
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    collect_rarely()
    match sys.argv[1:]:
        case ["never"]:
            print_never()
        case ["seeds"]:
            run_seeds()
        case ["search", *given]:
            search_all(*map(int, given), *(0, RUNS_MAX)[len(given) :])
        case _:
            sys.exit("never, seeds, or search [FIRST_SEED [RUNS]]")
