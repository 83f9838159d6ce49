"""The layer that answers, for a publisher or another layer, whether all events published here are delivered.

Rules
-----
* A marker follows the events to every broker. Messages to all brokers stay in order with events, so a broker
  that has the marker has all events ahead of it. A broker that passed the marker on answers when all brokers
  beyond have answered and its own clients have what was delivered before. An answer at the origin therefore
  says that every subscriber in the network that the events were for has them. Events for a disconnected
  durable subscriber are retained for it.
* A marker does not pass where an event could not have passed: over a link that is closed for its round, or
  through a broker that has no path to all others. Then no answer comes, and the origin asks again, at growing
  intervals. A question that is asked while the network is repaired therefore waits for the round that mends
  the losses.
* A broker that was dropped as dead is not waited for. Its subscribers get what they lack in the round after
  their return.
* Questions that arrive while a marker is in flight wait for the next marker, which answers them all.

Cost: one message per link and one answer each, regardless of the number of events.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...protocol.effects import Drain, Drained, Flushed, Received, Send, Ticked
from ...protocol.ids import FIRST_ROUND, BrokerId, ClientId
from ...protocol.layers import Delivered, Handler, Heard, Inward, IsDelivered, Out, Passed, Tell
from ...protocol.messages.pubsub import Flush
from ...protocol.messages.recovery import Recovery
from ...protocol.messages.rounds import Marker, MarkerDone
from ...protocol.snapshots import Restorable

LONGEST_SECONDS = 60.0


@dataclass(slots=True)
class _Wave:
    """A marker that passed this broker and is not answered yet."""

    marker: Marker
    source: BrokerId
    waiting: set[BrokerId]
    drain: int


class Flushing(Restorable):
    """Sends markers behind events, and answers the questions about them.

    Parameters
    ----------
    broker
        The broker that this layer belongs to.
    recovery
        How long an answer may take.
    """

    def __init__(self, broker: BrokerId, recovery: Recovery) -> None:
        self._me = broker
        self._recovery = recovery
        self._now = 0.0
        self._waves: dict[BrokerId, _Wave] = {}  # the last wave of each origin
        self._asked: list[Flushed | Delivered] = []  # the answers still to be given
        self._answering: list[Flushed | Delivered] = []
        self._wave_number = self._drain_number = 0
        self._again_at = 0.0
        self._wait = 0.0
        self.takes: Mapping[type, Handler] = {
            Flush: self._on_flush,
            MarkerDone: self._on_marker_done,
            Drained: self._on_drained,
        }
        self.sees: Mapping[type, Handler] = {Ticked: self._on_tick}
        self.alters: Mapping[type, Handler] = {
            Heard: self._on_heard,
            Passed: self._on_passed,
            IsDelivered: self._on_asked,
        }

    def _on_flush(self, event: Received[ClientId, Flush]) -> list[Out]:
        self._asked.append(Flushed(event.source, event.message.number))
        return [] if self._answering else self._ask_all()

    def _on_asked(self, news: IsDelivered) -> list[Out]:
        self._asked.append(Delivered(news.number))
        return [] if self._answering else self._ask_all()

    def _ask_all(self) -> list[Out]:
        """Send a marker for all questions asked so far."""
        if not self._asked:
            return []
        self._answering, self._asked = self._asked, []
        self._wait = self._recovery.answer_seconds
        return self._mark()

    def _mark(self) -> list[Out]:
        self._wave_number += 1
        self._again_at = self._now + self._wait
        self._wait = min(2 * self._wait, LONGEST_SECONDS)
        marker = Marker(self._me, self._wave_number, FIRST_ROUND, 0.0)
        return [Inward(Tell(self._me, marker, whole=True))]

    def _on_tick(self, event: Ticked) -> list[Out]:
        """Ask again if the last marker has not been answered in time."""
        self._now = event.now
        again = self._mark() if self._answering and event.now >= self._again_at else []
        return [*again, Inward(event)]

    def rests_until(self) -> float:
        """Return when the layer asks again; infinity if no question is open."""
        return self._again_at if self._answering else math.inf

    def _on_heard(self, news: Heard) -> list[Out]:
        if not isinstance(news.message, Marker):
            return [news]
        return [Inward(Tell(news.source, news.message, whole=True))]

    def _on_passed(self, news: Passed) -> list[Out]:
        if not isinstance(news.message, Marker):
            return []
        self._drain_number += 1
        origin = news.message.origin
        self._waves[origin] = _Wave(news.message, news.source, set(news.to), self._drain_number)
        return [Drain(self._drain_number)]

    def _on_marker_done(self, event: Received[BrokerId, MarkerDone]) -> list[Out]:
        message = event.message
        wave = self._waves.get(message.origin)
        if wave is None or wave.marker.number != message.number or event.source not in wave.waiting:
            return []
        wave.waiting.discard(event.source)
        return self._finish(wave)

    def _on_drained(self, event: Drained) -> list[Out]:
        wave = next((wave for wave in self._waves.values() if wave.drain == event.number), None)
        if wave is None:
            return []
        wave.drain = 0
        return self._finish(wave)

    def _finish(self, wave: _Wave) -> list[Out]:
        if wave.waiting or wave.drain:
            return []
        del self._waves[wave.marker.origin]
        if wave.source != self._me:
            return [Send(wave.source, MarkerDone(wave.marker.origin, wave.marker.number))]
        answers: list[Out] = [
            Inward(each) if isinstance(each, Delivered) else each for each in self._answering
        ]
        self._answering = []
        return answers + self._ask_all()

    def describe(self) -> Mapping[str, int]:
        """Return the number of open questions."""
        return {"flushes": len(self._asked) + len(self._answering)}

    def check(self) -> None:
        """Assert that every question is in progress; for tests."""
        assert self._answering or not self._asked
        assert all(wave.waiting or wave.drain for wave in self._waves.values())
