"""The innermost layer where a network heals: membership, replay and routing in one machine.

What the machine changes of its own accord is told to the layers around: where the broker stands, which round began, and
which subscriptions came from its store.

It writes what must outlive it itself, by tables of its own, and is not put down as a whole: no layer that recovers by a
journal goes around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ...faults.rounds import Rounds
from ...protocol.configs import Placed
from ...protocol.effects import Drained, Missed, Ticked
from ...protocol.ids import ClientId
from ...protocol.layers import Event, Handler, Held, Out, RoundBegan
from ...protocol.messages import Register


class HealingMachine(Protocol):
    """A broker that heals, without what stands around."""

    rounds: Rounds

    @property
    def takes(self) -> frozenset[type]:
        """The types of the messages that it takes in."""
        ...

    @property
    def placed(self) -> Placed:
        """Where it stands."""
        ...

    def handle(self, event: Any) -> list[Any]:
        """Take in an event and return what is to be done."""
        ...

    def held(self) -> list[tuple[ClientId, Register]]:
        """Return the subscriptions that it has from its store."""
        ...

    def describe(self) -> Mapping[str, int]:
        """Return the sizes of what it keeps."""
        ...

    def check(self) -> None:
        """Assert its invariants; for tests."""
        ...


class Healing:
    """A machine that heals as a layer.

    Parameters
    ----------
    machine
        One that has not handled anything.
    """

    alters: Mapping[type, Handler] = {}
    sees: Mapping[type, Handler] = {}

    def __init__(self, machine: HealingMachine) -> None:
        self.machine = machine
        self.takes: Mapping[type, Handler] = dict.fromkeys(
            (Ticked, Drained, Missed, *machine.takes), self._handle
        )
        self._placed: Placed | None = None
        self._round = machine.rounds.current

    def _handle(self, event: Event) -> list[Out]:
        machine = self.machine
        out: list[Out] = machine.handle(event)
        if machine.rounds.current != self._round:
            self._round = machine.rounds.current
            out.insert(0, RoundBegan(self._round))  # what of this step goes up goes up in the new round
        placed = machine.placed
        if placed != self._placed:
            if self._placed is None:
                out += [Held(client, register) for client, register in machine.held()]
            self._placed = placed
            out.append(placed)
        return out

    def describe(self) -> Mapping[str, int]:
        """Return the sizes of what the machine keeps."""
        return self.machine.describe()

    def check(self) -> None:
        """Assert the invariants of the machine; for tests."""
        self.machine.check()
