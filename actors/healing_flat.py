"""A broker that heals, where every broker is a node of the tree by itself and routing is not that of clusters."""

from __future__ import annotations

from ..protocol.configs import Position
from ..routing.moving_flooding import MovingFlooding
from ..routing.moving_quench import MovingMatchFirst
from .healing import HealingBroker
from .healing_quench import HealingQuenched


class HealingFlooding(HealingBroker):
    """With events that go everywhere."""

    def _make_router(self, position: Position) -> MovingFlooding:
        return MovingFlooding(position)


class HealingMatchFirst(HealingQuenched):
    """With subscriptions that go everywhere."""

    def _make_router(self, position: Position) -> MovingMatchFirst:
        return MovingMatchFirst(position)
