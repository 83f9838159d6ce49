"""When an event was published, as far as formats can say it: clocks of publishers may be wrong.

Rule: a time before 1970, or none, is the beginning of 1970; one that nanoseconds in 64 bits cannot hold is their last
whole second, in the year 2262. Files, their folders and JSON therefore say the same.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

LAST_SECONDS: Final = float((2**63 - 1) // 10**9)


def bounded(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return times of publication (seconds since 1970) that every format can hold."""
    within: npt.NDArray[np.float64] = np.fmin(LAST_SECONDS, np.fmax(0.0, seconds))
    return within


def bounded_one(seconds: float) -> float:
    """Return one time of publication that every format can hold."""
    return min(LAST_SECONDS, max(0.0, seconds))  # in this order: NaN is not greater than 0
