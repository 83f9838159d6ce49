"""Hybrid routing: a tree of multicast clusters (paper 1, section 3, figure 2).

Rules, beside those of the tree
-------------------------------
* Inside a cluster everything is multicast once: a normal broker's way towards the root is the group.
* A designated broker keeps one table entry for the whole group; which members want the filter are its holders.
* What came over the group does not go back to the group: all members have it already.
* A normal broker matches for its own clients only, and ignores the subscriptions of its fellow members.

Figure 2 as printed sends an event back to the child it came from, since it compares only with the parent; here, as
everywhere on the tree, the link of arrival is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.configs import Position
from ...protocol.effects import Effect, Multicast
from ...protocol.ids import GROUP, Link
from ...protocol.messages.pubsub import Announce, BrokerMessage, Withdraw
from .tree import TreeRouter


class Hybrid(TreeRouter):
    """A broker of a tree of clusters: normal, designated or root."""

    def __init__(self, position: Position) -> None:
        super().__init__(position)
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
        """Return a multicast at a normal broker (figure 2, lines 5 and 29), else a send to the parent."""
        return Multicast(message) if self._normal else super().to_parent(message)

    def climbs_from(self, source: Link) -> bool:
        """Return whether an event still has to climb: at a normal broker only when a publisher brought it."""
        if self._normal:
            return isinstance(source, str)
        return source != self.position.parent

    def _on_announce(self, source: Link, message: Announce) -> list[Effect]:
        return [] if self._overhears(source) else super()._on_announce(source, message)

    def _on_withdraw(self, source: Link, message: Withdraw) -> list[Effect]:
        return [] if self._overhears(source) else super()._on_withdraw(source, message)

    def _overhears(self, source: Link) -> bool:
        """Return whether a fellow's subscription is meant for the designated broker only (figure 2, line 27)."""
        return self._normal and source in self._fellows

    def _is_below(self, source: Link) -> bool:
        return not self._normal and (source in self._fellows or source in self.position.children)
