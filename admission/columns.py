"""Many filters as columns, so that one filter is compared with all of them at once.

Rules
-----
* For a given filter, the columns return which of the stored filters it meets (some event may match both),
  which cover it, and which it covers. The answers equal those of `intersects` and `covers`, one by one.
* A filter of one clause is a row of domain numbers with one column per attribute. Each distinct domain of a
  column is compared once; all domains that are a single interval of numbers are compared together.
  Disjunctions, and filters that constrain computed values, are compared one by one.

Source: paper 3, definitions 5 and 6, and section 3.5 (every operation compares with each of N nodes: O(N)).
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..protocol.effects import Plain
from ..routing.filters.covering import covers, intersects
from ..routing.filters.domains import Domain, Interval
from ..routing.filters.filter import Clause, Filter

Mask: TypeAlias = npt.NDArray[np.bool_]

Codes: TypeAlias = npt.NDArray[np.uint8]
_Stretch: TypeAlias = tuple[float, float, bool, bool]

FIRST_SIZE: Final = 16

MEETS, AROUND, INSIDE = np.uint8(1), np.uint8(2), np.uint8(4)
ALL: Final = np.uint8(7)


class Relations(NamedTuple):
    """The relations of one filter to the stored ones, a boolean per slot; `same` is the slot of an equal one, or -1.

    An equal filter is met, and is neither above nor below.
    """

    meets: Mask
    above: Mask
    below: Mask
    same: int


class _Domains:
    """The distinct domains of one attribute, numbered from 1; number 0 is "anything"."""

    def __init__(self) -> None:
        self._numbers: dict[Domain, int] = {}
        self._users: dict[int, int] = {}
        self._free: list[int] = []
        self._odd: dict[int, Domain] = {}  # the domains that are not a single interval of numbers
        self._low = np.full(FIRST_SIZE, np.nan)
        self._high = np.full(FIRST_SIZE, np.nan)
        self._low_open = np.zeros(FIRST_SIZE, np.bool_)
        self._high_open = np.zeros(FIRST_SIZE, np.bool_)

    def add(self, domain: Domain) -> int:
        number = self._numbers.get(domain)
        if number is None:
            number = self._free.pop() if self._free else len(self._numbers) + 1
            self._numbers[domain] = number
            self._users[number] = 0
            self._place(number, domain)
        self._users[number] += 1
        return number

    def _place(self, number: int, domain: Domain) -> None:
        if number >= len(self._low):
            for name in ("_low", "_high", "_low_open", "_high_open"):
                setattr(self, name, np.resize(getattr(self, name), 2 * number))
        plain = len(domain.numbers) == 1 and _is_numbers_only(domain)
        only = _stretch(domain.numbers[0]) if plain else None
        if only is None:
            self._odd[number] = domain
            self._low[number] = self._high[number] = np.nan  # compares with nothing
            return
        self._low[number], self._high[number], self._low_open[number], self._high_open[number] = only

    def discard(self, domain: Domain) -> None:
        number = self._numbers[domain]
        self._users[number] -= 1
        if not self._users[number]:
            del self._numbers[domain], self._users[number]
            self._odd.pop(number, None)
            self._low[number] = self._high[number] = np.nan
            self._free.append(number)

    def compare(self, other: Domain) -> Codes:
        """Return by number how each domain relates to `other`: it `MEETS` it, lies `AROUND` it or `INSIDE` it."""
        end = len(self._numbers) + len(self._free) + 1
        meets, inside = np.zeros(end, np.bool_), np.zeros(end, np.bool_)
        stretches = [_stretch(interval) for interval in other.numbers]
        exact = None not in stretches
        around = np.full(end, exact and _is_numbers_only(other))
        for stretch in filter(None, stretches) if exact else ():
            one_meets, one_around, one_inside = self._against(stretch, end)
            meets |= one_meets
            around &= one_around
            inside |= one_inside
        by_itself = self._odd if exact else {number: domain for domain, number in self._numbers.items()}
        for number, domain in by_itself.items():
            meets[number] = not domain.intersect(other).is_empty
            around[number] = domain.covers(other)
            inside[number] = other.covers(domain)
        meets[0], around[0], inside[0] = True, True, False
        return meets * MEETS | around * AROUND | inside * INSIDE

    def _against(self, stretch: _Stretch, end: int) -> tuple[Mask, Mask, Mask]:
        """Return which intervals meet the given one, which contain it, and which lie in it."""
        from_, to, from_open, to_open = stretch
        low, high = self._low[:end], self._high[:end]
        low_open, high_open = self._low_open[:end], self._high_open[:end]
        if not (from_open or to_open or low_open.any() or high_open.any()):
            return (low <= to) & (high >= from_), (low <= from_) & (high >= to), (low >= from_) & (high <= to)
        starts = (low < to) | ((low == to) & ~low_open & (not to_open))
        ends = (high > from_) | ((high == from_) & ~high_open & (not from_open))
        holds_low = (low < from_) | ((low == from_) & (~low_open | from_open))
        holds_high = (high > to) | ((high == to) & (~high_open | to_open))
        after = (low > from_) | ((low == from_) & (low_open | (not from_open)))
        before = (high < to) | ((high == to) & (high_open | (not to_open)))
        return starts & ends, holds_low & holds_high, after & before


def _is_numbers_only(domain: Domain) -> bool:
    return not (
        domain.missing or domain.null or domain.booleans or domain.strings.intervals or domain.timestamps
    )


def _stretch(interval: Interval) -> _Stretch | None:
    """Return the interval in floats, or None if a float cannot represent its bounds."""
    low, high = interval.low, interval.high
    assert not isinstance(low, str) and not isinstance(high, str)
    try:
        as_floats = (-np.inf if low is None else float(low), np.inf if high is None else float(high))
    except OverflowError:
        return None
    if (low is not None and as_floats[0] != low) or (high is not None and as_floats[1] != high):
        return None
    return (*as_floats, interval.low_open, interval.high_open)


class FilterColumns:
    """A set of filters, each under a slot from 0. Slots of removed filters are reused."""

    def __init__(self) -> None:
        self.size = FIRST_SIZE
        self._slots: dict[Filter, int] = {}
        self._filters: dict[int, Filter] = {}
        self._free: list[int] = []
        self._simple = np.zeros(FIRST_SIZE, np.bool_)
        self._columns: dict[str, tuple[_Domains, npt.NDArray[np.int32]]] = {}
        self._complex: dict[int, Filter] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, item: Filter) -> bool:
        return item in self._slots

    def slot(self, item: Filter) -> int:
        """Return the slot of a stored filter, or -1."""
        return self._slots.get(item, -1)

    def filter(self, slot: int) -> Filter:
        """Return the filter of a slot that is in use."""
        return self._filters[slot]

    def insert(self, item: Filter) -> int:
        """Add a filter that is not stored yet, and return its slot. `size` may grow."""
        slot = self._free.pop() if self._free else len(self._slots)
        if slot >= self.size:
            self._grow()
        self._put(item, slot)
        return slot

    def _put(self, item: Filter, slot: int) -> None:
        self._slots[item], self._filters[slot] = slot, item
        if len(item.clauses) != 1 or item.clauses[0].computed:
            self._complex[slot] = item
            return
        self._simple[slot] = True
        for name, domain in item.clauses[0].constraints:
            if name not in self._columns:
                self._columns[name] = _Domains(), np.zeros(self.size, np.int32)
            domains, numbers = self._columns[name]
            numbers[slot] = domains.add(domain)

    def remove(self, item: Filter) -> int:
        """Remove a filter and return the slot that it had."""
        slot = self._slots.pop(item)
        del self._filters[slot]
        self._free.append(slot)
        if self._complex.pop(slot, None) is None:
            self._simple[slot] = False
            for name, domain in item.clauses[0].constraints:
                domains, numbers = self._columns[name]
                domains.discard(domain)
                numbers[slot] = 0
        return slot

    def snapshot(self) -> Plain:
        """Return the filters with their slots, and the free slots in the order of their use."""
        return {"size": self.size, "filters": list(self._slots.items()), "free": list(self._free)}

    def restore(self, plain: Plain) -> None:
        """Restore the same filters under the same slots. Only for an empty instance."""
        while self.size < plain["size"]:
            self._grow()
        for item, slot in plain["filters"]:
            self._put(item, slot)
        self._free = list(plain["free"])

    def _grow(self) -> None:
        self._simple = np.concatenate((self._simple, np.zeros(self.size, np.bool_)))
        for name, (domains, numbers) in self._columns.items():
            self._columns[name] = domains, np.concatenate((numbers, np.zeros(self.size, np.int32)))
        self.size *= 2

    def relations(self, item: Filter) -> Relations:
        """Return the relations of `item` to every stored filter, by slot."""
        meets, above = np.zeros(self.size, np.bool_), self._simple.copy()
        below = np.zeros(self.size, np.bool_)
        for clause in item.clauses:
            one_meets, one_above, one_below = self._compare(clause)
            meets |= one_meets
            above &= one_above
            below |= one_below
        if len(item.clauses) > 1:  # all clauses together may cover what no single one covers
            for slot in np.flatnonzero(meets & ~below).tolist():
                below[slot] = covers(item, self._filters[slot])
        for slot, other in self._complex.items():
            meets[slot] = intersects(item, other)
            above[slot], below[slot] = covers(other, item), covers(item, other)
        same = self._slots.get(item, -1)
        if same >= 0:
            above[same] = below[same] = False
        return Relations(meets, above, below, same)

    def _compare(self, clause: Clause) -> tuple[Mask, Mask, Mask]:
        codes = self._simple * ALL
        named = clause.domains
        for name, (domains, numbers) in self._columns.items():
            domain = named.get(name)
            if domain is None and clause.computed:
                domain = clause.implied(name)
            if domain is None:
                codes &= (numbers == 0) * AROUND | (MEETS | INSIDE)
            else:
                codes &= domains.compare(domain)[numbers]
        below = (codes & INSIDE) != 0
        if not named.keys() <= self._columns.keys():
            below[:] = False
        return (codes & MEETS) != 0, (codes & AROUND) != 0, below
