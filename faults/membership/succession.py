"""The cluster side of one broker: who is designated, who is a member (paper 1, 4.1.1, with epochs).

Rules
-----
* The designated broker (DEB) multicasts a `ClusterBeat` each heartbeat; every other member sends it a `MemberBeat`
  each heartbeat, which is its registration. Who is silent for the detector's time leaves the view; who registers
  enters it. A change is multicast at the next tick.
* Who misses the DEB elects: the candidate is the highest id of the members, without those that have failed it in this
  election. Another one is registered with and waited for as long again, then it has failed too; oneself takes over.
  So an election ends after at most as many waits as there are members.
* Views are ordered by (epoch, designated): `ClusterView.newer_than`. A higher one is followed by everybody, also by a
  DEB, which steps down; a lower one changes nobody's mind, and a DEB answers it with its own beat. So of two DEBs that
  hear each other one steps down, at the latest when the next beat has crossed.
* Who takes over takes one more than the highest epoch that it has seen in any message. So a broker takes a pair
  (epoch, itself) once in its life, and two brokers take the same epoch only if neither had heard of the other's.
  A DEB that hears of a higher epoch from a member (it has restarted and lost its own) takes one above that.
* Nobody is designated by having been so: a broker that has restarted (`incarnation` above 0) is normal at first and
  listens for one patience, also when it was the first DEB. And who has not heard the DEB even once in its life has
  no reason yet to think that it has failed: such a one waits for the highest id of *all* members.
* Who leaves says so. The designated one names its heir (`Resign`), which takes over at once, without silence; a normal
  one says `MemberGone`, and the next beat leaves it out. Whoever leaves registers no more, and whoever has gone is not
  taken for a member again.
* Slow is not dead, and who slept cannot judge others: silence is measured on a clock that goes on by at most one
  heartbeat from tick to tick, so a broker that was paused does not suspect the rest when it wakes.

From the host: links as in docs/decisions/0011-recovery.md (FIFO, what was under way dies with its sender or
receiver); a multicast reaches every broker of the group that can be reached, in the view or not; several ticks in each
heartbeat (four are good).

The legal pairs of state and event are `HANDLERS`; what has no row there is somebody else's and is ignored.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ...protocol.configs import Position
from ...protocol.effects import Multicast, Received, Rested, Send, Ticked
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.messages.recovery import ClusterBeat, ClusterView, MemberBeat, MemberGone, Recovery, Resign
from .detector import Detector
from .local import MembersChanged, Out, SteppedDown, TookOver


class ClusterRole(enum.Enum):
    """What a broker is to its cluster."""

    NORMAL = "normal"
    """It follows the designated broker of its view (NEB)."""
    ELECTING = "electing"
    """It has missed the designated one and waits for a candidate to take over."""
    DESIGNATED = "designated"
    """It speaks for the cluster (DEB)."""


class Succession:
    """One broker's part in the heartbeats and the succession of its cluster.

    Parameters
    ----------
    position
        Its place at the start of the network: the cluster, its members, the first designated one.
    recovery
        Heartbeat and patience.
    incarnation
        How many times the broker has been started before.

    Attributes
    ----------
    view
        The cluster as far as it is known here; its epoch never falls.
    parent, children, path, term
        The place of the cluster in the tree: at a normal broker what the last beat said, at the designated one what
        `set_tree` said. Whoever takes over has what the last beat said.
    leaving
        Whether this broker is about to go; set by whoever leads it out.
    departed
        Members that have gone for good.
    """

    def __init__(self, position: Position, recovery: Recovery, incarnation: int = 0) -> None:
        # Who starts afresh is no member until the designated one says so.
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
        self._heard = False  # whether any designated one has been heard in this life
        self._failed: set[BrokerId] = set()
        self._patience = self._detector.patience(self._awaited)
        self._deadline = self._patience
        # As the designated one.
        self._incarnations: dict[BrokerId, int] = {}
        if position.designated == self._me and incarnation == 0:
            self._incarnations = dict.fromkeys(self.view.members, 0)
            self._designate(self.view)

    @property
    def epoch_seen(self) -> int:
        """The highest epoch that has been seen in any message."""
        return self._epoch_seen

    def restore(self, epoch_seen: int) -> None:
        """Take in, at the start of a life, the highest epoch that was seen in an earlier one."""
        self._epoch_seen = max(self._epoch_seen, epoch_seen)

    @property
    def state(self) -> ClusterRole:
        """Normal, electing or designated."""
        return self._state

    @property
    def designated(self) -> bool:
        """Whether this broker speaks for its cluster; `view` alone does not say so after a restart."""
        return self._state is ClusterRole.DESIGNATED

    def handle(self, event: Received | Ticked) -> list[Out]:
        """Take in a message or a tick and return messages and news; anything that is not its own gives nothing."""
        if isinstance(event, Ticked):
            self._advance(event.now)
            return HANDLERS[self._state, Ticked](self, self._me, event)
        handler = HANDLERS.get((self._state, type(event.message)))
        if handler is None or not isinstance(event.source, int):  # clients take no part
            return []
        return handler(self, event.source, event.message)

    def rested(self, event: Rested) -> None:
        """Take in when the others were heard while this broker was told nothing: its clock stood still meanwhile."""
        before, self._ticked = self._ticked, event.now
        slept = 0.0 if before is None else event.now - before
        self._clock += slept  # nobody was silent for any of it, or it is known for how long
        self._next_beat += slept
        ahead = self._clock - event.now
        for other in sorted(self.listens_to):
            self._detector.was_heard(other, [at + ahead for at in event.heard.get(other, ())])
        if not self.designated:
            self._patience = self._detector.patience(self._awaited)
            self._deadline = self._detector.deadline(self._awaited)

    @property
    def listens_to(self) -> frozenset[BrokerId]:
        """The members whose silence it would notice: of a designated broker all others, of a normal one that one."""
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
        """Set what the beats say of the tree; a normal broker's is overwritten by the next beat."""
        self.parent, self.children, self.path, self.term = parent, children, path, term

    def beat_now(self) -> list[Out]:
        """Multicast a beat at once, after a change; nothing on a broker that is not designated."""
        if not self.designated:
            return []
        self._next_beat = self._clock + self._recovery.heartbeat_seconds
        return [Multicast(self._beat())]

    def resign(self, heir: BrokerId) -> list[Out]:
        """Ask `heir`, another member, to take over now; it is asked again when that has not happened after a while."""
        if not self.designated:
            return []
        # The beat goes ahead, so that the heir knows the tree as it is now.
        return [*self.beat_now(), Multicast(Resign(self.view.cluster, self.view.epoch, heir))]

    def begin_anew(self) -> list[Out]:
        """Speak under a new epoch, so that every member begins anew with this broker; nothing when it does not speak.

        For when one follows an earlier life of this broker, under the very same epoch, and cannot know.
        """
        return self._rise_above(self.view.epoch + 1) if self.designated else []

    def ask_anew(self) -> list[Out]:
        """Ask the designated one to begin anew, as a member that knows a higher epoch; nothing from that one itself."""
        if self.designated:
            return []
        return [Send(self._awaited, MemberBeat(self.view.cluster, self.view.epoch + 1, self._incarnation))]

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
            assert self._deadline <= self._clock + self._patience, "the wait has no end"
        assert (self._state is ClusterRole.ELECTING) <= (self._awaited != self._me), "it waits for itself"

    # Time.

    def _advance(self, now: float) -> None:
        if self._ticked is not None:
            self._clock += min(max(now - self._ticked, 0.0), self._recovery.heartbeat_seconds)
        self._ticked = now

    def _is_due(self) -> bool:
        """Return whether it is time for the next beat, and if so, set the time of the one after it."""
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
        """Keep the epoch only: the sender takes this broker for designated, or hopes that it will be."""
        if message.cluster == self.view.cluster:
            self._epoch_seen = max(self._epoch_seen, message.epoch)
        return []

    def _is_genuine(self, source: BrokerId, beat: ClusterBeat) -> bool:
        """Return whether the beat is of this cluster, and another's own."""
        return beat.view.cluster == self.view.cluster and beat.view.designated == source != self._me

    def _follow(self, beat: ClusterBeat) -> list[Out]:
        """Take the beat's view for one's own, and register if the sender may not know of this broker."""
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
        self._patience = self._detector.patience(designated)
        self._deadline = self._detector.deadline(designated)
        return out + (self._register() if register else [])

    def _register(self) -> list[Out]:
        if self.leaving:
            return []
        beat = MemberBeat(self.view.cluster, self.view.epoch, self._incarnation)
        if not self._introduced:
            # Over the group, ahead of anything else there: a member that is new is known before it is heard.
            self._introduced = True
            return [Multicast(replace(beat, introduces=True))]
        self._next_beat = max(self._next_beat, self._clock + self._recovery.heartbeat_seconds / 2)
        return [Send(self._awaited, beat)]

    # Election.

    def _elect(self) -> list[Out]:
        """Take the next candidate: the one that was waited for has failed."""
        if self._awaited != self._me and (self._heard or self._state is ClusterRole.ELECTING):
            self._failed.add(self._awaited)
        candidate = max({*self.view.members, self._me} - self._failed)
        if candidate == self._me:
            return self._take_over()
        self._state = ClusterRole.ELECTING
        self._awaited = candidate
        # The candidate has missed the same beats, so it will have much the same patience.
        self._deadline = self._clock + self._patience
        return self._register()

    def _take_over(self) -> list[Out]:
        members = tuple(sorted({*self.view.members, self._me} - self._failed))
        self._incarnations = {}
        self._designate(ClusterView(self.view.cluster, self._epoch_seen + 1, self._me, members))
        return [TookOver(self.view), *self.beat_now()]

    def _on_resign(self, source: BrokerId, message: Resign) -> list[Out]:
        spoke = (self.view.cluster, self.view.epoch, self.view.designated)
        if message.heir != self._me or (message.cluster, message.epoch, source) != spoke:
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

    # As the designated one.

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
        """Take an epoch above one that a member knows and this broker did not: its members would not follow it."""
        if epoch <= self.view.epoch:
            return []
        self._epoch_seen = epoch + 1
        self.view = replace(self.view, epoch=self._epoch_seen)
        return [TookOver(self.view), *self.beat_now()]

    def _change(self, joined: tuple[BrokerId, ...], left: tuple[BrokerId, ...]) -> list[Out]:
        """Let members go and come; the beat that says so leaves with the next tick, one for all changes till then."""
        members = tuple(sorted({*self.view.members, *joined} - (set(left) - set(joined))))
        self.view = replace(self.view, members=members)
        for member in left:
            self._detector.forget(member)
            self._incarnations.pop(member, None)
        self._next_beat = self._clock
        return [MembersChanged(self.view, joined, left)]

    def _beat(self) -> ClusterBeat:
        return ClusterBeat(self.view, self.parent, self.children, self.path, self.term)


HANDLERS: Final[dict[tuple[ClusterRole, type], Callable[[Succession, BrokerId, Any], list[Out]]]] = {
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
