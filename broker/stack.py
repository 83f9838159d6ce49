"""The layers of a broker: one table, from which every broker is composed.

Rules
-----
* `LAYERS` has a row for each layer, the outermost first: its class, whether a broker has it, and how it is made.
* Layers are made from the inside out, so a row may look at the layers inside. A row that needs another layer asks for
  it by its class; that one is then made first.
* Layers do not name each other. What two of them share is passed to both here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ..protocol.configs import Position
from ..protocol.effects import Ticked
from ..protocol.features import Features
from ..protocol.ids import BrokerId
from ..protocol.messages.admission import AdmissionConfig, required
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
from ..recovery.replay.history import History
from ..recovery.replay.replay import Replay
from ..recovery.replay.rounds import Rounds
from ..routing.schemes.claims import Membership
from ..routing.schemes.own import own_layers
from ..routing.schemes.registry import scheme
from ..routing.schemes.router import LayerOf, Router
from .admission import GRACE_HEARTBEATS, Admitting
from .fanout import FanOut, handed_on
from .healing import MembershipLayer, membership_of
from .pipeline import Pipeline
from .routing import Routing
from .shaping import Shaping

L = TypeVar("L")
Made = TypeVar("Made", covariant=True)


@dataclass(frozen=True)
class Asked:
    """What is asked for of one broker; the fields are the parameters of `Broker`."""

    position: Position
    scheme_name: str
    recovery: Recovery | None
    incarnation: int
    seed: int
    joins: bool
    store: Store | None
    stability: Stability | None
    admission: AdmissionConfig | None

    @property
    def here(self) -> BrokerId:
        """The broker."""
        return self.position.broker

    @cached_property
    def scheme(self) -> type[Router]:
        """Its scheme."""
        return scheme(self.scheme_name)

    @property
    def fans_out(self) -> bool:
        """Whether members of a cluster pass messages on to each other."""
        return self.scheme.claims.fans_out

    @property
    def in_views(self) -> bool:
        """Whether it heals, in views."""
        return self.heals and self.scheme.membership is Membership.VIEWS

    @cached_property
    def features(self) -> Features:
        """Those of its network, as far as the broker knows them."""
        return Features(self.recovery, self.store is not None, self.admission)

    @cached_property
    def heals(self) -> bool:
        """Whether its network heals."""
        return self.features.heals

    @property
    def compares(self) -> bool:
        """Whether it compares its state with that of others, to detect damage."""
        return self.features.compares

    @property
    def admits(self) -> bool:
        """Whether its network has admission control."""
        return self.features.admits

    @property
    def restarted(self) -> bool:
        """Whether it heals and is not in its first incarnation."""
        return self.heals and self.incarnation > 0

    @property
    def times(self) -> Recovery:
        """The times and bounds of a network that heals."""
        return self.features.times


class Row(NamedTuple, Generic[Made]):
    """A row of the table.

    Attributes
    ----------
    kind
        The class of the layer, by which other rows ask for it.
    is_there
        Whether a broker has it.
    make
        Makes it.
    """

    kind: type[Made]
    is_there: Callable[[Asked], bool]
    make: Callable[[Asked, Stack], Made]


class Stack:
    """The layers of one broker, made from the inside out.

    Parameters
    ----------
    asked
        What is asked for of the broker.

    Attributes
    ----------
    inside
        The layers inside of the one that is being made, the outermost first; all layers once they are made.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._rows = rows_of(asked)
        self._made: dict[int, Any] = {}
        self.inside: list[Any] = []
        for place in reversed(range(len(self._rows))):
            self.inside.insert(0, self._at(place))

    def _at(self, place: int) -> Any:
        if place not in self._made:
            self._made[place] = self._rows[place].make(self._asked, self)
        return self._made[place]

    def get(self, kind: type[L]) -> L | None:
        """Return a layer, made now if it is not made yet; None if the broker does not have it."""
        return next((self._at(place) for place, row in enumerate(self._rows) if row.kind is kind), None)

    def __getitem__(self, kind: type[L]) -> L:
        """Return a layer that the broker has, made now if it is not made yet."""
        layer = self.get(kind)
        assert layer is not None, f"the broker has no {kind.__name__}"
        return layer

    @cached_property
    def identity(self) -> Identity:
        """What the broker knows from an earlier incarnation, read once; its rounds know it too."""
        times = self._asked.times
        rounds = Rounds(
            times.retention_events_max,
            times.retention_seconds,
            times.retention_bytes_max,
            late_seconds=times.heartbeat_seconds,
        )
        return Identity(rounds, times.retention_seconds, self._asked.store)

    @property
    def innermost(self) -> MembershipLayer | Routing:
        """The layer with the router inside."""
        if not self._asked.heals:
            return self[Routing]
        return self[HealingViews] if self._asked.in_views else self[HealingBroker]

    @property
    def takes(self) -> set[type]:
        """The types that the layers inside take."""
        return {kind for layer in self.inside for kind in layer.takes}


