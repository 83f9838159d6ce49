"""The layer that says what its broker's clock reads, and adds to the ages of messages the time in which they waited.

Rules
-----
* Messages carry ages, because no two clocks are compared. While a message waits for a stalled broker its age
  grows, and nobody adds to it. A message that a broker processes soon after a stall may have waited as long
  as the stall: in doubt, it has. So it is while the host of the broker does not get to what has arrived.
* A failure that is noticed then may be as old, so the next round mends as far back.
* A subscriber that moves here has asked what the clock reads (`ReadClock`), and states its ages after that. They count
  back from the reading, however long they were under way, so nothing is added to them.
* If a subscription were older than its stated age, events of that time would be taken for older ones and not
  delivered. If a subscriber were disconnected for longer than its stated time, it would not be told what it
  has lost.

Source: promise 2; docs/decisions/0026-trees-of-single-brokers.md and 0218-a-moving-subscriber-reads-the-clock.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ...protocol.effects import Inform, Received, Rested, Send, Ticked
from ...protocol.ids import ClientId, Link
from ...protocol.layers import Handler, Inward, Out
from ...protocol.messages.pubsub import ClockReads, ReadClock, Resume
from ...protocol.messages.recovery import Recovery
from ...protocol.snapshots import Restorable
from .rounds import Rounds


class Ages(Restorable):
    """Estimates how long a received message may have waited while the broker was stalled.

    Parameters
    ----------
    recovery
        The heartbeat, which tells a stall from an infrequent tick; and `suspect_after_seconds`, within which
        all messages that waited have been processed.
    rounds
        They are told how long the broker was stalled.
    """

    SHARED = frozenset({"_rounds"})

    alters: Mapping[type, Handler] = {}

    def __init__(self, recovery: Recovery, rounds: Rounds) -> None:
        self._recovery = recovery
        self._rounds = rounds
        self._now = float("inf")  # before its first tick the broker was not stalled
        self._stalled = 0.0  # how long its host had been behind at the last tick
        self._stood_still = (float("-inf"), 0.0)  # the end and the length of the last stall
        self.takes: Mapping[type, Handler] = {ReadClock: self._on_read_clock}
        self.sees: Mapping[type, Handler] = {
            Ticked: self._on_tick,
            Rested: self._on_rested,
            Resume: self._on_resume,
        }

    def _on_tick(self, event: Ticked) -> list[Out]:
        before, self._now = self._now, event.now
        stood = event.now - before
        if stood <= self._recovery.heartbeat_seconds:
            stood = min(stood, event.stalled - self._stalled)
        self._stalled = event.stalled
        if stood > 0:
            seconds = stood + self._waited(before)
            self._stood_still = event.now, seconds
            self._rounds.stood_still(seconds, event.now, self._recovery.unnoticed_seconds)
        return [Inward(event)]

    def _on_rested(self, event: Rested) -> list[Out]:
        self._now = event.now
        return [Inward(event)]

    def rests_until(self) -> float:
        """Return infinity: this layer needs no timer."""
        return math.inf

    def _waited(self, now: float) -> float:
        """Return the longest time that a message processed at `now` may have waited."""
        until, seconds = self._stood_still
        return seconds if now - until <= self._recovery.suspect_after_seconds else 0.0

    def _on_read_clock(self, event: Received[Link, ReadClock]) -> list[Out]:
        source, reads = event.source, ClockReads(self._now)
        return [Inform(source, reads) if isinstance(source, str) else Send(source, reads)]

    def _on_resume(self, event: Received[ClientId, Resume]) -> list[Out]:
        message = event.message
        waited = self._waited(self._now)
        if not waited:
            return [Inward(event)]
        older = replace(message, away_seconds=message.away_seconds + waited)
        if message.stated_at(self._now, waited) != message.clock:
            older = replace(
                older,
                since_seconds=message.since_seconds + waited,
                ages_seconds={number: age + waited for number, age in message.ages_seconds.items()},
            )
        return [Inward(Received(event.source, older))]

    def describe(self) -> Mapping[str, int]:
        """Return nothing: the layer has no sizes to report."""
        return {}

    def check(self) -> None:
        """Assert that time does not go back; for tests."""
        assert self._stood_still[0] <= self._now
