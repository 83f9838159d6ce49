"""The part of a host that injects faults into it, for tests of how a network reacts.

Rule: a fault here is one of `rayvous chaos`; `faults.chaos` draws how often and when, not this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from ...protocol.ids import BrokerId
from ..broker.damage import damage
from ..chaos.link_faults import Forecast
from .driver import Driver
from .hosted_broker import HostedBroker
from .transport import Transport


class Harm:
    """Faults of the brokers of a host, and of their links.

    Parameters
    ----------
    seats, transport, driver
        Of the host.
    """

    def __init__(self, seats: Mapping[BrokerId, HostedBroker], transport: Transport, driver: Driver) -> None:
        self._seats = seats
        self._transport = transport
        self._driver = driver

    async def link_faults(self, forecast: Forecast) -> None:
        """Cut, slow and disturb links, and slow brokers, as specified."""
        if self._driver.resting is not None:
            self._driver.resting.stop()
        self._transport.forecast(forecast)

    async def damage(self, broker: BrokerId, what: str, seed: str) -> int:
        """Damage a part of the state of a broker (`broker.damage`), and return how much of it."""
        return damage(self._seats[broker].broker, what, Random(seed))
