"""Hybrid routing whose clusters share out the work instead of multicasting: LBDD inside each cluster (paper 5).

Rules, beside those of hybrid routing
-------------------------------------
* Where hybrid routing multicasts events, the one that does is the origin of an LBDD plan over the other members
  (`lbdd_plan`): each gets one copy, and passes it on to whom the plan says before it looks at it.
* The same members get the same events as by multicast, so nothing else changes: what came from a fellow goes to none
  but by the plan. One origin has one plan, so its events come in order.
* Announcements are multicast as before.

For clusters whose network has no multicast: there, one that multicasts sends all n copies itself.
"""

from __future__ import annotations

from dataclasses import replace

from ..protocol.configs import Position
from ..protocol.effects import Effect, Multicast, Send
from ..protocol.ids import BrokerId, Link
from ..protocol.messages import Events
from .dissemination import plan_of
from .hybrid import Hybrid


class FannedHybrid(Hybrid):
    """A broker of a tree of clusters that hands events from member to member."""

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self._members = tuple(sorted(position.members))

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        effects: list[Effect] = []
        if source in self._fellows and message.entry is not None:
            effects += self._fan_out(message.entry, message)
        for effect in super()._on_events(source, replace(message, entry=None)):
            if isinstance(effect, Multicast) and isinstance(effect.message, Events):
                effects += self._fan_out(self.position.broker, effect.message)
            else:
                effects.append(effect)
        return effects

    def _fan_out(self, origin: BrokerId, message: Events) -> list[Effect]:
        """Return the copies that this broker sends of what a member hands to all others."""
        others = tuple(member for member in self._members if member != origin)
        part = replace(message, entry=origin)
        return [Send(child, part) for child in plan_of(origin, others).children[self.position.broker]]
