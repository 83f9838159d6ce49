"""Standing heartbeats: the heartbeat of a host replaces the unchanged heartbeats of its brokers.

Rules
-----
* A heartbeat that repeats the previous one on its way *stands*: the receiving host is told so once, and stores it.
  Once that host has it, it is not sent any more. From then on each heartbeat of the host counts as a heartbeat of
  all its brokers whose heartbeats stand, with the stored content, until a broker sends different content.
* A heartbeat with new content is sent at once, as usual, and the standing one on that way is revoked. A standing
  heartbeat is also revoked if its broker has not repeated it for `LAPSE_HEARTBEATS` while it was told the time.
* A standing heartbeat overtakes nothing: a heartbeat comes to stand only while nothing else is waiting or in flight
  on its way.
* From one broker to another one heartbeat stands at most, that which came to stand last. A broker that spoke to its
  whole cluster and now speaks to one member of it has two ways to that member for a while: when the first one is
  revoked, what stands on the second must stay.
* A host is silent if it was not heard for `SILENT_HEARTBEATS`, which is less than any broker's patience. Time in which
  this host was behind does not count: what the other one said may lie unread.
* Brokers of one host need no calls: what stands between them stands as long as the host runs.

A value machine: the caller chooses how hosts are identified and passes the time. `resting.py` makes the calls.

Source: paper 1, 4.1 (heartbeats); docs/decisions/0092-hosts-beat-for-their-brokers.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from ...protocol.ids import BrokerId, BrokerLink
from ...recovery.membership.detector import GAPS_KEPT

LAPSE_HEARTBEATS: Final = 1.5
SILENT_HEARTBEATS: Final = 1.5

Host: TypeAlias = Hashable
Direction: TypeAlias = tuple[BrokerId, BrokerId]
"""From a broker to a broker."""

HERE: Final = "here"
"""The name of a host for itself."""


class Stands(NamedTuple):
    """This heartbeat of a broker, in this incarnation, to another broker stands; None as `beat` revokes it."""

    source: BrokerId
    incarnation: int
    to: BrokerId
    beat: Any


@dataclass(slots=True)
class _Said:
    """The last heartbeat of a broker on a link: when it was last sent, to whom, and whether all receivers store it."""

    beat: Any
    at: float
    to: tuple[BrokerId, ...]
    stands: bool = False
    held: bool = False


@dataclass(slots=True)
class _Receiver:
    """Another host: what it has not been told yet, what it stores, and whether it is dead."""

    unconfirmed: dict[Direction, Stands] = field(default_factory=dict)
    holds: set[Direction] = field(default_factory=set)
    dead: bool = False


class StandingHeartbeats:
    """The standing heartbeats between the brokers of one host and others.

    Parameters
    ----------
    heartbeat_seconds
        The heartbeat period of the brokers.
    host_of
        Returns the host of a broker: None for this host; raises KeyError if the host is unknown.
    incarnation_of
        Returns the incarnation of a broker here.
    """

    def __init__(
        self,
        heartbeat_seconds: float,
        host_of: Callable[[BrokerId], Host | None],
        incarnation_of: Callable[[BrokerId], int],
    ) -> None:
        self._lapse_seconds = LAPSE_HEARTBEATS * heartbeat_seconds
        self._silent_seconds = SILENT_HEARTBEATS * heartbeat_seconds
        self._host_of = host_of
        self._incarnation_of = incarnation_of
        self._said: dict[BrokerId, dict[BrokerLink, _Said]] = {}
        self._receivers: dict[Host, _Receiver] = {}
        # For each broker here: each sender's standing heartbeat, and the host that vouches for it.
        self._stands: dict[BrokerId, dict[BrokerId, tuple[Host, Any]]] = {}
        # When each host was heard, and for how long this one had been behind then.
        self._heard: dict[Host, deque[tuple[float, float]]] = {}

    # Sent by brokers here.

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
        """Take in that a broker sends this heartbeat on a link; return whether it need not be sent.

        Parameters
        ----------
        source, link, to
            The sender, its link, and the brokers that the link leads to.
        beat, now
            The heartbeat and the time.
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

    def settle(self, source: BrokerId, listeners: Set[BrokerId], clear: Callable[[BrokerLink], bool]) -> None:
        """Let what a broker has said to these stand where it has arrived: it will say it again.

        What it says to anybody else, an answer or a farewell, it may never repeat.

        Parameters
        ----------
        source, listeners
            The broker, and those that it listens to.
        clear
            Whether nothing is under way on a link.
        """
        for link, said in self._said.get(source, {}).items():
            if not said.stands and set(said.to) <= listeners and clear(link):
                said.stands = self._declare(source, said)

    def _declare(self, source: BrokerId, said: _Said) -> bool:
        """Announce to all receivers that a heartbeat stands; return whether all their hosts are known."""
        try:
            hosts = [(other, self._host_of(other)) for other in said.to]
        except KeyError:
            return False
        for earlier in self._said[source].values():
            if earlier.stands and not set(said.to).isdisjoint(earlier.to):
                self._take_back(source, earlier)
        for other, host in hosts:
            if host is None:
                self._stands.setdefault(other, {})[source] = HERE, said.beat
            else:
                stands = Stands(source, self._incarnation_of(source), other, said.beat)
                self._receivers.setdefault(host, _Receiver()).unconfirmed[source, other] = stands
        return True

    def _take_back(self, source: BrokerId, said: _Said) -> None:
        for other in said.to if said.stands else ():
            mine = self._stands.get(other, {})
            if mine.get(source, (None,))[0] == HERE:
                del mine[source]
            for receiver in self._receivers.values():
                if (source, other) in receiver.holds or (source, other) in receiver.unconfirmed:
                    receiver.unconfirmed[source, other] = Stands(
                        source, self._incarnation_of(source), other, None
                    )
                    receiver.holds.discard((source, other))
        said.stands = said.held = False

    def _is_held(self, source: BrokerId, said: _Said) -> bool:
        """Return whether all live receivers store the heartbeat of a broker on a link."""
        if said.stands and not said.held:
            receivers = [(other, self._host_of(other)) for other in said.to]
            said.held = all(
                host is None or self._receivers[host].dead or (source, other) in self._receivers[host].holds
                for other, host in receivers
            )
        return said.held

    def all_held(self, source: BrokerId, listeners: Set[BrokerId]) -> bool:
        """Return whether a broker sends to all of these, and to anybody else, only heartbeats that stand already."""
        ways = self._said.get(source, {}).values()
        reached = {other for said in ways for other in said.to}
        return listeners <= reached and all(self._is_held(source, said) for said in ways)

    def lapse(self, source: BrokerId, now: float) -> None:
        """Revoke what a broker no longer sends although it is told the time."""
        ways = self._said.get(source, {})
        for link in [link for link, said in ways.items() if now - said.at > self._lapse_seconds]:
            self._take_back(source, ways.pop(link))

    def renew(self, source: BrokerId, now: float) -> None:
        """Note that a broker that was not told the time would have repeated its heartbeats until now."""
        for said in self._said.get(source, {}).values():
            said.at = now

    def forget(self, broker: BrokerId) -> None:
        """Revoke everything that a broker sends, or sent in an earlier incarnation, and everything sent to it."""
        for said in self._said.pop(broker, {}).values():
            self._take_back(broker, said)
        for source, ways in self._said.items():
            for link in [link for link, said in ways.items() if broker in said.to]:
                self._take_back(source, ways.pop(link))
        self._stands.pop(broker, None)
        for mine in self._stands.values():
            mine.pop(broker, None)

    def forget_all(self) -> None:
        """Revoke everything sent from here."""
        for broker in list(self._said):
            for said in self._said.pop(broker).values():
                self._take_back(broker, said)

    # To other hosts.

    def receivers(self) -> list[Host]:
        """Return the hosts that need this host's heartbeat: they store something, or must be told something."""
        return [
            host
            for host, receiver in self._receivers.items()
            if not receiver.dead and (receiver.holds or receiver.unconfirmed)
        ]

    def unconfirmed(self, host: Host) -> tuple[Stands, ...]:
        """Return what a host has not confirmed yet."""
        return tuple(self._receivers[host].unconfirmed.values())

    def told(self, host: Host, stands: Iterable[Stands]) -> None:
        """Note that a host has received what it was told."""
        receiver = self._receivers[host]
        for each in stands:
            way = each.source, each.to
            if receiver.unconfirmed.get(way) is each:
                del receiver.unconfirmed[way]
                if each.beat is not None:
                    receiver.holds.add(way)

    def died(self, host: Host) -> list[Direction]:
        """Note that the process of a host is dead, so that nobody there must store anything; return the ways to it."""
        receiver = self._receivers[host]
        ways = [*receiver.holds, *receiver.unconfirmed]
        receiver.unconfirmed.clear()
        receiver.holds.clear()
        receiver.dead = True
        return ways

    # From other hosts.

    def hears(self, host: Host, stands: Iterable[Stands], now: float, stalled: float = 0.0) -> list[Stands]:
        """Take in a heartbeat of a host, and return the heartbeats in it that are new here."""
        self._hear(host, now, stalled)
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
        """Return what a heartbeat of a host stands for at a broker here, as (sender, heartbeat)."""
        return [(source, beat) for source, (at, beat) in self._stands.get(to, {}).items() if at == host]

    def goes_on(self, now: float, stalled: float = 0.0) -> None:
        """Take in a heartbeat of this host itself, for the brokers here."""
        self._hear(HERE, now, stalled)

    def _hear(self, host: Host, now: float, stalled: float) -> None:
        self._heard.setdefault(host, deque(maxlen=GAPS_KEPT + 1)).append((now, stalled))

    def silent(self, now: float, stalled: float = 0.0) -> list[Host]:
        """Return the hosts that are silent, so that what stands on their word is no longer valid."""
        least = now - stalled - self._silent_seconds
        return [host for host, times in self._heard.items() if times[-1][0] - times[-1][1] < least]

    def speakers(self, to: BrokerId) -> set[Host]:
        """Return the hosts of the brokers whose heartbeats to this broker stand."""
        return {host for host, _ in self._stands.get(to, {}).values()}

    def alive_by_host(self, to: BrokerId, now: float, stalled: float = 0.0) -> frozenset[BrokerId]:
        """Return the brokers whose heartbeats to this broker stand and whose hosts are not silent."""
        silent = set(self.silent(now, stalled))
        return frozenset(b for b, (host, _) in self._stands.get(to, {}).items() if host not in silent)

    def heard(self, to: BrokerId, since: float, stalled: float = 0.0) -> dict[BrokerId, list[float]]:
        """Return the last times since `since` at which each broker with a standing heartbeat to this one was heard.

        They are later by as long as this host was behind since then, so that this does not count as silence.
        """
        return {
            source: [at + stalled - then for at, then in self._heard[host] if at > since]
            for source, (host, _) in self._stands.get(to, {}).items()
        }
