"""A hostile network with its clients: they notice that their broker is dead, and go on at another one.

Rules
-----
* A client learns `client_detect_seconds` after its broker's death that its connection is gone. It moves to a living
  member of the same cluster (perhaps the same broker, started afresh), or, when the whole cluster is dead, to any
  living broker; when there is none it looks again as long after.
* Messages between a client and its broker arrive in order, or not at all when the broker dies first, or the client has
  left it.
* A publisher, or a durable subscriber, may die too. What it was given and has not acknowledged it has not had. A
  subscriber comes back to its broker if that is alive, else where one goes whose broker died. A publisher waits for a
  broker that has accepted its last events, and goes on behind what that knows; when none of them ever comes back it
  goes elsewhere, under numbers that it cannot have used.
* Everything that clients do and hear is written down with its time, for the judge.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..chaos.account import Account
from ..faults.clients import PublisherMachine, SubscriberMachine
from ..protocol.batch import EventBatch
from ..protocol.configs import Position
from ..protocol.effects import Confirm, Deliver, Drained, Flushed, Missed, Propose, Received, Report, Ticked
from ..protocol.errors import ClientError
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import ClientMessage, Detach, Events, Flush
from ..protocol.recovery import Recovery
from ..routing.language import to_filter
from .hostile import HostileNetwork
from .hosts import Host

ACKNOWLEDGE_SECONDS: Final = 0.7
"""How long a durable subscriber works on what it was given, before it acknowledges."""


@dataclass(frozen=True, slots=True)
class FromClient(Received):
    """A message from a client, and over which of its connections it came."""

    connection: int


class Session:
    """A client, and where it is attached: to which life of a broker, over which of its connections.

    Attributes
    ----------
    alive
        Whether its process runs.
    heard_at
        When it surely had all that its broker had for it.
    homes
        Of a publisher: the brokers that may have accepted its last events.
    """

    __slots__ = ("alive", "connection", "heard_at", "home", "homes", "life", "machine", "name")

    def __init__(self, name: ClientId, machine: SubscriberMachine | PublisherMachine, home: Host) -> None:
        self.name = name
        self.machine = machine
        self.home = home
        self.life = home.life
        self.connection = 0
        self.alive = True
        self.heard_at = 0.0
        self.homes: list[Host] = [home]

    @property
    def is_publisher(self) -> bool:
        """Whether it publishes."""
        return isinstance(self.machine, PublisherMachine)


class HostileSimulation(HostileNetwork):
    """Brokers and clients in a hostile world; for the parameters see :class:`HostileNetwork`.

    Parameters
    ----------
    client_detect_seconds
        How long a client takes to notice that its broker is dead.

    Attributes
    ----------
    account
        What clients did and heard: the trace of the run.
    moves
        How often a client changed its broker.
    flushed
        (time, publisher, number) of each question of a publisher that was answered.
    """

    def __init__(
        self, positions: Sequence[Position], *args: Any, client_detect_seconds: float = 1.0, **options: Any
    ) -> None:
        self.sessions: dict[ClientId, Session] = {}
        self.account = Account()
        self.moves = 0
        self.flushed: list[tuple[float, ClientId, int]] = []
        super().__init__(positions, *args, **options)
        self.client_detect_seconds = client_detect_seconds
        self._client_dice = random.Random(f"clients/{self._seed}")
        keep = self.recovery or Recovery()
        self._retention = keep.retention_events_max, keep.retention_seconds

    # What clients do.

    def subscribe(
        self, client: ClientId, broker: BrokerId, selector: str, number: int, *, durable: bool = False
    ) -> None:
        """Subscribe; a client that is new attaches to `broker`.

        Raises
        ------
        SelectorError, FilterTooComplex, ClientError
            If the filter cannot be read, the broker is dead, or the client is a publisher.
        """
        wanted = to_filter(selector)
        session = self.sessions.get(client)
        if session is None:
            session = self._attach(client, broker, SubscriberMachine(durable=durable))
            if durable:
                self._tell(session, _subscriber(session).arrive(self.now))
        machine = _subscriber(session)
        self.account.subscribed(self.now, client, number, selector)
        self._tell(session, machine.subscribe(number, wanted, self.now))

    def unsubscribe(self, client: ClientId, number: int) -> None:
        """Cancel a subscription."""
        session = self.sessions[client]
        self.account.cancelled(self.now, client, number)
        self._tell(session, _subscriber(session).cancel(number))

    def publish(self, client: ClientId, broker: BrokerId, events: Iterable[Mapping[str, Any]]) -> range:
        """Publish events as one batch; return their sequences. A client that is new attaches to `broker`."""
        session = self.sessions.get(client)
        if session is None:
            session = self._attach(client, broker, PublisherMachine(client, *self._retention))
        machine = session.machine
        if not isinstance(machine, PublisherMachine):
            raise ClientError(f"{client!r} is a subscriber")
        given = list(events)
        first = machine.published + 1
        messages = machine.publish(given, self.now)
        self.account.published(self.now, client, first, given)
        self._tell(session, messages)
        return range(first, first + len(given))

    def flush(self, client: ClientId, number: int) -> None:
        """Let a publisher ask for all that it has published to be delivered; see `flushed`."""
        self._tell(self.sessions[client], [Flush(number)])

    def acknowledge(self, client: ClientId) -> None:
        """Let a durable subscriber acknowledge all that it was given."""
        session = self.sessions[client]
        if session.alive:
            self._tell(session, _subscriber(session).acknowledge())

    def stop(self, client: ClientId) -> bool:
        """Kill the process of a publisher or a durable subscriber; return False when it is dead, or of no such kind."""
        session = self.sessions[client]
        machine = session.machine
        if not session.alive or (isinstance(machine, SubscriberMachine) and not machine.durable):
            return False
        session.alive = False
        session.connection += 1
        if isinstance(machine, SubscriberMachine):
            machine.died()
            self.account.rolled_back(client, machine.position)
        else:
            self.account.died(client)
        return True

    def start(self, client: ClientId) -> bool:
        """Start a client's process again; return False when it runs, or a publisher has to wait for its broker."""
        session = self.sessions[client]
        if session.alive:
            return False
        if isinstance(session.machine, SubscriberMachine):
            session.alive = True
            if session.home.alive:
                self._settle_at(session, session.home)
            else:
                self._learn(session, session.connection)
            return True
        return self._start_publisher(session, session.machine)

    def _start_publisher(self, session: Session, machine: PublisherMachine) -> bool:
        """Start a publisher where most is known of it, when all brokers that may know of it answer."""
        if any(not host.alive or host.paused or host.waiting for host in session.homes):
            return False
        known = {host.id: host.machine.accepted(session.name) for host in session.homes}
        best = max(known, key=lambda broker: known[broker])
        session.alive = True
        machine.come_back(self.now, known[best], self.hosts[best].machine.kept_of(session.name))
        session.homes = [self.hosts[best]]
        self._settle_at(session, self.hosts[best])
        return True

    def stopped(self) -> list[ClientId]:
        """Return the clients whose process is dead."""
        return [name for name, session in self.sessions.items() if not session.alive]

    def homeless(self, client: ClientId) -> bool:
        """Return whether a broker is dead that may have accepted a publisher's last events."""
        return any(not host.alive for host in self.sessions[client].homes)

    def start_elsewhere(self, client: ClientId) -> None:
        """Start a publisher, a broker of which is dead for good, under numbers that it has not used."""
        session = self.sessions[client]
        assert isinstance(session.machine, PublisherMachine)
        session.alive = True
        alive = [host for host in session.homes if host.alive]
        session.homes = []
        kept = alive[0].machine.kept_of(client) if alive else []
        session.machine.come_back(self.now, session.machine.published, kept)
        self._settle_at(session, alive[0] if alive else self.hosts[self.living()[0]])

    def move(self, client: ClientId, broker: BrokerId) -> bool:
        """Let a client leave its broker and go on at another.

        Returns False when that one is dead, or the same, or the client has never come to a broker.
        """
        session, target = self.sessions.get(client), self.hosts[broker]
        if session is None or not session.alive or not target.alive or target is session.home:
            return False
        if session.home.alive and session.life == session.home.life:
            self._tell(session, [Detach()])
            if not session.home.paused:
                self._has_heard(session)
        self._settle_at(session, target)
        return True

    def _has_heard(self, session: Session) -> None:
        """Note that its broker was there up to now: clients ask for news all the time."""
        if session.alive and session.life == session.home.life:
            session.heard_at = max(session.heard_at, self.now - self.links.client_seconds)

    def _attach(
        self, client: ClientId, broker: BrokerId, machine: SubscriberMachine | PublisherMachine
    ) -> Session:
        home = self.hosts[broker]
        if not home.alive:
            raise ClientError(f"client {client!r}: broker {broker} is dead")
        session = self.sessions[client] = Session(client, machine, home)
        return session

    def _settle_at(self, session: Session, target: Host) -> None:
        session.home, session.life = target, target.life
        session.connection += 1
        self.moves += 1
        machine = session.machine
        if isinstance(machine, PublisherMachine):
            session.homes.append(target)
            self._tell(session, machine.moved(self.now))
        else:
            self._tell(session, machine.arrive(self.now, self.now - session.heard_at))
        session.heard_at = self.now

    # Between a client and its broker.

    def _tell(self, session: Session, messages: Sequence[ClientMessage]) -> None:
        arrives = self.now + self.links.client_seconds
        for message in messages:
            given = FromClient(session.name, message, session.connection)
            self.at(arrives, self._reach, session.home, session.life, given)

    def _reach(self, host: Host, life: int, given: FromClient) -> None:
        if host.alive and host.life == life:
            self._take_in(host, given)
        else:
            self.lost += 1

    def _step(self, host: Host, event: Received | Ticked | Drained | Missed) -> None:
        if isinstance(event, FromClient):
            host.attached[event.source] = event.connection  # type: ignore[index]
        super()._step(host, event)
        if isinstance(event, FromClient) and isinstance(event.message, Events) and len(event.message.batch):
            self._accepted(host, event)

    def _accepted(self, host: Host, event: FromClient) -> None:
        """Take in that a broker has accepted events; that it did is known to the publisher a while later."""
        batch: EventBatch = event.message.batch  # type: ignore[union-attr]
        events = [batch.identity(row) for row in range(len(batch))]
        self.account.accepted(host.id, events)
        name, last = events[-1]

        def tell() -> None:
            session = self.sessions[name]
            machine = session.machine
            if session.connection != event.connection or not isinstance(machine, PublisherMachine):
                return
            machine.accept(last, self.now)
            if machine.published == last:
                session.homes = [host]  # it has everything

        self.at(self.now + self.links.client_seconds, tell)

    def _deliver(self, host: Host, effect: Deliver) -> None:
        over = [host.attached.get(client) for client in effect.clients]
        self.at(self.now + self.links.client_seconds, self._notify, host, host.life, over, effect)

    def _notify(self, host: Host, life: int, over: list[int | None], effect: Deliver) -> None:
        batch, starts = effect.batch, effect.starts.tolist()
        for place, client in enumerate(effect.clients):
            session = self._listening(client, host, life, over[place])
            if session is None:
                continue
            machine = _subscriber(session)
            session.heard_at = self.now
            mine = effect.rows[starts[place] : starts[place + 1]]
            for row in (machine.admit(batch, mine) if machine.durable else mine).tolist():
                publisher, sequence = batch.identity(row)
                machine.notified(publisher, sequence)
                self.account.notified(self.now, client, publisher, sequence)
            if machine.durable:
                self.at(self.now + ACKNOWLEDGE_SECONDS, self._acknowledge_later, session, session.connection)

    def _acknowledge_later(self, session: Session, connection: int) -> None:
        if session.connection == connection:
            self.acknowledge(session.name)

    def _report(self, host: Host, effect: Report) -> None:
        arrives = self.now + self.links.client_seconds
        self.at(arrives, self._reported, host, host.life, host.attached.get(effect.client), effect)

    def _reported(self, host: Host, life: int, over: int | None, effect: Report) -> None:
        session = self._listening(effect.client, host, life, over)
        if session is not None:
            self.account.told(self.now, effect.client, _subscriber(session).lost(effect.losses))

    def _flushed(self, host: Host, effect: Flushed) -> None:
        arrives = self.now + self.links.client_seconds
        self.at(arrives, self._answered, host, host.life, host.attached.get(effect.client), effect)

    def _answered(self, host: Host, life: int, over: int | None, effect: Flushed) -> None:
        if self._listening(effect.client, host, life, over) is not None:
            self.flushed.append((self.now, effect.client, effect.number))

    def _confirm(self, host: Host, effect: Confirm) -> None:
        arrives = self.now + self.links.client_seconds
        self.at(arrives, self._confirmed, host, host.life, host.attached.get(effect.client), effect)

    def _confirmed(self, host: Host, life: int, over: int | None, effect: Confirm) -> None:
        session = self._listening(effect.client, host, life, over)
        if session is not None:
            session.heard_at = self.now
            _subscriber(session).confirmed(effect.subscription)
            self.account.confirmed(self.now, effect.client, effect.subscription)

    def _propose(self, host: Host, effect: Propose) -> None:
        arrives = self.now + self.links.client_seconds
        over = host.attached.get(effect.client)
        self.at(arrives, self._proposed, host, host.life, over, effect)

    def _proposed(self, host: Host, life: int, over: int | None, effect: Propose) -> None:
        if self._listening(effect.client, host, life, over) is not None:
            self.move(effect.client, effect.broker)

    def _listening(self, client: ClientId, host: Host, life: int, over: int | None) -> Session | None:
        """Return the client's session if what that broker has sent it still reaches it."""
        session = self.sessions[client]
        here = session.home is host and session.life == life == host.life and host.alive
        return session if here and session.connection == over else None

    # When the broker dies.

    def crash(self, broker: BrokerId) -> bool:
        """Kill a broker's process; its clients learn of it a while later."""
        paused = broker in self.hosts and self.hosts[broker].paused
        if not super().crash(broker):
            return False
        for session in self.sessions.values():
            if session.home.id == broker:
                if not paused:
                    self._has_heard(session)
                self.at(self.now + self.client_detect_seconds, self._learn, session, session.connection)
        return True

    def _learn(self, session: Session, connection: int) -> None:
        if session.connection != connection or not session.alive:
            return  # it has moved meanwhile, or died itself
        staying = self.staying()
        near = [broker for broker in self.members_at_start(session.home.cluster) if broker in staying]
        choice = near or staying
        if choice:
            self._settle_at(session, self.hosts[self._client_dice.choice(choice)])
        else:
            self.at(self.now + self.client_detect_seconds, self._learn, session, connection)

    def members_at_start(self, cluster: int) -> tuple[BrokerId, ...]:
        """Return the brokers of a cluster, dead or alive."""
        return self.members[cluster]

    def unconfirmed(self) -> list[tuple[ClientId, int]]:
        """Return the subscriptions that their present broker has not confirmed."""
        return [
            (name, number)
            for name, session in self.sessions.items()
            if isinstance(session.machine, SubscriberMachine) and session.alive
            for number in sorted(session.machine.unconfirmed)
        ]


def _subscriber(session: Session) -> SubscriberMachine:
    if not isinstance(session.machine, SubscriberMachine):
        raise ClientError(f"{session.name!r} is a publisher")
    return session.machine
