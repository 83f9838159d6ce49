"""A broker: its machines put together.

Pure: a host (the simulator, the Ray actor) gives it events and carries out its effects.

Rule: ``handle`` is total and synchronous. It reads no clock, does no I/O, and its result depends only on the events so
far; so the same events give the same effects, on every host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..faults.crash_recover import CrashRecover
from ..faults.rendezvous import RendezvousMachine
from ..faults.stores import Store
from ..protocol.admission import AdmissionConfig
from ..protocol.configs import Position
from ..protocol.cube import CubeView
from ..protocol.effects import Effect
from ..protocol.errors import InputError
from ..protocol.ids import BrokerId
from ..protocol.recovery import ClusterView, Recovery
from ..protocol.stability import Stability
from ..routing.claims import claims_of
from ..routing.schemes import Router, scheme
from .admitting import Admitting
from .cube_rendezvous import CubeRendezvous
from .healing import HealingBroker
from .healing_cube import HealingCube
from .healing_flat import HealingFlooding, HealingMatchFirst
from .healing_lbdd import HealingLbdd
from .healing_quench import HealingMerged, HealingQuenched, HealingQuenchedMerged
from .healing_views import HealingViews

HEALING: dict[str, type[HealingBroker] | type[HealingViews[Any]]] = {
    "hybrid": HealingBroker,
    "hierarchical": HealingBroker,
    "flooding": HealingFlooding,
    "match-first": HealingMatchFirst,
    "hybrid+merge": HealingMerged,
    "hierarchical+merge": HealingMerged,
    "hybrid+quench": HealingQuenched,
    "hierarchical+quench": HealingQuenched,
    "hybrid+quench+merge": HealingQuenchedMerged,
    "hierarchical+quench+merge": HealingQuenchedMerged,
    "hypercube": HealingCube,
    "lbdd": HealingLbdd,
}
"""What a broker that heals is, by scheme."""

HEALING_SCHEMES = tuple(HEALING)
"""The schemes whose brokers can heal."""


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
        0 at the start of the network, or of a new cluster; higher after each restart, and for a broker that joins.
    seed
        Of the chance in its waits.
    joins
        Whether it comes to a network that runs already, as the designated broker of a new cluster.
    store
        Where it keeps what must outlive it, and finds it when it is made anew; None for a broker that a crash empties.
        One with a store needs ticks.
    stability
        Times and limits of a broker with a store that does not heal.
    admission
        What it admits, and what it can carry; None for a broker that admits everything and keeps no books.

    Raises
    ------
    InputError
        If there is no such scheme, or it cannot do what it is asked to: heal, or recover.
    StorageFailed
        If the store cannot be read, or is that of another broker.
    """

    __slots__ = ("_router", "admitting", "handle", "healing", "position", "stable")

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
        self.position = position
        self.admitting: Admitting | None = None
        self.handle: Callable[[Any], list[Effect]]  # Received, Ticked, Drained
        self.healing: HealingBroker | HealingViews[Any] | None = None
        self.stable: CrashRecover | None = None
        make: Any = scheme(scheme_name)
        if store is not None and admission is not None:
            raise InputError("a broker with admission control cannot recover from a store")
        if store is not None and recovery is None:
            self.stable = CrashRecover(
                position, scheme_name, lambda: make(position), store, stability or Stability()
            )
            self.handle = self.stable.handle
            return
        if recovery is None:
            self._router: Router = make(position)
            self.handle = self._router.handle
            self._admit(admission)
            return
        if scheme_name not in HEALING_SCHEMES:
            raise InputError(f"scheme {scheme_name!r} cannot heal: {', '.join(HEALING_SCHEMES)} can")
        how: dict[str, Any] = {"joins": joins, "store": store}
        kind = HEALING[scheme_name]
        if issubclass(kind, HealingViews):
            if store is not None:
                raise InputError(f"scheme {scheme_name!r} cannot recover from a store")
            how = {}
        self.healing = kind(_node(position, scheme_name), recovery, incarnation, seed, **how)
        self._router = self.healing.router
        self.handle = self.healing.handle
        self._admit(admission, anew=incarnation > 0)

    def _admit(self, admission: AdmissionConfig | None, *, anew: bool = False) -> None:
        if admission is None:
            return
        here, healing = self.position.placed(self.position.members), self.healing
        placed = (lambda: here) if healing is None else (lambda: healing.placed)
        me = self.position.broker
        self.admitting = Admitting(me, placed, admission, self.handle, healing=healing, anew=anew)
        self.handle = self.admitting.handle

    def learn_dead(self, other: BrokerId) -> None:
        """Take in what the transport knows for certain: the process of another broker is dead."""
        if isinstance(self.healing, HealingBroker):
            self.healing.probing.learn_dead(other)

    @property
    def lasting(self) -> HealingBroker | None:
        """The machine that serves durable subscribers, returning publishers and flushes; None where nothing does."""
        return self.healing if isinstance(self.healing, HealingBroker) else None

    @property
    def left(self) -> bool:
        """Whether it has left its network for good."""
        return isinstance(self.healing, HealingViews) and self.healing.left

    @property
    def router(self) -> Router:
        """Its router, to look at."""
        return self._router if self.stable is None else self.stable.router  # type: ignore[return-value]

    def describe(self) -> dict[str, int]:
        """Return the sizes of what the broker keeps."""
        if self.stable is not None:
            return self.router.describe() | self.stable.describe()
        sizes = self.router.describe() if self.healing is None else self.healing.describe()
        return sizes if self.admitting is None else sizes | self.admitting.describe()

    def check(self) -> None:
        """Assert the broker's invariants; for tests."""
        self.router.check()
        if self.admitting is not None:
            self.admitting.check()


def rendezvous_of(recovery: Recovery, start: ClusterView | CubeView) -> RendezvousMachine | CubeRendezvous:
    """Return the rendezvous point of a network that heals.

    Parameters
    ----------
    recovery
        Its times.
    start
        The root with which a tree starts, or the view with which a network does that heals by views.
    """
    if isinstance(start, CubeView):
        return CubeRendezvous(recovery, start)
    return RendezvousMachine(recovery, start)


def _node(position: Position, scheme_name: str) -> Position:
    """Return the place of a broker as the machines see it that mend a tree of clusters."""
    return position.alone() if claims_of(scheme_name).flat else position


def start_of(positions: Sequence[Position], scheme_name: str) -> ClusterView | CubeView:
    """Return what the rendezvous point of a network with these positions has to know at the start."""
    top = _node(next(position for position in positions if position.role == "REB"), scheme_name)
    return top.cube or ClusterView(top.cluster, 0, top.broker, top.members)
