"""Payloads that are too large for an event: slices that follow the tree of the scheme (paper 5, 3.2, 3.4 and 4.1).

Rules
-----
* A payload is cut into slices of 64 KB, which go from broker to broker in order, and only where the plan says:
  every broker sends its children what it holds itself. Slices are call arguments, not references, because Ray
  fetches an object from any node that has a copy, mostly the publisher's.
* Each link has at most one call in flight. Slices that wait meanwhile go with the next call. A broker therefore
  forwards the first slices while the last are still to come (pipelining), and a slow broker slows those before
  it.
* A broker that has all slices and finds the checksum correct notifies its clients. They get the event that
  describes the payload, and read the payload from that broker. Each broker holds its own copy.
* If a broker dies during a transfer, the brokers behind it get a plan of their own (section 3.4), until every
  live broker has the payload. Slices arrive in order, so what a broker has is a number, and it is sent what
  lies above.
* In a network that heals the event follows the payload and is an ordinary event: a client that moves gets it,
  once and in order. If a subscriber has moved to a broker without the payload, that broker fetches it from one
  that has it.

Only schemes on a mesh know the interested brokers at the publisher's broker: LBDD and point-to-point.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from ray.exceptions import ActorDiedError, RayActorError

from ...protocol.batch import EventBatch
from ...protocol.effects import Effect
from ...protocol.errors import BrokerUnavailable, InputError
from ...protocol.ids import BrokerId
from ...protocol.messages.payloads import Bytes, Missing, Outcome, Payload
from ...protocol.queries import Heals
from ...routing.schemes.registry import SCHEMES
from ...routing.schemes.router import PayloadRouting
from ..host.handle import HostHandle
from ..host.hosted_broker import HostedBroker

SLICE_BYTES: Final = 65_536
SLICES_WAITING_MAX: Final = 64
"""How many slices may wait for one link, and go with one call; beyond it senders wait."""

READ_BYTES_MAX: Final = SLICE_BYTES * SLICES_WAITING_MAX
"""How many bytes of a payload are read at once."""

KEPT_BYTES_MAX: Final = 1 << 30
"""How many bytes of payloads a host keeps for its clients; beyond it the oldest are dropped."""

PASSING_MAX: Final = 256
"""How many payloads may be in transit through one host; beyond it the oldest is cut off.

