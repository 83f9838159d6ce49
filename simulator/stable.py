"""Brokers that recover from crashes, and their clients, over links that lose, double and reorder, in virtual time.

Rules
-----
* A broker's store outlives it; started again, it reads it. So it is with a fixed tree: nobody takes its place.
* Links between brokers are datagrams: each message may be lost, arrive twice, or overtake others.
* A client stays at its broker. When that one has died and is there again, the client connects again a while later: it
  says BACK, and sends what is not acknowledged again. Between a client and one life of its broker messages arrive in
  order.
* With admission control a publisher publishes once what it advertises is known everywhere; until then it holds what it
  is given. A subscription that is refused counts as cancelled.
* Everything that clients do and hear is written down with its time, for the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..actors.broker import Broker
from ..chaos.books import Clients
from ..faults.client_link import ClientLink
from ..faults.stores import MemoryStore, Store
from ..faults.trace import Trace
from ..protocol.admission import MICRO, AdmissionConfig, Advertise, Everywhere, Judgement, News, Standing
from ..protocol.batch import batch_of
from ..protocol.configs import Position
from ..protocol.effects import Acknowledge, Confirm, Deliver, Inform, Received, Ticked
from ..protocol.errors import ClientError
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Cancel, ClientMessage, Events, Register
from ..protocol.stability import Stability
from ..routing.language import to_filter
from .connections import Connection, Underway
from .hostile import HostileNetwork
from .hosts import Host, Machine


@dataclass(frozen=True, slots=True)
class Datagrams:
    """How bad the links between brokers are: chances from 0 to 1, and how much later a message may be than another."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder_seconds: float = 0.0


class _Client:
    """A publisher or subscriber, and to which life of its broker it is connected."""

    __slots__ = ("home", "life", "link", "name")

    def __init__(self, name: ClientId, home: Host) -> None:
        self.name = name
        self.home = home
        self.life = home.life
        self.link = ClientLink()

    @property
    def connected(self) -> bool:
        return self.home.alive and self.home.life == self.life


