"""The parts of a broker in a network that heals, by scheme: membership layer, router, and extra layers.

Rule: a scheme is a row here. Healing, retransmission and retention are the same under all schemes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from ..protocol.configs import Position
from ..protocol.ids import BrokerId, ClusterId
from ..protocol.layers import Layer
from ..protocol.messages.recovery import ClusterView, Recovery
from ..protocol.messages.views import CubeView
from ..recovery.durability.identity import Identity
from ..recovery.membership.root_registry import RendezvousMachine
from ..recovery.membership.starting import Start
from ..recovery.membership.tree import HealingBroker
from ..recovery.membership.view_registry import CubeRendezvous
from ..recovery.membership.views import HealingViews
from ..recovery.replay.rounds import Rounds
from ..routing.schemes.claims import claims_of
from ..routing.schemes.hold_back import HELD_MAX
from ..routing.schemes.lbdd import Lbdd
from ..routing.schemes.own import bare, is_own, own
from ..routing.schemes.quench_above import MatchFirstAbove, QuenchedAbove, QuenchedMergedAbove
from ..routing.schemes.registry import scheme
from .nearing import Nearing

Membership: TypeAlias = HealingBroker | HealingViews


class Healing(NamedTuple):
    """The parts that heal under one scheme.

    Attributes
    ----------
    membership
        Makes the membership layer.
    router
        Makes the router of a place, for a network with these settings.
    beside
        Makes the layers that only this scheme has, around those that all schemes have.
    """

    membership: Callable[[Start], Membership]
    router: Callable[..., Any]
    beside: tuple[Callable[..., Layer], ...] = ()


def _lbdd(position: Position, recovery: Recovery) -> Lbdd:
    return Lbdd(position, HELD_MAX + recovery.retention_events_max, heals=True)


def _plain(router: Callable[[Position], Any]) -> Callable[[Position, Recovery], Any]:
    return lambda position, recovery: router(position)


def _on_tree(scheme_name: str) -> Healing:
    """Return the row of a scheme on a tree that uses the same router as without healing."""
    return Healing(HealingBroker, _plain(scheme(scheme_name)))


HEALING: Final[dict[str, Healing]] = {
    "hybrid": _on_tree("hybrid"),
    "hierarchical": _on_tree("hierarchical"),
    "hierarchical+nodes": _on_tree("hierarchical+nodes"),
    "flooding": _on_tree("flooding"),
    "match-first": Healing(HealingBroker, _plain(MatchFirstAbove)),
    "hybrid+merge": _on_tree("hybrid+merge"),
    "hierarchical+merge": _on_tree("hierarchical+merge"),
    "hybrid+quench": Healing(HealingBroker, _plain(QuenchedAbove)),
    "hierarchical+quench": Healing(HealingBroker, _plain(QuenchedAbove)),
    "hybrid+quench+merge": Healing(HealingBroker, _plain(QuenchedMergedAbove)),
    "hierarchical+quench+merge": Healing(HealingBroker, _plain(QuenchedMergedAbove)),
    "hybrid+fanout": Healing(partial(HealingBroker, plans=True), _plain(scheme("hybrid+fanout"))),
    "hypercube": Healing(HealingViews, _plain(scheme("hypercube")), (Nearing,)),
    "lbdd": Healing(HealingViews, _lbdd),
    "point-to-point": Healing(HealingViews, _plain(scheme("point-to-point"))),
}
"""The parts of a broker that heals, by scheme."""

HEALING_SCHEMES: Final = tuple(HEALING)
"""The schemes whose brokers can heal."""


def healing_of(scheme_name: str) -> Healing:
    """Return the parts that heal under a scheme; its options may be in any order."""
    base, options = bare(scheme_name)
    if is_own(base):
        in_views = claims_of(scheme_name).views
        return Healing(HealingViews if in_views else HealingBroker, _plain(own(base)))
    return HEALING["+".join((base, *sorted(options, reverse=True)))]


def membership_of(
    position: Position,
    scheme_name: str,
    recovery: Recovery,
    rounds: Rounds,
    identity: Identity,
    incarnation: int,
    seed: int,
    joins: bool,
) -> Membership:
    """Return the membership layer, with the router of a scheme inside."""
    healing = healing_of(scheme_name)

    def router(place: Position) -> Any:
        return healing.router(place, recovery)

    node = _node(position, scheme_name)
    return healing.membership(Start(node, recovery, router, rounds, identity, incarnation, seed, joins))


def _node(position: Position, scheme_name: str) -> Position:
    """Return the place of a broker as the machines see it that repair a tree of clusters."""
    return position.alone() if claims_of(scheme_name).flat else position


def newcomer(
    scheme_name: str, broker: BrokerId, cluster: ClusterId, members: tuple[BrokerId, ...], speaks: BrokerId
) -> Position:
    """Return the place of a broker that joins a running network.

    Parameters
    ----------
    scheme_name
        The routing scheme.
    broker, cluster
        The broker that joins, and its cluster. Where every broker is a tree node by itself, the cluster is only where
        it is counted.
    members, speaks
        The brokers of that cluster, the new one included, and the designated one.

    Returns
    -------
    Position
        The place of a designated broker, from which it looks for a parent, or else of a normal broker that its
        cluster takes in.
    """
    claims = claims_of(scheme_name)
    if claims.flat:
        members = (broker,)
    if claims.flat or claims.views:
        speaks = broker
    return Position(broker, cluster, f"{'D' if speaks == broker else 'N'}{broker}", members, speaks, None, ())


def rendezvous_of(recovery: Recovery, start: ClusterView | CubeView) -> RendezvousMachine | CubeRendezvous:
    """Return the rendezvous point of a network that heals.

    Parameters
    ----------
    recovery
        Its times.
    start
        The initial root of a tree, or the initial view of a network that heals by views.
    """
    if isinstance(start, CubeView):
        return CubeRendezvous(recovery, start)
    return RendezvousMachine(recovery, start)


def start_of(positions: Sequence[Position], scheme_name: str) -> ClusterView | CubeView:
    """Return what the rendezvous point of a network with these positions has to know at the start.

    A rendezvous point that restarts knows more, as all of these positions may have been added later.
    """
    if claims_of(scheme_name).views:
        views = (position.cube for position in positions if position.cube is not None)
        return next(views, CubeView(0, 0, 1, ()))
    roots = (position for position in positions if position.role == "REB")
    top = _node(next(roots, positions[0]), scheme_name)
    return ClusterView(top.cluster, 0, top.broker, top.members)
