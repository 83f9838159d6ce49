"""A broker in its cluster: succession, and members that join and leave (paper 1, 4.1.1).

Rules
-----
* Only the designated broker has a place in the tree. A normal broker holds a copy of the filters of the children and of
  the other members (`copies`), and uses it when it takes over.
* A normal broker announces all its filters to a new designated broker. A broker that was dropped from the members does
  so when it is a member again, and its subscribers wait for the next round.
* A member that has missed a multicast gets no more of them until it is a member (again) at a tick. Then the sender of
  the missed multicast starts afresh: a designated broker under a new epoch, so that no message of the old epoch is
  taken for one of the new; a normal broker as if it had been dropped. The round that follows retransmits what was
  missed.
* Where members pass events on by a plan (`plans`), a plan belongs to a ballot. So every change of members begins a
  new ballot: the designated broker starts a new epoch, as after a succession. A member that could not reach another
  member asks for a new ballot until there is one: the members that this one forwards to lack the same events, and
  only under the next ballot do they receive all of them in order (docs/decisions/0022-fan-out-that-heals.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ...protocol.effects import Missed, Multicast, Received, Regroup, Renew, Send, Ticked
from ...protocol.ids import GROUP, BrokerId
from ...protocol.layers import Out, Restored
from ...protocol.messages.recovery import (
    RENDEZVOUS,
    ClusterBeat,
    ClusterView,
    MemberBeat,
    MemberGone,
    Resign,
    RootBeat,
    TableCopy,
    TableEntry,
    TableOfChild,
    Wants,
)
from .carrier import Carrier
from .children import ChildLinks
from .copies import Copies
from .local import MembersChanged, SteppedDown, TookOver
from .parent import ParentLink
from .place import Place, Takes
from .succession import ClusterRole
from .tree_rounds import TreeRounds

NO_VIEW: Final = ClusterView(-1, -1, -1, ())

UNHEARD_PATIENCES: Final = 4


class Group:
    """One broker as a member of its cluster.

    Parameters
    ----------
    anew
        Whether the broker has been restarted, and is not a member yet.
    plans
        Whether members pass events on to each other, by the plans of a ballot.

    Attributes
    ----------
    copies
        At a normal broker: what the designated broker holds for each child and each other member.
    dropped
        Whether the designated broker has dropped this broker from the members, or has not taken it in yet.
    """

    SHARED = frozenset({"_place", "_rounds", "_carrier", "_children", "_parent", "copies"})

    def __init__(
        self,
        place: Place,
        rounds: TreeRounds,
        carrier: Carrier,
        children: ChildLinks,
        parent: ParentLink,
        copies: Copies,
        *,
        anew: bool,
        plans: bool,
    ) -> None:
        self._place = place
        self._rounds = rounds
        self._carrier = carrier
        self._children = children
        self._parent = parent
        self._plans = plans
        self.copies = copies
        self._seen_view = place.view
        self.dropped = anew
        self._restored = False  # whether it holds durable subscribers of an earlier incarnation
        self._missed: dict[BrokerId, float] = {}  # members that get no multicasts, and since when
        self._mend_at = 0.0  # earliest time to resume multicasts to them: sends may fail for a while
        self._member_since: dict[BrokerId, float] = {}  # as far as this broker knows
        self.takes: Takes = {
            ClusterBeat: self._on_cluster,
            MemberBeat: self._on_cluster,
            Resign: self._on_resign,
            MemberGone: self._on_gone,
            Wants: self._on_wants,
            TableCopy: self._on_table_copy,
            TableEntry: self.copies.on_entry,
            TableOfChild: self.copies.on_child,
        }

    @property
    def busy(self) -> bool:
        """Whether a member has missed a multicast, or this broker is not a member or follows no designated broker.

        A broker that has missed a multicast and is no longer a member counts once it is a member again.
        """
        place = self._place
        following = place.succession.state is ClusterRole.NORMAL and place.home.broker in place.view.members
        return bool(self.to_mend()) or (not place.designated and (self.dropped or not following))

    def to_mend(self) -> tuple[BrokerId, ...]:
        """Return the members that have missed a multicast of this broker, for which it has not begun anew yet."""
        members = self._place.view.members
        return tuple(member for member in self._missed if member in members)

    # Succession.

    def _on_cluster(self, source: BrokerId, message: ClusterBeat | MemberBeat) -> list[Out]:
        return self._meet(source, message) + self.succeed(Received(source, message))

    def _on_resign(self, source: BrokerId, message: Resign) -> list[Out]:
        return self.succeed(Received(source, message))

    def _on_gone(self, source: BrokerId, message: MemberGone) -> list[Out]:
        place = self._place
        if message.cluster != place.view.cluster:
            return []
        effects = self.succeed(Received(source, message))
        place.other_members.discard(source)
        self._missed.pop(source, None)
        return effects + self._regroup()

    def succeed(self, event: Received | Ticked) -> list[Out]:
        """Pass an event to the succession machine, and carry out the results."""
        place = self._place
        effects = self._absorb(place.succession.handle(event))
        if self._member_since.keys() != set(place.view.members):
            now = place.now
            self._member_since = {each: self._member_since.get(each, now) for each in place.view.members}
            self.copies.keep(self._member_since)
        if self._missed and isinstance(event, Ticked) and place.now >= self._mend_at:
            effects += self._mend()
        if place.unanswered.members_overdue(place.now):
            effects += self.begin_anew()
        if not place.designated:
            effects += self._follow()
        return effects

    def begin_anew(self) -> list[Out]:
        """Start a new epoch, if this broker is designated."""
        return self._absorb(self._place.succession.begin_anew())

    def _absorb(self, out: Iterable[Any]) -> list[Out]:
        effects: list[Out] = []
        for item in out:
            match item:
                case TookOver(view):
                    effects += self._take_over(view)
                case SteppedDown():
                    effects += self._step_down()
                case MembersChanged(_, joined, left):
                    effects += self._change_members(joined, left)
                case _:
                    effects.append(item)
        return effects

    def _meet(self, source: BrokerId, message: ClusterBeat | MemberBeat) -> list[Out]:
        """Add brokers that have joined the cluster, as a beat or a registration says, to the group."""
        place = self._place
        if isinstance(message, ClusterBeat):
            cluster, named = message.view.cluster, message.view.members
        else:
            cluster, named = message.cluster, ()
        if cluster != place.view.cluster or not isinstance(source, int):
            return []
        new = {source, *named} - place.other_members - place.succession.departed - {place.home.broker}
        if not new:
            return []
        place.other_members |= new
        return self._regroup()

    def _regroup(self) -> list[Out]:
        other_members = self._place.other_members
        self._place.router.meet(other_members)
        return [Regroup(tuple(sorted(other_members)))]

    def _take_over(self, view: ClusterView) -> list[Out]:
        place = self._place
        spoken_for = place.children  # not empty where this broker only starts a new epoch
        self._seen_view = view
        self.dropped = False
        place.unanswered.clear()
        place.take_over(view)
        effects: list[Out] = [*place.router.forget_parent(top=place.root)]
        effects += self._children.take_over(spoken_for, self.copies.tables)
        effects += self._adopt_members()
        for neighbour in place.neighbours():
            place.probing.watch(neighbour, place.now)
        # By then silent members have been dropped. A member that still has not announced its filters does not know
        # that it must.
        tell_by = place.now + UNHEARD_PATIENCES * place.recovery.suspect_after_seconds
        place.unanswered.await_members(set(view.members) - {place.home.broker}, tell_by)
        self._close_all()
        effects.append(Multicast(self._table_copy()))
        if place.root:
            effects.append(Send(RENDEZVOUS, RootBeat(view, place.term)))
        elif place.parent is not None:
            effects += self._parent.reconnect()
        else:
            effects += self._parent.search()
        return self._carrier.counted(effects) + place.changed()

    def _adopt_members(self) -> list[Out]:
        """Hold what the members want, as this broker has heard it while it was a normal one."""
        effects: list[Out] = []
        for member in self._place.view.members:
            wanted = self.copies.of_member(member)
            if wanted is not None:
                effects += self._place.router.adopt(
                    GROUP, member, [(item, 0) for item in wanted], answer=False
                )
        self.copies.keep(())
        return effects

    def _step_down(self) -> list[Out]:
        place, router = self._place, self._place.router
        effects: list[Out] = []
        for neighbour in place.neighbours():
            place.probing.forget(neighbour.cluster)
            self._rounds.links.forget(neighbour.designated)
        for child in place.children.values():
            effects += router.drop(child.designated, child.designated)
        for member in router.members_with_filters():
            effects += router.drop(GROUP, member)
        farewell = self._parent.step_down()
        place.unanswered.clear()
        self._seen_view = NO_VIEW
        self.dropped = False
        place.step_down()
        effects += self._left_out()
        return farewell + [effect for effect in effects if not isinstance(effect, Send)]

    # As a normal broker.

    def _follow(self) -> list[Out]:
        """Detect a change of the designated broker, and whether this broker was dropped from the members."""
        place, router = self._place, self._place.router
        view, before = place.view, self._seen_view
        self._seen_view = view
        moved = view.ballot != before.ballot
        effects: list[Out] = []
        if moved:
            if self._plans:
                effects += self._renew(list(self._missed))
            self._close_all()
        if place.home.broker not in view.members:
            return effects + self._left_out()
        if not self.dropped and not moved:
            return effects
        if self.dropped:
            self.dropped = False
            self._rounds.want()  # events published here meanwhile belong to a round that is over
        if view.designated != place.home.broker:
            place.stand(attached=True)
            effects += router.forget_parent()
            # Over the group, as every announcement, so that it stays in order with those before and after it.
            effects.append(Multicast(Wants(router.wants())))
        return effects

    def _left_out(self) -> list[Out]:
        """Handle that the designated broker has dropped this broker, and its subscriptions with it.

        From now on the group gets only the events that others want, so subscribers here wait for the next round.
        """
        if self.dropped:
            return []
        self.dropped = True
        self.copies.keep(())
        self._close_all()
        return [*self._place.router.forget_parent()]

    def _close_all(self) -> None:
        """Close the links of the group and of all subscribers until the next round.

        Messages of another member under another ballot are refused, here and there, so there may be gaps until then.
        """
        self._rounds.links.close(GROUP)
        for client in self._place.router.subscribers():
            self._rounds.links.close(client)
        self._rounds.want()

    def _on_table_copy(self, source: BrokerId, message: TableCopy) -> list[Out]:
        """Record the filters of the children; a broker that has joined learns from the message that it is a member."""
        place, router = self._place, self._place.router
        if not self.copies.take(message) or place.designated:
            return []
        if message.joined and place.home.broker not in message.joined:
            return []
        effects = []
        if source == place.view.designated:
            # It seems this broker was dropped until now: the heartbeat that said so may have been lost.
            effects = self._left_out()
        if message.joined:
            self.copies.join(message, place.other_members)
        if self._restored:
            # The designated broker takes this one in as new, and may have dropped what it had announced before.
            self._close_all()
            effects += [*router.forget_parent(), Multicast(Wants(router.wants()))]
        return effects

    def on_restored(self, event: Restored) -> list[Out]:
        """Register the subscriptions of an earlier incarnation again; the cluster is told once its beat is heard."""
        self._restored = True
        for register in event.registers:
            self._place.router.handle(Received(event.client, register))
        return []

    # As the designated broker.

    def _change_members(self, joined: tuple[BrokerId, ...], left: tuple[BrokerId, ...]) -> list[Out]:
        place = self._place
        effects = self.begin_anew() if self._plans else []
        # The beat that leaves a member out goes ahead of the first event that is not sent for it.
        effects += place.beat_now()
        if set(left) - place.succession.departed:
            effects += self._rounds.suspected()
        for member in left:
            effects += place.router.drop(GROUP, member)
            self._heard_from(member)
        if joined:
            effects.append(Multicast(self._table_copy(joined)))
        return self._carrier.counted(effects)

    def _table_copy(self, joined: tuple[BrokerId, ...] = ()) -> TableCopy:
        """Return the filters of the children, for the members that may take over."""
        router = self._place.router
        wanted = (
            (child.cluster, router.copy(child.designated, child.designated))
            for child in self._place.children.values()
        )
        members = router.members_with_filters() if joined else ()
        heard = ((member, router.copy(GROUP, member)) for member in members if member not in joined)
        return TableCopy(tuple(wanted), self._place.view.ballot, joined, tuple(heard))

    def _on_wants(self, source: BrokerId, message: Wants) -> list[Out]:
        place = self._place
        if not place.designated and source in place.other_members:
            self.copies.hear_all(source, message)
        if not place.designated or source not in place.view.members:
            return []
        effects = place.router.adopt(GROUP, source, message.filters)
        self._heard_from(source)
        return self._carrier.counted(effects)

    def _heard_from(self, member: BrokerId) -> None:
        """Note that a member's filters are known; after the last one, the group may get events again."""
        if self._place.unanswered.member_told(member):
            self._rounds.want()

    # Members that have missed something.

    def missed(self, event: Missed) -> list[Out]:
        """Note that a member has missed a multicast of this broker.

        A restarted broker that is not a member yet, and whose restart was unknown at that time, needs no repair: it
        gets everything once it is a member.
        """
        place, member = self._place, event.broker
        if event.anew and member not in place.view.members:
            self._missed.pop(member, None)
            return [Renew(member, True)]
        if member in place.other_members:
            since = place.now - event.seconds
            self._missed.setdefault(member, max(since, self._member_since.get(member, since)))
        return []

    def _mend(self) -> list[Out]:
        """Start afresh with the members that have missed something."""
        place = self._place
        back = self.to_mend()
        if not back:
            return []
        self._mend_at = place.now + place.recovery.heartbeat_seconds
        if self._plans and not place.designated:
            return self._absorb(place.succession.ask_anew())
        renewed = self._renew(back)
        return renewed + (self.begin_anew() if place.designated else self._left_out())

    def _renew(self, members: Iterable[BrokerId]) -> list[Out]:
        """Resume multicasts to members; the next round repairs from when they stopped."""
        effects: list[Out] = []
        for member in members:
            self._rounds.links.repair_from(self._missed.pop(member))
            effects.append(Renew(member, True))
        return effects
