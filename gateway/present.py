"""What one principal has at a gateway: how much it may, how much of that it uses."""

from __future__ import annotations

import asyncio

from ..admission.bucket import TokenBucket
from ..protocol.errors import LimitReached
from ..protocol.gateways import Principal
from .access import Rights
from .lanes import Lane


class Present:
    """One principal at one gateway.

    Parameters
    ----------
    rights
        What it may.
    gateways
        How many gateways share its limits; 1 where each has all of them.
    now
        The time.

    Attributes
    ----------
    limits
        How much it may here.
    sessions, streams, durables
        What it uses.
    lane
        Its publisher, once it has published.
    turn, attaching
        One durable name is opened at a time; one publisher is made.
    """

    def __init__(self, rights: Rights, gateways: int, now: float) -> None:
        self.rights = rights
        self.limits = rights.principal.shared(gateways)
        self._bucket = TokenBucket.full(self.limits.events_per_second, now, _burst(self.limits))
        self.sessions = 0
        self.streams = 0
        self.durables: set[str] = set()
        self.lane: Lane | None = None
        self.turn = asyncio.Lock()
        self.attaching = asyncio.Lock()

    def share(self, gateways: int, now: float) -> None:
        """Allow the share of one of so many gateways from now on; what is open stays open."""
        self.limits = self.rights.principal.shared(gateways)
        rate = self.limits.events_per_second
        self._bucket = self._bucket.at_rate(rate, _burst(self.limits) or max(1.0, rate), now)

    def pay(self, events: int, most_seconds: float, now: float) -> float:
        """Take in that so many events are published; return how many seconds they have to wait.

        Raises
        ------
        LimitReached
            If that is longer than they are made to wait; then nothing is taken in.
        """
        wait = self._bucket.wait_seconds(events, now)
        if wait > most_seconds:
            rate = self.limits.events_per_second
            raise LimitReached(
                f"{self.rights.name!r} publishes more than {rate:g} events a second: "
                f"come again in {wait:.1f} s (events_per_second)",
                "events_per_second",
                wait,
            )
        self._bucket = self._bucket.pay(events, now)
        return wait


def _burst(limits: Principal) -> float | None:
    return None if limits.burst_events is None else float(limits.burst_events)
