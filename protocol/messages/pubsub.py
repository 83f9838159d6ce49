"""What crosses the network: between brokers, and between a client and its broker.

Rules
-----
* A link delivers its messages in the order in which they were sent.
* Between brokers a subscription is its filter: a broker tells its neighbour which filters it wants events for. Whose
  they are stays with the broker that the subscriber is attached to.
* A `token` names one announcement of a filter; the answer carries it, so that an answer that is late for an
  announcement since withdrawn and made again is not taken for the new one's.
* Between brokers that recover from crashes, and their clients, messages travel in an `Numbered` each and are
  acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..batch import EventBatch
from ..ids import FIRST_ROUND, Ballot, BrokerId, ClientId, RoundNumber

if TYPE_CHECKING:  # only a type: nothing here makes one, or looks into it
    from ...routing.filters.filter import Filter


@dataclass(frozen=True, slots=True)
class Events:
    """Events on their way: from a publisher to its broker, or from a broker to another (paper 1: event).

    Attributes
    ----------
    round
        The round in which its broker has sent them.
    again
        Whether they were sent before, in an earlier round.
    ballot
        Over a group that heals: under which designated broker they were sent.
    age_seconds
        How long ago, at least, the publisher's broker had accepted them when it sent them again.
    forgot_seconds
        Of what a publisher publishes again at another broker: how long ago it published what it does not keep any more.
    doubt_seconds
        How far back the round mends: see `Round`.
    entry
        In a hypercube: the broker that they were published at; in a cluster that fans out: the member that does.
    """

    batch: EventBatch
    round: RoundNumber = FIRST_ROUND
    again: bool = False
    ballot: Ballot | None = None
    age_seconds: float = 0.0
    forgot_seconds: float = 0.0
    doubt_seconds: float = 0.0
    entry: BrokerId | None = None


@dataclass(frozen=True, slots=True)
class Directed:
    """Events whose destinations are settled (paper 5): row ``i`` is for the brokers ``targets[i]`` and no others.

    `origin` is the publisher's broker; ``numbers[i]`` has, for each of those brokers, how many events the origin has
    directed to it so far, in a network that heals in this round; there the rest is as in `Events`.
    """

    batch: EventBatch
    origin: BrokerId
    targets: tuple[tuple[BrokerId, ...], ...]
    numbers: tuple[tuple[int, ...], ...]
    round: RoundNumber = FIRST_ROUND
    again: bool = False
    age_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Gone:
    """A broker is gone for good: whoever could not reach it says so, or a host that knows."""

    broker: BrokerId


@dataclass(frozen=True, slots=True)
class Announce:
    """A broker wants the events of this filter from now on (paper 1: sp)."""

    filter: Filter
    token: int


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A broker no longer wants the events of a filter that it announced."""

    filter: Filter


@dataclass(frozen=True, slots=True)
class Installed:
    """The answer to an `Announce`: the filter is in the tables of every broker up to the root.

    In a network that heals, `round` is the highest that was known on the way: a later one began after this.
    """

    token: int
    round: RoundNumber = FIRST_ROUND


@dataclass(frozen=True, slots=True)
class Register:
    """A subscriber registers a subscription under a number of its own (paper 4, table 1).

    With admission control, the lowest `priority` degrades first, and what was `admitted` before is not judged again.

    With `local_first` the subscriber is satisfied with publishers at its own broker, as long as some of them advertise
    something that the filter overlaps (paper 2, 2.3(1)). It is a permission: a scheme may tell other brokers all the
    same, and then the subscriber is notified of more.
    """

    subscription: int
    filter: Filter
    priority: int = 0
    admitted: bool = False
    local_first: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """A subscriber cancels a subscription (paper 4, table 1)."""

    subscription: int


@dataclass(frozen=True, slots=True)
class Resume:
    """A subscriber moved here, or a durable one comes; before its `Register`.

    Attributes
    ----------
    marks
        The last sequence of each publisher that it had; of a durable one, that it acknowledged.
    since_seconds
        How long ago it first subscribed.
    away_seconds
        How long ago it last heard of its broker, at most.
    life
        Of a durable subscriber: grows whenever it comes, wherever that is; 0 for one that is not durable.
    numbers
        Of a durable subscriber: its subscriptions. Others that are still here under its name are cancelled.
    ages_seconds
        How long ago it made each of the subscriptions that it brings along, by number.
    """

    marks: Mapping[str, int]
    since_seconds: float = float("inf")
    away_seconds: float = 0.0
    life: int = 0
    numbers: tuple[int, ...] = ()
    ages_seconds: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Consumed:
    """A durable subscriber in its `life` has done with all events up to these sequences, per publisher."""

    marks: Mapping[str, int]
    life: int


