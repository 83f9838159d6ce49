"""Messages between brokers and the rendezvous point that maintain a single tree (paper 1, section 4).

docs/decisions/0011-recovery.md describes who sends what, and when. All of these messages are small; none is batched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from ..checks import one_of, positive_fields, seconds, whole_number
from ..errors import InputError
from ..ids import Ballot, BrokerId, ClientId, ClusterId, RoundNumber
from .comparing import Compare
from .handover import HandOver, TrusteeMessage
from .quench import QuenchMessage
from .rounds import RoundMessage
from .views import ViewMessage

if TYPE_CHECKING:
    from ...routing.filters.filter import Filter

LOAD_MAX: Final = 100_000.0
"""The default load, in events per second, above which a broker accepts no further child.

Each of three brokers in a row on two cores passed on 222,023 events per second (docs/benchmarks.md). The subtree of a
new child at most doubles the load. So a broker is full at half of what it can handle, rounded down.
"""

RENDEZVOUS: Final[BrokerId] = -2
"""The address of the rendezvous point. Every broker can send to it, and it can send to every broker."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The known state of a cluster: its members, in rising order, its epoch and its designated broker."""

    cluster: ClusterId
    epoch: int
    designated: BrokerId
    members: tuple[BrokerId, ...]

    @property
    def ballot(self) -> Ballot:
        """The epoch and the designated broker, which order the views of a cluster."""
        return (self.epoch, self.designated)

    def newer_than(self, other: ClusterView) -> bool:
        """Return whether this view succeeds the other: a higher epoch, or the same epoch and a higher id."""
        return self.ballot > other.ballot


# Inside a cluster (4.1.1).


@dataclass(frozen=True, slots=True)
class ClusterBeat:
    """The designated broker's heartbeat to its group.

    Attributes
    ----------
    view
        Its own cluster.
    parent, children
        The adjacent clusters in the tree.
    path
        The clusters from the root down to this one, both included; empty while there is no path to the root.
    term
        The last known term of the root.
    """

    view: ClusterView
    parent: ClusterView | None
    children: tuple[ClusterView, ...]
    path: tuple[ClusterId, ...]
    term: int


@dataclass(frozen=True, slots=True)
class MemberBeat:
    """A normal broker's heartbeat to the designated broker, and its registration there.

    `incarnation` increases with each start of the broker, so that a restart faster than the failure detector is
    noticed. The first beat of a new incarnation `introduces` it, also to brokers that never heard of the previous one.
    """

    cluster: ClusterId
    epoch: int
    incarnation: int
    introduces: bool = False


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A change to what a child cluster wants, for the members' copies of the table under this ballot."""

    child: ClusterId
    filter: Filter
    wanted: bool
    ballot: Ballot


@dataclass(frozen=True, slots=True)
class TableOfChild:
    """All filters of a child cluster that has joined, for the members' copies; empty when it is no longer a child."""

    child: ClusterId
    filters: tuple[Filter, ...]
    ballot: Ballot


