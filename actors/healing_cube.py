"""A broker of a hypercube that heals: views, and subscribers that move to the broker which they mostly hear.

Rules
-----
* The events of a publisher come over one way, so whole and in order.
* Now and then the broker looks which subscriber had better be elsewhere (`routing.affinity`), and proposes it to move.

Source: paper 2, section 2.4; docs/decisions/0017-hypercube.md.
"""

from __future__ import annotations

from typing import Final

from ..protocol.configs import Position
from ..protocol.effects import Deliver, Effect, Propose
from ..protocol.ids import Link
from ..protocol.messages import Detach, Events
from ..protocol.recovery import Recovery
from ..routing.affinity import Affinity
from ..routing.hypercube import Hypercube
from .healing_views import HealingViews

REVIEW_HEARTBEATS: Final = 10
"""How often a broker looks which subscriber had better move."""


class HealingCube(HealingViews[Hypercube]):
    """One broker of a hypercube that heals; the parameters are those of :class:`HealingViews`."""

    def __init__(self, position: Position, recovery: Recovery, incarnation: int = 0, seed: int = 0) -> None:
        self.affinity = Affinity()
        self._review_at = REVIEW_HEARTBEATS * recovery.heartbeat_seconds
        super().__init__(position, recovery, incarnation, seed)

    def make_router(self, position: Position) -> Hypercube:
        """Return a hypercube's router."""
        return Hypercube(position)

    def _on_tick(self, now: float) -> list[Effect]:
        effects = super()._on_tick(now)
        if now >= self._review_at:
            self._review_at = now + REVIEW_HEARTBEATS * self.recovery.heartbeat_seconds
            effects += self._review()
        return effects

    def _review(self) -> list[Effect]:
        chosen = self.affinity.review(self._me)
        if chosen is None or self.router.view is None or chosen[1] not in self.router.view.born:
            return []
        return [Propose(*chosen)]

    def _on_detach(self, source: Link, message: Detach) -> list[Effect]:
        assert isinstance(source, str)
        self.affinity.forget(source)
        return super()._on_detach(source, message)

    def _gated(self, effects: list[Effect], events: Events) -> list[Effect]:
        passed = super()._gated(effects, events)
        if not events.again and events.entry is not None:
            for delivery in passed:
                if isinstance(delivery, Deliver):
                    self._note(delivery, events.entry)
        return passed

    def _note(self, delivery: Deliver, entry: int) -> None:
        for place, client in enumerate(delivery.clients):
            count = delivery.starts[place + 1] - delivery.starts[place]
            self.affinity.note(client, entry, int(count))
