"""Perfect merging: filters that one filter can stand for exactly are announced as that one (paper 1, section 1; Siena).

Rules
-----
* Two filters of one clause each are merged when they differ in one attribute only: then the union of the two domains is
  a clause that matches what either matches, and nothing else. So a neighbour asks for nothing that nobody wants.
* Each root of the covering DAG belongs to one group; what is announced is the union of the group.
* What a group becomes is announced before what it was is withdrawn; so upstream there is no gap.

What it costs: a filter that joins a group or leaves it takes an announcement and a withdrawal at every broker up to the
root, where one of the two would do. It pays where tables are what is scarce.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from ...protocol.effects import Plain
from ..filters.clauses import Clause
from ..filters.computed import Key
from ..filters.covering import merge
from ..filters.filter import Filter
from ..matching.covering_dag import CoveringDag
from .announcer import Announcer, AnnouncerSteps, _Announced

Rest: TypeAlias = tuple[Key, Clause]
"""What two filters have to have in common: the attribute, or computed value, in which they may differ, and the rest."""


class MergingAnnouncer(Announcer):
    """Keeps the parent told of filters that stand for the roots of the covering DAG; see :class:`Announcer`."""

    def __init__(self, dag: CoveringDag, *, top: bool) -> None:
        super().__init__(dag, top=top)
        self._groups: dict[Filter, dict[Filter, None]] = {}  # what is announced -> the roots it stands for
        self._group_of: dict[Filter, Filter] = {}
        self._by_rest: dict[Rest, Filter] = {}
        self._leaving: dict[Filter, None] = {}

    def hold(self, item: Filter, slot: int) -> AnnouncerSteps:
        """Take in a filter that was not held before."""
        return self._then_withdraw(super().hold(item, slot))

    def release(self, item: Filter) -> AnnouncerSteps:
        """Let go of a filter that nobody holds any more; whoever waited for it does no longer."""
        return self._then_withdraw(super().release(item))

    def _then_withdraw(self, steps: AnnouncerSteps) -> AnnouncerSteps:
        leaving, self._leaving = self._leaving, {}
        for merged in leaving:
            super()._withdraw(merged, steps)
        return steps

    def _stands_for(self, root: Filter) -> _Announced:
        return self._announced[self._group_of[root]]

    def _tells_of(self, item: Filter) -> bool:
        return item in self._group_of

    def _announce(self, item: Filter, steps: AnnouncerSteps) -> None:
        merged, members = item, {item: None}
        while (found := self._partner(merged)) is not None:
            other, merged = found
            members = self._disband(other) | members
        self._form(merged, members, steps)

    def _withdraw(self, item: Filter, steps: AnnouncerSteps) -> None:
        members = self._disband(self._group_of[item])
        del members[item], self._group_of[item]
        groups: dict[Filter, dict[Filter, None]] = {}
        for member in members:
            merged, some = member, {member: None}
            for other in list(groups):
                union = _perfect(merged, other)
                if union is not None:
                    merged, some = union, groups.pop(other) | some
            groups[merged] = some
        for merged, some in groups.items():
            self._form(merged, some, steps)

    def _form(self, merged: Filter, members: dict[Filter, None], steps: AnnouncerSteps) -> None:
        """Make a group of these roots, and announce what stands for it if that is not announced."""
        self._leaving.pop(merged, None)
        if merged not in self._announced:
            super()._announce(merged, steps)
        self._groups[merged] = members
        self._group_of |= dict.fromkeys(members, merged)
        self._by_rest |= dict.fromkeys(_rests(merged), merged)

    def _disband(self, merged: Filter) -> dict[Filter, None]:
        """Take a group apart and return its members; it is withdrawn in the end, unless it is formed again."""
        for rest in _rests(merged):
            if self._by_rest.get(rest) == merged:
                del self._by_rest[rest]
        self._leaving[merged] = None
        return self._groups.pop(merged)

    def _partner(self, merged: Filter) -> tuple[Filter, Filter] | None:
        """Return a group that can be merged with this filter, and the union; None when there is none."""
        for rest in _rests(merged):
            other = self._by_rest.get(rest)
            if other is not None:
                union = _perfect(merged, other)
                if union is not None:
                    return other, union
        return None

    def snapshot(self) -> dict[str, Plain]:
        """Return all that it keeps; `restore` takes it."""
        groups = [
            (merged, list(members), [rest for rest in _rests(merged) if self._by_rest.get(rest) == merged])
            for merged, members in self._groups.items()
        ]
        return {**super().snapshot(), "groups": groups}

    def restore(self, plain: dict[str, Plain]) -> None:
        """Be as the announcer was whose snapshot that is; the DAG has been restored."""
        super().restore(plain)
        for merged, members, rests in plain["groups"]:
            self._groups[merged] = dict.fromkeys(members)
            self._group_of |= dict.fromkeys(members, merged)
            self._by_rest |= dict.fromkeys(rests, merged)

    def check(self) -> None:
        """Assert that exactly the roots are in groups, and each group is announced; for tests."""
        assert set(self._group_of) == set(self._dag.roots())
        assert self._groups.keys() == self._announced.keys() and not self._leaving
        assert {root for members in self._groups.values() for root in members} == self._group_of.keys()
        for root, merged in self._group_of.items():
            assert root in self._groups[merged]
            assert merge(root, merged) == merged, "a group stands for all its members"
        self._check_waiting()


def _rests(item: Filter) -> Iterator[Rest]:
    """Yield what a filter has beside each of its attributes; nothing when it has several clauses."""
    if len(item.clauses) == 1:
        (clause,) = item.clauses
        for key in clause.domains:
            yield key, clause.without(key)


def _perfect(one: Filter, other: Filter) -> Filter | None:
    """Return the one clause that matches exactly what either filter matches; None when there is none."""
    if len(one.clauses) != 1 or len(other.clauses) != 1:
        return None
    union = merge(one, other)
    return union if union is not None and len(union.clauses) == 1 else None