Usually a publisher that died has left it unfinished. A live one sends what is missing in another round.
"""

GONE: Final = "gone"
CUT_OFF: Final = "cut off"


@dataclass(slots=True, eq=False)
class _Child:
    """A broker that gets its slices from here: how many it has, and the task that feeds it."""

    has: int = 0
    over: bool = False
    feeding: asyncio.Task[Outcome] | None = None


@dataclass(slots=True, eq=False)
class _Passing:
    """A payload at one broker, as far as it has arrived."""

    payload: Payload
    whole: Bytes
    has: int = 0
    digest: Any = field(default_factory=lambda: hashlib.md5(usedforsecurity=False))
    children: dict[BrokerId, _Child] = field(default_factory=dict)
    ended: bool = False
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def take(self, first: int, part: Bytes) -> None:
        """Accept slices from number `first` on; skip those that are here already."""
        start = self.has * self.payload.slice_bytes
        known = start - first * self.payload.slice_bytes
        if known < 0:
            raise InputError(
                f"slice {self.has} of payload {self.payload.name!r} did not arrive before slice {first}"
            )
        fresh = part[known:]
        self.whole[start : start + len(fresh)] = fresh
        self.digest.update(fresh.data)
        self.has += -(-len(fresh) // self.payload.slice_bytes)

    def load(self, first: int) -> Bytes:
        """Return the slices from number `first` on that are here, as many as go with one call."""
        size = self.payload.slice_bytes
        return self.whole[first * size : min(self.has, first + SLICES_WAITING_MAX) * size]

    def has_room(self) -> bool:
        """Return whether so little waits for each link that more may come."""
        return all(
            child.over or self.has - child.has <= SLICES_WAITING_MAX for child in self.children.values()
        )

    async def tell(self) -> None:
        """Wake all tasks that wait for slices, for room, or for the end."""
        async with self.changed:
            self.changed.notify_all()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        async with self.changed:
            await self.changed.wait_for(ready)


class Payloads:
    """The payloads stored at one host, and in transit through it.

    Parameters
    ----------
    hosted_broker
        Returns the hosted broker of an id; BrokerUnavailable if there is none.
    actor_of
        Returns the actor of a broker; None if it is here.
    died
        Called with (broker here, other) when the other one's process is found dead.
    carry_out
        Carries out an effect of a broker here.
    """

    def __init__(
        self,
        hosted_broker: Callable[[BrokerId], HostedBroker],
        actor_of: Callable[[BrokerId], Awaitable[Any]],
        died: Callable[[BrokerId, BrokerId], None],
        carry_out: Callable[[HostedBroker, Effect], None],
    ) -> None:
        self._hosted_broker = hosted_broker
        self._actor_of = actor_of
        self._died = died
        self._carry_out = carry_out
        self._passing: dict[tuple[BrokerId, str], _Passing] = {}
        self._payloads: dict[tuple[BrokerId, str], tuple[Payload, Bytes]] = {}

    def _payload_router(self, broker: BrokerId) -> PayloadRouting:
        router = self._hosted_broker(broker).broker.router
        if not isinstance(router, PayloadRouting):
            able = " or ".join(
                repr(name) for name, made in SCHEMES.items() if issubclass(made, PayloadRouting)
            )
            raise InputError(
                f"scheme {type(router).__name__.lower()!r} cannot tell at a publisher's broker who wants a payload: "
                f"launch the network with scheme={able}"
            )
        return router

    def targets(self, at: BrokerId, batch: EventBatch) -> tuple[BrokerId, ...]:
        """Return the other brokers whose clients want a payload that this event describes."""
        return self._payload_router(at).wanting(batch)

    async def bulk_begin(self, to: BrokerId, payload: Payload) -> int:
        """Prepare for a payload, at this broker and its children; return how many slices are here."""
        passing = self._begun(to, payload)
        while len(self._passing) >= PASSING_MAX:  # left unfinished by a publisher that died
            self._stop(next(iter(self._passing)))
        self._passing[to, payload.name] = passing
        copies = self._payload_router(to).copies(payload.origin, payload.targets)
        passing.children = {child: _Child() for child in copies[to]}
        for child, way in passing.children.items():
            below = [child]
            for each in below:
                below.extend(copies[each])
            feed = self._feed(to, child, way, passing, below)
            way.feeding = asyncio.get_running_loop().create_task(feed)
        return passing.has

    def _begun(self, to: BrokerId, payload: Payload) -> _Passing:
        """Return what is here of a payload: from an interrupted round, all of it, or nothing."""
        cut_off = self._stop((to, payload.name))
        if cut_off is not None:
            return _Passing(payload, cut_off.whole, cut_off.has, cut_off.digest)
        if (to, payload.name) in self._payloads:
            whole = self._payloads[to, payload.name][1]
            return _Passing(payload, whole, payload.slices)
        return _Passing(payload, np.empty(payload.nbytes, np.uint8))

    def _stop(self, key: tuple[BrokerId, str]) -> _Passing | None:
        """End an abandoned round; return how far it came."""
        passing = self._passing.pop(key, None)
        for way in passing.children.values() if passing else ():
            if way.feeding is not None:
                way.feeding.cancel()
        return passing

    def _under_way(self, to: BrokerId, name: str) -> _Passing:
        passing = self._passing.get((to, name))
        if passing is None:
            raise InputError(
                f"payload {name!r} is not in transit at broker {to}, or was dropped to make room"
            )
        return passing

    async def bulk_slices(self, to: BrokerId, name: str, first: int, part: Bytes) -> None:
        """Accept the slices from number `first` on; return when there is room for more."""
        passing = self._under_way(to, name)
        passing.take(first, part)
        await passing.tell()
        await passing.until(passing.has_room)

    async def bulk_end(self, to: BrokerId, name: str) -> Outcome:
        """Record that all slices were sent; return the outcome at this broker and all brokers behind it."""
        passing = self._under_way(to, name)
        payload = passing.payload
        outcome = Outcome()
        passing.ended = True
        await passing.tell()
        right = (to, name) in self._payloads or passing.digest.hexdigest() == payload.md5
        if passing.has == payload.slices and right:
            self._keep(to, payload, passing.whole)
        else:
            outcome.missing[to] = f"damaged: {passing.has} of {payload.slices} slices, or a wrong checksum"
        for way in passing.children.values():
            assert way.feeding is not None
            outcome.add(await way.feeding)
        if self._passing.get((to, name)) is passing:
            del self._passing[to, name]
        return outcome

    async def payload(self, at: BrokerId, name: str, start: int) -> tuple[int, Bytes]:
        """Return the size of a payload, and its bytes from byte `start` on, for a client of this broker."""
        router, heals = self._payload_router(at), self._hosted_broker(at).broker.ask(Heals())
        if (at, name) not in self._payloads and heals:
            for other in router.neighbours():
                if await self._fetched(at, other, name):
                    break
        if (at, name) not in self._payloads:
            raise InputError(
                f"broker {at} has no payload {name!r}: it is not complete, or was dropped to make room"
            )
        payload, whole = self._payloads[at, name]
        return payload.nbytes, whole[start : start + READ_BYTES_MAX]

    async def payload_part(self, at: BrokerId, name: str, start: int) -> tuple[Payload, Bytes] | None:
        """Return a payload's description and its bytes from byte `start` on; None if it is not here."""
        known = self._payloads.get((at, name))
        return None if known is None else (known[0], known[1][start : start + READ_BYTES_MAX])

    async def _fetched(self, at: BrokerId, other: BrokerId, name: str) -> bool:
        """Fetch a payload from another broker, if that has it."""
        parts: list[Bytes] = []
        had = 0
        with suppress(RayActorError):
            at_other = self._at(await self._actor_of(other))
            while (found := await at_other.payload_part(other, name, had)) is not None:
                payload, part = found
                parts.append(part)
                had += len(part)
                if had == payload.nbytes:
                    self._make_room(at, payload, np.concatenate(parts))
                    return True
        return False

    async def _feed(
        self, at: BrokerId, child: BrokerId, way: _Child, passing: _Passing, below: Sequence[BrokerId]
    ) -> Outcome:
        """Send a child everything that arrives for it, one call at a time; return the outcome there and behind it."""
        name, sent = passing.payload.name, 0
        try:
            at_child = self._at(await self._actor_of(child))
            way.has = await at_child.bulk_begin(child, passing.payload)
            await passing.tell()
            while True:
                await passing.until(lambda: way.has < passing.has or passing.ended)
                load = passing.load(way.has)
                if not len(load):
                    break
                await at_child.bulk_slices(child, name, way.has, load)
                way.has += -(-len(load) // passing.payload.slice_bytes)
                sent += len(load)
                await passing.tell()
            outcome: Outcome = await at_child.bulk_end(child, name)
        except RayActorError as error:
            if isinstance(error, ActorDiedError):
                self._died(at, child)
            outcome = Outcome({child: GONE} | dict.fromkeys(below[1:], CUT_OFF))
        except Exception as error:
            outcome = Outcome({child: f"{type(error).__name__}: {error}"} | dict.fromkeys(below[1:], CUT_OFF))
        way.over = True  # nothing waits for room here any more
        await passing.tell()
        outcome.add(Outcome(sent={at: sent}))
        return outcome

    def _at(self, host: Any) -> Payloads | HostHandle:
        """Return what takes payloads at a host; None is this one."""
        return self if host is None else HostHandle(host)

    def _keep(self, broker: BrokerId, payload: Payload, whole: Bytes) -> None:
        """Store a payload that has arrived, and notify its recipients once."""
        known = (broker, payload.name) in self._payloads
        self._make_room(broker, payload, whole)
        if not known and payload.notifies:
            for effect in self._payload_router(broker).deliver(payload.batch):
                self._carry_out(self._hosted_broker(broker), effect)

    def _make_room(self, broker: BrokerId, payload: Payload, whole: Bytes) -> None:
        self._payloads[broker, payload.name] = payload, whole
        room = KEPT_BYTES_MAX - sum(each.nbytes for each, _ in self._payloads.values())
        for key in list(self._payloads)[:-1]:
            if room >= 0:
                break
            room += self._payloads.pop(key)[0].nbytes


def bytes_of(payload: Any) -> Bytes:
    """Return a payload as an array of bytes that shares its memory.

    Raises
    ------
    InputError
        If the object has no bytes.
    """
    try:
        return np.frombuffer(payload, np.uint8) if len(memoryview(payload)) else np.zeros(0, np.uint8)
    except (BufferError, TypeError, ValueError) as error:
        raise InputError(f"a payload must be bytes, or support the buffer protocol: {error}") from None


def next_targets(missing: Missing, targets: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
    """Return the targets of the next round: the live brokers that lack the payload.

    Raises
    ------
    BrokerUnavailable
        If the last round, for `targets`, reached no broker and found none dead.
    """
    left = tuple(sorted(broker for broker, why in missing.items() if why != GONE))
    if left and len(left) == len(targets):
        raise BrokerUnavailable(f"a payload does not arrive: {', '.join(f'{b}: {missing[b]}' for b in left)}")
    return left
