"""What brokers, and the rendezvous point, tell each other to stay one tree (paper 1, section 4).

Who sends what when is in docs/decisions/0011-recovery.md. All of these are small, and none is ever batched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from ..checks import one_of, positive_fields, whole_number
from ..errors import InputError
from ..ids import Ballot, BrokerId, ClientId, ClusterId, RoundNumber
from .comparing import Compare
from .quench import QuenchMessage
from .rounds import RoundMessage
from .views import CubeMessage

if TYPE_CHECKING:
    from ...routing.filters.filter import Filter

LOAD_MAX: Final = 100_000.0
"""Events a second above which a broker takes no other child, if nothing else is said.

Of three brokers in a row on two cores each passed on 222,023 events a second (docs/benchmarks.md). What hangs below
a new child brings at most as much again as all that is there already; so whoever handles half of what it can, rounded
down, is full.
"""

RENDEZVOUS: Final[BrokerId] = -2
"""The address of the rendezvous point: every broker can send to it, and it to every broker."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What is known of a cluster: its members, rising, and who speaks for it since when."""

    cluster: ClusterId
    epoch: int
    designated: BrokerId
    members: tuple[BrokerId, ...]

    @property
    def ballot(self) -> Ballot:
        """Since when, and by whom, the cluster is spoken for; views succeed each other by this."""
        return (self.epoch, self.designated)

    def newer_than(self, other: ClusterView) -> bool:
        """Return whether this view succeeds the other: a higher epoch, or the same and a higher id."""
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
        The clusters beside it in the tree.
    path
        The clusters from the root down to this one, both included; empty while there is no way to the root.
    term
        The term of the root, as far as it is known here.
    """

    view: ClusterView
    parent: ClusterView | None
    children: tuple[ClusterView, ...]
    path: tuple[ClusterId, ...]
    term: int


@dataclass(frozen=True, slots=True)
class MemberBeat:
    """A normal broker's registration with the designated one, and its sign of life.

    `incarnation` grows with each start of the broker, so that a restart that was quicker than the detector is seen; the
    first one of a new life `introduces` it, also to whoever has never heard of the one before.
    """

    cluster: ClusterId
    epoch: int
    incarnation: int
    introduces: bool = False


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A change of what a child cluster wants, for the members' copies of the table under this ballot."""

    child: ClusterId
    filter: Filter
    wanted: bool
    ballot: Ballot


@dataclass(frozen=True, slots=True)
class TableOfChild:
    """All that a child cluster wants, for the members' copies: it has joined; nothing when it is a child no more."""

    child: ClusterId
    filters: tuple[Filter, ...]
    ballot: Ballot


@dataclass(frozen=True, slots=True)
class TableCopy:
    """The whole of what the child clusters want: with each ballot, and for members that have just come.

    Over the group, as all changes of it, so that nothing overtakes it. `joined` are the members that have come; nobody
    when a ballot begins.
    """

    entries: tuple[tuple[ClusterId, tuple[Filter, ...]], ...]
    ballot: Ballot
    joined: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class Wants:
    """All that a member wants, with the token of each announcement, for a designated broker that does not know it."""

    filters: tuple[tuple[Filter, int], ...]


@dataclass(frozen=True, slots=True)
class MemberInstalled:
    """What `Installed` is to a neighbour, for a member; over the group, so that it stays in order with `Round`."""

    member: BrokerId
    token: int
    round: RoundNumber


@dataclass(frozen=True, slots=True)
class Resign:
    """The designated broker, of this epoch, leaves: over the group, `heir` takes over at once."""

    cluster: ClusterId
    epoch: int
    heir: BrokerId


@dataclass(frozen=True, slots=True)
class MemberGone:
    """A member leaves for good; over the group, behind all that it has sent."""

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
    """A neighbour that misses the designated broker asks a member who it is now."""

    cluster: ClusterId


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What the member that was probed knows."""

    view: ClusterView


@dataclass(frozen=True, slots=True)
class Goodbye:
    """A neighbour gives the link up: it expects nothing from here any more and sends nothing."""

    cluster: ClusterId


@dataclass(frozen=True, slots=True)
class Leaving:
    """This cluster will leave: its children look for another parent, its parent counts its place as free."""

    cluster: ClusterId


# Joining (4.2).


@dataclass(frozen=True, slots=True)
class AskRoot:
    """To the rendezvous point: who is the root? `me` is who asks, and becomes root when there is none."""

    me: ClusterView


@dataclass(frozen=True, slots=True)
class Root:
    """The rendezvous point's answer: the root's view and its term.

    `children` are the root's, as it last said; who cannot reach the root goes on at these.
    """

    root: ClusterView
    term: int
    children: tuple[ClusterView, ...] = ()


@dataclass(frozen=True, slots=True)
class BecomeRoot:
    """The rendezvous point's answer to the first that asks when the root is dead: you are it, under this term."""

    term: int


@dataclass(frozen=True, slots=True)
class RootBeat:
    """The root's sign of life to the rendezvous point; answered with `Root` when another one is root by now."""

    view: ClusterView
    term: int
    children: tuple[ClusterView, ...] = ()


@dataclass(frozen=True, slots=True)
class YieldRoot:
    """To the rendezvous point: the root leaves, and `heir`, a child of it, is to be root in its place."""

    heir: ClusterView
    term: int


@dataclass(frozen=True, slots=True)
class AskChildren:
    """Which child clusters has your cluster? The answer also measures the round trip."""

    nonce: int


