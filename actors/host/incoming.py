"""Calls that bring a host messages: from other brokers, and from clients.

Rules
-----
* Calls of one sender are handled in the order in which they were made. A call begins when its method is called.
* A call in which nothing has to be waited for is handled and answered at once, without a task or a turn of the
  event loop. Others return what is to be awaited.
* What a call has brought leaves before the call is answered (`departures`).
* A call that brought events is answered when the queues that they filled have room again (backpressure).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from ...protocol.configs import Limits
from ...protocol.errors import ClientError
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.admission import Advertise, WouldAdmit
from ...protocol.messages.pubsub import Back, Cancel, Detach, Events, Numbered, ReadClock, Register, Resume
from ...protocol.messages.recovery import RENDEZVOUS
from ...protocol.messages.views import MembershipView, ViewWants
from ..channels.pool import node_here
from ..later import Later
from . import survey as host_survey
from .admission import HostAdmission
from .attachments import Attachments
from .commits import Commits
from .departures import Departures
from .driver import Backpressure, Driver
from .hosted_broker import HostedBroker
from .numbered import NumberedLinks
from .outbox import LinkMessage
from .requests import (
    Accepted,
    Away,
    Lacking,
    Question,
    Request,
    Stored,
    WhoAnswers,
    answer_to,
    carried,
    publications,
    questions,
)
from .transport import LINK, Transport

BEGINNING: Final = (Events, ReadClock, Register, Resume)
"""What no client may start any more at a broker that leaves."""
OWNED: Final = (Events, Detach, Away)
"""What only the client that has the name may send."""
RETRANSMITTED_AFTER: Final = (MembershipView, ViewWants)
"""After these, retained events are sent again."""


class Incoming:
    """Takes in messages for the brokers of one host.

    Parameters
    ----------
    hosted_brokers
        A live view of the host's brokers.
    limits
        The limits of the network.
    ways, departures, driver, attachments, admission
        Those of the host.
    admits
        Whether brokers control admission, and publications may be answered later.
    numbered
        The part for brokers that number messages; None where they do not.
    wake
        Resumes the brokers of such a host after a restart by Ray, if that has not happened yet.
    service
        Waits for as long as an injected fault delays a broker.
    """

    def __init__(
        self,
        hosted_brokers: Mapping[BrokerId, HostedBroker],
        limits: Limits,
        ways: Transport,
        departures: Departures,
        driver: Driver,
        attachments: Attachments,
        admission: HostAdmission,
        admits: bool,
        numbered: NumberedLinks | None,
        wake: Callable[[], Awaitable[None]],
        service: Callable[[BrokerId, int], Awaitable[None]],
    ) -> None:
        self._hosted_brokers = hosted_brokers
        self._events_max = limits.call_events_max * 4
        self._transport = ways
        self._departures = departures
        self._driver = driver
        self._attachments = attachments
        self._admission = admission
        self._admits = admits
        self._numbered = numbered
        self._wake = wake
        self._service = service
        self._node = ""
        self._waiting: set[asyncio.Task[None]] = set()  # for room, until a publisher is answered

    @property
    def _at_once(self) -> bool:
        """Whether calls begin when they arrive; where a broker sleeps or is slowed down, they wait in order."""
        return self._numbered is None and self._transport.passage is None

    def node(self) -> str:
        """Return the Ray node of this process, which stays the same."""
        if not self._node:
            self._node = node_here()
        return self._node

    # From brokers.

    def receive(
        self,
        to: BrokerId,
        source: BrokerId,
        messages: Sequence[LinkMessage],
        incarnation: int = 0,
        *since: float,
        near: bool = False,
    ) -> str | Awaitable[str]:
        """Take messages in order from a broker, or from the rendezvous point; give this Ray node.

        With `near` they are of a broker of this host, which awaits nothing but room: what they bring leaves soon.
        """
        if self._at_once and self._transport.knows(source, incarnation):
            return self._hand_on(to, source, messages, since, near=near)
        current = self._transport.current(source, incarnation)
        return self._hand_on_later(current, to, source, messages, since)

    async def _hand_on_later(
        self,
        current: Awaitable[bool],
        to: BrokerId,
        source: BrokerId,
        messages: Sequence[LinkMessage],
        since: tuple[float, ...],
    ) -> str:
        if self._numbered is not None:
            await self._wake()
        if not await current:
            return self.node()  # its sender is of an earlier incarnation
        if self._transport.passage is not None and source == RENDEZVOUS:
            await self._transport.passage.passage(source, to, LINK)
        await self._service(to, len(messages))
        answer = self._hand_on(to, source, messages, since)
        return answer if isinstance(answer, str) else await answer

    def _hand_on(
        self,
        to: BrokerId,
        source: BrokerId,
        messages: Sequence[LinkMessage],
        since: tuple[float, ...],
        *,
        near: bool = False,
    ) -> str | Awaitable[str]:
        hosted = self._hosted_brokers.get(to)
        if hosted is None:
            return self.node()  # the broker has left
        pressure = Backpressure(since)
        departures = self._departures
        departures.hold()
        try:
            for message in messages:
                repaired = isinstance(
                    message, RETRANSMITTED_AFTER
                )  # events leave in all directions: nobody waits
                self._driver.handle(
                    hosted, source, message, pressure.from_clients() if repaired else pressure
                )
        finally:
            left = departures.go()
        if (left or near) and hosted.settled and not pressure.filled:
            return self._node or self.node()
        return self._settled(hosted, pressure)

    async def _settled(self, hosted: HostedBroker, pressure: Backpressure) -> str:
        await hosted.stable()
        await self._driver.room(pressure)
        return self.node()

    # From clients.

    def request(
        self, at: BrokerId, client: ClientId, messages: Sequence[Request], session: str = "", *since: float
    ) -> Any:
        """Pass a client's messages to its broker, in order; give the answer to the last (see `requests`).

        `session` names the process of a subscriber that attaches or subscribes. With events, and with a farewell, it
        is the ticket with which the client attached. `since` is when a publisher called.
        """
        if self._at_once:
            return self._take_all(at, client, messages, session, since)
        return self._request_later(at, client, messages, session, since)

    async def _request_later(
        self,
        at: BrokerId,
        client: ClientId,
        messages: Sequence[Request],
        session: str,
        since: tuple[float, ...],
    ) -> Any:
        if self._numbered is not None:
            await self._wake()
        await self._service(at, 1)
        answer = self._take_all(at, client, messages, session, since)
        return await answer if isinstance(answer, Awaitable) else answer

    def _take_all(
        self,
        at: BrokerId,
        client: ClientId,
        messages: Sequence[Request],
        session: str,
        since: tuple[float, ...],
    ) -> Any:
        if messages and isinstance(carried(messages[0]), OWNED):
            self._attachments.require_own(session, client)
        alone = len(messages) == 1 and type(messages[0]) is Events
        if alone:  # events ask nothing, and need only a broker that takes them
            hosted = self._attachments.open_broker(at)
            owed: list[Question] = []
        else:
            hosted = self._hosted_for(at, client, messages, session)
            owed = questions(client, messages)
        published = publications(client, messages) if self._admits else ()
        answers = [hosted.answers.owe(question) for question in owed]
        pressure = Backpressure(since)
        if self._numbered is not None:
            return self._take_numbered(hosted, client, messages, (owed, published, answers), pressure)
        departures = self._departures
        departures.hold()
        try:
            taken = [self._take(hosted, client, message, pressure) for message in messages]
        except BaseException:
            _forget(hosted, owed, published)
            raise
        finally:
            left = departures.go()
        settled = left and not published and hosted.settled and not pressure.filled
        if settled and alone:
            return None
        if alone and left and not published and hosted.commits is not None:
            return self._published_later(hosted.commits, pressure)
        if settled and all(
            kind in (ReadClock, Register) and answer.done()
            for (_, kind, _), answer in zip(owed, answers, strict=True)
        ):
            try:
                return answer_to(owed, [answer.result() for answer in answers] or taken)
            finally:
                _forget(hosted, owed, published)
        return self._answered(hosted, (owed, published, answers), taken, pressure)

    def _published_later(self, commits: Commits, pressure: Backpressure) -> Later[None]:
        """Give the answer to a publisher when its events are stable and on their way, and have found room."""
        answer: Later[None] = Later()

        def found(room: asyncio.Task[None]) -> None:
            self._waiting.discard(room)
            error = None if room.cancelled() else room.exception()
            if isinstance(error, Exception):
                answer.fail(error)
            else:
                answer.give(None)

        def stable(given: Later[None]) -> None:
            if given.error is not None:
                answer.fail(given.error)
            elif pressure.filled:
                room = asyncio.get_running_loop().create_task(self._driver.room(pressure))
                self._waiting.add(room)
                room.add_done_callback(found)
            else:
                answer.give(None)

        commits.stable_later().then(stable)
        return answer

    async def _take_numbered(
        self,
        hosted: HostedBroker,
        client: ClientId,
        messages: Sequence[Request],
        asked: Asked,
        pressure: Backpressure,
    ) -> Any:
        assert self._numbered is not None
        taken = []
        try:
            for message in messages:
                if isinstance(message, Numbered) and isinstance(message.message, Events):
                    await self._numbered.publish(hosted, client, message, pressure)
                else:
                    taken.append(self._take(hosted, client, message, pressure))
        except BaseException:
            _forget(hosted, *asked[:2])
            raise
        return await self._answered(hosted, asked, taken, pressure)

    async def _answered(
        self, hosted: HostedBroker, asked: Asked, taken: list[Any], pressure: Backpressure
    ) -> Any:
        """Return the answer to a request whose messages the broker has taken."""
        owed, published, answers = asked
        try:
            await hosted.stable()
            await self._driver.room(pressure)
            if published:
                answers = [*answers, *hosted.answers.owed(published)]
            given = await asyncio.gather(*answers) if answers else None
        finally:
            _forget(hosted, owed, published)
        return answer_to(owed, given or taken)

    def _hosted_for(
        self, at: BrokerId, client: ClientId, messages: Sequence[Request], session: str
    ) -> HostedBroker:
        """Return the hosted broker that a request is for, after checking that the client may make it there."""
        kinds = set(map(type, messages))
        if Detach in kinds and at in self._hosted_brokers:
            return self._hosted_brokers[at]  # also if the broker has left already
        begins = not kinds.isdisjoint(BEGINNING)
        hosted = self._attachments.open_broker(at) if begins else self._attachments.hosted_broker(at)
        if WouldAdmit in kinds or (Advertise in kinds and not hosted.broker.takes_advertisements):
            self._admission.require()
        if self._numbered is not None and Back in kinds and session:
            self._numbered.reattach(hosted, client, session)
        elif resumes := [message.incarnation for message in messages if isinstance(message, Resume)]:
            if len(resumes) > 1:
                raise ClientError(f"{client!r} resumes {len(resumes)} times in one request: send one Resume")
            self._attachments.take_over(hosted, client, session, resumes[0])
        elif Register in kinds:
            self._attachments.own(hosted, client, session)
        elif Advertise in kinds and session:
            self._attachments.offers(hosted, client, session)
        return hosted

    def _take(self, hosted: HostedBroker, client: ClientId, message: Request, pressure: Backpressure) -> Any:
        """Take one message of a client; return the answer, if it is a question that the host can answer."""
        match message:
            case Events():
                if not message.retransmitted:
                    self._departures.afterwards(hosted.telemetry.published, time.time(), message.batch)
                self._driver.handle(hosted, client, message, pressure)
            case Cancel(number):
                self._driver.handle(hosted, client, message)
                self._attachments.cancelled(hosted, client, number)
            case Resume(incarnation=incarnation, numbers=numbers):
                self._driver.handle(hosted, client, message)
                if incarnation:
                    self._attachments.came_back(hosted, client, numbers)
            case Detach():
                self._attachments.let_go(hosted, client)
            case Away():
                self._attachments.away(hosted, client)
            case Accepted() | Lacking() | WhoAnswers():
                return host_survey.answer(hosted.broker, client, message)
            case Stored(about):
                return 0 if self._numbered is None else self._numbered.heard_from(hosted, client, about)
            case _:
                self._driver.handle(hosted, client, message)  # not a question
        return None

    def poll(
        self, session: str, acknowledged: int, timeout_seconds: float, ahead: int = 0
    ) -> list[Any] | Later[list[Any]]:
        """Give the delivery batches that wait for a client process; see :meth:`Session.poll`."""
        attached = self._attachments
        if self._numbered is not None:
            ahead = 0  # an acknowledgement ends what a store keeps of a delivery
            self._numbered.acknowledge(session, acknowledged)
        elif told := attached.given_up(session):
            return [*attached.taken_from(session), *told]
        queue = attached.session(session)
        queue.acknowledge(acknowledged)
        attached.catch_up(queue)
        found = queue.poll(acknowledged, timeout_seconds, self._events_max, ahead)
        return found.ending_in(  # parts bring events alone: the process takes them in the quick way
            lambda arrived: [*arrived, *attached.farewells(), *attached.taken_from(session)]
        )


Asked = tuple[Sequence[Question], Sequence[Question], list[asyncio.Future[Any]]]
"""The questions of a request; the publications in it that may be answered later; the answers to the questions."""


def _forget(hosted: HostedBroker, owed: Sequence[Question], published: Sequence[Question]) -> None:
    for question in (*owed, *published):
        hosted.answers.forget(question)
