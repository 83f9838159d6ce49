"""Hybrid routing: a tree of multicast clusters (paper 1, section 3, figure 2).

Rules, beside those of the tree
-------------------------------
* Inside a cluster everything is multicast once: a normal broker's way towards the root is the group.
* A designated broker keeps one table entry for the whole group; which members want the filter are its holders.
* What came over the group does not go back to the group: all members have it already.
* A normal broker matches for its own clients only, and ignores the subscriptions of its fellow members.

A broker of a network that heals takes over, steps down, loses its parent and finds another (section 4.2.2):

* What a neighbour wants is taken in as one set: first what is new, then what it no longer wants is let go (announce
  before withdraw). So taking in the same set twice does nothing.
* Without a way to the root nothing is sent up. What is announced meanwhile is in the set that the next parent gets.
* A new parent knows nothing: everything that was announced gets a new token and counts as not installed.

Figure 2 as printed sends an event back to the child it came from, since it compares only with the parent; here, as
everywhere on the tree, the link of arrival is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ...protocol.configs import Position
from ...protocol.effects import Effect, Multicast, Plain
from ...protocol.ids import GROUP, BrokerId, ClientId, Link
from ...protocol.messages.pubsub import Announce, BrokerMessage, Withdraw
from ..filters.filter import Filter
from .tree import TreeRouter

Tokens: TypeAlias = Iterable[tuple[Filter, int]]
"""Filters, each with the token of its announcement."""


class Hybrid(TreeRouter):
    """A broker of a tree of clusters: normal, designated or root, and wherever it stands just now.

    Attributes
    ----------
    attached
        Whether there is a way up: a parent that has accepted us, or no need of one. A normal broker has its group.
    """

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self.attached = True
        self._fellows = frozenset(position.members) - {position.broker}
        self._normal = position.role == "NEB"

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places as they are."""
        return list(positions)

    def link_of(self, source: Link) -> Link:
        """Return GROUP for a fellow member, else the source itself."""
        return GROUP if source in self._fellows else source

    def to_parent(self, message: BrokerMessage) -> Effect | None:
        """Return a multicast at a normal broker (figure 2, lines 5 and 29), else a send to the parent.

        Nothing while there is no way up.
        """
        if not self.attached:
            return None
        return Multicast(message) if self._normal else super().to_parent(message)

    def climbs_from(self, source: Link) -> bool:
        """Return whether an event still has to climb: at a normal broker only when a publisher brought it."""
        if self._normal:
            return isinstance(source, str)
        return source != self.position.parent

    def told(self) -> dict[tuple[Link, BrokerId], tuple[Filter, ...]]:
        """Return what other brokers were told; a normal broker tells its designated one, over the group."""
        if not self._normal:
            return super().told()
        return {(GROUP, self.position.designated): tuple(self.announcer.announced())}

    def _on_announce(self, source: Link, message: Announce) -> list[Effect]:
        return [] if self._overhears(source) else super()._on_announce(source, message)

    def _on_withdraw(self, source: Link, message: Withdraw) -> list[Effect]:
        return [] if self._overhears(source) else super()._on_withdraw(source, message)

    def _overhears(self, source: Link) -> bool:
        """Return whether a fellow's subscription is meant for the designated broker only (figure 2, line 27)."""
        return self._normal and source in self._fellows

    def _is_below(self, source: Link) -> bool:
        return not self._normal and (source in self._fellows or source in self.position.children)

    # Where it stands changes.

    def move(self, position: Position, *, attached: bool) -> None:
        """Stand elsewhere from now on, with the same parent or a parent that is told by the caller.

        Parameters
        ----------
        position
            The new place. The members of the group do not change.
        attached
            Whether there is a way up.
        """
        self.position = position
        self.attached = attached
        self._normal = position.role == "NEB"

    def meet(self, fellows: Iterable[BrokerId]) -> None:
        """Take these for the other members of the group from now on."""
        self._fellows = frozenset(fellows)

    def knows(self, fellows: Iterable[BrokerId]) -> bool:
        """Return whether these are the other members of the group."""
        return self._fellows == frozenset(fellows)

    def forget_parent(self, *, top: bool = False, keep: bool = False) -> list[Effect]:
        """Count everything announced as not installed, under new tokens; at the top, as installed.

        With `keep` the tokens stay, since the next parent has been told them already.
        """
        return self._carry_out(self.announcer.renew(top=top, keep=keep))

    def wants(self) -> tuple[tuple[Filter, int], ...]:
        """Return all that the parent has to know, with tokens."""
        return self.announcer.tokens()

    def settled(self) -> bool:
        """Return whether all that was announced is installed up to the root."""
        return self.announcer.all_installed()

    def adopt(self, link: Link, holder: BrokerId, filters: Tokens, *, answer: bool = True) -> list[Effect]:
        """Take in all that `holder` behind `link` wants, and let go what it does not want any more.

        Parameters
        ----------
        link
            A child's designated broker, or GROUP for a member.
        holder
            The child's designated broker, or the member.
        filters
            Filters and tokens.
        answer
            Whether each token is to be answered once its filter is installed up to the root.
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
        """Let go all that `holder` behind `link` wanted."""
        return self.adopt(link, holder, ())

    def copy(self, old: Link, holder: BrokerId) -> tuple[Filter, ...]:
        """Return what `holder` behind `old` wants."""
        return tuple(self.table.held_by(old, holder))

    def meet_child(self, child: BrokerId) -> None:
        """Take note that a child, or its new designated broker, knows nothing of what it was told before."""

    def tell_below(self) -> list[Effect]:
        """Return what has to be told to those below by now, in schemes that tell them anything."""
        return []

    def subscribers(self) -> list[ClientId]:
        """Return the clients that have a subscription here."""
        return list(self._subscriptions)

    def snapshot(self) -> dict[str, Plain]:
        """Return all that this router keeps, its place included; `restore` takes it."""
        place = {"position": self.position, "attached": self.attached, "fellows": sorted(self._fellows)}
        return {**super().snapshot(), **place}

    def restore(self, plain: dict[str, Plain]) -> None:
        """Be as the router of this broker was whose snapshot that is; only for one that has not handled anything."""
        super().restore(plain)
        self.move(plain["position"], attached=plain["attached"])
        self.meet(plain["fellows"])

    def members_with_filters(self) -> list[BrokerId]:
        """Return the members of the group that want something."""
        return sorted(
            {
                holder
                for entry in self.table
                for holder in entry.links.get(GROUP, {})
                if isinstance(holder, int)
            }
        )
