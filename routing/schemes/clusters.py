"""Routing on a tree of multicast clusters, whose brokers may change their places (paper 1, section 3, figure 2).

Rules, beside those of the tree
-------------------------------
* Inside a cluster everything is multicast once: a normal broker sends towards the root by multicast to its group.
* A designated broker has one table entry for the whole group; the holders of the entry are the members that want it.
* A message from the group does not go back to the group, because all members have it already.
* A normal broker matches for its own clients only, and ignores the subscriptions of the other members of its cluster.

In a network that heals, a broker may take over, step down, lose its parent and find another (section 4.2.2):

* The filters of a neighbour are adopted as one set: first new filters are added, then those that it no longer
  wants are removed (announce before withdraw). So adopting the same set twice is idempotent.
* Without a path to the root nothing is sent up. Filters announced in the meantime are in the set for the next parent.
* A new parent knows nothing: every announced filter gets a new token and counts as not installed.

Figure 2 as printed sends an event back to the child it came from, because it compares only with the parent. Here, as
everywhere on the tree, the link of arrival is excluded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ...protocol.configs import Position
from ...protocol.effects import Effect, Multicast, Plain, Send
from ...protocol.ids import GROUP, BrokerId, ClientId, Link
from ...protocol.messages.pubsub import Announce, BrokerMessage, Withdraw
from ..filters.filter import Filter
from .claims import Claims, Membership
from .router import Tokens
from .tree import TreeRouter


class ClusterRouter(TreeRouter):
    """A broker of a tree of clusters, in any role (normal, designated or root); its place may change.

    Attributes
    ----------
    attached
        Whether there is a path up: a parent has accepted this broker, or none is needed. A normal broker has its
        group.
    """

    claims: ClassVar[Claims] = Claims(multicast=True)
    membership: ClassVar[Membership] = Membership.CLUSTERS

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self.attached = True
        self._other_members = frozenset(position.members) - {position.broker}
        self._normal = position.role == "NEB"

    def link_of(self, source: Link) -> Link:
        """Return GROUP for another member, otherwise the source itself."""
        return GROUP if source in self._other_members else source

    def to_parent(self, message: BrokerMessage) -> Effect | None:
        """Return a multicast at a normal broker (figure 2, lines 5 and 29), otherwise a send to the parent.

        Returns None while there is no path up.
        """
        if not self.attached:
            return None
        if self._normal:
            return Multicast(message)
        parent = self.position.parent
        return None if parent is None else Send(parent, message)

    def goes_up_from(self, source: Link) -> bool:
        """Return whether an event must still go up: at a normal broker, only an event of its own publisher."""
        if self._normal:
            return isinstance(source, str)
        return source != self.position.parent

    def announced(self) -> dict[tuple[Link, BrokerId], tuple[Filter, ...]]:
        """Return the announced filters; a normal broker announces to its designated broker, over the group."""
        if not self._normal:
            return super().announced()
        return {(GROUP, self.position.designated): tuple(self.announcer.announced())}

    def _on_announce(self, source: Link, message: Announce) -> list[Effect]:
        return [] if self._overhears(source) else super()._on_announce(source, message)

    def _on_withdraw(self, source: Link, message: Withdraw) -> list[Effect]:
        return [] if self._overhears(source) else super()._on_withdraw(source, message)

    def _overhears(self, source: Link) -> bool:
        """Return whether another member's subscription is meant for the designated broker only (figure 2, line 27)."""
        return self._normal and source in self._other_members

    def _is_below(self, source: Link) -> bool:
        return not self._normal and (source in self._other_members or source in self.position.children)

    # Changes of place.

    def move(self, position: Position, *, attached: bool) -> None:
        """Change the place; the parent stays the same, or the caller informs the new parent.

        Parameters
        ----------
        position
            The new place. The members of the group do not change.
        attached
            Whether there is a path up.
        """
        self.position = position
        self.attached = attached
        self._normal = position.role == "NEB"

    def meet(self, other_members: Iterable[BrokerId]) -> None:
        """Set the other members of the group."""
        self._other_members = frozenset(other_members)

    def knows(self, other_members: Iterable[BrokerId]) -> bool:
        """Return whether these are the other members of the group."""
        return self._other_members == frozenset(other_members)

    def forget_parent(self, *, top: bool = False, keep: bool = False) -> list[Effect]:
        """Mark every announced filter as not installed, under new tokens; at the top, as installed.

        With `keep` the tokens stay, because the next parent already has them.
        """
        return self._carry_out(self.announcer.renew(top=top, keep=keep))

    def wants(self) -> tuple[tuple[Filter, int], ...]:
        """Return all filters that the parent must know, with tokens."""
        return self.announcer.tokens()

    def settled(self) -> bool:
        """Return whether every announced filter is installed up to the root."""
        return self.announcer.all_installed()

    def adopt(self, link: Link, holder: BrokerId, filters: Tokens, *, answer: bool = True) -> list[Effect]:
        """Adopt the set of filters of `holder` behind `link`: add new ones, and remove those that it no longer wants.

        Parameters
        ----------
        link
            A child's designated broker, or GROUP for a member.
        holder
            The child's designated broker, or the member.
        filters
            Filters and tokens.
        answer
            Whether to answer each token once its filter is installed up to the root.
        """
        effects: list[Effect] = []
        wanted: dict[Filter, None] = {}
        for item, token in filters:
            wanted[item] = None
            new = self.table.add(item, link, holder)
            if new:
                effects += self._carry_out(self.announcer.hold(item, self.table.slot(item)))
            if answer:
                effects += self._carry_out(self.announcer.wait((holder, token), item))
        for item in self.table.held_by(link, holder):
            if item not in wanted:
                effects += self._release(item, link, holder)
        return effects

    def drop(self, link: Link, holder: BrokerId) -> list[Effect]:
        """Remove all filters of `holder` behind `link`."""
        return self.adopt(link, holder, ())

    def copy(self, old: Link, holder: BrokerId) -> tuple[Filter, ...]:
        """Return the filters of `holder` behind `old`."""
        return tuple(self.table.held_by(old, holder))

    def meet_child(self, child: BrokerId) -> None:
        """Note that a child, or its new designated broker, lacks everything that it was told before."""

    def tell_below(self) -> list[Effect]:
        """Return the messages due to the brokers below, in schemes that send them any."""
        return []

    def subscribers(self) -> list[ClientId]:
        """Return the clients that have a subscription here."""
        return list(self._subscriptions)

    def snapshot(self) -> dict[str, Plain]:
        """Return the whole state of the router, including its place, for `restore`."""
        place = {"position": self.position, "attached": self.attached, "fellows": sorted(self._other_members)}
        return {**super().snapshot(), **place}

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the state from a snapshot of this broker's router; only before anything was handled."""
        super().restore(plain)
        self.move(plain["position"], attached=plain["attached"])
        self.meet(plain["fellows"])

    def members_with_filters(self) -> list[BrokerId]:
        """Return the members of the group that have filters."""
        return sorted(
            {
                holder
                for entry in self.table
                for holder in entry.links.get(GROUP, ())
                if isinstance(holder, int)
            }
        )