@dataclass(frozen=True, slots=True)
class HasHad:
    """A subscriber says up to which sequence of each publisher it was notified, to be compared with what is known."""

    marks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class HasConsumed:
    """A durable subscriber in its `life` says what it has acknowledged so far, to be compared with what is known."""

    marks: Mapping[str, int]
    life: int


@dataclass(frozen=True, slots=True)
class HasPublished:
    """A publisher says what the last number is that it has used, to be compared with what is known."""

    last: int


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A publisher tells a broker that it has left: another one has accepted its events from `first` to `last`."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Again:
    """A durable subscriber's host could not hand on all: say again what is kept from these sequences on."""

    first: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Flush:
    """A publisher asks to be told when all that it has published so far is delivered; `number` names the question."""

    number: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Events that a subscriber may have missed for good: of `publisher`, those from `first` to `last`."""

    publisher: ClientId
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Detach:
    """A client leaves: all its subscriptions are cancelled."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A numbered message of an interface (paper 4, section 3: ``adv(Sn)``); kept by its sender until acknowledged.

    Attributes
    ----------
    number
        Its number there. Of a publisher's events it is the sequence of the last one.
    before
        The number of the message before it, 0 for none: who has not had that one has a gap.
    message
        What travels.
    group
        Whether it is one of the messages to the sender's group, which have numbers of their own.
    """

    number: int
    before: int
    message: Any  # a BrokerMessage, ClientMessage, or one of admission control
    group: bool = False


@dataclass(frozen=True, slots=True)
class Ack:
    """The receiver has made all up to this number stable (paper 4, algorithm 2: ``ACK``).

    From a subscriber: it has been notified of all up to this number (`Deliver.number`).
    """

    number: int
    group: bool = False


@dataclass(frozen=True, slots=True)
class Back:
    """The sender is there again and has all up to this number: send what comes after it (paper 4, algorithm 3)."""

    number: int
    group: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """A broker of a hypercube tells all others what it wants; each passes it on (paper 2, 2.2 and 2.3).

    Attributes
    ----------
    version
        The view of the cube under which it travels: the ways are those of this view.
    origin, number
        Whose it is; each broker numbers what it spreads.
    change
        What it wants from now on, or no longer. None changes nothing: its echo says that all before it has arrived.
    """

    version: int
    origin: BrokerId
    number: int
    change: Announce | Withdraw | None


class Answer(NamedTuple):
    """A publisher that may have what a subscription asks for: who, at which broker, and what it advertises."""

    publisher: ClientId
    broker: BrokerId
    filter: Filter


@dataclass(frozen=True, slots=True)
class Echo:
    """The reply to a `Spread`, back along its path: it has been taken in here and by everybody behind.

    Attributes
    ----------
    version, origin, number
        Those of the `Spread`.
    answers
        Advertisements of publishers here and behind that overlap the filter, by broker (paper 2, 2.3(2)).
    more
        How many there are beside these: the answers that are named are bounded.
    """

    version: int
    origin: BrokerId
    number: int
    answers: tuple[Answer, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class Answers:
    """What a subscriber is told of publishers that may have what it asks for (paper 2, 2.3(1) and (4)).

    Attributes
    ----------
    number
        Of the subscription.
    known, more
        As in `Echo`.
    here
        Whether these are all at the subscriber's own broker and satisfy it: the subscription is in force there, and no
        other broker is told of it.
    """

    number: int
    known: tuple[Answer, ...]
    more: int = 0
    here: bool = False


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Publishers at the subscriber's broker satisfy a subscription no longer: all others are told of it now.

    What they publish is not due before that is confirmed.
    """

    number: int


NumberedMessage: TypeAlias = Numbered | Ack | Back
BrokerMessage: TypeAlias = (
    Events | Directed | Announce | Withdraw | Installed | Gone | Spread | Echo | NumberedMessage
)
ClientMessage: TypeAlias = (
    Events
    | Register
    | Cancel
    | Resume
    | Detach
    | Consumed
    | HasHad
    | HasConsumed
    | HasPublished
    | TakenOver
    | Again
    | Flush
    | NumberedMessage
)
Message: TypeAlias = BrokerMessage | ClientMessage