def _shaping(asked: Asked, stack: Stack) -> Shaping:
    admitting = stack[Admitting]
    config, retransmission_seconds = (
        admitting.admission.config,
        asked.times.retention_seconds if asked.heals else 0.0,
    )
    return Shaping(admitting.advertised_by, config, retransmission_seconds, timed=Ticked in stack.takes)


def _links(asked: Asked, stack: Stack) -> CrashRecover:
    assert asked.store is not None
    kind = f"{asked.scheme_name} with admission control" if asked.admits else asked.scheme_name
    inside: Pipeline[Any] = Pipeline(tuple(stack.inside))
    return CrashRecover(asked.position, kind, inside, asked.store, asked.stability or Stability())


def _comparing(asked: Asked, stack: Stack) -> Comparing:
    seconds, place, inside = asked.times.compare_seconds, stack.innermost, tuple(stack.inside)
    assert seconds is not None and not isinstance(place, Routing)

    def check_all() -> None:
        for layer in inside:
            layer.check()

    books = stack[Admitting].admission if asked.admits else None
    return Comparing(asked.here, seconds, Compared(place.router, place, stack[Replay], check_all, books))


def _fan_out(asked: Asked, stack: Stack) -> FanOut:
    return FanOut(asked.position, heals=asked.heals, anew=asked.restarted)


def _admitting(asked: Asked, stack: Stack) -> Admitting:
    return Admitting(
        asked.here,
        stack.innermost.placed,
        required(asked.admission),
        hand_on=handed_on if asked.fans_out else None,
        anew=asked.restarted,
        grace_seconds=GRACE_HEARTBEATS * asked.times.heartbeat_seconds if asked.heals else 0.0,
        inside=stack.takes,
        high_water=stack[Replay].rounds.high_water if asked.heals else None,
    )


def _durable(asked: Asked, stack: Stack) -> DurableClients:
    return DurableClients(asked.times, asked.store, stack.identity.alive_at)


def _history(asked: Asked, stack: Stack) -> History:
    times = asked.times
    return History(times.history_seconds, times.history_bytes_max, asked.store, stack.identity.alive_at)


def _replay(asked: Asked, stack: Stack) -> Replay:
    since, rounds, confirms = stack.identity, stack.identity.rounds, asked.in_views
    return Replay(asked.here, asked.times, rounds, asked.store, since.alive_at, confirms=confirms)


def _membership(asked: Asked, stack: Stack) -> object:
    rounds = stack[Replay].rounds  # with what is retained from an earlier incarnation
    beginning = asked.incarnation, asked.seed, asked.joins
    return membership_of(asked.position, asked.scheme_name, asked.times, rounds, stack.identity, *beginning)


class Own:
    """Stands in the table for the layers that a scheme's name adds (`routing.schemes.own`)."""


class OfScheme:
    """Stands in the table for the layers that only this scheme has where it heals (`Router.layers`)."""


LAYERS: Final[tuple[Row[object], ...]] = (
    Row(Shaping, lambda asked: asked.admits, _shaping),
    Row(CrashRecover, lambda asked: asked.features.numbers, _links),
    Row(Comparing, lambda asked: asked.compares, _comparing),
    Row(Own, lambda asked: False, lambda asked, stack: Own()),
    Row(FanOut, lambda asked: asked.fans_out, _fan_out),
    Row(Admitting, lambda asked: asked.admits, _admitting),
    Row(Ages, lambda asked: asked.heals, lambda asked, stack: Ages(asked.times, stack[Replay].rounds)),
    Row(Flushing, lambda asked: asked.heals, lambda asked, stack: Flushing(asked.here, asked.times)),
    Row(DurableClients, lambda asked: asked.heals, _durable),
    Row(OfScheme, lambda asked: False, lambda asked, stack: OfScheme()),
    Row(History, lambda asked: asked.features.keeps_history, _history),
    Row(Replay, lambda asked: asked.heals, _replay),
    Row(HealingBroker, lambda asked: asked.heals and not asked.in_views, _membership),
    Row(HealingViews, lambda asked: asked.in_views, _membership),
    Row(
        Routing,
        lambda asked: not asked.heals,
        lambda asked, stack: Routing(asked.scheme(asked.position)),
    ),
)
"""The layers that brokers have, the outermost first."""


def rows_of(asked: Asked) -> list[Row[object]]:
    """Return the rows of the layers that one broker has, the outermost first."""
    rows: list[Row[object]] = []
    for row in LAYERS:
        if row.kind is Own:
            rows += map(_own, own_layers(asked.scheme_name))
        elif row.kind is OfScheme:
            rows += map(_of_scheme, asked.scheme.layers if asked.heals else ())
        elif row.is_there(asked):
            rows.append(row)
    return rows


def _own(kind: type) -> Row[object]:
    return Row(kind, lambda asked: True, lambda asked, stack: kind(asked.position))


def _of_scheme(make: LayerOf) -> Row[object]:
    return Row(OfScheme, lambda asked: True, lambda asked, stack: make(asked.here, asked.times))
