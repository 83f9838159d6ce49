"""Clients and their brokers in virtual time: what clients receive, and where they move when their broker is dead.

Rules
-----
* A client detects `detect_seconds` after its broker's death that its connection is gone. It moves to the broker
  that `clients.places` chooses, possibly the same broker in a new incarnation, and looks again later if there is
  none.
* Where brokers number their messages, a client stays at its broker. When the broker is back, the client reconnects,
  sends BACK, and retransmits what is not acknowledged. Where nothing heals, it stays there too, and has no broker.
* Messages between a client and its broker arrive in order, unless the broker dies first or the client has left it.
* Events that wait for their publisher's quota are accepted when they are admitted; refused events are reported
  lost.
* What clients do is in `clients.publisher`, `clients.subscriber` and `clients.link`, the same machines as on Ray.
* A client's periodic report of what it has received or published is right: if its broker knows something else, the
  broker's state is damaged (`recovery.membership.comparing`). A client that is dead, detached or disconnected does not
  report. A durable subscriber reports what it has acknowledged, because that is what its broker stores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, Never, TypeAlias

import numpy as np

from ..clients.beginnings import Beginning, last_of
from ..clients.link import ClientLinks
from ..clients.past import PastReader
from ..clients.places import Places
from ..clients.publisher import PublisherMachine
from ..clients.subscriber import SubscriberMachine
from ..protocol.batch import EventBatch, Rows, batch_of
from ..protocol.effects import Acknowledge, Confirm, Deliver, Effect, Flushed, Inform, Propose, TellLost
from ..protocol.errors import ClientError
from ..protocol.expiry import living, timely
from ..protocol.features import NONE
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages.admission import (
    Everywhere,
    GuaranteeStatus,
    HeldBack,
    Judgement,
    LetIn,
    News,
    OverQuota,
    required,
)
from ..protocol.messages.handover import Bequest
from ..protocol.messages.pubsub import Answers, ClockReads, Detach, Events, Lost, Unanswered
from ..protocol.queries import AcceptedOf, WaitingOf
from ..protocol.traces.account import Account
from ..recovery.replay.history import HistoryAt, Span
from .groups import SimulatedGroup, Witness
from .hosts import FromClient, Host

if TYPE_CHECKING:
    from .network import SimulatedNetwork

ACKNOWLEDGE_SECONDS: Final = 0.7
"""How long a durable subscriber processes notifications before it acknowledges them."""
HAND_ON_SECONDS: Final = 0.3
"""How long it has to wait for the next event of those that are the last of their keys."""

CLIENT: Final = "client"
"""The kind of all clients: one may both publish and subscribe."""

_Heard: TypeAlias = "Callable[[ClientSession, Never], None]"


class ClientSession:
    """A client, and where it is attached: to which incarnation of a broker, over which of its connections.

    Attributes
    ----------
    subscriber, publisher
        Its state as a subscriber and as a publisher; None for what it is not.
    link
        The numbers of the messages that it sends and receives; None if messages are not numbered.
    alive
        Whether its process runs.
    first
        Where it attached.
    left
        Whether it has detached, and may attach anywhere.
    heard_at
        When it certainly had received everything that its broker had for it.
    homes
        Of a publisher: the brokers that may have accepted its last events.
    news
        What it was told about its subscriptions and advertisements, in order.
    begins, last_per
        Where in the past its subscriptions are to begin that are not all in force, and whose last events it wants.
    behind
        Of a subscriber whose past is being read: what has arrived meanwhile.
    held
        Of a subscriber that has asked the broker to which it moves for the time: what it says meanwhile, behind that.
    """

    __slots__ = (
        "alive",
        "begins",
        "behind",
        "connection",
        "first",
        "heard_at",
        "held",
        "home",
        "homes",
        "incarnation",
        "last_per",
        "left",
        "link",
        "name",
        "news",
        "publisher",
        "subscriber",
    )

    def __init__(self, name: ClientId, home: Host, link: ClientLinks | None) -> None:
        self.name = name
        self.subscriber: SubscriberMachine | None = None
        self.publisher: PublisherMachine | None = None
        self.link = link
        self.alive, self.left = True, False
        self.heard_at = 0.0
        self.connection = 0
        self.first = home
        self.homes: list[Host] = [home]
        self.news: list[News] = []
        self.begins: Beginning | None = None
        self.last_per: str | None = None
        self.behind: list[tuple[EventBatch, Rows]] | None = None
        self.held: list[object] | None = None
        self.connect(home)

    def connect(self, home: Host) -> None:
        """Connect to the current incarnation of a broker."""
        self.home, self.incarnation = home, home.incarnation

    @property
    def connected(self) -> bool:
        """Whether its broker is still in the incarnation that the client connected to."""
        return self.home.alive and self.home.incarnation == self.incarnation

    @property
    def machine(self) -> Any:
        """The state of a client that is either a publisher or a subscriber."""
        return self.subscriber or self.publisher

    @property
    def is_publisher(self) -> bool:
        """Whether it publishes."""
        return self.publisher is not None


class Sessions:
    """All clients of one network.

    Parameters
    ----------
    network
        The network.
    detect_seconds
        How long a client takes to detect that its broker is dead.
    keep
        Whether to record what clients publish and are notified of.

    Attributes
    ----------
    by_name
        The clients.
    groups
        The durable subscribers that share their events among workers.
    account
        The record of what clients did and received.
    removed
        The brokers that are dead for good, for which nobody waits who reads the past.
    apart
        The records of subscribers that begin in the past, each of what it was told; these have no other record.
    silent
        Of the same, what was told to be lost of their past, and the brokers that did not answer then.
    in_force_at, past_ends
        Of the same, when their subscriptions were all in force, and when their past ended: then, or at infinity if a
        broker did not answer.
    places
        Which broker each client is at.
    effects
        How the effects of brokers for clients are carried out.
    moves
        How often a client changed its broker.
    notified
        The number of notifications handed to subscribers.
    flushed
        (time, publisher, number) of each answered flush of a publisher.
    admitted, refused
        (subscriber, number) of each admitted subscription, and the number of refused ones.
    """

    def __init__(self, network: SimulatedNetwork, detect_seconds: float, *, keep: bool) -> None:
        self._network = network
        self.detect_seconds = detect_seconds
        self.by_name: dict[ClientId, ClientSession] = {}
        self.groups: dict[ClientId, SimulatedGroup] = {}
        self.account = Account(network.features if keep else NONE)
        self.apart: dict[ClientId, Account] = {}
        self.silent: dict[ClientId, list[tuple[Lost, set[BrokerId]]]] = {}
        self.in_force_at: dict[ClientId, float] = {}
        self.past_ends: dict[ClientId, float] = {}
        self.removed: set[BrokerId] = set()
        self.moves = self.notified = self.refused = 0
        self.flushed: list[tuple[float, ClientId, int]] = []
        self.admitted: set[tuple[ClientId, int]] = set()
        self._over: set[tuple[ClientId, int]] = set()  # (publisher, last number) of what its quota refused
        self._waiting: dict[
            tuple[BrokerId, int], list[FromClient]
        ] = {}  # for quotas, by incarnation of the broker
        self.keep = keep
        self._numbered = network.numbered
        self._heard_of = keep or network.features.outlives_processes
        self.places = Places()
        self.effects: dict[type, Callable[[Host, Never], None]] = {
            Deliver: self._deliver,
            Confirm: self._tells(self._confirmed, numbered=True),
            Inform: self._inform,
            TellLost: self._tells(self._reported),
            Flushed: self._tells(self._flushed),
            Propose: self._tells(self._proposed),
            Acknowledge: self._tells(self._acknowledged),
        }
        self._tell_news = self._tells(self._informed, numbered=True)
        network.faults.mourners.append(self._died)

    def account_of(self, client: ClientId) -> Account:
        """Return the record of what a client did and received."""
        return self.apart.get(client, self.account)

    # From clients to brokers.

    def attach(self, client: ClientId, broker: BrokerId) -> ClientSession:
        """Return a client; attach it if it is not attached.

        Raises
        ------
        ClientError
            If there is no such broker, or it is dead; or the client is attached to another one and cannot have
            moved.
        """
        session, home = self.by_name.get(client), self._network.host(broker)
        if session is not None and not session.left:
            if not self._network.heals and session.first is not home:
                raise ClientError(f"client {client!r} is attached to broker {session.first.id}, not {broker}")
            return session
        if not home.alive:
            raise ClientError(f"client {client!r}: broker {broker} is dead")
        if session is None:
            link = ClientLinks() if self._numbered else None
            session = self.by_name[client] = ClientSession(client, home, link)
            if link is not None:
                self._pass(session, link.back())
                self._remind(session)
            say_now_and_then(self._network, self, session)
        else:
            session.left, session.first, session.held = False, home, None
            session.connection += 1
            session.connect(home)
        self.places.put(CLIENT, client, broker)
        return session

    def tell(self, session: ClientSession, messages: Sequence[Any]) -> None:
        """Send messages of a client to its broker, numbered if its link has numbers; to one to which it comes, then."""
        if session.held is not None:
            session.held += messages
            return
        for message in messages:
            if isinstance(message, Events):
                self._network.transport.sent["publish"][Events] += 1
        self._pass(session, messages if session.link is None else map(session.link.send, messages))

    def _pass(self, session: ClientSession, messages: Iterable[object]) -> None:
        for message in messages:
            self._give(session, session.home, session.incarnation, message)

    def _give(self, session: ClientSession, host: Host, incarnation: int, message: object) -> None:
        given = FromClient(session.name, message, session.connection)
        self._network.at(
            self._network.now + self._network.links.client_seconds, self._reach, host, incarnation, given
        )

    def _reach(self, host: Host, incarnation: int, given: FromClient) -> None:
        if host.alive and host.incarnation == incarnation:
            self._network.take_in(host, given)
        else:
            self._network.lost += 1

    def _remind(self, session: ClientSession) -> None:
        """Retransmit periodically what is not acknowledged; reconnect if the broker has died meanwhile."""
        assert session.link is not None
        if session.connected:
            self._pass(session, session.link.kept())
        elif session.home.alive:
            session.connect(session.home)
            self._pass(session, session.link.back())
        again = self._network.now + 2 * self._network.stability.retransmit_seconds
        self._network.at(again, self._remind, session)

    def taken_in(self, host: Host, event: FromClient) -> None:
        """Note that a broker has accepted events, once it has; the publisher learns it later."""
        if isinstance(event.message, Detach):
            waiting = self._waiting.get((host.id, host.incarnation), [])
            waiting[:] = [other for other in waiting if other.source != event.source]
        if not isinstance(event.message, Events) or not len(event.message.batch):
            return
        batch: EventBatch = event.message.batch
        name, last = batch.identity(len(batch) - 1)
        if not self._network.features.admits:
            self._accept(host, event)
        elif host.machine.ask(WaitingOf(name)) and host.machine.ask(AcceptedOf(name)) >= last:
            self._waiting.setdefault((host.id, host.incarnation), []).append(event)
        elif (name, last) not in self._over:
            self._accept(host, event)

    def _let_in(self, host: Host, client: ClientId, number: int) -> None:
        """Note that events that waited for their publisher's quota were admitted."""
        waiting = self._waiting.get((host.id, host.incarnation), [])
        for event in [event for event in waiting if event.source == client]:
            if int(event.message.batch.sequence[-1]) <= number:
                waiting.remove(event)
                self._accept(host, event)

    def _accept(self, host: Host, event: FromClient) -> None:
        batch: EventBatch = event.message.batch
        name, last = batch.identity(len(batch) - 1)
        if self.keep:
            self.account.accepted(self._network.now, host.id, batch)
        after = self._network.now + self._network.links.client_seconds
        self._network.at(after, self._accepted, host, name, event.connection, last)

    def _accepted(self, host: Host, name: ClientId, connection: int, last: int) -> None:
        session = self.by_name[name]
        if session.connection == connection and session.publisher is not None:
            session.publisher.accept(last, self._network.now)
            if session.publisher.published == last:
                for left in (home for home in session.homes if home is not host):
                    self._give(session, left, left.incarnation, session.publisher.taken_over())
                session.homes = [host]  # this broker has everything

    # From brokers to clients.

    def _tells(self, heard: _Heard, *, numbered: bool = False) -> Callable[[Host, Any], None]:
        """Return the function that carries out an effect for one client, which receives it with a delay."""

        def carry_out(host: Host, effect: Any) -> None:
            over, number = host.attached.get(effect.client), effect.number if numbered else 0
            arrives = self._arrives(host, effect)
            self._network.at(arrives, self._hear, host, host.incarnation, over, number, effect, heard)

        return carry_out

    def _arrives(self, host: Host, effect: Effect, copies: int = 1) -> float:
        transport = self._network.transport
        transport.sent["deliver"][type(effect)] += copies
        leaves = self._network.now if transport.at_once else transport.leave(host, effect, copies)
        assert leaves is not None
        return leaves + self._network.links.client_seconds

    def _hear(
        self, host: Host, incarnation: int, over: int | None, number: int, effect: Any, heard: _Heard
    ) -> None:
        if (session := self._listening(effect.client, host, incarnation, over, number)) is not None:
            heard(session, effect)

    def _listening(
        self, client: ClientId, host: Host, incarnation: int, over: int | None, number: int
    ) -> ClientSession | None:
        """Return the client if the broker's message still reaches it, and for the first time."""
        session = self.by_name[client]
        here = session.home is host and session.incarnation == incarnation == host.incarnation and host.alive
        if not here or session.connection != over:
            return None
        if session.link is not None and number:
            new, answer = session.link.take(number)
            self._pass(session, [answer])
            return session if new else None
        return session

    def _deliver(self, host: Host, effect: Deliver) -> None:
        timed, gone = timely(effect, self._network.now)
        self._network.past_ttl += gone
        if timed is None:
            return
        effect = timed
        self.notified += len(effect.rows)
        arrives = self._arrives(host, effect, len(effect.clients))
        if self._heard_of:
            over = [host.attached.get(client) for client in effect.clients]
            self._network.at(arrives, self._notify, host, host.incarnation, over, effect)

    def _notify(self, host: Host, incarnation: int, over: list[int | None], effect: Deliver) -> None:
        now, batch, starts = self._network.now, effect.batch, effect.starts.tolist()
        for place, client in enumerate(effect.clients):
            if (session := self._listening(client, host, incarnation, over[place], effect.number)) is None:
                continue
            machine = subscriber(session)
            session.heard_at = now
            rows = effect.rows[starts[place] : starts[place + 1]]
            passed = len(rows)
            rows = living(batch, rows, now)
            self._network.past_ttl += passed - len(rows)
            if session.behind is not None:
                session.behind.append((batch, rows))
            else:
                self._take(session, batch, rows, machine.admit(batch, rows))

    def _take(self, session: ClientSession, batch: EventBatch, rows: Rows, new: Rows) -> None:
        """Let a subscriber have what has come for it, of which some is new to it."""
        client, now, machine = session.name, self._network.now, subscriber(session)
        if self.keep:  # brokers should send no duplicates to a subscriber that is not durable
            for row in (new if machine.durable else rows).tolist():
                self.account_of(client).notified(now, client, *batch.identity(row))
        if (group := self.groups.get(client)) is not None:
            group.come(batch, new)
        elif machine.durable:
            self._network.at(now + ACKNOWLEDGE_SECONDS, self._acknowledge_later, session, session.connection)

    def _acknowledge_later(self, session: ClientSession, connection: int) -> None:
        if session.connection == connection:
            self.acknowledge(session)

    def _acknowledge_read(self, session: ClientSession, machine: SubscriberMachine) -> None:
        """Acknowledge what was read of the past, at whatever broker: it does not come again after a move."""
        if session.subscriber is machine:
            self.acknowledge(session)

    def share(self, session: ClientSession, key: str | None, rng: Random, witness: Witness) -> None:
        """Make a durable subscriber a group of workers."""
        self.groups[session.name] = SimulatedGroup(
            self._network,
            session,
            key,
            rng,
            witness,
            partial(self.tell, session),
            partial(self._reaches, session),
        )

    def _reaches(self, session: ClientSession) -> bool:
        """Return whether the broker of a client would answer it."""
        return session.home.alive and session.home.incarnation == session.incarnation

    def acknowledge(self, session: ClientSession) -> None:
        """Let a durable subscriber acknowledge everything that it was given."""
        if session.alive:
            self.tell(session, subscriber(session).acknowledge())

    def _confirmed(self, session: ClientSession, effect: Confirm) -> None:
        session.heard_at = self._network.now
        subscriber(session).confirmed(effect.subscription, effect.begins)
        self.account_of(session.name).confirmed(self._network.now, session.name, effect.subscription)
        self._begin_past(session)

    def _reported(self, session: ClientSession, effect: TellLost) -> None:
        self._told(session, effect.losses)

    def _told(self, session: ClientSession, losses: Iterable[Lost], *, of_past: bool = False) -> None:
        if new := subscriber(session).lost(losses, of_past=of_past):
            published = self.account.publications()  # whoever has a record apart publishes nothing
            self.account_of(session.name).told(self._network.now, session.name, new, published)

    # The past, which a subscriber reads from the histories of all brokers; a call of Ray there.

    def _begin_past(self, session: ClientSession) -> None:
        """Let subscriptions begin in the past once all of them are in force."""
        machine = subscriber(session)
        if session.begins is None or not machine.subscriptions or machine.in_force != machine.subscriptions:
            return
        (marks, since), session.begins = session.begins, None
        answers = self.histories()
        last = last_of(answers.values())
        awaits = self._with_histories() - answers.keys()
        self.in_force_at[session.name] = self._network.now
        self.past_ends[session.name] = math.inf if awaits else self._network.now
        past = machine.subscriptions, since, marks, last, sorted(awaits), session.last_per
        self.tell(session, machine.begin_past(*past))
        self.read_past(session)

    def _with_histories(self) -> set[BrokerId]:
        """Return the brokers of the network, dead or alive."""
        return {broker for broker, host in self._network.hosts.items() if not host.gone} - self.removed

    def histories(self) -> dict[BrokerId, Mapping[ClientId, Span]]:
        """Return what the brokers that answer have of the past."""
        answers = {
            host.id: host.machine.ask(HistoryAt())
            for host in self._network.hosts.values()
            if host.alive and not host.paused
        }
        return {broker: spans for broker, spans in answers.items() if spans is not None}

    def read_past(self, session: ClientSession) -> None:
        """Let a subscriber read its past, if it has one; what arrives meanwhile waits."""
        machine = subscriber(session)
        if machine.past is not None:
            session.behind = []
            if (observer := self._network.observer) is not None:
                observer.past_begins(session.name, machine.past["todo"])
            reader = PastReader(machine, self._network.features.times, self._network.now, part_events=1)
            self._read_on(session, machine, reader)

    def _read_on(self, session: ClientSession, machine: SubscriberMachine, reader: PastReader) -> None:
        network, seconds = self._network, 2 * self._network.links.client_seconds
        if session.subscriber is not machine or not session.alive:
            return
        if reader.finished(network.now):
            self.tell(session, machine.acknowledge_past())
            self._told(session, ())  # what was reported meanwhile
            behind, session.behind = session.behind or [], None
            for batch, rows in behind:
                self._take(session, batch, rows, machine.admit(batch, rows))
            return
        if (last := reader.last_values(network.now)) is not None:
            self._take_read(session, machine, last)
            network.at(network.now + HAND_ON_SECONDS, self._read_on, session, machine, reader)
            return
        questions = reader.questions()
        if not questions:
            answers, brokers = self.histories(), self._with_histories()
            if lost := reader.known(answers, brokers, network.now):
                self.silent.setdefault(session.name, []).extend(
                    (each, brokers - answers.keys()) for each in lost
                )
                if network.observer is not None:
                    network.observer.past_lost(session.name, lost, answers.keys())
                self._told(session, lost, of_past=True)
            if not reader.questions():
                seconds = network.features.times.heartbeat_seconds
        for broker, question in questions:
            host = network.hosts[broker]
            page = host.machine.ask(question) if host.alive and not host.paused else None
            if network.observer is not None:
                network.observer.past_asked(session.name, broker, question, page)
            found = reader.took(broker, question, page)
            if found is not None:
                self._take_read(session, machine, found)
        network.at(network.now + seconds, self._read_on, session, machine, reader)

    def _take_read(self, session: ClientSession, machine: SubscriberMachine, batch: EventBatch) -> None:
        rows = living(batch, np.arange(len(batch)), self._network.now)
        self._take(session, batch, rows, rows)
        if session.name not in self.groups:  # a group acknowledges what its workers have done
            self._network.at(
                self._network.now + ACKNOWLEDGE_SECONDS, self._acknowledge_read, session, machine
            )

    def _flushed(self, session: ClientSession, effect: Flushed) -> None:
        self.flushed.append((self._network.now, session.name, effect.number))

    def _proposed(self, session: ClientSession, effect: Propose) -> None:
        self.move(session, self._network.hosts[effect.broker])

    def _acknowledged(self, session: ClientSession, effect: Acknowledge) -> None:
        assert session.link is not None
        session.link.acknowledged(effect.about, effect.number)
        if effect.about == "events" and session.publisher is not None:
            session.publisher.accept(effect.number, self._network.now)

    def _inform(self, host: Host, effect: Inform) -> None:
        news = effect.news
        if isinstance(news, LetIn):
            self._let_in(host, effect.client, news.number)
        elif isinstance(news, ClockReads):
            over = host.asked.get(effect.client)  # it is not attached here, or in an earlier incarnation
            arrives = self._arrives(host, effect)
            self._network.at(arrives, self._hear, host, host.incarnation, over, 0, effect, self._clock_read)
            return
        elif isinstance(news, OverQuota):
            self._refused(host, effect.client, news)
        if isinstance(news, HeldBack | LetIn) and news.seconds:
            self._network.tell_time(host, news.seconds)
        self._tell_news(host, effect)

    def _refused(self, host: Host, client: ClientId, news: OverQuota) -> None:
        """Note that a publisher's quota refused events, and how much would have waited with them."""
        self._over.add((client, news.number))
        events = [(client, sequence) for sequence in range(news.number - news.events + 1, news.number + 1)]
        config, waiting = required(self._network.admission), host.machine.ask(WaitingOf(client))
        measured, allowed = news.events + sum(map(len, waiting)), config.held_events_max
        if measured <= allowed:  # then their size was the reason
            published = self.account.publications()
            refused = batch_of(published[event].event for event in events if event in published)
            measured = refused.nbytes + sum(batch.nbytes for batch in waiting)
            allowed = config.held_bytes_max
        self.account.shed(self._network.now, events, "quota", measured, allowed)

    def _informed(self, session: ClientSession, effect: Inform) -> None:
        news, now = effect.news, self._network.now
        session.news.append(news)
        if isinstance(news, Everywhere) and session.publisher is not None:
            self.tell(session, session.publisher.everywhere(news.number, now))
        elif isinstance(news, GuaranteeStatus) and session.subscriber is not None:
            session.subscriber.guarantee_changed(news)
        elif isinstance(news, Judgement) and not news.dry and session.subscriber is not None:
            if news.admitted:
                self.admitted.add((session.name, news.number))
            if session.subscriber.judged(news):
                self.refused += 1
                self.account_of(session.name).cancelled(now, session.name, news.number)
                self._begin_past(session)
        elif isinstance(news, Answers | Unanswered) and session.subscriber is not None:
            self._answered(session, session.subscriber, news)

    def _answered(
        self, session: ClientSession, machine: SubscriberMachine, news: Answers | Unanswered
    ) -> None:
        """Note which publishers' events a subscription covers, if publishers at its broker satisfy it or did so."""
        known = news.known if isinstance(news, Answers) else ()
        if machine.answered(news) and (isinstance(news, Unanswered) or news.here):
            session.heard_at = self._network.now
            publishers = (answer.publisher for answer in known)
            self.account_of(session.name).answered(self._network.now, session.name, news.number, publishers)

    # Moving to other brokers.

    def move(self, session: ClientSession, target: Host) -> bool:
        """Let a client move to another broker; return False if it cannot, or is there already."""
        if not session.alive or session.left or not target.alive or target is session.home:
            return False
        if session.connected and session.held is None:
            left: Sequence[object] = [] if session.publisher is None else session.publisher.leave()
            if session.subscriber is None or not session.subscriber.durable:
                left = [
                    *left,
                    Detach(),
                ]  # else the rendezvous point tells the broker what to let go, as on Ray
            self.tell(session, left)
            if not session.home.paused:
                self._has_heard(session)
        self.settle_at(session, target)
        return True

    def settle_at(self, session: ClientSession, target: Host) -> None:
        """Connect a client to a broker, and tell the broker what it must know."""
        now = self._network.now
        session.connect(target)
        session.connection += 1
        self.places.put(CLIENT, session.name, target.id)
        self.moves += 1
        if session.publisher is not None:
            session.homes.append(target)
            self.tell(session, session.publisher.arrive(now))
            session.heard_at = now
            return
        held, session.held = session.held or [], None
        asked = subscriber(session).approach()
        self.tell(session, asked)
        session.held = held
        if not asked:
            self.come(session, None)

    def _clock_read(self, session: ClientSession, effect: Inform) -> None:
        assert isinstance(effect.news, ClockReads)
        self.come(session, effect.news.now)

    def come(self, session: ClientSession, clock: float | None) -> None:
        """Let a subscriber come to its broker, whose clock it has read if it had to, if it has not come there."""
        if session.held is None:
            return
        machine, now = subscriber(session), self._network.now
        held, session.held = session.held, None
        away, incarnation = now - session.heard_at, machine.incarnation + machine.durable
        self.tell(session, machine.arrive(now, away, incarnation, clock))
        self.tell(session, machine.request())  # no call waits for these, which would repeat them
        self.tell(session, held)
        session.heard_at = now

    def inherit_subscribers(self, host: Host, trustee: Host) -> None:
        """Note that the durable subscribers of a leaving broker whose processes are dead are at another one now."""
        for session in self.by_name.values():
            if session.subscriber is not None and session.home is host and not session.alive:
                session.connect(trustee)
                self.places.put(CLIENT, session.name, trustee.id)

    def inherit(self, host: Host, trustee: Host) -> None:
        """Note that a broker has left, and that another has taken over what it retained of publishers."""
        for session in self.by_name.values():
            if session.publisher is None or host not in session.homes:
                continue
            session.homes = list(dict.fromkeys(trustee if home is host else home for home in session.homes))
            if not session.alive and session.home is host:
                session.connect(trustee)
                self.places.put(CLIENT, session.name, trustee.id)

    def inherited(self, host: Host, bequest: Bequest) -> None:
        """Note that a broker retains what one that is about to leave has handed over to it."""
        for _, _, batch in bequest.kept if self.keep else ():
            self.account.accepted(self._network.now, host.id, batch)

    def _has_heard(self, session: ClientSession) -> None:
        """Note that its broker was alive up to now, since clients poll all the time."""
        if session.alive and session.incarnation == session.home.incarnation and session.held is None:
            session.heard_at = max(session.heard_at, self._network.now - self._network.links.client_seconds)

    def _died(self, host: Host, paused: bool) -> None:
        """Let the clients of a dead broker detect its death after a while."""
        self.account.crashed(self._network.now, host.id)
        if self._numbered or not self._network.heals:
            return
        for session in self.by_name.values():
            if session.home is host and not session.left:
                if not paused:
                    self._has_heard(session)
                after = self._network.now + self.detect_seconds
                self._network.at(after, self.learn, session, session.connection)

    def learn(self, session: ClientSession, connection: int) -> None:
        """Let a client find another broker, unless it has moved meanwhile, or died itself."""
        if session.connection != connection or not session.alive or session.left:
            return
        target = self.elsewhere(session)
        if target is not None:
            self.settle_at(session, target)
        else:
            self._network.at(self._network.now + self.detect_seconds, self.learn, session, connection)

    def elsewhere(self, session: ClientSession) -> Host | None:
        """Return where a client moves that cannot stay at its broker; None while there is no such broker."""
        network = self._network
        staying = network.staying()
        self.places.add(staying)
        members, away = network.members[session.home.cluster], network.hosts.keys() - staying
        chosen = self.places.relocate(CLIENT, session.name, members, away)
        return None if chosen is None else network.hosts[chosen]


def subscriber(session: ClientSession) -> SubscriberMachine:
    """Return the state of a subscriber; raise ClientError if the client is not one."""
    if session.subscriber is None:
        raise ClientError(f"{session.name!r} is a publisher")
    return session.subscriber


def publisher(session: ClientSession) -> PublisherMachine:
    """Return the state of a publisher; raise ClientError if the client is not one."""
    if session.publisher is None:
        raise ClientError(f"{session.name!r} is a subscriber")
    return session.publisher


def say_now_and_then(network: SimulatedNetwork, sessions: Sessions, session: ClientSession) -> None:
    """Let a client report what it knows, now and after each interval, in a network whose brokers compare."""
    seconds = network.features.compare_seconds
    if seconds is None:
        return
    if session.alive and not session.left and session.connected:
        said: list[object] = []
        if session.subscriber is not None:
            said.append(session.subscriber.has_had())
        if session.publisher is not None:
            said.append(session.publisher.has_published())
        sessions.tell(session, said)
    network.at(network.now + seconds, say_now_and_then, network, sessions, session)
