"""Point-to-point: the publisher's broker sends each event to each broker that wants it (the baseline of paper 5).

Rules
-----
* One message for each broker with a subscriber that the event is for, all of them from one broker: n copies, and the
  load of all n at the publisher's broker.
* An event that another broker sent is for clients only.
* So what a publisher has to say comes to each broker over one link, in order. Where the network heals, brokers come and
  go by views, and each view is a round (`viewed`): the next one begins with all that the origin keeps.
"""

from __future__ import annotations

from dataclasses import replace

from ...protocol.effects import Effect, Send
from ...protocol.ids import Link
from ...protocol.messages.pubsub import Events
from .mesh import MeshRouter


class PointToPoint(MeshRouter):
    """A broker of a mesh that sends to each destination by itself."""

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        effects: list[Effect] = []
        if source == self.me or isinstance(source, str):
            for to, rows in self.others.route(message.batch).links:
                part = message if rows is None else replace(message, batch=message.batch.take(rows))
                effects.append(Send(to, part))
        return effects + self.deliver(message.batch)
