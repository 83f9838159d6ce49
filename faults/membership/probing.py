"""Watching the clusters beside one's own in the tree, and finding their next designated broker (paper 1, 4.1.2).

Rules
-----
* A `TreeBeat` of the known designated broker is a sign of life. One under a newer view says that the cluster has
  elected: the neighbour has moved. One under an older view is of a broker that has been replaced, and says nothing.
* Who is silent for the detector's time is probed for: its members are asked from the highest id down, each
  `probe_tries` times, `probe_seconds` apart; the silent one itself is asked last, since it may be only slow.
* A member that answers with a newer view ends it: the neighbour has moved, and is watched anew. One that still names
  the silent one uses up a try: either the election has not happened yet, and a later try will tell; or the silent one
  is alive and the link to it is cut.
* A member of which the host says that its process is dead (`learn_dead`) is not waited for.
* When all were asked and none knew better, the neighbour is lost. That takes at most members x `probe_tries` x
  `probe_seconds`, and as many messages as tries.
* Whenever the silent one is heard again, by beat or by answer, the probing is off.

The machine's clock is the last `Ticked`. It watches neighbours, not the own cluster, and sends no beats.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.effects import Received, Rested, Send, Ticked
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.messages.recovery import ClusterView, Probe, ProbeAnswer, Recovery, TreeBeat
from .detector import Detector
from .local import NeighbourLost, NeighbourMoved, Out


@dataclass(slots=True)
class _Inquiry:
    """The members that are still to be asked about a silent neighbour; the first of them is being asked."""

    members: list[BrokerId]
    tries: int
    deadline: float


class Probing:
    """The neighbour side of a designated broker.

    Parameters
    ----------
    recovery
        `probe_seconds`, `probe_tries`, and the detector's settings.
    """

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        # It knows senders by numbers: here a sender is a cluster, through whichever broker speaks for it.
        self._detector = Detector(recovery)
        self._views: dict[ClusterId, ClusterView] = {}
        self._since: dict[ClusterId, float] = {}  # when the broker was first known that speaks for each
        self._inquiries: dict[ClusterId, _Inquiry] = {}
        self._now = 0.0

    @property
    def neighbours(self) -> tuple[ClusterView, ...]:
        """The clusters that are watched, as they are known here, in the order in which they came."""
        return tuple(self._views.values())

    @property
    def probed(self) -> tuple[ClusterId, ...]:
        """The neighbours that are silent and being probed for."""
        return tuple(self._inquiries)

    @property
    def deadline(self) -> float | None:
        """The moment after which a tick leads to something, if nobody is heard before; None when nobody is watched."""
        return min(
            (
                self._inquiries[cluster].deadline
                if cluster in self._inquiries
                else self._detector.deadline(cluster)
                for cluster in self._views
            ),
            default=None,
        )

    def watch(self, view: ClusterView, now: float) -> None:
        """Watch a cluster from now on, as if just heard; when it is watched already, take this view of it.

        What the detector has learned of the designated broker's gaps is kept as long as it stays the same broker.
        """
        self._now = max(self._now, now)
        known = self._views.get(view.cluster)
        if known is None or known.designated != view.designated:
            self._detector.forget(view.cluster)
            self._since[view.cluster] = self._now
        self._views[view.cluster] = view
        self._inquiries.pop(view.cluster, None)
        self._detector.expect(view.cluster, self._now)

    def forget(self, cluster: ClusterId) -> None:
        """Watch a cluster no longer; nothing happens when it is not watched."""
        self._views.pop(cluster, None)
        self._since.pop(cluster, None)
        self._inquiries.pop(cluster, None)
        self._detector.forget(cluster)

    def watched_since(self, cluster: ClusterId) -> float:
        """Return since when a cluster is watched with the same designated broker."""
        return self._since[cluster]

    def learn_dead(self, broker: BrokerId) -> None:
        """Take in what the transport knows for certain: a member is dead; it is not asked any more.

        The next tick asks the one after it. Whoever only does not answer is asked as often as ever.
        """
        for inquiry in self._inquiries.values():
            if broker in inquiry.members:
                if inquiry.members[0] == broker:
                    inquiry.tries = 0
                    inquiry.deadline = self._now
                inquiry.members.remove(broker)

    def rested(self, event: Rested) -> None:
        """Take in when the neighbours were heard while this broker was told nothing; nobody is probed for."""
        self._now = max(self._now, event.now)
        for cluster, view in self._views.items():
            self._detector.was_heard(cluster, event.heard.get(view.designated, ()))

    @staticmethod
    def answer(probe: Probe, source: BrokerId, my_view: ClusterView) -> Send:
        """Return a member's answer to a probe: what it knows of its own cluster."""
        return Send(source, ProbeAnswer(my_view))

    def handle(self, event: Received | Ticked) -> list[Out]:
        """Take one event in; messages that are not about a watched neighbour lead to nothing."""
        if isinstance(event, Ticked):
            return self._tick(event.now)
        source, message = event.source, event.message
        if not isinstance(source, int) or not isinstance(message, TreeBeat | ProbeAnswer):
            return []
        known = self._views.get(message.view.cluster)
        if known is None:
            return []
        if isinstance(message, TreeBeat):
            return self._beat(source, known, message.view)
        return self._answered(source, known, message.view)

    def _beat(self, source: BrokerId, known: ClusterView, view: ClusterView) -> list[Out]:
        if view.newer_than(known):
            return self._moved(view)
        if source == known.designated and not known.newer_than(view):
            self._alive(view)
        return []

    def _answered(self, source: BrokerId, known: ClusterView, view: ClusterView) -> list[Out]:
        if view.newer_than(known):
            return self._moved(view)
        if source == known.designated == view.designated:
            self._alive(known)
        return []

    def _alive(self, view: ClusterView) -> None:
        self._views[view.cluster] = view
        self._inquiries.pop(view.cluster, None)
        self._detector.heard(view.cluster, self._now)

    def _moved(self, view: ClusterView) -> list[Out]:
        self.watch(view, self._now)
        return [NeighbourMoved(view)]

    def _tick(self, now: float) -> list[Out]:
        self._now = max(self._now, now)
        out: list[Out] = []
        for cluster in self._detector.suspects(self._now):
            if cluster not in self._inquiries:
                view = self._views[cluster]
                others = sorted((m for m in view.members if m != view.designated), reverse=True)
                self._inquiries[cluster] = _Inquiry([*others, view.designated], 0, self._now)
        for cluster, inquiry in list(self._inquiries.items()):
            if self._now >= inquiry.deadline:
                out += self._ask(cluster, inquiry)
        return out

    def _ask(self, cluster: ClusterId, inquiry: _Inquiry) -> list[Out]:
        if inquiry.tries == self._recovery.probe_tries:
            inquiry.members.pop(0)
            inquiry.tries = 0
        if not inquiry.members:
            self.forget(cluster)
            return [NeighbourLost(cluster)]
        inquiry.tries += 1
        inquiry.deadline = self._now + self._recovery.probe_seconds
        return [Send(inquiry.members[0], Probe(cluster))]
