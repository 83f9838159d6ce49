"""The publications of one principal, in order: while one batch is in flight, later events form the next batch.

Where several clients publish, the next batch also waits, for a few turns of the event loop, for those that the last one
has answered. What an event costs a gateway and its broker depends on how many come with it.

Events published under a key are claimed first, so that they are published once (`recovery.replay.repeats`).
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from ..actors.eager import begun
from ..protocol import checks
from ..protocol.batch import ATTRIBUTES_MAX, EventBatch, cells_bytes, concat
from ..protocol.errors import (
    BrokerUnavailable,
    KeyReused,
    LimitReached,
    PublicationUnderWay,
    RayvousError,
)
from ..protocol.gateways import GatewayLimits
from ..protocol.ways import NestedEvent
from ..recovery.replay.repeats import NumbersRequest, Published
from .network import Outlet

CALL_EVENTS_MAX: Final = 16_384
KEY_CHARACTERS_MAX: Final = 255
EVENTS_AT_ONCE: Final = 256
"""How many flat events are read on the loop; more are read in a thread."""
BEGUN_EVENTS: Final = 8
"""Up to how many events are published in the turn in which they come. More wait for what comes with them."""
QUIET_TURNS: Final = 4
"""What is published waits for company until none has come for so many turns of the event loop. What a client has sent
that has just been answered is here within three."""
TURNS_MAX: Final = 16
"""How many turns of the event loop it waits for company at most."""
COLUMNS_TO_BODY: Final = 8
"""How many times larger than a body its events may be as columns."""


def takes_long(events: Sequence[Mapping[str, object]] | EventBatch) -> bool:
    """Return whether events are so many, or one so large or nested, that others should not wait until they are read."""
    if isinstance(events, EventBatch):
        return events.work > EVENTS_AT_ONCE
    return len(events) > EVENTS_AT_ONCE or any(
        len(event) > ATTRIBUTES_MAX or any(isinstance(value, dict | list) for value in event.values())
        for event in events
    )


def columns_bytes_max(limits: GatewayLimits) -> int:
    """Return the limit on the size of the columns of events that are published together.

    Each column has a cell for every event. Ten thousand events with distinct attributes, four megabytes of
    JSON, would take gigabytes.
    """
    return COLUMNS_TO_BODY * limits.body_bytes_max


@dataclass(frozen=True, slots=True)
class Accepted:
    """Events accepted by the network: numbers `first` to `last` of `publisher`; `repeated` if accepted before."""

    publisher: str
    first: int
    last: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key and the digest of its events."""

    text: str
    digest: bytes


def named_by(text: str, events: Sequence[Mapping[str, object]]) -> Key:
    """Return the key of events; InputError if the text is not a valid key."""
    if not 0 < len(checks.text("key", text)) <= KEY_CHARACTERS_MAX or not text.isprintable():
        raise checks.wrong("key", text, f"1 to {KEY_CHARACTERS_MAX} printable characters")
    content = [(sorted(event.items()), _arrays_of(event)) for event in events]
    return Key(text, sha256(repr(content).encode()).digest())


def _arrays_of(event: Mapping[str, object]) -> str:
    """Return the nested part of an event, independent of the order of its members."""
    return json.dumps(json.loads(event.form), sort_keys=True) if isinstance(event, NestedEvent) else ""


@dataclass(frozen=True, slots=True)
class _Asked:
    batch: EventBatch
    flush: bool
    key: Key | None
    answer: asyncio.Future[Accepted]

    @property
    def request(self) -> NumbersRequest:
        """The claim for this request."""
        if self.key is None:
            return NumbersRequest(None, b"", len(self.batch))
        return NumbersRequest(self.key.text, self.key.digest, len(self.batch))


