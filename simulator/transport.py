"""The transport between brokers: sent messages leave, are in flight, and arrive, unless a fault prevents it.

Rules
-----
* A multicast is one message, and one copy for each other reachable member, each over a link of its own.
* A broker that is busy sending, or must wait for its turn, sends later.
* A link is created on first use; :class:`~.hosts.Connection` determines how long a message takes over it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import heappush
from typing import Final, NamedTuple, Never, TypeVar

from ..protocol.effects import Deliver, Effect, Missed, Multicast, Received, Regroup, Renew, Send
from ..protocol.errors import InputError
from ..protocol.expiry import passable
from ..protocol.ids import BrokerId
from ..protocol.messages.beats import is_beat
from ..protocol.messages.pubsub import Directed, Events
from ..protocol.messages.recovery import RENDEZVOUS, TIMED
from ..protocol.telemetry.tables import LINK_KINDS
from ..routing.topologies.cluster_trees import GROUP_SECONDS, LINK_SECONDS
from .datagrams import Datagrams
from .hosts import Connection, Host, Ticket
from .link_faults import pair_of
from .parts import Whole

CARRIERS: Final = (Events, Directed, Deliver)
M = TypeVar("M")

"""Called with (time, sender, receiver or None for the group, message) when a broker sends."""


class Traffic(NamedTuple):
    """Messages over the links of one kind: those that carry events, and those about subscriptions."""

    events: int
    control: int


class SimulatedTransport:
    """The links of a network.

    Parameters
    ----------
    network
        The network.
    datagrams, last_words, strangers, delay_of
        See :class:`~.network.SimulatedNetwork`.

    Attributes
    ----------
    effects
        How the effects of brokers that address other brokers are carried out.
    sent
        How many messages left over the links of each kind, by type.
    """

    def __init__(
        self,
        network: Whole,
        datagrams: Datagrams | None,
        last_words: bool,
        strangers: bool,
        delay_of: Callable[[BrokerId, BrokerId], float] | None,
    ) -> None:
        self._network = network
        self._datagrams, self._last_words, self._delay_of = datagrams, last_words, delay_of
        self._strangers = strangers
        self._arrive = _arrival_in(network, self._hear if strangers else None)
        self._names = (network.seed, "unicast"), (network.seed, "group")
        self.at_once = network.queues is None and network.telemetry is None and not network.links.send_seconds
        self.sent: dict[str, Counter[type]] = {kind: Counter() for kind in LINK_KINDS}
        self.effects: dict[type, Callable[[Host, Never], None]] = {
            Send: self._send,
            Multicast: self._multicast,
            Regroup: self._regroup,
            Renew: self._renew,
        }

    def connections(self) -> Iterator[Connection]:
        """Iterate over all links, for single messages and for multicasts."""
        net = self._network
        for host in (*net.hosts.values(), net.rendezvous):
            if host is not None:
                yield from host.connections.values()
                yield from host.group_connections.values()

    def traffic(self) -> dict[str, Traffic]:
        """Return how many messages over each kind of link carried events, and how many did not."""
        found = {}
        for kind, counts in self.sent.items():
            events = sum(counts[each] for each in CARRIERS)
            found[kind] = Traffic(events, counts.total() - events)
        return found

    def _send(self, host: Host, effect: Send) -> None:
        net = self._network
        to, message = effect.to, self._timely(effect.message) if net.expiring else effect.message
        if message is None:
            return
        leaves = net.now if self.at_once else self.leave(host, effect)
        if leaves is None:
            return
        kind = type(message)
        self.sent["up" if to == host.parent else "down"][kind] += 1
        if net.watchers and (watcher := net.watchers.get(kind)) is not None:
            watcher(leaves, host.id, to, message)  # type: ignore[arg-type]
        connection = host.connections.get(to) or self._connect(host, to, False)
        self.transmit(connection, Received(host.id, message), leaves)

    def _multicast(self, host: Host, effect: Multicast) -> None:
        net = self._network
        message = self._timely(effect.message) if net.expiring else effect.message
        if message is None:
            return
        leaves = net.now if self.at_once else self.leave(host, effect)
        if leaves is None:
            return
        kind = type(message)
        self.sent["multicast"][kind] += 1
        if net.watchers and (watcher := net.watchers.get(kind)) is not None:
            watcher(leaves, host.id, None, message)  # type: ignore[arg-type]
        group = host.group
        if group is None:
            others = (other for other in net.positions[host.id].members if other != host.id)
            group = host.group = self._links_to(host, others)
        received, shaken = Received(host.id, message), net.link_faults.shakes
        heap, order = net.heap, net.order
        for connection in group:
            if connection.plain and not shaken and connection.target.alive and not self._strangers:
                heappush(heap, (leaves + connection.delay_seconds, next(order), connection.arrive, received))
            else:
                self.transmit(connection, received, leaves)

    def _timely(self, message: M) -> M | Events | None:
        """Return a message without the events that are past their time to live; None if nothing is left."""
        if not isinstance(message, Events):
            return message
        left, gone = passable(message, self._network.now)
        self._network.past_ttl += gone
        return left

    def leave(self, host: Host, effect: Effect, copies: int = 1) -> float | None:
        """Return when an effect's messages leave, of several the middle one; None if they are dropped."""
        net = self._network
        turn = net.now if net.queues is None else net.queues.leave(host, effect)
        if turn is None:
            return None
        leaves = turn
        busy = net.links.send_seconds
        if busy:
            start = max(leaves, host.free_at)
            host.free_at = start + busy * copies
            leaves = start + busy * (copies + 1) / 2
        if net.telemetry is not None:
            net.telemetry.effect(leaves, host, effect)
        return leaves

    def _regroup(self, host: Host, effect: Regroup) -> None:
        host.group = self._links_to(host, effect.members)

    def _links_to(self, host: Host, members: Iterable[BrokerId]) -> list[Connection]:
        return [host.group_connections.get(other) or self._connect(host, other, True) for other in members]

    def transmit(self, connection: Connection, received: Received, leaves: float) -> None:
        """Send a message over one link at time `leaves`."""
        net = self._network
        if self._strangers and not connection.reaches(leaves, counts=not is_beat(received.message)):
            self._lose(connection, received, leaves, _unreached(connection))
            self._seek(connection.source, connection.target)
            return
        if connection.plain and connection.target.alive and not net.link_faults.shakes:
            arrives = leaves + connection.delay_seconds
            heappush(net.heap, (arrives, next(net.order), connection.arrive, received))
            return
        if not connection.target.alive:
            self._lose(connection, received, leaves, f"broker {connection.target.id} is dead")
            return
        if connection.broken and not is_beat(received.message):
            self._lose(
                connection, received, leaves, "the connection broke, and its sender has not renewed it"
            )
            return
        if self._datagrams is not None:
            copies = self._datagrams.arrivals(leaves + connection.delay_seconds, net.rng)
            if not copies:
                self._lose(connection, received, leaves, "the link lost the datagram")
            for arrives in copies:
                self._under_way(connection, received, leaves, arrives)
            return
        late = connection.arrival(leaves, net.link_faults)
        if late is None:
            self._lose(connection, received, leaves, "the link lost it")
        else:
            self._under_way(connection, received, leaves, late)

    def _under_way(self, connection: Connection, received: Received, leaves: float, arrives: float) -> None:
        net = self._network
        arrive = connection.arrive
        if net.observer is not None:
            arrive = net.observer.under_way(connection, received, leaves, arrives)
        heappush(net.heap, (arrives, next(net.order), arrive, received))

    def _lose(self, connection: Connection, received: Received, leaves: float, why: str) -> None:
        net = self._network
        net.lost += 1
        if net.observer is not None:
            net.observer.lost(connection, received, leaves, why)
        if net.spectator is not None:
            net.spectator.lost(connection, received, why)

    def release(self, connection: Connection) -> None:
        """Let the messages that a link has held arrive, unless it was cut again meanwhile."""
        if connection.held and connection.pair not in self._network.cuts.reasons:
            held, connection.held = connection.held, None
            for ticket, received in held:
                self._arrive(ticket, received)

    def break_link(self, source: BrokerId, to: BrokerId, *, over_group: bool, after: float = 0.0) -> None:
        """Lose what one broker sends another over one link; the sender learns of the loss `after` seconds later."""
        net = self._network
        host = net.hosts[source]
        connection = host.connections_of(over_group).get(to) or self._connect(host, to, over_group)
        if not connection.broken:
            connection.break_off()
            event = Missed(to, over_group, after)
            net.at(net.now + after, self._tell_missed, connection, host.incarnation, event)

    def _seek(self, here: Host, other: Host) -> None:
        """Let a process that found another one dead look up its new one, if the rendezvous point is reachable."""
        net = self._network
        point, pair = net.rendezvous, pair_of(here.id, RENDEZVOUS)
        if point is not None and point.alive and other.alive and pair not in net.cuts.reasons:
            net.at(net.now + 2 * LINK_SECONDS, self._found, here, here.incarnation, other, other.incarnation)

    def _found(self, here: Host, incarnation: int, other: Host, other_incarnation: int) -> None:
        if here.alive and (here.incarnation, other.incarnation) == (incarnation, other_incarnation):
            self._hear(here, other)

    def _hear(self, here: Host, other: Host) -> None:
        """Note that a process hears another one: report what was lost since the other one restarted."""
        for over_group in (False, True):
            connection = here.connections_of(over_group).get(other.id)
            if connection is None or connection.knows_target:
                continue
            lost_at = connection.lost_at if connection.source_incarnation == here.incarnation else None
            connection.meet()
            if lost_at is not None and not connection.broken:
                connection.break_off()
                event = Missed(other.id, over_group, self._network.now - lost_at, anew=True)
                self._network.take_in(here, event)

    def _tell_missed(self, connection: Connection, incarnation: int, event: Missed) -> None:
        if connection.source.alive and connection.source.incarnation == incarnation:
            self._network.take_in(connection.source, event)

    def _renew(self, host: Host, effect: Renew) -> None:
        host.connections_of(effect.over_group)[effect.broker].broken_incarnation = -1

    def _connect(self, host: Host, to: BrokerId, group: bool) -> Connection:
        net = self._network
        target = net.rendezvous if to == RENDEZVOUS else net.hosts.get(to)
        if target is None:
            raise InputError(f"broker {host.id} sends to {to}, which is not there")
        near = host.cluster == target.cluster
        delay = net.links.group_seconds if near else net.links.delay_seconds
        if delay is None and self._delay_of is not None and RENDEZVOUS not in (to, host.id):
            delay = self._delay_of(host.id, to)
        elif delay is None:
            delay = GROUP_SECONDS if near else LINK_SECONDS
        connection = Connection(host, target, delay, net.links, self._arrive, self._names[group])
        connection.plain = connection.plain and net.plain and self._datagrams is None
        host.connections_of(group)[to] = connection
        target.links.append(connection)
        if not self._last_words:
            host.links.append(connection)
        return connection


def _unreached(connection: Connection) -> str:
    """Return why a message reaches nobody where messages go to a process."""
    target = connection.target
    if not target.alive:
        return f"broker {target.id} is dead"
    return f"broker {connection.source.id} does not know yet that broker {target.id} was restarted"


def _arrival_in(net: Whole, hear: Callable[[Host, Host], None] | None) -> Callable[[Ticket, Received], None]:
    """Return the function that takes arriving messages; a plain function, since it is called for each of them."""
    cut = net.cuts.reasons

    def arrive(ticket: Ticket, received: Received) -> None:
        if not ticket:
            net.lost += 1
            return
        connection = ticket[0]
        if connection.held or (cut and connection.pair in cut):
            connection.held = connection.held or []
            connection.held.append((ticket, received))
            return
        host = connection.target
        if host.plain:  # a shortcut for `step` that skips what a plain host does not need
            net.steps += 1
            carry_out = net.carry_out
            for effect in host.handle(received):
                carry_out[type(effect)](host, effect)  # type: ignore[arg-type]
            return
        if hear is not None:
            hear(host, connection.source)
        if net.heals and type(received.message) in TIMED:
            net.take_in(host, None)
        net.take_in(host, received)

    return arrive
