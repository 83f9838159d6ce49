"""What one publisher advertises, in a network with admission control (paper 3, sections 3.1 to 3.3).

Rules
-----
* An advertisement counts when every broker knows it. Whoever moves to another broker takes his along, and says when
  that was, so that what is still known of his former broker does not count.
* To a broker that recovers from crashes what is advertised and withdrawn has numbers. It is kept until that is stable
  there, and sent again to a broker that came back (`faults.durability.client_link`). What an earlier process of that
  name has left there is withdrawn first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import ray

from ...faults.durability.client_link import ClientLink
from ...protocol import checks
from ...protocol.errors import BrokerUnavailable, InputError
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.admission import MICRO, Advertise, Unadvertise
from ...protocol.messages.pubsub import Detach
from ...routing.language.questions import to_filter
from ..host.requests import Stored
from ..network.directory import Directory
from .quota import Excess, PublisherQuota

Ask: TypeAlias = Callable[[Callable[[Any, BrokerId, bool, float], Any], float], Any]
"""Makes a call to a client's broker, wherever that is by now, as `Client._ask` does."""


class Advertiser:
    """The advertisements of one publisher; for one thread at a time.

    Parameters
    ----------
    name, directory
        The publisher, and its network.
    ask
        Makes a call to its broker.

    Attributes
    ----------
    quota
        What it may publish, and how fast.
    """

    def __init__(self, name: ClientId, directory: Directory, ask: Ask) -> None:
        assert directory.admission is not None
        self.quota = PublisherQuota(time.time, time.sleep)
        self._name = name
        self._directory = directory
        self._default_rate = directory.admission.default_rate
        self._ask = ask
        self._next_number = 1
        self._link: ClientLink | None = None

    def advertise(self, filter: Any, max_rate: float | None, excess: Excess) -> int:
        """Advertise; see :meth:`Publisher.advertise`."""
        quota, item = self.quota, to_filter(filter, self._directory.limits.filter_clauses_max)
        default = quota.history.highest or self._default_rate
        rate = default if max_rate is None else checks.number("max_rate", max_rate, above=True)
        number = self._next_number
        quota.advertise(number, item, rate, excess)
        quota.advertisements[number].default = max_rate is None
        self._next_number += 1
        try:
            self._say(lambda: Advertise(number, item, round(rate * MICRO), time.time_ns(), max_rate is None))
        except BaseException:
            del quota.advertisements[number]
            if self._link is not None:
                # It goes with what is said next: it may have got through.
                self._link.send(Unadvertise(number))
            raise
        return number

    def unadvertise(self, number: int) -> None:
        """Withdraw an advertisement; see :meth:`Publisher.unadvertise`."""
        known = self.quota.advertisements
        if checks.whole_number("number", number) not in known:
            raise InputError(f"publisher {self._name!r} has no advertisement {number}: it has {list(known)}")
        self._say(lambda: Unadvertise(number))
        del known[number]

    def _say(self, make: Callable[[], Advertise | Unadvertise]) -> None:
        """Tell the broker about an advertisement, and return when it has done what that says."""
        seconds = self._directory.limits.call_seconds
        link = self._numbers(seconds) if self._directory.numbered else None
        if link is not None:
            link.send(make())

        def call(host: Any, broker: BrokerId, again: bool, left: float) -> Any:
            messages = [make()] if link is None else link.back()
            return ray.get(host.request.remote(broker, self._name, messages), timeout=left)

        told = self._ask(call, seconds)
        if link is not None:
            link.acknowledged(link.sent)
            link.take(told or 0)

    def _numbers(self, seconds: float) -> ClientLink:
        """Return the link to a broker that recovers from crashes, once nothing of an earlier process is left there."""
        if self._link is None:

            def call(host: Any, broker: BrokerId, again: bool, left: float) -> int:
                asked = [Detach(), Stored("subscriptions")]
                return int(ray.get(host.request.remote(broker, self._name, asked), timeout=left))

            self._link = ClientLink(self._ask(call, seconds))
        return self._link

    # Another broker, and the end.

    async def say_again(self, host: Any, broker: BrokerId) -> None:
        """Tell a new broker what is advertised."""
        for number, mine in list(self.quota.advertisements.items()):
            rate = round(mine.bucket.rate * MICRO)
            said = Advertise(number, mine.filter, rate, time.time_ns(), mine.default)
            await host.request.remote(broker, self._name, [said])

    def withdraw_at(self, host: Any, broker: BrokerId) -> None:
        """Withdraw at a broker that was left what is advertised elsewhere by now; nobody waits for it.

        It may be late, and find the publisher there again: it withdraws nothing that is said after it.
        """
        for number in list(self.quota.advertisements):
            host.request.remote(broker, self._name, [Unadvertise(number, time.time_ns())])

    def withdraw_all(self) -> None:
        """Withdraw every advertisement; a dead broker has forgotten them."""
        with suppress(BrokerUnavailable):
            for number in list(self.quota.advertisements):
                self.unadvertise(number)
