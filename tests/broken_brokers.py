"""Twenty brokers with a rule switched off each, and a seed of chaos that fails with it: what is left of it, shrunk.

``python tests/broken_brokers.py`` shrinks all of them and prints the table of docs/chaos.md.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, partialmethod
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from rayvous.faults.plans.cases import Case, draw_case
from rayvous.faults.report import ChaosReport
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
    case: Case
    run: Callable[[Case], ChaosReport]


def _mutant(change: Callable[..., Any], heals: bool, seed: int) -> Broken:
    case = draw_case(seed, heals=heals, **mutants.SMALL)
    return Broken(change.__name__, case, partial(run_case, broker=mutants.made(change)))


def _saboteur(change: Callable[..., Any]) -> Broken:
    case = draw_case(3, heals=False, seconds=8.0)
    return Broken(change.__name__, case, lambda case: run_case(case, broker=sabotage.saboteur(change)))


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

    def run(case: Case) -> ChaosReport:
        with _without(part, method, wrong):
            return run_case(case, strangers=strangers)

    return Broken(wrong.__name__, draw_sim_case(seed, late=False, **given), run)


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


def _line(cells: Iterable[object]) -> None:
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
