"""How long events wait at one broker: what was measured, and what new load may add to it.

Rules
-----
* Measured is the longest wait of the last seconds (`meters.DelayMeter`). It is evidence, and no bound: if waits are
  alike (exchangeable), the next one is longer than the longest of n with probability 1 / (n + 1).
* What was admitted less than a window ago has not been measured yet. Publishers may send a second's events at once
  (`bucket`), so a load of r events a second may add r / capacity seconds, and counts as if it did.
* The host tells what it has measured before each message of admission control. What has changed since then came with
  the message before.

Source: paper 3, section 6 (further work: admission by delay). Rate-based or delay-based, and by parameters or by
measurement, are the two ways in which it divides admission control (section 1).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from ..protocol.ids import BrokerLink
from ..protocol.messages.admission import DelaysMeasured
from .advertisements import LOCAL
from .flows import Account

BURST_SECONDS: Final = 1.0
"""How many seconds' events of an advertisement may come at once."""
_STEPS: Final = 10
_CPU: Final[Account] = "cpu", None


class Delays:
    """The waits of events at one broker.

    Parameters
    ----------
    window_seconds
        Over which time waits are measured.
    """

    def __init__(self, window_seconds: float) -> None:
        self._window = window_seconds
        self._measured = DelaysMeasured(-math.inf, 0.0)
        # Since when there have been which loads; the first entry is in force where the window begins.
        self._loads: deque[tuple[float, Mapping[Account, int]]] = deque([(-math.inf, {})])

    def tell(self, measured: DelaysMeasured, loads: Mapping[Account, int]) -> None:
        """Record what the host has measured, and the loads that have been reserved since it last told."""
        since, known = self._loads[-1]
        if loads != known:
            if self._measured.at < since + self._window / _STEPS:
                self._loads.pop()
            self._loads.append((self._measured.at, dict(loads)))
        self._measured = measured
        while len(self._loads) > 1 and self._loads[1][0] <= measured.at - self._window:
            self._loads.popleft()

    def expected(
        self, link: BrokerLink, loads: Mapping[Account, float], limits: Mapping[Account, float]
    ) -> float:
        """Return how long events may be expected to wait that leave over a link, in seconds.

        Parameters
        ----------
        link
            The link; `LOCAL` for those for clients.
        loads, limits
            The loads from now on, and the capacities.
        """
        accounts = {_CPU: self._measured.here}
        if link != LOCAL:
            accounts["bandwidth", link] = self._measured.links.get(link, 0.0)
        before = self._loads[0][1]
        grown = {account: max(0.0, loads.get(account, 0) - before.get(account, 0)) for account in accounts}
        return sum(
            wait + (grown[account] / limits[account] * BURST_SECONDS if grown[account] else 0.0)
            for account, wait in accounts.items()
        )

    def check(self) -> None:
        """Assert that the loads are in the order of time, and few; for tests."""
        assert all(one <= other for (one, _), (other, _) in pairwise(self._loads))
        assert len(self._loads) <= _STEPS + 3
