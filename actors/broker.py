"""A broker: its machines put together.

Pure: a host (the simulator, the Ray actor) gives it events and carries out its effects.

Rule: ``handle`` is total and synchronous. It reads no clock, does no I/O, and its result depends only on the events so
far; so the same events give the same effects, on every host.
"""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.configs import Position
from ..protocol.effects import Effect, Received, Ticked
from ..protocol.errors import InputError
from ..protocol.ids import BrokerId
from ..protocol.recovery import Recovery
from ..routing.schemes import Router, scheme
from .healing import HealingBroker

HEALING_SCHEMES = ("hybrid",)
"""The schemes whose brokers can move in the tree."""


class Broker:
    """One broker of a network.

    Parameters
    ----------
    position
        Its place, as the scheme's ``positions`` gives it.
    scheme_name
        The routing scheme that the whole network uses, for example ``"hybrid"``.
    recovery
        How quickly it notices and mends failures; None for a broker that does not, and needs no ticks.
    incarnation
        0 at the start of the network; higher after each restart.
    seed
        Of the chance in its waits.

    Raises
    ------
    InputError
        If there is no such scheme, or it cannot heal and is asked to.
    """

    __slots__ = ("handle", "healing", "position", "router")

    def __init__(
        self,
        position: Position,
        scheme_name: str = "hybrid",
        recovery: Recovery | None = None,
        incarnation: int = 0,
        seed: int = 0,
    ) -> None:
        self.position = position
        self.handle: Callable[[Received | Ticked], list[Effect]]
        self.healing: HealingBroker | None = None
        if recovery is None:
            self.router: Router = scheme(scheme_name)(position)
            self.handle = self.router.handle  # type: ignore[assignment]
            return
        if scheme_name not in HEALING_SCHEMES:
            raise InputError(f"scheme {scheme_name!r} cannot heal: {', '.join(HEALING_SCHEMES)} can")
        self.healing = HealingBroker(position, recovery, incarnation, seed)
        self.router = self.healing.router
        self.handle = self.healing.handle

    def learn_dead(self, other: BrokerId) -> None:
        """Take in what the transport knows for certain: the process of another broker is dead."""
        if self.healing is not None:
            self.healing.probing.learn_dead(other)

    def describe(self) -> dict[str, int]:
        """Return the sizes of what the broker keeps."""
        return self.router.describe() if self.healing is None else self.healing.describe()

    def check(self) -> None:
        """Assert the broker's invariants; for tests."""
        self.router.check()
