"""How often tests kill processes with SIGKILL, and at which moments: `make kills` kills twenty times, others less.

``RAYVOUS_KILLS=20 RAYVOUS_KILL_SEED=7 pytest tests/on_ray/test_sink.py -k dies`` draws other moments for one of them.
"""

import os
from random import Random


def kills(usually: int) -> int:
    """Return how many kills a test makes."""
    return int(os.environ.get("RAYVOUS_KILLS", usually))


def rng() -> Random:
    """Return what draws the moments of a test."""
    return Random(int(os.environ.get("RAYVOUS_KILL_SEED", "20")))
