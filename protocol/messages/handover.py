"""Messages between a broker that leaves and its trustee, the broker that takes over what only the other one retains.

Source: docs/decisions/0185-trustees.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ..batch import EventBatch
from ..ids import BrokerId, ClientId
from .pubsub import ClockReads, Lost, ReadClock

if TYPE_CHECKING:
    from ...routing.filters.filter import Filter


@dataclass(frozen=True, slots=True)
class HandOver:
    """The order to hand the durable subscribers over to a trustee, before other clients move and the broker leaves."""

    trustee: BrokerId


@dataclass(frozen=True, slots=True, eq=False)
class SubscriberBequest:
    """A durable subscriber of a leaving broker, for its trustee.

    Attributes
    ----------
    number
        The number of the part, for the answer.
    name, incarnation
        The subscriber, and the incarnation in which it came.
    since_seconds
        How long ago it first subscribed.
    marks
        Its position.
    subscriptions, priorities
        Its filters and their priorities, by number.
    begins
        Where each subscription begins that was confirmed, by number.
    losses
        What it has to be told is lost.
    notes
        (seconds since they were made, events) of the notifications that it has not acknowledged, in order.
    past
        Those of its subscriptions that begin in the past.
    ages_seconds
        How long ago each of its subscriptions was made, by number.
    clock
        What the trustee's clock read when it was asked, before the ages above were stated: as in `Resume`.
    """

    number: int
    name: ClientId
    incarnation: int
    since_seconds: float
    marks: Mapping[ClientId, int]
    subscriptions: Mapping[int, Filter]
    priorities: Mapping[int, int] = field(default_factory=dict)
    begins: Mapping[int, Mapping[ClientId, int]] = field(default_factory=dict)
    losses: tuple[Lost, ...] = ()
    notes: tuple[tuple[float, EventBatch], ...] = ()
    past: tuple[int, ...] = ()
    ages_seconds: Mapping[int, float] = field(default_factory=dict)
    clock: float | None = None


@dataclass(frozen=True, slots=True)
class SubscriberInherited:
    """The answer to a `SubscriberBequest`: the trustee holds the subscriber."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Bequest:
    """A part of what a leaving broker retains of publishers for which it answers; its trustee answers for them then.

    Attributes
    ----------
    number
        The number of the part, for the answer.
    kept
        (publisher, seconds since they were accepted, events) of each batch, in the order in which it was retained.
    forgotten
        (publisher, last number, seconds since it was accepted) of what the leaving broker retains no more.
    """

    number: int
    kept: tuple[tuple[ClientId, float, EventBatch], ...] = ()
    forgotten: tuple[tuple[ClientId, int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Inherited:
    """The answer to a `Bequest`: the trustee has taken this part over."""

    number: int


TrusteeMessage: TypeAlias = (
    ReadClock | ClockReads | SubscriberBequest | SubscriberInherited | Bequest | Inherited
)
