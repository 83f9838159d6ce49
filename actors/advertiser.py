"""The side of a publisher that advertises, in a network with admission control (paper 3, sections 3.1 to 3.3).

Rules
-----
* An advertisement counts when every broker knows it. Whoever moves to another broker takes his along, and says when
  that was, so that what is still known of his former broker does not count.
* To a broker that recovers from crashes what is advertised and withdrawn has numbers. It is kept until that is stable
  there, and sent again to a broker that came back (`faults.client_link`). What an earlier process of that name has left
  there is withdrawn first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray

from ..faults.client_link import ClientLink
from ..protocol import checks
from ..protocol.admission import MICRO, Advertise, Unadvertise
from ..protocol.errors import BrokerUnavailable, InputError
from ..protocol.ids import BrokerId
from ..protocol.messages import Detach
from ..routing.language import to_filter
from .client import Client
from .edge import Edge, Excess
from .requests import Stored


class Advertiser(Client):
    """What :class:`~.publisher.Publisher` does about advertisements."""

    _edge: Edge | None
    _turn: threading.Lock
    _next_advertisement = 1
    _wishes: ClientLink | None = None

    def advertise(self, filter: Any, *, max_rate: float | None = None, excess: Excess = "wait") -> int:
        """Advertise events, and return the advertisement's number once every broker knows it.

        Parameters
        ----------
        filter
            What will be published; an event that no advertisement covers is refused (`NotAdvertised`).
        max_rate
            Events per second at most; None takes the highest rate that this publisher has had in a second, or the
            network's default.
        excess
            What becomes of events that come faster: ``"wait"`` publishes them later, ``"drop"`` drops and counts
            them (`dropped`), ``"raise"`` raises `RateExceeded`.

        Raises
        ------
        InputError
            If the network has no admission control, or a parameter is out of range.
        """
        self._open()
        edge, item = self._advertising(), to_filter(filter, self._directory.limits.filter_clauses_max)
        assert self._directory.admission is not None
        default = edge.history.highest or self._directory.admission.default_rate
        rate = default if max_rate is None else checks.number("max_rate", max_rate, above=True)
        with self._turn:
            self._open()
            number = self._next_advertisement
            edge.advertise(number, item, rate, excess)
            self._next_advertisement += 1
            try:
                self._say(lambda: Advertise(number, item, round(rate * MICRO), time.time_ns()))
            except BaseException:
                del edge.advertisements[number]
                if self._wishes is not None:
                    self._wishes.send(Unadvertise(number))  # with what is said next: it may have got through
                raise
        return number

    def _say(self, make: Callable[[], Advertise | Unadvertise]) -> None:
        """Tell the broker about an advertisement, and return when it has done what that says."""
        seconds = self._directory.limits.call_seconds
        link = self._numbers(seconds) if self._directory.numbered else None
        if link is not None:
            link.send(make())

        def call(host: Any, broker: BrokerId, again: bool, left: float) -> Any:
            messages = [make()] if link is None else link.back()
            return ray.get(host.request.remote(broker, self.name, messages), timeout=left)

        told = self._ask(call, seconds)
        if link is not None:
            link.acknowledged(link.sent)
            link.take(told or 0)

    def _numbers(self, seconds: float) -> ClientLink:
        """Return the link to a broker that recovers from crashes, once nothing of an earlier process is left there."""
        if self._wishes is None:

            def call(host: Any, broker: BrokerId, again: bool, left: float) -> int:
                asked = [Detach(), Stored("wishes")]
                return int(ray.get(host.request.remote(broker, self.name, asked), timeout=left))

            self._wishes = ClientLink(self._ask(call, seconds))
        return self._wishes

    def unadvertise(self, number: int) -> None:
        """Withdraw an advertisement.

        Raises
        ------
        InputError
            If there is no advertisement of that number.
        """
        edge = self._advertising()
        with self._turn:
            self._open()
            if checks.whole_number("number", number) not in edge.advertisements:
                raise InputError(f"{self} has no advertisement {number}: it has {list(edge.advertisements)}")

            self._say(lambda: Unadvertise(number))
            del edge.advertisements[number]

    @property
    def dropped(self) -> int:
        """How many events were dropped because they came faster than advertised."""
        return 0 if self._edge is None else self._edge.dropped

    def _advertising(self) -> Edge:
        if self._edge is None:
            raise InputError(
                "this network has no admission control: launch it with admission=AdmissionConfig()"
            )
        return self._edge

    async def _advertise_again(self, host: Any, broker: BrokerId) -> None:
        """Tell a new broker what is advertised."""
        for number, mine in list(self._edge.advertisements.items()) if self._edge is not None else ():
            said = Advertise(number, mine.filter, round(mine.bucket.rate * MICRO), time.time_ns())
            await host.request.remote(broker, self.name, [said])

    def _leave(self, host: Any, broker: BrokerId) -> None:
        """Withdraw at a broker that is left what is advertised elsewhere by now."""
        for number in list(self._edge.advertisements) if self._edge is not None else ():
            host.request.remote(broker, self.name, [Unadvertise(number)])

    def _withdraw_all(self) -> None:
        """Withdraw every advertisement; a dead broker has forgotten them."""
        with suppress(BrokerUnavailable):
            for number in list(self._edge.advertisements) if self._edge is not None else ():
                self.unadvertise(number)
