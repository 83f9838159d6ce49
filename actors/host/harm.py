"""Fault injection in a host, for tests of how a network reacts to faults.

Rule: each method causes a fault of `rayvous chaos`. How often and when is decided by `faults.chaos`, not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from ...faults.chaos.damage import damage
from ...protocol.ids import BrokerId
from ..chaos.link_faults import Forecast
from .driver import Driver
from .hosted_broker import HostedBroker
from .transport import Transport


class Harm:
    """The faults that can be caused in the brokers of a host, and in their links.

    Parameters
    ----------
    seats, transport, driver
        Those of the host.
    """

    def __init__(self, seats: Mapping[BrokerId, HostedBroker], transport: Transport, driver: Driver) -> None:
        self._seats = seats
        self._transport = transport
        self._driver = driver

    async def link_faults(self, forecast: Forecast) -> None:
        """Cut, slow down and degrade links, and slow down brokers, as the forecast says."""
        if self._driver.resting is not None:
            self._driver.resting.stop()
        self._transport.forecast(forecast)

    async def damage(self, broker: BrokerId, what: str, seed: str) -> int:
        """Damage a part of the state of a broker, as `broker.damage` does, and return how many entries were damaged."""
        return damage(self._seats[broker].broker, what, Random(seed))
