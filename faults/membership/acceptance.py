"""Whether a broker takes another child: how much it carries, and what it answers who asks (paper 1, 4.2.1, figure 3).

Rules
-----
* It refuses whom it has on its path, everybody while there is no way to the root, and for degree or load.
* Load is events per second in the last whole window; so a burst counts for one window at most, and silence is seen in
  two.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ...protocol.ids import ClusterId
from ...protocol.messages.recovery import ClusterView, JoinAnswer, JoinRequest, Recovery

WINDOW_SECONDS: Final = 1.0


class Load:
    """The events per second that one broker handles.

    Attributes
    ----------
    events_per_second
        In the last window that has ended.
    """

    __slots__ = ("_events", "_since", "events_per_second")

    def __init__(self) -> None:
        self.events_per_second = 0.0
        self._events = 0
        self._since: float | None = None

    def count(self, events: int) -> None:
        """Note that events were handled."""
        self._events += events

    def tick(self, now: float) -> None:
        """Take in the time, in seconds; it never goes back."""
        if self._since is None:
            self._since = now
        elif now - self._since >= WINDOW_SECONDS:
            self.events_per_second = self._events / (now - self._since)
            self._events, self._since = 0, now


def judge(
    request: JoinRequest,
    my_view: ClusterView,
    path: tuple[ClusterId, ...],
    term: int,
    children: Collection[ClusterId],
    recovery: Recovery,
    *,
    designated: bool,
    load: float = 0.0,
    leaving: bool = False,
    going: Collection[ClusterId] = (),
) -> JoinAnswer:
    """Return what the one that is asked to become a parent answers.

    Parameters
    ----------
    request
        What was asked.
    my_view, path, term
        The own cluster, the clusters from the root down to it (itself included; empty while there is no way to the
        root), and the root's term.
    children
        The clusters that are children now. One of them may always ask again: it stays what it is.
    recovery
        `degree` is how many children are taken, `load_max` the load above which no other is.
    designated
        Whether this broker speaks for its cluster; if not, the view names the one that does.
    load
        The events per second that this broker handles.
    leaving
        Whether the own cluster is about to leave the network: only a child is taken, which is told to leave then.
    going
        The children that are about to leave; their places are free.
    """
    asker = request.view.cluster
    if not designated:
        reason = "not designated"
    elif not path:
        reason = "no way to the root"
    elif asker in path:
        reason = "ring"
    elif leaving and asker not in children:
        reason = "leaving"
    elif asker not in children and len(set(children) - set(going)) >= recovery.degree:
        reason = "full"
    elif asker not in children and _overloaded(load, recovery) and not request.last_resort:
        reason = "overloaded"
    else:
        reason = ""
    return JoinAnswer(not reason, reason, my_view, () if reason else path, term)


def _overloaded(load: float, recovery: Recovery) -> bool:
    return recovery.load_max is not None and load > recovery.load_max
