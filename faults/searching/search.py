"""Searches failing cases: draws, mutates what reached something new, and keeps what reaches more.

Rules
-----
* The first :data:`DRAWN_FIRST` cases are drawn, and later one in :data:`DRAWN_OF`. Each has up to :data:`SCENES`
  scenes, in turn of two seeds at once and of a seed each: what a network costs beside its faults, to build, to heal
  and to judge, is paid once for all. Its network is that of one of them with several brokers: in a network of one
  broker nothing happens between brokers, whatever else is drawn.
* The others are mutations of kept cases (`mutations`), most often of those that reached something rare (`corpus`).
* Cases are made in rounds from what is known when the round begins, at first of few cases, later of :data:`ROUND`, and
  their results are taken in order. So a search that is bounded by runs is the same again, in however many processes it
  runs.
* It ends at the first case that fails, after a number of runs or a time, or when it is interrupted.

Source: the loop of AFL (M. Zalewski) with weights for what is rare (Boehme et al., Coverage-based greybox fuzzing as
Markov chain, CCS 2016); state instead of branches as in Ba et al., Stateful greybox fuzzing, USENIX Security 2022.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from ...protocol import checks
from ...protocol.errors import InputError
from ..checker.verdict import VIOLATED
from ..plans.cases import Case
from ..report import ChaosReport
from .attempts import Attempt, attempt
from .corpus import Corpus, Entry
from .mutations import Mutator

ROUND: Final = 16
DRAWN_OF: Final = 4
DRAWN_FIRST: Final = 32
SCENES: Final = 8
MOMENTS_GIVEN: Final = 16

Run = Callable[[Sequence[Case]], Iterable[Attempt]]
"""Runs cases and yields what became of them, in order."""


def one_by_one(cases: Sequence[Case]) -> Iterator[Attempt]:
    """Run cases in this process."""
    return map(attempt, cases)


@dataclass(slots=True)
class Found:
    """What a search has found.

    Attributes
    ----------
    corpus
        The kept cases, and what was reached.
    runs, seconds
        The work that it took.
    failed
        The report of the first run that failed; None if none did.
    drawn
        How many of the runs were seeds.
    growth
        (runs, points reached by then), of each round.
    """

    corpus: Corpus
    runs: int = 0
    seconds: float = 0.0
    failed: ChaosReport | None = None
    drawn: int = 0
    growth: list[tuple[int, int]] = field(default_factory=list)


def search(
    draw: Callable[[int], Case],
    *,
    seed: int = 0,
    runs_max: int | None = None,
    seconds_max: float | None = None,
    given: Sequence[Case] = (),
    run: Run = one_by_one,
    progress: Callable[[Found], None] | None = None,
) -> Found:
    """Search a failing case.

    Parameters
    ----------
    draw
        Draws the case of a seed: what else it determines is what cases are searched.
    seed
        The first seed that is drawn; it determines all choices, too.
    runs_max, seconds_max
        When to stop; at least one of them.
    given
        Cases that are run first: the corpus of an earlier search.
    run
        Runs cases; in this process if not given.
    progress
        Called after each round.

    Raises
    ------
    InputError
        If there is no bound, or it is none.
    """
    if runs_max is None and seconds_max is None:
        raise InputError("a search needs an end: give runs_max or seconds_max")
    if runs_max is not None:
        checks.whole_number("runs_max", runs_max, 1)
    if seconds_max is not None:
        checks.seconds("seconds_max", seconds_max)
    started = time.monotonic()
    found = Found(Corpus())
    making = _Making(draw, seed, found.corpus, given)
    try:
        while found.failed is None:
            left = min(ROUND, 2 + found.runs // 2)
            left = left if runs_max is None else min(left, runs_max - found.runs)
            found.seconds = time.monotonic() - started
            if left <= 0 or (seconds_max is not None and found.seconds >= seconds_max):
                break
            made = [making.next() for _ in range(left)]
            for (case, parent), (report, seen) in zip(made, run([case for case, _ in made]), strict=True):
                found.runs += 1
                found.drawn += parent is None
                if found.corpus.take(case, seen) and parent is not None:
                    parent.chosen = 0
                if report.outcome == VIOLATED:
                    found.failed = report
                    break
            found.growth.append((found.runs, len(found.corpus.reached)))
            found.seconds = time.monotonic() - started
            if progress is not None:
                progress(found)
    except KeyboardInterrupt:
        pass
    found.seconds = time.monotonic() - started
    return found


class _Making:
    """Makes the cases of a search, one after another."""

    def __init__(self, draw: Callable[[int], Case], seed: int, corpus: Corpus, given: Sequence[Case]) -> None:
        self._draw, self._seed, self._corpus = draw, seed, corpus
        self._given = deque(given)
        self._drawn = 0
        self._rng = Random(f"chaos/search/{seed}")
        self._mutator = Mutator(self._rng)

    def next(self) -> tuple[Case, Entry | None]:
        """Return a case, and the kept one of which it was made."""
        if self._given:
            return self._given.popleft(), None
        rng, corpus = self._rng, self._corpus
        if not corpus.entries or self._drawn < DRAWN_FIRST or rng.randrange(DRAWN_OF) == 0:
            self._drawn += 1
            return self._next_scenes(1 + self._drawn % 2), None
        weights = corpus.weights()
        entry = corpus.choose(rng, weights)
        other = rng.choices(corpus.entries, weights)[0]
        moments = corpus.rare(entry, rng, MOMENTS_GIVEN)
        return self._mutator.mutated(entry.case, moments, other.case, entry.chosen - 1), entry

    def _next_seed(self) -> Case:
        self._seed += 1
        return self._draw(self._seed - 1)

    def _next_scenes(self, at_once: int) -> Case:
        """Return a case that consists of several seeds: scenes, one after another, each of so many seeds."""
        mutator = self._mutator
        scenes = [
            mutator.crowded(self._next_seed(), [self._next_seed() for _ in range(at_once - 1)])
            for _ in range(SCENES)
        ]
        return mutator.staged(scenes)


__all__ = ["Found", "Run", "one_by_one", "search"]
