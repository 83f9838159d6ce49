"""The side of a healing broker that takes part in the succession of its cluster (paper 1, 4.1.1).

Rules
-----
* Only the designated broker stands in the tree. A normal one keeps a copy of what the children want, so that it can
  take over at once: with a ballot comes the whole of it, then each change. What comes under another ballot is of a
  broker that speaks no more, and does not count.
* A normal broker tells a new designated one all that it wants; one that was dropped from the members does so when it
  is back, and its subscribers wait for the next round.
* A member that has missed a multicast gets none until it is a member (again) at a tick. Then whoever had sent it begins
  anew: a designated broker under a new epoch, so that nothing of the old one is taken for the next; a normal one as if
  it had been dropped. The round that follows sends again what was missed.
"""

from __future__ import annotations

from typing import Final

from ....protocol.effects import Multicast, Received, Regroup, Renew, Send, Ticked
from ....protocol.ids import GROUP, Ballot, BrokerId, ClusterId
from ....protocol.layers import Out
from ....protocol.messages.recovery import (
    RENDEZVOUS,
    ClusterBeat,
    ClusterView,
    MemberBeat,
    RootBeat,
    TableCopy,
    TableEntry,
    TableOfChild,
    Wants,
)
from ....routing.filters.filter import Filter
from .joining import TreeSide
from .starting import Start

_NOBODY: Final = ClusterView(-1, -1, -1, ())

UNHEARD_PATIENCES: Final = 4


