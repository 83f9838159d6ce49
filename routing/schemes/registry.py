"""The routing schemes by name, and their common interface.

To add a scheme, write a class with the methods of `Router` in a separate file, add it to `SCHEMES`, and add its
claims to `claims.CLAIMS`; or refer to the class by module and name (`own`). A scheme may have options, which
follow its name with plus signs: ``hybrid+quench+merge``.
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
    """The interface of a routing scheme that a broker uses."""

    position: Position

    def __init__(self, position: Position) -> None: ...

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the brokers of a cluster tree under this scheme."""
        ...

    @property
    def takes(self) -> frozenset[type]:
        """The types of the messages that the router handles."""
        ...

    def placed(self) -> Placed:
        """Return the place of the broker: its neighbours, and how events flow between them."""
        ...

    def handle(self, event: Received) -> list[Effect]:
        """Handle one message and return the resulting effects."""
        ...

    def changed_by(self, event: Received) -> bool:
        """Return whether a message can change the router's state, so that it must be recorded."""
        ...

    def snapshot(self) -> Plain:
        """Return the whole state of the router, as data for a store."""
        ...

    def restore(self, plain: Plain) -> None:
        """Restore the state from a snapshot of this broker's router; only before anything was handled.

        Afterwards both routers behave identically, including the order of their effects.
        """
        ...

    def describe(self) -> dict[str, int]:
        """Return the sizes of the router's tables and queues."""
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
        frozenset({"fanout"}): Hybrid,  # plus an outer layer (`broker.fanout`)
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
"""The class of each scheme with options, by the set of options."""


def scheme(name: str) -> type[Router]:
    """Return the scheme of that name.

    Raises
    ------
    InputError
        If the scheme or the option does not exist; the message lists those that exist.
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
