"""A normal broker's copy of its designated broker's table, so that it can take over at once (paper 1, 4.1.1).

Rule: each ballot begins with a copy of all filters of the children, followed by each change. A message of another
ballot comes from a broker that is no longer designated, and is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...protocol.ids import Ballot, BrokerId, ClusterId
from ...protocol.layers import Out
from ...protocol.messages.recovery import TableCopy, TableEntry, TableOfChild
from ...protocol.queries import Query
from ...routing.filters.filter import Filter


class CopiedTables(Query[Mapping[ClusterId, Iterable[Filter]] | None]):
    """The filters of each child cluster, as a broker has them; None in a scheme without succession."""

    otherwise = None


class Copies:
    """The filters of a cluster's children, as one member has them from the designated broker.

    Parameters
    ----------
    ballot
        The ballot of the designated broker, as far as the member knows at the start.

    Attributes
    ----------
    tables
        The filters of each child.
    """

    def __init__(self, ballot: Ballot) -> None:
        self.tables: dict[ClusterId, dict[Filter, None]] = {}
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
