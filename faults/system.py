"""What a chaos run needs of the system that it breaks: the simulator, or real processes.

Rule: a system does and answers; :mod:`.chaos_run` decides what is done when. Times are seconds on the system's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from ..protocol.ids import BrokerId, ClientId
from ..protocol.traces.account import Account
from ..protocol.traces.trace import Trace
from .injector import Breakable
from .plans.cases import Action, Operation, Rumour
from .recovery_times import RecoveryTimes
from .report import ChaosReport


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a system may take; seconds.

    Attributes
    ----------
    converge, converge_words
        Until everything is sound again after the healing, as a number and as it is reported.
    flush
        Until a publisher is told that everything is delivered.
    forget
        Until brokers have deleted what durable subscribers have acknowledged.
    """

    converge: float
    converge_words: str
    flush: float
    forget: float


class System(Protocol):
    """A network, its clients, and what breaks it. It exists between entering and leaving it as a context."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def now(self) -> float:
        """The time."""
        ...

    @property
    def bounds(self) -> Bounds:
        """How long it may take."""
        ...

    @property
    def timeline(self) -> RecoveryTimes:
        """What was seen of it."""
        ...

    @property
    def account(self) -> Account:
        """What clients did and received so far."""
        ...

    @property
    def network(self) -> Breakable:
        """The network, for faults."""
        ...

    # Time.

    def wait_until(self, when: float) -> None:
        """Let time pass."""
        ...

    def settle(self, until: float) -> None:
        """Wait until nothing is in flight; in virtual time, until that time."""
        ...

    def carry_out(self, until: float, every_seconds: float) -> Iterator[None]:
        """Carry out all faults up to the healing at that time; return control at intervals."""
        ...

    # Clients, and the network's operator.

    def play(self, actions: Sequence[Action], start: float) -> float:
        """Start actions of clients, counted from `start`; return the time of the last one."""
        ...

    def await_clients(self) -> None:
        """Wait until clients have done what they were told to do and nothing hinders them from."""
        ...

    def held_back(self) -> Collection[ClientId]:
        """Return the publishers that have events which wait for their quota."""
        ...

    def flush(self, publishers: Collection[ClientId] | None) -> list[str]:
        """Let publishers wait until all that they published is delivered, all if None; return which wait in vain."""
        ...

    def release(self, publishers: Sequence[ClientId]) -> None:
        """Let publishers leave the network."""
        ...

    def revive(self) -> None:
        """Restart every dead client process that can return."""
        ...

    def operate(self, operations: Sequence[Operation], start: float) -> None:
        """Start operations on the network, counted from `start`."""
        ...

    def spread(self, rumours: Sequence[Rumour], start: float) -> None:
        """Spread wrong news of deaths, counted from `start`."""
        ...

    # Questions; problems are sentences.

    def root(self) -> BrokerId | None:
        """Return the present root, as far as can be seen."""
        ...

    @property
    def operating(self) -> bool:
        """Whether operations go on that take as long as the system likes; it is to converge after their end."""
        ...

    def unconfirmed(self, clients: Sequence[ClientId] | None = None) -> list[str]:
        """Return which subscriptions, of all clients or of these, are not confirmed yet."""
        ...

    def look(self) -> list[str]:
        """Look at the network, for the timeline; return what is wrong with its structure."""
        ...

    def unfinished(self) -> list[str]:
        """Return, of a network with a sound structure, who still waits, and what is wrong with routes and books."""
        ...

    def unforgotten(self) -> list[str]:
        """Return what brokers retain for durable subscribers without need."""
        ...

    # The end.

    def finish(self) -> None:
        """Bring everything to its end that brokers still do; raise what brokers have failed with."""
        ...

    def trace(self) -> Trace:
        """End all faults and all that clients do; return what they did and received."""
        ...

    def count(self, report: ChaosReport) -> None:
        """Add to a report what only this system counts."""
        ...


__all__ = ["Bounds", "System"]
