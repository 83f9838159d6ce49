"""Twenty brokers with a rule switched off each, and a seed of chaos that fails with it: what is left of it, shrunk.

``python tests/broken_brokers.py`` shrinks all of them and prints a table of docs/chaos.md; ``python
tests/broken_brokers.py search [first=SEED] [starts=COUNT] [runs=MAX] [NAME ...]`` another one: how many runs seeds
need, and searches, until one fails, and how much CPU time.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, partialmethod
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from rayvous.faults.checker.verdict import VIOLATED
from rayvous.faults.plans.cases import Case, draw_case
from rayvous.faults.searching.attempts import Attempt, attempt
from rayvous.faults.searching.search import search
from rayvous.faults.shrinking.shrink import Shrunk, shrink
from rayvous.faults.simulated.chaos import draw_sim_case, run_case


def _module_at(path: str) -> ModuleType:
    """Return a module of tests by its path: by its name, a folder of the package of that name might be found."""
    spec = importlib.util.spec_from_file_location(f"broken_{Path(path).stem}", Path(__file__).parent / path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rules = _module_at("faults/simulated/test_chaos_rules.py")
sabotage = _module_at("simulator/test_chaos.py")
mutants = _module_at("simulator/test_mutants.py")


class Broken(NamedTuple):
    """A broker with a rule switched off, and a case that fails with it."""

    name: str
    seed: int
    draw: Callable[[int], Case]
    run: Callable[..., Any]
    """Runs a case by `run_case`, or by what is given beside it."""

    @property
    def case(self) -> Case:
        """The case that fails."""
        return self.draw(self.seed)


def _mutant(change: Callable[..., Any], heals: bool, seed: int) -> Broken:
    def run(case: Case, how: Callable[..., Any] = run_case) -> Any:
        return how(case, broker=mutants.made(change))

    return Broken(change.__name__, seed, partial(draw_case, heals=heals, **mutants.SMALL), run)


def _saboteur(change: Callable[..., Any]) -> Broken:
    def run(case: Case, how: Callable[..., Any] = run_case) -> Any:
        return how(case, broker=sabotage.saboteur(change))

    return Broken(change.__name__, 3, partial(draw_case, heals=False, seconds=8.0), run)


@contextmanager
def _without(part: type, method: str, wrong: Callable[..., Any]) -> Iterator[None]:
    real = getattr(part, method)
    setattr(part, method, partialmethod(wrong, real))
    try:
        yield
    finally:
        setattr(part, method, real)


def _rule(part: type, method: str, wrong: Callable[..., Any], seed: int, options: dict[str, Any]) -> Broken:
    given = dict(options)
    strangers = given.pop("strangers", True)

    def run(case: Case, how: Callable[..., Any] = run_case) -> Any:
        with _without(part, method, wrong):
            return how(case, strangers=strangers)

    return Broken(wrong.__name__, seed, partial(draw_sim_case, late=False, **given), run)


COLUMNS = "actions", "brokers", "clients", "faults", "events"

BROKEN = [
    _mutant(mutants.skip_dedup, True, 0),
    _mutant(mutants.forget_what_a_moved_client_has_had, True, 1),
    _mutant(mutants.pass_closed_links, True, 14),
    _mutant(mutants.send_nothing_again, True, 0),
    _mutant(mutants.forget_one_filter_of_who_joins, True, 0),
    _mutant(mutants.forget_one_filter_at_succession, True, 3),
    _mutant(mutants.send_twice, False, 0),
    _mutant(mutants.ignore_cancels, False, 1),
    _mutant(mutants.deliver_to_everybody, False, 0),
    _mutant(mutants.renumber, False, 0),
    _mutant(mutants.deliver_backwards, False, 0),
    *map(_saboteur, (sabotage.losing, sabotage.doubling, sabotage.swapping, sabotage.deaf, sabotage.raising)),
    *(_rule(*getattr(row, "values", row)) for row in rules.KEPT),
]


def main() -> None:
    """Shrink all, and write a table in Markdown; a machine that others use, too, gets more time for each."""
    rows: list[Shrunk] = []
    _line(["the broker", "what is violated", "actions before", *COLUMNS, "runs", "CPU seconds"])
    _line(["---"] * (len(COLUMNS) + 5))
    for broken in BROKEN:
        began = time.process_time()
        found = shrink(broken.case, run=broken.run, seconds_max=600.0)
        spent = time.process_time() - began
        assert run_case(found.case).outcome != "violated", "a right broker passes it"
        rows.append(found)
        sizes = [getattr(found.size, what) for what in COLUMNS]
        what = found.reason.condition or found.reason.problem
        _line([f"`{broken.name}`", what, found.before.actions, *sizes, found.runs, f"{spent:.1f}"])
        assert found.finished
    _line(
        [
            "median",
            "",
            "",
            *(statistics.median(getattr(one.size, what) for one in rows) for what in COLUMNS),
            "",
            "",
        ]
    )


STEP: Final = 1_000
"""How far the first seeds are from each other."""


def compare(names: Sequence[str], first: int = 0, starts: int = 10, runs: int = 60) -> None:
    """Print how many runs it takes until a seed fails, and until a search fails, from the same first seeds."""
    _line(
        [
            "the broker",
            "seeds: median, mean",
            "a search: median, mean",
            "share of runs",
            "of CPU time",
            "each",
        ]
    )
    _line(["---"] * 6)
    for broken in BROKEN:
        if names and broken.name not in names:
            continue
        places = range(first, first + starts * STEP, STEP)
        (blind, seconds), (guided, taken) = (
            _timed(partial(until, broken, runs), places) for until in (_seeds_until, _searched_until)
        )
        shares = sum(guided) / sum(blind), taken / seconds
        _line([
            f"`{broken.name}`", _shown(blind), _shown(guided), *(f"{share:.2f}" for share in shares),
            f"{', '.join(map(str, blind))}; {', '.join(map(str, guided))}",
        ])  # fmt: skip


def _timed(until: Callable[[int], int], places: Iterable[int]) -> tuple[list[int], float]:
    began = time.process_time()
    return [until(start) for start in places], time.process_time() - began


def _seeds_until(broken: Broken, runs: int, start: int) -> int:
    """Return the number of the first seed that fails; one more than `runs` if none does."""
    for count in range(1, runs + 1):
        if broken.run(broken.draw(start + count - 1)).outcome == VIOLATED:
            return count
    return runs + 1


def _searched_until(broken: Broken, runs: int, start: int) -> int:
    def run(cases: Sequence[Case]) -> Iterator[Attempt]:
        return (broken.run(case, attempt) for case in cases)

    found = search(broken.draw, seed=start, runs_max=runs, run=run)
    return found.runs if found.failed is not None else runs + 1


def _shown(runs: Sequence[int]) -> str:
    return f"{statistics.median(runs):g}, {statistics.mean(runs):.1f}"


def _line(cells: Iterable[object]) -> None:
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["search"]:
        options = dict(each.split("=") for each in sys.argv[2:] if "=" in each)
        chosen = [each for each in sys.argv[2:] if "=" not in each]
        compare(chosen, **{name: int(number) for name, number in options.items()})
    else:
        main()
