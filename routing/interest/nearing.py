"""The layer that proposes to subscribers to move to the broker of their main publishers (paper 2, section 2.4).

Rules
-----
* It counts the events that subscribers here receive, by the broker at which they were published. Retransmitted events
  are not counted.
* Periodically it picks a subscriber that would be better placed elsewhere (`routing.interest.affinity`), and proposes
  the move.

Source: paper 2, section 2.4; docs/decisions/0017-hypercube.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...protocol.effects import Deliver, Propose, Received, Ticked
from ...protocol.ids import BrokerId, ClientId
from ...protocol.layers import Handler, Inward, Out
from ...protocol.messages.pubsub import Detach
from ...protocol.messages.recovery import Recovery
from ...protocol.snapshots import Restorable
from .affinity import Affinity

REVIEW_HEARTBEATS: Final = 10
"""How often a broker looks for a subscriber that would be better placed elsewhere."""


class Nearing(Restorable):
    """Counts of events by publishing broker, for the subscribers of one broker.

    Parameters
    ----------
    broker
        The broker of the subscribers.
    recovery
        Its heartbeat.
    """

    takes: Mapping[type, Handler] = {}

    def __init__(self, broker: BrokerId, recovery: Recovery) -> None:
        self.affinity = Affinity()
        self._me = broker
        self._seconds = REVIEW_HEARTBEATS * recovery.heartbeat_seconds
        self._review_at = self._seconds
        self.sees: Mapping[type, Handler] = {Detach: self._on_detach, Ticked: self._on_tick}
        self.alters: Mapping[type, Handler] = {Deliver: self._on_deliver}

    def _on_tick(self, event: Ticked) -> list[Out]:
        out: list[Out] = [Inward(event)]
        if event.now >= self._review_at:
            self._review_at = event.now + self._seconds
            chosen = self.affinity.review(self._me)
            out += [] if chosen is None else [Propose(*chosen)]
        return out

    def _on_detach(self, event: Received[ClientId, Detach]) -> list[Out]:
        self.affinity.forget(event.source)
        return [Inward(event)]

    def _on_deliver(self, deliver: Deliver) -> list[Out]:
        events = deliver.brought_by
        if events is not None and events.entry is not None and not events.retransmitted:
            for place, client in enumerate(deliver.clients):
                count = deliver.starts[place + 1] - deliver.starts[place]
                self.affinity.note(client, events.entry, int(count))
        return [deliver]

    def describe(self) -> Mapping[str, int]:
        """Return nothing: the counts are reset with each review."""
        return {}

    def check(self) -> None:
        """Assert nothing."""
