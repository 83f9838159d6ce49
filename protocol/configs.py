"""Start-up configuration of a broker: its place in the network, and its limits.

Every queue, cache and log of the system has its limit here; nothing grows without a limit (promise 9).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, TypeAlias

from .checks import positive_fields
from .ids import BrokerId, ClusterId
from .messages.views import MembershipView

Role: TypeAlias = Literal["REB", "DEB", "NEB"]
"""Root, designated or normal event broker (paper 1, section 2). A root is a designated broker too."""

Onward: TypeAlias = tuple[tuple[BrokerId | None, tuple[BrokerId, ...]], ...]
"""For each link that events arrive over (None: a broker's own publishers), the links that they may leave over."""


class Ways(NamedTuple):
    """How events flow through a broker, as far as admission control needs it for reservations.

    Attributes
    ----------
    onward
        The links to which events of each incoming link may go; the key None stands for publishers here. None as a
        whole if events arrive over every link and may leave over every other one, as in a tree.
    group
        The neighbours in the broker's cluster: an event for one of them reaches every member.
    speaks
        Whether the broker is the member that all other members of the cluster are connected to.
    floods
        Whether an event goes over every link as soon as any broker wants it.
    relays
        For each origin (the publisher's broker), the brokers to which this broker may have to relay an event that
        it wants itself; None where brokers do not relay.
    copies
        On a graph with cycles that floods: the links over which a copy of each event may come, and may go.
    """

    onward: Onward | None = None
    group: tuple[BrokerId, ...] = ()
    speaks: bool = False
    floods: bool = False
    relays: Onward | None = None
    copies: tuple[BrokerId, ...] = ()

    @property
    def concerns_all(self) -> bool:
        """Whether a subscription loads brokers that are not on the path between its broker and the publishers."""
        return self.floods or self.relays is not None


DEFAULT_SCHEME: Final = "hybrid"
"""The routing scheme of a network for which none is named."""

IN_A_TREE: Final = Ways()
"""An event goes over every link that wants it; no other broker takes part."""


class Placed(NamedTuple):
    """The current place of a broker: the layer that knows the membership tells the other layers.

    Attributes
    ----------
    neighbours
        The brokers that it is connected to. These links connect all brokers with the same membership; each end of
        a link lists the other.
    way_up
        The neighbour towards the root; None at the root, and where there is no root.
    over_group
        Whether messages towards the root are multicast.
    ways
        How events flow through the broker.
    """

    neighbours: tuple[BrokerId, ...]
    way_up: BrokerId | None = None
    over_group: bool = False
    ways: Ways = IN_A_TREE


def broker_name(broker: BrokerId, role: str) -> str:
    """Return the name by which people are shown a broker: its role at present, and its number, which never changes."""
    return f"{role} {broker}"


@dataclass(frozen=True, slots=True)
class Position:
    """The place of one broker: its cluster, and its cluster's neighbours in the tree.

    Attributes
    ----------
    broker, cluster
        The broker and its cluster.
    label
        Its human-readable name, for pictures and traces: ``D1``, ``N3``. It is a place of the beginning. A broker
        whose role has changed since is labelled by `broker_name`.
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
    view
        The view of brokers without a tree, under the schemes `hypercube` and `lbdd` and others that know every
        broker; None on a tree. With a view, `children` are the brokers that this broker exchanges messages with,
        and there is no parent.
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
    view: MembershipView | None = None

    @property
    def role(self) -> Role:
        """REB, DEB or NEB."""
        if self.broker != self.designated:
            return "NEB"
        return "REB" if self.parent is None else "DEB"

    @property
    def neighbours(self) -> tuple[BrokerId, ...]:
        """Every broker that this one exchanges messages with: its group and, if designated, its parent and children."""
        others = tuple(member for member in self.members if member != self.broker)
        if self.broker != self.designated:
            return others
        return others + (() if self.parent is None else (self.parent,)) + self.children

    def alone(self) -> Position:
        """Return the place in a tree of one-broker clusters: the cluster gets the broker's number."""
        return replace(self, cluster=self.broker, parent_cluster=self.parent, child_clusters=self.children)

    def placed(self, members: tuple[BrokerId, ...], *, floods: bool = False) -> Placed:
        """Return the place when the cluster is a star around its designated broker; `members` are those alive."""
        if self.broker != self.designated:
            speaker = (self.designated,)
            return Placed(speaker, self.designated, over_group=True, ways=Ways(group=speaker, floods=floods))
        others = tuple(member for member in members if member != self.broker)
        above = () if self.parent is None else (self.parent,)
        ways = Ways(group=others, speaks=True, floods=floods)
        return Placed(others + above + self.children, self.parent, ways=ways)


CONNECTION_BYTES_MAX: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on what a broker and its host store and queue.

    Attributes
    ----------
    filter_clauses_max
        Clauses of one filter's normal form; a filter with more raises `FilterTooComplex`.
    call_events_max
        Events in one call over a link; the rest waits for the next call.
    outbox_events_max
        Events (and other messages) that wait for one link. Past this limit the calls that bring more wait; the
        backpressure reaches the publishers.
    delivery_events_max
        Notifications that wait for one client process. Past this limit the calls that bring more wait, at most
        `delivery_wait_seconds`; then the oldest are shed and counted (`shed_notifications`, `Subscriber.shed`).
    session_seconds
        A client process that has not polled for this long counts as gone; its subscribers are detached.
    telemetry_rows_max
        Rows in one telemetry table between two flushes; past this limit new rows are dropped and counted.
    call_seconds
        How long one call from a client may take before its broker counts as unavailable.
    connection_bytes_max
        Bytes that wait in a connection between two processes until the other end reads them. Past this limit further
        calls to it wait; once as many bytes of answers wait, nothing more is read from it.
    """

    filter_clauses_max: int = 256
    call_events_max: int = 16_384
    outbox_events_max: int = 131_072
    delivery_events_max: int = 1_048_576
    delivery_wait_seconds: float = 5.0
    session_seconds: float = 60.0
    telemetry_rows_max: int = 1_000_000
    call_seconds: float = 60.0
    connection_bytes_max: int = CONNECTION_BYTES_MAX

    def validate(self) -> Limits:
        """Validate the limits and return them.

        Raises
        ------
        InputError
            If a limit is not a positive number.
        """
        positive_fields(self, "limit")
        return self

    @classmethod
    def for_tests(cls, **changes: float) -> Limits:
        """Return small limits that a test can reach."""
        small = cls(
            call_events_max=64,
            outbox_events_max=256,
            delivery_events_max=1024,
            call_seconds=20.0,
            connection_bytes_max=16_384,
        )
        return replace(small, **changes).validate()  # type: ignore[arg-type]


def clusters_of(positions: Iterable[Position]) -> dict[ClusterId, tuple[BrokerId, ...]]:
    """Return the brokers of each cluster, in rising order, also if the scheme has no clusters."""
    found: dict[ClusterId, list[BrokerId]] = {}
    for place in positions:
        found.setdefault(place.cluster, []).append(place.broker)
    return {cluster: tuple(sorted(brokers)) for cluster, brokers in found.items()}
