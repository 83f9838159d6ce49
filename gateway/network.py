"""What a gateway needs of its network, as coroutines; `gateway.joined` implements it on Ray.

Rule: nothing here knows of tokens, clients or protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..protocol.batch import EventBatch, Rows
from ..protocol.groups import GroupConfig
from ..protocol.ids import EventId
from ..protocol.messages.pubsub import Lost
from ..recovery.replay.repeats import Answer, NumbersRequest
from ..routing.filters.filter import Filter
from .terms import Terms

Straight = Callable[[EventBatch, Rows], bool]
"""Takes events in the turn in which they come; returns whether it has taken all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """One arrival for a subscriber: rows of a batch, events lost before it, and the number of events shed.

    Of a worker of a group, `deliveries` says how often each row was given, and `withdrawn` what was taken from it
    before.

    `last` says that nothing more is queued: the listener is called for later arrivals.
    """

    batch: EventBatch | None = None
    rows: Rows | None = None
    losses: Sequence[Lost] = field(default=())
    shed: int = 0
    last: bool = False
    deliveries: Sequence[int] = field(default=())
    withdrawn: Sequence[EventId] = field(default=())


class Outlet(Protocol):
    """A publisher. One call at a time."""

    @property
    def name(self) -> str:
        """The name of the publisher in the network."""
        ...

    async def publish(self, batch: EventBatch) -> int:
        """Publish events, and return the number of the last one when all are accepted.

        A claim made for them is withdrawn if they were certainly not accepted: on InputError, or if none has
        got a number.
        """
        ...

    async def claim(self, requests: Sequence[NumbersRequest]) -> list[Answer]:
        """Claim the keys of the next publication, atomically and in this order, except those already known.

        A key of one principal means the same at all gateways of the network. A known key that is not accepted
        is either in flight, or its outcome is not known yet.
        """
        ...

    async def settle(self, keys: Sequence[str]) -> None:
        """Record that the publications under these keys were accepted."""
        ...

    async def flush(self) -> None:
        """Wait until everything published is delivered; InputError if the network cannot tell."""
        ...

    async def close(self) -> None:
        """Leave the network."""
        ...


class Feed(Protocol):
    """A subscriber with at most one subscription."""

    @property
    def filters(self) -> Sequence[Filter]:
        """The existing subscriptions; a durable subscriber that reconnects already has one."""
        ...

    async def subscribe(self, wanted: Filter, terms: Terms) -> None:
        """Subscribe; the subscription is installed when this returns."""
        ...

    def listen(self, more: Callable[[], None], straight: Straight) -> None:
        """Call `more`, on this loop, when something has arrived since the last look, and at the end.

        What nothing precedes, and behind nothing that was lost, may first be passed to `straight`, in the turn in which
        it comes: rows of a batch, of events that do not expire. If that takes them, `take` does not return them.
        """
        ...

    def take(self) -> Arrived | None:
        """Return the next arrival, or None if there is none now; ClientError if nothing more will come."""
        ...

    async def acknowledge(self, marks: Mapping[str, int]) -> None:
        """Advance the position of a durable subscriber, per publisher; it is stored when this returns."""
        ...

    async def close(self) -> None:
        """Leave; a durable subscription remains."""
        ...

    async def end(self) -> None:
        """Leave permanently and end the subscription."""
        ...


class GroupFeed(Feed, Protocol):
    """A worker of a consumer group; its `acknowledge` is `settle`."""

    def ask(self) -> None:
        """Say that its client waits for an event: one that stood still gets more then."""
        ...

    async def settle(self, acknowledged: Sequence[EventId], refused: Sequence[tuple[EventId, float]]) -> None:
        """Acknowledge events, and refuse others with a delay; NotGiven if one is not the worker's (any more)."""
        ...


class Upstream(Protocol):
    """A network, as a gateway uses it."""

    @property
    def name(self) -> str:
        """The name of the network."""
        ...

    @property
    def secret(self) -> str:
        """A secret shared by the parts of this network: the same at all its gateways."""
        ...

    @property
    def heals(self) -> bool:
        """Whether durable names and `flush` are available."""
        ...

    async def alive(self) -> bool:
        """Return whether the network responds."""
        ...

    async def outlet(self, principal: str, may: Filter, rate: float) -> Outlet:
        """Attach a publisher for a principal; with admission control it advertises the principal's publish right."""
        ...

    async def feed(self, principal: str, durable: str | None = None) -> Feed:
        """Attach a subscriber of a principal: ``principal/durable`` if that is given, else one with a new name."""
        ...

    async def worker(self, config: GroupConfig) -> GroupFeed:
        """Join a consumer group, which has the name of its principal: ``principal/name``."""
        ...

    async def end_group(self, name: str) -> None:
        """End a consumer group permanently; InputError if there is none of that name."""
        ...
