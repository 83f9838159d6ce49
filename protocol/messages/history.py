"""Messages by which a broker reads, for a durable subscriber, what other brokers retain of the past.

docs/decisions/0181-replay.md describes who sends what, and when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..batch import EventBatch
from ..ids import BrokerId, ClientId

if TYPE_CHECKING:
    from ...routing.filters.filter import Filter


@dataclass(frozen=True, slots=True)
class Keeps:
    """A broker tells the rendezvous point that it has a history, or leaves with it, and asks who else has one."""

    leaves: bool = False


@dataclass(frozen=True, slots=True)
class Keepers:
    """The answer: all brokers that have a history, dead or alive."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """Ask a broker for a page of its history; it remembers nothing of the readers.

    Attributes
    ----------
    client, turn
        For whom, and a number that tells a late answer from the one that is awaited; the answer has both.
    after
        The batch of the history behind which the page begins; 0 for the first one.
    filters
        What the subscriber wants.
    marks
        In the first request: per publisher, the last sequence that is not needed.
    events_max
        How many events the page has at most, apart from the last batch.
    """

    client: ClientId
    turn: int
    after: int
    filters: tuple[Filter, ...]
    marks: Mapping[ClientId, int]
    events_max: int


class Stretch(NamedTuple):
    """The events of a publisher from `first` to `last`, which its broker accepted together.

    Attributes
    ----------
    publisher, first, last
        The publisher, and its numbers.
    age_seconds
        How long ago they were accepted.
    wanted
        Those of the events that match a filter; None if none does.
    """

    publisher: ClientId
    first: int
    last: int
    age_seconds: float
    wanted: EventBatch | None


class Gone(NamedTuple):
    """The last event of a publisher that a broker has forgotten: its number, and how long ago it was accepted."""

    publisher: ClientId
    last: int
    age_seconds: float


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """The answer to `ReadHistory`: stretches in the order in which they were accepted.

    Attributes
    ----------
    client, turn
        Those of the question.
    after
        Where the next page begins.
    stretches
        The page.
    gone
        What has been forgotten that would have been on this page or an earlier one.
    whole
        Whether nothing is behind this page.
    """

    client: ClientId
    turn: int
    after: int
    stretches: tuple[Stretch, ...]
    gone: tuple[Gone, ...]
    whole: bool


HistoryMessage: TypeAlias = Keeps | Keepers | ReadHistory | HistoryPage
