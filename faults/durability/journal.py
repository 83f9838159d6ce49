"""The journal of a machine whose state is stable: what came in and changes it, and now and then the state instead.

Rules
-----
* A value machine comes to the same state by the same inputs: they are kept as they came, in order, and handled again at
  the next start. What does not change it, as events do not under most schemes, is not kept.
* When there are as many inputs as `inputs_max`, and as there are filters, a snapshot of what they led to goes in their
  place, ahead of the next. What is made of a snapshot does the same as the machine that it was taken of, to the order
  of every table, and a token that was given out means the same filter in both.

Paper 4, definition 10: ``Rec.routing_table``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from ...protocol.effects import Received, Write
from ...protocol.layers import Recorded
from .stores import Store

TABLE = "router"


_NOTHING: Final[tuple[Write, ...]] = ()


class RecordedMachine(Recorded, Protocol):
    """The layers inside: a value machine that can be put down and made again."""

    @property
    def takes(self) -> frozenset[type]:
        """The types of the messages that it takes in."""
        ...

    @property
    def handle(self) -> Callable[[Any], Any]:
        """Take in one message and return what is to be done about it."""
        ...

    def describe(self) -> Mapping[str, int]:
        """Return the sizes of what it keeps."""
        ...


class Journal:
    """The record from which a machine can be made again.

    Parameters
    ----------
    machine
        One that has not handled anything; what an earlier life has left is put into it here.
    store
        Where the record of an earlier life is.
    inputs_max
        See `Stability`.
    """

    def __init__(self, machine: RecordedMachine, store: Store, inputs_max: int) -> None:
        self._machine = machine
        self._inputs_max = inputs_max
        self._first = self._next = 1  # the inputs that are kept
        rows = dict(store.rows(TABLE))
        if ("state",) in rows:
            self._first, snapshot = rows.pop(("state",))
            self._next = self._first
            machine.restore(snapshot)
        for key in sorted(rows):
            source, message = rows[key]
            machine.handle(Received(source, message))
            self._next = int(key[1]) + 1

    def enter(self, event: Received) -> Sequence[Write]:
        """Return what is to be made stable of a message that the machine is about to take in."""
        if not self._machine.changed_by(event):
            return _NOTHING
        kept = self._next - self._first
        condensed = []
        if kept >= self._inputs_max and kept >= self._machine.describe()["filters"]:
            condensed = self._condense()
        self._next += 1
        return [*condensed, Write(TABLE, ("input", self._next - 1), (event.source, event.message))]

    def _condense(self) -> list[Write]:
        """Keep a snapshot in the place of the inputs that led to it."""
        gone = [Write(TABLE, ("input", number), None) for number in range(self._first, self._next)]
        self._first = self._next
        return [Write(TABLE, ("state",), (self._next, self._machine.snapshot())), *gone]
