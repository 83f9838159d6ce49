"""Settings of brokers that recover from crashes: retransmission, limits and commits (paper 4, section 3).

Every queue of such a broker has its limit here (promise 9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .checks import positive_fields

Synchronous: TypeAlias = Literal["off", "normal", "full"]
SYNCHRONOUS: Final = ("off", "normal", "full")
"""What a commit waits for; `recovery.durability.sqlite_store` says what each setting guarantees."""


@dataclass(frozen=True, slots=True)
class Stability:
    """Timeouts and limits of the crash-recovery protocol.

    Attributes
    ----------
    retransmit_seconds
        How long a message may be unacknowledged before it is retransmitted; the wait doubles with each
        retransmission.
    retransmit_seconds_max
        The longest such wait.
    window_messages
        Messages of one interface that may be in flight at once; the others wait for acknowledgements.
    queue_events_max
        Events (and other messages) of one interface that may wait to be acknowledged. Past this limit the broker
        accepts nothing that could add to them, so its senders wait; the backpressure reaches the publishers.
    notifications_max
        Notifications of one subscriber that may wait to be acknowledged. Past this limit the oldest are shed
        and counted.
    inputs_max
        Messages about subscriptions that are stored as received. Past this limit, and past the number of filters,
        the broker stores the resulting state instead.
    """

    retransmit_seconds: float = 0.25
    retransmit_seconds_max: float = 4.0
    window_messages: int = 64
    queue_events_max: int = 131_072
    notifications_max: int = 1_048_576
    inputs_max: int = 1_024

    def validate(self) -> Stability:
        """Validate the settings and return them.

        Raises
        ------
        InputError
            If a setting is not a number above 0.
        """
        positive_fields(self, "stability")
        return self
