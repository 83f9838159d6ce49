"""A hostile network with admission control: publishers advertise first, and subscribers may be refused.

Rules
-----
* A publisher tells each broker that it comes to what it advertises, and publishes there once every broker knows it.
* A subscription that is refused is gone: it counts as cancelled, and never came to be. One that was admitted says so at
  the next broker, and is not judged again; one that moves before it was judged is.
* What a subscriber's broker says of subscriptions that no longer fit is kept until it comes to another broker.
* Events that wait for their publisher's quota are accepted when they are let in, and those that are refused are lost by
  name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..chaos.books import Clients, books_problems
from ..chaos.cases import Advertisement
from ..faults.clients import SubscriberMachine
from ..protocol.admission import (
    MICRO,
    AdmissionConfig,
    Advertise,
    Everywhere,
    Judgement,
    LetIn,
    OverQuota,
    Refusal,
    Standing,
)
from ..protocol.configs import Position
from ..protocol.effects import Inform
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import ClientMessage, Detach, Events, Register
from ..routing.language import to_filter
from .clients import FromClient, HostileSimulation, Session
from .hosts import Host, make_broker
from .survey import books_seen, ways_of


class AdmittingSimulation(HostileSimulation):
    """A hostile network whose brokers admit; further parameters as of :class:`HostileSimulation`.

    Parameters
    ----------
    admission
        What its brokers admit, and what they can carry.
    adverts
        What each publisher advertises.
    priorities
        Of each subscriber's subscriptions; 0 where it is not there.

    Attributes
    ----------
    admitted
        (subscriber, number) of the subscriptions that were admitted.
    refused
        How often one was refused.
    over
        (publisher, last number) of the publications that were refused since too much waited for its quota already.
    standing
        What the subscriptions of each subscriber lack, by number, as far as it was told.
    """

    def __init__(
        self,
        positions: Sequence[Position],
        *args: Any,
        admission: AdmissionConfig,
        adverts: Mapping[ClientId, Advertisement],
        priorities: Mapping[ClientId, int],
        **options: Any,
    ) -> None:
        self.admitted: set[tuple[ClientId, int]] = set()
        self.refused = 0
        self.standing: dict[ClientId, dict[int, tuple[Refusal, ...]]] = {}
        self.over: set[tuple[ClientId, int]] = set()
        self.admission, self.adverts, self._priorities = admission, adverts, priorities
        self._advertised: dict[ClientId, int] = {}  # over which connection
        self._held: dict[ClientId, list[tuple[float, ClientMessage]]] = {}  # until that is everywhere
        self._waiting: dict[tuple[BrokerId, int], list[FromClient]] = {}  # for quotas, by life of the broker
        super().__init__(positions, *args, broker=partial(make_broker, admission=admission), **options)
        self._carry_out[Inform] = self._inform

    # What clients say.

    def _tell(self, session: Session, messages: Sequence[Any]) -> None:
        if isinstance(session.machine, SubscriberMachine):
            super()._tell(session, [self._asked(session.name, message) for message in messages])
        elif any(isinstance(message, Detach) for message in messages):
            super()._tell(session, messages)
        else:
            self._publish_when_known(session, messages)

    def _asked(self, client: ClientId, message: Any) -> Any:
        if not isinstance(message, Register):
            return message
        admitted = (client, message.subscription) in self.admitted
        return replace(message, priority=self._priorities.get(client, 0), admitted=admitted)

    def _publish_when_known(self, session: Session, messages: Sequence[Any]) -> None:
        name = session.name
        if not self.has_advertised(name):
            self._advertised[name] = session.connection
            self._held[name] = []  # what was held for the broker before comes again by itself
            advert = self.adverts[name]
            item = to_filter(advert.selector)
            message: Any = Advertise(1, item, round(advert.rate * MICRO), session.connection)
            super()._tell(session, [message])
        held = self._held.get(name)
        if held is None:
            super()._tell(session, messages)
        else:
            held += [(self.now, message) for message in messages]

    def _settle_at(self, session: Session, target: Host) -> None:
        self.standing.pop(session.name, None)
        super()._settle_at(session, target)

    # What waits for the quota of its publisher.

    def _accepted(self, host: Host, event: FromClient) -> None:
        last = int(event.message.batch.sequence[-1])  # type: ignore[union-attr]
        if host.machine.accepted(event.source) >= last and host.machine.shaping.waiting(event.source):
            self._waiting.setdefault((host.id, host.life), []).append(event)
        elif (event.source, last) not in self.over:
            super()._accepted(host, event)

    def _let_in(self, host: Host, client: ClientId, number: int) -> None:
        waiting = self._waiting[host.id, host.life]
        for event in [event for event in waiting if event.source == client]:
            if int(event.message.batch.sequence[-1]) <= number:  # type: ignore[union-attr]
                waiting.remove(event)
                super()._accepted(host, event)

    # What clients are told.

    def _inform(self, host: Host, effect: Inform) -> None:
        news = effect.news
        if isinstance(news, LetIn):
            self._let_in(host, effect.client, news.number)
        elif isinstance(news, OverQuota):
            self.over.add((effect.client, news.number))
            for sequence in range(news.number - news.events + 1, news.number + 1):
                self.account.lost(self.now, effect.client, sequence)
        arrives = self.now + self.links.client_seconds
        self.at(arrives, self._informed, host, host.life, host.attached.get(effect.client), effect)

    def _informed(self, host: Host, life: int, over: int | None, effect: Inform) -> None:
        session = self._listening(effect.client, host, life, over)
        if session is None:
            return
        news = effect.news
        if isinstance(news, Everywhere):
            held = self._held.pop(session.name, [])
            super()._tell(session, [_aged(message, self.now - since) for since, message in held])
        elif isinstance(news, Judgement):
            self._judged(session, news)
        elif isinstance(news, Standing):
            known = self.standing.setdefault(session.name, {})
            known[news.number] = news.refusals

    def _judged(self, session: Session, news: Judgement) -> None:
        machine = session.machine
        assert isinstance(machine, SubscriberMachine)
        if news.admitted:
            self.admitted.add((session.name, news.number))
        elif news.number in machine.subscriptions():
            machine.cancel(news.number)
            self.refused += 1
            self.account.cancelled(self.now, session.name, news.number)

    def lacking(self, client: ClientId) -> dict[int, tuple[Refusal, ...]]:
        """Return what each subscription of a subscriber lacks, as far as it was told; nothing where all is well."""
        machine = self.sessions[client].machine
        assert isinstance(machine, SubscriberMachine)
        there = machine.subscriptions()
        known = self.standing.get(client, {})
        return {number: lack for number, lack in known.items() if lack and number in there}

    def books_problems(self) -> list[str]:
        """Return what is wrong with the books of all brokers, given that the network is sound."""
        subscribers = {
            name: session.machine
            for name, session in self.sessions.items()
            if isinstance(session.machine, SubscriberMachine)
        }
        clients = Clients(
            homes=self.homes(),
            adverts={
                name: to_filter(self.adverts[name].selector)
                for name in self.adverts
                if self.has_advertised(name)
            },
            wanted={name: machine.subscriptions() for name, machine in subscribers.items()},
            lacking={name: self.lacking(name) for name in subscribers},
        )
        links, way = ways_of(self)
        return books_problems(books_seen(self), links, clients, way)

    def degraded(self) -> int:
        """Return how many subscriptions do not stand as they were promised, as far as their owners were told."""
        return sum(len(self.lacking(name)) for name in self.sessions if name not in self.adverts)

    def has_advertised(self, client: ClientId) -> bool:
        """Return whether a publisher has told its present broker what it advertises."""
        session = self.sessions.get(client)
        return session is not None and self._advertised.get(client) == session.connection

    def homes(self) -> dict[ClientId, BrokerId]:
        """Return the broker of each client."""
        return {name: session.home.id for name, session in self.sessions.items()}


def _aged(message: Any, seconds: float) -> Any:
    """Return a message that was held for so long; events that are said again say how old they are."""
    if isinstance(message, Events) and message.again:
        return replace(message, age_seconds=message.age_seconds + seconds)
    return message
