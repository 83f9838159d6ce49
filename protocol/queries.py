"""What a host asks of a broker: typed queries, which the layers that know answer.

Rules
-----
* A query is a value. Its class states the type of the answer, and the answer where no layer knows (`otherwise`).
* A layer lists in its `answers` what it knows, by the type of the query. Where several layers know, `together`
  combines their answers, those of inner layers first.
* A query changes nothing. A host asks what it wants to know, never which layers there are.

Queries whose answers are classes of a layer stand beside that layer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Never, TypeAlias, TypedDict, TypeVar

from .batch import EventBatch
from .ids import BrokerId, ClientId, ClusterId, Link, RoundNumber
from .messages.admission import Refusal
from .messages.pubsub import Answers
from .messages.recovery import ClusterView
from .messages.views import MembershipView, ViewMember

T = TypeVar("T", covariant=True)

_NOTHING: Final[Mapping[int, Never]] = {}


class Query(Generic[T]):
    """A question to the layers of one broker.

    Attributes
    ----------
    otherwise
        The answer if no layer knows.
    """

    __slots__ = ()

    otherwise: T

    def together(self, answers: Sequence[T]) -> T:
        """Combine the answers of several layers, the innermost first: here, that one counts."""
        return answers[0]


Answering: TypeAlias = Mapping[type[Query[Any]], Callable[[Any], Any]]
"""What a layer knows, by the type of the query."""


# Membership.


class Heals(Query[bool]):
    """Whether the broker can be sent to by any other, and is restored or replaced when it dies."""

    otherwise = False


class Said(TypedDict, total=False):
    """The place in the network that one broker reports; of the last two groups, it has those of its network's kind.

    Fields of a tree that only a designated broker knows are empty at the others. `missed` has the brokers that have
    missed something that this one sent, from then until it begins to repair that: nobody else knows of it yet.
    """

    broker: BrokerId
    cluster: ClusterId
    designated: bool
    settled: bool
    closed: Sequence[Link]
    missed: Sequence[BrokerId]
    left: bool
    learned_dead: Sequence[tuple[BrokerId, float]]

    # In a tree.
    view: ClusterView
    root: bool
    parent: ClusterView | None
    children: tuple[ClusterView, ...]
    path: tuple[ClusterId, ...]
    term: int
    round: RoundNumber
    searching: bool
    moved_at: Sequence[float]

    # In views.
    neighbours: tuple[BrokerId, ...]
    version: int
    view_members: tuple[ViewMember, ...]
    membership_view: MembershipView | None


class Survey(Query[Said | None]):
    """The place of the broker in the network; None where it keeps the place with which it began."""

    otherwise = None


class HasLeft(Query[bool]):
    """Whether the broker has left its network for good, and handed over what only it has: its process may end."""

    otherwise = False

    def together(self, answers: Sequence[bool]) -> bool:
        """Return whether all layers have done with it."""
        return all(answers)


class TurnsAway(Query[bool]):
    """Whether the broker takes in nothing more of clients, since it has left its network."""

    otherwise = False


class ListensTo(Query[frozenset[BrokerId]]):
    """The brokers whose silence this broker would detect."""

    otherwise = frozenset()


class OtherMembers(Query[tuple[BrokerId, ...]]):
    """The other members of the multicast group of the broker, in order."""

    otherwise = ()


# Publishers.


class Publishers(Query[frozenset[ClientId]]):
    """The publishers from which the broker has accepted any events."""

    otherwise = frozenset()

    def together(self, answers: Sequence[frozenset[ClientId]]) -> frozenset[ClientId]:
        """Return all of them."""
        return frozenset().union(*answers)


@dataclass(frozen=True, slots=True)
class AcceptedOf(Query[int]):
    """The highest sequence number that the broker has of a publisher; what waits for its quota counts."""

    publisher: ClientId
    otherwise = 0

    def together(self, answers: Sequence[int]) -> int:
        """Return the highest."""
        return max(answers)


@dataclass(frozen=True, slots=True)
class KeptOf(Query[Sequence[tuple[float, EventBatch]]]):
    """The batches of a publisher that the broker retains or has not let in yet, each with its age, oldest first."""

    publisher: ClientId
    otherwise = ()

    def together(
        self, answers: Sequence[Sequence[tuple[float, EventBatch]]]
    ) -> Sequence[tuple[float, EventBatch]]:
        """Return all of them."""
        return [each for batches in answers for each in batches]


@dataclass(frozen=True, slots=True)
class WaitingOf(Query[Sequence[EventBatch]]):
    """The batches of a publisher that wait for its quota, oldest first."""

    publisher: ClientId
    otherwise = ()


@dataclass(frozen=True, slots=True)
class HeardFrom(Query[int]):
    """The number of the last message of a client that was taken in, `about` "events" or "subscriptions"."""

    client: ClientId
    about: str
    otherwise = 0


class Owed(Query[int]):
    """How many messages to brokers and clients are retained until they are acknowledged."""

    otherwise = 0


class OwedToBrokers(Query[int]):
    """How many messages to other brokers are retained until they are acknowledged."""

    otherwise = 0


# Subscribers.


class DurableHere(Query[Collection[ClientId]]):
    """The durable subscribers of the broker: a live view."""

    otherwise = ()


@dataclass(frozen=True, slots=True)
class IncarnationOf(Query[int]):
    """The present incarnation of a durable subscriber of the broker; 0 for any other client."""

    client: ClientId
    otherwise = 0


@dataclass(frozen=True, slots=True)
class AnswersOf(Query[Mapping[int, Answers]]):
    """Which brokers can satisfy the subscriptions of a client, by number; empty if the scheme has no answers."""

    client: ClientId
    otherwise = _NOTHING


@dataclass(frozen=True, slots=True)
class LacksOf(Query[Mapping[int, tuple[Refusal, ...]]]):
    """What the admitted subscriptions of a client lack, by number."""

    client: ClientId
    otherwise = _NOTHING


class BookSizes(Query[dict[str, object] | None]):
    """What is reserved and what is available, by resource; None where no books are kept."""

    otherwise = None
