"""The layer that knows the tree of clusters, with the router inside: it heals (paper 1, section 4).

Rule: every machine knows only its own part. Here their news for each other (`faults.membership.local`) become calls;
a piece of news is worked off before the next message. docs/decisions/0011-recovery.md has the whole picture.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any

from ....faults.membership.local import (
    Joined,
    MadeRoot,
    MembersChanged,
    NeighbourLost,
    NeighbourMoved,
    SteppedDown,
    TookOver,
)
from ....faults.membership.succession import ClusterRole
from ....protocol.configs import Placed, Position
from ....protocol.effects import Missed, Received, Rested, Send, Ticked
from ....protocol.ids import BrokerId, ClusterId
from ....protocol.layers import Event, Handler, Out, Restored, RoundHeard, RoundWanted, Tell
from ....protocol.messages.pubsub import Announce, Events, Installed, Withdraw
from ....protocol.messages.recovery import (
    RENDEZVOUS,
    AskChildren,
    BecomeRoot,
    Children,
    ClusterBeat,
    ClusterView,
    Goodbye,
    JoinAnswer,
    JoinRequest,
    LeaveNetwork,
    Leaving,
    MemberBeat,
    MemberGone,
    MemberInstalled,
    Ping,
    Pong,
    Probe,
    ProbeAnswer,
    Reconsider,
    Resign,
    Root,
    RootBeat,
    TableCopy,
    TableEntry,
    TableOfChild,
    TreeBeat,
    Wants,
)
from ....protocol.messages.rounds import AskRound, Doubt, Forgotten, Marker, Round
from .operations import OperationsSide
from .starting import Start


class HealingBroker(OperationsSide):
    """One broker of a tree that heals.

    Parameters
    ----------
    start
        What it starts with.
    """

    SHARED = frozenset({"rounds"})

    sees: Mapping[type, Handler] = {}
    alters: Mapping[type, Handler] = {}

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self._beat_at = 0.0
        self._ticked = False
        self._told_place: Placed | None = None
        self._handlers = self._table()
        events: dict[type, Callable[[Any], list[Any]]] = {
            Ticked: self._on_tick,
            Rested: self._on_rested,
            Missed: self._on_missed,
            Tell: self._on_tell,
            RoundWanted: self._on_round_wanted,
            RoundHeard: self._on_round_heard,
            Restored: self._on_restored,
        }
        self._events = events
        self.takes: Mapping[type, Handler] = dict.fromkeys((*events, *self._handlers), self.handle)
        if start.incarnation == 0 and self.designated:
            if start.joins:
                self._found()
            else:
                self._stand_at(start.position)

    def _table(self) -> dict[type, Callable[[Any, Any], list[Out]]]:
        return {
            **dict.fromkeys(self.router.takes, self._on_routed),
            Events: self._on_events,
            Announce: self._on_announce,
            Withdraw: self._on_announce,
            Installed: self._on_installed,
            ClusterBeat: self._on_cluster,
            MemberBeat: self._on_cluster,
            TableEntry: self._on_table_entry,
            TableOfChild: self._on_table_of_child,
            TableCopy: self._on_table_copy,
            Wants: self._on_wants,
            MemberInstalled: self._on_member_installed,
            TreeBeat: self._on_tree_beat,
            Probe: self._on_probe,
            ProbeAnswer: self._on_probe_answer,
            Goodbye: self._on_goodbye,
            AskChildren: self._on_ask_children,
            Ping: self._on_ping,
            JoinRequest: self._on_join_request,
            JoinAnswer: self._on_join_answer,
            Root: self._on_root,
            BecomeRoot: self._on_become_root,
            Children: self._on_join,
            Pong: self._on_pong,
            AskRound: self._on_ask_round,
            Round: self._on_round,
            Doubt: self._on_doubt,
            Forgotten: self._on_told,
            Marker: self._on_told,
            Resign: self._on_resign,
            MemberGone: self._on_member_gone,
            Leaving: self._on_leaving,
            LeaveNetwork: self._on_leave,
            Reconsider: self._on_reconsider,
        }

    def _stand_at(self, position: Position) -> None:
        """Take the place in the tree that the network begins with."""
        for cluster, designated in zip(position.child_clusters, position.children, strict=True):
            self.children[cluster] = ClusterView(cluster, 0, designated, (designated,))
        if position.parent is not None and position.parent_cluster is not None:
            self.parent = ClusterView(position.parent_cluster, 0, position.parent, (position.parent,))
        else:
            self.root = True
            self.path = (position.cluster,)
        for view in self._neighbours():
            self.probing.watch(view, self.now)
        self._tell_succession()

    def handle(self, event: Event) -> list[Out]:
        """Take in an event and return what is to be done."""
        out: list[Out]
        if isinstance(event, Received):
            out = self._handlers[type(event.message)](event.source, event.message)
        elif self.left and isinstance(event, Ticked | Missed):
            out = []
        else:
            out = self._events[type(event)](event)
        below = self.router.tell_below()
        out = [*out, *(self._counted([*below]) if below else ())]
        out += self.identity.writes(self.now, self.succession.epoch_seen, self.term, self._after)
        if self.placed != self._told_place:
            self._told_place = self.placed
            out.append(self.placed)
        return out

    def _absorb(self, out: Iterable[Any]) -> list[Out]:
        """Turn what a machine returned into effects; its news for the others are worked off here."""
        effects: list[Out] = []
        for item in out:
            match item:
                case TookOver(view):
                    effects += self._take_over(view)
                case SteppedDown():
                    effects += self._step_down()
                case MembersChanged(_, joined, left):
                    effects += self._change_members(joined, left)
                case NeighbourMoved(view):
                    effects += self._neighbour_moved(view)
                case NeighbourLost(cluster):
                    effects += self._neighbour_lost(cluster)
                case Joined(parent, path, term):
                    effects += self._joined(parent, path, term)
                case MadeRoot(term):
                    effects += self._made_root(term)
                case Send(_, JoinRequest() as request):
                    self._offered = dict(request.filters)
                    effects.append(item)
                case _:
                    effects.append(item)
        return effects

    def _on_tick(self, event: Ticked) -> list[Out]:
        founds = False
        if not self._ticked:
            self._ticked = True  # nobody has been silent before the clock began
            founds = self.designated and not self.root and self.parent is None
            for view in self._neighbours():
                self.probing.watch(view, event.now)
        self.now = event.now
        self.load.tick(self.now)
        if self.path if self.designated else self.succession.path:
            self._has_reached_root = True
        elif self._has_reached_root:
            self.rounds.doubt_from(self.now)
        effects = self._with_succession(event) + self._operate()
        if not self.designated:
            return effects + self._ask_round()
        if founds:
            effects += self._seek_parent(root_died=False)
        probed = set(self.probing.probed)
        effects += self._absorb(self.probing.handle(event))
        if set(self.probing.probed) - probed:
            effects += self._suspected()
        effects += self._joining(event) + self._remind_children()
        if self._answer_by is not None and self.now >= self._answer_by:
            effects += self._orphaned()
        if self.now >= self._beat_at:
            self._beat_at = self.now + self.recovery.heartbeat_seconds
            effects += self._tree_beats()
            if self.root:
                effects.append(
                    Send(RENDEZVOUS, RootBeat(self.view, self.term, tuple(self.children.values())))
                )
        return effects + self._ask_round()

    # Rest.

    def _on_rested(self, event: Rested) -> list[Out]:
        self.now = event.now
        self.succession.rested(event)
        if self.designated:
            self.probing.rested(event)
        return []

    @property
    def listens_to(self) -> frozenset[BrokerId]:
        """The brokers whose silence it would notice."""
        if not self.designated:
            return self.succession.listens_to
        return self.succession.listens_to | {view.designated for view in self._neighbours()}

    def rests_until(self) -> float:
        """Return when it is to be told the time if nothing happens before: at once, while anything is to be mended."""
        return 0.0 if self._is_busy() else self.identity.due

    def _is_busy(self) -> bool:
        """Return whether it waits for something, but for those that it listens to and for its turn to beat."""
        if self.root or self.left or self.leaving or not self._ticked or self._wants_round or self._missed:
            return True
        if self.rounds.closed_links():
            return True
        if not self.designated:
            following = self.succession.state is ClusterRole.NORMAL and self.home.broker in self.view.members
            return self._dropped or not following or not self.succession.path
        if self.parent is None or not self.path or self._answer_by is not None or self.searching:
            return True
        return bool(self._unheard or self.unanswered.any or self.probing.probed)

    # To compare.

    def agreed(self) -> Mapping[BrokerId, Hashable]:
        """Return what this broker and others have to know alike of the cluster and its place in the tree."""
        me, view, place = self.home.broker, self.view, self.succession
        group = tuple(sorted({*self.fellows, me}))
        cluster = view, group, place.path, place.children, self._copied_tables()
        if not self.designated:
            return {view.designated: cluster} if me in view.members else {}
        known: dict[BrokerId, Hashable] = {member: cluster for member in view.members if member != me}
        for child in self.children.values():
            known[child.designated] = child, view.cluster, (*self.path, child.cluster) if self.path else ()
        if self.parent is not None:
            known[self.parent.designated] = view, self.parent.cluster, self.path
        return known

    def _copied_tables(self) -> tuple[tuple[ClusterId, tuple[str, ...]], ...]:
        """Return what the children want, as the designated broker knows it and the others have copied it."""
        held: Mapping[ClusterId, Iterable[Any]] = self.copies
        if self.designated:
            held = {
                cluster: self.router.copy(child.designated, child.designated)
                for cluster, child in self.children.items()
            }
        wanted = ((cluster, tuple(sorted(map(str, items)))) for cluster, items in held.items())
        return tuple(sorted((cluster, items) for cluster, items in wanted if items))

    def streams(self) -> Mapping[BrokerId, Hashable]:
        """Return nothing: over the links of a tree events have no numbers."""
        return {}

    def untold(self) -> Collection[BrokerId]:
        """Return nobody: who stands in a tree has told what it wants, or is let go in time."""
        return ()

    # To look at.

    def survey(self) -> dict[str, Any]:
        """Return where the broker stands, for whoever checks the whole network from outside."""
        return {
            "broker": self.home.broker,
            "cluster": self.home.cluster,
            "designated": self.designated,
            "view": self.view,
            "root": self.root and self.designated,
            "parent": self.parent if self.designated else None,
            "children": tuple(self.children.values()) if self.designated else (),
            "path": self.path if self.designated else (),
            "term": self.term,
            "round": self.rounds.current,
            "settled": self.router.settled(),
            "closed": self.rounds.closed_links(),
            "searching": self.searching,
            "left": self.left,
        }

    def describe(self) -> dict[str, int]:
        """Return the sizes of what the broker keeps."""
        return {
            **self.router.describe(),
            "epoch": self.view.epoch,
            "refused_joins": self.refused_joins,
        }

    def check(self) -> None:
        """Assert that what the machines, the router and the rounds know of this broker's place is one and the same."""
        self.router.check()
        self.succession.check()
        self.rounds.check()
        if self._ticked and not self.left:
            self._check_place()

    def _check_place(self) -> None:
        """Assert that it stands at one place, by all that it knows of that."""
        view, place, neighbours = self.view, self.router.position, self._neighbours()
        here = view.cluster
        assert self.rounds.current <= self._after, "a round has begun that is not known here"
        assert self.rounds.ready_after() <= self._after, "a link waits for a round that nobody knows of"
        group = {*self.fellows, *self.succession.departed, self.home.broker}
        assert {*view.members} <= group, "a member is none of the group"
        assert self.router.knows(self.fellows), "the router has another group"
        attached = self.router.attached
        if not self.designated:
            assert not neighbours and not self.root, "a normal broker stands in the tree"
            assert attached or self._dropped or self.home.broker not in view.members, "it sends nothing up"
            return
        assert place.designated == view.designated, "its router follows another one"
        watched = {each.cluster for each in self.probing.neighbours}
        assert watched == {each.cluster for each in neighbours}, "it watches others than its neighbours"
        above = None if self.parent is None else self.parent.designated
        below = tuple(each.designated for each in self.children.values())
        assert (place.parent, place.children) == (above, below), "its router stands elsewhere"
        assert here not in {each.cluster for each in neighbours}, "its cluster hangs below itself"
        assert self.fellows.isdisjoint(each.designated for each in neighbours), "a neighbour is of its group"
        assert self.path[-1:] in ((), (here,)), "its way to the root does not end here"
        if self.root:
            assert self.parent is None and self.path == (here,) and attached, "it is the root and is not"
        elif self.parent is None:
            assert self.searching and not self.path, "nobody is above it, and it looks for nobody"
            assert not attached, "nobody is above it, and it sends events up"
        else:
            assert attached or self._answer_by is not None, "it sends nothing up"
            assert self.path[-2:-1] in ((), (self.parent.cluster,)), (
                "its way to the root is not over its parent"
            )
