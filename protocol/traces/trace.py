"""The trace of a run: an ordered list of operations, and the state of the system before each of them.

Rules
-----
* A trace is a sequence ``S1, op1, S2, op2, ...`` of states and operations. Only the operations are stored: a
  state follows from the operations before it. Positions count from 0. The order of the list is the order of
  time.
* The operations of the paper are :class:`Published`, :class:`Notified`, :class:`Registered`,
  :class:`Cancelled`, :class:`Adv` and :class:`UnAdv`. The others are ours. :class:`Confirmed`: the subscriber
  was told that its subscription is in force. :class:`Answered`: the subscription is in force for some
  publishers only. :class:`Settled`: the network was quiescent at that time. :class:`Advertised` and
  :class:`Unadvertised`: what a publisher says it will publish, which is not the paper's `Adv`.
* :class:`LossTold` is a claim: the system said that an event is lost. The trace also contains what could
  explain the claim: :class:`Bounded` says how much is retained, :class:`Kept` which broker or publisher
  retained an event, and its size, :class:`Died` which of them died with its events, :class:`Shed` for which
  other limit an event was dropped.
* A publisher's numbers rise in the order of publication. Where they do not, the trace is refused
  (:mod:`rayvous.faults.checker.numbers`), since no order of its events is known.
* A subscriber that subscribes under a number in use cancels the subscription that had the number.
* The trace is written outside the system, by the clients and by the program that runs them.

Source: paper 4, definitions 2 to 4, table 1, and section 2 for what `Adv` is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from ..ids import EventId


class Published(NamedTuple):
    """A publisher publishes an event."""

    at_seconds: float
    publisher: str
    sequence: int
    event: Mapping[str, object]


class Notified(NamedTuple):
    """A subscriber is notified of an event."""

    at_seconds: float
    client: str
    publisher: str
    sequence: int


class Registered(NamedTuple):
    """A subscriber registers a subscription, under a number of its own."""

    at_seconds: float
    client: str
    number: int
    selector: str


class Confirmed(NamedTuple):
    """A subscriber is told that its subscription is installed up to the root."""

    at_seconds: float
    client: str
    number: int


class Answered(NamedTuple):
    """A subscriber is told that its subscription is in force for these publishers and, until confirmed, no others.

    Publishers at its own broker satisfy it (paper 2, section 2.3(1)).
    """

    at_seconds: float
    client: str
    number: int
    publishers: tuple[str, ...]


class Cancelled(NamedTuple):
    """A subscriber cancels a subscription."""

    at_seconds: float
    client: str
    number: int


class Adv(NamedTuple):
    """A subscriber gives notice of what it intends to subscribe to, under a number of its own."""

    at_seconds: float
    client: str
    number: int
    selector: str


class UnAdv(NamedTuple):
    """A subscriber withdraws a notice."""

    at_seconds: float
    client: str
    number: int


class Advertised(NamedTuple):
    """A publisher says what it will publish, under a number of its own."""

    at_seconds: float
    publisher: str
    number: int
    selector: str


class Unadvertised(NamedTuple):
    """A publisher withdraws an advertisement."""

    at_seconds: float
    publisher: str
    number: int


class Settled(NamedTuple):
    """The network is quiescent: no message is in flight."""

    at_seconds: float


class LossTold(NamedTuple):
    """The system reports an event as lost, for one subscriber or, with "", for all."""

    at_seconds: float
    client: str
    publisher: str
    sequence: int


class Bounded(NamedTuple):
    """The least amount retained from here on: of publications or, with a client, for that durable subscriber."""

    at_seconds: float
    client: str
    events_max: int
    bytes_max: int
    seconds: float


class Kept(NamedTuple):
    """A broker, or with :data:`ITSELF` the publisher, retains an event. A batch is retained and released as one."""

    at_seconds: float
    broker: int
    publisher: str
    sequence: int
    batch: int
    size_bytes: int


class Died(NamedTuple):
    """A broker or, with :data:`ITSELF`, the publisher of that name has died with the events that it retained."""

    at_seconds: float
    broker: int
    publisher: str


class Shed(NamedTuple):
    """An event was dropped for a named limit, with the measured and the allowed value."""

    at_seconds: float
    publisher: str
    sequence: int
    limit: str
    measured: float
    allowed: float


ITSELF: Final = -1
"""In place of a broker number: the publisher, which also retains its own events."""

Operation: TypeAlias = (
    Published
    | Notified
    | Registered
    | Confirmed
    | Answered
    | Cancelled
    | Adv
    | UnAdv
    | Advertised
    | Unadvertised
    | Settled
    | LossTold
    | Bounded
    | Kept
    | Died
    | Shed
)


def describe(operation: Operation) -> str:
    """Return a readable form of an operation: its kind and its fields, without an event's content."""
    shown = [f"{value}" for name, value in operation._asdict().items() if name not in ("at_seconds", "event")]
    return f"{operation.at_seconds:.3f} s  {type(operation).__name__}({', '.join(shown)})"