class PublisherQueue:
    """The publisher of one principal, shared by all its connections.

    Parameters
    ----------
    outlet
        The publisher.
    limits
        The limit on queued events; further events are refused.
    """

    def __init__(self, outlet: Outlet, limits: GatewayLimits) -> None:
        self._outlet = outlet
        self._waiting_max = limits.publishing_events_max
        self._columns_bytes_max = columns_bytes_max(limits)
        self._asked: deque[_Asked] = deque()
        self._events = 0
        self._work: asyncio.Task[None] | None = None
        self._company = False  # whether the last call was for several requests, or some waited for it

    async def publish(self, batch: EventBatch, *, flush: bool = False, key: Key | None = None) -> Accepted:
        """Publish events, and return when they are accepted, or with `flush` delivered.

        Events that were published under their key before are not published again.

        Raises
        ------
        KeyReused
            If the key belongs to other events.
        PublicationUnderWay
            If the outcome of the earlier publication under this key is not known yet.
        LimitReached
            If too many events are queued.
        BrokerUnavailable
            If the events are not accepted, or not delivered in time; the message says which.
        """
        if self._events + len(batch) > self._waiting_max:
            raise LimitReached(
                f"{self._events:,} events wait to be accepted, the limit is {self._waiting_max:,} "
                "(publishing_events_max)",
                "publishing_events_max",
                1.0,
            )
        answer: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(batch, flush, key, answer))
        self._events += len(batch)
        if self._work is None:
            begin = begun if len(batch) <= BEGUN_EVENTS else asyncio.get_running_loop().create_task
            self._work = begin(self._publish_all())
        return await answer  # a request is carried out even if its client disconnects

    async def _publish_all(self) -> None:
        try:
            while self._asked:
                if self._company:
                    await self._gather()
                if self._asked:  # else it was closed meanwhile
                    await self._publish_some()
        finally:
            self._work = None

    async def _gather(self) -> None:
        """Wait as long as more comes, which is published by the same call; a few events do not wait."""
        quiet, waited, had = 0, 0, self._events
        while BEGUN_EVENTS < had < CALL_EVENTS_MAX and quiet < QUIET_TURNS and waited < TURNS_MAX:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._events == had else 0
            waited, had = waited + 1, self._events

    async def _publish_some(self) -> None:
        group = [self._asked.popleft()]
        size, columns = len(group[0].batch), set(group[0].batch.columns)
        while self._asked:
            batch = self._asked[0].batch
            larger = size + len(batch)
            columns |= batch.columns.keys()
            if larger > CALL_EVENTS_MAX or cells_bytes(len(columns), larger) > self._columns_bytes_max:
                break
            group.append(self._asked.popleft())
            size = larger
        try:
            fresh, accepted = group, list[tuple[_Asked, Accepted]]()
            if any(asked.key is not None for asked in group):
                fresh, accepted = await self._claimed(group)
            accepted += await self._accepted(fresh)
        except BaseException as error:
            _refuse(group, error)
            return
        finally:
            self._events -= size
            self._company = len(group) > 1 or bool(self._asked)
        await self._answer(accepted)

    async def _claimed(self, group: list[_Asked]) -> tuple[list[_Asked], list[tuple[_Asked, Accepted]]]:
        """Claim the keys of a group; return the requests to publish, and those accepted before."""
        try:
            answers = await self._outlet.claim([asked.request for asked in group])
        except BrokerUnavailable as error:  # events without a key need no claim
            _refuse([asked for asked in group if asked.key is not None], error)
            return [asked for asked in group if asked.key is None], []
        fresh: list[_Asked] = []
        accepted: list[tuple[_Asked, Accepted]] = []
        for asked, known in zip(group, answers, strict=True):
            if known is None:
                fresh.append(asked)
            elif (refusal := _unanswerable(asked.request, known)) is not None:
                _refuse([asked], refusal)
            else:
                accepted.append((asked, Accepted(known.publisher, known.first, known.last, repeated=True)))
        return fresh, accepted

    async def _accepted(self, group: list[_Asked]) -> list[tuple[_Asked, Accepted]]:
        """Publish a group, and return the sequence numbers of each request."""
        if not group:
            return []
        keys = [asked.key.text for asked in group if asked.key is not None]
        last = await self._outlet.publish(concat([asked.batch for asked in group]))
        if keys:
            with suppress(BrokerUnavailable):  # resolved when the key is used again
                await self._outlet.settle(keys)
        first = last - sum(len(asked.batch) for asked in group) + 1
        accepted: list[tuple[_Asked, Accepted]] = []
        for asked in group:
            end = first + len(asked.batch) - 1
            accepted.append((asked, Accepted(self._outlet.name, first, end)))
            first = end + 1
        return accepted

    async def _answer(self, accepted: list[tuple[_Asked, Accepted]]) -> None:
        flushed = []
        for asked, answer in accepted:
            if asked.flush and answer.publisher != self._outlet.name:
                _refuse([asked], _unseen(answer, "another gateway published it"))
            elif asked.flush:
                flushed.append((asked, answer))
            elif not asked.answer.done():
                asked.answer.set_result(answer)
        if not flushed:
            return
        try:
            await self._outlet.flush()
        except BaseException as error:
            for asked, answer in flushed:
                kept = isinstance(error, RayvousError) and not isinstance(error, BrokerUnavailable)
                _refuse([asked], error if kept else _unseen(answer, error))
            return
        for asked, answer in flushed:
            if not asked.answer.done():
                asked.answer.set_result(answer)

    async def close(self) -> None:
        """Finish the batch in flight, refuse the rest, and leave."""
        _refuse(list(self._asked), BrokerUnavailable("the gateway ends"))
        self._asked.clear()
        if self._work is not None:
            await self._work
        await self._outlet.close()


def _unseen(answer: Accepted, why: object) -> BrokerUnavailable:
    what = f"accepted as {answer.publisher} {answer.first}-{answer.last}, but not seen to be delivered"
    return BrokerUnavailable(f"{what}: {why}")


def _unanswerable(request: NumbersRequest, known: Published) -> RayvousError | None:
    """Return why a repeated publication cannot be answered with the earlier result, or None."""
    if request.digest != known.digest:
        return KeyReused("other events were published under this key before: take a new key for what is new")
    if not known.accepted:
        return PublicationUnderWay(
            "these events are being published under this key, or it is not known yet what became of them: "
            "ask again with the same key"
        )
    return None


def _refuse(group: list[_Asked], error: BaseException) -> None:
    for asked in group:
        if not asked.answer.done():
            asked.answer.set_exception(error)
            asked.answer.exception()  # marks it as retrieved: the requester may be gone
