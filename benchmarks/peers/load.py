"""The load: alerts on a symbol and a price, spread over clients; a stream of trades; and the expected notifications.

Rules
-----
* There are half as many symbols as alerts, and price floors are uniform: so a trade matches one alert on
  average, however many alerts there are. The two alerts of a symbol belong to different clients.
* Prices are whole cents: integers decide here whether an alert matches a trade, whatever number type a server
  uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...protocol.errors import InputError

CENTS: Final = 10_000
BLOCK_EVENTS: Final = 1 << 12

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Alert:
    """Matches trades of a symbol above a floor, in cents."""

    symbol: str
    floor: int


class Load:
    """Alerts and trades.

    Parameters
    ----------
    alerts
        The number of alerts, at least 4.
    clients
        The number of clients over which they are spread, at least 2; reduced to the number of alerts if
        larger.
    seed
        The seed of floors and trades.
    """

    def __init__(self, alerts: int, clients: int, seed: int = 0) -> None:
        if alerts < 4 or clients < 2:
            raise InputError("there must be at least 4 alerts and 2 clients")
        self.alerts, self.clients = alerts, min(clients, alerts)
        self.symbols = (alerts + 1) // 2
        self._seed = seed
        self._floors = np.random.default_rng((seed, 0)).integers(0, CENTS - 1, alerts)
        self._client_of = np.arange(alerts) * self.clients // alerts

    def alerts_of(self, client: int) -> list[Alert]:
        """Return the alerts of a client."""
        return [
            Alert(f"S{number % self.symbols}", int(self._floors[number]))
            for number in np.flatnonzero(self._client_of == client)
        ]

    def trades(self, block: int) -> tuple[Ints, Ints]:
        """Return symbols and prices of the trades of a block."""
        random = np.random.default_rng((self._seed, 1, block))
        return random.integers(0, self.symbols, BLOCK_EVENTS), random.integers(0, CENTS, BLOCK_EVENTS)

    def symbols_wanted(self, symbols: Ints) -> Ints:
        """Return the number of alerts on the symbol of each trade."""
        return 1 + (symbols + self.symbols < self.alerts)

    def wanted(self, symbols: Ints, prices: Ints) -> tuple[Ints, Ints]:
        """Return trade and client of each expected notification, by trade."""
        trades, clients = [], []
        for alert in (symbols, symbols + self.symbols):
            there = np.flatnonzero(alert < self.alerts)
            got = there[prices[there] > self._floors[alert[there]]]
            trades.append(got)
            clients.append(self._client_of[alert[got]])
        together = np.concatenate(trades)
        order = np.argsort(together, kind="stable")
        return together[order], np.concatenate(clients)[order]
