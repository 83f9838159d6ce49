"""Durable subscribers as monitoring sees them: where they are, and how far they are behind.

Rule: an event waits for a durable subscriber from when its broker has retained it until its position has passed it,
whether or not its process has the event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from .ids import BrokerId, ClientId

SHOWN_MAX: Final = 100
"""How many durable subscribers a status shows; `Network.durable` has all."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a durable subscriber has not acknowledged, as its broker knows.

    Attributes
    ----------
    name, incarnation
        The subscriber, and its present incarnation.
    events
        How many events it has not acknowledged.
    bytes
        The memory of what its broker retains for it. Events that are acknowledged behind one that is not may count.
    seconds
        For how long its oldest event has waited; 0 if none waits.
    selectors
        Its subscriptions, in normal form.
    """

    name: ClientId
    incarnation: int
    events: int
    bytes: int
    seconds: float
    selectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DurableStatus:
    """A durable subscriber at one moment.

    Attributes
    ----------
    name
        The subscriber.
    broker
        The broker that retains its events; None if none that answers does. It returns at another one then.
    attached
        Whether its process is connected to that broker.
    away_seconds
        For how long no process has been heard in its name; 0 while it is attached, None if that is not known.
    events, bytes, seconds
        How far it is behind, as in `Backlog`; 0 where `broker` is None, since nobody knows.
    selectors
        Its subscriptions, in normal form; none where `broker` is None.
    """

    name: ClientId
    broker: BrokerId | None
    attached: bool
    away_seconds: float | None
    events: int = 0
    bytes: int = 0
    seconds: float = 0.0
    selectors: tuple[str, ...] = ()


def behind(seconds: float, events: int, name: ClientId) -> tuple[float, int, ClientId]:
    """Return the key by which durable subscribers are ordered: whose events have waited longest come first."""
    return -seconds, -events, name


def by_backlog(durables: Iterable[DurableStatus]) -> list[DurableStatus]:
    """Return them in that order."""
    return sorted(durables, key=lambda one: behind(one.seconds, one.events, one.name))


def furthest_behind(durables: Iterable[DurableStatus]) -> tuple[DurableStatus, ...]:
    """Return the first `SHOWN_MAX` of them in that order."""
    return tuple(by_backlog(durables)[:SHOWN_MAX])
