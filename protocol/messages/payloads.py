"""What hosts tell each other of payloads: large binary values, which travel in slices beside the events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..batch import EventBatch
from ..ids import BrokerId

Bytes: TypeAlias = npt.NDArray[np.uint8]
Missing: TypeAlias = dict[BrokerId, str]
"""The brokers that lack a payload, and why."""


@dataclass(frozen=True, slots=True)
class Payload:
    """The description of a payload, known before its slices arrive.

    Attributes
    ----------
    name
        Unique in its network.
    batch
        The one event that describes the payload, with which clients are notified.
    origin, targets
        The publisher's broker, and the target brokers of this round.
    nbytes, slice_bytes, md5
        The size, the slice size, and the checksum.
    notifies
        Whether a broker that has it notifies its clients; if not, its publisher publishes the event.
    """

    name: str
    batch: EventBatch
    origin: BrokerId
    targets: tuple[BrokerId, ...]
    nbytes: int
    slice_bytes: int
    md5: str
    notifies: bool = True

    @property
    def slices(self) -> int:
        """The number of slices."""
        return -(-self.nbytes // self.slice_bytes)


@dataclass(slots=True)
class Outcome:
    """The outcome of one round, at a broker and all brokers behind it.

    Attributes
    ----------
    missing
        The brokers that lack the payload, and why.
    sent
        The bytes that each broker has forwarded, as reported by the live ones.
    """

    missing: Missing = field(default_factory=dict)
    sent: dict[BrokerId, int] = field(default_factory=dict)

    def add(self, other: Outcome) -> None:
        """Add the outcome of the same round at other brokers."""
        self.missing |= other.missing
        for broker, nbytes in other.sent.items():
            self.sent[broker] = self.sent.get(broker, 0) + nbytes
