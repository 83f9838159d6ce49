"""Processes that share the work on many runs.

Rule: none of them outlives the one that started them.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from typing import Final

YOUNG_OBJECTS: Final = 50_000
"""How many more there have to be before the garbage collector looks at what is new; rings are rare in a simulation, and
to look for them every few hundred objects takes a tenth of its time."""


def begin_sharing() -> None:
    """Make ready a process that does many runs: for the `initializer` of a pool."""
    gc.set_threshold(YOUNG_OBJECTS)
    end_with_parent()


def end_with_parent() -> None:
    """Let this process end when the one that started it is killed; else it works on to the end, unseen."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
