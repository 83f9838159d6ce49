"""A broker that distributes by LBDD and heals: views, and events that are put into their order by numbers.

Rules
-----
* Events for different sets of brokers take different ways, and one may overtake another. The origin numbers them for
  each broker under each view; a receiver passes on what it gets at once, and notifies its own clients in order.
* So under each view a publisher's events come whole and in order, or, from a number on that was lost with a broker,
  not at all: then the next view begins with all that is kept.

Source: paper 5, section 3.4; docs/decisions/0018-schemes.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..protocol.configs import Position
from ..protocol.cube import ToAll
from ..protocol.ids import Link
from ..protocol.layers import Out
from ..protocol.messages import Directed
from ..routing.hold_back import HELD_MAX
from ..routing.lbdd_views import LbddInViews
from .healing_views import HealingViews


class HealingLbdd(HealingViews[LbddInViews]):
    """One broker of an LBDD network that heals; the parameters are those of :class:`HealingViews`."""

    def make_router(self, position: Position) -> LbddInViews:
        """Return LBDD's router."""
        return LbddInViews(position, HELD_MAX + self.recovery.retention_events_max)

    def _table(self) -> dict[type, Callable[[Link, Any], list[Out]]]:
        return super()._table() | {Directed: self._on_directed}

    def _on_directed(self, source: Link, message: Directed) -> list[Out]:
        if not self._is_due(source, message, message.round.number, takes_part=True):
            return []
        return [*self.router.pass_on(message), *self.taken_in(message)]

    def taken_in(self, told: Directed | ToAll) -> list[Out]:
        """Return what is to be done about what has come, and about all that has waited for it."""
        out: list[Out] = []
        for each in self.router.in_order(told):
            if isinstance(each, ToAll):
                out += super().taken_in(each)
            else:
                out += self.brought(self.router.deliver(each.batch), each)
        self._wants_round = self._wants_round or self.router.lacking
        return out
