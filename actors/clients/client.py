"""What publishers and subscribers share: calls to a broker, and moving to another broker when it fails.

Rules
-----
* In a network that heals, a call to a broker that died or does not answer is repeated at the next broker,
  within the time limit of the call.
* In a network with stable brokers the call is repeated at the same broker, after its restart.
* A client leaves its broker when the broker is dead, or when the poll of the process has had no sign of life
  from it for `client_patience_seconds`. A pending call alone is no sign of failure, because calls wait while
  the network is busy. A broker that is left without being dead is told so, and forgets the client when it
  responds again.
* An answer that arrives while the client is leaving the broker does not count. The call is repeated at the next
  broker, which might otherwise lack only this call.
* A move happens once, whether the poll of the process or one of its calls noticed the failure first.
* The rendezvous point decides where a client goes: to the nearest or the least loaded broker if the client was
  placed so (`nearness`), otherwise to another member of the cluster, highest id first. If no live broker takes
  the client, the search starts again, until `call_seconds` have passed. A store that fails, of a broker or of the
  rendezvous point, is no reason to give up: it may work again. A subscriber that has found no broker tries again
  periodically, as long as the network exists. Until then its readers get the error.
* A client whose name another process has taken over is lost: it ends at once, with `NameTaken`, and tells brokers
  nothing more. The rendezvous point, its broker's host, and the poll of the process each say so.
* A process that was forked from the one that attached has no thread that polls: its clients refuse everything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayTaskError

from ...protocol import checks
from ...protocol.errors import (
    BrokerLeaving,
    BrokerUnavailable,
    ClientError,
    InputError,
    NameTaken,
    RayvousError,
    StorageFailed,
)
from ...protocol.ids import BrokerId, ClientId
from ..answers import answered
from ..forks import require_same_process
from ..host.errors import broker_errors
from ..host.handle import Answer, HostHandle
from ..host.outbox import first_line
from ..host.requests import Request
from .nearness import Placement
from .process import ClientProcess
from .waits import Behind, Given, Pause, Work

if TYPE_CHECKING:
    from ..network.rendezvous import Directory

LOOK_SECONDS: Final = 0.25
"""How often a waiting call checks whether the client has left its broker."""
CALL_AGAIN_SECONDS: Final = 0.1
"""The delay before a call is repeated at a broker that Ray restarts."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a client is from one move to the next: a broker, and its host.

    It equals nothing but itself: a client that has moved away and back is at another place, and so is one that has
    moved to another broker of the same host.
    """

    broker: BrokerId
    host: Any


class _Moved(Exception):
    """The client has left the broker for which it was waiting."""


class Context(NamedTuple):
    """What a client knows of its network.

    Attributes
    ----------
    directory, rendezvous
        Those of the network.
    process
        Polls for the client.
    placement
        Where the client goes when it must leave its broker; None for the network's own rule.
    ticket
        Of the call by which the client attached.
    """

    directory: Directory
    process: ClientProcess
    rendezvous: Any = None
    placement: Placement | None = None
    ticket: str = ""


class Client:
    """The base of publishers and subscribers: a name, a broker, its host, and closing."""

    kind = ""

    def __init__(self, name: ClientId, broker: BrokerId, context: Context) -> None:
        self.name = name
        self._directory, self._process, self._rendezvous, self._placement, self.ticket = context
        self._place = Place(broker, self._directory.hosts[broker])
        self._known: tuple[Any, HostHandle] | None = None  # the host that was called last, and its handle
        self._features = self._directory.features
        self._moving = asyncio.Lock()
        self._closed = False
        self._lost: RayvousError | None = None
        self._refused: str | None = None  # why the last broker, or the rendezvous point, did not take it
        self._network_ended = False
        # How often this process had left the host when the client attached to it.
        self._given_up = self._process.given_up[self.host]
        self.moves = 0

    @property
    def broker(self) -> BrokerId:
        """The broker to which the client is attached."""
        return self._place.broker

    @property
    def host(self) -> Any:
        """The actor of the client's broker."""
        return self._place.host

    @property
    def process(self) -> ClientProcess:
        """The part that polls for the client."""
        return self._process

    @property
    def closed(self) -> bool:
        """Whether the client has left the network."""
        return self._closed

    def _handle(self, host: Any) -> HostHandle:
        known = self._known
        if known is None or known[0] is not host:
            known = self._known = host, self._process.handle(host)
        return known[1]

    def _request(self, place: Place, messages: Sequence[Request], session: str = "") -> Answer[Any]:
        """Pass messages of this client to its broker at a place; as `HostHandle.request`."""
        return self._handle(place.host).request(place.broker, self.name, messages, session)

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} at broker {self.broker}"

    # Calls, and moves to another broker when this one dies or does not answer.

    async def _ask(self, call: Callable[[Place, bool, float], Work[T]], seconds: float) -> T:
        """Call the client's broker; in a network that heals, call the next one if the client leaves this one meanwhile.

        Parameters
        ----------
        call
            Makes the call, given the place, whether the call was made before, and the remaining
            seconds.
        seconds
            The time limit for all attempts.
        """
        deadline = time.monotonic() + seconds
        retrying = False
        while True:
            place, left = self._place, deadline - time.monotonic()
            with broker_errors(self):
                try:
                    return await call(place, retrying, max(left, 0.0))
                except _Moved:
                    await Behind(self._process, self._move_from(place, False))
                    await Behind(self._process, self._forsake(place))
                except BrokerLeaving:
                    await Behind(self._process, self.go_from(place.broker))
                except (RayActorError, BrokerUnavailable) as error:  # the broker died, or has left
                    if left <= 0 or not self._features.outlives_processes:
                        raise
                    if self._features.heals:
                        await Behind(self._process, self._move_from(place, isinstance(error, ActorDiedError)))
                    else:
                        await Pause(CALL_AGAIN_SECONDS)
            retrying = True

    async def _answer(self, call: Any, place: Place, seconds: float) -> Any:
        """Return the answer to a call; stop waiting if the client leaves that broker meanwhile.

        Raises
        ------
        GetTimeoutError
            If there is no answer in time.
        """
        if not self._features.heals:
            return await Given(call, seconds)
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            try:
                return await Given(call, max(0.0, min(left, LOOK_SECONDS)))
            except GetTimeoutError:
                if self._place is not place:
                    raise _Moved from None
                if left <= LOOK_SECONDS:
                    raise
            except RayTaskError as error:
                # A host that was told that the client has left ends the calls that wait there.
                left_since = self._place is not place or self._process.given_up[place.host] != self._given_up
                taken = isinstance(error.cause, NameTaken)
                if left_since and isinstance(error.cause, ClientError) and not taken:
                    raise _Moved from None
                raise

    async def _stay(self, place: Place) -> None:
        """Wait for the end of a move in progress; raise `_Moved` if the client is at another broker then.

        The next broker may lack what a broker took in while the client was leaving it.
        """
        if not self._features.heals or (self._place is place and not self._moving.locked()):
            return  # a later move finds everything that was called before
        if await Behind(self._process, self._arrived()) is not place:
            raise _Moved

    async def _arrived(self) -> Place:
        """Return the client's broker and host, after any move in progress has ended."""
        async with self._moving:
            return self._place

    async def _settle(self, place: Place, change: Callable[[], T]) -> T:
        """Change what the client tells a broker to which it comes, while it is at this broker and does not move.

        Raises `_Moved` if the client has left that broker, because the next broker may lack the change.
        """

        def here() -> T:
            if self._place is not place:
                raise _Moved
            return change()

        return await self._still(here)

    async def _still(self, change: Callable[[], T]) -> T:
        """Make such a change wherever the client is, at no moment at which a move tells the next host what there is."""

        async def settle() -> T:
            async with self._moving:
                return change()

        return await Behind(self._process, settle()) if self._features.heals else change()

    async def move(self, left: Any, dead: bool) -> None:
        """Go to another broker if the client is still at this actor; on the process's background loop.

        Raises
        ------
        BrokerUnavailable
            If no broker is left, or none takes the client within `call_seconds`.
        """
        await self._move_if(lambda place: place.host == left, dead)

    async def _move_from(self, place: Place, dead: bool) -> None:
        """Go to another broker if the client is still at this one; as `move` does."""
        await self._move_if(lambda now: now is place, dead)

    async def go_from(self, broker: BrokerId) -> None:
        """Go to another broker if the client is still at this one, which leaves the network; as `move` does."""
        await self._move_if(lambda place: place.broker == broker, False)

    async def _move_if(self, still: Callable[[Place], bool], dead: bool) -> None:
        """Go to another broker if the client is at such a place when no other move is in progress."""
        async with self._moving:
            place = self._place
            if still(place) and not self._ended:
                await self._move({place.broker: place.host} if dead else {}, {place.broker})

    def move_to(self, broker: BrokerId) -> BrokerId:
        """Move to another broker on request, in a network that heals; return the broker at which the client is then.

        If the requested broker is dead or does not answer, that is a different one.

        Raises
        ------
        InputError
            If the network does not heal, or has no such broker.
        """
        self._open()
        if not self._features.heals:
            raise InputError(f"{self} cannot move: launch the network with recovery=Recovery()")
        if checks.whole_number("broker", broker) not in self._directory.hosts:
            raise InputError(f"no broker {broker}: there are {checks.shown(sorted(self._directory.hosts))}")
        self._process.run(self.go_to(broker))
        return self.broker

    async def go_to(self, broker: BrokerId) -> None:
        """Move to another broker on request; on the process's background loop."""
        async with self._moving:
            if self.broker != broker and not self._ended:
                await self._move({}, {self.broker}, broker)

    async def _move(
        self, gone: dict[BrokerId, Any], away: set[BrokerId], wanted: BrokerId | None = None
    ) -> None:
        self._refused = None
        try:
            async with asyncio.timeout(self._directory.limits.call_seconds):
                while not self._ended and not await self._try_next(gone, away, wanted):
                    pass
        except TimeoutError:
            why = "" if self._refused is None else f" ({self._refused})"
            self._fail(BrokerUnavailable(f"{self}: it is gone, and no other broker took it in time{why}"))
        except NameTaken as error:
            self.lose(error)
            raise
        except RayvousError as error:
            self._fail(error)

    async def _try_next(
        self, gone: dict[BrokerId, Any], away: set[BrokerId], wanted: BrokerId | None
    ) -> bool:
        """Try the broker that the rendezvous point names; return whether the client is attached there now."""
        try:
            near = await self._process.nearness.tiers(self._placement, self._rendezvous)
            arguments = (self.kind, self.name, self.broker, gone, sorted(away), wanted, near, self.ticket)
            answer = await answered(self._rendezvous.relocate.remote(*arguments))
        except RayActorError as error:
            if isinstance(error, ActorDiedError):
                self._network_ended = True
            raise BrokerUnavailable(f"{self}: it is gone, and the network has ended") from None
        except RayTaskError as error:
            if isinstance(error.cause, NameTaken):
                raise error.cause from None
            raise BrokerUnavailable(f"{self}: {error.cause}") from None
        if answer is None:
            away.clear()  # one of them may respond again
            await asyncio.sleep(self._features.times.heartbeat_seconds)
            return False
        place, host = answer
        before = self._process.given_up[host]
        if host == self.host and place != self.broker and self.broker not in gone:
            self._leave(host, self.broker)  # both use one connection: the old one must be silent first
        try:
            with self._process.expected_at(host):
                await self._go_on_at(host, place, self._features.times.client_patience_seconds)
            if self._process.given_up[host] != before:
                raise TimeoutError  # it was silent meanwhile, and was told that the client has left
        except (RayActorError, BrokerUnavailable, StorageFailed, TimeoutError) as error:
            away.add(place)
            if isinstance(error, StorageFailed):
                self._refused = first_line(error)
            if isinstance(error, ActorDiedError):
                gone[place] = host
            elif host != self.host:
                self._leave(host, place)
            return False
        old, self._place = self._place, Place(place, host)
        self._given_up = before
        self.moves += 1
        if old.broker not in gone and old.host != host:
            self._leave(old.host, old.broker)
        self._process.poll(host)
        return True

    async def _forsake(self, place: Place) -> None:
        """Leave a broker again, because a call may have reached it after the client had left."""
        async with self._moving:
            if (self.host, self.broker) != (place.host, place.broker):
                self._leave(place.host, place.broker)

    def say(self) -> None:
        """Tell the broker what the client knows, for comparison; nothing during a move. On the background loop."""
        if not self._moving.locked() and not self._ended:
            self._say_what_it_knows()

    def _say_what_it_knows(self) -> None:
        """Tell the broker what the client has received or published, without waiting for an answer."""
        raise NotImplementedError

    def _leave(self, host: Any, broker: BrokerId) -> None:
        """Tell a broker that may be alive that the client has left, without waiting for an answer."""

    async def _go_on_at(self, host: Any, broker: BrokerId, patience_seconds: float) -> None:
        """Tell a new broker everything that it must know.

        Raises
        ------
        TimeoutError
            If the broker does not answer within its patience.
        """
        raise NotImplementedError

    def _fail(self, error: RayvousError) -> None:
        raise error

    def abandon(self) -> None:
        """Record that this process has closed the network: the client can do nothing more, and its readers end."""
        self._closed = True

    @property
    def _ended(self) -> bool:
        """Whether the client is closed or lost, so that it goes to no other broker."""
        return self._closed or self._lost is not None

    def lose(self, error: NameTaken) -> None:
        """Record that another process has taken over the name; on the process's background loop."""
        self._lost = NameTaken(str(error))
        self._process.lose(self)

    def _open(self) -> None:
        require_same_process()
        if self._lost is not None:
            raise self._lost
        if self._closed:
            raise ClientError(f"{self.kind} {self.name!r} is closed")

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"
