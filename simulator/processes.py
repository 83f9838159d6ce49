"""Processes that share the work of many runs.

Rule: none of them outlives the process that started it.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from typing import Final

YOUNG_OBJECTS: Final = 50_000
"""How many new objects trigger a garbage collection. Reference cycles are rare in a simulation, and a collection
every few hundred objects takes a tenth of its time."""


def begin_sharing() -> None:
    """Prepare a process for many runs: the `initializer` of a pool."""
    gc.set_threshold(YOUNG_OBJECTS)
    end_with_parent()


def end_with_parent() -> None:
    """Let this process end when its parent is killed; otherwise it would continue to the end, unseen."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
