"""Point-to-point: the publisher's broker sends each event to each broker that wants it (the baseline of paper 5).

Rules
-----
* One message for each broker with a subscriber that the event is for, all of them from one broker: n copies, and the
  load of all n at the publisher's broker.
* An event that another broker sent is for clients only.
"""

from __future__ import annotations

from ..protocol.effects import Deliver, Effect
from ..protocol.ids import Link
from ..protocol.messages import Events
from .mesh import MeshRouter


class PointToPoint(MeshRouter):
    """A broker of a mesh that sends to each destination by itself."""

    def _on_events(self, source: Link, message: Events) -> list[Effect]:
        effects = super()._on_events(source, message)
        return effects if isinstance(source, str) else [each for each in effects if isinstance(each, Deliver)]
