"""Computes the load on a broker and the members of its cluster from what is wanted over which link.

Rules
-----
* A link carries the distinct advertisements from elsewhere that meet some filter held for the link. The
  broker takes in those of its own publishers and those that come from a neighbour and are wanted elsewhere.
* Additional traffic of a scheme is charged to the broker or link that receives it:

  - a multicast loads every member of the cluster. All multicasts of a cluster pass its designated broker, so
    that broker keeps the accounts of the members too. A multicast is one message on the group's link. Where
    members forward it (`hand_on`), each copy is charged to the link that it takes;
  - with flooding, an event that any subscriber wants goes over every link. On a graph with cycles (`Ways.copies`) a
    copy may come over each link, and go over each;
  - where the brokers that want an event forward it, each is charged for everything that it may have to
    forward, whichever other brokers want it.

Source: paper 3, section 4.2; docs/decisions/0031-schemes-are-charged-for-what-they-send.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..protocol.configs import Ways
from ..protocol.ids import GROUP, BrokerId, BrokerLink
from ..protocol.messages.admission import CpuCounts, Resource
from .advertisements import LOCAL, Micros
from .columns import Mask

Account: TypeAlias = tuple[Resource, BrokerId | tuple[BrokerId, BrokerId] | None]
"""What is charged: ``("cpu", None)`` is the broker's own CPU and ``("cpu", 3)`` that of member 3; ``("bandwidth", 4)``
is the broker's link to 4, or to its group, and ``("bandwidth", (3, 4))`` the link from member 3 to member 4."""

HandOn: TypeAlias = Callable[[BrokerId, tuple[BrokerId, ...]], Mapping[BrokerId, tuple[BrokerId, ...]]]
"""Returns which member sends a copy to which, given the member that hands in an event and the other members."""


class Rated(Protocol):
    """Rates in micro-events a second, ``[link, slot]``, and the row of each link."""

    own_rate: Micros

    @property
    def rows(self) -> Mapping[BrokerLink, int]:
        """The row of each link."""


