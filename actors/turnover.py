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

from ..protocol.configs import Position
from ..protocol.errors import BrokerLeaving, ClientError
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Detach, Register
from ..protocol.recovery import Recovery
from .seat import Seat
from .sessions import Farewell, Session


class Turnover:
    """What a host does about those that come to a running network, and those that leave it."""

    _seats: dict[BrokerId, Seat]
    _sessions: dict[str, Session]
    _leaving: dict[BrokerId, None]
    _scheme_name: str
    _recovery: Recovery | None

    # Whoever comes.

    async def seat_newcomer(self, position: Position, life: int) -> None:
        """Make a broker that joins a running network: in its life 0 with a whole new cluster, else a cluster there."""
        self._take_seat(position, life, joins=not life)

    # Clients that leave.

    def _let_go(self, seat: Seat, client: ClientId) -> None:
        """Let a subscriber go, with all its subscriptions."""
        self._handle(seat, client, Detach())
        self._forget_standing(seat, client)
        for _, _, number in seat.answers.of(client, Register):
            self._cancelled(seat, client, number)
        seat.owners.pop(client, None)

    def _cancelled(self, seat: Seat, client: ClientId, number: int) -> None:
        """Forget a subscription, and end the call that waits for it to be installed."""
        self._forget_standing(seat, client, number)
        error = ClientError(f"subscription {number} of {client!r} was cancelled meanwhile")
        seat.answers.refuse((client, Register, number), error)

    async def end_session(self, session: str) -> None:
        """Forget a client process: its subscribers are detached, but for durable ones; what waits for it is let go."""
        queue = self._sessions.pop(session, None)
        if queue is None:
            return
        for seat in list(self._seats.values()):
            for client in [client for client, owner in seat.owners.items() if owner is queue]:
                if client in seat.durable:
                    del seat.owners[client]
                else:
                    self._let_go(seat, client)
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
        seat = self._seats[broker]
        for client in list(seat.owners):
            self._let_go(seat, client)

    async def left(self, broker: BrokerId) -> bool:
        """Return whether a broker has left the network."""
        seat = self._seats.get(broker)
        return seat is None or (seat.broker.healing is not None and seat.broker.healing.left)

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

    def _open_seat(self, broker: BrokerId) -> Seat:
        """Return a seat at which clients may begin something."""
        self._refuse_if_leaving(broker)
        return self._seat_of(broker)

    # The host itself.

    _take_seat: Callable[..., None]
    _handle: Callable[..., None]
    _seat_of: Callable[[BrokerId], Seat]
    _forget_standing: Callable[..., None]
    flush_telemetry: Callable[[], Awaitable[None]]