class StableSimulation(HostileNetwork):
    """Brokers with stores, and their clients; for the parameters see :class:`HostileNetwork`.

    Parameters
    ----------
    stability
        Times and limits of the brokers.
    datagrams
        How bad the links are.
    store
        Makes the store of a broker; in memory when None.
    admission
        What brokers admit, and what they can carry; None for everything.

    Attributes
    ----------
    books
        What clients advertise, want and were told, for whoever looks at the books from outside.
    account
        What clients did and heard.
    stores
        The store of each broker.
    """

    def __init__(
        self,
        positions: Sequence[Position],
        scheme: str = "hybrid",
        *,
        stability: Stability | None = None,
        datagrams: Datagrams | None = None,
        store: Callable[[BrokerId], Store] | None = None,
        admission: AdmissionConfig | None = None,
        **options: Any,
    ) -> None:
        self.account = Trace()
        self.stability = stability or Stability()
        self.datagrams = datagrams or Datagrams()
        self.stores: dict[BrokerId, Store] = {}
        self.admission = admission
        self.books = Clients()
        self._held: dict[
            ClientId, list[tuple[BrokerId, list[Mapping[str, Any]]]]
        ] = {}  # until it may publish
        self._make_store = store
        self._clients: dict[tuple[str, ClientId], _Client] = {}
        super().__init__(positions, scheme, **options)
        self._carry_out |= {Acknowledge: self._acknowledge, Inform: self._inform}

    def _host(self, place: Position, *, founds: bool = False, before: int = 0) -> Host:
        store = MemoryStore() if self._make_store is None else self._make_store(place.broker)
        self.stores[place.broker] = store

        def boot(life: int) -> Machine:
            return Broker(place, self.scheme, store=store, stability=self.stability, admission=self.admission)

        return Host(place.broker, place.cluster, boot, store)

    def _start_ticking(self, host: Host) -> None:
        self._step(host, Ticked(self.now))
        period = self.stability.retransmit_seconds / 2
        self.at(self.now + period * (1.0 - self._dice.random()), self._tick, host, host.life, period)

    def _transmit(self, connection: Connection, message: Any) -> None:
        bad, dice = self.datagrams, self._dice
        if not connection.target.alive or dice.random() < bad.loss:
            self.lost += 1
            return
        entry = Underway(connection, message, connection.source.life, connection.target.life)
        for _ in range(1 + (dice.random() < bad.duplicate)):
            late = dice.random() * bad.reorder_seconds
            self.at(self.now + connection.delay_seconds + late, self._arrive, entry)

    # What clients do.

    def advertise(self, client: ClientId, broker: BrokerId, selector: str, rate: float) -> None:
        """Let a publisher say what it will publish, and how fast at most; a client that is new attaches to `broker`."""
        item = to_filter(selector)
        self.books.homes[client] = broker
        self.books.adverts[client] = item
        self._held[client] = []
        session = self._session("wishes", client, broker)
        self._send_numbered(session, Advertise(1, item, round(rate * MICRO)))

    def subscribe(
        self, client: ClientId, broker: BrokerId, selector: str, number: int, priority: int = 0
    ) -> None:
        """Subscribe; a client that is new attaches to `broker`.

        Raises
        ------
        SelectorError, FilterTooComplex, ClientError
            If the filter cannot be read, or the broker is dead.
        """
        wanted = to_filter(selector)
        session = self._session("wishes", client, broker)
        self.account.subscribed(self.now, client, number, selector)
        self.books.homes[client] = session.home.id
        self.books.wanted.setdefault(client, {})[number] = wanted
        self._send_numbered(session, Register(number, wanted, priority))

    def unsubscribe(self, client: ClientId, number: int) -> None:
        """Cancel a subscription; one that was refused is gone already."""
        if self.books.wanted[client].pop(number, None) is None:
            return
        self.account.cancelled(self.now, client, number)
        self._send_numbered(self._clients["wishes", client], Cancel(number))

    def publish(self, client: ClientId, broker: BrokerId, events: Iterable[Mapping[str, Any]]) -> None:
        """Publish events as one batch, once it may; a client that is new attaches to `broker`."""
        if client in self._held:
            self._held[client].append((broker, list(events)))
            return
        session = self._session("events", client, broker)
        given = list(events)
        first = session.link.sent + 1
        batch = batch_of(given, publisher=client, first_sequence=first, published_at=self.now)
        self.account.published(self.now, client, first, given)
        self._send_numbered(session, Events(batch), len(batch))

    def _session(self, about: str, client: ClientId, broker: BrokerId) -> _Client:
        session = self._clients.get((about, client))
        if session is None:
            home = self.hosts[broker]
            if not home.alive:
                raise ClientError(f"client {client!r}: broker {broker} is dead")
            session = self._clients[about, client] = _Client(client, home)
            self._tell(session, session.link.back())
            self._remind(session)
        return session

    def _send_numbered(self, session: _Client, message: Any, count: int = 1) -> None:
        self._tell(session, [session.link.send(message, count)])

    def _tell(self, session: _Client, messages: Iterable[ClientMessage]) -> None:
        arrives = self.now + self.links.client_seconds
        for message in messages:
            self.at(arrives, self._reach, session.home, session.life, Received(session.name, message))

    def _reach(self, host: Host, life: int, given: Received) -> None:
        if host.alive and host.life == life:
            self._take_in(host, given)
        else:
            self.lost += 1

    def _remind(self, session: _Client) -> None:
        """Send what is not acknowledged again, now and then; connect again when the broker has died meanwhile."""
        if session.connected:
            self._tell(session, session.link.kept())
        elif session.home.alive:
            session.life = session.home.life
            self._tell(session, session.link.back())
        self.at(self.now + 2 * self.stability.retransmit_seconds, self._remind, session)

    # What clients hear.

    def _hear(self, about: str, client: ClientId, host: Host, life: int, heard: Callable[..., None]) -> None:
        session = self._clients[about, client]
        if session.connected and session.life == life and session.home is host:
            heard(session)

    def _acknowledge(self, host: Host, effect: Acknowledge) -> None:
        def heard(session: _Client) -> None:
            session.link.acknowledged(effect.number)

        arrives = self.now + self.links.client_seconds
        self.at(arrives, self._hear, effect.about, effect.client, host, host.life, heard)

    def _deliver(self, host: Host, effect: Deliver) -> None:
        for place, client in enumerate(effect.clients):
            rows = effect.rows[effect.starts[place] : effect.starts[place + 1]].tolist()

            def heard(session: _Client, rows: list[int] = rows) -> None:
                new, answer = session.link.take(effect.number)
                for row in rows if new else ():
                    self.account.notified(self.now, session.name, *effect.batch.identity(row))
                self._tell(session, [answer])

            self.at(
                self.now + self.links.client_seconds, self._hear, "wishes", client, host, host.life, heard
            )

    def _confirm(self, host: Host, effect: Confirm) -> None:
        def heard(session: _Client) -> None:
            new, answer = session.link.take(effect.number)
            if new:
                self.account.confirmed(self.now, session.name, effect.subscription)
            self._tell(session, [answer])

        arrives = self.now + self.links.client_seconds
        self.at(arrives, self._hear, "wishes", effect.client, host, host.life, heard)

    def _inform(self, host: Host, effect: Inform) -> None:
        def heard(session: _Client) -> None:
            new, answer = session.link.take(effect.number)
            if new:
                self._informed(session.name, effect.news)
            self._tell(session, [answer])

        arrives = self.now + self.links.client_seconds
        self.at(arrives, self._hear, "wishes", effect.client, host, host.life, heard)

    def _informed(self, client: ClientId, news: News) -> None:
        if isinstance(news, Everywhere):
            for broker, events in self._held.pop(client, ()):
                self.publish(client, broker, events)
        elif isinstance(news, Standing):
            self.books.lacking.setdefault(client, {})[news.number] = news.refusals
        elif (
            isinstance(news, Judgement)
            and not news.admitted
            and self.books.wanted[client].pop(news.number, None) is not None
        ):
            self.books.refused += 1
            self.account.cancelled(self.now, client, news.number)

    # Rest.

    def settle(self, seconds_max: float = 120.0) -> bool:
        """Let time pass until everything is acknowledged; return False when that takes too long."""
        until = self.now + seconds_max
        calm = 0
        while calm < 2:
            if self.now > until:
                return False
            self.advance(self.stability.retransmit_seconds)
            calm = calm + 1 if self._calm() else 0
        self.account.settled(self.now)
        return True

    def _calm(self) -> bool:
        if any(len(session.link) or not session.connected for session in self._clients.values()):
            return False
        for host in self.hosts.values():
            stable = host.machine.stable if host.alive else None
            if stable is None or stable.unacknowledged or stable.describe()["unheard"]:
                return False
        return True
