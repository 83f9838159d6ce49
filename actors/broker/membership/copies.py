"""A normal broker's copy of the designated broker's table, for an immediate takeover (paper 1, 4.1.1).

Rule: each ballot starts with everything that the children want, followed by each change. What arrives under
another ballot is from a broker that no longer speaks for the cluster, and does not count.
"""

from __future__ import annotations

from ....protocol.ids import Ballot, BrokerId, ClusterId
from ....protocol.layers import Out
from ....protocol.messages.recovery import TableCopy, TableEntry, TableOfChild
from ....routing.filters.filter import Filter


class Copies:
    """What the children of a cluster want, as one member has it from the designated broker.

    Parameters
    ----------
    ballot
        Under which the designated broker speaks, as far as the member knows at the start.

    Attributes
    ----------
    tables
        The filters of each child.
    """

    def __init__(self, ballot: Ballot) -> None:
        self.tables: dict[ClusterId, dict[Filter, None]] = {}
        self._ballot = ballot

    def on_entry(self, source: BrokerId, message: TableEntry) -> list[Out]:
        """Record that a child wants a filter, or no longer wants it."""
        if message.ballot == self._ballot:
            wanted = self.tables.setdefault(message.child, {})
            if message.wanted:
                wanted[message.filter] = None
            else:
                wanted.pop(message.filter, None)
        return []

    def on_child(self, source: BrokerId, message: TableOfChild) -> list[Out]:
        """Record everything that a child wants; nothing if it is no longer a child."""
        if message.ballot == self._ballot:
            self.tables.pop(message.child, None)
            if message.filters:
                self.tables[message.child] = dict.fromkeys(message.filters)
        return []

    def take(self, message: TableCopy) -> bool:
        """Record everything that the children want, unless it is of an earlier ballot; return whether it counts."""
        if message.ballot < self._ballot:
            return False
        self._ballot = message.ballot
        self.tables = {cluster: dict.fromkeys(filters) for cluster, filters in message.entries}
        return True
