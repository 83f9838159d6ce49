"""Who stands where in a hypercube of brokers, and what they tell the rendezvous point and each other about it.

Rules
-----
* A *label* is a string of :data:`LABEL_BITS` bits, written as a number. Its first `dimensions` bits are the vertex of
  the cube; the rest tells the brokers of one node cluster, which share a vertex, from each other.
* A *view* says who is in the cube, and where. Views are numbered; each one replaces the one before, for everybody.
* Of a broker that was out and came in again the others know nothing: it is *born* anew, at the number of that view.

Source: paper 2, sections 2.1 and 2.4. What is done with labels stands in `routing.topologies.cube`; how views change in
docs/decisions/0017-hypercube.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ..ids import BrokerId
from .rounds import Forgotten, Marker

if TYPE_CHECKING:
    from ...routing.filters.filter import Filter

LABEL_BITS: Final = 32


class CubeSeat(NamedTuple):
    """A broker, its label, and the view in which it came in."""

    broker: BrokerId
    label: int
    born: int


@dataclass(frozen=True)
class CubeView:
    """Who is in the cube, and where.

    Attributes
    ----------
    version
        Its number, from 1.
    dimensions
        Of the cube.
    cluster_max
        How many brokers a node cluster may have before it is split.
    seats
        The brokers, in rising order.
    doubt_seconds
        How far back its round mends: what was accepted since then may be missing somewhere.
    """

    version: int
    dimensions: int
    cluster_max: int
    seats: tuple[CubeSeat, ...]
    doubt_seconds: float = field(default=0.0, compare=False)

    @cached_property
    def born(self) -> dict[BrokerId, int]:
        """When each broker came in."""
        return {seat.broker: seat.born for seat in self.seats}

    @property
    def who(self) -> tuple[int, int, int, tuple[CubeSeat, ...]]:
        """All that says who is in it and where."""
        return self.version, self.dimensions, self.cluster_max, self.seats

    @cached_property
    def labels(self) -> dict[BrokerId, int]:
        """Where each broker stands."""
        return {seat.broker: seat.label for seat in self.seats}


@dataclass(frozen=True, slots=True)
class CubeBeat:
    """A broker's sign of life to the rendezvous point, which is also its request to join while it is not in the cube.

    Attributes
    ----------
    incarnation
        Grows with each start of the broker.
    version
        The last view that it has; 0 for none.
    contacts
        Near whom it would like to stand: the brokers of its cluster when the network began.
    wants_round
        Whether what was published lately has to be sent again, since a client came here that may lack some of it.
    doubt_seconds
        How far back that has to mend, or what this broker has missed while it was not in the cube.
    """

    incarnation: int
    version: int
    contacts: tuple[BrokerId, ...]
    wants_round: bool
    doubt_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CubeLeave:
    """A broker leaves: told to the rendezvous point by the broker."""


@dataclass(frozen=True, slots=True)
class CubeWants:
    """All that a broker wants, for one that knows nothing of it: one of the two came in anew.

    Attributes
    ----------
    mine, yours
        When the two came in; to anybody else this says nothing.
    number
        The last change of the sender's that is in it.
    filters
        What it wants.
    """

    mine: int
    yours: int
    number: int
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class ToAll:
    """What `origin` tells every broker of a view, behind all events that it has sent before under that view.

    Attributes
    ----------
    version
        Of the view.
    origin
        Who tells it.
    message
        What is told.
    number
        Where events take different ways and are put into their order by numbers: its number among these.
    """

    version: int
    origin: BrokerId
    message: Forgotten | Marker
    number: int = 0


CubeMessage: TypeAlias = CubeBeat | CubeLeave | CubeView | CubeWants | ToAll
