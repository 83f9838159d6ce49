"""A whole system in virtual time: brokers, and clients that subscribe, publish and are notified.

Rules
-----
* A client attaches to the broker where it first does something. Where brokers heal it may move to another one
  later; elsewhere it stays there until it detaches.
* A publisher's events are numbered from 1 without gaps. A publisher that advertises publishes its events once the
  advertisement is known everywhere. A refused subscription counts as cancelled.
* A client's request reaches its broker after `client_seconds`, and a notification reaches its client after the same
  time.
* A publisher, or a durable subscriber, may die too. Notifications that it has not acknowledged count as not
  received. A subscriber returns to its broker if that is alive, and otherwise moves as if its broker had died. A
  publisher waits for a broker that accepted its last events, and continues after the last sequence that the broker
  knows. If none of them ever returns, it moves elsewhere, under numbers that it cannot have used.
* Everything that clients do and receive is recorded with its time, for the checker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Never

from ..admission.meters import RateHistory
from ..clients.beginnings import At, Beginning, asked_for, beginning_of, require_history
from ..clients.publisher import PublisherMachine
from ..clients.subscriber import SubscriberMachine
from ..protocol import checks
from ..protocol.batch import EventBatch, batch_of
from ..protocol.configs import DEFAULT_SCHEME, Position
from ..protocol.errors import ClientError, InputError
from ..protocol.expiry import checked_ttl, with_ttl
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages.admission import MICRO, News, WouldAdmit, delay_asked, required
from ..protocol.messages.handover import Bequest
from ..protocol.messages.pubsub import Answers, Cancel, Detach, Register
from ..protocol.queries import AcceptedOf, KeptOf, Owed
from ..protocol.traces.account import Account
from ..recovery.replay.history import HistoryAt
from ..routing.language.questions import FilterLike, to_filter
from ..routing.topologies.cluster_trees import Topology
from .hosts import FromClient, Host
from .network import SimulatedNetwork
from .sessions import CLIENT, ClientSession, Sessions, publisher, subscriber

INSTALL_SECONDS_MAX: Final = 600.0
"""How long to wait for a subscription in a network that never becomes quiescent."""


class ArrivedEvent(NamedTuple):
    """One event at one subscriber, and when it arrived there."""

    time_seconds: float
    publisher: ClientId
    sequence: int


class Simulation(SimulatedNetwork):
    """A deterministic network of brokers with its clients; see :class:`~.network.SimulatedNetwork`.

    Parameters
    ----------
    positions
        A topology, or the places of its brokers, as its `positions()` returns them.
    scheme
        The routing scheme of all brokers, for example ``"hybrid"`` or ``"lbdd"``.
    client_detect_seconds
        How long a client takes to detect that its broker is dead.
    keep_notifications
        Whether to record what clients published and were notified of; if not, only the count is recorded.
    options
        Other parameters of :class:`~.network.SimulatedNetwork`: `recovery`, `admission`, `links`, `seed` and more.

    Attributes
    ----------
    clients
        The clients: where they are, and what they receive.

    Examples
    --------
    >>> from rayvous.routing.topologies.cluster_trees import ClusterTree
    >>> simulation = Simulation(ClusterTree(clusters=3, brokers_per_cluster=2))
    >>> number = simulation.subscribe("alice", 0, "price > 10")
    >>> simulation.run_until_installed("alice", number)
    True
    >>> simulation.publish("bob", 5, [{"price": 12}, {"price": 8}])
    range(1, 3)
    >>> steps = simulation.run()
    >>> simulation.notifications("alice")
    [('bob', 1)]
    """

    def __init__(
        self,
        positions: Topology | Sequence[Position],
        scheme: str = DEFAULT_SCHEME,
        *,
        client_detect_seconds: float = 1.0,
        keep_notifications: bool = True,
        **options: Any,
    ) -> None:
        self._detect_seconds = client_detect_seconds
        self._rates: dict[ClientId, RateHistory] = {}
        self._keep = checks.flag("keep_notifications", keep_notifications)
        super().__init__(positions, scheme, **options)

    def _client_effects(self) -> Mapping[type, Callable[[Host, Never], None]]:
        self.clients = Sessions(self, self._detect_seconds, keep=self._keep)
        if self.queues is not None:
            self.queues.mourn = self._dropped
        return self.clients.effects

    def _taken_in(self, host: Host, event: FromClient) -> None:
        self.clients.taken_in(host, event)

    def _inherited(self, host: Host, bequest: Bequest) -> None:
        self.clients.inherited(host, bequest)

    def _dropped(self, batch: EventBatch, waits: float, deadline: float) -> None:
        if self.clients.keep:
            events = [batch.identity(row) for row in range(len(batch))]
            self.account.shed(self.now, events, "queue", waits, deadline)

    # Operations of clients.

    def subscribe(
        self,
        client: ClientId,
        broker: BrokerId,
        given: FilterLike,
        number: int = 0,
        priority: int = 0,
        *,
        durable: bool = False,
        local_first: bool = False,
        max_delay: float | None = None,
    ) -> int:
        """Subscribe a client, attaching a new client to `broker`; return the number of the subscription.

        Parameters
        ----------
        client, broker
            The client, and where it attaches.
        given
            A filter, or a description of one.
        number
            The client's own number for it; 0 takes the next one.
        priority
            With admission control: the lowest degrades first.
        durable
            For a new client, in a network that heals: whether its broker retains what it has not acknowledged.
        local_first
            Whether publishers at its own broker satisfy it, as long as some of them advertise what it overlaps.
        max_delay
            How long its events may wait for brokers and links, in seconds, for it to be admitted; None for any time.

        Raises
        ------
        InputError
            If the network does not measure how long events wait.
        SelectorError, FilterTooComplex
            If the filter cannot be parsed, or is too large.
        ClientError
            If there is no such broker, it is dead, or the client is attached to another one.
        """
        wanted = to_filter(given)
        checks.whole_number("number", number, 0)
        checks.whole_number("priority", priority)
        checks.flag("local_first", local_first)
        max_delay = delay_asked(self.features.admission, max_delay)
        session = self._subscriber(client, broker, durable=durable)
        machine = subscriber(session)
        number = number or machine.last_number + 1
        text = given if isinstance(given, str) else str(wanted)
        self.clients.account_of(client).subscribed(self.now, client, number, text)
        self.clients.tell(
            session,
            machine.subscribe(
                number, wanted, self.now, priority, local_first=local_first, max_delay=max_delay
            ),
        )
        return number

    def _subscriber(self, client: ClientId, broker: BrokerId, *, durable: bool) -> ClientSession:
        session = self.clients.attach(checks.text("client", client), broker)
        if session.subscriber is None:
            if session.publisher is not None and self.heals:
                raise ClientError(f"{client!r} is a publisher")
            session.subscriber = SubscriberMachine(durable=durable)
            if durable:
                self.clients.account_of(client).durable(self.now, client)
                self.clients.tell(session, session.subscriber.arrive(self.now, incarnation=1))
        return session

    # Durable subscribers that begin in the past.

    def subscribe_at(
        self,
        client: ClientId,
        broker: BrokerId,
        selectors: Sequence[str],
        at: At,
        last_per: str | None = None,
    ) -> Beginning:
        """Subscribe a new durable client, which begins in the past; return where.

        With `last_per` it wants of the past only the last event of each value of this attribute.

        It has a record of its own (`clients.apart`), as what it gets is older than it is.

        Raises
        ------
        InputError
            If it cannot begin there.
        """
        for each in checks.texts("selectors", selectors):
            to_filter(each)
        beginning = self.beginning(at)
        self.clients.apart.setdefault(client, Account(self.features))
        session = self._subscriber(client, broker, durable=True)
        session.begins, session.behind, session.last_per = beginning, [], last_per
        subscriber(session).awaits_past = True
        for selector in selectors:
            self.subscribe(client, broker, selector)
        return beginning

    def rewind(self, client: ClientId, at: At) -> Beginning:
        """Let a durable subscriber begin again in the past, in a new process; return where.

        Raises
        ------
        InputError
            If it cannot begin there.
        ClientError
            If it is not attached.
        """
        session, beginning = self._attached(client), self.beginning(at)
        machine = SubscriberMachine(durable=True)
        machine.restore(subscriber(session).record())
        machine.rewind(beginning.since, beginning.marks)
        session.subscriber, session.held = machine, None
        session.connection += 1
        self.clients.account_of(client).rolled_back(client, machine.acknowledged)
        if session.alive:
            session.alive = False
            self.start(client)
        return beginning

    def beginning(self, at: At) -> Beginning:
        """Return where a subscriber would begin.

        Raises
        ------
        InputError
            If it cannot begin there.
        """
        require_history(self.features)
        asked = asked_for(at, self.now)
        answers = [
            host.machine.ask(HistoryAt(asked.moment))
            for host in self.hosts.values()
            if host.alive and not host.paused
        ]
        return beginning_of(asked, [answer for answer in answers if answer is not None])

    def set_local_first(self, client: ClientId, number: int, local_first: bool) -> None:
        """Make publishers at its own broker suffice for a subscription, or no longer; it keeps its number.

        Raises
        ------
        ClientError
            If the client is not attached.
        """
        session = self._attached(client)
        checks.whole_number("number", number)
        checks.flag("local_first", local_first)
        self.clients.tell(session, subscriber(session).set_local_first(number, local_first))

    def unsubscribe(self, client: ClientId, number: int) -> None:
        """Cancel a subscription; do nothing if it no longer exists because it was refused.

        Raises
        ------
        ClientError
            If the client is not attached.
        """
        session = self._attached(client)
        machine = subscriber(session)
        if checks.whole_number("number", number) > machine.last_number:
            self.clients.tell(session, [Cancel(number)])  # the broker replies that there is none
        elif messages := machine.cancel(number):
            self.clients.account_of(client).cancelled(self.now, client, number)
            self.clients.tell(session, messages)

    def detach(self, client: ClientId) -> None:
        """Cancel all subscriptions of a client; it may attach to another broker afterwards.

        Raises
        ------
        ClientError
            If the client is not attached.
        """
        session = self._attached(client)
        if session.subscriber is not None:
            for number in session.subscriber.subscriptions:
                session.subscriber.cancel(number)
                self.clients.account_of(client).cancelled(self.now, client, number)
        self.clients.come(session, None)
        self.clients.tell(session, [Detach()])
        session.left = True
        self.clients.places.leave(CLIENT, client)

    def publish(
        self,
        client: ClientId,
        broker: BrokerId,
        events: Iterable[Mapping[str, object]],
        *,
        ttl: float | None = None,
    ) -> range:
        """Publish events as one batch; return their sequence numbers. A new client attaches to `broker`.

        Parameters
        ----------
        client, broker, events
            Who publishes what, and where.
        ttl
            Their time to live in seconds; None for events that do not expire.

        Raises
        ------
        EventError
            If an event has a bad name or value.
        InputError
            If `ttl` is not a number of seconds above 0.
        ClientError
            If there is no such broker, it is dead, or the client is attached to another one.
        """
        given = list(checks.instance("events", events, Iterable, "mappings from attribute to value"))
        batch = with_ttl(batch_of(given), checked_ttl(ttl))
        self.expiring = self.expiring or ttl is not None
        session = self._publisher(client, broker)
        machine = publisher(session)
        first = machine.published + 1
        if self.features.admits:
            self._rates.setdefault(client, RateHistory()).saw(len(batch), self.now)
        _, messages = machine.publish(batch, self.now)
        if self.clients.keep:
            self.account.published(self.now, client, first, batch.events())
            self.account.expiring(self.now, client, first, len(batch), ttl)
        self.clients.tell(session, messages)
        return range(first, first + len(given))

    def _publisher(self, client: ClientId, broker: BrokerId) -> ClientSession:
        session = self.clients.attach(checks.text("client", client), broker)
        if session.publisher is None:
            if session.subscriber is not None and self.heals:
                raise ClientError(f"{client!r} is a subscriber")
            keep = self.features.usual_times
            session.publisher = PublisherMachine(
                client, keep.retention_events_max, keep.retention_seconds, keep.retention_bytes_max
            )
        return session

    def flush(self, client: ClientId, number: int) -> None:
        """Let a publisher request delivery of everything that it has published; see `flushed`."""
        session = self._attached(client)
        self.clients.tell(session, publisher(session).flush(number, self.now))

    def acknowledge(self, client: ClientId) -> None:
        """Let a durable subscriber acknowledge everything that it was given."""
        self.clients.acknowledge(self._attached(client))

    def move(self, client: ClientId, broker: BrokerId) -> bool:
        """Let a client move to another broker.

        Returns False if that broker is dead, or the same, or the client was never attached.

        Raises
        ------
        InputError
            If the network does not heal: then a client stays where it is.
        """
        if not self.heals:
            raise InputError(
                "clients move only in a network that heals: Simulation(recovery=Recovery.for_simulator())"
            )
        session = self.sessions.get(checks.text("client", client))
        host = self.host(checks.whole_number("broker", broker, 0))
        return session is not None and self.clients.move(session, host)

    # Advertisements, and admission control.

    def advertise(
        self,
        client: ClientId,
        broker: BrokerId,
        given: FilterLike,
        max_rate: float | None = None,
        number: int = 1,
    ) -> None:
        """Advertise what a publisher will publish, under a number of its own.

        With admission control the rate is at most `max_rate` events per second. Without `max_rate` it is the
        highest of its history, else the network's `default_rate`, and no more than its broker has free (paper 3,
        3.1).

        Raises
        ------
        InputError
            If a rate is given and the network has no admission control, or its scheme takes no advertisements.
        """
        item, number = to_filter(given), checks.whole_number("number", number, 1)
        rate = self._rate(client, broker, max_rate)
        session = self._publisher(client, broker)
        messages = publisher(session).advertise(number, item, round(rate * MICRO), default=max_rate is None)
        self.clients.tell(session, messages)

    def _rate(self, client: ClientId, broker: BrokerId, max_rate: float | None) -> float:
        if not self.features.admits:
            if max_rate is not None or not self.broker(broker).takes_advertisements:
                required(None)
            return 0.0
        return self._rates.get(client, RateHistory()).rate(max_rate, required(self.admission).default_rate)

    def answers(self, client: ClientId, number: int) -> Answers:
        """Return which publishers may satisfy a subscription, as its broker has reported; none before that."""
        machine = subscriber(self._attached(client))
        return machine.answers.get(checks.whole_number("number", number), Answers(number, ()))

    def unadvertise(self, client: ClientId, number: int = 1) -> None:
        """Withdraw an advertisement."""
        session = self._attached(client)
        checks.whole_number("number", number)
        self.clients.tell(session, publisher(session).unadvertise(number, self.now))

    def would_admit(
        self,
        client: ClientId,
        broker: BrokerId,
        given: FilterLike,
        number: int = 0,
        *,
        max_delay: float | None = None,
    ) -> None:
        """Ask whether a subscription would be admitted; the judgement arrives in `news`."""
        max_delay = delay_asked(self.features.admission, max_delay)
        message = WouldAdmit(checks.whole_number("number", number), to_filter(given), max_delay=max_delay)
        self.clients.tell(self.clients.attach(checks.text("client", client), broker), [message])

    def news(self, client: ClientId) -> list[News]:
        """Return what the client was told so far about its subscriptions and advertisements, in order."""
        session = self.sessions.get(checks.text("client", client))
        return [] if session is None else list(session.news)

    # Clients that die.

    def stop(self, client: ClientId, *, forgets: bool = False) -> bool:
        """Kill the process of a publisher or a durable subscriber; return False if it is dead, or is neither.

        Parameters
        ----------
        client
            The client.
        forgets
            Whether the next process does not ask again for the subscriptions that were not in force yet.
        """
        session = self._known(client)
        machine = session.subscriber
        if not session.alive or (machine is not None and not machine.durable):
            return False
        session.alive, session.held = False, None
        session.connection += 1
        if machine is not None:
            session.subscriber = SubscriberMachine(durable=True)
            session.subscriber.restore(machine.record())  # nothing else outlives the process
            session.subscriber.awaits_past = session.begins is not None
            for again in machine.request():  # not in force, so nobody but their user knows of them
                assert isinstance(again, Register)
                if forgets:
                    self.clients.account_of(client).cancelled(self.now, client, again.subscription)
                    continue
                number, priority = again.subscription, again.priority
                session.subscriber.subscribe(
                    number, again.filter, self.now, priority, local_first=again.local_first
                )
            self.clients.account_of(client).rolled_back(client, machine.acknowledged)
        else:
            self.account.died(self.now, client)
        return True

    def start(self, client: ClientId) -> bool:
        """Restart a client's process; return False if it runs, or if a publisher has to wait for its broker."""
        session = self._known(client)
        if session.alive:
            return False
        if session.publisher is not None:
            return self._start_publisher(session, session.publisher)
        session.alive = True
        self.clients.read_past(session)
        if session.home.alive:
            self.clients.settle_at(session, session.home)
        else:
            self.clients.learn(session, session.connection)
        return True

    def _start_publisher(self, session: ClientSession, machine: PublisherMachine) -> bool:
        """Restart a publisher where most of it is known, if all brokers that may know of it answer."""
        if any(not host.alive or host.cleared or host.paused or host.waiting for host in session.homes):
            return False
        known = {host.id: host.machine.ask(AcceptedOf(session.name)) for host in session.homes}
        best = max(known, key=lambda broker: known[broker])
        session.alive = True
        machine.reattach(self.now, known[best], self.hosts[best].machine.ask(KeptOf(session.name)))
        self.account.taken_back(self.now, session.name, machine.held)
        session.homes = [self.hosts[best]]
        self._continue_at(session, self.hosts[best])
        return True

    def _continue_at(self, session: ClientSession, host: Host) -> None:
        """Let a publisher continue at a broker; where that is to leave, its host sends it to another one, as on Ray."""
        target = self.clients.elsewhere(session) if host.retiring else None
        self.clients.settle_at(session, target or host)

    def start_elsewhere(self, client: ClientId) -> None:
        """Restart a publisher under numbers that it has not used, since a broker that may know the last one is lost."""
        session = self._known(client)
        machine = publisher(session)
        session.alive = True
        alive = [host for host in session.homes if host.alive]
        session.homes = []
        kept = alive[0].machine.ask(KeptOf(client)) if alive else []
        machine.reattach(self.now, machine.published, kept)
        self.account.taken_back(self.now, client, machine.held)
        target = alive[0] if alive else self.clients.elsewhere(session)
        assert target is not None, "somebody is there"
        self._continue_at(session, target)

    # State of clients.

    @property
    def sessions(self) -> dict[ClientId, ClientSession]:
        """The clients by name."""
        return self.clients.by_name

    @property
    def account(self) -> Account:
        """The record of what clients did and received."""
        return self.clients.account

    @property
    def notified(self) -> int:
        """The number of notifications handed to subscribers."""
        return self.clients.notified

    @property
    def flushed(self) -> list[tuple[float, ClientId, int]]:
        """(time, publisher, number) of each answered flush of a publisher."""
        return self.clients.flushed

    def stopped(self) -> list[ClientId]:
        """Return the clients whose process is dead."""
        return [name for name, session in self.sessions.items() if not session.alive]

    def homeless(self, client: ClientId) -> bool:
        """Return whether any broker that may have accepted a publisher's last events is dead, or has lost its store."""
        return any(not host.alive or host.cleared for host in self._known(client).homes)

    def unconfirmed(self) -> list[tuple[ClientId, int]]:
        """Return the subscriptions that their present broker has not confirmed."""
        return [
            (name, number)
            for name, session in self.sessions.items()
            if session.subscriber is not None and session.alive
            for number in sorted(session.subscriber.unconfirmed)
        ]

    def installed(self, client: ClientId, number: int) -> bool:
        """Return whether the client was told that its subscription is installed up to the root."""
        session = self.sessions.get(checks.text("client", client))
        machine = None if session is None else session.subscriber
        checks.whole_number("number", number)
        return machine is not None and number in machine.subscriptions.keys() - machine.unconfirmed

    def run_until_installed(self, client: ClientId, number: int) -> bool:
        """Run until the subscription is installed up to the root; return False if that never happens."""
        until = math.inf if self._tick_seconds is None else self.now + INSTALL_SECONDS_MAX
        while not (installed := self.installed(client, number)) and self.heap and self.heap[0][0] <= until:
            self._drive(self.heap[0][0])
        return installed

    def notifications(self, client: ClientId) -> list[tuple[ClientId, int]]:
        """Return (publisher, sequence) of the client's notifications, in order of arrival."""
        return [(publisher, sequence) for _, publisher, sequence in self.timed_notifications(client)]

    def timed_notifications(self, client: ClientId) -> list[ArrivedEvent]:
        """Return the client's notifications, in order of arrival, with the virtual times."""
        checks.text("client", client)
        return [
            ArrivedEvent(note.at_seconds, note.publisher, note.sequence)
            for note in self.clients.account_of(client).notifications()
            if note.client == client
        ]

    def subscribers(self) -> list[ClientId]:
        """Return the clients that were notified of anything, ordered by name."""
        return sorted({note.client for note in self.account.notifications()})

    def _known(self, client: ClientId) -> ClientSession:
        session = self.sessions.get(checks.text("client", client))
        if session is None:
            raise ClientError(f"there is no client {client!r} in this network")
        return session

    def _attached(self, client: ClientId) -> ClientSession:
        session = self.sessions.get(checks.text("client", client))
        if session is None or session.left:
            raise ClientError(f"client {client!r} is not attached to a broker")
        return session

    # Quiescence.

    def settle(self, seconds_max: float = 120.0) -> bool:
        """Run until everything numbered is acknowledged; return False if that takes too long.

        Raises
        ------
        InputError
            If brokers do not number messages: then nothing is acknowledged, and the network would never settle.
        """
        if not self.numbered:
            raise InputError(
                "settle() waits for acknowledgements of brokers with stores; here, use run() or advance()"
            )
        until, calm = self.now + checks.seconds("seconds_max", seconds_max), 0
        while calm < 2:
            if self.now > until:
                return False
            self.advance(self.stability.retransmit_seconds)
            calm = calm + 1 if calm_now(self) else 0
        self.account.settled(self.now)
        return True


def calm_now(simulation: Simulation) -> bool:
    """Return whether no client, and no broker with a store, waits for an acknowledgement."""
    if any(session.link or not session.connected for session in simulation.sessions.values()):
        return False
    return all(host.alive and not host.machine.ask(Owed()) for host in simulation.hosts.values())
