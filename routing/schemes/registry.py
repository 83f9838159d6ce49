"""The routing schemes, by name, and the small interface that each of them has.

To add one: write a class with these methods in a file of its own and put it into `SCHEMES`, and what it claims into
`claims.CLAIMS`; or name it where it is (`own`). A scheme may have options, which go behind its name with a plus sign:
``hybrid+quench+merge``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ...protocol.configs import Placed, Position
from ...protocol.effects import Effect, Plain, Received
from ...protocol.errors import InputError
from .flooding import Flooding
from .hierarchical import Hierarchical, HierarchicalNodes
from .hybrid import Hybrid
from .hypercube import Hypercube
from .lbdd import Lbdd
from .match_first import MatchFirst
from .own import bare, is_own, own, own_layers
from .point_to_point import PointToPoint
from .quenching import (
    MergedHierarchical,
    MergedHybrid,
    QuenchedHierarchical,
    QuenchedHybrid,
    QuenchedMergedHierarchical,
    QuenchedMergedHybrid,
)


class Router(Protocol):
    """What a broker needs of a routing scheme."""

    position: Position

    def __init__(self, position: Position) -> None: ...

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return where the brokers of a cluster tree stand under this scheme."""
        ...

    @property
    def takes(self) -> frozenset[type]:
        """The types of the messages that it takes in."""
        ...

    def placed(self) -> Placed:
        """Return where it stands: who its neighbours are, and how events go between them."""
        ...

    def handle(self, event: Received) -> list[Effect]:
        """Take in one message and return what is to be done about it."""
        ...

    def changed_by(self, event: Received) -> bool:
        """Return whether a message can change what the router keeps: a record of the router must have it then."""
        ...

    def snapshot(self) -> Plain:
        """Return all that the router keeps; a store takes it."""
        ...

    def restore(self, plain: Plain) -> None:
        """Be as the router of this broker was whose snapshot that is: from here on both do the same, in the same order.

        Only for one that has not handled anything.
        """
        ...

    def describe(self) -> dict[str, int]:
        """Return the sizes of what the router keeps."""
        ...

    def check(self) -> None:
        """Assert the router's invariants; for tests."""
        ...


SCHEMES: Final[dict[str, type[Router]]] = {
    "hybrid": Hybrid,
    "hierarchical": Hierarchical,
    "flooding": Flooding,
    "match-first": MatchFirst,
    "point-to-point": PointToPoint,
    "lbdd": Lbdd,
    "hypercube": Hypercube,
}


OPTIONS: Final[dict[str, dict[frozenset[str], type[Router]]]] = {
    "hybrid": {
        frozenset({"fanout"}): Hybrid,  # and a layer around it (`actors.broker.fanout`)
        frozenset({"quench"}): QuenchedHybrid,
        frozenset({"merge"}): MergedHybrid,
        frozenset({"quench", "merge"}): QuenchedMergedHybrid,
    },
    "hierarchical": {
        frozenset({"nodes"}): HierarchicalNodes,
        frozenset({"quench"}): QuenchedHierarchical,
        frozenset({"merge"}): MergedHierarchical,
        frozenset({"quench", "merge"}): QuenchedMergedHierarchical,
    },
}
"""What the options of a scheme make of it."""


def scheme(name: str) -> type[Router]:
    """Return the scheme of that name.

    Raises
    ------
    InputError
        If there is none, or it has no such option; the message lists what there is.
    """
    base, options = bare(name)
    own_layers(name)
    if base not in SCHEMES and not is_own(base):
        raise InputError(f"no routing scheme {base!r}: there are {', '.join(SCHEMES)}")
    if not options:
        found: type[Router] = own(base) if is_own(base) else SCHEMES[base]
        return found
    known = OPTIONS.get(base, {})
    if frozenset(options) not in known or len(set(options)) < len(options):
        there = ", ".join("+".join((base, *sorted(each, reverse=True))) for each in known) or f"{base} only"
        raise InputError(f"no routing scheme {name!r}: there is {there}")
    return known[frozenset(options)]
