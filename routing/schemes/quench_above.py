"""Quenching in a network that heals: a broker knows what is wanted above, and events climb only as far as that.

Rules, beside those of hybrid routing
-------------------------------------
* A designated broker tells each below it what is wanted *above*: on its other links, and above itself. Whoever knows it
  sends up only what matches. Inside a cluster everything is multicast, as it is without quenching.
* Who has another parent, or a parent that has another designated broker, knows nothing, and sends all up, until it is
  told again; and so do all below it, as soon as they are told that nothing is known. The root knows that nothing is
  wanted above.
* What has been told is answered when it counts there and everywhere below. Nobody is told that a filter is installed
  before all that was told for it is answered: so an event that is published after a subscription was confirmed is not
  held back by somebody who has not heard of it.
* Who never answers is no child any more, sooner or later, and joins anew. Then a round sends again all that is kept,
  and its beginning comes behind what was told: what was held back meanwhile is not lost.

What paper 1 has not; Elvin's quenching (see `quenching`), for a tree that heals.
Source: docs/decisions/0018-schemes.md.
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
from .hybrid import Hybrid

UP: Final[Link] = -2


class NotedTable(RoutingTable):
    """A table that notes which filters have been touched."""

    def __init__(self) -> None:
        super().__init__()
        self.touched: dict[Filter, None] = {}

    def add(self, item: Filter, link: Link, holder: Hashable) -> bool:
        """Note that `holder` behind `link` wants `item`; return whether the filter is new to the table."""
        self.touched[item] = None
        return super().add(item, link, holder)

    def remove(self, item: Filter, link: Link, holder: Hashable) -> bool:
        """Note that `holder` no longer wants `item`; return whether that leaves the filter to nobody."""
        self.touched[item] = None
        return super().remove(item, link, holder)

    def snapshot(self) -> dict[str, Plain]:
        """Return all that the table keeps; `restore` takes it."""
        return {**super().snapshot(), "touched": list(self.touched)}

    def restore(self, plain: dict[str, Plain]) -> None:
        """Be as the table was whose snapshot that is; only for one that is empty."""
        super().restore(plain)
        self.touched.update(dict.fromkeys(plain["touched"]))


@dataclass(slots=True, eq=False)
class _Told:
    """A broker below: what it knows, None for nothing; the last message to it, and the last that it has answered."""

    outlet: Outlet | None = None
    sent: int = 0
    answered: int = 0


@dataclass(slots=True)
class _Waiting:
    """An answer, and whose answers it waits for, each up to a number; None until those are known."""

    effect: Effect
    due: list[tuple[_Told, int]] | None = None

    def due_of(self, name_of: Mapping[int, BrokerId]) -> list[tuple[BrokerId, int]] | None:
        """Return whose answers it waits for by name; who is not told any more is not waited for."""
        if self.due is None:
            return None
        return [(name_of[id(told)], number) for told, number in self.due if id(told) in name_of]


@dataclass(slots=True)
class _Below:
    """All that are told, by broker, and the number of the last message."""

    told: dict[BrokerId, _Told] = field(default_factory=dict)
    number: int = 0


class QuenchedAbove(Hybrid):
    """A broker of a tree of clusters that lets no event climb that nobody above wants.

    Attributes
    ----------
    above
        What is wanted above; None when it is not known.
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
        """Take in what the parent says; its answer is among what `tell_below` returns, in its time."""
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
                break  # it is not the whole set: of that nothing is known here
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
        """Count everything announced as not installed; what is wanted above is not known, or nothing at the top."""
        self._know(RoutingTable() if top else None)
        return super().forget_parent(top=top, keep=keep)

    # What those below are told.

    def meet_child(self, child: BrokerId) -> None:
        """Take note that a broker below begins anew, and knows nothing."""
        self._below.told.pop(child, None)

    def _on_above_done(self, source: Link, message: AboveDone) -> list[Effect]:
        """Take note that what a broker below was told counts there, up to a number."""
        told = self._below.told.get(source) if isinstance(source, int) else None
        if told is not None:
            told.answered = max(told.answered, message.number)
        return []

    def tell_below(self) -> list[Effect]:
        """Return what those below have to be told by now, and the answers that need not wait any more."""
        effects: list[Effect] = []
        children = () if self._normal else self.position.children
        told = self._below.told
        for gone in [child for child in told if child not in children]:
            del told[gone]
        for child in children:
            effects += self._tell(child, told.setdefault(child, _Told()))
        self.table.touched.clear()
        for waiting in self._waiting:
            if waiting.due is None:
                waiting.due = [(each, each.sent) for each in told.values()]
        known = set(map(id, told.values()))
        while self._waiting and not any(
            each.answered < number and id(each) in known for each, number in self._waiting[0].due or ()
        ):
            effects.append(self._waiting.popleft().effect)
        return effects

    def _tell(self, child: BrokerId, told: _Told) -> list[Effect]:
        if self.above is None:
            if told.outlet is None:
                return []
            told.outlet = None
            return [self._message(child, told, Above(0, False))]
        begins = told.outlet is None
        items = self.table.touched
        if told.outlet is None:
            told.outlet = self._outlet(child)
            items = dict.fromkeys(entry.filter for table in (self.table, self.above) for entry in table)
        changes: list[Announce | Withdraw] = []
        for item in items:
            wanted = item in self.above or any(link != child for link in self.table.links(item))
            if wanted and item not in told.outlet:
                changes += told.outlet.hold(item).up
            elif not wanted and item in told.outlet:
                changes += told.outlet.release(item).up
        if not changes and not begins:
            return []
        return [self._message(child, told, Above(0, True, begins, tuple(changes)))]

    def held(self) -> Iterator[tuple[Filter, Link, Hashable]]:
        """Iterate over (filter, link, holder), what the parent says that is wanted above among them."""
        yield from super().held()
        parent = self.position.parent
        if parent is not None:
            for entry in self.above or ():
                yield entry.filter, parent, parent

    def told(self) -> dict[tuple[Link, BrokerId], tuple[Filter, ...]]:
        """Return what other brokers were told, those below among them that know what is wanted above."""
        below = {
            (child, child): tuple(told.outlet.announced())
            for child, told in self._below.told.items()
            if told.outlet is not None
        }
        return super().told() | below

    def _outlet(self, child: BrokerId) -> Outlet:
        return Outlet((child,), child, covering=self.covers, merging=self.merges)

    def _message(self, child: BrokerId, told: _Told, message: Above) -> Effect:
        self._below.number += 1
        told.sent = self._below.number
        return Send(child, replace(message, number=told.sent))

    def _carry_out(self, steps: AnnouncerSteps) -> list[Effect]:
        for source, number in steps.ready:
            self._waiting.append(
                _Waiting(
                    Confirm(source, number) if isinstance(source, str) else Send(source, Installed(number))
                )
            )
        return super()._carry_out(AnnouncerSteps(steps.up))

    def snapshot(self) -> dict[str, Plain]:
        """Return all that this router keeps; `restore` takes it."""
        name_of = {id(told): child for child, told in self._below.told.items()}
        return {
            **super().snapshot(),
            "above": None if self.above is None else self.above.snapshot(),
            "number": self._below.number,
            "below": [
                (child, told.sent, told.answered, None if told.outlet is None else told.outlet.snapshot())
                for child, told in self._below.told.items()
            ],
            "waiting": [(waiting.effect, waiting.due_of(name_of)) for waiting in self._waiting],
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Be as the router of this broker was whose snapshot that is; only for one that has not handled anything."""
        super().restore(plain)
        self.above = None if plain["above"] is None else RoutingTable()
        if self.above is not None:
            self.above.restore(plain["above"])
        below = self._below = _Below(number=plain["number"])
        for child, sent, answered, outlet in plain["below"]:
            told = below.told[child] = _Told(None, sent, answered)
            if outlet is not None:
                told.outlet = self._outlet(child)
                told.outlet.restore(outlet)
        for effect, due in plain["waiting"]:
            named = None if due is None else [(below.told[child], number) for child, number in due]
            self._waiting.append(_Waiting(effect, named))

    def describe(self) -> dict[str, int]:
        """Return the sizes of what this broker keeps; `above` counts the filters that it knows to be wanted there."""
        return {**super().describe(), "above": len(self.above or ())}


class QuenchedMergedAbove(QuenchedAbove):
    """With perfect merging beside."""

    merges = True


class MatchFirstAbove(QuenchedAbove):
    """Everything that is wanted is told up and down, covered or not, so every broker knows all (see `match_first`)."""

    covers = False
