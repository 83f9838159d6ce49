"""How evenly a load is spread: the figures of `pipelines.figures.aggregates.load_balance`, for plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..protocol.errors import InputError


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly a load is spread over those who carry it.

    Attributes
    ----------
    mean, largest, max_over_mean
        Of the loads; 1 is even.
    gini
        ``(2 sum(i x_i) / (n sum(x_i))) - (n + 1) / n`` over the loads in rising order: 0 is even, near 1 is all on one.
    variation
        Standard deviation over mean.
    """

    mean: float
    largest: float
    max_over_mean: float
    gini: float
    variation: float


def balance_of(loads: Sequence[float]) -> Balance:
    """Return how evenly loads are spread.

    Raises
    ------
    InputError
        If there are none, or one is negative.
    """
    values = np.sort(np.asarray(loads, np.float64))
    if not len(values) or values[0] < 0:
        raise InputError(f"loads {list(loads)!r}: there must be some, and none below 0")
    mean, count = float(values.mean()), len(values)
    if mean == 0.0:
        return Balance(0.0, 0.0, 1.0, 0.0, 0.0)
    twice = 2.0 * float((np.arange(1, count + 1) * values).sum())
    gini = twice / (count * float(values.sum())) - (count + 1) / count
    largest = float(values[-1])
    return Balance(mean, largest, largest / mean, gini, float(values.std()) / mean)
