"""The side of a publisher that advertises, in a network with admission control (paper 3, sections 3.1 to 3.3).

Rule: an advertisement counts when every broker knows it; whoever moves to another broker takes his along, and says when
that was, so that what is still known of his former broker does not count.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import ray

from ..protocol import checks
from ..protocol.admission import MICRO, Advertise, Unadvertise
from ..protocol.errors import BrokerUnavailable, InputError
from ..protocol.ids import BrokerId
from ..routing.language import to_filter
from .client import Client
from .edge import Edge, Excess


class Advertiser(Client):
    """What :class:`~.publisher.Publisher` does about advertisements."""

    _edge: Edge | None
    _turn: threading.Lock
    _next_advertisement = 1

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

            def call(host: Any, broker: BrokerId, again: bool, seconds: float) -> None:
                said = Advertise(number, item, round(rate * MICRO), time.time_ns())
                ray.get(host.request.remote(broker, self.name, [said]), timeout=seconds)

            try:
                self._ask(call, self._directory.limits.call_seconds)
            except BaseException:
                del edge.advertisements[number]
                raise
        return number

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

            def call(host: Any, broker: BrokerId, again: bool, seconds: float) -> None:
                ray.get(host.request.remote(broker, self.name, [Unadvertise(number)]), timeout=seconds)

            self._ask(call, self._directory.limits.call_seconds)
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

    def _withdraw_all(self) -> None:
        """Withdraw every advertisement; a dead broker has forgotten them."""
        with suppress(BrokerUnavailable):
            for number in list(self._edge.advertisements) if self._edge is not None else ():
                self.unadvertise(number)
