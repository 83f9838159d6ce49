"""The part of a host that takes in newcomers and lets go whoever leaves: clients, and whole brokers.

Rules
-----
* From the moment on that a broker leaves, nothing begins at it: whoever publishes or subscribes is refused, and goes on
  at another broker. So all that a publisher has had accepted here is among what it publishes again there.
* Every poll tells the client processes which brokers leave.
* A broker gives its seat up when it has left and all that it had to say has been handed over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ..protocol.configs import Position
from ..protocol.errors import BrokerLeaving
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Detach
from ..protocol.recovery import Recovery
from .sessions import Farewell, Session


class Turnover:
    """What a host does about those that come to a running network, and those that leave it."""

    _seats: dict[BrokerId, Any]
    _sessions: dict[str, Session]
    _leaving: dict[BrokerId, None]
    _scheme_name: str
    _recovery: Recovery | None

    # Whoever comes.

    async def seat_newcomer(self, position: Position, life: int) -> None:
        """Make a broker that joins a running network: in its life 0 with a whole new cluster, else a cluster there."""
        self._take_seat(position, life, joins=not life)

    # Clients that leave.

    async def detach(self, at: BrokerId, client: ClientId) -> None:
        """Let a subscriber go, with all its subscriptions."""
        await self._service(at)
        seat = self._seats.get(at) or self._seat_of(at)  # also from a broker that has left already
        self._handle(seat, client, Detach())
        self._forget_standing(at, client)
        for key in [key for key in seat.confirming if key[0] == client]:
            self._give_up(seat, key)
        seat.owners.pop(client, None)

    async def end_session(self, session: str) -> None:
        """Forget a client process: its subscribers are detached, but for durable ones; what waits for it is let go."""
        queue = self._sessions.pop(session, None)
        if queue is None:
            return
        for broker, seat in list(self._seats.items()):
            for client in [client for client, owner in seat.owners.items() if owner is queue]:
                if client in seat.durable:
                    await self.release(broker, client)
                else:
                    await self.detach(broker, client)
        queue.end()

    # Brokers that leave.

    async def dismiss(self, broker: BrokerId) -> None:
        """Let no client begin anything at a broker from now on, and tell those that are there to go."""
        self._leaving[broker] = None

    async def attached(self, broker: BrokerId) -> int:
        """Return how many subscribers a broker has."""
        return len(self._seats[broker].owners)

    async def detach_all(self, broker: BrokerId) -> None:
        """Let go whoever is still attached; they go on elsewhere when they notice, with all that they have missed."""
        for client in list(self._seats[broker].owners):
            await self.detach(broker, client)

    async def left(self, broker: BrokerId) -> bool:
        """Return whether a broker has left the network."""
        seat = self._seats.get(broker)
        return seat is None or seat.broker.healing.left

    async def unseat(self, broker: BrokerId) -> int:
        """Give up the seat of a broker that has left; return how many brokers are still here."""
        seat = self._seats.get(broker)
        if seat is not None:
            for box in [box for box in (*seat.links.values(), seat.group) if box is not None]:
                await box.drained()
            await self.flush_telemetry()
            self._seats.pop(broker, None)
        return len(self._seats)

    def _farewells(self) -> list[Farewell]:
        return [Farewell(broker) for broker in self._leaving]

    def _refuse_if_leaving(self, broker: BrokerId) -> None:
        if broker in self._leaving:
            raise BrokerLeaving(f"broker {broker} leaves the network: go on at another one")

    def _open_seat(self, broker: BrokerId) -> Any:
        """Return a seat at which clients may begin something."""
        self._refuse_if_leaving(broker)
        return self._seat_of(broker)

    # The host itself.

    _take_seat: Callable[..., None]
    _handle: Callable[..., None]
    _seat_of: Callable[[BrokerId], Any]
    _give_up: Callable[[Any, tuple[ClientId, int]], None]
    _forget_standing: Callable[..., None]
    _service: Callable[[BrokerId], Awaitable[None]]
    release: Callable[[BrokerId, ClientId], Awaitable[None]]
    flush_telemetry: Callable[[], Awaitable[None]]
