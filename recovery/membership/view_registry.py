"""The rendezvous point of a network in views: it alone decides membership and labels, by views with rising numbers.

Rules
-----
* A broker is in the view while it is heard within its suspicion timeout (`recovery.membership.detector`). A silent
  broker is removed. So is, at once, one whose process another broker of the view knows to be dead (`ViewDied`).
  A broker that sends beats and is not in the view is added, near the brokers of its cluster. A broker that was
  restarted keeps its label and gets a new birth version.
* Pending changes go into one view, at most one per quarter of a heartbeat. The view is sent to every broker
  that was or is in it. A beat with an older view is answered with the present view.
* A broker that requests a round gets a view with the same brokers, at most one per heartbeat. For brokers
  every view is a round, and retained events are retransmitted under each.
* Numbers of views only rise. A broker whose view is later than the present one, by damage, would follow no view any
  more: the next one is later than that, and is made at once.
* A view says how far back its round mends: to the oldest failure that it is made for, and for as long as
  failures may go unnoticed. A view may be issued before all brokers have received what the last one brought,
  so all views of that time mend a failure.
* A broker that compares its view is sent the digest of the present one (`comparing`).
* A broker that has left is not added again before it is restarted.
* `state` is plain data, which the host stores before the answers go out. After a restart every broker in the
  view has its full suspicion timeout to be heard. While there is no rendezvous point the view does not change.
* The state records times, on a clock that continues over a restart. It also records the latest time at which
  all brokers in the view were surely heard, updated at intervals. A broker that is silent after a restart may
  have been silent since then, and not for longer.

In the paper (2.4, its first way) nodes near a vacancy agree among themselves which one fills it. Two
agreements at the same time, or in two partitions, could give one place away twice. A single decider cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ...protocol.effects import Received, Send, Ticked
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId
from ...protocol.messages.comparing import Compare
from ...protocol.messages.recovery import Holds, Recovery
from ...protocol.messages.views import MembershipView, ViewBeat, ViewDied, ViewLeave, ViewMember
from ...routing.topologies.cube_members import CubeMembers
from ..durability.whereabouts import Whereabouts
from .comparing import digest
from .detector import Detector

VIEWS_A_HEARTBEAT: Final = 4

SURE_A_RETENTION: Final = 10
"""How often per retention period the registry records that all brokers in the view are heard."""


class ViewRendezvous:
    """The rendezvous point as a value machine.

    Parameters
    ----------
    recovery
        Its detector and heartbeat, and the maximum size of node clusters.
    view
        The view with which the network starts.
    """

    def __init__(self, recovery: Recovery, view: MembershipView) -> None:
        self._recovery = recovery
        self._now: float | None = None
        self._view_at: float | None = None
        self._sure_at: float | None = None  # when all brokers in the view were surely heard
        self._gone_at: dict[BrokerId, float] = {}  # since when each removed broker may have been unreachable
        # For each failure: when it became known here, and since when it existed.
        self._failures: list[tuple[float, float]] = []
        self._mended: list[tuple[float, float]] = []  # the failures that the present view was made for
        self.durable = Whereabouts()
        self._joining: dict[BrokerId, ViewBeat] = {}
        self._leaving: dict[BrokerId, None] = {}
        self._round_wanted = False
        self._version_heard = 0  # the latest view of a broker whose number is beyond the present one's
        self._take(view, dict.fromkeys(view.born, 0), {})

    def _take(
        self, view: MembershipView, incarnations: dict[BrokerId, int], departed: dict[BrokerId, int]
    ) -> None:
        self.view = view
        cluster_max = self._recovery.node_cluster_max or view.cluster_max
        self._members = CubeMembers(view.dimensions, view.labels, cluster_max)
        self._incarnations = incarnations
        self._departed = departed
        self._detector = Detector(self._recovery)
        self._heard: set[BrokerId] = set()

    def handle(self, event: Received | Ticked) -> list[Send]:
        """Process one event and return the messages to send. Messages for other machines have no effect."""
        if isinstance(event, Ticked):
            return self._tick(event.now)
        source, message = event.source, event.message
        if isinstance(source, int) and isinstance(message, ViewBeat):
            return self._beat(source, message)
        if isinstance(source, int) and isinstance(message, Holds):
            return self.durable.held(source, message)
        if isinstance(source, int) and isinstance(message, Compare):
            known = source in self._members.labels
            return [Send(source, Compare(place=digest([self.view.who])))] if known else []
        if isinstance(source, int) and isinstance(message, ViewLeave) and source in self._members.labels:
            self._departed[source] = self._incarnations[source]
            self._leaving[source] = None
        if isinstance(source, int) and isinstance(message, ViewDied):
            return self._died(source, message)
        return []

    def _died(self, source: BrokerId, message: ViewDied) -> list[Send]:
        """Act at once on the news that a broker is dead, if it is about its present incarnation."""
        born, other = self.view.born, message.broker
        if source not in born or source == other or born.get(other) != message.born or self._now is None:
            return []
        self._detector.learn_dead(other)
        return self._tick(self._now)

    def _beat(self, source: BrokerId, beat: ViewBeat) -> list[Send]:
        if beat.incarnation <= self._departed.get(source, -1):
            # It has left and does not know it: the view without it was lost on the way.
            return [Send(source, self.view)] if source not in self._members.labels else []
        known = self._incarnations.get(source, -1)
        if source not in self._members.labels or beat.incarnation > known:
            self._joining[source] = beat
            return []
        if beat.incarnation < known or self._now is None:
            return []
        self._detector.heard(source, self._now)
        self._heard.add(source)
        if beat.version > self.view.version:
            self._version_heard = max(self._version_heard, beat.version)
            self._round_wanted = True
        if beat.version < self.view.version:  # it mends as far back as when it was made
            assert self._view_at is not None
            age = self._now - self._view_at
            return [
                Send(source, replace(self.view, repair_window_seconds=self.view.repair_window_seconds + age))
            ]
        if beat.wants_round:
            self._round_wanted = True
            self._failed(self._now - beat.repair_window_seconds)
        return []

    def _failed(self, since: float) -> None:
        """Record that events since this time may be missing somewhere."""
        self._failures.append((self._now or 0.0, since))

    def _repair_window_seconds(self) -> float:
        """Return how far back the next view has to mend."""
        now, unnoticed = self._now or 0.0, self._recovery.unnoticed_seconds
        self._failures = [each for each in self._failures if each[0] >= now - unnoticed]
        return max(unnoticed, *(now - since for _, since in self._failures), 0.0)

    def _tick(self, now: float) -> list[Send]:
        if self._now is None:
            self._begin(now)
        self._now = now = max(now, self._now or now)
        assert self._view_at is not None and self._sure_at is not None
        seconds = self._recovery.retention_seconds / SURE_A_RETENTION
        if now - self._sure_at > seconds and self._heard.issuperset(self._members.labels):
            self._sure_at = now
        if now - self._view_at < self._recovery.heartbeat_seconds / VIEWS_A_HEARTBEAT:
            return []
        before = dict(self.view.born)
        gone = self._let_go()
        anew = self._take_in()
        round_due = self._round_wanted and now - self._view_at >= self._recovery.heartbeat_seconds
        if not gone and not anew and not round_due:
            return []
        return self._publish(before, anew)

    def _begin(self, now: float) -> None:
        """Process the first tick: from now on every broker has its suspicion timeout to be heard."""
        for broker in self._members.labels:
            self._detector.expect(broker, now)
        begun = (
            now - self._recovery.heartbeat_seconds
        )  # no broker waits because of the view with which a network starts
        self._view_at = begun if self._view_at is None else min(self._view_at, now)
        self._sure_at = now if self._sure_at is None else min(self._sure_at, now)

    def _let_go(self) -> list[BrokerId]:
        gone = []
        now = self._now or 0.0
        for broker in sorted({*self._leaving, *self._detector.suspects(now)}):
            if broker in self._members.labels and len(self._members.labels) > 1:
                # A broker that was not heard since a restart may have been silent since it was last heard
                # before that.
                heard_at = now if broker in self._heard else self._sure_at or now
                self._gone_at[broker] = heard_at - self._recovery.unnoticed_seconds
                self._failed(self._gone_at[broker])
                self._members.leave(broker)
                self._detector.forget(broker)
                gone.append(broker)
        self._leaving.clear()
        return gone

    def _take_in(self) -> list[BrokerId]:
        anew = []
        now = self._now or 0.0
        for broker, beat in sorted(self._joining.items()):
            if broker not in self._members.labels:
                contact = next((each for each in beat.contacts if each in self._members.labels), None)
                self._members.join(broker, contact)
                # It may have run without the others. A restarted broker itself knows what it has missed.
                self._failed(self._gone_at.pop(broker, now))
            self._failed(now - beat.repair_window_seconds)
            self._incarnations[broker] = beat.incarnation
            self._detector.forget(broker)
            self._detector.expect(broker, now)
            self._heard.add(broker)
            anew.append(broker)
        self._joining.clear()
        return anew

    def _publish(self, before: dict[BrokerId, int], anew: list[BrokerId]) -> list[Send]:
        version = max(self.view.version, self._version_heard) + 1
        labelled = self._members
        members = tuple(
            ViewMember(broker, label, version if broker in anew else before[broker])
            for broker, label in sorted(labelled.labels.items())
        )
        self.view = MembershipView(
            version, labelled.dimensions, labelled.cluster_max, members, self._repair_window_seconds()
        )
        self._round_wanted = False
        self._view_at, self._mended = self._now or 0.0, list(self._failures)
        return [Send(broker, self.view) for broker in sorted({*before, *self.view.born})]

    # State.

    def state(self) -> dict[str, object]:
        """Return the data that must outlive this machine, as plain data that JSON can represent."""
        return {
            "version": self.view.version,
            "dimensions": self.view.dimensions,
            "cluster_max": self.view.cluster_max,
            "seats": [list(member) for member in self.view.members],
            "incarnations": sorted([broker, number] for broker, number in self._incarnations.items()),
            "departed": sorted([broker, number] for broker, number in self._departed.items()),
            "view_at": self._view_at,
            "doubt_seconds": self.view.repair_window_seconds,
            "sure_at": self._sure_at,
            "gone_at": sorted([broker, at] for broker, at in self._gone_at.items()),
            "mended": [list(each) for each in self._mended],
            "durable": self.durable.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned. Every broker in the view has its suspicion timeout to be heard.

        Raises
        ------
        InputError
            If the data was not returned by `state`.
        """
        try:
            view = MembershipView(
                int(state["version"]),
                int(state["dimensions"]),
                int(state["cluster_max"]),
                tuple(ViewMember(*map(int, member)) for member in state["seats"]),
                float(state["doubt_seconds"]),
            )
            incarnations = {int(broker): int(number) for broker, number in state["incarnations"]}
            departed = {int(broker): int(number) for broker, number in state["departed"]}
            gone_at = {int(broker): float(at) for broker, at in state["gone_at"]}
            mended = [(float(known), float(since)) for known, since in state["mended"]]
            view_at, sure_at = (
                None if at is None else float(at) for at in (state["view_at"], state["sure_at"])
            )
            self.durable.restore(state.get("durable", {}))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"the rendezvous point's state {state!r} is not one that it has written ({error!r}): delete it, and "
                "the configured view is used"
            ) from error
        self._take(view, incarnations, departed)
        self._now, self._view_at, self._sure_at = None, view_at, sure_at
        self._gone_at, self._failures, self._mended = gone_at, mended, list(mended)
