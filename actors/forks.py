"""Processes that were forked from one that had joined Ray.

Rule: Ray's threads and ours do not exist in a forked process, so any call would wait for an answer that never comes.
Such a process is refused at once.
"""

from __future__ import annotations

import os

import ray

from ..protocol.errors import ClientError


class _Fork:
    """Whether this process was forked from one that had joined Ray."""

    happened = False

    def note(self) -> None:
        """Note that this process has just been forked."""
        self.happened = self.happened or ray.is_initialized()


_FORK = _Fork()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FORK.note)


def require_same_process() -> None:
    """Raise ClientError if this process was forked from one that had joined Ray."""
    if _FORK.happened:
        raise ClientError(
            "this process was forked from one that had joined Ray, which works only in that one: start processes "
            "with multiprocessing's 'spawn' method, and attach in each"
        )
