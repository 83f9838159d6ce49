"""Ctrl-C and SIGTERM for verbs that run until interrupted: both end the verb in good order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
HANG_UP: Final = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()


@contextmanager
def _handled_by(handler: Callable[..., None], signals: Iterable[signal.Signals] = SIGNALS) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in signals}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextmanager
def interrupts_set(stop: threading.Event) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM set an event while the block runs, instead of interrupting it."""
    with _handled_by(lambda *_: stop.set()):
        yield


@contextmanager
def ends_interrupt() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP as from a lost ssh, interrupt the block as Ctrl-C does; an ignored one stays ignored."""
    asked = False

    def handle(*_: object) -> None:
        nonlocal asked
        if not asked:  # a second signal must not interrupt what ends in good order
            asked = True
            raise KeyboardInterrupt

    heeded = [n for n in (signal.SIGTERM, *HANG_UP) if signal.getsignal(n) != signal.SIG_IGN]
    with _handled_by(handle, heeded):
        yield


class Interruptible:
    """Ctrl-C and SIGTERM interrupt waits only: a write in progress is completed."""

    def __init__(self) -> None:
        self._asked = False
        self._waiting = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals while the block runs."""
        with _handled_by(self._handle):
            yield

    def _handle(self, *_: object) -> None:
        self._asked = True
        if self._waiting:
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark a wait that a signal interrupts with `KeyboardInterrupt`; an earlier signal interrupts it, too."""
        self._waiting = True
        try:
            if self._asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._waiting = False
