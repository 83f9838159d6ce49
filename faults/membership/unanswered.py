"""Who below a broker has yet to tell what it wants, or have it installed up to the root: nothing may go there before.

Rules
-----
* A child that asks to join says what it wants, each under a token; it is *ready* when all of that is installed or
  withdrawn.
* One that was taken over from another designated broker has yet to say what it wants, in its time; it is not ready
  before.
* Nor is the group of a new designated broker before all its members have said what they want.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...protocol.ids import GROUP, BrokerId, ClusterId, Link


class Unanswered:
    """The children that wait, by the broker that speaks for each, and the members that have not said anything."""

    def __init__(self) -> None:
        self._waiting: dict[BrokerId, dict[int, Any] | None] = {}
        self._tell_by: dict[ClusterId, float] = {}
        self._members: set[BrokerId] = set()
        self._members_by = 0.0

    def __contains__(self, link: Link) -> bool:
        """Return whether a link leads to a child, ready or not, or to the group while members are awaited."""
        return bool(self._members) if link == GROUP else link in self._waiting

    def asked(self, child: BrokerId, cluster: ClusterId, wanted: Iterable[tuple[Any, int]]) -> None:
        """Take in what a child wants, with the tokens under which it is to be answered."""
        self._waiting[child] = {token: item for item, token in wanted}
        self._tell_by.pop(cluster, None)

    def taken_over(self, child: BrokerId, cluster: ClusterId, tell_by: float) -> None:
        """Take in a child that has not said what it wants, and until when it must have."""
        self._waiting[child] = None
        self._tell_by[cluster] = tell_by

    def installed(self, child: BrokerId, token: int) -> None:
        """Take in that something is installed up to the root."""
        waiting = self._waiting.get(child)
        if waiting is not None:
            waiting.pop(token, None)

    def withdrawn(self, child: BrokerId, item: Any) -> None:
        """Take in that a child wants something no longer."""
        waiting = self._waiting.get(child) or {}
        for token in [token for token, wanted in waiting.items() if wanted == item]:
            del waiting[token]

    def ready(self) -> list[BrokerId]:
        """Return the children of whom all that they want is installed."""
        return [child for child, waiting in self._waiting.items() if waiting is not None and not waiting]

    def overdue(self, now: float) -> list[ClusterId]:
        """Return the clusters that should have said by now what they want."""
        return [cluster for cluster, by in self._tell_by.items() if now >= by]

    @property
    def any(self) -> bool:
        """Whether anybody waits, or has yet to tell what it wants."""
        return bool(self._tell_by or self._members) or any(
            tokens is None or tokens for tokens in self._waiting.values()
        )

    def forget(self, child: BrokerId) -> None:
        """Take in that a broker is no child any more."""
        self._waiting.pop(child, None)

    def left(self, cluster: ClusterId) -> None:
        """Take in that a cluster need not say anything any more."""
        self._tell_by.pop(cluster, None)

    def await_members(self, members: Iterable[BrokerId], tell_by: float) -> None:
        """Wait until each of these has said what it wants, or has left, and until when they must have."""
        self._members = set(members)
        self._members_by = tell_by

    def member_told(self, member: BrokerId) -> bool:
        """Take in that what a member wants is known; return whether it was awaited."""
        awaited = member in self._members
        self._members.discard(member)
        return awaited

    def members_overdue(self, now: float) -> bool:
        """Return whether a member should have said by now what it wants."""
        return bool(self._members) and now >= self._members_by

    def clear(self) -> None:
        """Wait for nobody."""
        self._waiting.clear()
        self._tell_by.clear()
        self._members.clear()
