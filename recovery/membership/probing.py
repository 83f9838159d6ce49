"""Watches the neighbouring clusters in the tree and finds their next designated broker (paper 1, 4.1.2).

Rules
-----
* A `TreeBeat` of the known designated broker is a sign of life. A beat under a newer view says that the
  cluster has elected: the neighbour has moved. A beat under an older view comes from a broker that has been
  replaced, and is ignored.
* A neighbour that is silent for the detector's suspicion timeout is probed. Its members are asked from the highest id
  down, each `probe_tries` times, `probe_seconds` apart. The silent designated broker itself is asked last,
  since it may only be slow.
* An answer with a newer view ends the probing: the neighbour has moved, and is watched under that view. An
  answer that still names the silent broker uses up a try. Either the election has not happened yet, and a
  later try will show it; or the silent broker is alive and the link to it is cut.
* A member that the host reports as dead (`learn_dead`) is not waited for: if it is the designated broker, the
  others are asked at the next tick, without the suspicion timeout; and the dead one is not asked.
* When all members were asked and none had a newer view, the neighbour is lost. That takes at most members x
  `probe_tries` x `probe_seconds`, and as many messages as tries.
* The probing ends whenever the silent broker is heard again, by beat or by answer.

The machine's clock is the time of the last `Ticked`. The machine watches neighbours, not its own cluster, and
sends no beats.
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
    """The members still to be asked about a silent neighbour. The first one is being asked."""

    members: list[BrokerId]
    tries: int
    deadline: float


class Probing:
    """Watches the neighbours of a designated broker.

    Parameters
    ----------
    recovery
        `probe_seconds`, `probe_tries`, and the detector's settings.
    """

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        # The detector identifies senders by number. Here a sender is a cluster, whichever broker is
        # designated in it.
        self._detector = Detector(recovery)
        self._views: dict[ClusterId, ClusterView] = {}
        self._since: dict[ClusterId, float] = {}  # when the present designated broker of each was first known
        self._inquiries: dict[ClusterId, _Inquiry] = {}
        self._now = 0.0

    @property
    def neighbours(self) -> tuple[ClusterView, ...]:
        """The watched clusters as they are known here, in the order in which they were added."""
        return tuple(self._views.values())

    @property
    def probed(self) -> tuple[ClusterId, ...]:
        """The neighbours that are silent and being probed."""
        return tuple(self._inquiries)

    @property
    def deadline(self) -> float | None:
        """The time after which a tick has an effect, if no neighbour is heard before; None when none is watched."""
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
        """Watch a cluster from now on, as if it was heard now. If it is watched already, take this view of it.

        The detector's record of the designated broker's gaps is retained while the designated broker stays
        the same.
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
        """Stop watching a cluster. This has no effect if the cluster is not watched."""
        self._views.pop(cluster, None)
        self._since.pop(cluster, None)
        self._inquiries.pop(cluster, None)
        self._detector.forget(cluster)

    def watched_since(self, cluster: ClusterId) -> float:
        """Return since when a cluster is watched with the same designated broker."""
        return self._since[cluster]

    def learn_dead(self, broker: BrokerId) -> None:
        """Record that a member is known to be dead, from the transport. It is no longer waited for, nor asked.

        The next tick asks the next member. A member that does not answer is asked as often as before.
        """
        for cluster, view in self._views.items():
            if view.designated == broker and cluster not in self._inquiries:
                self._inquire(view)
        for inquiry in self._inquiries.values():
            if broker in inquiry.members:
                if inquiry.members[0] == broker:
                    inquiry.tries = 0
                    inquiry.deadline = self._now
                inquiry.members.remove(broker)

    def rested(self, event: Rested) -> None:
        """Record when the neighbours were heard while this broker rested; no probe starts."""
        self._now = max(self._now, event.now)
        for cluster, view in self._views.items():
            self._detector.was_heard(cluster, event.heard.get(view.designated, ()))

    def excuse(self, seconds: float) -> None:
        """Count so many of the seconds until the next tick as silence of nobody: what was said then may lie unread."""
        self._detector.excuse(seconds)
        for inquiry in self._inquiries.values():
            inquiry.deadline += seconds

    @staticmethod
    def answer(probe: Probe, source: BrokerId, my_view: ClusterView) -> Send:
        """Return a member's answer to a probe: its view of its own cluster."""
        return Send(source, ProbeAnswer(my_view))

    def handle(self, event: Received | Ticked) -> list[Out]:
        """Process one event. Messages that do not concern a watched neighbour have no effect."""
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
                self._inquire(self._views[cluster])
        for cluster, inquiry in list(self._inquiries.items()):
            if self._now >= inquiry.deadline:
                out += self._ask(cluster, inquiry)
        return out

    def _inquire(self, view: ClusterView) -> None:
        """Begin to ask the members of a silent neighbour; the next tick asks the first."""
        others = sorted((m for m in view.members if m != view.designated), reverse=True)
        self._inquiries[view.cluster] = _Inquiry([*others, view.designated], 0, self._now)

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
