"""The advertisements of one publisher (paper 3, sections 3.1 to 3.3; paper 2, section 2.3).

Rules
-----
* With admission control an advertisement has a rate, and is in force when every broker knows it. Without, it
  has none, and is in force when the publisher's broker knows it.
* What the publisher says about them, also when it moves, is in `clients.publisher`.
* To a broker that recovers from crashes, advertisements and withdrawals are numbered. Each is retained until it
  is stable there, and retransmitted to a restarted broker (`clients.link`). What an earlier
  process of that name has left there is withdrawn first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from ...clients.link import ClientLinks
from ...clients.publisher import PublisherMachine, Said
from ...clients.quota import Excess, PublisherQuota
from ...protocol import checks
from ...protocol.errors import BrokerUnavailable, InputError
from ...protocol.ids import ClientId
from ...protocol.messages.admission import MICRO, required
from ...protocol.messages.pubsub import Detach
from ...routing.language.questions import to_filter
from ..host.handle import HostHandle
from ..host.requests import Request, Stored
from ..network.directory import Directory
from .client import Place
from .waits import Given, Work

Call: TypeAlias = Callable[[Place, bool, float], Work[Any]]
Step: TypeAlias = Callable[[], list[Said]]
"""Tells the machine of the publisher something, and returns what is to be said."""


class Calls(NamedTuple):
    """How a client calls its broker.

    Attributes
    ----------
    ask
        Makes a call to the client's current broker, as `Client._ask` does.
    answer
        Waits for the answer while the client is attached there, as `Client._answer` does.
    settle, still
        Make a change at a broker, or wherever the client is, as `Client._settle` and `Client._still` do.
    handle
        Returns the handle of a host.
    """

    ask: Callable[[Call, float], Work[Any]]
    answer: Callable[[Any, Place, float], Work[Any]]
    settle: Callable[[Place, Step], Work[list[Said]]]
    still: Callable[[Step], Work[list[Said]]]
    handle: Callable[[Any], HostHandle] = HostHandle


class Advertiser:
    """Lets one publisher advertise; for one call at a time.

    Parameters
    ----------
    machine, links
        The publisher, and the numbers of its messages; None where messages are not numbered.
    name, directory
        Its name, and its network.
    calls
        How it calls its broker.
    session
        Of the process that gives signs of life for it; "" if none does.

    Attributes
    ----------
    quota
        What the publisher may publish, and how fast; None without admission control: anything, at any rate.
    """

    def __init__(
        self,
        machine: PublisherMachine,
        links: ClientLinks | None,
        name: ClientId,
        directory: Directory,
        calls: Calls,
        session: str = "",
    ) -> None:
        self.quota = PublisherQuota(time.time) if directory.features.admits else None
        self._machine = machine
        self._links = links
        self._name = name
        self._directory = directory
        self._calls = calls
        self._session = session
        self._next_number = 1
        self._counted = False  # whether the numbers that an earlier process has used are known

    async def advertise(self, filter: Any, max_rate: float | None, excess: Excess) -> int:
        """Advertise; see :meth:`Publisher.advertise`."""
        item = to_filter(filter, self._directory.limits.filter_clauses_max)
        rate, machine = self._rate(max_rate, excess), self._machine
        number = self._next_number
        if self.quota is not None:
            self.quota.advertise(number, item, rate, excess)
        self._next_number += 1
        try:
            await self._tell(
                lambda: machine.advertise(number, item, round(rate * MICRO), default=max_rate is None),
                lambda: machine.everywhere(number, time.time()),
            )
        except BaseException:
            self._forget(number)
            left = await self._calls.still(lambda: machine.unadvertise(number, time.time()))
            if self._links is not None:  # repeated with the next message: it may have got through
                self._number(left)
            raise
        return number

    def _rate(self, max_rate: float | None, excess: Excess) -> float:
        if self.quota is None and max_rate is None and excess == "wait":
            return 0.0
        default = required(self._directory.features.admission).default_rate
        assert self.quota is not None
        return self.quota.history.rate(max_rate, default)

    def _forget(self, number: int) -> None:
        if self.quota is not None:
            del self.quota.advertisements[number]

    async def unadvertise(self, number: int) -> None:
        """Withdraw an advertisement; see :meth:`Publisher.unadvertise`."""
        machine, known = self._machine, self._machine.adverts
        if checks.whole_number("number", number) not in known:
            raise InputError(f"publisher {self._name!r} has no advertisement {number}: it has {list(known)}")
        item, micro_rate, default = known[number]

        def stays() -> list[Said]:
            machine.advertise(number, item, micro_rate, default=default)
            return machine.everywhere(number, time.time())

        try:
            await self._tell(lambda: machine.unadvertise(number, time.time()), list)
        except BaseException:  # it may have got through or not: the caller can repeat it
            await self._calls.still(stays)
            raise
        self._forget(number)

    async def _tell(self, begin: Step, done: Step) -> None:
        """Tell the broker about an advertisement: what `begin` returns. `done` is for when the broker knows it."""
        seconds, links = self._directory.limits.call_seconds, self._links
        if links is not None:
            await self._count(links, seconds)
            self._number(begin())

        async def call(place: Place, retrying: bool, left: float) -> Any:
            said: list[Any] = await self._calls.settle(place, begin) if links is None else links.back()
            asked = self._calls.handle(place.host).request(place.broker, self._name, said, self._session)
            answer = await self._calls.answer(asked, place, left)
            await self._calls.settle(place, done)
            return answer

        told = await self._calls.ask(call, seconds)
        if links is not None:
            links.acknowledged("subscriptions", links.subscriptions.sent)
            links.take(told or 0)

    def _number(self, said: list[Said]) -> None:
        assert self._links is not None
        for message in said:
            self._links.send(message)

    async def _count(self, links: ClientLinks, seconds: float) -> None:
        """Go on after the numbers of an earlier process, once nothing of it is left at its broker."""
        if self._counted:
            return

        async def call(place: Place, retrying: bool, left: float) -> int:
            asked: list[Request] = [Detach(), Stored("subscriptions")]
            return int(
                await Given(self._calls.handle(place.host).request(place.broker, self._name, asked), left)
            )

        links.subscriptions.sent = await self._calls.ask(call, seconds)
        self._counted = True

    async def withdraw_all(self) -> None:
        """Withdraw every advertisement; a dead broker has no state."""
        with suppress(BrokerUnavailable):
            for number in list(self._machine.adverts):
                await self.unadvertise(number)
