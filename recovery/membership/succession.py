"""The cluster side of one broker: designation and membership (paper 1, 4.1.1, with epochs).

Rules
-----
* The designated broker (DEB) multicasts a `ClusterBeat` each heartbeat. Every other member sends it a
  `MemberBeat` each heartbeat, which is its registration. A member that is silent for the detector's suspicion timeout
  leaves the view; a broker that registers enters it. A change is multicast at the next tick.
* A member that misses the DEB starts an election. The candidate is the highest id of the members, without
  those that have failed in this election. The electing member registers with the candidate and waits for it
  for the same time again; then the candidate has failed too. When the candidate is the member itself, it
  takes over. An election therefore ends after at most as many waits as there are members.
* Views are ordered by (epoch, designated): `ClusterView.newer_than`. Every broker follows a higher view,
  including a DEB, which steps down. A lower view changes nothing, and a DEB answers it with its own beat. Of
  two DEBs that hear each other one therefore steps down, at the latest when the next beat has crossed.
* Designated brokers that do not hear each other are told of each other: by a parent that both ask, by one that
  names its children, and by the rendezvous point, which both ask for the root, or tell that they are it (`meet`).
* A broker that takes over chooses one more than the highest epoch that it has seen in any message. A broker
  therefore takes a pair (epoch, itself) once in its incarnation, and two brokers take the same epoch only if neither
  had heard of the other's. A DEB that hears of a higher epoch from a member (because the DEB has restarted
  and lost its own) takes one above that.
* Having been designated does not make a broker designated again. A broker that has restarted (`incarnation`
  above 0) starts as a normal one and listens for one suspicion timeout, even if it was the first DEB. A broker that
  has not yet heard a DEB in its incarnation has no reason to think that the DEB has failed: it waits for the highest
  id of *all* members.
* A broker that leaves says so. The designated broker names its successor (`Resign`), which takes over at once,
  without a timeout. A normal broker sends `MemberGone`, and the next beat omits it. A broker that leaves does
  not register any more, and a broker that has left is not accepted as a member again.
* A member whose process is known to be dead, from the host (`learn_dead`), is not waited for: the next tick acts
  as if it had been silent for its suspicion timeout.
* A slow broker is not dead, and a broker that was paused cannot judge others. Silence is measured on a clock
  that advances by at most one heartbeat from tick to tick, so a broker that was paused does not suspect the
  others when it resumes. Nor does one whose host does not get to what has arrived (`excuse`).

Requirements on the host: links as in docs/decisions/0011-recovery.md (FIFO; messages in flight are lost with
their sender or receiver); a multicast reaches every reachable broker of the group, whether it is in the view
or not; several ticks in each heartbeat (four are good).

The legal pairs of state and event are in `HANDLERS`. A pair without a row there belongs to another machine
and is ignored.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Never

from ...protocol.configs import Position
from ...protocol.effects import Multicast, Received, Rested, Send, Ticked
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.messages.recovery import ClusterBeat, ClusterView, MemberBeat, MemberGone, Recovery, Resign
from .detector import Detector
from .local import MembersChanged, Out, SteppedDown, TookOver


class ClusterRole(enum.Enum):
    """The role of a broker in its cluster."""

    NORMAL = "normal"
    """The broker follows the designated broker of its view (NEB)."""
    ELECTING = "electing"
    """The broker has missed the designated one and waits for a candidate to take over."""
    DESIGNATED = "designated"
    """The broker speaks for the cluster (DEB)."""


class Succession:
    """One broker's part in the heartbeats and the succession of its cluster.

    Parameters
    ----------
    position
        The broker's position at the start of the network: the cluster, its members, the first designated
        broker.
    recovery
        Heartbeat and suspicion timeout.
    incarnation
        How many times the broker has been started before.

    Attributes
    ----------
    view
        The cluster as it is known here. Its epoch never falls.
    parent, children, path, term
        The position of the cluster in the tree: at a normal broker as reported by the last beat, at the
        designated broker as set by `set_tree`. A broker that takes over has what the last beat reported.
    leaving
        Whether this broker is about to leave. The layer that runs its departure sets this.
    departed
        Members that have left for good.
    """

    def __init__(self, position: Position, recovery: Recovery, incarnation: int = 0) -> None:
        # A restarted broker is no member until the designated broker says so.
        members = sorted(
            member for member in position.members if member != position.broker or not incarnation
        )
        self.view = ClusterView(position.cluster, 0, position.designated, tuple(members))
        self.leaving = False
        self.departed: set[BrokerId] = set()
        self.parent: ClusterView | None = None
        self.children: tuple[ClusterView, ...] = ()
        self.path: tuple[ClusterId, ...] = ()
        self.term = 0
        self._me = position.broker
        self._recovery = recovery
        self._incarnation = incarnation
        self._introduced = incarnation == 0
        self._state = ClusterRole.NORMAL
        self._clock = 0.0  # seconds awake
        self._ticked: float | None = None
        self._next_beat = 0.0
        self._epoch_seen = 0
        self._detector = Detector(recovery)
        # As a normal broker.
        self._awaited = position.designated
        self._heard = False  # whether any designated broker has been heard in this incarnation
        self._failed: set[BrokerId] = set()
        self._suspicion_timeout = self._detector.suspicion_timeout(self._awaited)
        self._deadline = self._suspicion_timeout
        # As the designated broker.
        self._incarnations: dict[BrokerId, int] = {}
        if position.designated == self._me and incarnation == 0:
            self._incarnations = dict.fromkeys(self.view.members, 0)
            self._designate(self.view)

    @property
    def epoch_seen(self) -> int:
        """The highest epoch seen in any message."""
        return self._epoch_seen

    def restore(self, epoch_seen: int) -> None:
        """Restore, at the start of an incarnation, the highest epoch that was seen in an earlier incarnation."""
        self._epoch_seen = max(self._epoch_seen, epoch_seen)

    @property
    def state(self) -> ClusterRole:
        """The role of this broker: normal, electing or designated."""
        return self._state

    @property
    def designated(self) -> bool:
        """Whether this broker speaks for its cluster. `view` alone does not tell this after a restart."""
        return self._state is ClusterRole.DESIGNATED

    def handle(self, event: Received | Ticked) -> list[Out]:
        """Process a message or a tick and return messages and news. Events of other machines return nothing."""
        if isinstance(event, Ticked):
            self._advance(event.now)
            return HANDLERS[self._state, Ticked](self, self._me, event)  # type: ignore[arg-type]
        handler = HANDLERS.get((self._state, type(event.message)))
        if handler is None or not isinstance(event.source, int):  # clients take no part
            return []
        return handler(self, event.source, event.message)  # type: ignore[arg-type]

    def rested(self, event: Rested) -> None:
        """Record when the others were heard while this broker rested. Its clock stood still meanwhile."""
        before, self._ticked = self._ticked, event.now
        slept = 0.0 if before is None else event.now - before
        self._clock += slept  # nobody was silent in this time, or it is known for how long
        self._next_beat += slept
        ahead = self._clock - event.now
        for other in sorted(self.listens_to):
            # After a stall the host has heard some later than it last knew the time, but nobody is heard in the future.
            moments = [min(at + ahead, self._clock) for at in event.heard.get(other, ())]
            self._detector.was_heard(other, moments)
        if not self.designated:
            self._suspicion_timeout = self._detector.suspicion_timeout(self._awaited)
            self._deadline = self._detector.deadline(self._awaited)

    @property
    def listens_to(self) -> frozenset[BrokerId]:
        """The members whose silence this broker would notice: all others if designated, else the awaited broker."""
        if self.designated:
            return frozenset(self.view.members) - {self._me}
        return frozenset({self._awaited})

    def set_tree(
        self,
        parent: ClusterView | None,
        children: tuple[ClusterView, ...],
        path: tuple[ClusterId, ...],
        term: int,
    ) -> None:
        """Set the tree position that the beats report. At a normal broker the next beat overwrites it."""
        self.parent, self.children, self.path, self.term = parent, children, path, term

    def beat_now(self) -> list[Out]:
        """Multicast a beat at once, after a change. Return nothing if this broker is not designated."""
        if not self.designated:
            return []
        self._next_beat = self._clock + self._recovery.heartbeat_seconds
        return [Multicast(self._beat())]

    def meet(self, view: ClusterView) -> list[Send]:
        """Make this broker known to one that speaks for the same cluster, as others say; nothing if there is no such.

        Two members may not know each other, if those that both knew are dead.
        """
        if not self.designated or view.cluster != self.view.cluster or view.designated == self._me:
            return []
        return [Send(view.designated, self._beat())]

    def resign(self, successor: BrokerId) -> list[Out]:
        """Ask `successor`, another member, to take over now. It is asked again if it has not done so after a while."""
        if not self.designated:
            return []
        # The beat goes first, so that the successor knows the present tree.
        return [*self.beat_now(), Multicast(Resign(self.view.cluster, self.view.epoch, successor))]

    def begin_anew(self) -> list[Out]:
        """Start a new epoch, so that every member synchronizes with this broker again; nothing if it is not designated.

        This is for a member that follows an earlier incarnation of this broker under the same epoch, and cannot
        tell.
        """
        return self._rise_above(self.view.epoch + 1) if self.designated else []

    def ask_anew(self) -> list[Out]:
        """Ask the designated broker for a new epoch by registering with a higher one; nothing if this broker is it."""
        if self.designated:
            return []
        return [Send(self._awaited, MemberBeat(self.view.cluster, self.view.epoch + 1, self._incarnation))]

    def learn_dead(self, broker: BrokerId) -> None:
        """Record that the process of another member is known to be dead, from the host. The next tick acts on it."""
        if self.designated:
            self._detector.learn_dead(broker)
            return
        if broker in self.view.members and broker != self._me:
            self._failed.add(broker)  # it is no candidate
        if broker == self._awaited != self._me:
            self._deadline = -math.inf

    def check(self) -> None:
        """Assert the machine's invariants; for tests."""
        assert list(self.view.members) == sorted(set(self.view.members)), "members do not rise"
        assert self._epoch_seen >= self.view.epoch, "an epoch has been overlooked"
        assert self._me not in self._failed, "a broker counts itself as failed"
        here, beside = self.view.cluster, [*self.children, *([self.parent] if self.parent else [])]
        assert here not in {each.cluster for each in beside}, "its cluster hangs below itself"
        assert self.path[-1:] in ((), (here,)), "the way of its cluster to the root does not end there"
        if self.designated:
            speaks = self.view.designated == self._me and self._me in self.view.members
            assert speaks, "it speaks for a cluster that another one speaks for"
            assert set(self._incarnations) <= set(self.view.members), "somebody who has left is remembered"
        else:
            assert self._heard is False or self.view.designated != self._me, "it follows itself"
            assert self._deadline <= self._clock + self._suspicion_timeout, "the wait has no end"
        assert (self._state is ClusterRole.ELECTING) <= (self._awaited != self._me), "it waits for itself"

    # Time.

    def excuse(self, seconds: float) -> None:
        """Count so many of the seconds until the next tick as silence of nobody: what was said then may lie unread."""
        if self._ticked is None:
            return
        counted = min(seconds, self._recovery.heartbeat_seconds)  # as far as the clock advances
        self._detector.excuse(counted)
        self._deadline += counted

    def _advance(self, now: float) -> None:
        if self._ticked is not None:
            self._clock += min(max(now - self._ticked, 0.0), self._recovery.heartbeat_seconds)
        self._ticked = now

    def _is_due(self) -> bool:
        """Return whether the next beat is due. If so, set the time of the one after it."""
        if self._clock < self._next_beat:
            return False
        self._next_beat += self._recovery.heartbeat_seconds
        if self._next_beat <= self._clock:
            self._next_beat = self._clock + self._recovery.heartbeat_seconds
        return True

    # As a normal broker.

    def _on_wait(self, source: BrokerId, message: Ticked) -> list[Out]:
        if self._clock > self._deadline:
            return self._elect()
        return self._register() if self._awaited != self._me and self._is_due() else []

    def _on_beat(self, source: BrokerId, beat: ClusterBeat) -> list[Out]:
        if not self._is_genuine(source, beat) or self.view.newer_than(beat.view):
            return []
        return self._follow(beat)

    def _on_foreign_registration(self, source: BrokerId, message: MemberBeat) -> list[Out]:
        """Record only the epoch: the sender takes this broker for designated, or expects that it will be."""
        if message.cluster == self.view.cluster:
            self._epoch_seen = max(self._epoch_seen, message.epoch)
        return []

    def _is_genuine(self, source: BrokerId, beat: ClusterBeat) -> bool:
        """Return whether the beat is from this cluster's designated broker, and not this broker's own."""
        return beat.view.cluster == self.view.cluster and beat.view.designated == source != self._me

    def _follow(self, beat: ClusterBeat) -> list[Out]:
        """Adopt the beat's view, and register if the sender may not know of this broker."""
        designated = beat.view.designated
        register = (
            self._state is not ClusterRole.NORMAL
            or (self.view.epoch, self.view.designated) != (beat.view.epoch, designated)
            or self._me not in beat.view.members
        )
        out: list[Out] = [SteppedDown(beat.view)] if self.designated else []
        if self.designated or designated != self.view.designated:
            self._detector = Detector(self._recovery)
            self._incarnations = {}
        self._state = ClusterRole.NORMAL
        self.view = beat.view
        self.set_tree(beat.parent, beat.children, beat.path, beat.term)
        self._epoch_seen = max(self._epoch_seen, beat.view.epoch)
        self._detector.heard(designated, self._clock)
        self._awaited, self._heard, self._failed = designated, True, set()
        self._suspicion_timeout = self._detector.suspicion_timeout(designated)
        self._deadline = self._detector.deadline(designated)
        return out + (self._register() if register else [])

    def _register(self) -> list[Out]:
        if self.leaving:
            return []
        beat = MemberBeat(self.view.cluster, self.view.epoch, self._incarnation)
        if not self._introduced:
            # Over the group, ahead of anything else there: a new member is known before it is heard.
            self._introduced = True
            return [Multicast(replace(beat, introduces=True))]
        self._next_beat = max(self._next_beat, self._clock + self._recovery.heartbeat_seconds / 2)
        return [Send(self._awaited, beat)]

    # Election.

    def _elect(self) -> list[Out]:
        """Choose the next candidate. The one that was awaited has failed."""
        if self._awaited != self._me and (self._heard or self._state is ClusterRole.ELECTING):
            self._failed.add(self._awaited)
        candidate = max({*self.view.members, self._me} - self._failed)
        if candidate == self._me:
            return self._take_over()
        self._state = ClusterRole.ELECTING
        self._awaited = candidate
        # The candidate has missed the same beats, so its suspicion timeout is about the same.
        self._deadline = self._clock + self._suspicion_timeout
        return self._register()

    def _take_over(self) -> list[Out]:
        members = tuple(sorted({*self.view.members, self._me} - self._failed))
        self._incarnations = {}
        self._designate(ClusterView(self.view.cluster, self._epoch_seen + 1, self._me, members))
        return [TookOver(self.view), *self.beat_now()]

    def _on_resign(self, source: BrokerId, message: Resign) -> list[Out]:
        spoke = (self.view.cluster, self.view.epoch, self.view.designated)
        if message.successor != self._me or (message.cluster, message.epoch, source) != spoke:
            return []
        self._failed.add(source)
        return self._take_over()

    def _designate(self, view: ClusterView) -> None:
        self._state = ClusterRole.DESIGNATED
        self.view = view
        self._epoch_seen = view.epoch
        self._awaited, self._failed = self._me, set()
        self._detector = Detector(self._recovery)
        for member in view.members:
            if member != self._me:
                self._detector.expect(member, self._clock)

    # As the designated broker.

    def _on_designated_tick(self, source: BrokerId, message: Ticked) -> list[Out]:
        silent = self._detector.suspects(self._clock)
        out = self._change(joined=(), left=tuple(silent)) if silent else []
        return out + ([Multicast(self._beat())] if self._is_due() else [])

    def _on_registration(self, member: BrokerId, message: MemberBeat) -> list[Out]:
        known = self._incarnations.get(member, message.incarnation)
        if message.cluster != self.view.cluster or message.incarnation < known:
            return []
        if member in self.departed:
            return []
        out: list[Out] = []
        if member not in self.view.members:
            out = self._change(joined=(member,), left=())
        elif message.incarnation > known or message.introduces:
            out = self._change(joined=(member,), left=(member,))
        self._incarnations[member] = message.incarnation
        self._detector.heard(member, self._clock)
        return out + self._rise_above(message.epoch)

    def _on_gone(self, source: BrokerId, message: MemberGone) -> list[Out]:
        if message.cluster != self.view.cluster:
            return []
        self.departed.add(source)
        if source not in self.view.members:
            return [Send(source, self._beat())] if self.designated else []
        if self.designated:
            return self._change(joined=(), left=(source,))
        self.view = replace(self.view, members=tuple(m for m in self.view.members if m != source))
        return []

    def _on_rival(self, source: BrokerId, beat: ClusterBeat) -> list[Out]:
        if not self._is_genuine(source, beat):
            return []
        if beat.view.newer_than(self.view):
            return self._follow(beat)
        return [Send(source, self._beat())]

    def _rise_above(self, epoch: int) -> list[Out]:
        """Take an epoch above one that a member knows and this broker did not. Its members would not follow it else."""
        if epoch <= self.view.epoch:
            return []
        self._epoch_seen = epoch + 1
        self.view = replace(self.view, epoch=self._epoch_seen)
        return [TookOver(self.view), *self.beat_now()]

    def _change(self, joined: tuple[BrokerId, ...], left: tuple[BrokerId, ...]) -> list[Out]:
        """Remove and add members. One beat at the next tick announces all changes until then."""
        members = tuple(sorted({*self.view.members, *joined} - (set(left) - set(joined))))
        self.view = replace(self.view, members=members)
        for member in left:
            self._detector.forget(member)
            self._incarnations.pop(member, None)
        self._next_beat = self._clock
        return [MembersChanged(self.view, joined, left)]

    def _beat(self) -> ClusterBeat:
        return ClusterBeat(self.view, self.parent, self.children, self.path, self.term)


