"""Durable subscribers and returning publishers on Ray: clients whose name outlives their process.

Rules
-----
* A durable subscriber's position and subscriptions are with the rendezvous point, which has them in its store before
  `acknowledge` returns. So it comes back in any process, at any broker, also when the one that held it is dead.
* Each process that comes begins a new life. Whoever speaks in an earlier one gets an error: a name is in one place.
* It acknowledges by word: what was handed out and is not acknowledged when the process dies is handed out again.
* It has a poll of its own, so that it may be as slow as it likes.
* A publisher that comes back goes to the broker that accepted its last events, and goes on behind what that accepted.
  When that broker is gone, it goes on at another, above every number that it may have used.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayActorError

from ...faults.replay.clients import SubscriberMachine
from ...protocol import checks
from ...protocol.errors import BrokerUnavailable
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.pubsub import ClientMessage, Consumed, Detach, HasConsumed
from ..host.errors import broker_errors
from ..host.requests import Away
from .client import Context
from .inbox import Arrival
from .notification import Notification
from .publisher import Publisher
from .subscriber import Subscriber


class DurableSubscriber(Subscriber):
    """A subscriber whose subscriptions and position outlive its process.

    Made by :meth:`Network.subscriber` with ``durable=True``. What comes is handed out again in a later life unless it
    was acknowledged: call :meth:`acknowledge` when the work on it is done.
    """

    def __init__(self, name: ClientId, broker: BrokerId, context: Context, record: dict[str, Any]) -> None:
        self._record_found = record
        self._told: dict[ClientId, int] = {}  # what its broker was told that it has acknowledged
        super().__init__(name, broker, context)
        self._handed: dict[ClientId, int] = {}
        with broker_errors(str(self)):
            self._process.run(self._arrive())

    def _new_machine(self) -> SubscriberMachine:
        machine = SubscriberMachine(durable=True)
        machine.restore(self._record_found)
        return machine

    @property
    def _inbox_wait_seconds(self) -> float | None:
        return None

    @property
    def position(self) -> dict[ClientId, int]:
        """Per publisher, the last sequence that is acknowledged."""
        return dict(self._machine.position)

    async def _arrive(self) -> None:
        """Say at its broker that it is here; at another one when that has died, or does not answer."""
        assert self._recovery is not None
        seen = float(self._record_found["seen"])
        host = self.host
        try:
            patience = self._recovery.client_patience_seconds
            await self._say_here(host, self.broker, time.time() - seen, patience)
        except (RayActorError, BrokerUnavailable, TimeoutError) as error:
            await self.move(host, isinstance(error, ActorDiedError))

    async def _go_on_at(self, host: Any, broker: BrokerId, patience_seconds: float) -> None:
        self._inbox.host = host  # from here on nothing of the old one is taken in
        self._machine.life = await self._rendezvous.renew.remote(self.name, self._machine.life, broker)
        await self._say_here(host, broker, time.time() - self._inbox.heard_at, patience_seconds)

    async def _say_here(self, host: Any, broker: BrokerId, away: float, seconds: float) -> None:
        self._told = dict(self._machine.position)
        await super()._say_here(host, broker, away, seconds)
        self._inbox.recover()

    def _say_what_it_knows(self) -> None:
        """Say what its broker was told; what the rendezvous point has yet to write down is not acknowledged."""
        self.host.request.remote(self.broker, self.name, [HasConsumed(dict(self._told), self._machine.life)])

    def _leave(self, host: Any, broker: BrokerId) -> None:
        host.request.remote(
            broker, self.name, [Away()]
        )  # what it holds is let go by a word of the rendezvous point

    # Subscriptions are written down when they are installed, and before they are cancelled.

    def subscribe_all(
        self,
        filters: Any,
        *,
        timeout_seconds: float | None = None,
        priority: int = 0,
        local_first: bool = False,
    ) -> list[int]:
        """Subscribe to several filters in one call; see :meth:`Subscriber.subscribe_all`."""
        numbers = super().subscribe_all(
            filters, timeout_seconds=timeout_seconds, priority=priority, local_first=local_first
        )
        self._write_down()
        return numbers

    def unsubscribe(self, number: int) -> None:
        """Cancel a subscription; what was on its way already may still come."""
        self._write_down(number)
        super().unsubscribe(number)

    def _write_down(self, *without: int) -> None:
        """Let what is in force outlive this process, but for what is about to be cancelled."""
        machine = self._machine
        asked = machine.subscriptions().keys() - machine.in_force().keys()
        self._ask_rendezvous("subscriptions", machine.life, machine.record(without=asked | set(without)))

    def _ask_rendezvous(self, method: str, *arguments: Any) -> Any:
        with broker_errors(str(self)):
            call = getattr(self._rendezvous, method).remote(self.name, *arguments)
            return ray.get(call, timeout=self._directory.limits.call_seconds)

    # Acknowledgements.

    def _hand_out_all(self, arrival: Arrival) -> None:
        super()._hand_out_all(arrival)
        for row in arrival.rows.tolist():
            self._hand_out(*arrival.batch.identity(row))

    def _hand_out(self, publisher: ClientId, sequence: int) -> None:
        self._handed[publisher] = max(sequence, self._handed.get(publisher, 0))

    def acknowledge(self, note: Notification | None = None) -> None:
        """Let the position go on; when this returns, nothing up to it is ever handed out again.

        Parameters
        ----------
        note
            This one, and all before it of the same publisher; None for all that was handed out so far.

        Raises
        ------
        ClientError
            If another process has come under this name since, or this one is closed.
        BrokerUnavailable
            If the rendezvous point does not write it down in time; then it may or may not be acknowledged.
        """
        self._open()
        checks.optional("note", note, Notification, "a Notification")
        self.acknowledge_up_to(dict(self._handed) if note is None else {note.publisher: note.sequence})

    def acknowledge_up_to(self, marks: Mapping[ClientId, int]) -> None:
        """Let the position go on to these sequences, by publisher; see `acknowledge`."""
        self._open()
        before = dict(self._machine.position)
        for message in self._machine.acknowledge(marks):
            try:
                self._ask_rendezvous("acknowledge", self._machine.life, self._machine.position)
            except BaseException:
                self._machine.position = before
                raise
            # Not waited for: it only lets the broker forget, and a process that comes back says it too.
            self._process.submit(self._let_forget(message))

    async def _let_forget(self, message: ClientMessage) -> None:
        """Tell its broker what it need not keep; during a move the next one, which may have been told less."""
        assert isinstance(message, Consumed)
        async with self._moving:
            said = replace(message, life=self._machine.life)
            self.host.request.remote(self.broker, self.name, [said])
            self._told |= {name: max(mark, self._told.get(name, 0)) for name, mark in said.marks.items()}

    async def acknowledge_async(self, note: Notification | None = None) -> None:
        """Acknowledge from a coroutine; see `acknowledge`."""
        await asyncio.to_thread(self.acknowledge, note)

    # Leaving.

    def close(self) -> None:
        """Leave the network; the subscriptions stay, and the broker keeps what comes until it is back."""
        if not self._closed:
            self._depart(Away())

    def end(self) -> None:
        """Leave for good: subscriptions are cancelled, the position is forgotten."""
        if not self._closed:
            self._depart(Detach())
            self._ask_rendezvous("end_durable", self._machine.life)

    def _depart(self, last_word: Away | Detach) -> None:
        self._closed = True
        self._process.leave(self)
        broker, host = self._process.run(self._arrived())
        host.request.remote(broker, self.name, [last_word])
        self._inbox.close()
        self._process.forget(self.name)
        host.end_session.remote(self._process.session)
        self._process.close()


class ReturningPublisher(Publisher):
    """A publisher whose numbers outlive its process. Made by :meth:`Network.publisher` with ``durable=True``."""

    def __init__(
        self,
        name: ClientId,
        broker: BrokerId,
        context: Context,
        known: tuple[int, list[tuple[float, Any]], int],
    ) -> None:
        published, kept, self._reserved = known
        super().__init__(name, broker, context, published)
        self._machine.come_back(time.time(), published, kept)

    def _call(self, batch: Any) -> None:
        last = self.published + len(batch)
        if last > self._reserved:
            with broker_errors(str(self)):
                call = self._rendezvous.reserve.remote(self.name, last)
                self._reserved = ray.get(call, timeout=self._directory.limits.call_seconds)
        super()._call(batch)

    async def _go_on_at(self, host: Any, broker: BrokerId, patience_seconds: float) -> None:
        await self._rendezvous.home_of_publisher.remote(self.name, broker, False)
        await super()._go_on_at(host, broker, patience_seconds)
        await self._rendezvous.home_of_publisher.remote(self.name, broker, True)