class Trace:
    """A trace of operations, complete or in the making.

    Parameters
    ----------
    operations
        The initial operations, in order.

    Attributes
    ----------
    operations
        All operations, in order.
    """

    __slots__ = ("operations",)

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self.operations: list[Operation] = list(operations)

    def __len__(self) -> int:
        return len(self.operations)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def published(self, now: float, client: str, first: int, events: Iterable[Mapping[str, object]]) -> None:
        """Record that a publisher published events as number `first` and the following numbers."""
        for place, event in enumerate(events):
            self.operations.append(Published(now, client, first + place, event))

    def subscribed(self, now: float, client: str, number: int, selector: str) -> None:
        """Record that a subscription was registered, which is also a notice of it."""
        self.operations += [Adv(now, client, number, selector), Registered(now, client, number, selector)]

    def confirmed(self, now: float, client: str, number: int) -> None:
        """Record that a subscription was confirmed as installed."""
        self.operations.append(Confirmed(now, client, number))

    def answered(self, now: float, client: str, number: int, publishers: Iterable[str]) -> None:
        """Record that a subscription is in force for these publishers only."""
        self.operations.append(Answered(now, client, number, tuple(dict.fromkeys(publishers))))

    def cancelled(self, now: float, client: str, number: int) -> None:
        """Record that a subscription was cancelled, and its notice withdrawn."""
        self.operations += [Cancelled(now, client, number), UnAdv(now, client, number)]

    def notified(self, now: float, client: str, publisher: str, sequence: int) -> None:
        """Record a notification."""
        self.operations.append(Notified(now, client, publisher, sequence))

    def settled(self, now: float) -> None:
        """Record that no message is in flight."""
        self.operations.append(Settled(now))

    def lost(self, now: float, publisher: str, sequence: int, client: str = "") -> None:
        """Record that an event was reported lost, for one subscriber or for all."""
        self.operations.append(LossTold(now, client, publisher, sequence))

    def in_time(self) -> Trace:
        """Return the same trace in the order of its times. Operations with the same time stay in their order."""
        return Trace(sorted(self.operations, key=lambda operation: operation.at_seconds))

    def publications(self) -> dict[EventId, Published]:
        """Return every publication by its identity."""
        return {(op.publisher, op.sequence): op for op in self.operations if type(op) is Published}

    def notifications(self) -> list[Notified]:
        """Return every notification, in order."""
        return [op for op in self.operations if type(op) is Notified]

    def since(self, moment: float, without: Container[EventId] = ()) -> Trace:
        """Return the part about events that were published from a time on, with all subscriptions and the like.

        Events in `without` are left out.
        """
        published = self.publications().items()
        events = {event for event, op in published if op.at_seconds >= moment and event not in without}
        kinds = Published | Notified | LossTold | Kept | Shed
        return Trace(op for op in self if not isinstance(op, kinds) or (op.publisher, op.sequence) in events)

    def about(self, client: str, events: Container[EventId]) -> list[int]:
        """Return where the operations are that are about one subscriber and some events."""
        return [place for place, op in enumerate(self.operations) if _is_about(op, client, events)]


_OF_EVENTS: Final = (Notified, Published, Kept, Shed, LossTold)
_OF_CLIENTS: Final = (Registered, Confirmed, Answered, Cancelled)


def _is_about(operation: Operation, client: str, events: Container[EventId]) -> bool:
    if isinstance(operation, _OF_EVENTS):  # notifications of others as well: they show that a broker had it
        told_to_another = isinstance(operation, LossTold) and operation.client not in (client, "")
        return (operation.publisher, operation.sequence) in events and not told_to_another
    return not isinstance(operation, _OF_CLIENTS) or operation.client == client


def trace_of(
    published: Mapping[EventId, Mapping[str, object]],
    subscriptions: Mapping[str, Sequence[str]],
    notified: Mapping[str, Sequence[EventId]],
) -> Trace:
    """Return the trace of a run in which all subscriptions were installed first, and which settled at the end.

    Parameters
    ----------
    published
        All events.
    subscriptions
        Each subscriber's selectors.
    notified
        The events that each subscriber was notified of, in its order.
    """
    trace = Trace()
    for client, selectors in subscriptions.items():
        for number, selector in enumerate(selectors, 1):
            trace.subscribed(0.0, client, number, selector)
            trace.confirmed(0.0, client, number)
    publishers = list(dict.fromkeys(publisher for publisher, _ in published))
    for publisher, sequence in sorted(published, key=lambda event: (publishers.index(event[0]), event[1])):
        trace.published(1.0, publisher, sequence, [published[publisher, sequence]])
    for client, events in notified.items():
        for publisher, sequence in events:
            trace.notified(2.0, client, publisher, sequence)
    trace.settled(3.0)
    return trace


