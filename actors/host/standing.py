"""Heartbeats that stand: what a broker says again and again, the beat of its host says for it.

Rules
-----
* A beat that says what the one before it said on that way *stands*: the host at the other end is told so once, and
  holds it. From when that host has it, it is not sent any more. From then on each beat of the host is a beat of all its
  brokers whose beats stand, and what beats of brokers said holds until a broker says something else.
* A beat that says something new goes at once, as ever; what stood on that way is taken back. So is what a broker has
  not said for `LAPSE_HEARTBEATS` while it was told the time.
* What stands overtakes nothing: a beat comes to stand only while nothing else waits or flies on its way.
* A host is silent when it was not heard for `SILENT_HEARTBEATS`: less than any broker's patience.
* Brokers of one host need no calls: what stands between them stands, as long as the host goes on.

A value machine: hosts are whatever the caller knows them by, time is what it says. `resting.py` makes the calls.

Source: paper 1, 4.1 (heartbeats); docs/decisions/0092-hosts-beat-for-their-brokers.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from ...faults.membership.detector import GAPS_KEPT
from ...protocol.ids import BrokerId, BrokerLink

LAPSE_HEARTBEATS: Final = 1.5
SILENT_HEARTBEATS: Final = 1.5

Host: TypeAlias = Hashable
Way: TypeAlias = tuple[BrokerId, BrokerId]
"""From a broker to a broker."""

HERE: Final = "here"
"""The name by which a host hears itself."""


class Stands(NamedTuple):
    """On the way from a broker, in this life of it, to another one: this beat stands, or none does any more."""

    source: BrokerId
    life: int
    to: BrokerId
    beat: Any


@dataclass(slots=True)
class _Said:
    """The last beat of a broker on a link: when it said that last, to whom, and whether they all hold it."""

    beat: Any
    at: float
    to: tuple[BrokerId, ...]
    stands: bool = False
    held: bool = False


@dataclass(slots=True)
class _Ear:
    """Another host: what it has yet to be told, what it holds, and whether it is dead."""

    untold: dict[Way, Stands] = field(default_factory=dict)
    holds: set[Way] = field(default_factory=set)
    dead: bool = False


class Standing:
    """What stands between the brokers of one host and others.

    Parameters
    ----------
    heartbeat_seconds
        Of the brokers.
    host_of
        Returns the host of a broker: None for one here; raises KeyError when it is not known.
    life_of
        Returns the life of a broker here.
    """

    def __init__(
        self,
        heartbeat_seconds: float,
        host_of: Callable[[BrokerId], Host | None],
        life_of: Callable[[BrokerId], int],
    ) -> None:
        self._lapse_seconds = LAPSE_HEARTBEATS * heartbeat_seconds
        self._silent_seconds = SILENT_HEARTBEATS * heartbeat_seconds
        self._host_of = host_of
        self._life_of = life_of
        self._said: dict[BrokerId, dict[BrokerLink, _Said]] = {}
        self._ears: dict[Host, _Ear] = {}
        # For each broker here: who says what to it, and which host says that it still does.
        self._stands: dict[BrokerId, dict[BrokerId, tuple[Host, Any]]] = {}
        self._heard: dict[Host, deque[float]] = {}

    # What is said here.

    def says(
        self,
        source: BrokerId,
        link: BrokerLink,
        to: Iterable[BrokerId],
        beat: Any,
        now: float,
        *,
        clear: bool,
    ) -> bool:
        """Take in that a broker says this on a link; return whether that need not be sent.

        Parameters
        ----------
        source, link, to
            Who, over which of its links, and whom that leads to.
        beat, now
            What, and when.
        clear
            Whether nothing else is under way on the link.
        """
        reached = tuple(to)
        ways = self._said.setdefault(source, {})
        said = ways.get(link)
        if said is None or said.to != reached or said.beat != beat:
            if said is not None:
                self._take_back(source, said)
            ways[link] = _Said(beat, now, reached)
            return False
        said.at = now
        if not said.stands and clear:
            said.stands = self._declare(source, said)
        return self._is_held(source, said)

    def _declare(self, source: BrokerId, said: _Said) -> bool:
        """Tell all whom a beat goes to that it stands; return whether it is known where they are."""
        try:
            hosts = [(other, self._host_of(other)) for other in said.to]
        except KeyError:
            return False
        for other, host in hosts:
            if host is None:
                self._stands.setdefault(other, {})[source] = HERE, said.beat
            else:
                stands = Stands(source, self._life_of(source), other, said.beat)
                self._ears.setdefault(host, _Ear()).untold[source, other] = stands
        return True

    def _take_back(self, source: BrokerId, said: _Said) -> None:
        for other in said.to if said.stands else ():
            mine = self._stands.get(other, {})
            if mine.get(source, (None,))[0] == HERE:
                del mine[source]
            for ear in self._ears.values():
                if (source, other) in ear.holds or (source, other) in ear.untold:
                    ear.untold[source, other] = Stands(source, self._life_of(source), other, None)
                    ear.holds.discard((source, other))
        said.stands = said.held = False

    def _is_held(self, source: BrokerId, said: _Said) -> bool:
        """Return whether all that live hold what a broker says on a link."""
        if said.stands and not said.held:
            ears = [(other, self._host_of(other)) for other in said.to]
            said.held = all(
                host is None or self._ears[host].dead or (source, other) in self._ears[host].holds
                for other, host in ears
            )
        return said.held

    def all_held(self, source: BrokerId, listeners: Set[BrokerId]) -> bool:
        """Return whether a broker says to all of these, and would say to anybody, only what stands already."""
        ways = self._said.get(source, {}).values()
        reached = {other for said in ways for other in said.to}
        return listeners <= reached and all(self._is_held(source, said) for said in ways)

    def lapse(self, source: BrokerId, now: float) -> None:
        """Take back what a broker, which is told the time, says no more."""
        ways = self._said.get(source, {})
        for link in [link for link, said in ways.items() if now - said.at > self._lapse_seconds]:
            self._take_back(source, ways.pop(link))

    def renew(self, source: BrokerId, now: float) -> None:
        """Take in that a broker, which was not told the time, would have said all that again until now."""
        for said in self._said.get(source, {}).values():
            said.at = now

    def forget(self, broker: BrokerId) -> None:
        """Take back all that a broker says, or said in an earlier life, and all that was said to it."""
        for said in self._said.pop(broker, {}).values():
            self._take_back(broker, said)
        for source, ways in self._said.items():
            for link in [link for link, said in ways.items() if broker in said.to]:
                self._take_back(source, ways.pop(link))
        self._stands.pop(broker, None)
        for mine in self._stands.values():
            mine.pop(broker, None)

    def forget_all(self) -> None:
        """Take back all that is said here."""
        for broker in list(self._said):
            for said in self._said.pop(broker).values():
                self._take_back(broker, said)

    # To other hosts.

    def ears(self) -> list[Host]:
        """Return the hosts that a beat is for: they hold something, or have to be told something."""
        return [host for host, ear in self._ears.items() if not ear.dead and (ear.holds or ear.untold)]

    def untold(self, host: Host) -> tuple[Stands, ...]:
        """Return what a host has not confirmed yet."""
        return tuple(self._ears[host].untold.values())

    def told(self, host: Host, stands: Iterable[Stands]) -> None:
        """Take in that a host has what it was told."""
        ear = self._ears[host]
        for each in stands:
            way = each.source, each.to
            if ear.untold.get(way) is each:
                del ear.untold[way]
                if each.beat is not None:
                    ear.holds.add(way)

    def died(self, host: Host) -> list[Way]:
        """Take in that the process of a host is dead: nobody there has to hold anything. Return what ways led there."""
        ear = self._ears[host]
        ways = [*ear.holds, *ear.untold]
        ear.untold.clear()
        ear.holds.clear()
        ear.dead = True
        return ways

    # From other hosts.

    def hears(self, host: Host, stands: Iterable[Stands], now: float) -> list[Stands]:
        """Take in a beat of a host, and return what it says that is news here."""
        self._hear(host, now)
        news = []
        for each in stands:
            mine = self._stands.setdefault(each.to, {})
            if each.beat is not None:
                mine[each.source] = host, each.beat
                news.append(each)
            elif mine.get(each.source, (None,))[0] == host:
                del mine[each.source]
        return news

    def beats(self, to: BrokerId, host: Host) -> list[tuple[BrokerId, Any]]:
        """Return what a beat of a host says to a broker here: from whom, and what."""
        return [(source, beat) for source, (at, beat) in self._stands.get(to, {}).items() if at == host]

    def goes_on(self, now: float) -> None:
        """Take in a beat of this host: what stands between brokers here."""
        self._hear(HERE, now)

    def _hear(self, host: Host, now: float) -> None:
        self._heard.setdefault(host, deque(maxlen=GAPS_KEPT + 1)).append(now)

    def silent(self, now: float) -> list[Host]:
        """Return the hosts that say no more that what they said holds."""
        return [host for host, at in self._heard.items() if now - at[-1] > self._silent_seconds]

    def speakers(self, to: BrokerId) -> set[Host]:
        """Return the hosts of those whose beats to a broker stand."""
        return {host for host, _ in self._stands.get(to, {}).values()}

    def vouched(self, to: BrokerId, now: float) -> frozenset[BrokerId]:
        """Return whose beats to a broker stand, and were said to a short while ago."""
        silent = set(self.silent(now))
        return frozenset(b for b, (host, _) in self._stands.get(to, {}).items() if host not in silent)

    def heard(self, to: BrokerId, since: float) -> dict[BrokerId, list[float]]:
        """Return when those were heard since a moment whose beats to a broker stand: the last times."""
        return {
            source: [at for at in self._heard[host] if at > since]
            for source, (host, _) in self._stands.get(to, {}).items()
        }
