"""Messages of publish/subscribe: between brokers, and between a client and its broker.

Rules
-----
* A link delivers its messages in the order in which they were sent.
* Between brokers a subscription is its filter: a broker tells its neighbour which filters it wants events for. Only
  the broker that a subscriber is attached to knows the subscriber.
* A `token` identifies one announcement of a filter, and the answer carries it. When a filter was withdrawn and
  announced again, a late answer to the first announcement is not mistaken for an answer to the second.
* Between brokers that recover from crashes, and their clients, each message travels in a `Numbered` and is
  acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ..batch import EventBatch
from ..ids import FIRST_ROUND, Ballot, BrokerId, ClientId, RoundNumber
from ..quick import quick

if TYPE_CHECKING:  # only a type: this module neither creates filters nor inspects them
    from ...routing.filters.filter import Filter


@quick
@dataclass(frozen=True, slots=True)
class Events:
    """Events in transit: from a publisher to its broker, or from one broker to another (paper 1: event).

    All fields but the batch are *marks*, of all its events. Messages with equal marks are joined, a part of a message
    has its marks, and links and stores write them in the order of their declaration. So a further mark is one line
    here, the last one, with a default: a number, a string, None, or a tuple of these.

    Attributes
    ----------
    round
        The round in which the publisher's broker sent them.
    retransmitted
        Whether they are retransmitted, that is, were sent before in an earlier round.
    ballot
        Over a group that heals: the ballot of the designated broker under which they were sent.
    age_seconds
        For retransmitted events, the minimum time since the publisher's broker had accepted them.
    forgot_seconds
        For events that a publisher publishes again at another broker: how long ago it published the events that it no
        longer retains.
    repair_window_seconds
        How far back the round repairs losses: see `Round`.
    entry
        In a hypercube or a graph: the broker at which they were published. In a cluster that fans out: the member that
        fans out.
    number
        In a graph with cycles: how many messages with events their `entry` had sent under the view, with this one.
    """

    batch: EventBatch
    round: RoundNumber = FIRST_ROUND
    retransmitted: bool = False
    ballot: Ballot | None = None
    age_seconds: float = 0.0
    forgot_seconds: float = 0.0
    repair_window_seconds: float = 0.0
    entry: BrokerId | None = None
    number: int = 0

    def __reduce__(self) -> tuple[type[Events], tuple[object, ...]]:
        """Reduce to the batch, and the marks if any differs from its default; who reads them fills in later marks."""
        marks = marks_of(self)
        return Events, (self.batch,) if marks == DEFAULT_MARKS else (self.batch, *marks)


_MARKS: Final = tuple(each for each in fields(Events) if each.name != "batch")
DEFAULT_MARKS: Final = tuple(each.default for each in _MARKS)
marks_of: Final[Callable[[Events], tuple[object, ...]]] = eval(
    f"lambda events: ({', '.join(f'events.{each.name}' for each in _MARKS)},)"
)
"""Returns the marks of a message, in the order of their declaration. It is written out, as `dataclass` writes its
methods, because every message that waits for a link asks for them."""


def _written_out(*changed: str) -> str:
    """Return a function from a message and these fields to a message; `replace` takes several times as long."""
    given = (f"{each.name}={'' if each.name in changed else 'events.'}{each.name}" for each in fields(Events))
    return f"lambda events, {', '.join(changed)}: Events({', '.join(given)})"


part_of: Final[Callable[[Events, EventBatch, BrokerId | None], Events]] = eval(
    _written_out("batch", "entry"), {"Events": Events}
)
"""Returns a message of a part of another's events, with its marks and this entry; the method of paper 5 does this at
every hop."""

in_round: Final[Callable[[Events, RoundNumber, float], Events]] = eval(
    _written_out("round", "repair_window_seconds"), {"Events": Events}
)
"""Returns a message as one that is sent in a round; where brokers heal, every publication becomes one."""


@quick
@dataclass(frozen=True, slots=True)
class Directed:
    """Events whose destinations are already decided (paper 5): row ``i`` is for the brokers ``targets[i]`` only.

    `origin` is the publisher's broker. ``numbers[i]`` has, for each of those brokers, how many events the origin has
    directed to it so far; in a network that heals, so far in this round.
    """

    events: Events
    origin: BrokerId
    targets: tuple[tuple[BrokerId, ...], ...]
    numbers: tuple[tuple[int, ...], ...]

    @property
    def batch(self) -> EventBatch:
        """The batch of the events."""
        return self.events.batch

    @property
    def round(self) -> RoundNumber:
        """The round of the events."""
        return self.events.round


@dataclass(frozen=True, slots=True)
class Gone:
    """A broker is gone for good; sent by a broker that could not reach it, or by a host that knows."""

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

    In a network that heals, `round` is the highest round known on the path; a later round began after the
    installation. `high_water` has the highest number of each publisher that the sender knows, as far as it has not
    stated that over this link before.
    """

    token: int
    round: RoundNumber = FIRST_ROUND
    high_water: Mapping[ClientId, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Register:
    """A subscriber registers a subscription under a number that it chooses (paper 4, table 1).

    With admission control, the subscription of lowest `priority` degrades first, and a subscription that was
    `admitted` before is not judged again.

    With `local_first` publishers at the subscriber's own broker suffice, as long as the advertisement of at least
    one of them overlaps the filter (paper 2, 2.3(1)). This is a permission: a scheme may still tell other
    brokers, and then the subscriber receives more notifications.

    With `max_delay` it is refused if its events wait longer for brokers and links on their way, in seconds.

    With `past` its subscriber reads what was accepted before it from histories, and so is owed everything behind the
    position at which it begins, however long ago that was accepted: by a broker that is gone, for example.
    """

    subscription: int
    filter: Filter
    priority: int = 0
    admitted: bool = False
    local_first: bool = False
    max_delay: float | None = None
    past: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """A subscriber cancels a subscription (paper 4, table 1)."""

    subscription: int


@dataclass(frozen=True, slots=True)
class ReadClock:
    """Ask a broker what its clock reads: by a subscriber that is about to come, or a broker that is to hand some over.

    See `Resume` and `SubscriberBequest`.
    """


@dataclass(frozen=True, slots=True)
class ClockReads:
    """The answer to `ReadClock`, in seconds."""

    now: float


@dataclass(frozen=True, slots=True)
class Resume:
    """A subscriber moved here, or a durable subscriber connects; sent before its `Register`.

    Attributes
    ----------
    marks
        For each publisher, the last sequence that it received; for a durable subscriber, that it acknowledged.
    since_seconds
        How long ago it first subscribed.
    away_seconds
        The maximum time since it last heard from its broker.
    incarnation
        Of a durable subscriber: increases with each connection, at any broker; 0 for one that is not durable.
    numbers
        Of a durable subscriber: its subscriptions. Others that are still here under its name are cancelled.
    ages_seconds
        How long ago it made each of the subscriptions that it brings along, by number.
    begins
        Where each of its subscriptions begins that some broker has confirmed, by number: per publisher, the last
        sequence that the subscription is not owed.
    clock
        What the broker's clock read when the subscriber asked it (`ReadClock`), before it stated the ages above; None
        if it did not ask.
    """

    marks: Mapping[str, int]
    since_seconds: float = float("inf")
    away_seconds: float = 0.0
    incarnation: int = 0
    numbers: tuple[int, ...] = ()
    ages_seconds: Mapping[int, float] = field(default_factory=dict)
    begins: Mapping[int, Mapping[ClientId, int]] = field(default_factory=dict)
    clock: float | None = None

    def stated_at(self, now: float, unnoticed_seconds: float) -> float:
        """Return a time on the broker's clock that is not after the one at which the subscriber stated the ages.

        The ages count from then on backwards: what was accepted before such a beginning is older than the
        subscription. How long the message was under way says nothing if the subscriber has asked for the time before.

        Parameters
        ----------
        now
            The time at the broker.
        unnoticed_seconds
            How long a message may be under way; it counts where the broker was not asked.
        """
        return stated_at(self.clock, now, unnoticed_seconds)


def stated_at(clock: float | None, now: float, unnoticed_seconds: float) -> float:
    """Return what `Resume.stated_at` does, for ages that were stated after that reading of the broker's clock."""
    # A reading of the future is of a broker that has been restarted since, with another clock.
    return clock if clock is not None and clock <= now else now - unnoticed_seconds


@dataclass(frozen=True, slots=True)
class Consumed:
    """A durable subscriber in this `incarnation` has acknowledged all events up to these sequences, per publisher.

    When it reconnects, `begins` is as in `Resume`, and `since` has when each subscription was made, by number, on the
    clock of its broker.
    """

    marks: Mapping[str, int]
    incarnation: int
    begins: Mapping[int, Mapping[ClientId, int]] = field(default_factory=dict)
    since: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """A durable subscriber in this `incarnation` gives an event up, and says why: it becomes a dead letter.

    The subscriber acknowledges the event afterwards. It brings what the event says: a broker to which it has moved may
    not have it yet.
    """

    publisher: ClientId
    sequence: int
    event: Mapping[str, object]
    reason: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class HasHad:
    """A subscriber reports the last sequence that it received of each publisher, to compare with the broker's state."""

    marks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class HasConsumed:
    """A durable subscriber in this `incarnation` reports what it has acknowledged, for comparison with its broker."""

    marks: Mapping[str, int]
    incarnation: int


@dataclass(frozen=True, slots=True)
class HasPublished:
    """A publisher reports the last number that it has used, for comparison with the broker's state."""

    last: int


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A publisher tells its former broker that another broker has accepted its events from `first` to `last`."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Resend:
    """The host of a durable subscriber could not hand on everything: resend retained events from these sequences on."""

    first: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Flush:
    """A publisher asks to be told when everything it published so far is delivered; `number` identifies the request."""

    number: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Events that a subscriber may have lost for good: those of `publisher` from `first` to `last`."""

    publisher: ClientId
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Detach:
    """A client leaves: all its subscriptions are cancelled."""


@quick
@dataclass(frozen=True, slots=True)
class Numbered:
    """A numbered message of an interface (paper 4, section 3: ``adv(Sn)``); its sender retains it until acknowledged.

    Attributes
    ----------
    number
        Its number on the interface. For a publisher's events, the sequence of the last event.
    before
        The number of the message before it, 0 for none. A receiver without that message has a gap.
    message
        The payload.
    group
        Whether it is a message to the sender's group; these are numbered separately.
    """

    number: int
    before: int
    message: Any  # a BrokerMessage, ClientMessage, or one of admission control
    group: bool = False


@quick
@dataclass(frozen=True, slots=True)
class Ack:
    """The receiver has made everything up to this number stable (paper 4, algorithm 2: ``ACK``).

    From a subscriber: it has received everything up to this number (`Deliver.number`).
    """

    number: int
    group: bool = False


@dataclass(frozen=True, slots=True)
class Back:
    """The sender has recovered and has everything up to this number: resend what follows (paper 4, algorithm 3)."""

    number: int
    group: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """A broker of a hypercube tells all others what it wants; each broker passes the message on (paper 2, 2.2 and 2.3).

    Attributes
    ----------
    version
        The view of the cube under which it travels; it takes the routes of this view.
    origin, number
        The broker that sent it first, and the number that this broker gave it.
    change
        A filter that the origin wants from now on, or no longer wants. None changes nothing: its echo confirms that
        everything before it has arrived.
    """

    version: int
    origin: BrokerId
    number: int
    change: Announce | Withdraw | None


class Answer(NamedTuple):
    """A publisher whose advertisement overlaps a subscription: its name, its broker, and the advertised filter."""

    publisher: ClientId
    broker: BrokerId
    filter: Filter


@dataclass(frozen=True, slots=True)
class Echo:
    """The reply to a `Spread`, back along its path: this broker and all brokers behind it have processed the `Spread`.

    Attributes
    ----------
    version, origin, number
        Those of the `Spread`.
    answers
        Advertisements, of publishers here and behind this broker, that overlap the filter, by broker (paper 2,
        2.3(2)).
    more
        How many further advertisements exist; the number of listed answers is bounded.
    high_water
        In a network that heals, as in `Installed`.
    """

    version: int
    origin: BrokerId
    number: int
    answers: tuple[Answer, ...] = ()
    more: int = 0
    high_water: Mapping[ClientId, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Answers:
    """Tell a subscriber which publishers may have the events that it asks for (paper 2, 2.3(1) and (4)).

    Attributes
    ----------
    number
        The number of the subscription.
    known, more
        The answers, and how many more exist, as in `Echo`.
    here
        Whether all of them are at the subscriber's own broker and satisfy it. Then the subscription is in force
        there, and no other broker is told of it.
    begins
        In a network that heals, where the subscription begins if it is in force: as in `Resume`.
    """

    number: int
    known: tuple[Answer, ...]
    more: int = 0
    here: bool = False
    begins: Mapping[ClientId, int] = field(default_factory=dict, hash=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Publishers at the subscriber's broker no longer satisfy a subscription; all other brokers are told of it now.

    Events published at other brokers are not guaranteed before the subscription is confirmed.
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
    | ReadClock
    | Resume
    | Detach
    | Consumed
    | Undeliverable
    | HasHad
    | HasConsumed
    | HasPublished
    | TakenOver
    | Resend
    | Flush
    | NumberedMessage
)
Message: TypeAlias = BrokerMessage | ClientMessage
