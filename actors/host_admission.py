"""The side of a host that has to do with admission control: what clients ask, what they are told, what is measured.

Rules
-----
* A call that advertises returns when the advertisement is known everywhere and what is wanted of it has come back.
* How a subscription stands is kept until its owner asks.
* CPU capacity is the highest rate of events seen while the process used its CPU to the limit, sampled (4.1). Brokers
  that share a process share its CPU: what is measured is each one's own part.
* For experiments and tests a broker can be burdened: each event that it takes in costs CPU time, and of its CPU it gets
  a share, as a container does: then it stands still. A host that was never told of a burden has none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..admission.meters import CapacityMeter
from ..protocol.admission import (
    AdmissionConfig,
    Advertise,
    CapacityMeasured,
    Everywhere,
    Judgement,
    News,
    Refusal,
    Unadvertise,
    WouldAdmit,
)
from ..protocol.effects import Received
from ..protocol.errors import InputError, SubscriptionRejected
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Events
from ..routing.filters import Filter


class AdmissionSide:
    """What :class:`~.host.BrokerHost` does about admission control; it brings the seats and the driver."""

    _admission: AdmissionConfig | None
    _seats: dict[BrokerId, Any]

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[tuple[BrokerId, ClientId, str, int], asyncio.Future[Any]] = {}
        self._standing: dict[tuple[BrokerId, ClientId], dict[int, tuple[Refusal, ...]]] = {}
        self._measuring: asyncio.Task[None] | None = None
        self._expired: dict[BrokerId, int] = {}
        self._burden_seconds, self._share = 0.0, 1.0

    def _seat_of(self, broker: BrokerId) -> Any:
        raise NotImplementedError

    def _handle(self, seat: Any, source: Any, message: Any) -> None:
        raise NotImplementedError

    def _carry_out(self, seat: Any, effect: Any, filled: Any, full: Any) -> None:
        raise NotImplementedError

    # What clients ask.

    async def advertise(
        self, at: BrokerId, publisher: ClientId, number: int, item: Filter, rate: int, version: int
    ) -> None:
        """Spread an advertisement of at most `rate` micro-events a second; return when it is everywhere."""
        await self._ask_for(at, publisher, "advertise", number, Advertise(number, item, rate, version))

    async def unadvertise(self, at: BrokerId, publisher: ClientId, number: int) -> None:
        """Withdraw an advertisement."""
        self._handle(self._admitting(at), publisher, Unadvertise(number))

    async def would_admit(
        self, at: BrokerId, client: ClientId, number: int, item: Filter, priority: int
    ) -> Judgement:
        """Return the judgement on a subscription that is not made."""
        message = WouldAdmit(number, item, priority)
        answer: Judgement = await self._ask_for(at, client, "dry", number, message)
        return answer

    async def books(self) -> dict[BrokerId, dict[str, Any]]:
        """Return the books of every broker here."""
        return {
            broker: {
                **seat.broker.admitting.admission.books.describe(),
                "degraded": seat.broker.admitting.admission.standings.count(),
            }
            for broker, seat in self._seats.items()
            if seat.broker.admitting is not None
        }

    async def standing(self, at: BrokerId, client: ClientId) -> dict[int, tuple[Refusal, ...]]:
        """Return what the subscriptions of a client lack, by number; those that lack nothing are not there."""
        return dict(self._standing.get((at, client), {}))

    def _admitting(self, at: BrokerId) -> Any:
        if self._admission is None:
            raise InputError(
                "this network has no admission control: launch it with admission=AdmissionConfig()"
            )
        return self._seat_of(at)

    async def _ask_for(self, at: BrokerId, client: ClientId, word: str, number: int, message: Any) -> Any:
        seat = self._admitting(at)
        future = self._told[at, client, word, number] = asyncio.get_running_loop().create_future()
        try:
            self._handle(seat, client, message)
            return await future
        finally:
            self._told.pop((at, client, word, number), None)

    def _inform(self, seat: Any, client: ClientId, news: News) -> None:
        """Tell a client what a broker has to say."""
        at = seat.broker.position.broker
        if isinstance(news, Judgement) and not news.dry:
            done = seat.confirming.get((client, news.number))
            if not news.admitted and done is not None and not done.done():
                done.set_exception(rejection(client, news))
        elif isinstance(news, Judgement | Everywhere):
            word = "dry" if isinstance(news, Judgement) else "advertise"
            future = self._told.get((at, client, word, news.number))
            if future is not None and not future.done():
                future.set_result(news)
        else:
            known = self._standing.setdefault((at, client), {})
            known[news.number] = news.refusals
            if not news.refusals:
                del known[news.number]

    def _forget_standing(self, at: BrokerId, client: ClientId, number: int | None = None) -> None:
        if number is None:
            self._standing.pop((at, client), None)
        else:
            self._standing.get((at, client), {}).pop(number, None)

    # Overload.

    async def burden(self, cpu_seconds: float, share: float = 1.0) -> None:
        """Let each event that a broker here takes in cost so much CPU time, at that share of a CPU, from now on."""
        self._burden_seconds, self._share = cpu_seconds, share

    async def cpu_seconds(self) -> float:
        """Return the CPU time that this process has used so far."""
        return time.process_time()

    def _take_in(self, seat: Any, message: Events) -> Events | None:
        """Return the events that are not older than the deadline, once they were worked on."""
        in_time = self._in_time(seat, message)
        if self._burden_seconds and in_time is not None:
            work = self._burden_seconds * len(in_time.batch)
            until, over = time.thread_time() + work, time.monotonic() + work / self._share
            while time.thread_time() < until:
                pass
            time.sleep(max(0.0, over - time.monotonic()))  # on the event loop: nothing else goes on meanwhile
        return in_time

    def _in_time(self, seat: Any, message: Events) -> Events | None:
        """Return the events that are not older than the deadline; the others are dropped and counted."""
        if self._admission is None or self._admission.deadline_seconds is None:
            return message
        young = message.batch.published_at >= time.time() - self._admission.deadline_seconds
        rows = np.flatnonzero(young)
        if len(rows) == len(young):
            return message
        broker = seat.broker.position.broker
        self._expired[broker] = self._expired.get(broker, 0) + len(young) - len(rows)
        return replace(message, batch=message.batch.take(rows)) if len(rows) else None

    # Capacity.

    def _measure_soon(self) -> None:
        """Begin to sample, if that is wanted."""
        if self._admission is not None and self._admission.measure and self._measuring is None:
            self._measuring = asyncio.get_running_loop().create_task(self._measure(self._admission))

    async def _measure(self, config: AdmissionConfig) -> None:
        meters: Mapping[BrokerId, CapacityMeter] = {
            broker: CapacityMeter(config.utilisation_max) for broker in self._seats
        }
        while True:
            for broker, seat in self._seats.items():
                meter = meters[broker]
                if meter.sample(time.monotonic(), time.process_time(), seat.events_in):
                    event = Received(broker, CapacityMeasured(meter.highest))
                    for effect in seat.broker.handle(event):
                        self._carry_out(seat, effect, None, None)
            await asyncio.sleep(config.sample_seconds)


def rejection(client: ClientId, news: Judgement) -> SubscriptionRejected:
    """Return the error that says who refused a subscription, and why."""
    brokers = len({refusal.broker for refusal in news.refusals})
    reasons = "; ".join(map(str, news.refusals))
    return SubscriptionRejected(
        f"subscription {news.number} of {client!r}: {brokers} of {news.asked} brokers refuse: {reasons}",
        news.refusals,
        news.asked,
    )
