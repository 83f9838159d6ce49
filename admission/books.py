"""The books of one broker: advertisements, the filters wanted over each link, and the resulting reservations.

Rules
-----
* Reservations are a function of the advertisements and the held filters, never a running sum. A link carries the
  distinct advertisements from elsewhere that meet some filter held for the link. The broker takes in those of its
  own publishers and those that come from a neighbour and are wanted elsewhere. No advertisement is therefore
  reserved twice, however many filters meet it, and a released reservation is free again to the last digit.
  With ``"sum"`` it is reserved for each filter that meets it, as 4.2 adds the rates of subscriptions.
* A subscription asks for its peak (4.2): its largest demand, and nothing if a filter that is held for the
  same link already covers it. With the tight estimator it asks for what the reservations grow by. So it does
  with the measured one, where each account is charged with what samples of the events show, and a third more for
  changes between two samples, but with no more than the peaks of all that is wanted there together; and beside that
  with the samples themselves (`sampling`).
* When reservations exceed capacity, filters are degraded until the rest fits: the lowest priority first, and
  among equals the latest first.

Source: paper 3, sections 4.1 and 4.2; priorities are its further work (section 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..protocol.batch import EventBatch
from ..protocol.configs import IN_A_TREE, Ways
from ..protocol.effects import Plain
from ..protocol.ids import GROUP, BrokerId, BrokerLink, ClientId
from ..protocol.messages.admission import (
    MICRO,
    Adds,
    Capacity,
    CpuCounts,
    Estimator,
    Refusal,
)
from ..routing.filters.filter import Filter
from .advertisements import LOCAL, AdvertisementDag, Micros, grown
from .columns import FilterColumns, Mask
from .delays import Delays
from .demand import demand
from .flows import Account, Flows, HandOn, Rated
from .sampling import TOLD_OF, Sampled


class Wants(NamedTuple):
    """What a filter wants, a boolean for each advertised filter, and for each column of the samples."""

    whole: Mask
    parts: Mask


@dataclass(slots=True)
class Met:
    """How many filters that are held for a link meet each advertised filter, and want each event of the samples.

    Attributes
    ----------
    whole
        ``[link, slot]``.
    parts
        ``[link, column]``; empty if nothing is sampled.
    """

    whole: Micros
    parts: Micros = field(default_factory=lambda: np.zeros((1, 0), np.int64))

    def copy(self) -> Met:
        """Return a copy."""
        return Met(self.whole.copy(), self.parts.copy())

    def change(self, row: int, wants: Wants, by: int) -> None:
        """Count one filter more or less for a link."""
        self.whole[row, wants.whole] += by
        if len(wants.parts):
            self.parts[row, wants.parts] += by

    def alone(self, row: int, wants: Wants) -> bool:
        """Return whether a filter that is held for the link is the only one there that wants something."""
        if (self.whole[row, wants.whole] == 1).any():
            return True
        return bool(len(wants.parts)) and bool((self.parts[row, wants.parts] == 1).any())


Lacking: TypeAlias = Mapping[tuple[Filter, BrokerLink], tuple[Refusal, ...]]
"""What some filters lack, by filter and link."""


NONE: Final = np.zeros(0, np.bool_)


@dataclass(slots=True)
class Advert:
    """One advertisement: its filter, its rate (micro-events a second), the link over which it came, and from how far.

    `hops` is the number of brokers beyond this one.
    """

    filter: Filter
    rate: int
    link: BrokerLink
    hops: int = 0


@dataclass(slots=True)
class HeldFilter:
    """A filter that is wanted over one link: its priority, and its position in the order of arrival.

    `max_delay` is how long its events may wait here, in seconds, as was promised to one who asked for that; infinite
    without a promise. A promise stays as long as the filter.
    """

    priority: int
    order: int
    max_delay: float = math.inf


class Change(NamedTuple):
    """A filter is now held for a link, or no longer."""

    filter: Filter
    link: BrokerLink
    held: bool


class Books:
    """What one broker knows and has promised.

    Parameters
    ----------
    broker
        The broker.
    capacity
        What the broker can carry.
    estimator
        How demand is estimated.
    ways
        The paths of events at this broker.
    hand_on
        How members forward what is for their cluster; None if it is multicast.
    capacity_of
        Returns what a member of the cluster can carry.
    cpu_counts
        What the CPU is charged for.
    adds
        Whether an advertisement is reserved once on a link, or for each filter that meets it there.
    delay_window_seconds
        Over which time waits of events are measured; None if they are not.

    Attributes
    ----------
    flows
        Computes the load from what is wanted.
    measured_at
        The capacities measured at members of the cluster.
    delays
        How long events wait here; None if that is not measured.
    """

    def __init__(
        self,
        broker: BrokerId,
        capacity: Capacity,
        estimator: Estimator = "paper",
        ways: Ways = IN_A_TREE,
        hand_on: HandOn | None = None,
        capacity_of: Callable[[BrokerId], Capacity] = lambda broker: Capacity(),
        cpu_counts: CpuCounts = "events",
        adds: Adds = "union",
        delay_window_seconds: float | None = None,
    ) -> None:
        self.broker = broker
        self.adds = adds
        self.capacity = capacity
        self.estimator = estimator
        self.dag = AdvertisementDag()
        self.adverts: dict[tuple[ClientId, int], Advert] = {}
        self.held: dict[BrokerLink, dict[Filter, HeldFilter]] = {LOCAL: {}}
        self.changes: list[Change] = []
        self._wanted = FilterColumns()
        self._holders: dict[Filter, set[BrokerLink]] = {}
        self._sampled = Sampled(self.dag) if estimator == "measured" else None
        self._met = Met(np.zeros(self.dag.own_rate.shape, np.int64))
        self._fit()
        self._next_order = 0
        self._reserved: dict[Account, int] | None = None  # None: out of date
        self._telling: dict[Account, int] | None = None  # likewise
        self._degraded: Lacking | None = None  # likewise
        self.flows = Flows(broker, ways, hand_on, cpu_counts)
        self._capacity_of = capacity_of
        self.measured_at: dict[BrokerId, float] = {}  # by member
        self.delays = None if delay_window_seconds is None else Delays(delay_window_seconds)

    def _changed(self) -> None:
        self._reserved = self._telling = self._degraded = None

    # The paths of events.

    def lead(self, ways: Ways) -> None:
        """Replace the paths of events."""
        self._changed()
        self.flows = self.flows.along(ways)

    @property
    def passes(self) -> Callable[[BrokerLink, BrokerLink], bool]:
        """Whether events from one link may pass to another; see :meth:`.flows.Flows.passes`."""
        return self.flows.passes

    def join(self, link: BrokerId) -> None:
        """Start the books of the link to a neighbour."""
        self._changed()
        self.held.setdefault(link, {})
        self.dag.row(link)
        self._fit()

    def measured(self, events_per_second: float) -> None:
        """Set the measured rate as the broker's capacity."""
        self.capacity = replace(self.capacity, events_per_second=events_per_second)
        self._degraded = None

    def member_measured(self, member: BrokerId, events_per_second: float) -> None:
        """Set the rate measured at a member of the cluster as that member's capacity."""
        self.measured_at[member] = events_per_second
        self._degraded = None

    # Advertisements.

    def advertise(
        self, key: tuple[ClientId, int], item: Filter, rate: int, link: BrokerLink, hops: int = 0
    ) -> None:
        """Enter an advertisement. It replaces an earlier one with the same key."""
        sample = None
        if key in self.adverts:
            sample = self.sample(key) if self.adverts[key].filter == item else None
            self.unadvertise(key)
        self.adverts[key] = Advert(item, rate, link, hops)
        slot, new = self.dag.add(item, link, rate)
        self._changed()
        self._fit()
        if new:
            for other in self.meeting(item):
                for holder in self._holders[other]:
                    self._met.whole[self.dag.row(holder), slot] += 1
        self.measure(key, sample)

    def measure(self, key: tuple[ClientId, int], sample: EventBatch | None) -> None:
        """Charge an advertisement by a sample of its events from now on; as long as it is None, by its whole rate."""
        if self._sampled is None:
            return
        self._changed()
        advert = self.adverts[key]
        columns = self._sampled.put(key, advert.filter, advert.link, advert.rate, sample)
        self._fit()
        self._met.parts[:, columns] = 0
        for item in self.meeting(advert.filter):
            wants = self._sampled.remember(item, key)
            for holder in self._holders[item]:
                self._met.parts[self.dag.row(holder), columns] += wants

    def sample(self, key: tuple[ClientId, int]) -> EventBatch | None:
        """Return the sample by which an advertisement is charged; None if there is none."""
        return None if self._sampled is None else self._sampled.sample(key)

    def default_rate(self, key: tuple[ClientId, int], rate: int) -> int:
        """Return the rate of a local publisher that gave none: its history's, if the broker has as much free (3.1).

        If the broker has nothing free, the rate is one event a second.
        """
        before = self.adverts.get(key)
        mine = before.rate if before is not None and before.link == LOCAL else 0
        free = self.limit(("cpu", None)) - self._rates()["cpu", None] + mine
        return int(min(rate, max(free, MICRO)))

    def unadvertise(self, key: tuple[ClientId, int]) -> Advert:
        """Remove an advertisement, and return it."""
        self._changed()
        advert = self.adverts.pop(key)
        slot, gone = self.dag.remove(advert.filter, advert.link, advert.rate)
        if gone:
            self._met.whole[:, slot] = 0
        if self._sampled is not None:
            self._met.parts[:, self._sampled.remove(key)] = 0
        return advert

    def comes_from(self, link: BrokerLink, item: Filter) -> bool:
        """Return whether an advertisement that meets the filter came over that link."""
        row = self.dag.rows.get(link)
        return row is not None and bool(self.dag.own_count[row][self.dag.relations(item).meets].any())

    # Wanted filters.

    def hold(self, item: Filter, link: BrokerLink, priority: int) -> None:
        """Record that a filter is wanted over a link, with that priority."""
        items = self.held.setdefault(link, {})
        known = items.get(item)
        if known is not None:
            known.priority = priority
            self._degraded = None
            return
        self._changed()
        items[item] = HeldFilter(priority, self._next_order)
        self._next_order += 1
        self.changes.append(Change(item, link, True))
        if item not in self._holders:
            self._wanted.insert(item)
        self._holders.setdefault(item, set()).add(link)
        row = self.dag.row(link)
        self._fit()
        self._met.change(row, self._wants(item), 1)

    def drop(self, item: Filter, link: BrokerLink) -> bool:
        """Record that a filter is no longer wanted over a link; return whether it was."""
        if self.held.get(link, {}).pop(item, None) is None:
            return False
        self._changed()
        self.changes.append(Change(item, link, False))
        self._met.change(self.dag.row(link), self._wants(item), -1)
        self._holders[item].remove(link)
        if not self._holders[item]:
            del self._holders[item]
            self._wanted.remove(item)
            if self._sampled is not None:
                self._sampled.forget(item)
        return True

    def _wants(self, item: Filter) -> Wants:
        """Return which advertised filters, and which columns of the samples, a filter wants."""
        return Wants(
            self.dag.relations(item).meets, NONE if self._sampled is None else self._sampled.mask(item)
        )

    def wanted_beside(self, item: Filter, link: BrokerLink) -> bool:
        """Return whether a filter is wanted over any link to which events from this link may pass."""
        return any(self.passes(link, other) for other in self._holders.get(item, ()))

    def holders(self, item: Filter) -> list[BrokerLink]:
        """Return the links over which a filter is wanted, in the order in which the links joined."""
        holders = self._holders.get(item, ())
        return [link for link in self.held if link in holders]

    def meeting(self, item: Filter) -> list[Filter]:
        """Return the filters wanted over any link that may match an event that `item` matches."""
        meets = self._wanted.relations(item).meets
        return [self._wanted.filter(slot) for slot in np.flatnonzero(meets).tolist()]

    def _fit(self) -> None:
        self._met.whole = grown(self._met.whole, *self.dag.own_rate.shape)
        if self._sampled is not None:
            self._sampled.fit()
            self._met.parts = grown(self._met.parts, *self._sampled.own_rate.shape)

    def leave(self, link: BrokerLink) -> None:
        """Close the books of a link that is gone, once nothing is advertised or wanted over it."""
        self._changed()
        assert not self.held.pop(link, None)
        self.dag.forget(link)

    # Reservations and free capacity.

    def reserved(self) -> dict[Account, int]:
        """Return the reservations: "cpu" and "bandwidth" (by link) in micro-events a second, "memory" in entries."""
        return self._rates() | {("memory", None): self.entries}

    @property
    def entries(self) -> int:
        """The number of stored advertisements and filters."""
        return len(self.adverts) + sum(map(len, self.held.values()))

    def _rates(self) -> dict[Account, int]:
        """Return the reservations of "cpu" and "bandwidth", which are recomputed only after a change."""
        if self._reserved is None:
            self._reserved = self._loads(self._met)
        return self._reserved

    def _loads(self, met: Met) -> dict[Account, int]:
        """Return the load on each account; where demand is measured, by the samples, at most the sum of the peaks.

        The samples themselves come beside that, whether anything of their advertisements is wanted or not.
        """
        out = self._charged(self.dag, met.whole)
        if self._sampled is not None:
            measured = self._charged(self._sampled, met.parts)
            told = self._told()
            out = told | {
                account: min(peak, measured[account]) + told.get(account, 0) for account, peak in out.items()
            }
        return out

    def _told(self) -> dict[Account, int]:
        """Return the load that samples are on each account: a part of all that is advertised, rounded up."""
        if self._telling is None:
            told = self.flows.told(self.dag)
            self._telling = {account: -(-load // TOLD_OF) for account, load in told.items()}
        return self._telling

    def _charged(self, rated: Rated, met: Micros) -> dict[Account, int]:
        return self.flows.loads(rated, met > 0, met if self.adds == "sum" else None)

    def limit(self, account: Account) -> float:
        """Return the capacity of an account, in the units of `reserved`."""
        resource, where = account
        if resource == "memory":
            return self.capacity.entries
        if resource == "cpu":
            return (self.capacity if where is None else self._of_member(where)).events_per_second * MICRO
        if isinstance(where, tuple):
            return self._of_member(where[0]).link(where[1]) * MICRO
        assert where is not None
        return self.capacity.link(where) * MICRO

    def _of_member(self, member: Any) -> Capacity:
        configured = self._capacity_of(member)
        measured = self.measured_at.get(member)
        return configured if measured is None else replace(configured, events_per_second=measured)

    def refusals(self, item: Filter, link: BrokerLink, share: float = 1.0) -> tuple[Refusal, ...]:
        """Return why a filter cannot be admitted for a link; empty if it can (the three conditions of 4.2).

        `share` is the part of each capacity up to which filters of its priority are admitted.
        """
        if item in self.held.get(link, ()):
            return ()
        reserved = self.reserved()
        asked = self._asked(item, link, reserved)
        out = []
        for account, amount in asked.items():
            free = self.limit(account) * share - reserved.get(account, 0)
            if amount > max(free, 0):
                out.append(self._refusal(account, amount, max(free, 0)))
        return tuple(out)

    def wait(self, link: BrokerLink, item: Filter, asked_for: BrokerLink | None = None) -> float:
        """Return how long events that leave over a link wait here, if a filter is held for a link (by default this)."""
        if self.delays is None:
            return 0.0
        loads: dict[Account, float] = dict(self.reserved())
        taker = link if asked_for is None else asked_for
        if item not in self.held.get(taker, ()):
            for account, amount in self._asked(item, taker, self.reserved()).items():
                loads[account] = loads.get(account, 0) + amount
        _, to = self.flows.link_account(link) or ("", LOCAL)
        assert isinstance(to, int)
        return self.delays.expected(to, loads, {account: self.limit(account) for account in loads})

    def late(self, item: Filter, link: BrokerLink) -> tuple[Refusal, ...]:
        """Return which promise of a delay here a filter would break, if it was held for a link too; at most one."""
        if self.delays is None or item in self.held.get(link, ()):
            return ()
        for other, items in self.held.items():
            promised = min((held.max_delay for held in items.values()), default=math.inf)
            if promised < math.inf and (wait := self.wait(other, item, link)) > promised:
                if any(self._asked(item, link, self.reserved()).values()):
                    return (self.refused_delay(wait, promised, other),)
        return ()

    def refused_delay(self, wait: float, max_delay: float, link: BrokerLink) -> Refusal:
        """Return the refusal of a broker whose events for a link wait too long."""
        return Refusal(self.broker, "delay", wait, max_delay, None if link == LOCAL else link)

    def brokers_to(self, item: Filter, link: BrokerLink) -> int:
        """Return through how many brokers events that meet a filter come, this one and the farthest included."""
        meets = self.dag.relations(item).meets
        hops = [
            advert.hops
            for advert in self.adverts.values()
            if meets[self.dag.columns.slot(advert.filter)] and self.passes(advert.link, link)
        ]
        return 1 + max(hops, default=0)

    def promise(self, item: Filter, link: BrokerLink, max_delay: float) -> None:
        """Note that the events of a filter wait no longer here, if the filter is held for the link."""
        held = self.held.get(link, {}).get(item)
        if held is not None:
            held.max_delay = min(held.max_delay, max_delay)

    def _refusal(self, account: Account, asked: float, free: float) -> Refusal:
        resource, where = account
        unit = 1 if resource == "memory" else MICRO
        broker, link = where if isinstance(where, tuple) else (self.broker, where)
        if resource == "cpu" and link is not None:
            broker, link = link, None
        return Refusal(broker, resource, asked / unit, free / unit, link)

    def _asked(self, item: Filter, link: BrokerLink, reserved: Mapping[Account, int]) -> dict[Account, int]:
        """Return what a filter asks for: its largest demand on its way, and the additional traffic of the scheme."""
        out: dict[Account, int] = {("memory", None): 1}
        if self.adds == "union" and self._covered(item, link):
            return out
        grows = self.estimator in ("tight", "measured")
        if grows or self.flows.beside:
            met = self._met.copy()
            met.change(self.dag.row(link), self._wants(item), 1)
            for account, amount in self._loads(met).items():
                out[account] = amount - reserved[account]
        if not grows:
            beside = [source for source in self.dag.rows if not self.passes(source, link)]
            self._demand(out, ("cpu", None), item, (*beside, LOCAL))
            way = self.flows.link_account(link)
            if way is not None:
                grouped = self.flows.ways.group if way[1] == GROUP else ()
                self._demand(out, way, item, (*beside, *grouped))
        return out

    def _demand(
        self, out: dict[Account, int], account: Account, item: Filter, without: Sequence[BrokerLink]
    ) -> None:
        """Charge an account with the largest demand; unless "printed", never less than what the account grows by."""
        most = demand(self.dag, item, self.estimator, without=set(without)).rate_max
        out[account] = most if self.estimator == "printed" else max(out.get(account, 0), most)

    def _covered(self, item: Filter, link: BrokerLink) -> bool:
        """Return whether everything that a filter wants already comes over a link; with flooding, over any link."""
        held = self.held.values() if self.flows.ways.floods else (self.held.get(link, {}),)
        if not any(held):
            return False
        above = np.flatnonzero(self._wanted.relations(item).above).tolist()
        around = [item, *(self._wanted.filter(slot) for slot in above)]
        return any(other in items for items in held for other in around)

    # Filters that no longer fit.

    def degraded(self) -> Lacking:
        """Return the filters, by link, that have to be degraded so that the rest fits, and what each lacks."""
        if self._degraded is None:
            self._degraded = self._lacking()
        return self._degraded

    def _lacking(self) -> Lacking:
        rates = self._rates()
        limits = {account: self.limit(account) for account in rates}
        over = _over(rates, limits)
        if not over:
            return {}
        met = self._met.copy()
        out: dict[tuple[Filter, BrokerLink], tuple[Refusal, ...]] = {}
        entries = [
            (held.priority, -held.order, item, link)
            for link, items in self.held.items()
            for item, held in items.items()
        ]
        for _, _, item, link in sorted(entries, key=lambda entry: entry[:2]):
            row, wants = self.dag.row(link), self._wants(item)
            if self.adds == "union" and not met.alone(row, wants):
                continue  # another filter wants everything that it meets there
            met.change(row, wants, -1)
            left = _over(self._loads(met), limits)
            helped = {key: over[key] - left.get(key, 0) for key in over if over[key] > left.get(key, 0)}
            if not helped:
                met.change(row, wants, 1)
                continue
            out[item, link] = tuple(
                self._refusal(key, asked=amount, free=0) for key, amount in helped.items()
            )
            over = left
            if not over:
                break
        return out

    # Snapshots.

    def snapshot(self) -> Plain:
        """Return the complete books, for `restore`."""
        return {
            "events_per_second": self.capacity.events_per_second,
            "measured_at": dict(self.measured_at),
            "dag": self.dag.snapshot(),
            "adverts": [
                (key, (each.filter, each.rate, each.link, each.hops)) for key, each in self.adverts.items()
            ],
            "held": [
                (link, [(item, held.priority, held.order, held.max_delay) for item, held in items.items()])
                for link, items in self.held.items()
            ],
            "wanted": self._wanted.snapshot(),
            "sampled": None if self._sampled is None else self._sampled.snapshot(),
            "met": self._met.whole.copy(),
            "parts": self._met.parts.copy(),
            "next_order": self._next_order,
        }

    def restore(self, plain: Plain) -> None:
        """Restore a snapshot, also of books with another estimator. Only for books without entries."""
        self.measured(plain["events_per_second"])
        self.measured_at = dict(plain["measured_at"])
        self.dag.restore(plain["dag"])
        self.adverts = {tuple(key): Advert(*each) for key, each in plain["adverts"]}
        self.held = {
            link: {item: HeldFilter(*held) for item, *held in items} for link, items in plain["held"]
        }
        self._wanted.restore(plain["wanted"])
        self._holders = _by_filter(self.held)
        self._met = Met(plain["met"].copy())
        self._next_order = plain["next_order"]
        self._changed()
        if self._sampled is None:
            return
        if plain.get("sampled") is not None:
            self._sampled.restore(plain["sampled"])
            self._met.parts = plain["parts"].copy()
        else:  # recorded under another estimator
            for key in self.adverts:
                self.measure(key, None)

    # Inspection and tests.

    def describe(self) -> dict[str, object]:
        """Return a readable form of the books: events per second, reserved and available, by resource."""
        reserved = self.reserved()
        rates = {
            _named(account): (load / MICRO, self.limit(account) / MICRO)
            for account, load in reserved.items()
            if account[0] != "memory"
        }
        return {
            "broker": self.broker,
            "advertisements": len(self.adverts),
            "filters": sum(map(len, self.held.values())),
            "memory": (reserved["memory", None], self.capacity.entries),
            **rates,
        }

    def check(self) -> None:
        """Assert that the reservations equal a recount from scratch, and are not negative; for tests."""
        flows = self.flows
        fresh = Books(self.broker, self.capacity, self.estimator, flows.ways, flows.hand_on, adds=self.adds)
        fresh.flows = flows
        for link, items in self.held.items():
            if isinstance(link, int) and link != LOCAL:
                fresh.join(link)
            for item, held in items.items():
                fresh.hold(item, link, held.priority)
        for key, advert in self.adverts.items():
            fresh.advertise(key, advert.filter, advert.rate, advert.link)
            fresh.measure(key, self.sample(key))
        mine, its = self.reserved(), fresh.reserved()
        assert mine == its and min(mine.values()) >= 0, (mine, its)
        assert self._holders == _by_filter(self.held)
        assert (self._met.whole >= 0).all() and (self._met.parts >= 0).all()
        assert (self.dag.own_rate >= 0).all()
        for node in (advert.filter for advert in self.adverts.values()):
            assert self.dag.node(node) == fresh.dag.node(node)


def _by_filter(held: Mapping[BrokerLink, Iterable[Filter]]) -> dict[Filter, set[BrokerLink]]:
    """Return the links that each filter is held for."""
    out: dict[Filter, set[BrokerLink]] = {}
    for link, items in held.items():
        for item in items:
            out.setdefault(item, set()).add(link)
    return out


def _over(loads: Mapping[Account, int], limits: Mapping[Account, float]) -> dict[Account, float]:
    return {account: load - limits[account] for account, load in loads.items() if load > limits[account]}


def _named(account: Account) -> str:
    """Return the readable name of an account."""
    resource, where = account
    if where is None:
        return resource
    if resource == "cpu":
        return f"cpu of {where}"
    if isinstance(where, tuple):
        return f"bandwidth from {where[0]} to {where[1]}"
    return "bandwidth to the cluster" if where == GROUP else f"bandwidth to {where}"
