"""A broker that sends each event to each broker that wants it, and heals: views, and nothing beside.

Rule: what a publisher has to say comes to each broker over one link from its origin, so whole and in order under each
view; the next view begins with all that is kept.

Source: paper 5, sections 1 and 3.4; docs/decisions/0017-hypercube.md.
"""

from __future__ import annotations

from ..protocol.configs import Position
from ..routing.point_to_point import PointToPointInViews
from .healing_views import HealingViews


class HealingPointToPoint(HealingViews[PointToPointInViews]):
    """One broker of a mesh that heals; the parameters are those of :class:`HealingViews`."""

    def make_router(self, position: Position) -> PointToPointInViews:
        """Return the router of point-to-point."""
        return PointToPointInViews(position)
