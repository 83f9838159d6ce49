"""Heartbeats: signs of life, which wait for nothing, are counted nowhere and may be lost.

Rule: they come for ever, so they keep no network from being at rest.
"""

from __future__ import annotations

from typing import Final

from .recovery import ClusterBeat, MemberBeat, RootBeat, TreeBeat
from .views import CubeBeat

BEATS: Final = (ClusterBeat, MemberBeat, TreeBeat, RootBeat, CubeBeat)


LASTING: Final = (ClusterBeat, MemberBeat, TreeBeat)
"""Those that say between brokers how things stand: what one of them says holds until another one says otherwise."""


def is_beat(message: object) -> bool:
    """Return whether a message is only a sign of life."""
    return isinstance(message, BEATS)
