"""Quenching in a network that heals: a broker knows what is wanted above, and events go up only as far as needed.

Rules, beside those of hybrid routing
-------------------------------------
* A designated broker tells each broker below what is wanted *above* that one: on its own other links, and above
  itself. A broker with this knowledge sends up only matching events. Inside a cluster everything is multicast, as
  without quenching.
* A broker with a new parent, or whose parent cluster has a new designated broker, knows nothing. It sends all
  events up until it is told again; so do all brokers below it, once they are told that nothing is known. The root
  knows that nothing is wanted above.
* A broker answers an `Above` when it is in force there and everywhere below. A filter is reported as installed
  only after all messages that were sent because of it are answered. So no broker that has not heard of a
  subscription stops an event that is published after the subscription was confirmed.
* A broker that never answers eventually ceases to be a child, and joins again. Then a round retransmits all retained
  events, and its start follows the messages to that broker: events that were stopped in the meantime are not lost.

This is not in paper 1. It is Elvin's quenching (see `quenching`), for a tree that heals. Source:
docs/decisions/0018-schemes.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from ...protocol.configs import Position
from ...protocol.effects import Confirm, Effect, Plain, Send
from ...protocol.ids import BrokerId, Link
from ...protocol.messages.pubsub import Announce, Events, Installed, Withdraw
from ...protocol.messages.quench import Above, AboveDone
from ..filters.filter import Filter
from ..interest.announcer import Announcer, AnnouncerSteps
from ..interest.merging import MergingAnnouncer
from ..interest.outlets import FlatOrder, Outlet
from ..matching.covering_dag import CoveringDag
from ..matching.table import RoutingTable
from .clusters import ClusterRouter

UP: Final[Link] = -2


class NotedTable(RoutingTable):
    """A table that records which filters have been touched."""

    def __init__(self) -> None:
        super().__init__()
        self.touched: dict[Filter, None] = {}

    def add(self, item: Filter, link: Link, holder: Hashable) -> bool:
        """Add the interest of `holder` behind `link` in `item`; return whether the filter is new to the table."""
        self.touched[item] = None
        return super().add(item, link, holder)

    def remove(self, item: Filter, link: Link, holder: Hashable) -> bool:
        """Remove the interest of `holder` in `item`; return whether nobody wants the filter any more."""
        self.touched[item] = None
        return super().remove(item, link, holder)

    def snapshot(self) -> dict[str, Plain]:
        """Return the whole state of the table, for `restore`."""
        return {**super().snapshot(), "touched": list(self.touched)}

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the table from a snapshot; only while it is empty."""
        super().restore(plain)
        self.touched.update(dict.fromkeys(plain["touched"]))


@dataclass(slots=True, eq=False)
class _Child:
    """A broker below: its knowledge (None: nothing), the last message to it, and the last one that it answered."""

    outlet: Outlet | None = None
    sent: int = 0
    answered: int = 0


@dataclass(slots=True)
class _Waiting:
    """An effect, and the answers that it waits for, each up to a number; None until these are determined."""

    effect: Effect
    due: list[tuple[_Child, int]] | None = None

    def due_of(self, name_of: Mapping[int, BrokerId]) -> list[tuple[BrokerId, int]] | None:
        """Return the awaited answers by broker, without brokers that are no longer told."""
        if self.due is None:
            return None
        return [(name_of[id(known)], number) for known, number in self.due if id(known) in name_of]


@dataclass(slots=True)
class _Below:
    """The brokers below that are told, and the number of the last message."""

    children: dict[BrokerId, _Child] = field(default_factory=dict)
    number: int = 0


