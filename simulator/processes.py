"""Worker processes for many runs.

Rule: no worker outlives the process that started it.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from typing import Final

YOUNG_OBJECTS: Final = 50_000
"""How many new objects trigger the garbage collector. Reference cycles are rare in a simulation, and looking for them
every few hundred objects takes a tenth of its time."""


def begin_sharing() -> None:
    """Prepare a worker process for many runs: for the `initializer` of a pool."""
    collect_rarely()
    end_with_parent()


def collect_rarely() -> None:
    """Let the garbage collector of a process that simulates run rarely."""
    gc.set_threshold(YOUNG_OBJECTS)


def end_with_parent() -> None:
    """Let this process end when the process that started it is killed; otherwise it would work on unseen."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
