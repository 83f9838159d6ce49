"""A broker of a hypercube that heals: views, and subscribers that move to the broker which they mostly hear.

Rules
-----
* The events of a publisher come over one way, so whole and in order.
* Now and then the broker looks which subscriber had better be elsewhere (`routing.affinity`), and proposes it to move.

Source: paper 2, section 2.4; docs/decisions/0017-hypercube.md.
"""

from __future__ import annotations

from typing import Final

from ..faults.identity import Identity
from ..faults.rounds import Rounds
from ..protocol.configs import Position
from ..protocol.effects import Deliver, Effect, Propose, Ticked
from ..protocol.ids import Link
from ..protocol.layers import Out
from ..protocol.messages import Detach, Events
from ..protocol.recovery import Recovery
from ..routing.affinity import Affinity
from ..routing.hypercube import Hypercube
from .healing_views import HealingViews

REVIEW_HEARTBEATS: Final = 10
"""How often a broker looks which subscriber had better move."""


class HealingCube(HealingViews[Hypercube]):
    """One broker of a hypercube that heals; the parameters are those of :class:`HealingViews`."""

    def __init__(
        self,
        position: Position,
        recovery: Recovery,
        incarnation: int,
        seed: int,
        rounds: Rounds,
        identity: Identity,
    ) -> None:
        self.affinity = Affinity()
        self._review_at = REVIEW_HEARTBEATS * recovery.heartbeat_seconds
        super().__init__(position, recovery, incarnation, seed, rounds, identity)

    def make_router(self, position: Position) -> Hypercube:
        """Return a hypercube's router."""
        return Hypercube(position)

    def _on_tick(self, event: Ticked) -> list[Out]:
        effects = super()._on_tick(event)
        if event.now >= self._review_at:
            self._review_at = event.now + REVIEW_HEARTBEATS * self.recovery.heartbeat_seconds
            effects += self._review()
        return effects

    def _review(self) -> list[Out]:
        chosen = self.affinity.review(self._me)
        if chosen is None or self.router.view is None or chosen[1] not in self.router.view.born:
            return []
        return [Propose(*chosen)]

    def _on_detach(self, source: Link, message: Detach) -> list[Out]:
        assert isinstance(source, str)
        self.affinity.forget(source)
        return super()._on_detach(source, message)

    def brought(self, effects: list[Effect], message: Events) -> list[Out]:
        """Say of each delivery what has brought it, and note where that came from."""
        if not message.again and message.entry is not None:
            for delivery in effects:
                if isinstance(delivery, Deliver):
                    self._note(delivery, message.entry)
        return super().brought(effects, message)

    def _note(self, delivery: Deliver, entry: int) -> None:
        for place, client in enumerate(delivery.clients):
            count = delivery.starts[place + 1] - delivery.starts[place]
            self.affinity.note(client, entry, int(count))
