"""The state of one principal at a gateway: its limits, and its usage."""

from __future__ import annotations

import asyncio
from typing import Final

from ..admission.bucket import TokenBucket
from ..protocol import checks
from ..protocol.errors import AccessDenied, InputError, LimitReached
from ..protocol.gateways import ANONYMOUS, Principal
from .access import Rights
from .publisher_queue import PublisherQueue

DURABLE_CHARACTERS_MAX: Final = 128


class Present:
    """One principal at one gateway.

    Parameters
    ----------
    rights
        Its rights.
    gateways
        The number of gateways that share its limits; 1 if each gateway grants the full limits.
    now
        The time.

    Attributes
    ----------
    limits
        Its limits at this gateway.
    sessions, streams, durables
        Its usage.
    queue
        Its publisher, from the moment creation starts.
    turn
        Serializes opening and ending of durable names.
    """

    def __init__(self, rights: Rights, gateways: int, now: float) -> None:
        self.rights = rights
        self.limits = rights.principal.shared(gateways)
        self._bucket = TokenBucket.full(self.limits.events_per_second, now, _burst(self.limits))
        self.sessions = 0
        self.streams = 0
        self.durables: set[str] = set()
        self.queue: asyncio.Future[PublisherQueue] | None = None
        self.turn = asyncio.Lock()

    @property
    def ready_queue(self) -> PublisherQueue | None:
        """Its publisher, if that is attached."""
        queue = self.queue
        return queue.result() if queue is not None and queue.done() and queue.exception() is None else None

    def share(self, gateways: int, now: float) -> None:
        """Set the number of gateways that share the limits, and apply one gateway's share; open streams stay open."""
        self.limits = self.rights.principal.shared(gateways)
        rate = self.limits.events_per_second
        self._bucket = self._bucket.at_rate(rate, _burst(self.limits) or max(1.0, rate), now)

    def check_durable(self, durable: str | None, *, heals: bool) -> None:
        """Check that this may be a durable name of the principal, in a network that heals or not; None is no name.

        Raises
        ------
        AccessDenied
            If the principal is anonymous.
        InputError
            If the name is invalid, or the network has no durable names.
        """
        if durable is None:
            return
        if self.rights.name == ANONYMOUS:
            raise AccessDenied("a durable name belongs to a principal: send a token", "subscribe")
        if not heals:
            raise InputError("there are no durable names: this network does not heal")
        checks.text("durable", durable)
        if len(durable) > DURABLE_CHARACTERS_MAX or not durable.isprintable():
            raise checks.wrong("durable", durable, f"1 to {DURABLE_CHARACTERS_MAX} printable characters")

    def check_room(self, durable: str) -> None:
        """Check, holding `turn`, that one more durable name may be opened; LimitReached if not."""
        most = self.limits.durables_max
        if durable not in self.durables and len(self.durables) >= most:
            raise LimitReached(
                f"{self.rights.name!r} uses {most} durable names, which is its limit (durables_max)",
                "durables_max",
            )

    def pay(self, events: int, most_seconds: float, now: float) -> float:
        """Charge the rate limit for events to publish; return how many seconds they have to wait.

        Raises
        ------
        LimitReached
            If the wait exceeds `most_seconds`; then nothing is charged.
        """
        wait = self._bucket.wait_seconds(events, now)
        if wait > most_seconds:
            rate = self.limits.events_per_second
            raise LimitReached(
                f"{self.rights.name!r} publishes more than {rate:g} events per second: "
                f"retry in {wait:.1f} s (events_per_second)",
                "events_per_second",
                wait,
            )
        self._bucket = self._bucket.pay(events, now)
        return wait


def _burst(limits: Principal) -> float | None:
    return None if limits.burst_events is None else float(limits.burst_events)
