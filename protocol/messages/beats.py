"""Heartbeats: messages that are never queued behind others, are not counted and may be lost.

Rule: heartbeats never stop, so a network with heartbeats in flight still counts as quiescent.
"""

from __future__ import annotations

from typing import Final

from .recovery import ClusterBeat, MemberBeat, RootBeat, TreeBeat
from .views import ViewBeat

BEATS: Final = (ClusterBeat, MemberBeat, TreeBeat, RootBeat, ViewBeat)


LASTING: Final = (ClusterBeat, MemberBeat, TreeBeat)
"""Heartbeats between brokers that report state: the reported state holds until another heartbeat changes it."""


def is_beat(message: object) -> bool:
    """Return whether a message is a heartbeat."""
    return isinstance(message, BEATS)
