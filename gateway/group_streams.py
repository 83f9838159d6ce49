"""A stream that is a worker of a consumer group: each delivery is acknowledged, or refused, by its id.

Rules
-----
* An id names one delivery of this stream. To acknowledge one that the stream did not deliver, or that was taken from it
  since, is an error.
* A stream that stood still asks for more when nothing is queued for its client.
* What is delivered is bounded by what a worker may hold; it sheds nothing.
* When the stream ends, other workers get what it has not acknowledged.

Reference: docs/groups.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from ..protocol.errors import InputError, NotGiven, RayvousError
from ..protocol.gateways import GatewayLimits
from ..protocol.ids import EventId
from ..routing.filters.filter import Filter
from .deliveries import Delivery, Texts
from .network import Arrived, GroupFeed
from .positions import identity
from .streams import Item, Stream


class GroupStream(Stream):
    """The deliveries of one worker of a consumer group. Made by `Session.subscribe` with `group`."""

    def __init__(
        self,
        feed: GroupFeed,
        limits: GatewayLimits,
        texts: Texts,
        *,
        filter: Filter,
        durable: str,
        on_end: Callable[[Stream], None],
    ) -> None:
        super().__init__(feed, limits, texts, filter=filter, durable=durable, on_end=on_end)
        self._worker = feed
        self._times: dict[EventId, int] = {}  # how often each was given that was not delivered yet
        self._returns: set[asyncio.Task[None]] = set()
        self._given: dict[str, EventId] = {}  # what was delivered and not settled, by id, in order

    def has(self, id: str) -> bool:
        """Return whether a delivery of this id waits for its acknowledgement."""
        return id in self._given

    async def begin(self, after: str | None) -> None:
        """Take arrivals. A worker has no position, so it begins after nothing."""
        await super().begin(None)

    def _receive(self, arrived: Arrived) -> None:
        for event in arrived.withdrawn:
            self._times.pop(event, None)  # if it is delivered nevertheless, it is not noted
            self._given.pop(identity(*event), None)
        if arrived.batch is not None and arrived.rows is not None:
            for row, times in zip(arrived.rows.tolist(), arrived.deliveries, strict=True):
                self._times[arrived.batch.identity(row)] = times
        super()._receive(arrived)

    def _pass_by(self, most: int) -> int:
        """Pass nothing by: what is delivered is noted."""
        return 0

    def _hand_out(self, most: int) -> list[Item]:
        items = super()._hand_out(most)
        if not items:
            self._worker.ask()
        return items

    def _go_on(self) -> None:
        super()._go_on()
        if not self._waits and not self._coming:
            self._worker.ask()

    def _delivery(self, item: Delivery) -> Delivery:
        event = item.publisher, item.sequence
        if event in self._times:
            self._given[item.id] = event
        return item.given(self._times.pop(event, 1))

    def _drop(self, item: Delivery) -> None:
        """Give a delivery back that is past its time to live: the group lets go of it."""
        super()._drop(item)
        event = item.publisher, item.sequence
        if self._times.pop(event, None) is not None:
            task = asyncio.get_running_loop().create_task(self._give_back(event))
            self._returns.add(task)
            task.add_done_callback(self._returns.discard)

    async def _give_back(self, event: EventId) -> None:
        with suppress(RayvousError):  # it is overdue some time, too
            await self._worker.settle((), [(event, 0.0)])

    async def acknowledge(self, id: str, *, alone: bool = False) -> None:
        """Acknowledge a delivery and all before it, or `alone` only that one; on return no worker gets it again.

        Raises
        ------
        NotGiven
            If one was not delivered by this stream, or was taken from it since.
        BrokerUnavailable
            If the acknowledgement cannot be stored.
        """
        self._require(id)
        ids = [*self._given]
        meant = [id] if alone else ids[: ids.index(id) + 1]
        await self._settle(meant, None)

    async def refuse(self, id: str, seconds: float = 0.0) -> None:
        """Refuse a delivery: a worker gets it again in so many seconds, until it is a dead letter.

        Raises
        ------
        NotGiven, BrokerUnavailable
            As `acknowledge`.
        """
        self._require(id)
        await self._settle([id], seconds)

    async def _settle(self, ids: list[str], refused: float | None) -> None:
        """Acknowledge deliveries, or refuse them for so many seconds; they are not forgotten before that is stored."""
        meant = {each: self._given[each] for each in ids}
        events = [*meant.values()]
        try:
            if refused is None:
                await self._worker.settle(events, ())
            else:
                await self._worker.settle((), [(event, refused) for event in events])
        except NotGiven:
            self._forget(meant)
            raise
        self._forget(meant)

    def _forget(self, meant: Mapping[str, EventId]) -> None:
        """Forget deliveries, but not a later one of the same event."""
        for id, event in meant.items():
            if self._given.get(id) is event:
                del self._given[id]

    def _require(self, id: str) -> None:
        if id not in self._given:
            raise NotGiven(
                f"{id[:80]!r} is not the id of a delivery that this worker holds: it was settled, "
                "taken from it, or never given to it"
            )


def require_group(stream: Stream) -> GroupStream:
    """Return a stream that is a worker of a group; InputError for another one."""
    if not isinstance(stream, GroupStream):
        raise InputError("only an event of a group can be refused: subscribe with group")
    return stream
