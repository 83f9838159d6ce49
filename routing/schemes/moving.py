"""Hybrid routing for a broker whose place changes: it takes over, steps down, loses its parent, finds another.

Rules, beside those of hybrid routing
-------------------------------------
* What a neighbour wants is taken in as one set: first what is new, then what it no longer wants is let go (announce
  before withdraw). So taking in the same set twice does nothing.
* Without a way to the root nothing is sent up. What is announced meanwhile is in the set that the next parent gets.
* A new parent knows nothing: everything that was announced gets a new token and counts as not installed.

Source: paper 1, section 4.2.2 (route reconstruction).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.configs import Position
from ...protocol.effects import Effect, Plain
from ...protocol.ids import GROUP, BrokerId, ClientId, Link
from ...protocol.messages.pubsub import BrokerMessage
from ..filters.filter import Filter
from .hybrid import Hybrid

Tokens = Iterable[tuple[Filter, int]]


class MovingHybrid(Hybrid):
    """A broker of a tree of clusters, wherever it stands just now.

    Attributes
    ----------
    attached
        Whether there is a way up: a parent that has accepted us, or no need of one. A normal broker has its group.
    """

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self.attached = True

    def to_parent(self, message: BrokerMessage) -> Effect | None:
        """Return the effect that takes a message towards the root; None when there is no way just now."""
        return super().to_parent(message) if self.attached else None

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
