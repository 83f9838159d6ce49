"""The part of a host that waits until nothing is under way any more.

Rules
-----
* A process that has been silent for too long is gone: what waits for it is let go, not waited for.
* Nor is a durable subscriber's process waited for that is silent: what is for it is kept until it is back.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from ..protocol.configs import Limits
from ..protocol.ids import BrokerId
from ..protocol.recovery import Recovery
from .seat import Seat
from .sessions import Session


class Quieting:
    """The part of a host that this file is about; the rest is :class:`~.host.BrokerHost`."""

    _seats: dict[BrokerId, Seat]
    _sessions: dict[str, Session]
    _limits: Limits
    _recovery: Recovery | None
    _handled: int
    end_session: Callable[[str], Awaitable[None]]

    async def quiet(self, deliveries: bool = True) -> int:
        """Wait until nothing waits to leave; return how many messages this host has handled so far.

        A call returns only after the other side has handled it, so a message is always in some outbox: when two rounds
        over all hosts return the same numbers, nothing was under way between them.

        Parameters
        ----------
        deliveries
            Whether to wait also until the client processes have acknowledged all notifications.
        """
        boxes = [box for seat in self._seats.values() for box in (*seat.links.values(), seat.group) if box]
        while True:
            for box in boxes:
                await box.drained()
            if deliveries:
                for name in list(self._sessions):
                    await self._drained(name)
            # While one was waited for, another may have filled.
            left = (queue for queue in self._sessions.values() if deliveries and len(queue))
            if all(box.idle for box in boxes) and all(map(self._away, left)):
                break
        return self._handled

    async def _drained(self, name: str) -> None:
        """Wait until a client process has everything, or is gone."""
        session = self._sessions.get(name)
        patience = (
            self._limits.session_seconds if self._recovery is None else self._recovery.client_patience_seconds
        )
        while session is not None and len(session) and not session.gone(time.monotonic()):
            if self._away(session):
                return
            await session.moved(patience)
        if session is not None and session.gone(time.monotonic()):
            await self.end_session(name)

    def _away(self, queue: Session) -> bool:
        """Return whether it is of a durable subscriber, and silent: the broker keeps what waits in it anyway."""
        if self._recovery is None or not queue.silent(
            time.monotonic(), self._recovery.client_patience_seconds
        ):
            return False
        return all(
            client in seat.durable
            for seat in self._seats.values()
            for client, owner in seat.owners.items()
            if owner is queue
        )
