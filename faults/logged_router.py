"""A router whose state is stable: what came in about subscriptions is kept, and now and then the state instead.

Rules
-----
* A router is a value machine, so the same inputs lead to the same state: they are kept as they came, in order, and
  handled again at the next start. Events do not change a router, and are not kept here.
* When there are more inputs than `inputs_max`, and than there are filters, the state goes in their place. The router
  that lives on is then made from that state too: so what runs and what would be restored are the same, to the order
  of every table, and a token that was given out means the same filter in both.

Paper 4, definition 10: ``Rec.routing_table``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..protocol.effects import Effect, Received, Write
from ..protocol.messages import Events
from .stores import Store

TABLE = "router"


class RecoverableRouter(Protocol):
    """A routing scheme that can say what it keeps."""

    def handle(self, event: Received) -> list[Effect]:
        """Take in one message and return what is to be done about it."""
        ...

    def state(self) -> tuple[Any, ...]:
        """Return all that it keeps, as plain data."""
        ...

    def restore(self, state: tuple[Any, ...]) -> None:
        """Be as the one was whose state that is; only for one that has not handled anything."""
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
        self._make = make
        self._inputs_max = inputs_max
        self._first = self._next = 1  # the inputs that are kept
        self.router = make()
        rows = dict(store.rows(TABLE))
        if ("state",) in rows:
            self._first, state = rows.pop(("state",))
            self._next = self._first
            self.router.restore(state)
        for key in sorted(rows):
            source, message = rows[key]
            self.router.handle(Received(source, message))
            self._next = int(key[1]) + 1

    def handle(self, event: Received) -> tuple[list[Effect], list[Write]]:
        """Take in one message; return what is to be done, and what is to be made stable before."""
        effects = self.router.handle(event)
        if isinstance(event.message, Events):
            return effects, []
        writes = [Write(TABLE, ("input", self._next), (event.source, event.message))]
        self._next += 1
        kept = self._next - self._first
        if kept > self._inputs_max and kept > self.router.describe()["filters"]:
            writes = self._keep_state()
        return effects, writes

    def _keep_state(self) -> list[Write]:
        state = self.router.state()
        gone = [Write(TABLE, ("input", number), None) for number in range(self._first, self._next)]
        self._first = self._next
        self.router = self._make()
        self.router.restore(state)
        return [Write(TABLE, ("state",), (self._next, state)), *gone]
