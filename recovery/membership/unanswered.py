"""Tracks children and members that have not told what they want or whose wants are not installed up to the root.

Rules
-----
* A child that asks to join says what it wants, each filter under a token. It is *ready* when all of that is
  installed or withdrawn.
* A child that was taken over from another designated broker still has to say what it wants, by a deadline. It
  is not ready before.
* The group of a new designated broker is not ready before all its members have said what they want.
* Nothing may be sent to a child or a group that is not ready.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.ids import GROUP, BrokerId, ClusterId, Link
from ...routing.filters.filter import Filter


class Unanswered:
    """The children that wait, by their designated broker, and the members that have not said what they want."""

    def __init__(self) -> None:
        self._waiting: dict[BrokerId, dict[int, object] | None] = {}
        self._tell_by: dict[ClusterId, float] = {}
        self._members: set[BrokerId] = set()
        self._members_by = 0.0

    def __contains__(self, link: Link) -> bool:
        """Return whether a link leads to a child, ready or not, or to the group while members are awaited."""
        return bool(self._members) if link == GROUP else link in self._waiting

    def asked(self, child: BrokerId, cluster: ClusterId, wanted: Iterable[tuple[Filter, int]]) -> None:
        """Record what a child wants, with the tokens under which it is to be answered."""
        self._waiting[child] = {token: item for item, token in wanted}
        self._tell_by.pop(cluster, None)

    def taken_over(self, child: BrokerId, cluster: ClusterId, tell_by: float) -> None:
        """Record a child that has not said what it wants, and its deadline for that."""
        self._waiting[child] = None
        self._tell_by[cluster] = tell_by

    def installed(self, child: BrokerId, token: int) -> None:
        """Record that the filter of this token is installed up to the root."""
        waiting = self._waiting.get(child)
        if waiting is not None:
            waiting.pop(token, None)

    def withdrawn(self, child: BrokerId, item: object) -> None:
        """Record that a child no longer wants a filter."""
        waiting = self._waiting.get(child) or {}
        for token in [token for token, wanted in waiting.items() if wanted == item]:
            del waiting[token]

    def ready(self) -> list[BrokerId]:
        """Return the children all of whose wants are installed."""
        return [child for child, waiting in self._waiting.items() if waiting is not None and not waiting]

    def overdue(self, now: float) -> list[ClusterId]:
        """Return the clusters that have not said what they want by their deadline."""
        return [cluster for cluster, by in self._tell_by.items() if now >= by]

    @property
    def any(self) -> bool:
        """Whether any child or member waits, or has yet to say what it wants."""
        return bool(self._tell_by or self._members) or any(
            tokens is None or tokens for tokens in self._waiting.values()
        )

    def forget(self, child: BrokerId) -> None:
        """Record that a broker is no longer a child."""
        self._waiting.pop(child, None)

    def left(self, cluster: ClusterId) -> None:
        """Record that a cluster no longer has to say what it wants."""
        self._tell_by.pop(cluster, None)

    def await_members(self, members: Iterable[BrokerId], tell_by: float) -> None:
        """Wait until each of these members has said what it wants or has left, and record their deadline."""
        self._members = set(members)
        self._members_by = tell_by

    def member_told(self, member: BrokerId) -> bool:
        """Record that a member's wants are known; return whether the member was awaited."""
        awaited = member in self._members
        self._members.discard(member)
        return awaited

    def members_overdue(self, now: float) -> bool:
        """Return whether a member has missed its deadline for saying what it wants."""
        return bool(self._members) and now >= self._members_by

    def clear(self) -> None:
        """Stop waiting for all children and members."""
        self._waiting.clear()
        self._tell_by.clear()
        self._members.clear()