@dataclass(frozen=True, slots=True)
class Children:
    """The answer to `AskChildren`; `view` is the cluster that was asked."""

    nonce: int
    view: ClusterView
    children: tuple[ClusterView, ...]


@dataclass(frozen=True, slots=True)
class Ping:
    """Answer at once: the round trip is measured (figure 3: the nearest node)."""

    nonce: int


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to `Ping`."""

    nonce: int


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A cluster asks to become a child, or to stay one after a succession on either side.

    Attributes
    ----------
    view
        The cluster that asks.
    filters
        All that it wants, with the token of each announcement.
    last_resort
        Whether a whole search has found nobody because of load: then load is no reason to refuse any more.
    """

    view: ClusterView
    filters: tuple[tuple[Filter, int], ...]
    last_resort: bool = False


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """Accepted, with the path that the joiner now hangs on; or refused, with the reason.

    `reason` is one of "", "not designated", "no way to the root", "full", "ring", "overloaded", "leaving".
    """

    accepted: bool
    reason: str
    view: ClusterView
    path: tuple[ClusterId, ...]
    term: int


# Durable subscribers, and the rendezvous point: at which broker each is.


@dataclass(frozen=True, slots=True)
class Holds:
    """A broker to the rendezvous point: these durable subscribers are here, each in this life of its own."""

    clients: tuple[tuple[ClientId, int], ...]


@dataclass(frozen=True, slots=True)
class LetGo:
    """The answer for those that have come back elsewhere, in a later life: forget what you hold for them."""

    clients: tuple[tuple[ClientId, int], ...]


# From whoever operates the network; the rendezvous point passes it on, so it comes from RENDEZVOUS.


@dataclass(frozen=True, slots=True)
class LeaveNetwork:
    """Leave the network; clients that the broker has still are asked to go where brokers have views."""


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
Order: TypeAlias = LeaveNetwork | Reconsider
SchemeMessage: TypeAlias = CubeMessage | QuenchMessage
RecoveryMessage: TypeAlias = (
    ClusterMessage
    | NeighbourMessage
    | JoinMessage
    | RoundMessage
    | DurableMessage
    | Compare
    | Order
    | SchemeMessage
)

TIMED: Final = (Root, Children, Pong, Reconsider)
"""Before one of these a host tells the time (`Ticked`): round trips are measured from it, and between them."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """How quickly brokers notice and mend failures; times in seconds.

    Attributes
    ----------
    heartbeat_seconds
        Between two beats of one sender.
    detector
        "adaptive" learns each sender's gaps between beats; "fixed" waits `suspect_after_seconds` (the paper's).
    suspect_after_seconds
        The fixed detector's patience, and the adaptive one's least.
    suspect_deviations
        The adaptive detector's patience in standard deviations above the mean gap.
    probe_seconds, probe_tries
        How long one probe waits, and how often each member is probed.
    answer_seconds
        How long any other question waits for its answer.
    root_wait_seconds
        The longest random wait before a dead root's child asks the rendezvous point.
    degree
        The most children that a cluster takes.
    load_max
        The most events per second that a designated broker handles and still takes another child; None for no limit.
    node_cluster_max
        How many brokers of a hypercube may share a vertex before a dimension is opened; None for as many as the largest
        cluster of the topology has.
    retention_events_max, retention_bytes_max, retention_seconds
        What a publisher's broker keeps to send again.
    client_patience_seconds
        How long a client waits for a sign of life of its broker before it goes to another one.
    durable_events_max, durable_bytes_max, durable_seconds
        What a broker keeps for each durable subscriber until it is acknowledged; and how long it keeps one that does
        not come back.
    dead_letters_max
        How many undelivered events a broker keeps for inspection.
    compare_heartbeats
        How often brokers compare what they know with each other, their clients and the rendezvous point, in heartbeats;
        None for never.
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
    node_cluster_max: int | None = None
    compare_heartbeats: float | None = None

    @property
    def doubt_seconds(self) -> float:
        """How long a failure may have gone unnoticed: what is taken for granted about a link is that much older."""
        return 5 * (self.suspect_after_seconds + self.heartbeat_seconds)

    @property
    def compare_seconds(self) -> float | None:
        """Between two comparisons; None where nothing is compared."""
        return None if self.compare_heartbeats is None else self.compare_heartbeats * self.heartbeat_seconds

    def validate(self) -> Recovery:
        """Return the settings themselves.

        Raises
        ------
        InputError
            If a number is not positive, the detector is unknown, or suspicion comes before two heartbeats.
        """
        one_of("recovery detector", self.detector, ("adaptive", "fixed"))
        may_be_none = ("load_max", "compare_heartbeats")
        positive_fields(self, "recovery", skip=("detector", "node_cluster_max"), none=may_be_none)
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
        """Return settings for virtual time, where a second costs nothing."""
        return replace(cls(), **changes).validate()  # type: ignore[arg-type]

    @classmethod
    def for_tests(cls, **changes: float | str) -> Recovery:
        """Return quick settings for real actors on one machine."""
        quick = cls(
            heartbeat_seconds=0.2,
            suspect_after_seconds=1.0,
            probe_seconds=0.3,
            answer_seconds=1.0,
            root_wait_seconds=0.3,
            client_patience_seconds=2.0,
        )
        return replace(quick, **changes).validate()  # type: ignore[arg-type]
