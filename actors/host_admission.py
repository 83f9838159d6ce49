"""The side of a host that has to do with admission control: what clients ask, what they are told, what is measured.

Rules
-----
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
    WouldAdmit,
)
from ..protocol.effects import Received
from ..protocol.errors import InputError, SubscriptionRejected
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Events, Register


class AdmissionSide:
    """What :class:`~.host.BrokerHost` does about admission control; it brings the seats and the driver."""

    _admission: AdmissionConfig | None
    _seats: dict[BrokerId, Any]

    def __init__(self) -> None:
        super().__init__()
        self._standing: dict[tuple[BrokerId, ClientId], dict[int, tuple[Refusal, ...]]] = {}
        self._measuring: asyncio.Task[None] | None = None
        self._expired: dict[BrokerId, int] = {}
        self._burden_seconds, self._share = 0.0, 1.0

    def _carry_out(self, seat: Any, effect: Any, pressure: Any) -> None:
        raise NotImplementedError

    # What clients ask.

    def _require_admission(self) -> None:
        if self._admission is None:
            raise InputError(
                "this network has no admission control: launch it with admission=AdmissionConfig()"
            )

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

    def _degraded(self, seat: Any, client: ClientId) -> dict[int, tuple[Refusal, ...]]:
        return dict(self._standing.get((seat.broker.position.broker, client), {}))

    def _inform(self, seat: Any, client: ClientId, news: News) -> None:
        """Tell a client what a broker has to say."""
        match news:
            case Judgement(dry=True):
                seat.answers.give((client, WouldAdmit, news.number), news)
            case Judgement(admitted=False):
                seat.answers.refuse((client, Register, news.number), rejection(client, news))
            case Judgement():
                pass  # it is answered when it is installed
            case Everywhere():
                seat.answers.give((client, Advertise, news.number))
            case _:
                known = self._standing.setdefault((seat.broker.position.broker, client), {})
                known[news.number] = news.refusals
                if not news.refusals:
                    del known[news.number]

    def _forget_standing(self, seat: Any, client: ClientId, number: int | None = None) -> None:
        key = seat.broker.position.broker, client
        if number is None:
            self._standing.pop(key, None)
        else:
            self._standing.get(key, {}).pop(number, None)

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
                        self._carry_out(seat, effect, None)
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
