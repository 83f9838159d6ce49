"""The journal of a machine whose state is stable: the inputs that change it, replaced at intervals by a snapshot.

Rules
-----
* A value machine reaches the same state from the same inputs. The inputs are recorded as they came, in order,
  and handled again at the next start. An input that does not change the state, as events do not under most
  schemes, is not recorded.
* When there are at least `inputs_max` inputs, and at least as many as filters, a snapshot replaces them,
  ahead of the next input. A machine that is restored from a snapshot behaves like the original, down to the
  order of every table, and a token that was issued stands for the same filter in both.

Paper 4, definition 10: ``Rec.routing_table``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from ...protocol.effects import Received, Write
from ...protocol.layers import Recorded
from .stores import Store

TABLE = "router"


_NOTHING: Final[tuple[Write, ...]] = ()


class RecordedMachine(Recorded, Protocol):
    """The layers inside: a value machine that supports snapshots."""

    @property
    def takes(self) -> frozenset[type]:
        """The types of the messages that the machine handles."""
        ...

    @property
    def handle(self) -> Callable[[Received], object]:
        """The function that handles one message and returns its effects."""
        ...

    def describe(self) -> Mapping[str, int]:
        """Return the sizes of the machine's state."""
        ...


class Journal:
    """The record from which a machine can be restored.

    Parameters
    ----------
    machine
        A machine that has not handled anything. It is restored here from the record of an earlier incarnation.
    store
        The store with the record of an earlier incarnation.
    inputs_max
        See `Stability`.
    """

    def __init__(self, machine: RecordedMachine, store: Store, inputs_max: int) -> None:
        self._machine = machine
        self._inputs_max = inputs_max
        self._first = self._next = 1  # the range of the recorded inputs
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
        """Return the writes that record a message which the machine is about to handle."""
        if not self._machine.changed_by(event):
            return _NOTHING
        kept = self._next - self._first
        condensed = []
        if kept >= self._inputs_max and kept >= self._machine.describe()["filters"]:
            condensed = self._condense()
        self._next += 1
        return [*condensed, Write(TABLE, ("input", self._next - 1), (event.source, event.message))]

    def _condense(self) -> list[Write]:
        """Replace the recorded inputs by a snapshot of the state to which they led."""
        gone = [Write(TABLE, ("input", number), None) for number in range(self._first, self._next)]
        self._first = self._next
        return [Write(TABLE, ("state",), (self._next, self._machine.snapshot())), *gone]
