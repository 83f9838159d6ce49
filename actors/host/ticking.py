"""The part of a host that tells its brokers the time periodically, if they need it.

Rules
-----
* Brokers that heal are told the time four times per heartbeat. Brokers that number what they send are told it twice
  per retransmission. Brokers whose publishers have quotas are told it at least every `QUOTA_TICK_SECONDS`. Other
  brokers are not told the time, and neither are resting ones (`resting`).
* In every network the host checks periodically which client processes are gone (`Attachments.bury`), and tells the
  rendezvous point which ones it hears, so that the names of the others are free again.
* A broker that fails ends the ticking of its host, and a survey of the host raises the error.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ...protocol.configs import Limits
from ...protocol.features import Features
from ...protocol.ids import BrokerId
from ...protocol.stability import Stability
from ..logs import Log
from .attachments import Attachments
from .clock import Clock
from .driver import Driver
from .hosted_broker import HostedBroker
from .resting import Awake
from .telemetry import HostTelemetry

TICKS_A_HEARTBEAT: Final = 4
TICKS_A_RETRANSMISSION: Final = 2
TICKS_A_FLUSH: Final = 40
LOOKS_A_SESSION: Final = 4
QUOTA_TICK_SECONDS: Final = 0.1
TOLD_AT_ONCE: Final = 32
"""Brokers told the time before pending calls run, so that heartbeats of other hosts do not wait for all brokers."""
READS_BEHIND: Final = 4
"""Turns of the event loop in which a host that is behind reads and handles what has arrived, before time goes on."""


def tick_seconds(features: Features, stability: Stability) -> float | None:
    """Return how often brokers are told the time; None if they need not be."""
    if features.heals:
        return features.times.heartbeat_seconds / TICKS_A_HEARTBEAT
    if features.numbers:
        return stability.retransmit_seconds / TICKS_A_RETRANSMISSION
    return QUOTA_TICK_SECONDS if features.quotas_only else None


class Ticking:
    """Tells the brokers of one host the time.

    Parameters
    ----------
    hosted_brokers
        A live view of the host's brokers.
    driver, clock, attachments, telemetry, resting
        Those of the host.
    seconds
        The period; None for never.
    service
        Waits as long as a slow broker takes.
    limits
        How long a client process must be silent to be gone.
    tell_heard
        Tells the rendezvous point which client processes the host hears.
    log
        The log of the host.
    keeps
        Whether subscribers of such a process stay attached, since their notifications are in a store.
    """

    def __init__(
        self,
        hosted_brokers: Mapping[BrokerId, HostedBroker],
        driver: Driver,
        clock: Clock,
        attachments: Attachments,
        telemetry: HostTelemetry,
        resting: Awake,
        seconds: float | None,
        service: Callable[[BrokerId], Awaitable[None]],
        limits: Limits,
        tell_heard: Callable[[], Awaitable[None]],
        log: Log,
        *,
        keeps: bool,
    ) -> None:
        self._hosted_brokers = hosted_brokers
        self._driver = driver
        self._clock = clock
        self._attachments = attachments
        self._telemetry = telemetry
        self._resting = resting
        self._log = log
        self._seconds = seconds
        self._service = service
        self._session_seconds = limits.session_seconds
        self._tell_heard = tell_heard
        self._keeps = keeps
        self._task: asyncio.Task[None] | None = None
        self._burying: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start ticking, if that is wanted, and checking for processes that are gone, if not started yet."""
        if self._burying is None:
            self._burying = asyncio.get_running_loop().create_task(self._bury())
            self._burying.add_done_callback(self._say_end)
        if self._task is None and self._seconds is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(self._seconds))
            self._task.add_done_callback(self._say_end)
            self._clock.begin()

    async def _run(self, seconds: float) -> None:
        for turn in itertools.count(1):
            if turn % TICKS_A_FLUSH == 0:
                self._telemetry.flush_soon()  # a host that dies loses little telemetry
            await self.turn()
            await asyncio.sleep(seconds)

    async def _bury(self) -> None:
        seconds = self._session_seconds / LOOKS_A_SESSION
        while True:
            before = time.monotonic()
            await asyncio.sleep(seconds)
            if time.monotonic() - before < 2 * seconds:  # otherwise this host was suspended, and heard nobody
                self._attachments.bury(subscribers=not self._keeps)
                await self._tell_heard()

    async def turn(self) -> None:
        """Tell the time once, to all brokers that do not rest."""
        for _ in range(READS_BEHIND if self._clock.is_behind() else 0):
            await asyncio.sleep(0)
        self._clock.turn()
        self._resting.turn()
        told = 0
        for hosted in list(self._hosted_brokers.values()):
            rests = hosted.rests_until is not None
            if not rests or hosted.ticked_at <= self._resting.suspended_at:
                await self._service(hosted.broker.position.broker)
                (self._resting.wake if rests else self._driver.tell_time)(hosted)
                self._resting.try_rest(hosted)
                told += 1
                if told % TOLD_AT_ONCE == 0:
                    await asyncio.sleep(0)
                    self._resting.go_on()

    def raise_error(self) -> None:
        """Raise the error that ended the ticking, if any, so that a failed broker does not look alive."""
        if self._task is not None and self._task.done():
            self._task.result()

    def _say_end(self, ticking: asyncio.Task[None]) -> None:
        if not ticking.cancelled() and ticking.exception() is not None:
            error = ticking.exception()
            self._log.error("a broker failed, and its host has stopped", exc_info=error)
