"""What a broker is told at its start: its place in the network, and the limits that it keeps.

Every queue, cache and log of the system has its limit here; nothing grows without one (promise 9).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, TypeAlias

from .checks import positive_fields
from .ids import BrokerId, ClusterId
from .messages.views import CubeView

Role: TypeAlias = Literal["REB", "DEB", "NEB"]
"""Root, designated or normal event broker (paper 1, section 2). A root is a designated broker too."""

Onward: TypeAlias = tuple[tuple[BrokerId | None, tuple[BrokerId, ...]], ...]
"""For each link that events come over, None for a broker's own publishers, the links that they may go on to."""


class Ways(NamedTuple):
    """How events go at a broker, as far as it decides what has to be reserved for them.

    Attributes
    ----------
    onward
        Where events may go that come over a link: for None, publishers here, and for the links over which some come.
        None where they come over every link, and go on over every other one, as in a tree.
    group
        Those of the neighbours that are in its cluster: what is for one of them comes to every member.
    speaks
        Whether the broker is the one of the cluster that all others are joined to.
    floods
        Whether an event goes over every link when anybody wants it.
    relays
        By the broker of its publisher, to whom this one may have to pass on an event that it wants itself; None where
        nobody passes on anything.
    """

    onward: Onward | None = None
    group: tuple[BrokerId, ...] = ()
    speaks: bool = False
    floods: bool = False
    relays: Onward | None = None

    @property
    def concerns_all(self) -> bool:
        """Whether what one wants is a load for brokers that are not on its way to where it is published."""
        return self.floods or self.relays is not None


IN_A_TREE: Final = Ways()
"""Where an event goes on over every link that wants it, and nobody else has any part in it."""


class Placed(NamedTuple):
    """Where a broker stands now: what the side that knows who is in the network says to the others.

    Attributes
    ----------
    neighbours
        The brokers that it is joined to. These links join all brokers that know the same; each end has the other.
    way_up
        The one of them towards the root; None at the root, and where there is no root.
    over_group
        Whether what goes to the root is multicast.
    ways
        How events go.
    """

    neighbours: tuple[BrokerId, ...]
    way_up: BrokerId | None = None
    over_group: bool = False
    ways: Ways = IN_A_TREE


@dataclass(frozen=True, slots=True)
class Position:
    """The place of one broker: its cluster, and its cluster's neighbours in the tree.

    Attributes
    ----------
    broker, cluster
        Who and where.
    label
        What people call it, for pictures and traces: ``D1``, ``N3``.
    members
        Every broker of the cluster, itself included, in rising order.
    designated
        The member that speaks for the cluster (DEB).
    parent
        The designated broker of the parent cluster; None at the root.
    children
        The designated brokers of the child clusters.
    parent_cluster, child_clusters
        Their clusters, in the same order.
    cube
        Who stands where in a hypercube; None under the other schemes. There `children` are those that the broker
        exchanges messages with, and there is no parent.
    """

    broker: BrokerId
    cluster: ClusterId
    label: str
    members: tuple[BrokerId, ...]
    designated: BrokerId
    parent: BrokerId | None
    children: tuple[BrokerId, ...]
    parent_cluster: ClusterId | None = None
    child_clusters: tuple[ClusterId, ...] = ()
    cube: CubeView | None = None

    @property
    def role(self) -> Role:
        """REB, DEB or NEB."""
        if self.broker != self.designated:
            return "NEB"
        return "REB" if self.parent is None else "DEB"

    @property
    def neighbours(self) -> tuple[BrokerId, ...]:
        """Every broker that this one talks to: its group, and when it is designated its parent and children."""
        others = tuple(member for member in self.members if member != self.broker)
        if self.broker != self.designated:
            return others
        return others + (() if self.parent is None else (self.parent,)) + self.children

    def alone(self) -> Position:
        """Return the place as that of a cluster of one with the number of the broker, in a tree of such clusters."""
        return replace(self, cluster=self.broker, parent_cluster=self.parent, child_clusters=self.children)

    def placed(self, members: tuple[BrokerId, ...], *, floods: bool = False) -> Placed:
        """Return where this is when a cluster, of which these `members` live, is a star around who speaks for it."""
        if self.broker != self.designated:
            speaker = (self.designated,)
            return Placed(speaker, self.designated, over_group=True, ways=Ways(group=speaker, floods=floods))
        others = tuple(member for member in members if member != self.broker)
        above = () if self.parent is None else (self.parent,)
        ways = Ways(group=others, speaks=True, floods=floods)
        return Placed(others + above + self.children, self.parent, ways=ways)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a broker and its host keep.

    Attributes
    ----------
    filter_clauses_max
        Clauses of one filter's normal form; past it `FilterTooComplex`.
    call_events_max
        Events in one call over a link; what is more waits for the next call.
    outbox_events_max
        Events (and other messages) that wait for one link; past it the calls that bring more wait (backpressure up
        to the publishers).
    delivery_events_max
        Notifications that wait for one client process; past it the calls that bring more wait, at most
        `delivery_wait_seconds`, and then the oldest are shed and counted (`shed_notifications`, `Subscriber.shed`).
    session_seconds
        A client process that has not fetched for so long is gone: its subscribers are detached.
    telemetry_rows_max
        Rows in one telemetry table between two flushes; past it new rows are dropped and counted.
    call_seconds
        How long one call from a client may take before its broker counts as unavailable.
    """

    filter_clauses_max: int = 256
    call_events_max: int = 16_384
    outbox_events_max: int = 131_072
    delivery_events_max: int = 1_048_576
    delivery_wait_seconds: float = 5.0
    session_seconds: float = 60.0
    telemetry_rows_max: int = 1_000_000
    call_seconds: float = 60.0

    def validate(self) -> Limits:
        """Return the limits themselves.

        Raises
        ------
        InputError
            If a limit is not a positive number.
        """
        positive_fields(self, "limit")
        return self

    @classmethod
    def for_tests(cls, **changes: float) -> Limits:
        """Return small limits, so that a test reaches them."""
        small = cls(call_events_max=64, outbox_events_max=256, delivery_events_max=1024, call_seconds=20.0)
        return replace(small, **changes).validate()  # type: ignore[arg-type]
