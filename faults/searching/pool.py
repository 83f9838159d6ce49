"""Runs of a search in several processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from contextlib import contextmanager

from ...protocol.errors import ProcessLost
from ...simulator.processes import begin_sharing
from ..plans.cases import Case
from .attempts import Attempt, attempt
from .search import Run


@contextmanager
def in_processes(processes: int | None = None) -> Iterator[Run]:
    """Give what runs cases in several processes, one per processor if their number is None.

    Raises
    ------
    ProcessLost
        If one of the processes is killed.
    """
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin)

    def run(cases: Sequence[Case]) -> Iterable[Attempt]:
        try:
            yield from pool.map(attempt, cases)
        except BrokenProcessPool:
            raise ProcessLost(
                "a process that searched was killed, most often for want of memory: search smaller networks (--brokers)"
            ) from None

    try:
        yield run
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the search, which ends this process
    begin_sharing()


__all__ = ["in_processes"]