def successor(view: ClusterView) -> BrokerId | None:
    """Return the member that takes over when the designated broker of this view dies; None if none is left."""
    return max((member for member in view.members if member != view.designated), default=None)


HANDLERS: Final[dict[tuple[ClusterRole, type], Callable[[Succession, BrokerId, Never], list[Out]]]] = {
    (ClusterRole.NORMAL, Ticked): Succession._on_wait,
    (ClusterRole.NORMAL, ClusterBeat): Succession._on_beat,
    (ClusterRole.NORMAL, MemberBeat): Succession._on_foreign_registration,
    (ClusterRole.NORMAL, Resign): Succession._on_resign,
    (ClusterRole.NORMAL, MemberGone): Succession._on_gone,
    (ClusterRole.ELECTING, Ticked): Succession._on_wait,
    (ClusterRole.ELECTING, ClusterBeat): Succession._on_beat,
    (ClusterRole.ELECTING, MemberBeat): Succession._on_foreign_registration,
    (ClusterRole.ELECTING, Resign): Succession._on_resign,
    (ClusterRole.ELECTING, MemberGone): Succession._on_gone,
    (ClusterRole.DESIGNATED, Ticked): Succession._on_designated_tick,
    (ClusterRole.DESIGNATED, ClusterBeat): Succession._on_rival,
    (ClusterRole.DESIGNATED, MemberBeat): Succession._on_registration,
    (ClusterRole.DESIGNATED, MemberGone): Succession._on_gone,
}
"""The legal pairs of state and event."""
