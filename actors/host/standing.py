"""Standing heartbeats: the beat of a host replaces the repeated beats of its brokers.

Rules
-----
* A beat that repeats the previous one on its link *stands*: the host at the other end is told so once, and
  holds it. Once that host has it, it is not sent any more. From then on each beat of the host is a beat of all
  its brokers whose beats stand, and their content holds until a broker says something else.
* A beat with new content goes at once, as before, and what stood on that link is withdrawn. So is a beat that a
  broker has not repeated for `LAPSE_HEARTBEATS` while it had ticks.
* A standing beat overtakes nothing: a beat comes to stand only while nothing else waits or is in flight on its
  link.
* A host is silent when it was not heard for `SILENT_HEARTBEATS`: less than any broker's patience.
* Brokers of one host need no calls: what stands between them stands, as long as the host runs.

A value machine: hosts are any names of the caller's, time is an argument. `resting.py` makes the calls.

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
    """From a broker, in this life of it, to another one: this beat stands, or none does any more."""

    source: BrokerId
    life: int
    to: BrokerId
    beat: Any


@dataclass(slots=True)
class _Said:
    """The last beat of a broker on a link: its time, its receivers, and whether they all hold it."""

    beat: Any
    at: float
    to: tuple[BrokerId, ...]
    stands: bool = False
    held: bool = False


@dataclass(slots=True)
class _Ear:
    """Another host: what it must be told, what it holds, and whether it is dead."""

    untold: dict[Way, Stands] = field(default_factory=dict)
    holds: set[Way] = field(default_factory=set)
    dead: bool = False


class Standing:
    """The standing beats between the brokers of one host and others.

    Parameters
    ----------
    heartbeat_seconds
        Of the brokers.
    host_of
        Returns the host of a broker: None for one here; raises KeyError for an unknown one.
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
        """Process a beat of a broker on a link; return whether it need not be sent.

        Parameters
        ----------
        source, link, to
            The broker, the link, and the brokers to which it leads.
        beat, now
            The beat, and its time.
        clear
            Whether nothing else is in flight on the link.
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
        """Tell all receivers of a beat that it stands; return whether their hosts are known."""
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
        """Return whether all live receivers hold the beat of a broker on a link."""
        if said.stands and not said.held:
            ears = [(other, self._host_of(other)) for other in said.to]
            said.held = all(
                host is None or self._ears[host].dead or (source, other) in self._ears[host].holds
                for other, host in ears
            )
        return said.held

    def all_held(self, source: BrokerId, listeners: Set[BrokerId]) -> bool:
        """Return whether all beats of a broker, to these and to any other, stand already."""
        ways = self._said.get(source, {}).values()
        reached = {other for said in ways for other in said.to}
        return listeners <= reached and all(self._is_held(source, said) for said in ways)

    def lapse(self, source: BrokerId, now: float) -> None:
        """Withdraw beats that a broker, which has ticks, no longer repeats."""
        ways = self._said.get(source, {})
        for link in [link for link, said in ways.items() if now - said.at > self._lapse_seconds]:
            self._take_back(source, ways.pop(link))

    def renew(self, source: BrokerId, now: float) -> None:
        """Record that a broker without ticks would have repeated all beats until now."""
        for said in self._said.get(source, {}).values():
            said.at = now

    def forget(self, broker: BrokerId) -> None:
        """Withdraw all beats of a broker, also of an earlier life, and all beats to it."""
        for said in self._said.pop(broker, {}).values():
            self._take_back(broker, said)
        for source, ways in self._said.items():
            for link in [link for link, said in ways.items() if broker in said.to]:
                self._take_back(source, ways.pop(link))
        self._stands.pop(broker, None)
        for mine in self._stands.values():
            mine.pop(broker, None)

    def forget_all(self) -> None:
        """Withdraw all beats of this host."""
        for broker in list(self._said):
            for said in self._said.pop(broker).values():
                self._take_back(broker, said)

    # To other hosts.

    def ears(self) -> list[Host]:
        """Return the hosts that need a beat: they hold something, or must be told something."""
        return [host for host, ear in self._ears.items() if not ear.dead and (ear.holds or ear.untold)]

    def untold(self, host: Host) -> tuple[Stands, ...]:
        """Return what a host has not confirmed yet."""
        return tuple(self._ears[host].untold.values())

    def told(self, host: Host, stands: Iterable[Stands]) -> None:
        """Record that a host has what it was told."""
        ear = self._ears[host]
        for each in stands:
            way = each.source, each.to
            if ear.untold.get(way) is each:
                del ear.untold[way]
                if each.beat is not None:
                    ear.holds.add(way)

    def died(self, host: Host) -> list[Way]:
        """Record that the process of a host is dead: it need not hold anything. Return the links that led there."""
        ear = self._ears[host]
        ways = [*ear.holds, *ear.untold]
        ear.untold.clear()
        ear.holds.clear()
        ear.dead = True
        return ways

    # From other hosts.

    def hears(self, host: Host, stands: Iterable[Stands], now: float) -> list[Stands]:
        """Process a beat of a host, and return its news."""
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
        """Return what a beat of a host means for a broker here: sender and content."""
        return [(source, beat) for source, (at, beat) in self._stands.get(to, {}).items() if at == host]

    def goes_on(self, now: float) -> None:
        """Process a beat of this host: what stands between brokers here."""
        self._hear(HERE, now)

    def _hear(self, host: Host, now: float) -> None:
        self._heard.setdefault(host, deque(maxlen=GAPS_KEPT + 1)).append(now)

    def silent(self, now: float) -> list[Host]:
        """Return the hosts that no longer confirm their standing beats."""
        return [host for host, at in self._heard.items() if now - at[-1] > self._silent_seconds]

    def speakers(self, to: BrokerId) -> set[Host]:
        """Return the hosts of the brokers whose beats to a broker stand."""
        return {host for host, _ in self._stands.get(to, {}).values()}

    def vouched(self, to: BrokerId, now: float) -> frozenset[BrokerId]:
        """Return the brokers whose beats to a broker stand, and were confirmed a short while ago."""
        silent = set(self.silent(now))
        return frozenset(b for b, (host, _) in self._stands.get(to, {}).items() if host not in silent)

    def heard(self, to: BrokerId, since: float) -> dict[BrokerId, list[float]]:
        """Return when the brokers with standing beats to a broker were last heard since a moment."""
        return {
            source: [at for at in self._heard[host] if at > since]
            for source, (host, _) in self._stands.get(to, {}).items()
        }
