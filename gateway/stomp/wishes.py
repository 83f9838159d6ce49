"""What a connection of STOMP wants done, and how much it may make the gateway keep.

Rules
-----
* What a session returns is carried out in order; when a part of it fails, the rest is dropped.
* A limit that the gateway has for all its protocols comes from there: see `SessionLimits.of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ...protocol.batch import EventBatch
from ...protocol.gateways import GatewayLimits
from ...protocol.values import Value
from .frames import Frame


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """What one connection may make the gateway wait for and keep.

    Attributes
    ----------
    connect_seconds
        From the connection to the CONNECT frame.
    frame_seconds
        From the first byte of a frame to its last.
    heartbeat_seconds
        How often the gateway can send a heart-beat, and wants one, at most.
    heartbeat_grace
        How many times as long as agreed a client may be silent.
    subscriptions_max, transactions_max
        At a time.
    transaction_frames_max, transaction_bytes_max
        In all transactions together.
    unacknowledged_max, unacknowledged_bytes_max
        Messages of one subscription that wait for an ACK.
    """

    connect_seconds: float = 10.0
    frame_seconds: float = 30.0
    heartbeat_seconds: float = 10.0
    heartbeat_grace: float = 2.0
    subscriptions_max: int = 100
    transactions_max: int = 16
    transaction_frames_max: int = 10_000
    transaction_bytes_max: int = 4 << 20
    unacknowledged_max: int = 1_000
    unacknowledged_bytes_max: int = 1 << 20

    @classmethod
    def of(cls, limits: GatewayLimits) -> SessionLimits:
        """Return what follows from the limits of a gateway."""
        return cls(
            connect_seconds=limits.request_seconds,
            frame_seconds=limits.request_seconds,
            heartbeat_seconds=limits.heartbeat_seconds,
            transaction_frames_max=limits.batch_events_max,
            transaction_bytes_max=limits.body_bytes_max,
            unacknowledged_max=limits.unacknowledged_max,
            unacknowledged_bytes_max=limits.queue_bytes_max,
        )


@dataclass(frozen=True, slots=True)
class Say:
    """Send a frame, which may be bytes already; None is a heart-beat."""

    frame: Frame | bytes | None


@dataclass(frozen=True, slots=True)
class Open:
    """Open a session of the core; then call `opened`."""

    token: str | None
    login: str | None


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish events; done when they are accepted."""

    events: tuple[dict[str, Value], ...] | EventBatch


@dataclass(frozen=True, slots=True)
class PublishOnce:
    """Publish events by themselves, unless they were published under this key before."""

    events: tuple[dict[str, Value], ...]
    key: str


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscribe under a number, which no other subscription of this connection ever has; done when it is in force."""

    number: int
    selector: str
    durable: str | None
    narrow: bool


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """End a stream; what is durable stays."""

    number: int


@dataclass(frozen=True, slots=True)
class Forget:
    """End a durable subscription for good."""

    durable: str


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Let a stream's position go on: the delivery of that id and all before it, or that delivery `alone`."""

    number: int
    id: str
    alone: bool


@dataclass(frozen=True, slots=True)
class Close:
    """Send what is waiting, and close the connection."""


Out: TypeAlias = Say | Open | Publish | PublishOnce | Subscribe | Unsubscribe | Forget | Acknowledge | Close
