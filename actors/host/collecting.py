"""Garbage collection where many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

FROZEN_FROM: Final = 100
"""From so many brokers on, what a host has made is no longer looked at by collections."""


@contextmanager
def collecting_nothing() -> Iterator[None]:
    """Collect no garbage inside the block, which makes objects that stay.

    Each collection would look at all that were made so far: half of the time in which a host makes a thousand brokers.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def keep_for_good(brokers: int) -> None:
    """Look no more at what was made so far, if it is of many brokers: while they start, that doubles their CPU time."""
    if brokers >= FROZEN_FROM:
        gc.freeze()


def let_go() -> None:
    """Look again at everything, since something that was to stay is gone."""
    gc.unfreeze()
