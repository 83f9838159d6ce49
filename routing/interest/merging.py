"""Perfect merging: filters whose exact union is one clause are announced as one filter (paper 1, section 1; Siena).

Rules
-----
* Two filters of one clause each are merged when they differ in one attribute only: then the clause with the union of
  the two domains matches exactly what either matches. So no unwanted events are requested.
* Each root of the covering DAG belongs to one group; the union of the group is announced.
* The new union of a group is announced before the old one is withdrawn, so there is no gap upstream.

Cost: a filter that joins or leaves a group takes an announcement and a withdrawal at every broker up to the root,
where one of the two would suffice without merging. Merging pays off where table space is scarce.
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
"""What two mergeable filters share: the attribute or computed value in which they may differ, and the other parts."""


class MergingAnnouncer(Announcer):
    """Announces to the parent merged filters that represent the roots of the covering DAG; see :class:`Announcer`."""

    def __init__(self, dag: CoveringDag, *, top: bool) -> None:
        super().__init__(dag, top=top)
        self._groups: dict[
            Filter, dict[Filter, None]
        ] = {}  # announced filter -> the roots that it represents
        self._group_of: dict[Filter, Filter] = {}
        self._by_rest: dict[Rest, Filter] = {}
        self._leaving: dict[Filter, None] = {}

    def hold(self, item: Filter, slot: int) -> AnnouncerSteps:
        """Add a filter that was not held before."""
        return self._then_withdraw(super().hold(item, slot))

    def release(self, item: Filter) -> AnnouncerSteps:
        """Remove a filter that is no longer held, and the waiters for it."""
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
        """Make a group of these roots, and announce its union unless it is already announced."""
        self._leaving.pop(merged, None)
        if merged not in self._announced:
            super()._announce(merged, steps)
        self._groups[merged] = members
        self._group_of |= dict.fromkeys(members, merged)
        self._by_rest |= dict.fromkeys(_rests(merged), merged)

    def _disband(self, merged: Filter) -> dict[Filter, None]:
        """Dissolve a group and return its members; its filter is withdrawn at the end, unless it is formed again."""
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
        """Return the whole state, for `restore`."""
        groups = [
            (merged, list(members), [rest for rest in _rests(merged) if self._by_rest.get(rest) == merged])
            for merged, members in self._groups.items()
        ]
        return {**super().snapshot(), "groups": groups}

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the announcer from a snapshot; the DAG must have been restored before."""
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
    """Yield, for each key of a filter, the clause without it; nothing when the filter has several clauses."""
    if len(item.clauses) == 1:
        (clause,) = item.clauses
        for key in clause.domains:
            yield key, clause.without(key)


def _perfect(one: Filter, other: Filter) -> Filter | None:
    """Return the single-clause filter that matches exactly what either filter matches; None if there is none."""
    if len(one.clauses) != 1 or len(other.clauses) != 1:
        return None
    union = merge(one, other)
    return union if union is not None and len(union.clauses) == 1 else None
