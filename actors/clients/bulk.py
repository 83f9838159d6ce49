"""Payloads that are too large for an event: slices that go along the tree of the scheme as references (paper 5, 4.1).

Rules
-----
* A payload is cut into slices of 64 KB. Each is an object in Ray's store; what goes from broker to broker is its
  reference. A broker reads a slice before it passes it on, so its node has a copy when its children ask for one.
* On each link at most one call is in flight; the slices that wait meanwhile go with the next one. So a broker passes on
  the first slices while the last are still to come (pipelining), and a slow one slows those before it.
* A broker that has all slices and finds the checksum right notifies its clients: they get the event that describes the
  payload, and read it from there.
* When a broker is gone on the way, those who stood behind it get a plan of their own (section 3.4), until everyone who
  lives has the payload.
* In a network that heals the event comes after the payload, and like any other: whoever moves gets it, once and in
  order. A broker that its subscriber has moved to meanwhile asks the others for the slices.

Only schemes on a mesh know at the publisher's broker who wants something: LBDD and point-to-point.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from ray.exceptions import ActorDiedError, RayActorError

from ...protocol.batch import EventBatch
from ...protocol.checks import whole_number
from ...protocol.effects import Effect
from ...protocol.errors import BrokerUnavailable, InputError
from ...protocol.ids import BrokerId
from ...routing.schemes.mesh import MeshRouter
from ...routing.schemes.mesh_views import MeshInViews
from ..host.hosted_broker import HostedBroker

SLICE_BYTES: Final = 65_536
SLICES_WAITING_MAX: Final = 64
"""Slices that wait for one link; past it whoever brings more waits."""

KEPT_BYTES_MAX: Final = 1 << 30
"""Payloads that a host keeps for its clients, in bytes; past it the oldest are forgotten."""

PASSING_MAX: Final = 256
"""Payloads on their way through one host."""

GONE: Final = "gone"
CUT_OFF: Final = "cut off"

Bytes: TypeAlias = npt.NDArray[np.uint8]
Missing: TypeAlias = dict[BrokerId, str]
"""Who has not got a payload, and why."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What is known of a payload before its slices come.

    Attributes
    ----------
    name
        Unique in its network.
    batch
        The one event that describes it, with which clients are notified.
    origin, targets
        The publisher's broker, and the brokers that this round is for.
    slices, nbytes, md5
        How much there is, and its checksum.
    notifies
        Whether a broker that has it notifies its clients; if not, its publisher publishes the event.
    """

    name: str
    batch: EventBatch
    origin: BrokerId
    targets: tuple[BrokerId, ...]
    slices: int
    nbytes: int
    md5: str
    notifies: bool = True


@dataclass(slots=True, eq=False)
class _Child:
    """A broker that gets its slices from here: what waits for it, and the task that feeds it."""

    waiting: deque[Any] = field(default_factory=deque)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False
    feeding: asyncio.Task[Missing] | None = None


@dataclass(slots=True, eq=False)
class _Passing:
    """A payload at one broker, as far as it is there."""

    payload: Payload
    children: dict[BrokerId, _Child]
    slices: list[Any] = field(default_factory=list)
    digest: Any = field(default_factory=lambda: hashlib.md5(usedforsecurity=False))


class Payloads:
    """The payloads at one host, and on their way through it.

    Parameters
    ----------
    seat_of
        Returns the seat of a broker here; BrokerUnavailable when there is none.
    actor_of
        Returns the actor of a broker; None when it is here.
    died
        Called with (broker here, other) when the other one's process is found dead.
    carry_out
        Carries out an effect of a broker here.
    """

    def __init__(
        self,
        seat_of: Callable[[BrokerId], HostedBroker],
        actor_of: Callable[[BrokerId], Awaitable[Any]],
        died: Callable[[BrokerId, BrokerId], None],
        carry_out: Callable[[HostedBroker, Effect], None],
    ) -> None:
        self._seat_of = seat_of
        self._actor_of = actor_of
        self._died = died
        self._carry_out = carry_out
        self._passing: dict[tuple[BrokerId, str], _Passing] = {}
        self._payloads: dict[tuple[BrokerId, str], tuple[Payload, list[Any]]] = {}

    def _mesh_router(self, broker: BrokerId) -> MeshRouter | MeshInViews:
        router = self._seat_of(broker).broker.router
        if not isinstance(router, MeshRouter | MeshInViews):
            raise InputError(
                f"scheme {type(router).__name__.lower()!r} does not know at a publisher's broker who wants a payload: "
                "launch the network with scheme='lbdd' (or 'point-to-point')"
            )
        return router

    def targets(self, at: BrokerId, batch: EventBatch) -> tuple[BrokerId, ...]:
        """Return the other brokers whose clients want a payload that this event describes."""
        return self._mesh_router(at).wanting(batch)

    async def bulk_begin(self, to: BrokerId, payload: Payload) -> None:
        """Get ready for the slices of a payload, and have this broker's children get ready."""
        while len(self._passing) >= PASSING_MAX:  # a publisher that died left it unfinished
            del self._passing[next(iter(self._passing))]
        copies = self._mesh_router(to).copies(payload.origin, payload.targets)
        passing = self._passing[to, payload.name] = _Passing(
            payload, {child: _Child() for child in copies[to]}
        )
        for child, way in passing.children.items():
            below = [child]
            for each in below:
                below.extend(copies[each])
            feed = self._feed(to, child, way, payload, below)
            way.feeding = asyncio.get_running_loop().create_task(feed)

    async def bulk_slices(self, to: BrokerId, name: str, slices: Sequence[Any]) -> None:
        """Take the next slices in, in order; return when there is room for more."""
        passing = self._passing[to, name]
        for piece in await asyncio.gather(*slices):
            passing.digest.update(piece)
        passing.slices += slices
        for way in passing.children.values():
            way.waiting.extend(slices)
            way.moved.set()
        for way in passing.children.values():
            while len(way.waiting) > SLICES_WAITING_MAX and way.feeding and not way.feeding.done():
                way.moved.clear()
                await way.moved.wait()

    async def bulk_end(self, to: BrokerId, name: str) -> Missing:
        """Take note that all slices were sent; return who has not got them, of this broker and all behind it."""
        passing = self._passing.pop((to, name))
        missing: Missing = {}
        payload = passing.payload
        if len(passing.slices) == payload.slices and passing.digest.hexdigest() == payload.md5:
            self._keep(to, payload, passing.slices)
        else:
            missing[to] = f"damaged: {len(passing.slices)} of {payload.slices} slices, or a wrong checksum"
        for way in passing.children.values():
            way.ended = True
            way.moved.set()
        for way in passing.children.values():
            assert way.feeding is not None
            missing |= await way.feeding
        return missing

    async def payload(self, at: BrokerId, name: str) -> list[Any]:
        """Return the references of a payload's slices, for a client of this broker."""
        slices = await self.slices_of_payload(at, name)
        router = self._mesh_router(at)
        if slices is None and isinstance(router, MeshInViews):
            for other in router.neighbours():
                slices = slices or await self._slices_at(other, name)
        if slices is None:
            raise InputError(
                f"broker {at} has no payload {name!r}: it is not complete, or it was forgotten to make room"
            )
        return slices

    async def slices_of_payload(self, at: BrokerId, name: str) -> list[Any] | None:
        """Return the references of a payload's slices; None when it is not here."""
        known = self._payloads.get((at, name))
        return None if known is None else known[1]

    async def _slices_at(self, broker: BrokerId, name: str) -> list[Any] | None:
        with suppress(RayActorError):
            slices: list[Any] | None = await self._call(
                await self._actor_of(broker), "slices_of_payload", broker, name
            )
            return slices
        return None

    async def _feed(
        self, at: BrokerId, child: BrokerId, way: _Child, payload: Payload, below: Sequence[BrokerId]
    ) -> Missing:
        """Send a child all that comes for it, one call at a time; return who behind it has not got it."""
        try:
            host = await self._actor_of(child)
            await self._call(host, "bulk_begin", child, payload)
            while way.waiting or not way.ended:
                if way.waiting:
                    load = [way.waiting.popleft() for _ in range(min(len(way.waiting), SLICES_WAITING_MAX))]
                    way.moved.set()
                    await self._call(host, "bulk_slices", child, payload.name, load)
                else:
                    way.moved.clear()
                    await way.moved.wait()
            missing: Missing = await self._call(host, "bulk_end", child, payload.name)
            return missing
        except RayActorError as error:
            if isinstance(error, ActorDiedError):
                self._died(at, child)
            return {child: GONE} | dict.fromkeys(below[1:], CUT_OFF)
        except Exception as error:
            return {child: f"{type(error).__name__}: {error}"} | dict.fromkeys(below[1:], CUT_OFF)
        finally:
            way.moved.set()  # nobody waits for room here any more

    async def _call(self, host: Any, method: str, *args: Any) -> Any:
        return await (getattr(self, method)(*args) if host is None else getattr(host, method).remote(*args))

    def _keep(self, broker: BrokerId, payload: Payload, slices: list[Any]) -> None:
        known = (broker, payload.name) in self._payloads
        self._payloads[broker, payload.name] = payload, slices
        room = KEPT_BYTES_MAX - sum(each.nbytes for each, _ in self._payloads.values())
        for key in list(self._payloads)[:-1]:
            if room >= 0:
                break
            room += self._payloads.pop(key)[0].nbytes
        if not known and payload.notifies:
            for effect in self._mesh_router(broker).deliver(payload.batch):
                self._carry_out(self._seat_of(broker), effect)


def slices_of(payload: Any, slice_bytes: int) -> list[Bytes]:
    """Return a payload as arrays of bytes that share its memory.

    Raises
    ------
    InputError
        If it is nothing that has bytes, or the slices have no size.
    """
    whole_number("slice_bytes", slice_bytes, 1)
    try:
        whole = np.frombuffer(payload, np.uint8) if len(memoryview(payload)) else np.zeros(0, np.uint8)
    except (BufferError, TypeError, ValueError) as error:
        raise InputError(f"a payload is bytes, or has a buffer of them: {error}") from None
    return [whole[start : start + slice_bytes] for start in range(0, len(whole), slice_bytes)]


def next_targets(missing: Missing, targets: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
    """Return for whom another round is due: who lives and has not got the payload.

    Raises
    ------
    BrokerUnavailable
        If the last round, for `targets`, brought it to nobody and found nobody gone.
    """
    left = tuple(sorted(broker for broker, why in missing.items() if why != GONE))
    if left and len(left) == len(targets):
        raise BrokerUnavailable(f"a payload does not arrive: {', '.join(f'{b}: {missing[b]}' for b in left)}")
    return left