class ClusterSide(TreeSide):
    """Heartbeats of the cluster, taking over, stepping down, members.

    Attributes
    ----------
    copies
        At a normal broker: what the designated one holds for each child, so that it can take its place (4.1.1).
    """

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.copies: dict[ClusterId, dict[Filter, None]] = {}
        self._copied: Ballot = self.view.ballot if start.incarnation == 0 else _NOBODY.ballot
        self._seen_view = self.succession.view
        self._hear_by = 0.0  # when all members must have told a new designated broker what they want
        # Whether the designated broker has left this one out of the members, or has not taken it in yet.
        self._dropped = start.incarnation > 0
        self._missed: dict[BrokerId, float] = {}  # members that get no multicasts, and since when
        self._mend_at = 0.0  # not before that they get some again: a call may fail for a while

    def _on_cluster(self, source: BrokerId, message: ClusterBeat | MemberBeat) -> list[Out]:
        return self._meet(source, message) + self._with_succession(Received(source, message))

    def _meet(self, source: BrokerId, message: ClusterBeat | MemberBeat) -> list[Out]:
        """Take whoever has joined the cluster, as a beat or a registration tells, into the group."""
        if isinstance(message, ClusterBeat):
            cluster, named = message.view.cluster, message.view.members
        else:
            cluster, named = message.cluster, ()
        if cluster != self.view.cluster or not isinstance(source, int):
            return []
        new = {source, *named} - self.fellows - self.succession.departed - {self.home.broker}
        if not new:
            return []
        self.fellows |= new
        return self._regroup()

    def _regroup(self) -> list[Out]:
        self.router.meet(self.fellows)
        return [Regroup(tuple(sorted(self.fellows)))]

    def _with_succession(self, event: Received | Ticked) -> list[Out]:
        effects = self._absorb(self.succession.handle(event))
        if self._missed and isinstance(event, Ticked) and self.now >= self._mend_at:
            effects += self._mend_group()
        if self._unheard and self.now >= self._hear_by:
            effects += self._absorb(self.succession.begin_anew())
        if not self.designated:
            effects += self._follow()
        return effects

    def _missed_by_fellow(self, member: BrokerId, since: float) -> None:
        """Note that a member has missed a multicast of this broker."""
        if member in self.fellows:
            self._missed.setdefault(member, since)

    def _mend_group(self) -> list[Out]:
        """Begin anew with the members that have missed something."""
        back = [member for member in self._missed if member in self.view.members]
        if not back:
            return []
        self._mend_at = self.now + self.recovery.heartbeat_seconds
        for member in back:
            self.rounds.doubt_from(self._missed.pop(member))
        renewed: list[Out] = [Renew(member, True) for member in back]
        if self.designated:
            return renewed + self._absorb(self.succession.begin_anew())
        return renewed + self._left_out()

    def _follow(self) -> list[Out]:
        """At a normal broker: notice another designated broker, and having been dropped from the members."""
        view, before = self.view, self._seen_view
        self._seen_view = view
        moved = view.ballot != before.ballot
        if moved:
            self._close_all()
        if self.home.broker not in view.members:
            return self._left_out()
        if not self._dropped and not moved:
            return []
        effects: list[Out] = []
        if self._dropped:
            self._dropped = False
            self._wants_round = True  # what was published here meanwhile was of a round that is long over
        if view.designated != self.home.broker:
            self._place(attached=True)
            effects += self.router.forget_parent()
            # Over the group, as every announcement, so that it stays in order with those before and after it.
            effects.append(Multicast(Wants(self.router.wants())))
        return effects

    def _left_out(self) -> list[Out]:
        """Take in that the designated broker has dropped this one, and what is wanted here with it.

        From here on the group is sent only what others want, so whoever is attached here waits for the next round.
        """
        if self._dropped:
            return []
        self._dropped = True
        self._close_all()
        return [*self.router.forget_parent()]

    def _close_all(self) -> None:
        """Wait for the next round, with all that is published or subscribed here.

        What a fellow sends under another ballot is refused, here as there, so there may be gaps until then.
        """
        self.rounds.close(GROUP)
        for client in self.router.subscribers():
            self.rounds.close(client)
        self._wants_round = True

    def _take_over(self, view: ClusterView) -> list[Out]:
        spoken_for = self.children  # not empty where this one begins anew
        self.parent = self.succession.parent
        self.children = {child.cluster: child for child in self.succession.children}
        self.path, self.term = self.succession.path, max(self.term, self.succession.term)
        self.root = self.parent is None and self.path == (view.cluster,)
        self._seen_view = view
        self._dropped = False
        self.unanswered.clear()
        self._place(attached=self.root)
        effects: list[Out] = [*self.router.forget_parent(top=self.root)]
        for child in self.children.values():
            link = child.designated
            known = child.cluster in spoken_for
            wanted = self.router.copy(link, link) if known else self.copies.get(child.cluster, ())
            effects += self.router.adopt(link, link, [(item, 0) for item in wanted], answer=False)
            self.rounds.close(child.designated)
            self.unanswered.taken_over(
                child.designated, child.cluster, self.now + 2 * self.recovery.answer_seconds
            )
        for neighbour in self._neighbours():
            self.probing.watch(neighbour, self.now)
        self._unheard = set(view.members) - {self.home.broker}
        # By then who is silent has been dropped, so who has not told what it wants does not know that it has to.
        self._hear_by = self.now + UNHEARD_PATIENCES * self.recovery.suspect_after_seconds
        self._close_all()
        effects.append(Multicast(self._table_copy()))
        if self.root:
            effects.append(Send(RENDEZVOUS, RootBeat(view, self.term)))
        elif self.parent is not None:
            effects += self._reconnect()
        else:
            effects += self._seek_parent(root_died=False)
        return self._counted(effects) + self._changed()

    def _step_down(self) -> list[Out]:
        effects: list[Out] = []
        for neighbour in self._neighbours():
            self.probing.forget(neighbour.cluster)
            self.rounds.forget(neighbour.designated)
        for child in self.children.values():
            effects += self.router.drop(child.designated, child.designated)
        for member in self.router.members_with_filters():
            effects += self.router.drop(GROUP, member)
        farewell = self._absorb(self.join.stop())
        self.parent, self.children, self.path, self.root = None, {}, (), False
        self._answer_by = None
        self.unanswered.clear()
        self._unheard = set()
        self._seen_view = _NOBODY
        self._dropped = False
        self._place(attached=True)
        effects += self._left_out()
        return farewell + [effect for effect in effects if not isinstance(effect, Send)]

    def _change_members(self, joined: tuple[BrokerId, ...], left: tuple[BrokerId, ...]) -> list[Out]:
        # The beat that leaves a member out goes ahead of the first event that is not sent for it.
        effects = self._absorb(self.succession.beat_now())
        if set(left) - self.succession.departed:
            effects += self._suspected()
        for member in left:
            effects += self.router.drop(GROUP, member)
            self._heard_from(member)
        if joined:
            effects.append(Multicast(self._table_copy(joined)))
        return self._counted(effects)

    def _table_copy(self, joined: tuple[BrokerId, ...] = ()) -> TableCopy:
        """Return what the children want, for the members that may take over."""
        wanted = (
            (child.cluster, self.router.copy(child.designated, child.designated))
            for child in self.children.values()
        )
        return TableCopy(tuple(wanted), self.view.ballot, joined)

    def _on_wants(self, source: BrokerId, message: Wants) -> list[Out]:
        if not self.designated or source not in self.view.members:
            return []
        effects = self.router.adopt(GROUP, source, message.filters)
        self._heard_from(source)
        return self._counted(effects)

    def _heard_from(self, member: BrokerId) -> None:
        """Note that what a member wants is known; when that was the last one, the group may get events again."""
        if member in self._unheard:
            self._unheard.discard(member)
            self._wants_round = True

    def _on_table_entry(self, source: BrokerId, message: TableEntry) -> list[Out]:
        if message.ballot == self._copied:
            wanted = self.copies.setdefault(message.child, {})
            if message.wanted:
                wanted[message.filter] = None
            else:
                wanted.pop(message.filter, None)
        return []

    def _on_table_of_child(self, source: BrokerId, message: TableOfChild) -> list[Out]:
        if message.ballot == self._copied:
            self.copies.pop(message.child, None)
            if message.filters:
                self.copies[message.child] = dict.fromkeys(message.filters)
        return []

    def _on_table_copy(self, source: BrokerId, message: TableCopy) -> list[Out]:
        if message.ballot < self._copied:
            return []
        self._copied = message.ballot
        self.copies = {cluster: dict.fromkeys(filters) for cluster, filters in message.entries}
        if self.designated or (message.joined and self.home.broker not in message.joined):
            return []
        effects = []
        if source == self.view.designated:
            # Until now, as it seems: the heartbeat that said so may have been lost.
            effects = self._left_out()
        if self._restored:
            # It takes this one in as a new one, and may have dropped what it had heard of it before.
            self._close_all()
            effects += [*self.router.forget_parent(), Multicast(Wants(self.router.wants()))]
        return effects
