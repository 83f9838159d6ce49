"""Ray Data without its progress bars."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ...protocol.extras import extra


@contextmanager
def quiet() -> Iterator[None]:
    """Let Ray Data of this process show no progress, and say nothing but errors, in the block."""
    with extra("data"):
        from ray.data import DataContext
    context, logger = DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, logger.level
    context.enable_progress_bars = False
    logger.setLevel(logging.ERROR)  # it warns that the progress bars are off
    try:
        yield
    finally:
        context.enable_progress_bars = before[0]
        logger.setLevel(before[1])
