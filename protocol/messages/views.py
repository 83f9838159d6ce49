"""Views, numbered lists of a network's brokers, and the messages about them to and from the rendezvous point.

Rules
-----
* A *label* is a string of :data:`LABEL_BITS` bits, written as a number. Its first `dimensions` bits are the vertex of
  the cube; the remaining bits distinguish the brokers of one node cluster, which share a vertex.
* A *view* has the brokers and their labels, in a hypercube and in other networks whose brokers all know each other.
  Views are numbered; each one replaces the one before, at every broker.
* The others have no state of a broker that left and joined again: it is *born* again, at the number of that view.

Source: paper 2, sections 2.1 and 2.4. `routing.topologies.cube` has the operations on labels;
docs/decisions/0017-hypercube.md explains how views change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ..ids import BrokerId, ClientId
from .rounds import Forgotten, Marker

if TYPE_CHECKING:
    from ...routing.filters.filter import Filter

LABEL_BITS: Final = 32


class ViewMember(NamedTuple):
    """A broker of a view, its label, and the number of the view in which it joined."""

    broker: BrokerId
    label: int
    born: int


@dataclass(frozen=True)
class MembershipView:
    """The brokers of a network, and their labels.

    Attributes
    ----------
    version
        The number of the view, from 1.
    dimensions
        The number of dimensions of the cube.
    cluster_max
        How many brokers a node cluster may have before it is split.
    members
        The brokers, in rising order.
    repair_window_seconds
        How far back the view's round repairs losses: events accepted since then may be missing somewhere.
    """

    version: int
    dimensions: int
    cluster_max: int
    members: tuple[ViewMember, ...]
    repair_window_seconds: float = field(default=0.0, compare=False)

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take the state of a stored view: an earlier version had other names for two fields."""
        names = {"seats": "members", "doubt_seconds": "repair_window_seconds"}
        self.__dict__.update((names.get(name, name), value) for name, value in state.items())

    @cached_property
    def born(self) -> dict[BrokerId, int]:
        """The view in which each broker joined."""
        return {member.broker: member.born for member in self.members}

    @property
    def who(self) -> tuple[int, int, int, tuple[ViewMember, ...]]:
        """The identity of the view: everything except `repair_window_seconds`."""
        return self.version, self.dimensions, self.cluster_max, self.members

    @cached_property
    def labels(self) -> dict[BrokerId, int]:
        """The label of each broker."""
        return {member.broker: member.label for member in self.members}


@dataclass(frozen=True, slots=True)
class ViewBeat:
    """A broker's heartbeat to the rendezvous point; also its join request while it is not in the view.

    Attributes
    ----------
    incarnation
        Increases with each start of the broker.
    version
        The last view that it has; 0 for none.
    contacts
        The brokers that it would like to be near: those of its cluster when the network began.
    wants_round
        Whether recent events must be retransmitted, because a client connected here that may lack some of them.
    repair_window_seconds
        How far back that round must repair losses, or how long this broker was not in the view.
    """

    incarnation: int
    version: int
    contacts: tuple[BrokerId, ...]
    wants_round: bool
    repair_window_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ViewLeave:
    """A broker tells the rendezvous point that it leaves."""


@dataclass(frozen=True, slots=True)
class ViewDied:
    """A broker tells the rendezvous point that the process of another, as `born` in that view, is dead."""

    broker: BrokerId
    born: int


@dataclass(frozen=True, slots=True)
class ViewWants:
    """All filters that a broker wants, for a broker without this state because one of the two joined anew.

    Attributes
    ----------
    mine, yours
        The views in which the two joined; a broker with other values ignores the message.
    number
        The number of the last of the sender's changes that is included.
    filters
        The filters.
    high_water
        The highest number of each publisher that the sender knows.
    lacks
        Whether the sender is without this state of the receiver, too; one that does not expect that answers.
    """

    mine: int
    yours: int
    number: int
    filters: tuple[Filter, ...]
    high_water: Mapping[ClientId, int] = field(default_factory=dict, hash=False)
    lacks: bool = False

    def __setstate__(self, state: list[object]) -> None:
        """Take the state of a stored message: one of an earlier version does not say what it lacks."""
        for each, value in zip(fields(self), (*state, False), strict=False):
            object.__setattr__(self, each.name, value)


@dataclass(frozen=True, slots=True)
class ToAll:
    """A broadcast of `origin` to every broker of a view, behind all events that it sent before under that view.

    Attributes
    ----------
    version
        The number of the view.
    origin
        The sender.
    message
        The message that is broadcast.
    number
        Where events take different routes and are ordered by number: the number of this message among them.
    """

    version: int
    origin: BrokerId
    message: Forgotten | Marker
    number: int = 0


ViewMessage: TypeAlias = ViewBeat | ViewDied | ViewLeave | MembershipView | ViewWants | ToAll
