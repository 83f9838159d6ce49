"""``rayvous chaos --search``: search a failing case, guided by what runs reach."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from ...faults.checker.verdict import HOLDS, VIOLATED
from ...faults.plans.case_files import save_case
from ...faults.plans.cases import Case
from ...faults.searching.attempts import attempt
from ...faults.searching.corpus import Entry, name_of, read_corpus, write_corpus
from ...faults.searching.lines import Covered, covered, traced
from ...faults.searching.never import never_handled, never_together
from ...faults.searching.pool import in_processes
from ...faults.searching.search import Found, search
from ...faults.simulated.chaos import draw_sim_case
from ...protocol.configs import DEFAULT_SCHEME
from ...protocol.errors import InputError
from ...routing.schemes.registry import scheme as routing_scheme
from .. import console
from .chaos_cases import print_shrunk, shrunk

BROKERS: Final = 12
FAULTS_SECONDS: Final = 8.0
"""The largest network that a search draws if nothing else is said, and for how long it has faults: many quick runs find
more than few slow ones."""

NEVER_SHOWN: Final = 8
NEVER_MAX: Final = 1_000
LINES_SHARE: Final = 0.2
"""The share of the time of a search that measuring lines may take afterwards."""

MINUTES_MAX: Final = 7 * 24 * 60.0
RUNS_MAX: Final = 10_000_000


class Bound(NamedTuple):
    """When a search ends."""

    runs: int | None
    seconds: float | None


def bound_of(given: str) -> Bound:
    """Return when a search ends: ``minutes=30``, ``runs=500``, or both, whatever comes first.

    Raises
    ------
    InputError
        If it says something else.
    """
    values: dict[str, float] = {}
    for part in given.split(","):
        found = re.fullmatch(r"\s*(minutes|runs)\s*=\s*(\d+(?:\.\d+)?)\s*", part)
        if found is None or found[1] in values:
            raise InputError(f"--search {given}: write minutes=30, runs=500 or minutes=30,runs=500")
        values[found[1]] = float(found[2])
    runs, minutes = values.get("runs"), values.get("minutes")
    if runs is not None and not (runs == int(runs) and 1 <= runs <= RUNS_MAX):
        raise InputError(f"--search {given}: runs must be a whole number from 1 to {RUNS_MAX:,}")
    if minutes is not None and not 0 < minutes <= MINUTES_MAX:
        raise InputError(f"--search {given}: minutes must be above 0, and at most {MINUTES_MAX:,.0f}")
    return Bound(None if runs is None else int(runs), None if minutes is None else 60 * minutes)


def run_search(
    given: str,
    seed: int,
    unfit: Mapping[str, object],
    wanted: Mapping[str, bool],
    *,
    corpus: Path | None = None,
    brokers: int | None = None,
    scheme: str = DEFAULT_SCHEME,
    shrink_seconds: float,
    as_json: bool,
) -> dict[str, object]:
    """Search, shrink the case that fails, print what was found and what was never reached, and return it.

    `unfit` has the options that do not go with a search, by their names; none of them may be given. `wanted` has what
    determines, beside a seed, what cases are drawn.

    Raises
    ------
    InputError
        If an option is invalid, or the folder of the corpus is none.
    """
    bound = bound_of(given)
    for name, value in unfit.items():
        if value:
            raise InputError(f"--{name} does not go with --search, which runs many cases in virtual time")
    if seed < 0 or (brokers is not None and brokers < 2):
        raise InputError("--seed must be at least 0, --brokers at least 2")
    routing_scheme(scheme, heals=True)
    read, wrong = ([], []) if corpus is None else read_corpus(corpus)
    for sentence in wrong:
        console.err.print(f"search: {sentence}", markup=False)

    def draw(number: int) -> Case:
        most = brokers or BROKERS
        return draw_sim_case(number, brokers_max=most, seconds=FAULTS_SECONDS, scheme=scheme, **wanted)  # type: ignore[arg-type]

    with _progress(bound) as progress, in_processes() as run:
        found = search(
            draw,
            seed=seed,
            runs_max=bound.runs,
            seconds_max=bound.seconds,
            given=read,
            run=run,
            progress=progress,
        )
    if corpus is not None:
        write_corpus(corpus, found.corpus.entries, read)
    kept = {"read": len(read), "left_out": wrong, "folder": None if corpus is None else str(corpus)}
    lines, cases = _lines_of(found.corpus.entries, LINES_SHARE * found.seconds)
    result = {"on": "sim", "scheme": scheme, **_result(found, lines, cases, kept)}
    if found.failed is not None and found.failed.drawn is not None:
        path = (corpus or Path()) / name_of(found.failed.drawn).replace("case-", "failed-")
        save_case(found.failed.drawn, path)
        found.failed.source = str(path)
        result |= {"report": found.failed.to_dict(), "replay": found.failed.replay}
    if not as_json:
        _print(found, lines, cases, corpus)
    small = None if found.failed is None else shrunk(found.failed, shrink_seconds)
    if small is not None:
        result["shrunk"] = small
    if as_json:
        console.print_json(result)
    elif small is not None:
        print_shrunk(small)
    return result


def _result(found: Found, lines: Covered, cases: int, kept: Mapping[str, object]) -> dict[str, object]:
    """Return what a search has found as plain data; `kept` is known of its corpus beforehand."""
    reached, entries = found.corpus.reached, found.corpus.entries
    unreached = [each._asdict() for each in lines.unreached]
    return {
        "runs": found.runs,
        "drawn": found.drawn,
        "seconds": round(found.seconds, 3),
        "runs_per_second": round(found.runs / max(found.seconds, 1e-9), 3),
        "reached": {"points": len(reached), "in_words": sum(isinstance(point, str) for point in reached)},
        "corpus": {"cases": len(entries), **kept},
        "never": _never(found),
        "lines": {"reached": lines.reached, "lines": lines.lines, "cases": cases, "unreached": unreached},
        "verdict": VIOLATED if found.failed else HOLDS,
    }


@contextmanager
def _progress(bound: Bound) -> Iterator[Callable[[Found], None]]:
    """Show how far a search is: on a terminal in a line that changes, elsewhere as a line at intervals."""
    said = time.monotonic()

    def words(found: Found) -> str:
        far = " and ".join(
            each
            for each in (
                f"{found.runs:,} of {bound.runs:,} runs" if bound.runs else f"{found.runs:,} runs",
                f"{found.seconds / 60:.1f} of {bound.seconds / 60:g} minutes" if bound.seconds else "",
            )
            if each
        )
        return (
            f"search: {far}, {found.runs / max(found.seconds, 1e-9):.1f} runs a second: "
            f"{len(found.corpus.reached):,} points reached, {len(found.corpus.entries)} cases kept"
        )

    if console.err.is_terminal:
        with console.err.status("search: the first runs") as status:
            yield lambda found: status.update(words(found))
        return

    def line(found: Found) -> None:
        nonlocal said
        if time.monotonic() - said >= console.LINE_SECONDS or found.runs == bound.runs:
            said = time.monotonic()
            console.err.print(words(found), markup=False)

    yield line


def _lines_of(entries: Sequence[Entry], seconds: float) -> tuple[Covered, int]:
    """Return which lines of the brokers the kept cases reach, those that reached most first, and how many were run."""
    ends, cases = time.monotonic() + seconds, 0
    reached: set[tuple[str, int]] = set()
    for entry in sorted(entries, key=lambda entry: -len(entry.new)):
        if cases and time.monotonic() >= ends:
            break
        _, lines = traced(lambda case=entry.case: attempt(case))  # type: ignore[misc]
        reached |= lines
        cases += 1
    return covered(reached), cases


def _never(found: Found) -> dict[str, object]:
    together = never_together(found.corpus.reached)
    return {
        "handled": never_handled(found.corpus.reached, found.corpus.taken),
        "together_count": len(together),
        "together": [each._asdict() for each in together[:NEVER_MAX]],
    }


def _print(found: Found, lines: Covered, cases: int, folder: Path | None) -> None:
    reached = found.corpus.reached
    words = sum(isinstance(point, str) for point in reached)
    share = lines.reached / lines.lines if lines.lines else 0.0
    console.print_table(
        "rayvous chaos --search",
        {
            "runs": f"{found.runs:,} in {found.seconds:,.1f} s, {found.runs / max(found.seconds, 1e-9):.1f} a second; "
            f"{found.drawn:,} of them seeds",
            "reached": f"{len(reached):,} points, {words:,} of them in words",
            "corpus": f"{len(found.corpus.entries)} cases" + (f", in {folder}" if folder else ""),
            "lines of brokers": f"{lines.reached:,} of {lines.lines:,} ({share:.0%}), measured on {cases} cases",
            "never handled": ", ".join(never_handled(reached, found.corpus.taken)) or "nothing",
        },
    )
    together = never_together(reached)
    if together:
        shown = [[f"{each.kind} at {each.state}", f"{each.runs:,}"] for each in together[:NEVER_SHOWN]]
        title = f"never together, of {len(together):,} pairs"
        console.print_columns(title, ["what was handled, and in which state", "runs with either"], shown)
    functions = [each for each in lines.unreached if not each.entered]
    functions.sort(key=lambda each: -len(each.lines))
    if functions:
        rows = [[f"{each.file}: {each.function}", str(len(each.lines))] for each in functions[:NEVER_SHOWN]]
        console.print_columns(f"never called, of {len(functions):,} functions", ["function", "lines"], rows)
    if found.failed is not None:
        for problem in found.failed.problems:
            console.out.print(f"  ! {problem}", markup=False)
        console.print_violations(found.failed.verdict)
        console.out.print(f"replay: {found.failed.replay}", markup=False, soft_wrap=True)
    console.out.print(f"verdict: {console.styled(VIOLATED if found.failed else HOLDS)}")


__all__ = ["bound_of", "run_search"]
