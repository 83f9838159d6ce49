"""A broker that heals, and whose router quenches or merges; what it tells those below follows each change.

Source: docs/decisions/0018-schemes.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..protocol.configs import Position
from ..protocol.ids import BrokerId, Link
from ..protocol.layers import Out
from ..protocol.quench import Above, AboveDone
from ..routing.moving_quench import MovingMerged, MovingQuenched, MovingQuenchedMerged
from .healing import HealingBroker


class HealingMerged(HealingBroker):
    """With perfect merging."""

    def _make_router(self, position: Position) -> MovingMerged:
        return MovingMerged(position)


class HealingQuenched(HealingBroker):
    """With quenching."""

    router: MovingQuenched

    def _make_router(self, position: Position) -> MovingQuenched:
        return MovingQuenched(position)

    def _table(self) -> dict[type, Callable[[Link, Any], list[Out]]]:
        return super()._table() | {Above: self._on_above, AboveDone: self._on_above_done}

    def _on_above(self, source: Link, message: Above) -> list[Out]:
        if self.designated and self.parent is not None and source == self.parent.designated:
            self.router.learn_above(message)
        return []

    def _on_above_done(self, source: Link, message: AboveDone) -> list[Out]:
        if isinstance(source, int):
            self.router.answered(source, message.number)
        return []

    def _meet_child(self, child: BrokerId) -> None:
        self.router.meet_child(child)

    def _tell_below(self) -> list[Out]:
        return self._counted(self.router.tell_below())


class HealingQuenchedMerged(HealingQuenched):
    """With both."""

    def _make_router(self, position: Position) -> MovingQuenched:
        return MovingQuenchedMerged(position)
