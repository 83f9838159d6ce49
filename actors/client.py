"""What publishers and subscribers have in common: a broker to call, and another one to go to when it dies.

Rules
-----
* In a network that heals, a call to a broker that died is made again at the next one, within the time for the call.
* A move is made once, whoever noticed the death first: the poll of the process, or one of its calls.
* Where a client goes is for the rendezvous point to say: to another member of the cluster, the highest id first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from ray.exceptions import ActorDiedError, RayActorError, RayTaskError

from ..protocol.errors import BrokerUnavailable, ClientError, RayvousError
from ..protocol.ids import BrokerId, ClientId
from .errors import broker_errors
from .process import ClientProcess

if TYPE_CHECKING:
    from .rendezvous import Directory

T = TypeVar("T")


class Client:
    """What publishers and subscribers have in common: a name, a broker, a host, an end."""

    kind = ""

    def __init__(
        self,
        name: ClientId,
        broker: BrokerId,
        directory: Directory,
        process: ClientProcess,
        rendezvous: Any = None,
    ) -> None:
        self.name = name
        self.broker = broker
        self._directory = directory
        self._process = process
        self._rendezvous = rendezvous
        self._recovery = directory.recovery
        self._moving = asyncio.Lock()
        self._closed = False

    @property
    def host(self) -> Any:
        """The actor of its broker."""
        return self._directory.hosts[self.broker]

    @property
    def closed(self) -> bool:
        """Whether it has left the network."""
        return self._closed

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} at broker {self.broker}"

    # Calls, and moving to another broker when this one dies.

    def _ask(self, call: Callable[[Any, BrokerId, bool, float], T], seconds: float) -> T:
        """Call the client's broker; in a network that heals call the next one when it dies meanwhile.

        Parameters
        ----------
        call
            Makes the call, given the host, the broker, whether it was made before, and the seconds that are left.
        seconds
            For all of it.
        """
        deadline = time.monotonic() + seconds
        again = False
        while True:
            broker, left = self.broker, deadline - time.monotonic()
            with broker_errors(str(self)):
                try:
                    return call(self._directory.hosts[broker], broker, again, max(left, 0.0))
                except RayActorError:
                    if self._recovery is None or left <= 0:
                        raise
            self._process.submit(self.move(broker)).result()
            again = True

    async def move(self, dead: BrokerId) -> None:
        """Go to another broker, if it is still at this one; on the process's background loop.

        Raises
        ------
        BrokerUnavailable
            If none is left, or none takes it within `call_seconds`.
        """
        gone: set[BrokerId] = {dead}
        away: set[BrokerId] = {dead}
        async with self._moving:
            try:
                async with asyncio.timeout(self._directory.limits.call_seconds):
                    while self.broker in gone and not self._closed:
                        await self._try_next(gone, away)
            except TimeoutError:
                self._fail(BrokerUnavailable(f"{self}: it is gone, and no other broker took it in time"))
            except RayvousError as error:
                self._fail(error)

    async def _try_next(self, gone: set[BrokerId], away: set[BrokerId]) -> None:
        arguments = (self.kind, self.name, self.broker, sorted(gone), sorted(away))
        try:
            place = await self._rendezvous.relocate.remote(*arguments)
        except RayActorError:
            raise BrokerUnavailable(f"{self}: it is gone, and so is the network") from None
        except RayTaskError as error:
            raise BrokerUnavailable(f"{self}: {error.cause}") from None
        host = self._directory.hosts[place]
        try:
            await self._go_on_at(host, place)
        except RayActorError as error:
            away.add(place)
            if isinstance(error, ActorDiedError):
                gone.add(place)
            return
        self.broker = place
        self._process.poll(host)

    async def _go_on_at(self, host: Any, broker: BrokerId) -> None:
        """Tell a new broker all that it has to know."""
        raise NotImplementedError

    def _fail(self, error: RayvousError) -> None:
        raise error

    def _open(self) -> None:
        if self._closed:
            raise ClientError(f"{self.kind} {self.name!r} is closed")

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"
