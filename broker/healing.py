"""The parts of a network that heals, by the membership that its scheme declares: layer, newcomers, rendezvous point.

Rule: healing, retransmission and retention are the same under all schemes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from ..protocol.configs import Position
from ..protocol.ids import BrokerId, ClusterId
from ..protocol.messages.recovery import ClusterView, Recovery
from ..protocol.messages.views import MembershipView
from ..recovery.durability.identity import Identity
from ..recovery.membership.root_registry import RendezvousMachine
from ..recovery.membership.starting import Start
from ..recovery.membership.tree import HealingBroker
from ..recovery.membership.view_registry import ViewRendezvous
from ..recovery.membership.views import HealingViews
from ..recovery.replay.rounds import Rounds
from ..routing.schemes.claims import Membership
from ..routing.schemes.registry import scheme
from ..routing.schemes.router import Router

MembershipLayer: TypeAlias = HealingBroker | HealingViews
R = TypeVar("R")


def membership_of(
    position: Position,
    scheme_name: str,
    recovery: Recovery,
    rounds: Rounds,
    identity: Identity,
    incarnation: int,
    seed: int,
    joins: bool,
) -> MembershipLayer:
    """Return the layer that implements the membership of a scheme, with its router inside."""
    made = scheme(scheme_name)
    node = _node(position, made)

    def start(router: Callable[[Position], R]) -> Start[R]:
        return Start(node, recovery, router, rounds, identity, incarnation, seed, joins)

    def router(place: Position) -> Any:  # the membership that the class declares says which of the two it is
        return made.healing(place, recovery)

    if made.membership is Membership.VIEWS:
        return HealingViews(start(router))
    return HealingBroker(start(router), plans=made.claims.fans_out)


def _node(position: Position, made: type[Router]) -> Position:
    """Return the place of a broker as the machines see it that repair a tree of clusters."""
    return position.alone() if made.membership is Membership.NODES else position


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
    membership = scheme(scheme_name).membership
    if membership is Membership.NODES:
        members = (broker,)
    if membership is not Membership.CLUSTERS:
        speaks = broker
    return Position(broker, cluster, f"{'D' if speaks == broker else 'N'}{broker}", members, speaks, None, ())


def rendezvous_of(
    recovery: Recovery, start: ClusterView | MembershipView
) -> RendezvousMachine | ViewRendezvous:
    """Return the rendezvous point of a network that heals.

    Parameters
    ----------
    recovery
        Its times.
    start
        The initial root of a tree, or the initial view of a network that heals by views.
    """
    if isinstance(start, MembershipView):
        return ViewRendezvous(recovery, start)
    return RendezvousMachine(recovery, start)


def start_of(positions: Sequence[Position], scheme_name: str) -> ClusterView | MembershipView:
    """Return what the rendezvous point of a network with these positions has to know at the start.

    A rendezvous point that restarts knows more, as all of these positions may have been added later.
    """
    made = scheme(scheme_name)
    if made.membership is Membership.VIEWS:
        views = (position.view for position in positions if position.view is not None)
        return next(views, MembershipView(0, 0, 1, ()))
    roots = (position for position in positions if position.role == "REB")
    top = _node(next(roots, positions[0]), made)
    return ClusterView(top.cluster, 0, top.broker, top.members)
