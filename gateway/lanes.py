"""What one principal publishes, in order: while a batch is on its way, what comes meanwhile becomes the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from ..protocol.batch import EventBatch, concat
from ..protocol.errors import BrokerUnavailable, LimitReached, RayvousError
from .network import Outlet

CALL_EVENTS_MAX: Final = 16_384


@dataclass(frozen=True, slots=True)
class Accepted:
    """Events that the network has accepted: those of `publisher` from number `first` to `last`."""

    publisher: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Asked:
    batch: EventBatch
    flush: bool
    answer: asyncio.Future[Accepted]


class Lane:
    """The publisher of one principal, shared by all its connections.

    Parameters
    ----------
    outlet
        What publishes.
    waiting_max
        Events that may wait; more are refused.
    """

    def __init__(self, outlet: Outlet, waiting_max: int) -> None:
        self._outlet = outlet
        self._waiting_max = waiting_max
        self._asked: deque[_Asked] = deque()
        self._events = 0
        self._work: asyncio.Task[None] | None = None

    async def publish(self, batch: EventBatch, *, flush: bool = False) -> Accepted:
        """Publish events, and return when they are accepted, or with `flush` delivered.

        Raises
        ------
        LimitReached
            If too many wait already.
        BrokerUnavailable
            If they are not accepted, or not delivered in time; the message says which.
        """
        if self._events + len(batch) > self._waiting_max:
            raise LimitReached(
                f"{self._events:,} events wait to be accepted, the limit is {self._waiting_max:,} "
                "(publishing_events_max)",
                "publishing_events_max",
                1.0,
            )
        answer: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(batch, flush, answer))
        self._events += len(batch)
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._publish_all())
        return await asyncio.shield(answer)  # who goes away has asked for it all the same

    async def _publish_all(self) -> None:
        try:
            while self._asked:
                await self._publish_some()
        finally:
            self._work = None

    async def _publish_some(self) -> None:
        group = [self._asked.popleft()]
        size = len(group[0].batch)
        while self._asked and size + len(self._asked[0].batch) <= CALL_EVENTS_MAX:
            group.append(self._asked.popleft())
            size += len(group[-1].batch)
        try:
            last = await self._outlet.publish(concat([asked.batch for asked in group]))
        except BaseException as error:
            _refuse(group, error)
            return
        finally:
            self._events -= size
        first = last - size + 1
        accepted: list[tuple[_Asked, Accepted]] = []
        for asked in group:
            end = first + len(asked.batch) - 1
            accepted.append((asked, Accepted(self._outlet.name, first, end)))
            first = end + 1
        await self._answer(accepted)

    async def _answer(self, accepted: list[tuple[_Asked, Accepted]]) -> None:
        for asked, answer in accepted:
            if not asked.flush and not asked.answer.done():
                asked.answer.set_result(answer)
        flushed = [(asked, answer) for asked, answer in accepted if asked.flush]
        if not flushed:
            return
        try:
            await self._outlet.flush()
        except BaseException as error:
            for asked, answer in flushed:
                what = f"accepted as {answer.publisher} {answer.first}-{answer.last}, but not seen to be delivered"
                kept = isinstance(error, RayvousError) and not isinstance(error, BrokerUnavailable)
                _refuse([asked], error if kept else BrokerUnavailable(f"{what}: {error}"))
            return
        for asked, answer in flushed:
            if not asked.answer.done():
                asked.answer.set_result(answer)

    async def close(self) -> None:
        """Let what is on its way arrive, refuse the rest, and leave."""
        _refuse(list(self._asked), BrokerUnavailable("the gateway ends"))
        self._asked.clear()
        if self._work is not None:
            await self._work
        await self._outlet.close()


def _refuse(group: list[_Asked], error: BaseException) -> None:
    for asked in group:
        if not asked.answer.done():
            asked.answer.set_exception(error)
            asked.answer.exception()  # who asked may be gone
