"""The side of a healing broker that answers a publisher's question whether all that it published is delivered.

Rules
-----
* A marker goes behind the events, to every broker of the tree: links are in order, so whoever has the marker has all
  that was ahead of it. Who passed it on answers when all beyond have answered and its own clients have what was
  delivered before. So an answer at the origin says that every subscriber in the tree that the events were for has
  them; those of a durable subscriber that is away are kept for it.
* Where an event could not have passed, a marker does not: over a link that is closed for its round, by a broker without
  a way to the root. No answer comes then, and the origin asks again, later and later. So a question that is asked while
  the tree is mended waits for the round that makes good what was missed.
* Who is dropped as dead is not waited for: its subscribers get what they lack in the round after they are back.
* Questions that come while one is on its way wait for the next: one marker answers them all.

Cost: one message a link and one answer each, however much was published.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..protocol.configs import Position
from ..protocol.effects import Drain, Drained, Effect, Flushed, Multicast, Send
from ..protocol.ids import BrokerId, ClientId, Link
from ..protocol.messages import Flush
from ..protocol.recovery import Recovery
from ..protocol.rounds import Marker, MarkerDone
from .healing_operations import OperationsSide

LONGEST_SECONDS = 60.0


@dataclass(slots=True)
class _Wave:
    """A marker that passed here and is not answered yet."""

    marker: Marker
    source: Link
    waiting: set[BrokerId]
    drain: int


class FlushSide(OperationsSide):
    """Markers behind events."""

    def __init__(self, position: Position, recovery: Recovery, incarnation: int, seed: int) -> None:
        super().__init__(position, recovery, incarnation, seed)
        self._waves: dict[BrokerId, _Wave] = {}  # the last one of each origin
        self._asked: list[tuple[ClientId, int]] = []
        self._answering: list[tuple[ClientId, int]] = []
        self._wave_number = self._drain_number = 0
        self._again_at = 0.0
        self._patience = 0.0

    def _on_flush(self, source: Link, message: Flush) -> list[Effect]:
        assert isinstance(source, str)
        self._asked.append((source, message.number))
        return [] if self._answering else self._ask_all()

    def _ask_all(self) -> list[Effect]:
        """Send a marker for all questions that were asked so far."""
        if not self._asked:
            return []
        self._answering, self._asked = self._asked, []
        self._patience = self.recovery.answer_seconds
        return self._mark()

    def _mark(self) -> list[Effect]:
        self._wave_number += 1
        self._again_at = self.now + self._patience
        self._patience = min(2 * self._patience, LONGEST_SECONDS)
        me = self.home.broker
        return self._pass_on(
            me, Marker(me, self._wave_number, self.rounds.current, self.rounds.doubt_seconds)
        )

    def _mark_again(self) -> list[Effect]:
        """Ask again when the last marker has not been answered in time."""
        if not self._answering or self.now < self._again_at:
            return []
        return self._mark()

    def _on_marker(self, source: Link, marker: Marker) -> list[Effect]:
        if not self._is_on_tree(source, marker.ballot):
            return []
        return self._begin(marker.round, marker.doubt_seconds) + self._pass_on(source, marker)

    def _pass_on(self, source: Link, marker: Marker) -> list[Effect]:
        if not self._in_order(marker):
            return []
        waiting: set[BrokerId] = set()
        effects: list[Effect] = []
        over_group = self._is_fellow(source)
        if not over_group and len(self.view.members) > 1:
            waiting.update(self.view.members)
            effects.append(Multicast(replace(marker, ballot=self.view.ballot)))
        if self.designated:
            beyond = self._beyond(source)
            waiting.update(beyond)
            effects += [Send(broker, marker) for broker in beyond]
        waiting.discard(self.home.broker)
        self._drain_number += 1
        self._waves[marker.origin] = _Wave(marker, source, waiting, self._drain_number)
        return [*effects, Drain(self._drain_number)]

    def _in_order(self, marker: Marker) -> bool:
        """Return whether all events of the marker's round that are ahead of it could pass here."""
        if self.designated:
            if not self.root and (not self.router.attached or not self.path):
                return False
        elif self.home.broker not in self.view.members or self.view.designated == self.home.broker:
            return False
        return self.rounds.all_pass(marker.round)

    def _on_marker_done(self, source: Link, message: MarkerDone) -> list[Effect]:
        wave = self._waves.get(message.origin)
        if wave is None or wave.marker.number != message.number or source not in wave.waiting:
            return []
        wave.waiting.discard(source)
        return self._finish(wave)

    def _on_drained(self, message: Drained) -> list[Effect]:
        wave = next((wave for wave in self._waves.values() if wave.drain == message.number), None)
        if wave is None:
            return []
        wave.drain = 0
        return self._finish(wave)

    def _finish(self, wave: _Wave) -> list[Effect]:
        if wave.waiting or wave.drain:
            return []
        del self._waves[wave.marker.origin]
        if wave.source != self.home.broker:
            return [Send(wave.source, MarkerDone(wave.marker.origin, wave.marker.number))]  # type: ignore[arg-type]
        answers: list[Effect] = [Flushed(client, number) for client, number in self._answering]
        self._answering = []
        return answers + self._ask_all()
