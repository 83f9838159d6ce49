"""A normal broker's copy of its designated broker's table, so that it can take over at once (paper 1, 4.1.1).

Rules
-----
* *Of the children*: each ballot begins with a copy of all their filters, followed by each change. A message of another
  ballot comes from a broker that is no longer designated, and is ignored.
* *Of the other members*: what they announce to the designated broker goes over the group, so each member hears it, and
  nothing is sent for its copy. Only a member that joins is told what was announced before; what it has heard itself
  is later than that.
* A successor has both in its table at once. Its children and members announce to it anew, which corrects what is under
  way at that moment; only then do events go to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...protocol.ids import Ballot, BrokerId, ClusterId
from ...protocol.layers import Out
from ...protocol.messages.pubsub import Announce, Withdraw
from ...protocol.messages.recovery import TableCopy, TableEntry, TableOfChild, Wants
from ...protocol.queries import Query
from ...routing.filters.filter import Filter


class CopiedTables(Query[Mapping[ClusterId, Iterable[Filter]] | None]):
    """The filters of each child cluster, as a broker has them; None in a scheme without succession."""

    otherwise = None


class Copies:
    """The filters of a cluster's children and of its other members, as one member has them.

    Parameters
    ----------
    ballot
        The ballot of the designated broker, as far as the member knows at the start.
    members
        The other members that want nothing at the start, as this member knows.

    Attributes
    ----------
    tables
        The filters of each child.
    """

    def __init__(self, ballot: Ballot, members: Iterable[BrokerId]) -> None:
        self.tables: dict[ClusterId, dict[Filter, None]] = {}
        self._members: dict[BrokerId, dict[Filter, None]] = {member: {} for member in members}
        self._changes: dict[
            BrokerId, dict[Filter, bool]
        ] = {}  # heard of members of which the rest is not known
        self._ballot = ballot

    def on_entry(self, source: BrokerId, message: TableEntry) -> list[Out]:
        """Add or remove a filter of a child."""
        if message.ballot == self._ballot:
            wanted = self.tables.setdefault(message.child, {})
            if message.wanted:
                wanted[message.filter] = None
            else:
                wanted.pop(message.filter, None)
        return []

    def on_child(self, source: BrokerId, message: TableOfChild) -> list[Out]:
        """Replace the filters of a child; none if it is no longer a child."""
        if message.ballot == self._ballot:
            self.tables.pop(message.child, None)
            if message.filters:
                self.tables[message.child] = dict.fromkeys(message.filters)
        return []

    def take(self, message: TableCopy) -> bool:
        """Replace the filters of all children, unless the copy is of an earlier ballot; return whether it was taken."""
        if message.ballot < self._ballot:
            return False
        self._ballot = message.ballot
        self.tables = {cluster: dict.fromkeys(filters) for cluster, filters in message.entries}
        return True

    # Of the other members.

    def of_member(self, member: BrokerId) -> Iterable[Filter] | None:
        """Return what another member wants; None if it is not known."""
        return self._members.get(member)

    def hear(self, member: BrokerId, message: Announce | Withdraw) -> None:
        """Note what another member announces or withdraws."""
        change = {message.filter: isinstance(message, Announce)}
        wanted = self._members.get(member)
        if wanted is None:
            self._changes.setdefault(member, {}).update(change)
        else:
            _apply(change, wanted)

    def hear_all(self, member: BrokerId, message: Wants) -> None:
        """Note everything that another member wants."""
        self._members[member] = dict.fromkeys(item for item, _ in message.filters)
        self._changes.pop(member, None)

    def join(self, message: TableCopy, members: Iterable[BrokerId]) -> None:
        """Take in what the other members had announced before this one joined."""
        told = dict(message.members)
        for member in members:
            if member not in self._members:
                self._members[member] = wanted = dict.fromkeys(told.get(member, ()))
                _apply(self._changes.pop(member, {}), wanted)

    def keep(self, members: Collection[BrokerId]) -> None:
        """Forget what everybody else wants."""
        for member in self._members.keys() - members:
            del self._members[member]
        for member in self._changes.keys() - members:
            del self._changes[member]


def _apply(changes: Mapping[Filter, bool], to: dict[Filter, None]) -> None:
    for item, wanted in changes.items():
        if wanted:
            to[item] = None
        else:
            to.pop(item, None)
