"""Processes that share the work on many runs.

Rule: none of them outlives the one that started them.
"""

from __future__ import annotations

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """Let this process end when the one that started it is killed; else it works on to the end, unseen.

    For the `initializer` of a pool.
    """
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
