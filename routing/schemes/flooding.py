"""Flooding: every event goes to every broker (paper 1, section 1: the first of the two simple approaches).

Rules
-----
* Subscriptions stay at the subscriber's broker. No other broker is told, so they are installed immediately.
* An event goes over every link of the tree except the one on which it arrived: N - 1 messages among N brokers,
  whether or not it is wanted.
* In a network that heals, a new parent is told nothing. Without a path to the root an event goes to the brokers below
  only; the round after the path is restored sends it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ...protocol.effects import Confirm, Deliver, Effect, Send
from ...protocol.ids import BrokerId, Link
from ...protocol.messages.pubsub import Events
from ..filters.filter import Filter
from .claims import Claims
from .flooding_graph import GraphFlooding
from .hierarchical import NodeRouter
from .router import Router


class Flooding(NodeRouter):
    """A broker of a tree on which events go everywhere."""

    claims = Claims(announces_first=False)
    options: ClassVar[Mapping[str, type[Router]]] = {"graph": GraphFlooding}
    floods: ClassVar[bool] = True

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        effects: list[Effect] = [Send(child, message) for child in self.position.children if child != source]
        upward = self.to_parent(message) if self.goes_up_from(source) else None
        if upward is not None:
            effects.append(upward)
        routes = self.table.route(message.batch)
        if routes.clients:
            effects.append(Deliver(message.batch, routes.clients, routes.starts, routes.rows))
        return effects

    def _hold(self, item: Filter, link: Link, holder: Link, waiter: tuple[Link, int]) -> list[Effect]:
        self.table.add(item, link, holder)
        return [Confirm(link, waiter[1])] if isinstance(link, str) else []

    def _release(self, item: Filter, link: Link, holder: Link) -> list[Effect]:
        if self.table.remove(item, link, holder):
            self.table.drop(item)
        return []

    def announced(self) -> dict[tuple[Link, BrokerId], tuple[Filter, ...]]:
        """Return nothing: no broker is told of filters."""
        return {}

    def check(self) -> None:
        """Assert that the table is sound; for tests."""
        self.table.check()