@dataclass(frozen=True, slots=True)
class TableCopy:
    """All filters of all child clusters; sent with each new ballot, and to members that have just joined.

    Sent over the group, like all changes to the table, so that they stay in order. `joined` are the new members;
    empty when a ballot begins. `members` has what the others want, which the new ones have not heard. `high_water` has
    the highest number of each publisher that the sender knows.
    """

    entries: tuple[tuple[ClusterId, tuple[Filter, ...]], ...]
    ballot: Ballot
    joined: tuple[BrokerId, ...] = ()
    members: tuple[tuple[BrokerId, tuple[Filter, ...]], ...] = ()
    high_water: Mapping[ClientId, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Wants:
    """All filters of a member, with the token of each announcement, for a designated broker that lacks them.

    `high_water` has the highest number of each publisher that the sender knows.
    """

    filters: tuple[tuple[Filter, int], ...]
    high_water: Mapping[ClientId, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class MemberInstalled:
    """The equivalent of `Installed` for a member; sent over the group, so that it stays in order with `Round`."""

    member: BrokerId
    token: int
    round: RoundNumber
    high_water: Mapping[ClientId, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Resign:
    """The designated broker of this epoch leaves, and `successor` takes over immediately; sent over the group."""

    cluster: ClusterId
    epoch: int
    successor: BrokerId


@dataclass(frozen=True, slots=True)
class MemberGone:
    """A member leaves for good; sent over the group, behind everything else that it has sent."""

    cluster: ClusterId


# Between neighbours (4.1.2).


@dataclass(frozen=True, slots=True)
class TreeBeat:
    """A designated broker's heartbeat to its parent and children."""

    view: ClusterView
    path: tuple[ClusterId, ...]
    term: int


@dataclass(frozen=True, slots=True)
class Probe:
    """A neighbour that no longer hears the designated broker asks a member which broker is designated now."""

    cluster: ClusterId


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The view that the probed member has."""

    view: ClusterView


@dataclass(frozen=True, slots=True)
class Goodbye:
    """A neighbour drops the link: it neither sends nor expects messages over it any more."""

    cluster: ClusterId


@dataclass(frozen=True, slots=True)
class Leaving:
    """This cluster is about to leave: its children look for another parent, its parent counts its place as free."""

    cluster: ClusterId


# Joining (4.2).


@dataclass(frozen=True, slots=True)
class AskRoot:
    """Ask the rendezvous point for the root; `me` is the cluster that asks, which becomes root if there is none."""

    me: ClusterView


@dataclass(frozen=True, slots=True)
class Root:
    """The rendezvous point's answer: the root's view and its term.

    `children` are the root's children, as it last reported; a cluster that cannot reach the root tries these.
    """

    root: ClusterView
    term: int
    children: tuple[ClusterView, ...] = ()


@dataclass(frozen=True, slots=True)
class BecomeRoot:
    """The rendezvous point's answer to the first cluster that asks after the root died: become root with this term."""

    term: int


@dataclass(frozen=True, slots=True)
class RootBeat:
    """The root's heartbeat to the rendezvous point; answered with `Root` when another cluster is root by now."""

    view: ClusterView
    term: int
    children: tuple[ClusterView, ...] = ()


@dataclass(frozen=True, slots=True)
class YieldRoot:
    """Tell the rendezvous point that the root leaves and that `successor`, one of its children, replaces it."""

    successor: ClusterView
    term: int


@dataclass(frozen=True, slots=True)
class AskChildren:
    """Ask a cluster for its child clusters; the answer also measures the round trip."""

    nonce: int


@dataclass(frozen=True, slots=True)
class Children:
    """The answer to `AskChildren`; `view` is the cluster that was asked, `children` are its child clusters."""

    nonce: int
    view: ClusterView
    children: tuple[ClusterView, ...]


@dataclass(frozen=True, slots=True)
class Ping:
    """A request to answer immediately, to measure the round trip (figure 3: the nearest node)."""

    nonce: int


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to `Ping`."""

    nonce: int


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A cluster asks to become a child, or to remain one after a succession on either side.

    Attributes
    ----------
    view
        The cluster that asks.
    filters
        All filters that it wants, with the token of each announcement.
    last_resort
        Whether a complete search failed because every candidate was overloaded. Then load is no reason to refuse.
    high_water
        The highest number of each publisher that the sender knows.
    """

    view: ClusterView
    filters: tuple[tuple[Filter, int], ...]
    last_resort: bool = False
    high_water: Mapping[ClientId, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The answer to a `JoinRequest`: accepted, with the path above the joining cluster; or refused, with the reason.

    `reason` is one of "", "not designated", "no way to the root", "full", "ring", "overloaded", "leaving". `view` is
    the sender's cluster; where another broker speaks for the cluster that asks, its view.
    `high_water` has the highest number of each publisher that the sender knows.
    """

    accepted: bool
    reason: str
    view: ClusterView
    path: tuple[ClusterId, ...]
    term: int
    high_water: Mapping[ClientId, int] = field(default_factory=dict, hash=False)


# Durable subscribers and the rendezvous point: the broker of each subscriber.


@dataclass(frozen=True, slots=True)
class Holds:
    """A broker tells the rendezvous point which durable subscribers it holds, and the incarnation of each."""

    clients: tuple[tuple[ClientId, int], ...]


@dataclass(frozen=True, slots=True)
class LetGo:
    """The answer for subscribers that reconnected elsewhere in a later incarnation: drop their state."""

    clients: tuple[tuple[ClientId, int], ...]


# From the operator of the network; the rendezvous point forwards these messages, so they come from RENDEZVOUS.


@dataclass(frozen=True, slots=True)
class LeaveNetwork:
    """Leave the network; where brokers have views, the broker's remaining clients are asked to move.

    If there is a trustee, that broker first takes over what only this one retains.
    """

    trustee: BrokerId | None = None


@dataclass(frozen=True, slots=True)
class Reconsider:
    """Look for a parent that is clearly nearer than the present one."""


ClusterMessage: TypeAlias = (
    ClusterBeat
    | MemberBeat
    | TableEntry
    | TableOfChild
    | TableCopy
    | Wants
    | MemberInstalled
    | Resign
    | MemberGone
)
NeighbourMessage: TypeAlias = TreeBeat | Probe | ProbeAnswer | Goodbye | Leaving
JoinMessage: TypeAlias = (
    AskRoot
    | Root
    | BecomeRoot
    | RootBeat
    | YieldRoot
    | AskChildren
    | Children
    | Ping
    | Pong
    | JoinRequest
    | JoinAnswer
)
DurableMessage: TypeAlias = Holds | LetGo
Order: TypeAlias = HandOver | LeaveNetwork | Reconsider
SchemeMessage: TypeAlias = ViewMessage | QuenchMessage
RecoveryMessage: TypeAlias = (
    ClusterMessage
    | NeighbourMessage
    | JoinMessage
    | RoundMessage
    | DurableMessage
    | TrusteeMessage
    | Compare
    | Order
    | SchemeMessage
)

TIMED: Final = (Root, Children, Pong, Reconsider)
"""A host tells the time (`Ticked`) before it hands over one of these; they are used to measure durations."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Settings of failure detection and recovery; times are in seconds.

    Attributes
    ----------
    heartbeat_seconds
        The time between two heartbeats of one sender.
    detector
        "adaptive" learns the intervals between each sender's heartbeats; "fixed" waits `suspect_after_seconds` (the
        paper's detector).
    suspect_after_seconds
        The timeout of the fixed detector, and the minimum timeout of the adaptive one. In a tree, a broker whose
        process is known to be dead is not waited for.
    suspect_deviations
        The timeout of the adaptive detector, in standard deviations above the mean interval.
    probe_seconds, probe_tries
        The timeout of one probe, and how often each member is probed.
    answer_seconds
        The timeout of any other request.
    root_wait_seconds
        The maximum random delay before a child of a dead root asks the rendezvous point.
    degree
        The maximum number of children of a cluster.
    load_max
        The load, in events per second, up to which a designated broker accepts another child; None for no limit.
    node_cluster_max
        How many brokers of a hypercube may share a vertex before a dimension is opened; None for the size of the
        largest cluster of the topology.
    retention_events_max, retention_bytes_max, retention_seconds
        Limits on what a publisher's broker retains for retransmission.
    client_patience_seconds
        How long a client waits for a sign of life of its broker before it moves to another broker.
    durable_events_max, durable_bytes_max, durable_seconds
        Limits on what a broker retains for each durable subscriber until it is acknowledged; and how long it
        retains a subscriber that stays disconnected.
    history_seconds, history_bytes_max
        With stores: for how long, and how much of, what was published at it a broker retains for durable subscribers
        that begin in the past; 0 seconds, as is usual, for no such history.
    dead_letters_max
        How many undelivered events a broker retains for inspection.
    compare_heartbeats
        How often brokers compare their state with each other, their clients and the rendezvous point, in
        heartbeats; None for never.
    """

    heartbeat_seconds: float = 1.0
    detector: str = "adaptive"
    suspect_after_seconds: float = 3.0
    suspect_deviations: float = 8.0
    probe_seconds: float = 0.5
    probe_tries: int = 3
    answer_seconds: float = 2.0
    root_wait_seconds: float = 1.0
    degree: int = 8
    load_max: float | None = LOAD_MAX
    retention_events_max: int = 100_000
    retention_seconds: float = 60.0
    client_patience_seconds: float = 6.0
    retention_bytes_max: int = 256 * 2**20
    durable_events_max: int = 100_000
    durable_bytes_max: int = 64 * 2**20
    durable_seconds: float = 86_400.0
    dead_letters_max: int = 1_000
    history_seconds: float = 0.0
    history_bytes_max: int = 64 * 2**20
    node_cluster_max: int | None = None
    compare_heartbeats: float | None = None

    @property
    def unnoticed_seconds(self) -> float:
        """How long a failure may go unnoticed; a link counts as verified only up to this long ago."""
        return 5 * (self.suspect_after_seconds + self.heartbeat_seconds)

    @property
    def compare_seconds(self) -> float | None:
        """The time between two comparisons; None where nothing is compared."""
        return None if self.compare_heartbeats is None else self.compare_heartbeats * self.heartbeat_seconds

    def validate(self) -> Recovery:
        """Validate the settings and return them.

        Raises
        ------
        InputError
            If a number is not positive, the detector is unknown, or suspicion comes before two heartbeats.
        """
        one_of("recovery detector", self.detector, ("adaptive", "fixed"))
        may_be_none = ("load_max", "compare_heartbeats")
        may_be_nothing = ("detector", "node_cluster_max", "history_seconds")
        positive_fields(self, "recovery", skip=may_be_nothing, none=may_be_none)
        seconds("recovery history_seconds", self.history_seconds)
        if self.node_cluster_max is not None:
            whole_number("recovery node_cluster_max", self.node_cluster_max, 1)
        if self.suspect_after_seconds < 2 * self.heartbeat_seconds:
            raise InputError(
                f"suspect_after_seconds is {self.suspect_after_seconds}: it must be at least two heartbeats, "
                f"{2 * self.heartbeat_seconds}"
            )
        return self

    @classmethod
    def for_simulator(cls, **changes: float | str) -> Recovery:
        """Return settings for virtual time, where waiting costs nothing."""
        return replace(cls(), **changes).validate()  # type: ignore[arg-type]

    @classmethod
    def for_tests(cls, **changes: float | str) -> Recovery:
        """Return settings with short timeouts for real actors on one machine."""
        quick = cls(
            heartbeat_seconds=0.2,
            suspect_after_seconds=1.0,
            probe_seconds=0.3,
            answer_seconds=1.0,
            root_wait_seconds=0.3,
            client_patience_seconds=2.0,
        )
        return replace(quick, **changes).validate()  # type: ignore[arg-type]