@dataclass(slots=True, eq=False)
class Life:
    """The lifetime of a subscription, a notice or an advertisement, as positions in the trace; None for never.

    Attributes
    ----------
    client
        The subscriber or, for an advertisement, the publisher.
    number, selector
        Its number at that client, and its filter.
    registered, installed, cancelled
        Where it was registered, first confirmed, and cancelled.
    terms
        For which publishers it is in force, and from where on; None stands for all publishers.
    """

    client: str
    number: int
    selector: str
    registered: int
    installed: int | None = None
    cancelled: int | None = None
    terms: list[tuple[int, frozenset[str] | None]] = field(default_factory=list)

    @property
    def named(self) -> frozenset[str]:
        """The publishers to which its force was ever limited."""
        return frozenset().union(*(of for _, of in self.terms if of is not None))

    def spans(self, publisher: str | None) -> list[tuple[int, int | None]]:
        """Return (begin, end) of the spans in which it is in force for a publisher; None is one that is not `named`."""
        found: list[tuple[int, int | None]] = []
        begin: int | None = None
        for position, of in self.terms:
            inside = of is None or publisher in of
            if inside and begin is None:
                begin = position
            elif not inside and begin is not None:
                found.append((begin, position))
                begin = None
        return found if begin is None else [*found, (begin, self.cancelled)]


Begins: TypeAlias = type[Registered] | type[Adv] | type[Advertised]

ENDS: Final[dict[Begins, type[Cancelled] | type[UnAdv] | type[Unadvertised]]] = {
    Registered: Cancelled,
    Adv: UnAdv,
    Advertised: Unadvertised,
}
"""The operation that ends the lifetime which each of these begins."""


def lives(operations: Iterable[Operation], begins: Begins = Registered) -> list[Life]:
    """Return every subscription, or every lifetime that `begins` starts, in the order of registration."""
    return placed_lives(enumerate(operations), begins)


def placed_lives(placed: Iterable[tuple[int, Operation]], begins: Begins = Registered) -> list[Life]:
    """Return the same as :func:`lives` for some of a trace's operations, each with its position there."""
    out: list[Life] = []
    current: dict[tuple[str, int], Life] = {}
    ends = ENDS[begins]
    for position, op in placed:
        if isinstance(op, begins):
            before = current.get((op[1], op.number))
            if before is not None:
                before.cancelled = position
            life = current[op[1], op.number] = Life(op[1], op.number, op.selector, position)
            out.append(life)
        elif isinstance(op, ends):
            ended = current.pop((op[1], op.number), None)
            if ended is not None:
                ended.cancelled = position
        elif isinstance(op, Confirmed | Answered) and begins is Registered:
            found = current.get((op.client, op.number))
            if found is None:
                continue
            of = None if isinstance(op, Confirmed) else frozenset(op.publishers)
            if of is None and found.installed is None:
                found.installed = position
            found.terms.append((position, of))
    return out


def by_client(found: Iterable[Life]) -> dict[str, list[Life]]:
    """Return lifetimes by client, in their order."""
    out: dict[str, list[Life]] = {}
    for life in found:
        out.setdefault(life.client, []).append(life)
    return out


@dataclass(slots=True)
class State:
    """The state of the system (definition 2).

    Attributes
    ----------
    act_sub
        ActSub: each subscriber's active subscriptions, ``{client: {number: selector}}``.
    pub_noti
        PubNoti: what each publisher has published so far.
    act_adv
        ActAdv: each subscriber's active notices.
    offers
        Each publisher's active advertisements.
    """

    act_sub: dict[str, dict[int, str]] = field(default_factory=dict)
    pub_noti: dict[str, dict[int, Mapping[str, object]]] = field(default_factory=dict)
    act_adv: dict[str, dict[int, str]] = field(default_factory=dict)
    offers: dict[str, dict[int, str]] = field(default_factory=dict)

    def after(self, operation: Operation) -> None:
        """Apply an operation to the state."""
        match operation:
            case Published(_, publisher, sequence, event):
                self.pub_noti.setdefault(publisher, {})[sequence] = event
            case Registered(_, client, number, selector):
                self.act_sub.setdefault(client, {})[number] = selector
            case Cancelled(_, client, number):
                self.act_sub.get(client, {}).pop(number, None)
            case Adv(_, client, number, selector):
                self.act_adv.setdefault(client, {})[number] = selector
            case UnAdv(_, client, number):
                self.act_adv.get(client, {}).pop(number, None)
            case Advertised(_, publisher, number, selector):
                self.offers.setdefault(publisher, {})[number] = selector
            case Unadvertised(_, publisher, number):
                self.offers.get(publisher, {}).pop(number, None)


def steps(operations: Iterable[Operation]) -> Iterator[tuple[State, Operation]]:
    """Yield (state before it, operation). The state is one object that changes along the trace."""
    state = State()
    for operation in operations:
        yield state, operation
        state.after(operation)
