"""The layer that knows how long its broker stood still, and lets what waited for it meanwhile grow older.

Rules
-----
* A message says how long ago something was, as no two clocks are compared. While it waits for a broker that stands
  still that becomes longer, and nobody adds to it. So what a broker takes in soon after it has stood still may have
  waited as long: in doubt it has.
* A failure that is noticed then may be as old, too: the next round mends as far back.
* Who subscribed longer ago than is thought would get events of that time for old and not be given them; who has heard
  nothing for longer than is thought would not be told what it has lost.

Source: promise 2; docs/decisions/0026-trees-of-single-brokers.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ...protocol.effects import Received, Rested, Ticked
from ...protocol.ids import ClientId
from ...protocol.layers import Handler, Inward, Out
from ...protocol.messages.pubsub import Resume
from ...protocol.messages.recovery import Recovery
from ...protocol.snapshots import Restorable
from .rounds import Rounds


class Ages(Restorable):
    """How long what comes to one broker may have waited for it.

    Parameters
    ----------
    recovery
        Its heartbeat, which tells standing still from being told the time now and then; and `suspect_after_seconds`,
        within which all has been taken in that has waited.
    rounds
        They are told how long it stood still.
    """

    SHARED = frozenset({"_rounds"})

    takes: Mapping[type, Handler] = {}
    alters: Mapping[type, Handler] = {}

    def __init__(self, recovery: Recovery, rounds: Rounds) -> None:
        self._recovery = recovery
        self._rounds = rounds
        self._now = float("inf")  # before it is first told the time it has not stood still
        self._stood_still = (float("-inf"), 0.0)  # until when, and how long
        self.sees: Mapping[type, Handler] = {
            Ticked: self._on_tick,
            Rested: self._on_rested,
            Resume: self._on_resume,
        }

    def _on_tick(self, event: Ticked) -> list[Out]:
        before, self._now = self._now, event.now
        if event.now - before > self._recovery.heartbeat_seconds:
            seconds = event.now - before + self._waited(before)
            self._stood_still = event.now, seconds
            self._rounds.stood_still(seconds, event.now, self._recovery.doubt_seconds)
        return [Inward(event)]

    def _on_rested(self, event: Rested) -> list[Out]:
        self._now = event.now
        return [Inward(event)]

    def rests_until(self) -> float:
        """Return that it waits for no moment."""
        return math.inf

    def _waited(self, now: float) -> float:
        """Return how long what is taken in then may have waited, at most."""
        until, seconds = self._stood_still
        return seconds if now - until <= self._recovery.suspect_after_seconds else 0.0

    def _on_resume(self, event: Received[ClientId, Resume]) -> list[Out]:
        message = event.message
        waited = self._waited(self._now)
        if not waited:
            return [Inward(event)]
        older = replace(
            message,
            since_seconds=message.since_seconds + waited,
            away_seconds=message.away_seconds + waited,
            ages_seconds={number: age + waited for number, age in message.ages_seconds.items()},
        )
        return [Inward(Received(event.source, older))]

    def describe(self) -> Mapping[str, int]:
        """Return nothing: it keeps two moments."""
        return {}

    def check(self) -> None:
        """Assert that time does not go back; for tests."""
        assert self._stood_still[0] <= self._now
