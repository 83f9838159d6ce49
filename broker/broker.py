"""A broker: a pipeline of layers, assembled from the features that are asked for.

Pure: a host (the simulator, the Ray actor) passes events to the broker and carries out its effects.

Rules
-----
* ``handle`` is total and synchronous. It reads no clock and does no I/O, and its result depends only on the events so
  far. So the same events give the same effects on every host.
* A feature is a layer that is present or absent. `stack` has the table of layers.
* A host asks queries (`protocol.queries`); the layers that know answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..protocol.configs import Position
from ..protocol.effects import Effect
from ..protocol.errors import StateDamaged
from ..protocol.layers import Event
from ..protocol.messages.admission import AdmissionConfig, Advertise
from ..protocol.messages.recovery import Recovery
from ..protocol.queries import Query
from ..protocol.stability import Stability
from ..recovery.durability.stores import Store
from ..routing.schemes.registry import scheme
from ..routing.schemes.router import Router
from .pipeline import Pipeline
from .stack import Asked, Stack

L = TypeVar("L")
T = TypeVar("T")


class Broker:
    """One broker of a network.

    Parameters
    ----------
    position
        Its place, as returned by the scheme's ``positions``.
    scheme_name
        The routing scheme of the whole network, for example ``"hybrid"``.
    recovery
        How quickly the broker detects and repairs failures; None for a broker that does not heal and needs no ticks.
    incarnation
        0 at the start of the network, or of a new cluster; higher after each restart, and for a broker that joins.
    seed
        Seed of the random part of its waits.
    joins
        Whether it joins a running network, as the designated broker of a new cluster.
    store
        Where the broker persists its state, and recovers it from after a restart; None for a broker that loses its
        state in a crash. A broker with a store needs ticks.
    stability
        Times and limits of a broker that has a store and does not heal.
    admission
        Admission policy and capacity; None for a broker that admits every subscription and keeps no books.

    Attributes
    ----------
    pipeline
        Its layers.
    handle
        Handles one event and returns the effects.
    router
        Its router, for inspection.

    Raises
    ------
    InputError
        If the scheme does not exist, or cannot heal and `recovery` is given.
    StorageFailed
        If the store cannot be read, or belongs to another broker.
    """

    __slots__ = ("handle", "pipeline", "position", "router")

    def __init__(
        self,
        position: Position,
        scheme_name: str = "hybrid",
        recovery: Recovery | None = None,
        incarnation: int = 0,
        seed: int = 0,
        joins: bool = False,
        *,
        store: Store | None = None,
        stability: Stability | None = None,
        admission: AdmissionConfig | None = None,
    ) -> None:
        asked = Asked(position, scheme_name, recovery, incarnation, seed, joins, store, stability, admission)
        scheme(scheme_name, heals=asked.heals)  # an unknown one is refused first
        stack = Stack(asked)
        self.position = position
        self.router: Router = stack.innermost.router
        self.pipeline: Pipeline[Any] = Pipeline(stack.inside)
        self.pipeline.begin()
        self.handle: Callable[[Event], list[Effect]] = self.pipeline.handle
        if asked.compares:
            self.handle = self._handle_damaged

    def ask(self, query: Query[T]) -> T:
        """Ask the layers a query; the answer of those that know."""
        return self.pipeline.ask(query)

    def layer(self, kind: type[L]) -> L:
        """Return one of the layers, for inspection.

        Raises
        ------
        LookupError
            If the broker does not have it.
        """
        for layer in self.pipeline.layers:
            if isinstance(layer, kind):
                return layer
        raise LookupError(f"broker {self.position.broker} has no layer {kind.__name__}")

    def _handle_damaged(self, event: Event) -> list[Effect]:
        """Handle an event with a state that may be damaged: report any error inside as damaged state."""
        try:
            return self.pipeline.handle(event)
        except StateDamaged:
            raise
        except Exception as error:
            where = f"{type(error).__name__}: {error}"
            raise StateDamaged(
                f"broker {self.position.broker} cannot go on with its state: {where}"
            ) from error

    @property
    def takes_advertisements(self) -> bool:
        """Whether publishers can advertise at this broker."""
        return Advertise in self.pipeline.takes

    def describe(self) -> dict[str, int]:
        """Return the sizes of the broker's state."""
        return self.pipeline.describe()

    def check(self) -> None:
        """Assert the broker's invariants; for tests."""
        self.pipeline.check()
