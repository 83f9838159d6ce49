"""A hostile network with its clients: they notice that their broker is dead, and go on at another one.

Rules
-----
* A client learns `client_detect_seconds` after its broker's death that its connection is gone. It moves to a living
  member of the same cluster (perhaps the same broker, started afresh), or, when the whole cluster is dead, to any
  living broker; when there is none it looks again as long after.
* Messages between a client and its broker arrive in order, or not at all when the broker dies first, or the client has
  left it.
* Everything that clients do and hear is written down with its time, for the judge.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..faults.clients import PublisherMachine, SubscriberMachine
from ..faults.trace import Trace
from ..protocol.configs import Position
from ..protocol.effects import Confirm, Deliver, Propose, Received, Ticked
from ..protocol.errors import ClientError
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import ClientMessage, Detach
from ..protocol.recovery import Recovery
from ..routing.language import to_filter
from .hostile import HostileNetwork
from .hosts import Host


@dataclass(frozen=True, slots=True)
class FromClient(Received):
    """A message from a client, and over which of its connections it came."""

    connection: int


class Session:
    """A client, and where it is attached: to which life of a broker, over which of its connections."""

    __slots__ = ("connection", "home", "life", "machine", "name")

    def __init__(self, name: ClientId, machine: SubscriberMachine | PublisherMachine, home: Host) -> None:
        self.name = name
        self.machine = machine
        self.home = home
        self.life = home.life
        self.connection = 0


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
    """

    def __init__(
        self, positions: Sequence[Position], *args: Any, client_detect_seconds: float = 1.0, **options: Any
    ) -> None:
        self.sessions: dict[ClientId, Session] = {}
        self.account = Trace()
        self.moves = 0
        super().__init__(positions, *args, **options)
        self.client_detect_seconds = client_detect_seconds
        self._client_dice = random.Random(f"clients/{self._seed}")
        keep = self.recovery or Recovery()
        self._retention = keep.retention_events_max, keep.retention_seconds

    # What clients do.

    def subscribe(self, client: ClientId, broker: BrokerId, selector: str, number: int) -> None:
        """Subscribe; a client that is new attaches to `broker`.

        Raises
        ------
        SelectorError, FilterTooComplex, ClientError
            If the filter cannot be read, the broker is dead, or the client is a publisher.
        """
        wanted = to_filter(selector)
        session = self.sessions.get(client) or self._attach(client, broker, SubscriberMachine())
        machine = _subscriber(session)
        self.account.subscribed(self.now, client, number, selector)
        self._tell(session, machine.subscribe(number, wanted))

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

    def move(self, client: ClientId, broker: BrokerId) -> bool:
        """Let a client leave its broker and go on at another; return False when that one is dead, or the same."""
        session, target = self.sessions[client], self.hosts[broker]
        if not target.alive or target is session.home:
            return False
        if session.home.alive and session.life == session.home.life:
            self._tell(session, [Detach()])
        self._settle_at(session, target)
        return True

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
        again = machine.moved(self.now) if isinstance(machine, PublisherMachine) else machine.moved()
        self._tell(session, again)

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

    def _step(self, host: Host, event: Received | Ticked) -> None:
        if isinstance(event, FromClient):
            host.attached[event.source] = event.connection  # type: ignore[index]
        super()._step(host, event)

    def _deliver(self, host: Host, effect: Deliver) -> None:
        over = [host.attached.get(client) for client in effect.clients]
        self.at(self.now + self.links.client_seconds, self._notify, host, host.life, over, effect)

    def _notify(self, host: Host, life: int, over: list[int | None], effect: Deliver) -> None:
        batch, starts, rows = effect.batch, effect.starts.tolist(), effect.rows.tolist()
        for place, client in enumerate(effect.clients):
            session = self._listening(client, host, life, over[place])
            if session is None:
                continue
            machine = _subscriber(session)
            for row in rows[starts[place] : starts[place + 1]]:
                publisher, sequence = batch.identity(row)
                machine.notified(publisher, sequence)
                self.account.notified(self.now, client, publisher, sequence)

    def _confirm(self, host: Host, effect: Confirm) -> None:
        arrives = self.now + self.links.client_seconds
        self.at(arrives, self._confirmed, host, host.life, host.attached.get(effect.client), effect)

    def _confirmed(self, host: Host, life: int, over: int | None, effect: Confirm) -> None:
        session = self._listening(effect.client, host, life, over)
        if session is not None:
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
        if not super().crash(broker):
            return False
        for session in self.sessions.values():
            if session.home.id == broker:
                self.at(self.now + self.client_detect_seconds, self._learn, session, session.connection)
        return True

    def _learn(self, session: Session, connection: int) -> None:
        if session.connection != connection:
            return  # it has moved meanwhile
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
            if isinstance(session.machine, SubscriberMachine)
            for number in sorted(session.machine.unconfirmed)
        ]


def _subscriber(session: Session) -> SubscriberMachine:
    if not isinstance(session.machine, SubscriberMachine):
        raise ClientError(f"{session.name!r} is a publisher")
    return session.machine
