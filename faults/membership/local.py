"""What the recovery machines of one broker tell each other, through the broker; none of it crosses the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ...protocol.effects import Multicast, Send
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.messages.recovery import ClusterView


@dataclass(frozen=True, slots=True)
class TookOver:
    """This broker is the designated one of its cluster from now on."""

    view: ClusterView


@dataclass(frozen=True, slots=True)
class SteppedDown:
    """This broker was designated and is not any more."""

    view: ClusterView


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """Members came or went, as the designated broker sees it."""

    view: ClusterView
    joined: tuple[BrokerId, ...]
    left: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class NeighbourMoved:
    """A neighbouring cluster has another designated broker; `view` says which."""

    view: ClusterView


@dataclass(frozen=True, slots=True)
class NeighbourLost:
    """A neighbouring cluster cannot be reached: it is dead, or the link is cut."""

    cluster: ClusterId


@dataclass(frozen=True, slots=True)
class Joined:
    """This cluster has a new parent."""

    parent: ClusterView
    path: tuple[ClusterId, ...]
    term: int


@dataclass(frozen=True, slots=True)
class MadeRoot:
    """This cluster is the root, under this term."""

    term: int


Local: TypeAlias = (
    TookOver | SteppedDown | MembersChanged | NeighbourMoved | NeighbourLost | Joined | MadeRoot
)
Out: TypeAlias = Send | Multicast | Local
"""What a recovery machine returns: messages for others, and news for the machines beside it."""
