"""Garbage collection where many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
