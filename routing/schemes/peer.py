"""Routing in which brokers announce filters in every direction, not only towards a root.

Rules
-----
* On each *outlet* (a neighbour or the group) a broker announces the filters that are wanted on all of its other
  links.
* An event goes over the links that want it, and over no other; nothing goes up speculatively. So it crosses the links
  of the smallest subtree that connects its publisher with the brokers that want it (its Steiner tree), and no others.
* A subscription is installed when all brokers that must know of it, in all directions away from its origin, have
  answered.

A scheme defines the outlets, and whether covering applies. Match-first announces everything to every neighbour (paper
1, section 1, after Gryphon); quenching announces filters that are not covered (Elvin's quenching, Siena's acyclic
peers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...protocol.configs import Position
from ...protocol.effects import Confirm, Effect, Plain, Send
from ...protocol.ids import GROUP, BrokerId, Link
from ...protocol.messages.pubsub import Installed
from ..filters.filter import Filter
from ..interest.announcer import AnnouncerSteps, Waiter
from ..interest.outlets import Outlet
from .tree import TreeRouter


@dataclass(slots=True, eq=False)
class _Wait:
    """A filter that a waiter waits for, and the outlets whose answers are still due."""

    filter: Filter
    outlets: set[Link]


class PeerRouter(TreeRouter):
    """A broker that announces what it wants on each of its outlets.

    Parameters
    ----------
    position
        The broker's place.
    """

    covers: ClassVar[bool] = True
    """Whether a filter that another one covers is not announced."""

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self._neighbours = frozenset(position.neighbours)
        self._other_members = frozenset(position.members) - {position.broker}
        self._waits: dict[Waiter, _Wait] = {}
        self.outlets = self.make_outlets()

    def make_outlets(self) -> dict[Link, Outlet]:
        """Return the outlets of this broker: one for the group, and one for each other neighbour."""
        told: dict[Link, tuple[BrokerId, ...]] = (
            {GROUP: tuple(sorted(self._other_members))} if self._other_members else {}
        )
        told |= {other: (other,) for other in self.position.neighbours if other not in self._other_members}
        return {
            link: Outlet(to, link, covering=self.covers, merging=self.merges) for link, to in told.items()
        }

    def link_of(self, source: Link) -> Link:
        """Return GROUP for another member, otherwise the source itself."""
        return GROUP if source in self._other_members else source

    def goes_up_from(self, source: Link) -> bool:
        """Return False: no event goes where it was not asked for."""
        return False

    def _is_below(self, source: Link) -> bool:
        return source in self._neighbours

    # Additions and removals of filters.

    def _on_installed(self, source: Link, message: Installed) -> list[Effect]:
        name = self.link_of(source)
        if name not in self.outlets:
            return self._stray()
        return self._do(name, self.outlets[name].answered(source, message.token))

    def _hold(self, item: Filter, link: Link, holder: Link, waiter: Waiter) -> list[Effect]:
        before = self.table.links(item)
        self.table.add(item, link, holder)
        names = [name for name in self.outlets if name != link]
        if not names:
            return [_answer(waiter)]
        self._waits[waiter] = _Wait(item, set(names))
        effects: list[Effect] = []
        for name in names:
            outlet = self.outlets[name]
            if not any(other != name for other in before):
                effects += self._do(name, outlet.hold(item))
            effects += self._do(name, outlet.wait(waiter, item))
        return effects

    def _release(self, item: Filter, link: Link, holder: Link) -> list[Effect]:
        before = self.table.links(item)
        nobody = self.table.remove(item, link, holder)
        after = self.table.links(item)
        for waiter in [
            each for each, wait in self._waits.items() if each[0] == holder and wait.filter == item
        ]:
            self._forget(waiter, item)
        effects: list[Effect] = []
        for name, outlet in self.outlets.items():
            held = any(other != name for other in before)
            if held and not any(other != name for other in after):
                effects += self._do(name, outlet.release(item))
        if nobody:
            self.table.drop(item)
        return effects

    def _forget(self, waiter: Waiter, item: Filter) -> None:
        wait = self._waits.pop(waiter, None)
        for name in wait.outlets if wait is not None else ():
            self.outlets[name].forget(waiter, item)

    def _do(self, name: Link, steps: AnnouncerSteps) -> list[Effect]:
        effects = self.outlets[name].effects(steps.up)
        for waiter in steps.ready:
            wait = self._waits.get(waiter)
            if wait is not None:
                wait.outlets.discard(name)
                if not wait.outlets:
                    del self._waits[waiter]
                    effects.append(_answer(waiter))
        return effects

    def announced(self) -> dict[tuple[Link, BrokerId], tuple[Filter, ...]]:
        """Return the filters that were announced to other brokers, by (link that leads there, broker)."""
        outlets = self.outlets.items()
        return {(link, to): tuple(outlet.announced()) for link, outlet in outlets for to in outlet.to}

    def snapshot(self) -> dict[str, Plain]:
        """Return the whole state of the router, for `restore`."""
        return {
            **super().snapshot(),
            "waits": [(waiter, wait.filter, sorted(wait.outlets)) for waiter, wait in self._waits.items()],
            "outlets": {name: outlet.snapshot() for name, outlet in self.outlets.items()},
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the state from a snapshot of the router at this position; only before anything was handled."""
        super().restore(plain)
        self._waits.update((waiter, _Wait(item, set(outlets))) for waiter, item, outlets in plain["waits"])
        for name, outlet in plain["outlets"].items():
            self.outlets[name].restore(outlet)

    def describe(self) -> dict[str, int]:
        """Return the sizes of the router's tables and queues."""
        announced = sum(map(len, self.outlets.values()))
        return {**super().describe(), "announced": announced}

    def check(self) -> None:
        """Assert that table and outlets agree; for tests."""
        self.table.check()
        links = {entry.filter: tuple(entry.links) for entry in self.table}
        for name, outlet in self.outlets.items():
            outlet.check(item for item in links if any(link != name for link in links[item]))
        for wait in self._waits.values():
            assert wait.outlets and all(wait.filter in self.outlets[name] for name in wait.outlets)


def _answer(waiter: Waiter) -> Effect:
    source, number = waiter
    return Confirm(source, number) if isinstance(source, str) else Send(source, Installed(number))
