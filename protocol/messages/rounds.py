"""Messages of rounds (retransmission of all retained events) and of flushing; they go to every broker.

docs/decisions/0011-recovery.md and 0015-exactly-once.md explain how they fit together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..ids import Ballot, BrokerId, ClientId, RoundNumber


@dataclass(frozen=True, slots=True)
class AskRound:
    """A broker below has joined and asks for events that may have been lost; forwarded up to the root.

    `after` is the last round known below: the next round must be higher, also when the root has just taken over.
    `repair_window_seconds` is how long ago the repaired link was certainly working.
    """

    after: RoundNumber
    repair_window_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Round:
    """A new round begins; flooded down the tree and through the groups.

    Events accepted in the last `repair_window_seconds` may be missing somewhere. A broker that retains all
    of them loses none.
    """

    number: RoundNumber
    repair_window_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Events that a round should retransmit but the publishers' broker no longer retains; flooded ahead of the others.

    Attributes
    ----------
    entries
        (publisher, the last sequence that is gone, how many seconds ago that event was accepted).
    round, repair_window_seconds, ballot
        As for the events that follow this message.
    """

    entries: tuple[tuple[ClientId, int, float], ...]
    round: RoundNumber
    repair_window_seconds: float
    ballot: Ballot | None = None


@dataclass(frozen=True, slots=True)
class FailureNotice:
    """A failure has occurred: events accepted in the last `seconds` may not have reached every broker.

    Flooded as soon as a neighbour or a member is suspected, because publishers resume elsewhere before a round
    repairs the failure.
    """

    seconds: float


# Flushing.


@dataclass(frozen=True, slots=True)
class Marker:
    """Follows all events that `origin` has sent, along all paths of theirs; `number` identifies the flush."""

    origin: BrokerId
    number: int
    round: RoundNumber
    repair_window_seconds: (
        float  # of the round; a broker at which the round has not begun begins it with the marker
    )
    ballot: Ballot | None = None  # over the group: as for events


@dataclass(frozen=True, slots=True)
class MarkerDone:
    """The answer to a `Marker`: everything ahead of it has been delivered, here and beyond."""

    origin: BrokerId
    number: int


@dataclass(frozen=True, slots=True)
class Handed:
    """A message that member `entry` multicast, in a cluster whose members relay messages that must follow events."""

    entry: BrokerId
    message: Marker | Forgotten


RoundMessage: TypeAlias = AskRound | Round | FailureNotice | Forgotten | Marker | MarkerDone | Handed
