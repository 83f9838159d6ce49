"""A broker: a pipeline of layers, assembled from the features that are asked for.

Pure: a host (the simulator, the Ray actor) passes events to the broker and carries out its effects.

Rules
-----
* ``handle`` is total and synchronous. It reads no clock and does no I/O, and its result depends only on the events so
  far. So the same events give the same effects on every host.
* A feature is a layer that is present or absent. From the outside in: publisher quotas, numbered links, fan-out,
  admission; then, in a network that heals, flushing, durable clients and retransmission. Innermost is the router, or
  the membership layer with the router inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..protocol.batch import EventBatch
from ..protocol.configs import Position
from ..protocol.effects import Effect, Ticked
from ..protocol.errors import StateDamaged
from ..protocol.ids import BrokerId, ClientId
from ..protocol.layers import Layer, RecordedLayer
from ..protocol.messages.admission import AdmissionConfig, Advertise
from ..protocol.messages.pubsub import Answers
from ..protocol.messages.recovery import Recovery
from ..protocol.stability import Stability
from ..recovery.durability.durable_clients import DurableClients
from ..recovery.durability.identity import Identity
from ..recovery.durability.numbered_links import CrashRecover
from ..recovery.durability.stores import Store
from ..recovery.membership.comparing import Compared, Comparing
from ..recovery.membership.tree import HealingBroker
from ..recovery.membership.views import HealingViews
from ..recovery.replay.ages import Ages
from ..recovery.replay.flushing import Flushing
from ..recovery.replay.replay import Replay
from ..recovery.replay.rounds import Rounds
from ..routing.schemes.claims import claims_of
from ..routing.schemes.local_first import LocalFirstRouter
from ..routing.schemes.own import own_layers
from ..routing.schemes.registry import Router, scheme
from .admission import GRACE_HEARTBEATS, Admitting
from .capabilities import check
from .fanout import FanOut, handed_on
from .healing import Membership, healing_of, membership_of
from .pipeline import Pipeline
from .routing import Routing
from .shaping import Shaping


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
    healing, replay, durable, stable, admitting, shaping
        The layers for membership, retransmission, durable clients, crash recovery, admission control and publisher
        quotas; None where a layer is absent.

    Raises
    ------
    InputError
        If the scheme does not exist, or does not support a feature (`capabilities`).
    StorageFailed
        If the store cannot be read, or belongs to another broker.
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
        claims = claims_of(scheme_name)
        own = [make_layer(position) for make_layer in own_layers(scheme_name)]
        self.position = position
        self._router: Router
        self.healing: Membership | None = None
        self.replay: Replay | None = None
        self.durable: DurableClients | None = None
        self.stable: CrashRecover | None = None
        self.admitting: Admitting | None = None
        self.shaping: Shaping | None = None
        self.pipeline: Pipeline[Any]
        if recovery is not None:
            rounds = Rounds(
                recovery.retention_events_max,
                recovery.retention_seconds,
                recovery.retention_bytes_max,
                late_seconds=recovery.heartbeat_seconds,
            )
            identity = Identity(rounds, recovery.retention_seconds, store)
            here = position.broker
            self.replay = Replay(here, recovery, rounds, store, identity.alive_at, confirms=claims.views)
            self.durable = DurableClients(recovery, store, identity.alive_at)
            self.healing = membership_of(
                position, scheme_name, recovery, rounds, identity, incarnation, seed, joins
            )
            router: Any = self.healing.router
            self._router = router
            self._admit(admission, recovery, fans_out=claims.fans_out, anew=incarnation > 0)
            fan = FanOut(position, heals=True, anew=incarnation > 0) if claims.fans_out else None
            beside = [make(here, recovery) for make in healing_of(scheme_name).beside]
            healing: list[Layer] = [
                Ages(recovery, rounds),
                Flushing(here, recovery),
                self.durable,
                *beside,
                self.replay,
                self.healing,
            ]
            inner = [*own, *self._around(fan=fan), *healing]
            layers = [*self._compares(recovery, inner), *inner]
            self.pipeline = Pipeline([*self._edge(layers, recovery.retention_seconds), *layers])
            self.pipeline.begin()
        else:
            self._router = make(position)
            self._admit(admission, fans_out=claims.fans_out)
            around = self._around(fan=FanOut(position) if claims.fans_out else None)
            inside: list[RecordedLayer] = [*own, *around, Routing(self._router)]
            layers = [*inside]
            if store is not None:
                kind = scheme_name if admission is None else f"{scheme_name} with admission control"
                self.stable = CrashRecover(position, kind, Pipeline(inside), store, stability or Stability())
                layers.insert(0, self.stable)
            self.pipeline = Pipeline([*self._edge(layers, 0.0), *layers])
        self.handle: Callable[[Any], list[Effect]] = self.pipeline.handle  # Received, Ticked, Drained, Missed
        if recovery is not None and recovery.compare_seconds is not None:
            self.handle = self._handle_damaged

    def _compares(self, recovery: Recovery, inside: Sequence[Layer]) -> list[Comparing]:
        """Return the layer that detects damage in the layers inside, where it is configured."""
        if recovery.compare_seconds is None:
            return []
        assert self.healing is not None and self.replay is not None

        def check_all() -> None:
            for layer in inside:
                layer.check()

        router: Any = self._router
        books = None if self.admitting is None else self.admitting.admission
        compared = Compared(router, self.healing, self.replay, check_all, books)
        return [Comparing(self.position.broker, recovery.compare_seconds, compared)]

    def _handle_damaged(self, event: Any) -> list[Effect]:
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

    def _admit(
        self,
        admission: AdmissionConfig | None,
        recovery: Recovery | None = None,
        *,
        fans_out: bool,
        anew: bool = False,
    ) -> None:
        if admission is None:
            return
        here = self._router.placed() if self.healing is None else self.healing.placed
        inside = self._router.takes if self.healing is None else self.healing.takes
        grace = 0.0 if recovery is None else GRACE_HEARTBEATS * recovery.heartbeat_seconds
        hand_on = handed_on if fans_out else None
        self.admitting = Admitting(
            self.position.broker,
            here,
            admission,
            hand_on=hand_on,
            anew=anew,
            grace_seconds=grace,
            inside=inside,
            high_water=None if self.replay is None else self.replay.rounds.high_water,
        )

    def _around(self, *, fan: FanOut | None) -> list[FanOut | Admitting]:
        """Return the layers around the innermost one that do not depend on which one it is."""
        return [layer for layer in (fan, self.admitting) if layer is not None]

    def _edge(self, inside: Sequence[Layer], again_seconds: float) -> list[Shaping]:
        """Return the layer that enforces publisher quotas, around the others."""
        if self.admitting is None:
            return []
        timed = any(Ticked in layer.takes for layer in inside)
        advertised, config = self.admitting.advertised_by, self.admitting.admission.config
        self.shaping = Shaping(advertised, config, again_seconds, timed=timed)
        return [self.shaping]

    @property
    def listens_to(self) -> frozenset[BrokerId]:
        """The brokers whose silence this broker would detect, in a tree that heals."""
        return self.healing.listens_to if isinstance(self.healing, HealingBroker) else frozenset()

    @property
    def fellows(self) -> tuple[BrokerId, ...]:
        """The other members of its multicast group."""
        healing = self.healing
        known = healing.place.fellows if isinstance(healing, HealingBroker) else self.position.members
        return tuple(sorted(other for other in known if other != self.position.broker))

    def publishers(self) -> set[ClientId]:
        """Return the publishers from which it has accepted any events."""
        known = set() if self.replay is None else set(self.replay.publishers())
        return known if self.shaping is None else known | set(self.shaping.publishers())

    def accepted(self, publisher: ClientId) -> int:
        """Return the highest sequence number that it has of a publisher, including events that wait for its quota."""
        accepted = 0 if self.replay is None else self.replay.accepted(publisher)
        return max([accepted, *(int(batch.sequence[-1]) for batch in self.waiting(publisher))])

    def kept_of(self, publisher: ClientId) -> list[tuple[float, EventBatch]]:
        """Return the retained batches of a publisher, each with its age, and those that wait for its quota."""
        kept = [] if self.replay is None else self.replay.kept_of(publisher)
        return [*kept, *((0.0, batch) for batch in self.waiting(publisher))]

    def waiting(self, publisher: ClientId) -> list[EventBatch]:
        """Return the events of a publisher that wait for its quota, the oldest first."""
        return [] if self.shaping is None else self.shaping.waiting(publisher)

    @property
    def left(self) -> bool:
        """Whether the broker has left its network for good."""
        return isinstance(self.healing, HealingViews) and self.healing.left

    @property
    def router(self) -> Router:
        """Its router, for inspection."""
        return self._router

    @property
    def takes_advertisements(self) -> bool:
        """Whether publishers can advertise at this broker."""
        return Advertise in self.pipeline.takes

    def answers_of(self, client: ClientId) -> dict[int, Answers]:
        """Return which brokers can satisfy a client's subscriptions, by number; empty if the scheme has no answers."""
        return self._router.answers_of(client) if isinstance(self._router, LocalFirstRouter) else {}

    def describe(self) -> dict[str, int]:
        """Return the sizes of the broker's state."""
        return self.pipeline.describe()

    def check(self) -> None:
        """Assert the broker's invariants; for tests."""
        self.pipeline.check()
