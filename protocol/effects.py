"""What a broker wants done: the effects that ``broker.handle(event)`` returns, and the events that it takes.

The contract of a host (the simulator, the Ray actor) is short:

* It hands the broker one event at a time and carries out the effects it gets back **in their order**.
* Two effects to the same link leave in the order in which they were returned, also over several events.
* It never changes a message: batches are shared.
* In a network that heals it tells the time (`Ticked`) several times a heartbeat, and when it could not for a whole one,
  before it hands over anything else: what is accepted must not seem older than it is.
* A broker that has nothing to do before some time (`rests_until`) need not be told it meanwhile, as long as the host
  hears those that it listens to. Then it is told so (`Rested`), and the time, before anything else.
* In a tree that heals it tells the broker of what did not reach another one that may live (`Missed`). From there on
  it hands that one nothing more over that way but heartbeats, until the broker says `Renew`: what was returned before
  that is gone.
* What comes after a `Persist`, also in later steps of the same broker, leaves only when its changes are stable. When
  they cannot be made so, nothing after it leaves, ever: the broker stands still until it is started again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias

from .batch import EventBatch, Rows
from .ids import BrokerId, ClientId, Link
from .messages.admission import AdmissionMessage, AdmissionRequest, News
from .messages.pubsub import BrokerMessage, Events, Lost, Message
from .messages.recovery import RecoveryMessage

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # one that may have a default, as in Python 3.13

    Source = TypeVar("Source", covariant=True, default=Link)
    Said = TypeVar(
        "Said", covariant=True, default=Message | RecoveryMessage | AdmissionMessage | AdmissionRequest
    )
else:
    from typing import TypeVar

    Source, Said = TypeVar("Source"), TypeVar("Said")


@dataclass(frozen=True, slots=True)
class Received(Generic[Source, Said]):
    """A message came in from a broker or a client.

    A handler of one type of message says what it is given: ``Received[ClientId, Register]``.
    """

    source: Source
    message: Said


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed: it is `now` seconds, on a clock of the host that never goes back."""

    now: float


@dataclass(frozen=True, slots=True)
class Rested:
    """The broker was told nothing since the last tick, as there was nothing to tell; a tick follows.

    Attributes
    ----------
    now
        Until when: no time that it stood still.
    heard
        When each of the brokers that it listens to was heard meanwhile, at least the last times; what that one had said
        before held until then.
    """

    now: float
    heard: Mapping[BrokerId, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Drained:
    """All that was delivered before the `Drain` of this number has reached its clients, or they are gone."""

    number: int


@dataclass(frozen=True, slots=True)
class Missed:
    """Something that was sent to a broker did not reach it, and nothing after it will before a `Renew`; it may live.

    Attributes
    ----------
    broker
        Who missed it.
    over_group
        Whether it was a multicast.
    seconds
        How long ago it was sent.
    anew
        Whether the other one was heard only now for the first time since it was started again. What was sent before
        then went nowhere: it matters as far as the broker knew of the new life by others.
    """

    broker: BrokerId
    over_group: bool
    seconds: float
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to one broker (paper 1: unicast)."""

    to: BrokerId
    message: BrokerMessage | RecoveryMessage | AdmissionMessage


@dataclass(frozen=True, slots=True)
class Multicast:
    """Send a message to every other member of the cluster (paper 1: multicast in the MC)."""

    message: BrokerMessage | RecoveryMessage


@dataclass(frozen=True, slots=True)
class Regroup:
    """From now on a multicast goes to these brokers; at first it is all other members of the position."""

    members: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Renew:
    """Hand messages to a broker again that has `Missed` some: those that are returned after this."""

    broker: BrokerId
    over_group: bool


@dataclass(frozen=True, slots=True, eq=False)
class Deliver:
    """Notify attached subscribers: client ``clients[i]`` of the events ``rows[starts[i]:starts[i + 1]]`` of `batch`.

    The rows of one client rise, so a client sees the events of one publisher in the order of publication. With a
    `number` it is delivered again until the client has acknowledged that number, or a higher one.

    `brought_by` is the message that brought them, in a network that heals: of which round they are, and how old.
    """

    batch: EventBatch
    clients: tuple[ClientId, ...]
    starts: Rows
    rows: Rows
    number: int = 0
    brought_by: Events | None = None


@dataclass(frozen=True, slots=True)
class Confirm:
    """Tell a subscriber that its subscription is installed up to the root; for the number see `Deliver`."""

    client: ClientId
    subscription: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Tell a client that what it sent up to this number is stable (paper 4: ``ACK``).

    `about` is "events" or "subscriptions": what a publisher sends and what a subscriber sends have numbers of their
    own.
    """

    client: ClientId
    about: str
    number: int


@dataclass(frozen=True, slots=True)
class TellLost:
    """Tell a subscriber what it may have lost for good."""

    client: ClientId
    losses: tuple[Lost, ...]


@dataclass(frozen=True, slots=True)
class Drain:
    """Say `Drained` when all that was delivered so far has reached its clients."""

    number: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """Tell a publisher that what it had published before its `Flush` of this number is delivered."""

    client: ClientId
    number: int


@dataclass(frozen=True, slots=True)
class Inform:
    """Tell a client what became of its subscription or its advertisement; for the number see `Deliver`."""

    client: ClientId
    news: News
    number: int = 0


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask a subscriber to move to another broker: nearer to its publishers, or because this one leaves (paper 2, 2.4).

    The client is free not to; when it moves, it does what it does when its broker dies.
    """

    client: ClientId
    broker: BrokerId


Key: TypeAlias = tuple[int | str, ...]


Plain: TypeAlias = Any
"""What a store can keep: numbers, strings, filters, batches and messages, in tuples, lists and mappings."""


class Write(NamedTuple):  # several are made a step, and a tuple is made faster than a dataclass
    """One change in stable storage: row `key` of `table` gets this value; None removes it."""

    table: str
    key: Key
    value: Plain


@dataclass(frozen=True, slots=True)
class Persist:
    """Make these changes stable, all of them or none (paper 4, algorithms 1 to 3: the atomic backup)."""

    writes: tuple[Write, ...]


Effect: TypeAlias = (
    Send
    | Multicast
    | Regroup
    | Renew
    | Deliver
    | Confirm
    | TellLost
    | Drain
    | Flushed
    | Acknowledge
    | Inform
    | Propose
    | Persist
)
