"""Messages that the recovery machines of one broker exchange through the broker; none of them crosses the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ...protocol.effects import Multicast, Send
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.messages.recovery import ClusterView


@dataclass(frozen=True, slots=True)
class TookOver:
    """This broker has become the designated broker of its cluster."""

    view: ClusterView


@dataclass(frozen=True, slots=True)
class SteppedDown:
    """This broker was designated and is no longer."""

    view: ClusterView


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """Members joined or left, as seen by the designated broker."""

    view: ClusterView
    joined: tuple[BrokerId, ...]
    left: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class NeighbourMoved:
    """A neighbouring cluster has another designated broker, named in `view`."""

    view: ClusterView


@dataclass(frozen=True, slots=True)
class NeighbourLost:
    """A neighbouring cluster is unreachable: it is dead, or the link to it is cut."""

    cluster: ClusterId


@dataclass(frozen=True, slots=True)
class Joined:
    """This cluster has a new parent."""

    parent: ClusterView
    path: tuple[ClusterId, ...]
    term: int


@dataclass(frozen=True, slots=True)
class MadeRoot:
    """This cluster has become the root, under this term."""

    term: int


Local: TypeAlias = (
    TookOver | SteppedDown | MembersChanged | NeighbourMoved | NeighbourLost | Joined | MadeRoot
)
Out: TypeAlias = Send | Multicast | Local
"""What a recovery machine returns: messages to others, and news for the other machines of its broker."""
