"""How much a knee depends on the runs: it is read off means of a few networks.

Rule: a knee is that of the means over runs. Beside it are the knees of single runs, and of means over as many runs,
drawn from them with replacement; the share of these that agrees says how much the runs decide.

Source: paper 1, 5.1 (each point is the mean of ten runs).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .statements import knee

RESAMPLES: Final = 1_000

Samples = Mapping[float, Sequence[float]]
"""The values of all runs at each point of a figure; all points have as many, or one."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The knee of two curves.

    Attributes
    ----------
    knee
        That of the means over runs.
    of_runs
        That of each run.
    agree
        The share of resamples of the runs whose knee is that of all.
    """

    knee: float | None
    of_runs: tuple[float | None, ...]
    agree: float

    def shown(self) -> dict[str, object]:
        """Return it as plain data; of one run, the knee alone."""
        if len(self.of_runs) < 2:
            return {"knee": self.knee}
        return {
            "knee": self.knee,
            "of each run": list(self.of_runs),
            "resamples that agree": round(self.agree, 2),
        }


def spread(one: Samples, other: Samples) -> Spread:
    """Return the knee of two curves, and how much it depends on the runs."""
    runs = max(len(values) for values in one.values())
    every = range(runs)
    found = _knee(one, other, every)
    rng = random.Random("knees")
    drawn = [
        _knee(one, other, [rng.randrange(runs) for _ in every]) for _ in range(RESAMPLES if runs > 1 else 1)
    ]
    return Spread(
        found,
        tuple(_knee(one, other, [run]) for run in every),
        sum(each == found for each in drawn) / len(drawn),
    )


def means(samples: Samples) -> dict[float, float]:
    """Return the curve of the means over all runs."""
    return {at: _mean(values, range(len(values))) for at, values in samples.items()}


def _knee(one: Samples, other: Samples, runs: Sequence[int]) -> float | None:
    """Return the knee of the means over these runs; a point that was run once counts as it is."""
    return knee(*({at: _mean(values, runs) for at, values in each.items()} for each in (one, other)))


def _mean(values: Sequence[float], runs: Sequence[int]) -> float:
    return float(np.mean([values[run] for run in runs])) if len(values) > 1 else values[0]
