"""Decides whether a broker accepts another child: its load and its answer to a join request (paper 1, 4.2.1, figure 3).

Rules
-----
* A broker refuses any cluster that is on its path to the root. It refuses every cluster while it has no path
  to the root. It also refuses when its degree or its load is exhausted.
* Load is events per second over the last full window. A burst therefore counts for at most one window, and
  silence shows after two.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ...protocol.ids import ClusterId
from ...protocol.messages.recovery import ClusterView, JoinAnswer, JoinRequest, Recovery

WINDOW_SECONDS: Final = 1.0


class Load:
    """Measures the events per second that one broker handles.

    Attributes
    ----------
    events_per_second
        The rate in the last window that has ended.
    """

    __slots__ = ("_events", "_since", "events_per_second")

    def __init__(self) -> None:
        self.events_per_second = 0.0
        self._events = 0
        self._since: float | None = None

    def count(self, events: int) -> None:
        """Count events that were handled."""
        self._events += events

    def tick(self, now: float) -> None:
        """Advance to the time `now`, in seconds. Time never goes back."""
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
    """Return a broker's answer to a request that it become the parent of the asking cluster.

    Parameters
    ----------
    request
        The request.
    my_view, path, term
        This broker's cluster, the clusters from the root down to it (itself included; empty while there is no
        path to the root), and the root's term.
    children
        The clusters that are children now. A cluster that is already a child may always ask again: it stays a
        child.
    recovery
        `degree` is the maximum number of children. `load_max` is the load above which no further child is
        accepted.
    designated
        Whether this broker is the designated broker of its cluster. If not, the view in the answer names the
        designated one.
    load
        The events per second that this broker handles.
    leaving
        Whether this cluster is about to leave the network. It then accepts only a cluster that is already a
        child, and tells that child to leave.
    going
        The children that are about to leave. Their places are free.
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
