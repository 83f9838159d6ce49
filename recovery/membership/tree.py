"""The layer that maintains and repairs the tree of clusters, with the router inside (paper 1, section 4).

Rules
-----
* It consists of parts, each with its own state: `place` (the broker's place), `tree_rounds` (the start of rounds),
  `carrier` (traffic over the tree), `children`, `parent`, `neighbours` (liveness of both), `group` (succession,
  members), `leaving`. Each part is constructed with the earlier parts of this list that it calls, and does not know
  the later ones. News from a machine (`local`) is handled at once by the part that runs the machine.
* A part declares which messages are its own (`takes`). This layer dispatches each message to its part, and ticks to
  all of them. docs/decisions/0011-recovery.md has the whole picture, docs/decisions/0085-parts-own-their-state.md the
  division into parts.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Final, Never

from ...protocol.configs import Placed
from ...protocol.effects import Died, Meet, Missed, Received, Rested, Send, Ticked
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.layers import Event, Handler, Out, Restored, RoundHeard, RoundWanted, Tell
from ...protocol.messages.pubsub import Events
from ...protocol.messages.recovery import RENDEZVOUS, RootBeat
from ...protocol.queries import Answering, HasLeft, Heals, ListensTo, OtherMembers, Said, Survey
from ...protocol.snapshots import Restorable
from ...routing.filters.filter import Filter
from ...routing.schemes.local_first import answers_by
from ...routing.schemes.router import TreeRouting
from .carrier import Carrier
from .children import ChildLinks
from .copies import CopiedTables, Copies
from .group import NO_VIEW, Group
from .leaving import Departure
from .neighbours import Neighbours
from .parent import ParentLink
from .place import Place
from .starting import Start
from .stating import learn, stated
from .succession import successor
from .tree_rounds import TreeRounds

MOVES_TOLD: Final = 16
"""How many times of changes of its place or of the live members of its cluster, and of deaths, a broker reports."""


class HealingBroker(Restorable):
    """One broker of a tree that heals.

    Parameters
    ----------
    start
        The state at the start of this incarnation.
    plans
        Whether members of a cluster pass events on to each other, by the plans of a ballot.
    """

    SHARED = frozenset({"rounds"})

    sees: Mapping[type, Handler] = {}
    alters: Mapping[type, Handler] = {}

    def __init__(self, start: Start[TreeRouting], *, plans: bool = False) -> None:
        anew = start.incarnation > 0
        self.identity = start.identity
        self.rounds = start.rounds
        self.place = place = Place(start)
        self.tree_rounds = rounds = TreeRounds(place, start.rounds, start.identity.after)
        self.copies = copies = Copies(
            NO_VIEW.ballot if anew else place.view.ballot,
            () if anew or place.designated else place.other_members,
        )
        self.carrier = carrier = Carrier(place, rounds, copies)
        self.children = children = ChildLinks(place, rounds, carrier)
        chance = random.Random(f"{start.seed}/{place.home.broker}/{start.incarnation}")
        self.parent = parent = ParentLink(place, rounds, carrier, children, chance)
        self.neighbours = neighbours = Neighbours(place, rounds, children, parent)
        self.group = Group(place, rounds, carrier, children, parent, copies, anew=anew, plans=plans)
        self.leaving = Departure(place, children, parent, neighbours)
        self._beat_at = 0.0
        self._ticked = False
        self._stalled = 0.0  # the seconds in which the host did not get to what had arrived
        self._told_place: Placed | None = None
        self._moved_at: deque[float] = deque(maxlen=MOVES_TOLD)
        self._learned_dead: deque[tuple[BrokerId, float]] = deque(maxlen=MOVES_TOLD)
        self._met: tuple[BrokerId, ...] = ()
        self._handlers = self._of_messages()
        self._events: dict[type, Callable[[Never], list[Out]]] = {
            Ticked: self._on_tick,
            Rested: self._on_rested,
            Died: self._on_died,
            Missed: self._on_missed,
            Tell: self.carrier.on_tell,
            RoundWanted: self.tree_rounds.on_wanted,
            RoundHeard: self.tree_rounds.on_heard,
            Restored: self.group.on_restored,
        }
        self.takes: Mapping[type, Handler] = dict.fromkeys((*self._events, *self._handlers), self.handle)
        if not anew and place.designated:
            if start.joins:
                place.found()
            else:
                place.begin_at(start.position)
                self.neighbours.watch(place.now)

    def _of_messages(self) -> dict[type, Callable[[Never, Never], list[Out]]]:
        """Return the handler of each message; a message has one owner."""
        parts = (
            self.carrier, self.tree_rounds, self.children, self.parent, self.neighbours, self.group, self.leaving
        )  # fmt: skip
        rows = [row for part in parts for row in part.takes.items()]
        table = dict(rows)
        assert len(table) == len(rows), "a message has two owners"
        return table

    # Queries.

    @property
    def router(self) -> TreeRouting:
        """The router inside."""
        return self.place.router

    @property
    def placed(self) -> Placed:
        """Its place in the tree, among the live members of its cluster."""
        return self.place.placed

    @property
    def designated(self) -> bool:
        """Whether this broker is the designated one of its cluster."""
        return self.place.designated

    @property
    def searching(self) -> bool:
        """Whether this cluster looks for a parent, a first or a better one."""
        return self.parent.searching

    @property
    def left(self) -> bool:
        """Whether the broker has left, and its process may end."""
        return self.leaving.left

    @property
    def answers(self) -> Answering:
        """What hosts ask of it."""
        return {
            Heals: lambda query: True,
            Survey: lambda query: self.survey(),
            HasLeft: lambda query: self.left,
            CopiedTables: lambda query: self.group.copies.tables,
            ListensTo: lambda query: self.listens_to,
            OtherMembers: lambda query: tuple(sorted(self.place.other_members)),
            **answers_by(self.router),
        }

    # Events.

    def handle(self, event: Event) -> list[Out]:
        """Handle an event and return the results."""
        place, current = self.place, self.rounds.current
        brings_events = False
        out: list[Out]
        if isinstance(event, Received):
            brings_events = type(event.message) is Events
            if not brings_events:
                learn(self.rounds.high_water, event)
            out = self._handlers[type(event.message)](event.source, event.message)  # type: ignore[arg-type]
            if self.tree_rounds.wanted and not brings_events and not self.leaving.left:
                out = [*out, *self.tree_rounds.ask_after(event.source)]
        elif self.leaving.left and isinstance(event, Ticked | Died | Missed):
            out = []
        else:
            out = self._events[type(event)](event)  # type: ignore[arg-type]
        below = place.router.tell_below()
        out = [*out, *(self.carrier.counted([*below]) if below else ())]
        if place.router.floods:
            out = self.carrier.confirmed(out)
        if brings_events and self.rounds.current is current and self._told_place is not None:
            return out  # unless they begin a round, they change neither its place nor what it states or keeps
        out = stated(self.rounds.high_water, out)
        out += self.identity.writes(
            place.now, place.succession.epoch_seen, place.term, self.tree_rounds.known
        )
        placed = place.placed
        if placed != self._told_place:
            self._told_place = placed
            out.append(placed)
            self._moved_at.append(place.now)
        return out

    def _on_died(self, event: Died) -> list[Out]:
        """Act on it with the next tick."""
        self._learned_dead.append((event.broker, self.place.now))
        self.place.succession.learn_dead(event.broker)
        self.place.probing.learn_dead(event.broker)
        return []

    def _on_missed(self, event: Missed) -> list[Out]:
        return (self.group if event.over_group else self.neighbours).missed(event)

    def _on_tick(self, event: Ticked) -> list[Out]:
        place, parent = self.place, self.parent
        founds = False
        if not self._ticked:
            self._ticked = True  # silence counts only from the first tick
            founds = place.designated and not place.root and place.parent is None
            self.neighbours.watch(event.now)
        elif event.stalled > self._stalled:
            excused = max(0.0, min(event.stalled - self._stalled, event.now - place.now))
            place.succession.excuse(excused)
            place.probing.excuse(excused)
        self._stalled = event.stalled
        place.now = event.now
        self.carrier.load.tick(event.now)
        self.tree_rounds.tick()
        effects = self.group.succeed(event)
        parent.give_up_ping()
        effects += self.leaving.go_on() + self._meet_next()
        if not place.designated:
            return effects + self.tree_rounds.ask()
        if founds:
            effects += parent.search()
        effects += self.neighbours.tick(event) + parent.go_on(event)
        effects += self.neighbours.remind() + parent.give_up_overdue()
        if place.now >= self._beat_at:
            self._beat_at = place.now + place.recovery.heartbeat_seconds
            effects += place.tree_beats()
            if place.root:
                children = tuple(place.children.values())
                effects.append(Send(RENDEZVOUS, RootBeat(place.view, place.term, children)))
        return effects + self.tree_rounds.ask()

    def _meet_next(self) -> list[Out]:
        """Get to know the brokers with which this one will be connected once a designated broker has died.

        After its own, if it would take over, these are the neighbours. After that of a neighbour, it is its successor.
        """
        place, said = self.place, self.place.succession
        if place.designated:
            soon = [successor(view) for view in place.neighbours()]
        elif successor(place.view) == place.home.broker:
            soon = [view.designated for view in (said.parent, *said.children) if view is not None]
        else:
            soon = []
        met = tuple(sorted(broker for broker in soon if broker is not None))
        if met == self._met:
            return []
        self._met = met
        return [Meet(met)] if met else []

    # Resting.

    def _on_rested(self, event: Rested) -> list[Out]:
        place = self.place
        place.now = event.now
        place.succession.rested(event)
        if place.designated:
            place.probing.rested(event)
        return []

    @property
    def listens_to(self) -> frozenset[BrokerId]:
        """The brokers whose silence this broker would detect."""
        place = self.place
        if not place.designated:
            return place.succession.listens_to
        return place.succession.listens_to | {view.designated for view in place.neighbours()}

    def rests_until(self) -> float:
        """Return when it next needs a tick if nothing happens before: 0, at once, while anything is being repaired."""
        return 0.0 if self._is_busy() else self.identity.due

    def _is_busy(self) -> bool:
        """Return whether it waits for anything besides the beats of others and the time of its own next beat."""
        place, parent = self.place, self.parent
        if place.root or self.left or place.succession.leaving or not self._ticked:
            return True
        if self.tree_rounds.wanted or self.rounds.closed_links() or self.group.busy:
            return True
        if not place.designated:
            return not place.succession.path
        if place.parent is None or not place.path or parent.awaited or parent.searching:
            return True
        return bool(place.unanswered.any or place.probing.probed)

    # For comparison with other brokers.

    def agreed(self) -> Mapping[BrokerId, Hashable]:
        """Return the state of the cluster and the tree on which this broker has to agree with other brokers."""
        place, said = self.place, self.place.succession
        me, view = place.home.broker, place.view
        group = tuple(sorted({*place.other_members, me}))
        cluster = view, group, said.path, said.children, self._copied_tables()
        if not place.designated:
            return {view.designated: cluster} if me in view.members else {}
        known: dict[BrokerId, Hashable] = {member: cluster for member in view.members if member != me}
        for child in place.children.values():
            known[child.designated] = child, view.cluster, (*place.path, child.cluster) if place.path else ()
        if place.parent is not None:
            known[place.parent.designated] = view, place.parent.cluster, place.path
        return known

    def _copied_tables(self) -> tuple[tuple[ClusterId, tuple[str, ...]], ...]:
        """Return the filters of the children: the designated broker's own table, or a normal broker's copy."""
        held: Mapping[ClusterId, Iterable[Filter]] = self.group.copies.tables
        if self.designated:
            held = {
                cluster: self.router.copy(child.designated, child.designated)
                for cluster, child in self.place.children.items()
            }
        wanted = ((cluster, tuple(sorted(map(str, items)))) for cluster, items in held.items())
        return tuple(sorted((cluster, items) for cluster, items in wanted if items))

    def streams(self) -> Mapping[BrokerId, Hashable]:
        """Return nothing: events have no sequence numbers on the links of a tree."""
        return {}

    def unannounced(self) -> Collection[BrokerId]:
        """Return nothing: a broker in a tree announces its filters, or is dropped after a timeout."""
        return ()

    # Inspection.

    def survey(self) -> Said:
        """Return the broker's place, for checks of a whole network from outside."""
        place, speaks = self.place, self.place.designated
        return {
            "broker": place.home.broker,
            "cluster": place.home.cluster,
            "designated": speaks,
            "view": place.view,
            "root": place.root and speaks,
            "parent": place.parent if speaks else None,
            "children": tuple(place.children.values()) if speaks else (),
            "path": place.path if speaks else (),
            "term": place.term,
            "round": self.rounds.current,
            "settled": place.router.settled(),
            "closed": self.rounds.closed_links(),
            "missed": self.group.to_mend(),
            "searching": self.searching,
            "left": self.left,
            "moved_at": tuple(self._moved_at),
            "learned_dead": tuple(self._learned_dead),
        }

    def describe(self) -> dict[str, int]:
        """Return the sizes of the broker's state."""
        return {
            **self.router.describe(),
            "epoch": self.place.view.epoch,
            "refused_joins": self.children.refused,
        }

    def check(self) -> None:
        """Assert that the machines, the router and the rounds agree on this broker's place."""
        self.router.check()
        self.place.succession.check()
        self.rounds.check()
        if self._ticked and not self.left:
            self._check_place()

    def _check_place(self) -> None:
        """Assert that all parts agree on one place."""
        place = self.place
        view, stands, neighbours = place.view, place.router.position, place.neighbours()
        here, known = view.cluster, self.tree_rounds.known
        assert self.rounds.current <= known, "a round has begun that is not known here"
        assert self.rounds.ready_after() <= known, "a link waits for a round that nobody knows of"
        group = {*place.other_members, *place.succession.departed, place.home.broker}
        assert {*view.members} <= group, "a member is none of the group"
        assert place.router.knows(place.other_members), "the router has another group"
        attached = place.router.attached
        if not place.designated:
            assert not neighbours and not place.root, "a normal broker stands in the tree"
            assert attached or self.group.dropped or place.home.broker not in view.members, (
                "it sends nothing up"
            )
            return
        assert stands.designated == view.designated, "its router follows another one"
        watched = {each.cluster for each in self.place.probing.neighbours}
        assert watched == {each.cluster for each in neighbours}, "it watches others than its neighbours"
        above = None if place.parent is None else place.parent.designated
        below = tuple(each.designated for each in place.children.values())
        assert (stands.parent, stands.children) == (above, below), "its router stands elsewhere"
        assert here not in {each.cluster for each in neighbours}, "its cluster hangs below itself"
        assert place.other_members.isdisjoint(each.designated for each in neighbours), (
            "a neighbour is of its group"
        )
        assert place.path[-1:] in ((), (here,)), "its way to the root does not end here"
        if place.root:
            assert place.parent is None and place.path == (here,) and attached, "it is the root and is not"
        elif place.parent is None:
            assert self.searching and not place.path, "nobody is above it, and it looks for nobody"
            assert not attached, "nobody is above it, and it sends events up"
        else:
            assert attached or self.parent.awaited, "it sends nothing up"
            assert place.path[-2:-1] in ((), (place.parent.cluster,)), (
                "its way to the root is not over its parent"
            )