class Flows:
    """The paths of events at one broker.

    Parameters
    ----------
    broker
        The broker.
    ways
        The paths of events at this broker.
    hand_on
        How members forward what is for their cluster; None if it is multicast.
    cpu_counts
        Whether the CPU is charged only for events that are taken in, or also for copies that are sent.
    """

    def __init__(
        self,
        broker: BrokerId,
        ways: Ways,
        hand_on: HandOn | None = None,
        cpu_counts: CpuCounts = "events",
    ) -> None:
        self.broker, self.ways, self.hand_on, self.cpu_counts = broker, ways, hand_on, cpu_counts
        self._onward: dict[BrokerLink, frozenset[BrokerLink]] | None = None
        if ways.onward is not None:
            self._onward = {LOCAL if link is None else link: frozenset(to) for link, to in ways.onward}
        self._known: tuple[dict[BrokerLink, int], Mask, Mask] | None = None

    def along(self, ways: Ways) -> Flows:
        """Return the flows for other paths of events."""
        return Flows(self.broker, ways, self.hand_on, self.cpu_counts)

    @property
    def beside(self) -> bool:
        """Whether there are charges other than for links over which something is wanted."""
        return bool(self.ways.group) or self.ways.concerns_all or self.cpu_counts == "copies"

    def passes(self, source: BrokerLink, to: BrokerLink) -> bool:
        """Return whether events from one link, or from publishers here, may pass to another link, or to clients here.

        Events pass only along the paths of the scheme, which form one tree for each broker that has
        publishers. Requests take the same paths in the opposite direction and terminate: nothing is asked for
        around a ring.
        """
        if source == to or self._onward is None:
            return source != to
        return source in self._onward if to == LOCAL else to in self._onward.get(source, ())

    def link_account(self, link: BrokerLink) -> Account | None:
        """Return the account of what goes over a link; None if other brokers keep it, or there is none."""
        if link == LOCAL:
            return None
        if link not in self.ways.group:
            return "bandwidth", link
        return ("bandwidth", GROUP) if self.hand_on is None else None

    def loads(self, rated: Rated, wanted: Mask, counts: Micros | None = None) -> dict[Account, int]:
        """Return the load on each account, in micro-events a second.

        Parameters
        ----------
        rated
            What is advertised, by link.
        wanted
            ``[link, slot]``: whether a filter that is held for the link wants some of it.
        counts
            ``[link, slot]``: how many filters do, if it is reserved for each of them; None if it is reserved once. What
            is flooded, multicast or relayed is reserved once all the same.
        """
        own, rows = rated.own_rate, rated.rows
        if self.ways.floods:
            wanted, counts = np.broadcast_to(wanted.any(axis=0), wanted.shape), None
        leads, relayed = self._between(rows, len(own))
        elsewhere = leads @ wanted
        elsewhere[rows[LOCAL]] = True
        taken_in: Mask | Micros = elsewhere
        if counts is not None:
            taken_in = np.maximum(leads.astype(np.int64) @ counts, elsewhere)
        out: dict[Account, int] = {("cpu", None): int((own * taken_in).sum())}
        times = wanted if counts is None else counts
        flow = own @ times.T.astype(np.int64)  # from link to link, if all of it had a path
        over = (flow * leads).sum(axis=0).tolist()
        for link, row in rows.items():
            if link != LOCAL and link not in self.ways.group:
                out["bandwidth", link] = over[row]
        if self.ways.group:
            self._charge_group(out, rated, wanted, elsewhere)
        if self.ways.relays is not None:
            self._charge_relays(out, rated, wanted, relayed)
        if self.ways.copies:
            everything = _sum(own.sum(axis=0), wanted.any(axis=0))
            out |= {("bandwidth", link): everything for link in self.ways.copies}
            out["cpu", None] = int(own[rows[LOCAL]].sum()) + len(self.ways.copies) * everything
        self._charge_copies(out)
        return out

    def told(self, rated: Rated) -> dict[Account, int]:
        """Return the load on each account if brokers tell each other of all events, along the paths of advertisements.

        What is told is never multicast. Where a group is one account, the member that is told most counts.
        """
        ways, rows, rates = self.ways, rated.rows, rated.own_rate.sum(axis=1)
        everything = int(rates.sum())
        over = (rates @ self._between(rows, len(rates))[0]).tolist()
        out: dict[Account, int] = {("cpu", None): everything * max(len(ways.copies), 1)}
        out["cpu", None] -= int(rates[rows[LOCAL]])
        for link, row in rows.items():
            if link == LOCAL:
                continue
            account = self.link_account(link)
            if account is not None:
                out[account] = max(out.get(account, 0), over[row])
            elif ways.speaks:  # a member of a group whose links have accounts here, in both directions
                out["bandwidth", link], out["bandwidth", (link, self.broker)] = over[row], int(rates[row])
            if link in ways.group and ways.speaks:
                out["cpu", link] = over[row]
        self._charge_copies(out)
        return out

    def _charge_copies(self, out: dict[Account, int]) -> None:
        """Charge the CPU with what is sent, too, if it counts copies."""
        if self.cpu_counts == "copies":
            for (resource, where), amount in list(out.items()):
                if resource == "bandwidth":
                    out["cpu", where[0] if isinstance(where, tuple) else None] += amount

    def _between(self, rows: Mapping[BrokerLink, int], size: int) -> tuple[Mask, Mask]:
        """Return which link row events may pass to, and which they are relayed to, from each row: ``[row, row]``.

        Both are recomputed only when a link comes or goes, since they take a step for each pair of links.
        """
        if self._known is None or len(self._known[1]) != size or self._known[0] != rows:
            relayed = np.zeros((size, size), dtype=np.bool_)
            for source, to in self.ways.relays or ():
                if source is not None and source in rows:
                    relayed[rows[source], [rows[link] for link in to if link in rows]] = True
            self._known = dict(rows), self._leads(rows, size), relayed
        return self._known[1:]

    def _leads(self, rows: Mapping[BrokerLink, int], size: int) -> Mask:
        """Return from which link row to which events may pass."""
        leads = ~np.eye(size, dtype=np.bool_)
        if self._onward is not None:
            leads[:] = False
            leads[:, rows[LOCAL]] = True
            leads[rows[LOCAL], rows[LOCAL]] = False
            for source, to in self._onward.items():
                if source in rows:
                    leads[rows[source], [rows[link] for link in to if link in rows]] = True
        return leads

    def _charge_group(self, out: dict[Account, int], rated: Rated, wanted: Mask, elsewhere: Mask) -> None:
        """Charge what enters the whole cluster to its links and its members."""
        own, rows = rated.own_rate, rated.rows
        members = {link: rows[link] for link in self.ways.group if link in rows}
        theirs = list(members.values())
        outside = [row for row in rows.values() if row not in theirs]
        entering: dict[BrokerId, int] = {self.broker: _sum(own[outside], wanted[theirs].any(axis=0))}
        if self.hand_on is None:
            out["bandwidth", GROUP] = entering[self.broker]
        if not self.ways.speaks:
            return
        for member, row in members.items():
            entering[member] = _sum(own[row], elsewhere[row])
        everything = sum(entering.values())
        for member, row in members.items():
            out["cpu", member] = int(own[row].sum()) + everything - entering[member]
            if self.hand_on is None and self.cpu_counts == "copies":
                out["cpu", member] += entering[member]  # its own multicast
        for origin, amount in entering.items() if self.hand_on is not None else ():
            others = tuple(sorted({self.broker, *members} - {origin}))
            assert self.hand_on is not None
            for sender, children in self.hand_on(origin, others).items():
                for child in children:
                    account: Account = "bandwidth", child if sender == self.broker else (sender, child)
                    out[account] = out.get(account, 0) + amount

    def _charge_relays(self, out: dict[Account, int], rated: Rated, wanted: Mask, relayed: Mask) -> None:
        """Charge what may have to be forwarded: the events wanted here that a neighbour wants too."""
        both = rated.own_rate @ (wanted & wanted[rated.rows[LOCAL]]).T.astype(np.int64)
        amounts = (both * relayed).sum(axis=0).tolist()
        for link, row in rated.rows.items():
            if amounts[row]:
                out["bandwidth", link] += amounts[row]


def _sum(values: Micros, mask: Any) -> int:
    return int(values[..., mask].sum())
