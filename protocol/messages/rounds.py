"""Messages of rounds, in which all that is kept is sent again, and of flushing: they go to every broker.

How they fit together: docs/decisions/0011-recovery.md and 0015-exactly-once.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..ids import Ballot, BrokerId, ClientId, RoundNumber


@dataclass(frozen=True, slots=True)
class AskRound:
    """Somebody below has joined and wants what may have been lost; climbs to the root.

    `after` is the last round known below: the next one has to be higher, also when the root is new to its office.
    `doubt_seconds` is how long ago the link that was mended was surely good.
    """

    after: RoundNumber
    doubt_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Round:
    """A new round begins; floods down the tree and through the groups.

    What was accepted in the last `doubt_seconds` may be missing somewhere. Who keeps all of it loses nothing.
    """

    number: RoundNumber
    doubt_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a round should mend and its publishers' broker does not keep any more; floods ahead of what it does keep.

    Attributes
    ----------
    entries
        (publisher, the last sequence that is gone, how many seconds ago that was accepted).
    round, doubt_seconds, ballot
        As with events, which it goes ahead of.
    """

    entries: tuple[tuple[ClientId, int, float], ...]
    round: RoundNumber
    doubt_seconds: float
    ballot: Ballot | None = None


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something has failed somewhere: what was accepted in the last `seconds` may not have come everywhere.

    Floods as soon as a neighbour or a member is suspected, since publishers go on elsewhere before a round mends it.
    """

    seconds: float


# Flushing.


@dataclass(frozen=True, slots=True)
class Marker:
    """Goes behind all events that `origin` has sent, wherever they may have gone; names its question by `number`."""

    origin: BrokerId
    number: int
    round: RoundNumber
    doubt_seconds: float  # of the round, which begins with the marker where it has not begun
    ballot: Ballot | None = None  # over the group: as with events


@dataclass(frozen=True, slots=True)
class MarkerDone:
    """The answer to a `Marker`: all ahead of it has been delivered, here and beyond."""

    origin: BrokerId
    number: int


@dataclass(frozen=True, slots=True)
class Handed:
    """What member `entry` has multicast, in a cluster whose members hand on to each other what stays behind events."""

    entry: BrokerId
    message: Marker | Forgotten


RoundMessage: TypeAlias = AskRound | Round | Doubt | Forgotten | Marker | MarkerDone | Handed
