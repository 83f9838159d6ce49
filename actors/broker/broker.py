"""A broker: the pipeline of its layers, made of what it is asked to do.

Pure: a host (the simulator, the Ray actor) gives it events and carries out its effects.

Rules
-----
* ``handle`` is total and synchronous. It reads no clock, does no I/O, and its result depends only on the events so far.
  So the same events give the same effects, on every host.
* A feature is a layer that is there or not. From the outside in: quotas of publishers, numbered links, fan-out,
  admission, then in a network that heals flushing, durable clients and sending again, and innermost the router, or who
  is in the network with the router inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...faults.crash_recover import CrashRecover
from ...faults.durable_clients import DurableClients
from ...faults.flushing import Flushing
from ...faults.identity import Identity
from ...faults.rendezvous import RendezvousMachine
from ...faults.replay import Replay
from ...faults.rounds import Rounds
from ...faults.stores import Store
from ...protocol.admission import AdmissionConfig
from ...protocol.batch import EventBatch
from ...protocol.configs import Position
from ...protocol.cube import CubeView
from ...protocol.effects import Effect, Ticked
from ...protocol.ids import BrokerId, ClientId
from ...protocol.layers import Layer, RecordedLayer
from ...protocol.recovery import ClusterView, Recovery
from ...protocol.stability import Stability
from ...routing.claims import claims_of
from ...routing.schemes import Router, scheme
from ..cube_rendezvous import CubeRendezvous
from ..healing import HealingBroker
from ..healing_cube import HealingCube
from ..healing_fanned import HealingFanned
from ..healing_flat import HealingFlooding, HealingMatchFirst
from ..healing_lbdd import HealingLbdd
from ..healing_point_to_point import HealingPointToPoint
from ..healing_quench import HealingMerged, HealingQuenched, HealingQuenchedMerged
from ..healing_views import HealingViews
from .admission import GRACE_HEARTBEATS, Admitting
from .capabilities import check
from .fanout import FanOut
from .pipeline import Pipeline
from .routing import Routing
from .shaping import Shaping

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
    "hybrid+fanout": HealingFanned,
    "hierarchical+quench+merge": HealingQuenchedMerged,
    "hypercube": HealingCube,
    "lbdd": HealingLbdd,
    "point-to-point": HealingPointToPoint,
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

    Attributes
    ----------
    pipeline
        Its layers.
    handle
        Takes in one event and returns what is to be done.
    healing, replay, durable, stable, admitting, shaping
        The layer that knows who is in the network, that sends again, that serves durable clients, that recovers from
        crashes, that admits, that holds publishers to their quotas; None where it is not there.

    Raises
    ------
    InputError
        If there is no such scheme, or it cannot do what it is asked to (`capabilities`).
    StorageFailed
        If the store cannot be read, or is that of another broker.
    """

    __slots__ = (
        "_router",
        "admitting",
        "durable",
        "handle",
        "healing",
        "pipeline",
        "position",
        "replay",
        "shaping",
        "stable",
    )

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
        make: Any = scheme(scheme_name)
        check(scheme_name, recovery=recovery is not None, store=store is not None)
        fans_out = claims_of(scheme_name).fans_out
        self.position = position
        self._router: Router
        self.healing: HealingBroker | HealingViews[Any] | None = None
        self.replay: Replay | None = None
        self.durable: DurableClients | None = None
        self.stable: CrashRecover | None = None
        self.admitting: Admitting | None = None
        self.shaping: Shaping | None = None
        self.pipeline: Pipeline[Any]
        if recovery is not None:
            rounds = Rounds(
                recovery.retention_events_max, recovery.retention_seconds, recovery.retention_bytes_max
            )
            identity = Identity(rounds, recovery.retention_seconds, store)
            here = position.broker
            confirms = claims_of(scheme_name).views
            self.replay = Replay(here, recovery, rounds, store, identity.alive_at, confirms=confirms)
            self.durable = DurableClients(recovery, store, identity.alive_at)
            make_healing = partial(_healing, position, scheme_name, recovery, incarnation, seed)
            self.healing = make_healing(rounds, identity, joins)
            self._router = self.healing.router
            self._admit(admission, recovery, anew=incarnation > 0)
            fan = FanOut(position, heals=True, anew=incarnation > 0) if fans_out else None
            healing: list[Layer] = [Flushing(here, recovery), self.durable, self.replay, self.healing]
            layers = [*self._around(fan=fan), *healing]
            self.pipeline = Pipeline([*self._edge(layers, recovery.retention_seconds), *layers])
            self.pipeline.begin()
        else:
            self._router = make(position)
            self._admit(admission)
            around = self._around(fan=FanOut(position) if fans_out else None)
            inside: list[RecordedLayer] = [*around, Routing(self._router)]
            layers = [*inside]
            if store is not None:
                kind = scheme_name if admission is None else f"{scheme_name} with admission control"
                self.stable = CrashRecover(position, kind, Pipeline(inside), store, stability or Stability())
                layers.insert(0, self.stable)
            self.pipeline = Pipeline([*self._edge(layers, 0.0), *layers])
        self.handle: Callable[[Any], list[Effect]] = self.pipeline.handle  # Received, Ticked, Drained, Missed

    def _admit(
        self, admission: AdmissionConfig | None, recovery: Recovery | None = None, *, anew: bool = False
    ) -> None:
        if admission is None:
            return
        here = self._router.placed() if self.healing is None else self.healing.placed
        grace = 0.0 if recovery is None else GRACE_HEARTBEATS * recovery.heartbeat_seconds
        self.admitting = Admitting(self.position.broker, here, admission, anew=anew, grace_seconds=grace)

    def _around(self, *, fan: FanOut | None) -> list[FanOut | Admitting]:
        """Return the layers around the innermost one that work the same whatever that is."""
        return [layer for layer in (fan, self.admitting) if layer is not None]

    def _edge(self, inside: Sequence[Layer], again_seconds: float) -> list[Shaping]:
        """Return the layer that holds publishers to what they advertise, around the others."""
        if self.admitting is None:
            return []
        timed = any(Ticked in layer.takes for layer in inside)
        advertised, config = self.admitting.advertised_by, self.admitting.admission.config
        self.shaping = Shaping(advertised, config, again_seconds, timed=timed)
        return [self.shaping]

    def learn_dead(self, other: BrokerId) -> None:
        """Take in what the transport knows for certain: the process of another broker is dead."""
        if isinstance(self.healing, HealingBroker):
            self.healing.probing.learn_dead(other)

    def accepted(self, publisher: ClientId) -> int:
        """Return the last number of a publisher that it has, be it that this waits for its quota."""
        accepted = 0 if self.replay is None else self.replay.accepted(publisher)
        return max([accepted, *(int(batch.sequence[-1]) for batch in self.waiting(publisher))])

    def kept_of(self, publisher: ClientId) -> list[tuple[float, EventBatch]]:
        """Return what it keeps of a publisher, each batch with its age, and what waits for its quota."""
        kept = [] if self.replay is None else self.replay.kept_of(publisher)
        return [*kept, *((0.0, batch) for batch in self.waiting(publisher))]

    def waiting(self, publisher: ClientId) -> list[EventBatch]:
        """Return the events of a publisher that wait for its quota, the oldest first."""
        return [] if self.shaping is None else self.shaping.waiting(publisher)

    @property
    def left(self) -> bool:
        """Whether it has left its network for good."""
        return isinstance(self.healing, HealingViews) and self.healing.left

    @property
    def router(self) -> Router:
        """Its router, to look at."""
        return self._router

    def describe(self) -> dict[str, int]:
        """Return the sizes of what the broker keeps."""
        return self.pipeline.describe()

    def check(self) -> None:
        """Assert the broker's invariants; for tests."""
        self.pipeline.check()


def _healing(
    position: Position,
    scheme_name: str,
    recovery: Recovery,
    incarnation: int,
    seed: int,
    rounds: Rounds,
    identity: Identity,
    joins: bool,
) -> HealingBroker | HealingViews[Any]:
    """Return the layer that knows who is in the network, with the router of a scheme."""
    base, *options = scheme_name.split("+")
    kind = HEALING["+".join((base, *sorted(options, reverse=True)))]
    node = _node(position, scheme_name)
    if issubclass(kind, HealingViews):
        return kind(node, recovery, incarnation, seed, rounds, identity)
    return kind(node, recovery, incarnation, seed, rounds, identity, joins=joins)


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
    """Return what the rendezvous point of a network with these positions has to know at the start.

    One that is started again knows better, when all these may have come later.
    """
    if claims_of(scheme_name).views:
        views = (position.cube for position in positions if position.cube is not None)
        return next(views, CubeView(0, 0, 1, ()))
    roots = (position for position in positions if position.role == "REB")
    top = _node(next(roots, positions[0]), scheme_name)
    return ClusterView(top.cluster, 0, top.broker, top.members)
