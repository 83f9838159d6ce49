"""A router whose state is stable: what came in about subscriptions is kept, and now and then the state instead.

Rules
-----
* A router is a value machine, so the same inputs lead to the same state: they are kept as they came, in order, and
  handled again at the next start. What does not change a router, as events do not under most schemes, is not kept.
* When there are more inputs than `inputs_max`, and than there are filters, a snapshot goes in their place. What is
  made of a snapshot does the same as the router that it was taken of, to the order of every table, and a token that was
  given out means the same filter in both.

Paper 4, definition 10: ``Rec.routing_table``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..protocol.effects import Effect, Plain, Received, Write
from .stores import Store

TABLE = "router"


class RecoverableRouter(Protocol):
    """A routing scheme that can say what it keeps."""

    def handle(self, event: Received) -> list[Effect]:
        """Take in one message and return what is to be done about it."""
        ...

    def changed_by(self, event: Received) -> bool:
        """Return whether a message can change what it keeps."""
        ...

    def snapshot(self) -> Plain:
        """Return all that it keeps."""
        ...

    def restore(self, plain: Plain) -> None:
        """Be as the one was whose snapshot that is; only for one that has not handled anything."""
        ...

    def describe(self) -> dict[str, int]:
        """Return the sizes of what it keeps."""
        ...


class LoggedRouter:
    """A router and the record from which it can be made again.

    Parameters
    ----------
    make
        Makes a router that has not handled anything.
    store
        Where the record of an earlier life is.
    inputs_max
        See `Stability`.
    """

    def __init__(self, make: Callable[[], RecoverableRouter], store: Store, inputs_max: int) -> None:
        self._inputs_max = inputs_max
        self._first = self._next = 1  # the inputs that are kept
        self.router = make()
        rows = dict(store.rows(TABLE))
        if ("state",) in rows:
            self._first, snapshot = rows.pop(("state",))
            self._next = self._first
            self.router.restore(snapshot)
        for key in sorted(rows):
            source, message = rows[key]
            self.router.handle(Received(source, message))
            self._next = int(key[1]) + 1

    def handle(self, event: Received) -> tuple[list[Effect], list[Write]]:
        """Take in one message; return what is to be done, and what is to be made stable before."""
        effects = self.router.handle(event)
        if not self.router.changed_by(event):
            return effects, []
        writes = [Write(TABLE, ("input", self._next), (event.source, event.message))]
        self._next += 1
        kept = self._next - self._first
        if kept > self._inputs_max and kept > self.router.describe()["filters"]:
            writes = self._condense()
        return effects, writes

    def _condense(self) -> list[Write]:
        """Keep a snapshot in the place of the inputs that led to it."""
        gone = [Write(TABLE, ("input", number), None) for number in range(self._first, self._next)]
        self._first = self._next
        return [Write(TABLE, ("state",), (self._next, self.router.snapshot())), *gone]
