"""The side of a healing broker that is operated: it comes, leaves in good order, moves to a nearer parent.

Rules
-----
* A broker that joins a cluster starts as one that was restarted does: normal, no member until the designated one names
  it. A new cluster starts with its designated broker, which finds a parent by CMTP.
* A normal broker that leaves says so to its group, and is gone when it has heard a beat without itself.
* A designated one with fellow members resigns: it names its heir, which takes over at once. It is a normal one then.
* The last member takes the whole cluster with it. As the root it first yields to a child, and joins below. It tells its
  neighbours: the parent counts its place as free, the children join elsewhere, and only then leave it (announce before
  withdraw). When it has none left, it leaves its parent, and is gone when that has said goodbye too.
* Each step is asked for again every heartbeat until it has happened, so deaths meanwhile delay it and nothing more.
* A better parent is one whose round trip is at most `NEARER` of the present one's. Joined first, then the old one left.

Nothing is lost with a broker that left: its clients have moved before it is told to leave, and bring along what they
keep (see `faults.replay.clients`); whatever a link that is new has missed comes with the next round (see
`faults.replay.rounds`).

Source: paper 1, 4.2 (trees are kept good by joining the nearest); docs/decisions/0012-operations.md.
"""

from __future__ import annotations

from typing import Final

from ....protocol.effects import Multicast, Received, Send
from ....protocol.ids import BrokerId, Link
from ....protocol.layers import Out
from ....protocol.messages.pubsub import Events
from ....protocol.messages.recovery import (
    RENDEZVOUS,
    BecomeRoot,
    Goodbye,
    LeaveNetwork,
    Leaving,
    MemberGone,
    Ping,
    Pong,
    Reconsider,
    Resign,
    YieldRoot,
)
from .cluster import ClusterSide
from .starting import Start

NEARER: Final = 0.7
"""A parent is worth moving to when its round trip is at most this part of the present one's."""

_NONCE: Final = 0
"""Of the ping to the present parent; the numbers of a search begin at 1."""


class OperationsSide(ClusterSide):
    """Joining, leaving, moving nearer.

    Attributes
    ----------
    left
        Whether the broker has left, and its process may end.
    """

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.left = False
        self._said_gone = False
        self._leave_at = 0.0  # when the present step of leaving is asked for again
        self._heirs_asked = 0
        self._pinged_at: float | None = None

    @property
    def searching(self) -> bool:
        """Whether a parent is being looked for, a first or a better one."""
        return self.join.active or self._pinged_at is not None

    def _found(self) -> None:
        """Stand as the designated broker of a new cluster: without a way to the root, until the first tick."""
        self._place(attached=False)
        self.router.forget_parent()
        self._tell_succession()

    def _operate(self) -> list[Out]:
        """Do what time brings: go on leaving, and give up a ping that nobody answers."""
        if self._pinged_at is not None and self.now >= self._pinged_at + self.recovery.answer_seconds:
            self._pinged_at = None
        return self._go_on_leaving()

    # Leaving.

    def _on_leave(self, source: BrokerId, message: LeaveNetwork) -> list[Out]:
        if source != RENDEZVOUS or self.leaving:
            return []
        self.succession.leaving = True
        self._leave_at = self.now
        return self._go_on_leaving()

    def _go_on_leaving(self) -> list[Out]:
        """Take the next step out, or ask for the present one again when it is time."""
        if not self.leaving or self.left:
            return []
        alone = self.view.members == (self.home.broker,)
        if not self.designated and self._said_gone and self.home.broker not in self.view.members:
            self.left = True
        elif self.designated and alone and not self.children and not self.root and self.parent is None:
            self.left = True  # nothing hangs on it
            return self._absorb(self.join.stop())
        if self.left or self.now < self._leave_at:
            return []
        self._leave_at = self.now + self.recovery.heartbeat_seconds
        if not self.designated:
            self._said_gone = True
            return [Multicast(MemberGone(self.view.cluster))]
        return self._leave_as_cluster() if alone else self._resign()

    def _resign(self) -> list[Out]:
        others = [member for member in reversed(self.view.members) if member != self.home.broker]
        heir = others[self._heirs_asked % len(others)]
        self._heirs_asked += 1
        return self._absorb(self.succession.resign(heir))

    def _leave_as_cluster(self) -> list[Out]:
        if self.root:
            heirs = sorted(
                self.children.values(), key=lambda child: (child.cluster in self.going, child.cluster)
            )
            if not heirs:
                return []  # the others, if there are any, are about to join
            heir = heirs[self._heirs_asked % len(heirs)]
            self._heirs_asked += 1
            return [Send(RENDEZVOUS, YieldRoot(heir, self.term))]
        if self.children:
            return [Send(view.designated, Leaving(self.view.cluster)) for view in self._neighbours()]
        assert self.parent is not None
        return [Send(self.parent.designated, Goodbye(self.view.cluster))]

    def _on_goodbye(self, source: BrokerId, message: Goodbye) -> list[Out]:
        parent = self.parent
        if self.leaving and self.designated and not self.children and parent is not None:
            self.left = self.left or source == parent.designated
            return []
        return super()._on_goodbye(source, message)

    # Others leave.

    def _on_resign(self, source: BrokerId, message: Resign) -> list[Out]:
        return self._with_succession(Received(source, message))

    def _on_member_gone(self, source: BrokerId, message: MemberGone) -> list[Out]:
        if message.cluster != self.view.cluster:
            return []
        effects = self._with_succession(Received(source, message))
        self.fellows.discard(source)
        return effects + self._regroup()

    def _on_leaving(self, source: BrokerId, message: Leaving) -> list[Out]:
        if not self.designated:
            return []
        child = self.children.get(message.cluster)
        if child is not None and child.designated == source:
            self.going.add(message.cluster)
        elif self._may_search() and self.parent is not None and self.parent.designated == source:
            started = self.join.start(self.view, self.router.wants(), self.now, present=self.parent.cluster)
            return self._absorb(started)
        return []

    def _may_search(self) -> bool:
        """Return whether there is a parent, for sure, and no other is looked for."""
        return self.parent is not None and self._answer_by is None and not self.searching

    def _on_become_root(self, source: BrokerId, message: BecomeRoot) -> list[Out]:
        if self.designated and self._may_search() and message.term > self.term:
            return self._made_root(message.term)  # the parent was root, and leaves
        return super()._on_become_root(source, message)

    # A nearer parent.

    def _on_reconsider(self, source: BrokerId, message: Reconsider) -> list[Out]:
        if source != RENDEZVOUS or not (self.designated and self.path and self._may_search()):
            return []
        assert self.parent is not None
        self._pinged_at = self.now
        return [Send(self.parent.designated, Ping(_NONCE))]

    def _on_pong(self, source: BrokerId, message: Pong) -> list[Out]:
        if message.nonce != _NONCE:
            return self._on_join(source, message)
        sent, self._pinged_at = self._pinged_at, None
        if sent is None or self.parent is None or source != self.parent.designated or not self._may_search():
            return []
        started = self.join.start(
            self.view,
            self.router.wants(),
            self.now,
            present=self.parent.cluster,
            within=NEARER * (self.now - sent),
        )
        return self._absorb(started)

    # Load.

    def _on_events(self, source: Link, message: Events) -> list[Out]:
        self.load.count(len(message.batch))
        return super()._on_events(source, message)
