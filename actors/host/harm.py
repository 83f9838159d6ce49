"""The part of a host that does harm to it, for tests of what a network does about that.

Rule: what is done here is a fault of `rayvous chaos`; how often and when is drawn by `faults.chaos`, not here.
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
    """What can be done to the brokers of a host, and to their links.

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
        """Let links be cut, slow and bad, and brokers slow, as it says."""
        if self._driver.resting is not None:
            self._driver.resting.stop()
        self._transport.forecast(forecast)

    async def damage(self, broker: BrokerId, what: str, seed: str) -> int:
        """Damage a part of the state of a broker, as `broker.damage`, and return how much of it."""
        return damage(self._seats[broker].broker, what, Random(seed))
