"""What a gateway asks of the network that it stands before, as coroutines; `gateway.joined` does it on Ray.

Rule: nothing here knows of tokens, clients or protocols; names of publishers and subscribers are made by `core`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..faults.replay.repeats import Answer, Wish
from ..protocol.batch import EventBatch, Rows
from ..protocol.messages.pubsub import Lost
from ..routing.filters.filter import Filter


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """What came for a subscriber at once: rows of a batch, what was lost for good before it, and how many were shed.

    `last` says that nothing more was there: what comes later is called for.
    """

    batch: EventBatch | None = None
    rows: Rows | None = None
    losses: Sequence[Lost] = field(default=())
    shed: int = 0
    last: bool = False


class Outlet(Protocol):
    """A publisher. One call at a time."""

    @property
    def name(self) -> str:
        """Its name in the network."""
        ...

    async def publish(self, batch: EventBatch) -> int:
        """Publish events, and return the number of the last when all are accepted.

        What was claimed for them is free again where they certainly were not: on InputError, or if none has a number.
        """
        ...

    async def claim(self, wishes: Sequence[Wish]) -> list[Answer]:
        """Claim the keys of what is published next, at once and in this order but for what is known already.

        At all gateways of the network a key of one principal is the same. What is known and not accepted is either
        under way, or nobody knows yet what became of it.
        """
        ...

    async def settle(self, keys: Sequence[str]) -> None:
        """Say that it was accepted."""
        ...

    async def flush(self) -> None:
        """Wait until all that was published is delivered; InputError where the network cannot tell."""
        ...

    async def close(self) -> None:
        """Leave the network."""
        ...


class Feed(Protocol):
    """A subscriber with at most one subscription."""

    @property
    def filters(self) -> Sequence[Filter]:
        """What it has subscribed to; a durable one that comes back has something already."""
        ...

    async def subscribe(self, wanted: Filter) -> None:
        """Subscribe; the subscription is in force when this returns."""
        ...

    def listen(self, more: Callable[[], None]) -> None:
        """Call `more`, on this loop, whenever something has come since it was last looked for; and at the end."""
        ...

    def take(self) -> Arrived | None:
        """Return what came next, or None when there is nothing now; ClientError when nothing more will come."""
        ...

    async def acknowledge(self, marks: Mapping[str, int]) -> None:
        """Let the position of a durable one go on, per publisher; it outlives this process when this returns."""
        ...

    async def close(self) -> None:
        """Leave; what is durable stays."""
        ...

    async def end(self) -> None:
        """Leave for good."""
        ...


class Upstream(Protocol):
    """A network, as a gateway sees it."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def secret(self) -> str:
        """What only parts of this network know: the same at all of its gateways."""
        ...

    @property
    def heals(self) -> bool:
        """Whether durable names and `flush` are to be had."""
        ...

    async def alive(self) -> bool:
        """Return whether the network answers."""
        ...

    async def outlet(self, principal: str, may: Filter, rate: float) -> Outlet:
        """Attach a publisher for a principal; where brokers admit it advertises what the principal may publish."""
        ...

    async def feed(self, name: str, *, durable: bool) -> Feed:
        """Attach a subscriber."""
        ...
