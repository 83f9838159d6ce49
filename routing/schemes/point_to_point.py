"""Point-to-point: the publisher's broker sends each event to each broker that wants it (the baseline of paper 5).

Rules
-----
* The publisher's broker sends one message to each broker with a matching subscriber: n copies, and the load of
  all n is at the publisher's broker.
* An event from another broker is delivered to clients only.
* So the events of a publisher reach each broker over one link, in order. Where the network heals, views define the
  membership, and each view is a round (`viewed`): it begins with the retransmission of all that the origin retains.
"""

from __future__ import annotations

from dataclasses import replace

from ...protocol.effects import Effect, Send
from ...protocol.ids import Link
from ...protocol.messages.pubsub import Events
from .claims import Claims
from .mesh import MeshRouter


class PointToPoint(MeshRouter):
    """A broker of a mesh that sends directly to each destination."""

    claims = Claims(wanted_only=True, survives_deaths=True)

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        effects: list[Effect] = []
        if source == self.me or isinstance(source, str):
            for to, rows in self.others.route(message.batch).links:
                part = message if rows is None else replace(message, batch=message.batch.take(rows))
                effects.append(Send(to, part))
        return effects + self.deliver(message.batch)
