"""Places of subscribers that are about to attach: one call to the rendezvous point gives several.

Rules
-----
* The first call asks for one place. As long as each call follows the last within `AHEAD_SECONDS`, it asks for twice as
  many, up to `PLACES_MAX`; otherwise for one again.
* Once that many are asked for, the next call is made while half of them are left: so nobody waits for it.
* A place that nobody has taken within `AHEAD_SECONDS` is given back, because its broker may leave meanwhile, and
  because it counts as a client of its broker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import uuid4

from ray.exceptions import RayError

from ...protocol.errors import BrokerUnavailable
from ...protocol.ids import BrokerId, ClientId

PLACES_MAX: Final = 32
AHEAD_SECONDS: Final = 2.0

Ask = Callable[[Sequence[ClientId], str], Awaitable[Sequence[BrokerId]]]
GiveBack = Callable[[Mapping[ClientId, str]], None]


class Ahead(NamedTuple):
    """A place: a name, its broker, and the ticket of the call that gave it."""

    name: ClientId
    broker: BrokerId
    ticket: str


class PlacesAhead:
    """The places of subscribers whose names begin alike; on one event loop.

    Parameters
    ----------
    prefix
        How the names begin; the rest of each is drawn at random.
    ask
        Asks the rendezvous point for places of these names, with a ticket; returns their brokers.
    give_back
        Frees names, each with the ticket of its call.
    """

    def __init__(self, prefix: str, ask: Ask, give_back: GiveBack) -> None:
        self._prefix, self._ask, self._give_back = prefix, ask, give_back
        self._places: deque[Ahead] = deque()
        self._turn = asyncio.Lock()
        self._size = 1
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Return how many places are there."""
        return len(self._places)

    @property
    def in_use(self) -> bool:
        """Whether places are there, or are asked for: then whoever comes next takes from here."""
        return bool(self._places) or self._asking is not None or self._turn.locked()

    async def take(self) -> Ahead:
        """Return a place, which is then the caller's."""
        while not self._places:
            async with self._turn:
                if not self._places:
                    await self._more()
        if self._asking is None and self._size == PLACES_MAX and len(self._places) <= PLACES_MAX // 2:
            if asyncio.get_running_loop().time() - self._asked_at <= AHEAD_SECONDS:
                self._asking = asyncio.get_running_loop().create_task(self._more_soon())
        return self._places.popleft()

    async def _more_soon(self) -> None:
        try:
            with suppress(RayError, BrokerUnavailable):  # whoever finds no place asks again, and is told
                async with self._turn:
                    await self._more()
        finally:
            self._asking = None

    async def _more(self) -> None:
        loop = asyncio.get_running_loop()
        soon = loop.time() - self._asked_at <= AHEAD_SECONDS
        self._size = min(2 * self._size, PLACES_MAX) if soon else 1
        names = [f"{self._prefix}/{uuid4().hex[:12]}" for _ in range(self._size)]
        ticket = uuid4().hex
        try:
            brokers = await self._ask(names, ticket)
        except BaseException:  # the call may still give them
            self._give_back(dict.fromkeys(names, ticket))
            raise
        self._asked_at = loop.time()
        places = [Ahead(name, broker, ticket) for name, broker in zip(names, brokers, strict=True)]
        self._places.extend(places)
        if len(places) > 1:
            loop.call_later(AHEAD_SECONDS, self._let_go, ticket)

    def _let_go(self, ticket: str) -> None:
        left = [place for place in self._places if place.ticket == ticket]
        if left:
            self._places = deque(place for place in self._places if place.ticket != ticket)
            self._give_back({place.name: ticket for place in left})

    def clear(self) -> None:
        """Give all places back."""
        if self._asking is not None:
            self._asking.cancel()
        left, self._places = self._places, deque()
        if left:
            self._give_back({place.name: place.ticket for place in left})