class QuenchedAbove(ClusterRouter):
    """A broker of a tree of clusters that sends an event up only if it is wanted above.

    Attributes
    ----------
    above
        The filters that are wanted above; None when they are not known.
    """

    covers: ClassVar[bool] = True

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        top = position.role == "REB"
        self.table: NotedTable = NotedTable()
        self.dag = CoveringDag(self.table.index) if self.covers else FlatOrder()
        self.announcer = (MergingAnnouncer if self.merges else Announcer)(self.dag, top=top)
        self.above: RoutingTable | None = RoutingTable() if top else None
        self._below = _Below()
        self._waiting: deque[_Waiting] = deque()
        self._handlers |= {Above: self._on_above, AboveDone: self._on_above_done}

    # Events.

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        effects = super()._on_events(source, message)
        if self._normal or self.above is None:
            return effects
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send) and effect.to == self.position.parent:
                wanted = self.above.route(message.batch).links
                if not wanted:
                    continue
                ((_, rows),) = wanted
                if rows is not None:
                    effect = Send(effect.to, replace(message, batch=message.batch.take(rows)))
            out.append(effect)
        return out

    # What is wanted above.

    def _on_above(self, source: Link, message: Above) -> list[Effect]:
        """Handle the parent's message; `tell_below` returns the answer later."""
        if not self._normal and source == self.position.parent:
            self._learn_above(message)
        return []

    def _learn_above(self, message: Above) -> None:
        if not message.known:
            self._know(None)
        elif message.begins:
            self._know(RoutingTable())
        for change in message.changes:
            item = change.filter
            if self.above is None:
                break  # not the complete set, and the rest of the set is not known here
            self.table.touched[item] = None
            if isinstance(change, Announce):
                self.above.add(item, UP, UP)
            elif self.above.remove(item, UP, UP):
                self.above.drop(item)
        if self.position.parent is not None:
            self._waiting.append(_Waiting(Send(self.position.parent, AboveDone(message.number))))

    def _know(self, above: RoutingTable | None) -> None:
        for entry in self.above or ():
            self.table.touched[entry.filter] = None
        self.above = above

    def forget_parent(self, *, top: bool = False, keep: bool = False) -> list[Effect]:
        """Mark every announced filter as not installed; what is wanted above is unknown, or nothing at the top."""
        self._know(RoutingTable() if top else None)
        return super().forget_parent(top=top, keep=keep)

    # Messages to the brokers below.

    def meet_child(self, child: BrokerId) -> None:
        """Note that a broker below has started again, and knows nothing."""
        self._below.children.pop(child, None)

    def _on_above_done(self, source: Link, message: AboveDone) -> list[Effect]:
        """Note that messages to a broker below are in force there, up to a number."""
        known = self._below.children.get(source) if isinstance(source, int) else None
        if known is not None:
            known.answered = max(known.answered, message.number)
        return []

    def tell_below(self) -> list[Effect]:
        """Return the messages due to the brokers below, and the effects that need not wait any more."""
        effects: list[Effect] = []
        children = () if self._normal else self.position.children
        known = self._below.children
        for gone in [child for child in known if child not in children]:
            del known[gone]
        for child in children:
            effects += self._tell(child, known.setdefault(child, _Child()))
        self.table.touched.clear()
        for waiting in self._waiting:
            if waiting.due is None:
                waiting.due = [(each, each.sent) for each in known.values()]
        present = set(map(id, known.values()))
        while self._waiting and not any(
            each.answered < number and id(each) in present for each, number in self._waiting[0].due or ()
        ):
            effects.append(self._waiting.popleft().effect)
        return effects

    def _tell(self, child: BrokerId, known: _Child) -> list[Effect]:
        if self.above is None:
            if known.outlet is None:
                return []
            known.outlet = None
            return [self._message(child, known, Above(0, False))]
        begins = known.outlet is None
        items = self.table.touched
        if known.outlet is None:
            known.outlet = self._outlet(child)
            items = dict.fromkeys(entry.filter for table in (self.table, self.above) for entry in table)
        changes: list[Announce | Withdraw] = []
        for item in items:
            wanted = item in self.above or any(link != child for link in self.table.links(item))
            if wanted and item not in known.outlet:
                changes += known.outlet.hold(item).up
            elif not wanted and item in known.outlet:
                changes += known.outlet.release(item).up
        if not changes and not begins:
            return []
        return [self._message(child, known, Above(0, True, begins, tuple(changes)))]

    def held(self) -> Iterator[tuple[Filter, Link, Hashable]]:
        """Iterate over (filter, link, holder), including the filters that the parent reports as wanted above."""
        yield from super().held()
        parent = self.position.parent
        if parent is not None:
            for entry in self.above or ():
                yield entry.filter, parent, parent

    def announced(self) -> dict[tuple[Link, BrokerId], tuple[Filter, ...]]:
        """Return the announced filters, including those told to brokers below that know what is wanted above."""
        below = {
            (child, child): tuple(known.outlet.announced())
            for child, known in self._below.children.items()
            if known.outlet is not None
        }
        return super().announced() | below

    def _outlet(self, child: BrokerId) -> Outlet:
        return Outlet((child,), child, covering=self.covers, merging=self.merges)

    def _message(self, child: BrokerId, known: _Child, message: Above) -> Effect:
        self._below.number += 1
        known.sent = self._below.number
        return Send(child, replace(message, number=known.sent))

    def _carry_out(self, steps: AnnouncerSteps) -> list[Effect]:
        for source, number in steps.ready:
            self._waiting.append(
                _Waiting(
                    Confirm(source, number) if isinstance(source, str) else Send(source, Installed(number))
                )
            )
        return super()._carry_out(AnnouncerSteps(steps.up))

    def snapshot(self) -> dict[str, Plain]:
        """Return the whole state of the router, for `restore`."""
        name_of = {id(known): child for child, known in self._below.children.items()}
        return {
            **super().snapshot(),
            "above": None if self.above is None else self.above.snapshot(),
            "number": self._below.number,
            "below": [
                (child, known.sent, known.answered, None if known.outlet is None else known.outlet.snapshot())
                for child, known in self._below.children.items()
            ],
            "waiting": [(waiting.effect, waiting.due_of(name_of)) for waiting in self._waiting],
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the state from a snapshot of this broker's router; only before anything was handled."""
        super().restore(plain)
        self.above = None if plain["above"] is None else RoutingTable()
        if self.above is not None:
            self.above.restore(plain["above"])
        below = self._below = _Below(number=plain["number"])
        for child, sent, answered, outlet in plain["below"]:
            known = below.children[child] = _Child(None, sent, answered)
            if outlet is not None:
                known.outlet = self._outlet(child)
                known.outlet.restore(outlet)
        for effect, due in plain["waiting"]:
            named = None if due is None else [(below.children[child], number) for child, number in due]
            self._waiting.append(_Waiting(effect, named))

    def describe(self) -> dict[str, int]:
        """Return the sizes of the router's tables; `above` counts the filters known to be wanted above."""
        return {**super().describe(), "above": len(self.above or ())}


class QuenchedMergedAbove(QuenchedAbove):
    """`QuenchedAbove` with perfect merging."""

    merges = True


class MatchFirstAbove(QuenchedAbove):
    """Announces every filter up and down, covered or not, so that every broker knows all (see `match_first`)."""

    covers = False
