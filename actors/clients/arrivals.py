"""What comes from one host for the subscribers of a process: parts of answers to its polls, and the answers.

Rules
-----
* Delivery batches reach the inboxes in the order in which they came. A part that finds room does so in the turn of
  the event loop in which it comes; if an inbox is full, it and everything behind it waits, and the next poll, too.
* What readers on this event loop send of what is passed to them straight leaves in that turn, too (`departures`).
* So no more waits here than a poll may bring before it is answered (`AHEAD_EVENTS`).
* The next poll acknowledges what has reached the inboxes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, Protocol

from ...protocol.ids import ClientId
from ..host.departures import departures_here
from ..host.sessions import DeliveryBatch, Farewell, GivenUp, Proposal, Taken
from .inbox import Inbox

NOTED_SECONDS: Final = 0.1
"""How often at most inboxes note that they have everything: what they say of themselves is the longest it may be."""
PLACED_AT_ONCE: Final = 256
"""To how many subscribers events are passed before others on the event loop have a turn."""

News = Taken | Farewell | Proposal


class Process(Protocol):
    """What a client process does with what arrives."""

    def inbox_of(self, client: ClientId, host: Any) -> Inbox | None:
        """Return the inbox of a subscriber that is at a host; None if none is there."""
        ...

    def told(self, news: News) -> None:
        """Do what a host tells the process besides events."""
        ...

    def heard(self, host: Any, now: float) -> None:
        """Record that a host had nothing more for its subscribers."""
        ...


class Arrivals:
    """What comes from one host, from when its polls begin.

    Attributes
    ----------
    acknowledged
        The number of the last delivery batch that has reached the inboxes.
    """

    def __init__(self, process: Process, host: Any) -> None:
        self._process = process
        self._host = host
        self._departures = departures_here()
        self._noted = 0.0
        self._behind: list[Any] = []  # parts that wait for room, in order
        self._placing: asyncio.Task[bool] | None = None
        self.acknowledged = 0

    def take(self, part: list[Any]) -> None:
        """Take a part of the answer to a poll; on the event loop."""
        if self._placing is not None:
            self._behind += part
            return
        now = time.time()
        for place, each in enumerate(part):
            plain = type(each) is DeliveryBatch and not (each.losses or each.note)
            left = self._offer(each, now) if plain else each
            if left is not None:
                self._behind += [left, *part[place + 1 :]]
                self._placing = asyncio.get_running_loop().create_task(self._place_behind())
                return
            self.acknowledged = each.number
        self._note(part, now)

    def _offer(self, delivery: DeliveryBatch, now: float) -> DeliveryBatch | None:
        """Put a delivery batch into the inboxes, up to the first that is full; return what is left for them, if any.

        What is left after `PLACED_AT_ONCE` subscribers waits for the next turn.
        """
        batch, clients, rows, departures = delivery.batch, delivery.clients, delivery.rows, self._departures
        inbox_of, host, placed = self._process.inbox_of, self._host, 0
        departures.hold()
        try:
            for client, (first, end) in zip(clients, pairwise(delivery.starts.tolist()), strict=True):
                if placed == PLACED_AT_ONCE:
                    break
                inbox = inbox_of(client, host)
                if inbox is not None and not inbox.offer(batch, rows[first:end], now):
                    break
                placed += 1
        finally:
            departures.go()
        return None if placed == len(clients) else delivery.from_client(placed)

    async def _place_behind(self) -> bool:
        while self._behind:
            deliveries, self._behind = self._behind, []
            if not await self._place(deliveries):
                return False
        self._placing = None
        return True

    async def take_all(self, answer: Sequence[Any]) -> bool:
        """Take the answer to a poll; return whether the process may go on polling. If not, its host has given it up."""
        await self.placed()
        return await self._place(answer)

    async def _place(self, deliveries: Sequence[Any]) -> bool:
        now = time.time()
        for delivery in deliveries:
            if isinstance(delivery, GivenUp):
                return False
            if isinstance(delivery, DeliveryBatch):
                await self._put(delivery, now)
            else:
                self._process.told(delivery)
            if isinstance(delivery, DeliveryBatch | Proposal):
                self.acknowledged = delivery.number
        self._note(deliveries, now)
        return True

    async def _put(self, delivery: DeliveryBatch, now: float) -> None:
        """Put a delivery batch into the inboxes; wait while one of them is full."""
        if not (delivery.losses or delivery.note):
            await self._put_plain(delivery, now)
            return
        spans = pairwise(delivery.starts.tolist())
        for client, (first, end) in zip(delivery.clients, spans, strict=True):
            inbox = self._process.inbox_of(client, self._host)
            if inbox is None:
                continue
            if delivery.losses:
                inbox.tell(delivery.losses)
            elif inbox.links.take(delivery.note)[0]:
                await inbox.put(delivery.batch, delivery.rows[first:end], now)

    async def _put_plain(self, delivery: DeliveryBatch, now: float) -> None:
        left: DeliveryBatch | None = delivery
        while left is not None:
            before, left = left, self._offer(left, now)
            if left is None:
                return
            if len(before.clients) - len(left.clients) == PLACED_AT_ONCE:
                await asyncio.sleep(0)
                continue
            inbox = self._process.inbox_of(left.clients[0], self._host)
            if inbox is not None:
                await inbox.put(left.batch, left.rows[left.starts[0] : left.starts[1]], now)
            left = left.from_client(1) if len(left.clients) > 1 else None

    def _note(self, deliveries: Sequence[Any], now: float) -> None:
        """Note that the inboxes have everything, if nothing waited at the host behind these."""
        if abs(now - self._noted) < NOTED_SECONDS:
            return
        last = next((each for each in reversed(deliveries) if not isinstance(each, Taken | Farewell)), None)
        if last is None or (isinstance(last, DeliveryBatch) and last.last):
            self._noted = now
            self._process.heard(self._host, now)

    async def placed(self) -> None:
        """Wait until everything that has come is in the inboxes."""
        if self._placing is not None:
            await self._placing
