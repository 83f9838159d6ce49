"""Flooding for a broker whose place changes: what comes goes to all other neighbours, wherever they are just now.

Rules, beside those of flooding
-------------------------------
* Nobody is told what is wanted, so there is nothing to tell a new parent, and every subscription counts at once.
* Without a way to the root an event goes to those below only; the round after the next way is there sends it again.
"""

from __future__ import annotations

from typing import Any

from ...protocol.effects import Confirm, Deliver, Effect, Send
from ...protocol.ids import Link
from ...protocol.messages.pubsub import Events
from .moving import MovingHybrid


class MovingFlooding(MovingHybrid):
    """A broker of a tree on which events go everywhere, wherever it stands just now."""

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        effects: list[Effect] = [Send(child, message) for child in self.position.children if child != source]
        if self.climbs_from(source):
            climb = self.to_parent(message)
            if climb is not None:
                effects.append(climb)
        routes = self.table.route(message.batch)
        if routes.clients:
            effects.append(Deliver(message.batch, routes.clients, routes.starts, routes.rows))
        return effects

    def _hold(self, item: Any, link: Link, holder: Link, waiter: tuple[Link, int]) -> list[Effect]:
        self.table.add(item, link, holder)
        return [Confirm(*waiter)] if isinstance(link, str) else []  # type: ignore[arg-type]

    def _release(self, item: Any, link: Link, holder: Link) -> list[Effect]:
        if self.table.remove(item, link, holder):
            self.table.drop(item)
        return []

    def check(self) -> None:
        """Assert that the table is sound; for tests."""
        self.table.check()
