"""Admission control in a host: requests of clients, replies to clients, and capacity measurement.

Rules
-----
* CPU capacity is the highest event rate observed while the process used its CPU to the limit, sampled (4.1).
  Brokers in one process share its CPU, so each broker's own part is measured.
* For experiments and tests a broker can be burdened: each event that it takes in costs CPU time. The broker
  gets only a share of its CPU, as a container does, and blocks for the rest. A host has no burden unless one is
  set.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from ...admission.meters import CapacityMeter, DelayMeter
from ...admission.waiting import too_long
from ...protocol.effects import Received
from ...protocol.errors import RateExceeded, SubscriptionRejected
from ...protocol.features import Features
from ...protocol.ids import GROUP, BrokerId, ClientId
from ...protocol.messages.admission import (
    AdmissionConfig,
    Advertise,
    CapacityMeasured,
    DelaysMeasured,
    Everywhere,
    GuaranteeStatus,
    HeldBack,
    Judgement,
    LetIn,
    News,
    OverQuota,
    WouldAdmit,
    required,
)
from ...protocol.messages.pubsub import (
    Answers,
    ClockReads,
    Directed,
    Events,
    ReadClock,
    Register,
    Unanswered,
)
from .hosted_broker import Drive, HostedBroker


class HostAdmission:
    """Admission control of one host: replies to clients, deadlines of events, and CPU capacity.

    Parameters
    ----------
    features
        Those of the network.
    hosted_brokers
        A live view of the host's brokers.
    drive
        Passes an event to a broker and carries out the effects.

    Attributes
    ----------
    deadline_seconds
        How long an event may wait at one place; None for no limit.
    measures_delays
        Whether brokers have to know how long events wait.
    looks_at_events
        Whether events have to be taken in by `take_in`.
    """

    def __init__(
        self,
        features: Features,
        hosted_brokers: Mapping[BrokerId, HostedBroker],
        drive: Drive,
    ) -> None:
        self._features = features
        self.deadline_seconds = features.deadline_seconds
        self._delay_window = features.delay_window_seconds
        self.measures_delays = self._delay_window is not None
        self.looks_at_events = self.measures_delays or self.deadline_seconds is not None
        self._waits: dict[BrokerId, DelayMeter] = {}
        self._hosted_brokers = hosted_brokers
        self._drive = drive
        self._measuring: asyncio.Task[None] | None = None
        self._burden_seconds, self._share = 0.0, 1.0

    def require(self) -> None:
        """Raise InputError in a network without admission control."""
        required(self._features.admission)

    def inform(self, hosted: HostedBroker, client: ClientId, news: News, number: int = 0) -> None:
        """Pass news of the broker to its client; `number` is set if the client must acknowledge the news."""
        match news:
            case Judgement(dry=True):
                hosted.answers.give((client, WouldAdmit, news.number), news)
            case Judgement(admitted=False):
                hosted.answers.refuse((client, Register, news.number), rejection(client, news))
            case Judgement():
                pass  # answered when the subscription is installed
            case Everywhere():
                hosted.answers.give((client, Advertise, news.number), number)
            case HeldBack():
                hosted.answers.owe((client, Events, news.number))
            case LetIn():
                hosted.answers.give((client, Events, news.number))
            case OverQuota():
                hosted.answers.owe((client, Events, news.number))
                hosted.answers.refuse((client, Events, news.number), RateExceeded(news.reason))
            case Answers(here=True):
                hosted.answers.give((client, Register, news.number), news.begins)
            case ClockReads(now):
                hosted.answers.give((client, ReadClock, 0), now)
            case GuaranteeStatus() | Answers() | Unanswered():
                pass  # the broker keeps it and answers queries

    # Overload.

    def burden(self, cpu_seconds: float, share: float = 1.0) -> None:
        """From now on, make each event that a broker here takes in cost this CPU time, at this share of a CPU."""
        self._burden_seconds, self._share, self.looks_at_events = cpu_seconds, share, True

    def take_in(self, hosted: HostedBroker, message: Events | Directed, since: float | None) -> bool:
        """Return whether to take in events that have waited since `since`; if so, spend the burden on them first."""
        if self.deadline_seconds is not None and too_long(since, time.time(), self.deadline_seconds):
            hosted.expired_events += len(message.batch)
            return False
        if self._burden_seconds:
            work = self._burden_seconds * len(message.batch)
            until, over = time.thread_time() + work, time.monotonic() + work / self._share
            while time.thread_time() < until:
                pass
            time.sleep(
                max(0.0, over - time.monotonic())
            )  # block the event loop on purpose: the whole host is slow
        if self._delay_window is not None and since is not None:
            meter = self._waits.setdefault(hosted.broker.position.broker, DelayMeter(self._delay_window))
            meter.saw(max(0.0, time.time() - since), time.monotonic())
        return True

    def delays(self, hosted: HostedBroker) -> DelaysMeasured:
        """Return how long events have waited lately for a broker here and for its links."""
        meter = self._waits.get(hosted.broker.position.broker)
        links = {to: box.longest_wait for to, box in hosted.links.items()}
        if hosted.group is not None:
            links[GROUP] = hosted.group.longest_wait
        now = time.monotonic()
        return DelaysMeasured(now, 0.0 if meter is None else meter.highest(now), links)

    # Capacity.

    def measure_soon(self) -> None:
        """Start sampling, if the configuration asks for it."""
        if self._features.measures and self._measuring is None:
            config = required(self._features.admission)
            self._measuring = asyncio.get_running_loop().create_task(self._measure(config))

    async def _measure(self, config: AdmissionConfig) -> None:
        meters: Mapping[BrokerId, CapacityMeter] = {
            broker: CapacityMeter(config.utilisation_max) for broker in self._hosted_brokers
        }
        while True:
            for broker, hosted in self._hosted_brokers.items():
                meter = meters[broker]
                if meter.sample(time.monotonic(), time.process_time(), hosted.events_in):
                    self._drive(hosted, Received(broker, CapacityMeasured(meter.highest)))
            await asyncio.sleep(config.sample_seconds)


def rejection(client: ClientId, news: Judgement) -> SubscriptionRejected:
    """Return the error that names the brokers that refused a subscription, and their reasons."""
    brokers = len({refusal.broker for refusal in news.refusals})
    reasons = "; ".join(map(str, news.refusals))
    return SubscriptionRejected(
        f"subscription {news.number} of {client!r}: {brokers} of {news.asked} brokers refuse: {reasons}",
        news.refusals,
        news.asked,
    )
