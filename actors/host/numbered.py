"""The part of a host whose brokers number the messages on their links: publications and acknowledgements of clients.

Rules
-----
* Clients number their messages. Publishing is answered when the events are stable. The host retransmits to the
  broker what the broker ignores because a queue is full or a quota holds it back.
* A client process sends BACK to each new incarnation of the host, for each of its subscribers. What the process
  acknowledges by its polls is acknowledged to the broker.

Where brokers do not number messages, a host does not have this part.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace

from ...protocol.errors import BrokerUnavailable, ClientError
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.pubsub import Ack, Events, Numbered
from ...protocol.queries import HeardFrom, OwedToBrokers, WaitingOf
from ...protocol.stability import Stability
from .attachments import Attachments
from .driver import Backpressure, Driver
from .hosted_broker import HostedBroker
from .sessions import DeliveryBatch


class NumberedLinks:
    """The clients of brokers that recover from crashes.

    Parameters
    ----------
    hosted_brokers
        A live view of the host's brokers.
    attachments
        Their clients.
    driver
        Passes them messages.
    stability
        The timing of the brokers.
    """

    def __init__(
        self,
        hosted_brokers: Mapping[BrokerId, HostedBroker],
        attachments: Attachments,
        driver: Driver,
        stability: Stability,
    ) -> None:
        self._hosted_brokers = hosted_brokers
        self._attachments = attachments
        self._driver = driver
        self._again_seconds = stability.retransmit_seconds

    async def publish(
        self, hosted: HostedBroker, publisher: ClientId, adv: Numbered, pressure: Backpressure
    ) -> None:
        """Take numbered events from a publisher; return when they are stable.

        Raises
        ------
        StorageFailed
            If they cannot be made stable; none of them was sent on.
        ClientError
            If earlier events of the publisher are missing.
        """
        batch, broker, last = adv.message.batch, hosted.broker, adv.number
        if not adv.message.retransmitted:
            hosted.telemetry.published(batch.published_at[-1], batch)
        adv = replace(adv, message=Events(batch))  # to the broker a retransmission is the same message
        question = publisher, Numbered, last
        acknowledged = hosted.answers.owe(question)
        try:
            while True:
                self._driver.handle(hosted, publisher, adv, pressure)
                pressure.uncounted()
                await hosted.stable()
                heard = broker.ask(HeardFrom(publisher, "events"))
                if heard >= last:
                    return
                if heard < adv.before and not broker.ask(WaitingOf(publisher)):
                    raise ClientError(f"publisher {publisher!r}: {heard + 1} to {adv.before} are missing")
                await asyncio.wait([acknowledged], timeout=self._again_seconds)
        finally:
            hosted.answers.forget(question)

    def heard_from(self, hosted: HostedBroker, client: ClientId, about: str) -> int:
        """Return the last number of a client that a broker has taken, about "events" or "subscriptions"."""
        return hosted.broker.ask(HeardFrom(client, about))

    def reattach(self, hosted: HostedBroker, client: ClientId, session: str) -> None:
        """Attach a returning subscriber to this process, unless another live process has it."""
        before = hosted.owners.get(client)
        if before is not None and before.gone(time.monotonic()):
            del hosted.owners[client]
        self._attachments.own(hosted, client, session)

    def acknowledge(self, session: str, number: int) -> None:
        """Acknowledge to the brokers what a client process has received.

        Raises
        ------
        BrokerUnavailable
            If this incarnation of the host does not know the process: the process has to send BACK.
        """
        queue = self._attachments.sessions.get(session)
        if queue is None:
            raise BrokerUnavailable("the host was started again: say back")
        notes = {
            (delivery.broker, client): delivery.note
            for delivery in queue.up_to(number)
            if isinstance(delivery, DeliveryBatch)
            for client in delivery.clients
        }
        for (broker, client), note in notes.items():
            self._driver.handle(self._hosted_brokers[broker], client, Ack(note), None)

    async def at_rest(self) -> bool:
        """Wait until all is stable; return whether the other brokers have acknowledged everything by then."""
        hosted_brokers = self._hosted_brokers.values()
        for hosted in hosted_brokers:
            await hosted.stable()
        if any(hosted.broker.ask(OwedToBrokers()) for hosted in hosted_brokers):
            await asyncio.sleep(self._again_seconds / 4)
            return False
        for hosted in hosted_brokers:
            # Acknowledged messages are removed from the file; otherwise the next incarnation would send them again.
            self._driver.tell_time(hosted)
            await hosted.stable()
        return True
