"""What leaves a process when a step is done: the next calls of idle outboxes and answers to polls; frames of a gateway.

Rules
-----
* What one step puts into a queue leaves together: a hundred announcements of one step are one call.
* A step is a call that came in, from `hold` to `go`. Anything else leaves in the next turn of the event loop.
* Calls to other brokers leave before answers to clients here: the others begin while deliveries are encoded.
* So the events that a call has brought leave before that call is answered, and without a turn of the loop.
* What nobody waits for, as a record of what was done, is done `afterwards`, when the step's events are on their way.
* A queue that fails to send is logged, and silences no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

from ..logs import HOST, Log

Leave = Callable[[], bool]
"""Lets a queue send what it has; returns whether that has left already."""


class Departures:
    """The queues of one event loop that have something to send.

    Parameters
    ----------
    log
        The log of those whose queues they are.

    Attributes
    ----------
    steps
        How many steps have begun.
    """

    def __init__(self, log: Log = HOST) -> None:
        self._log = log
        self.steps = 0
        self._leaving: list[Leave] = []
        self._last: list[Leave] = []
        self._held = False
        self._soon = False
        self._after: list[tuple[Callable[..., object], tuple[object, ...]]] = []

    def add(self, leave: Leave, *, last: bool = False) -> None:
        """Have a queue send what it has when the step is done; `last` after all others."""
        (self._last if last else self._leaving).append(leave)
        if not self._held and not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._go_soon)

    def afterwards(self, do: Callable[..., object], *given: object) -> None:
        """Do something once what the step puts into queues has left, in order; at once outside of a step."""
        if self._held or self._after:
            self._after.append((do, given))
        else:
            do(*given)

    def hold(self) -> None:
        """Begin a step."""
        self.steps += 1
        self._held = True

    def go(self) -> bool:
        """End the step; return whether everything has left already."""
        self._held = False
        left = True
        while self._leaving or self._last:
            if self._leaving:
                leaving, self._leaving = self._leaving, []
            else:
                leaving, self._last = self._last, []
            for leave in leaving:
                try:
                    left &= leave()
                except Exception as error:
                    self._log.error("what waits in a queue could not be sent", exc_info=error)
                    left = False
        for do, given in self._after:  # it grows while what is done has something done afterwards
            try:
                do(*given)
            except Exception as error:
                self._log.error("what a step has done could not be recorded", exc_info=error)
        self._after.clear()
        return left

    def _go_soon(self) -> None:
        self._soon = False
        self.go()


_READERS = Log("rayvous.client")
_OF: WeakKeyDictionary[asyncio.AbstractEventLoop, Departures] = WeakKeyDictionary()


def departures_here() -> Departures:
    """Return the departures that those who read on the running event loop share."""
    loop = asyncio.get_running_loop()
    found = _OF.get(loop)
    return _OF.setdefault(loop, Departures(_READERS)) if found is None else found
