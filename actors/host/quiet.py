"""The part of a host that waits until the host is quiescent.

Rules
-----
* A process that has been silent for too long is gone: its notifications are dropped, and nobody waits for it.
* A silent process of durable subscribers is not awaited either: its notifications are retained until it returns.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from ...protocol.configs import Limits
from ...protocol.ids import BrokerId
from .attachments import Attachments
from .driver import Driver
from .hosted_broker import HostedBroker
from .numbered import NumberedLinks
from .sessions import ProcessSession


class QuietWait:
    """Waits until one host is quiescent.

    Parameters
    ----------
    hosted_brokers
        A live view of its brokers.
    attachments, driver, numbered
        Those of the host; `numbered` is None where brokers do not number messages. Numbered ones must be acknowledged.
    limits
        Those of the network.
    patience_seconds
        How long clients wait for a sign of life; None where they do not move.
    """

    def __init__(
        self,
        hosted_brokers: Mapping[BrokerId, HostedBroker],
        attachments: Attachments,
        driver: Driver,
        numbered: NumberedLinks | None,
        limits: Limits,
        patience_seconds: float | None,
    ) -> None:
        self._hosted_brokers = hosted_brokers
        self._attachments = attachments
        self._driver = driver
        self._numbered = numbered
        self._gone_seconds = limits.session_seconds
        self._patience = patience_seconds

    async def still(self, deliveries: bool) -> int:
        """Wait until nothing waits to leave; return how many messages the host has handled so far.

        A call returns only after the receiver has handled it, so an unhandled message is always in some outbox.
        When two rounds over all hosts return the same numbers, nothing was in flight between them.

        Parameters
        ----------
        deliveries
            Whether to wait also until the client processes have acknowledged all notifications.
        """
        driver, numbered = self._driver, self._numbered
        while True:
            await self._come(deliveries)
            handled = driver.handled
            if numbered is None:
                return handled
            if await numbered.at_rest() and handled == driver.handled:
                return handled

    async def _come(self, deliveries: bool) -> None:
        boxes = [box for hosted in self._hosted_brokers.values() for box in hosted.boxes()]
        while True:
            for box in boxes:
                await box.drained()
            if deliveries:
                for name in list(self._attachments.sessions):
                    await self._drained(name)
            # While waiting for one, another may have filled.
            left = (queue for queue in self._attachments.sessions.values() if deliveries and len(queue))
            if all(box.idle for box in boxes) and all(map(self._away, left)):
                return

    async def _drained(self, name: str) -> None:
        """Wait until a client process has everything, or is gone."""
        session = self._attachments.sessions.get(name)
        patience = self._gone_seconds if self._patience is None else self._patience
        while session is not None and len(session) and not session.gone(time.monotonic()):
            if self._away(session):
                return
            await session.moved(patience)
        if session is not None and session.gone(time.monotonic()):
            self._attachments.give_up(name)

    def _away(self, queue: ProcessSession) -> bool:
        """Return whether all its subscribers are durable and the process is silent: the broker retains what waits."""
        if self._patience is None or not queue.silent(time.monotonic(), self._patience):
            return False
        return all(
            client in hosted.durable
            for hosted in self._hosted_brokers.values()
            for client, owner in hosted.owners.items()
            if owner is queue
        )
