"""What a normal broker keeps of the table of its designated one, so that it can take over at once (paper 1, 4.1.1).

Rule: with a ballot comes the whole of what the children want, then each change. What comes under another ballot is of a
broker that speaks no more, and does not count.
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
        Under which the designated broker speaks, as far as the member knows when it begins.

    Attributes
    ----------
    tables
        The filters of each child.
    """

    def __init__(self, ballot: Ballot) -> None:
        self.tables: dict[ClusterId, dict[Filter, None]] = {}
        self._ballot = ballot

    def on_entry(self, source: BrokerId, message: TableEntry) -> list[Out]:
        """Take in that a child wants a filter, or wants it no more."""
        if message.ballot == self._ballot:
            wanted = self.tables.setdefault(message.child, {})
            if message.wanted:
                wanted[message.filter] = None
            else:
                wanted.pop(message.filter, None)
        return []

    def on_child(self, source: BrokerId, message: TableOfChild) -> list[Out]:
        """Take in all that a child wants; nothing when it is one no more."""
        if message.ballot == self._ballot:
            self.tables.pop(message.child, None)
            if message.filters:
                self.tables[message.child] = dict.fromkeys(message.filters)
        return []

    def take(self, message: TableCopy) -> bool:
        """Take in all that the children want, unless that is of an earlier ballot; return whether it counts."""
        if message.ballot < self._ballot:
            return False
        self._ballot = message.ballot
        self.tables = {cluster: dict.fromkeys(filters) for cluster, filters in message.entries}
        return True
