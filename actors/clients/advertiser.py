"""The advertisements of one publisher (paper 3, sections 3.1 to 3.3; paper 2, section 2.3).

Rules
-----
* With admission control an advertisement has a rate, and is in force when every broker knows it. Without, it
  has none, and is in force when the publisher's broker knows it. A publisher that moves to another broker takes
  its advertisements along, with the time of the move, so that what is still known of its former broker does not
  count.
* To a broker that recovers from crashes, advertisements and withdrawals are numbered. Each is retained until it
  is stable there, and retransmitted to a restarted broker (`clients.link`). What an earlier
  process of that name has left there is withdrawn first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from ...clients.link import ClientLink
from ...clients.publisher import Advertised
from ...clients.quota import Excess, PublisherQuota
from ...protocol import checks
from ...protocol.errors import BrokerUnavailable, InputError
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.admission import MICRO, Advertise, Unadvertise, required
from ...protocol.messages.pubsub import Detach
from ...routing.language.questions import to_filter
from ..host.handle import HostHandle, waited
from ..host.requests import Request, Stored
from ..network.directory import Directory

Call: TypeAlias = Callable[[Any, BrokerId, bool, float], Any]


class Calls(NamedTuple):
    """How a client calls its broker.

    Attributes
    ----------
    ask
        Makes a call to the client's current broker, as `Client._ask` does.
    answer
        Waits for the answer while the client is attached there, as `Client._answer` does.
    settle
        Records what a broker has taken in, as `Client._settle` does.
    handle
        Returns the handle of a host.
    """

    ask: Callable[[Call, float], Any]
    answer: Callable[[Any, Any, float], Any]
    settle: Callable[[Any, Callable[[], object]], None]
    handle: Callable[[Any], HostHandle] = HostHandle


class Advertiser:
    """The advertisements of one publisher; for one thread at a time.

    Parameters
    ----------
    name, directory
        The publisher, and its network.
    calls
        How it calls its broker.
    session
        Of the process that gives signs of life for it; "" if none does.

    Attributes
    ----------
    quota
        What the publisher may publish, and how fast; None without admission control: anything, at any rate.
    """

    def __init__(self, name: ClientId, directory: Directory, calls: Calls, session: str = "") -> None:
        self.quota = None if directory.admission is None else PublisherQuota(time.time, time.sleep)
        self._name = name
        self._directory = directory
        self._calls = calls
        self._session = session
        self._said: dict[int, Advertised] = {}
        self._next_number = 1
        self._link: ClientLink | None = None

    def advertise(self, filter: Any, max_rate: float | None, excess: Excess) -> int:
        """Advertise; see :meth:`Publisher.advertise`."""
        item = to_filter(filter, self._directory.limits.filter_clauses_max)
        rate = self._rate(max_rate, excess)
        number = self._next_number
        if self.quota is not None:
            self.quota.advertise(number, item, rate, excess)
        self._next_number += 1
        self._said[number] = item, round(rate * MICRO), max_rate is None
        try:
            self._say(lambda: self._message(number), lambda: None)
        except BaseException:
            self._forget(number)
            if self._link is not None:
                # Repeated with the next message: it may have got through.
                self._link.send(Unadvertise(number))
            raise
        return number

    def _rate(self, max_rate: float | None, excess: Excess) -> float:
        if self.quota is None and max_rate is None and excess == "wait":
            return 0.0
        default = required(self._directory.admission).default_rate
        assert self.quota is not None
        return self.quota.history.rate(max_rate, default)

    @property
    def said(self) -> Mapping[int, Advertised]:
        """The advertisements, by number."""
        return self._said

    def _forget(self, number: int) -> None:
        del self._said[number]
        if self.quota is not None:
            del self.quota.advertisements[number]

    def unadvertise(self, number: int) -> None:
        """Withdraw an advertisement; see :meth:`Publisher.unadvertise`."""
        known = self._said
        if checks.whole_number("number", number) not in known:
            raise InputError(f"publisher {self._name!r} has no advertisement {number}: it has {list(known)}")
        self._say(lambda: Unadvertise(number), lambda: self._forget(number))

    def _say(self, make: Callable[[], Advertise | Unadvertise], done: Callable[[], None]) -> None:
        """Tell the broker about an advertisement; `done` is set when the broker has processed it and was not left."""
        seconds = self._directory.limits.call_seconds
        link = self._numbers(seconds) if self._directory.numbered else None
        if link is not None:
            link.send(make())

        def call(host: Any, broker: BrokerId, again: bool, left: float) -> Any:
            messages = [make()] if link is None else link.back()
            asked = self._calls.handle(host).request(broker, self._name, messages, self._session)
            answer = self._calls.answer(asked, host, left)
            self._calls.settle(host, done)
            return answer

        told = self._calls.ask(call, seconds)
        if link is not None:
            link.acknowledged(link.sent)
            link.take(told or 0)

    def _numbers(self, seconds: float) -> ClientLink:
        """Return the link to a broker that recovers from crashes, once nothing of an earlier process is left there."""
        if self._link is None:

            def call(host: Any, broker: BrokerId, again: bool, left: float) -> int:
                asked: list[Request] = [Detach(), Stored("subscriptions")]
                return int(waited(self._calls.handle(host).request(broker, self._name, asked), left))

            self._link = ClientLink(self._calls.ask(call, seconds))
        return self._link

    # Moves, and closing.

    async def say_again(self, host: Any, broker: BrokerId, past: Mapping[int, Advertised]) -> None:
        """Tell a new broker the advertisements, and the `past` ones whose events are republished."""
        for number in [*past, *self._said]:
            message = self._message(number, past.get(number))
            await self._calls.handle(host).request(broker, self._name, [message], self._session)

    def _message(self, number: int, past: Advertised | None = None) -> Advertise:
        item, rate, default = past or self._said[number]
        return Advertise(number, item, rate, time.time_ns(), default)

    def withdraw_at(self, host: Any, broker: BrokerId, numbers: Iterable[int] | None = None) -> None:
        """Withdraw, at a broker that was left, what is advertised elsewhere by now, without waiting.

        The withdrawal may be late and find the publisher there again: it withdraws nothing that was advertised
        after it.

        Parameters
        ----------
        host, broker
            The broker that was left.
        numbers
            Of the advertisements; None for all that are not withdrawn.
        """
        for number in list(self._said if numbers is None else numbers):
            self._calls.handle(host).request(broker, self._name, [Unadvertise(number, time.time_ns())])

    def withdraw_all(self) -> None:
        """Withdraw every advertisement; a dead broker has no state."""
        with suppress(BrokerUnavailable):
            for number in list(self._said):
                self.unadvertise(number)
