"""The faults of links: which pairs of brokers are cut and why, and the periods in which links are bad.

Rules
-----
* A dropped message shows as delay: the transport retransmits after :data:`RETRY_SECONDS`, then after twice
  that, and so on. A duplicate is discarded by the transport, and only counted.
* A pair may be cut for several reasons. It is mended when none is left.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from ..protocol.ids import BrokerId

if TYPE_CHECKING:
    from random import Random

RETRY_SECONDS: Final = 0.2
RETRIES_MAX: Final = 6


class BadPeriod(Protocol):
    """A time in which links are slower, lossy, and duplicate messages; see `Shake` of `plans`, which draws them."""

    @property
    def seconds(self) -> float:
        """The duration."""

    @property
    def delay_seconds(self) -> float:
        """The maximum additional delay of a message."""

    @property
    def drop(self) -> float:
        """The probability that a message is lost, and retransmitted by the transport."""

    @property
    def duplicate(self) -> float:
        """The probability that a message is duplicated, and its copy discarded by the transport."""

    @property
    def brokers(self) -> Collection[BrokerId]:
        """The brokers whose links are affected; all links if empty."""


def pair_of(one: BrokerId, other: BrokerId) -> tuple[BrokerId, BrokerId]:
    """Return the two ends of a link, the lower id first."""
    return (one, other) if one < other else (other, one)


@dataclass(slots=True)
class LinkFaults:
    """The links' present faults: bad periods, and counts of their effects.

    Attributes
    ----------
    shakes
        (end time, period) of each bad period.
    dropped, duplicated
        The number of messages that the transport had to retransmit, and of copies that it discarded.
    """

    shakes: list[tuple[float, BadPeriod]] = field(default_factory=list)
    dropped: int = 0
    duplicated: int = 0

    def extra(self, now: float, pair: tuple[BrokerId, BrokerId], rng: Random) -> float:
        """Return a message's additional delay on the link between a pair, and forget periods that are over."""
        seconds = 0.0
        self.shakes = [entry for entry in self.shakes if entry[0] > now]
        for _, shake in self.shakes:
            if shake.brokers and pair[0] not in shake.brokers and pair[1] not in shake.brokers:
                continue
            seconds += rng.random() * shake.delay_seconds
            retry = RETRY_SECONDS
            for _ in range(RETRIES_MAX):
                if rng.random() >= shake.drop:
                    break
                self.dropped += 1
                seconds += retry
                retry *= 2
            if rng.random() < shake.duplicate:
                self.duplicated += 1
        return seconds


@dataclass(slots=True)
class Cuts:
    """The pairs of brokers that cannot reach each other, with the reasons. A pair without reasons is mended."""

    reasons: dict[tuple[BrokerId, BrokerId], set[object]] = field(default_factory=dict)

    def add(self, one: BrokerId, other: BrokerId, reason: object) -> None:
        """Cut the link between two brokers in both directions."""
        self.reasons.setdefault(pair_of(one, other), set()).add(reason)

    def remove(self, reason: object) -> list[tuple[BrokerId, BrokerId]]:
        """Remove a reason everywhere; return the pairs that are mended by that."""
        mended = []
        for pair, reasons in list(self.reasons.items()):
            reasons.discard(reason)
            if not reasons:
                del self.reasons[pair]
                mended.append(pair)
        return mended

    def clear(self) -> list[tuple[BrokerId, BrokerId]]:
        """Mend all pairs; return the pairs that were cut."""
        mended = list(self.reasons)
        self.reasons.clear()
        return mended
