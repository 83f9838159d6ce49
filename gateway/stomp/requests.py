"""The requests of a STOMP session to its connection, and the limits of a session.

Rules
-----
* The results of a session are carried out in order; when one fails, the rest is dropped.
* Limits that the gateway has for all its protocols come from there: see `StompLimits.of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ...protocol.batch import EventBatch
from ...protocol.gateways import GatewayLimits
from ...protocol.quick import quick
from ...protocol.values import Value
from ..terms import NO_TERMS, Terms
from .frames import Frame


@dataclass(frozen=True, slots=True)
class StompLimits:
    """Limits on what one connection may make the gateway wait for and store.

    Attributes
    ----------
    connect_seconds
        From the connection to the CONNECT frame.
    frame_seconds
        From the first byte of a frame to its last.
    heartbeat_seconds
        The shortest interval of heart-beats that the gateway sends and expects.
    heartbeat_grace
        The factor by which a client may exceed the agreed interval.
    subscriptions_max, transactions_max
        Open at a time.
    transaction_frames_max, transaction_bytes_max
        In all transactions together.
    unacknowledged_max, unacknowledged_bytes_max
        Messages of one subscription that wait for an ACK.
    """

    connect_seconds: float = 10.0
    frame_seconds: float = 30.0
    heartbeat_seconds: float = 1.0
    heartbeat_grace: float = 2.0
    subscriptions_max: int = 100
    transactions_max: int = 16
    transaction_frames_max: int = 10_000
    transaction_bytes_max: int = 4 << 20
    unacknowledged_max: int = 1_000
    unacknowledged_bytes_max: int = 1 << 20

    @classmethod
    def of(cls, limits: GatewayLimits) -> StompLimits:
        """Return the limits that follow from those of a gateway."""
        return cls(
            connect_seconds=limits.request_seconds,
            frame_seconds=limits.request_seconds,
            heartbeat_seconds=min(limits.stomp_heartbeat_seconds, limits.heartbeat_seconds),
            transaction_frames_max=limits.batch_events_max,
            transaction_bytes_max=limits.body_bytes_max,
            unacknowledged_max=limits.unacknowledged_max,
            unacknowledged_bytes_max=limits.queue_bytes_max,
        )


@quick
@dataclass(frozen=True, slots=True)
class Say:
    """Send a frame, which may be encoded already; None is a heart-beat."""

    frame: Frame | bytes | None


@dataclass(frozen=True, slots=True)
class Open:
    """Open a session of the core; then call `opened`."""

    token: str | None
    login: str | None


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish events; completes when they are accepted. `expires` says by row when some of them expire, since 1970."""

    events: tuple[dict[str, Value], ...] | EventBatch
    expires: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PublishOnce:
    """Publish events separately, unless they were published under this key before."""

    events: tuple[dict[str, Value], ...]
    key: str
    expires: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscribe under a number that this connection never reuses; completes when the subscription is installed."""

    number: int
    selector: str
    durable: str | None
    narrow: bool
    group: Mapping[str, object] | None = None
    terms: Terms = NO_TERMS


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """End a stream; a durable subscription remains."""

    number: int


@dataclass(frozen=True, slots=True)
class Forget:
    """End a durable subscription, or a `group`, permanently."""

    durable: str
    group: bool = False


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Advance a stream's position: the delivery of that id and all before it, or that delivery `alone`."""

    number: int
    id: str
    alone: bool


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse a delivery of a group: a worker gets it again in so many seconds."""

    number: int
    id: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Close:
    """Send what is queued, and close the connection."""


Out: TypeAlias = (
    Say | Open | Publish | PublishOnce | Subscribe | Unsubscribe | Forget | Acknowledge | Refuse | Close
)
