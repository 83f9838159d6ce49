"""The events that a broker handles, and the effects that ``broker.handle(event)`` returns.

The contract of a host (the simulator or the Ray actor):

* The host hands the broker one event at a time and carries out the returned effects **in their order**.
* Two effects to the same link leave in the order in which they were returned, also across several events.
* The host never changes a message, because batches are shared.
* In a network that heals, the host tells the time (`Ticked`) several times per heartbeat. After a stall of a
  whole heartbeat, it tells the time before it hands over anything else: received messages must not seem older
  than they are.
* A broker that has nothing to do before some time (`rests_until`) need not be told the time until then, as long
  as the host hears the peers that the broker listens to. Then the host tells it that (`Rested`), and the time,
  before anything else.
* In a tree that heals, the host reports each message that did not reach a broker that may be alive (`Missed`). After
  that, it hands that broker only heartbeats over that path until the broker returns `Renew`; effects for that path
  that were returned before the `Renew` are dropped.
* Effects after a `Persist`, also those of later steps of the same broker, leave only when the changes are stable. If
  the changes cannot be made stable, no later effect ever leaves: the broker is halted until it is restarted.
* Who gets a `Deliver` is determined when the broker returns it, however long it waits for a `Persist` then. A
  subscriber that has come back meanwhile does not get it: it gets everything again, in order, by effects that follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias

from .batch import EventBatch, Rows
from .ids import BrokerId, ClientId, Link
from .messages.admission import AdmissionMessage, AdmissionRequest, News
from .messages.pubsub import BrokerMessage, Events, Lost, Message
from .messages.recovery import RecoveryMessage
from .quick import quick

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # this one supports defaults, as in Python 3.13

    Source = TypeVar("Source", covariant=True, default=Link)
    Said = TypeVar(
        "Said", covariant=True, default=Message | RecoveryMessage | AdmissionMessage | AdmissionRequest
    )
else:
    from typing import TypeVar

    Source, Said = TypeVar("Source"), TypeVar("Said")


@quick
@dataclass(frozen=True, slots=True)
class Received(Generic[Source, Said]):
    """A message from a broker or a client arrived.

    A handler of one message type names its argument type: ``Received[ClientId, Register]``.
    """

    source: Source
    message: Said


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed.

    Attributes
    ----------
    now, behind
        What the host's monotonic clock reads now, in seconds, and how many seconds more its wall clock reads.
    stalled
        For how many of the seconds so far the host did not get to what had arrived. They say nothing about the silence
        of others.
    """

    now: float
    behind: float = 0.0
    stalled: float = 0.0


@dataclass(frozen=True, slots=True)
class Rested:
    """The broker rested since the last tick because there was nothing to tell it; a tick follows.

    Attributes
    ----------
    now
        The end of the rest. The rest does not count as a stall of the broker.
    heard
        When each of the brokers that it listens to was heard meanwhile, at least the most recent times. The last
        state that such a broker had reported held until then.
    """

    now: float
    heard: Mapping[BrokerId, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Died:
    """The transport knows for certain that the process of another broker is dead; a tick follows."""

    broker: BrokerId


@dataclass(frozen=True, slots=True)
class Drained:
    """Everything delivered before the `Drain` of this number has reached its clients, or the clients are gone."""

    number: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A message did not reach a broker that may be alive; no later message will before a `Renew`.

    Attributes
    ----------
    broker
        The broker that missed the message.
    over_group
        Whether the message was a multicast.
    seconds
        How long ago the message was sent.
    anew
        Whether the other broker was heard only now for the first time since its restart. Earlier messages reached
        nobody; they matter only if this broker already knew of the new incarnation from others.
    """

    broker: BrokerId
    over_group: bool
    seconds: float
    anew: bool = False


@quick
@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to one broker (paper 1: unicast)."""

    to: BrokerId
    message: BrokerMessage | RecoveryMessage | AdmissionMessage


@quick
@dataclass(frozen=True, slots=True)
class Multicast:
    """Send a message to every other member of the cluster (paper 1: multicast in the MC)."""

    message: BrokerMessage | RecoveryMessage


@dataclass(frozen=True, slots=True)
class Regroup:
    """Send multicasts to these brokers from now on; initially they go to all other members of the position."""

    members: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Renew:
    """Resume sending to a broker that has `Missed` messages, beginning with those returned after this effect."""

    broker: BrokerId
    over_group: bool


@quick
@dataclass(frozen=True, slots=True, eq=False)
class Deliver:
    """Notify attached subscribers: client ``clients[i]`` of the events ``rows[starts[i]:starts[i + 1]]`` of `batch`.

    The rows of one client rise, so a client sees the events of one publisher in the order of publication. With a
    `number` the delivery is repeated until the client has acknowledged that number, or a higher one.

    In a network that heals, `brought_by` is the message that brought the events; it has their round and their age.
    """

    batch: EventBatch
    clients: tuple[ClientId, ...]
    starts: Rows
    rows: Rows
    number: int = 0
    brought_by: Events | None = None


@dataclass(frozen=True, slots=True)
class Confirm:
    """Tell a subscriber that its subscription is installed up to the root; for the number see `Deliver`.

    In a network that heals, `begins` is where the subscription begins: per publisher, the last sequence that it is
    not owed.
    """

    client: ClientId
    subscription: int
    number: int = 0
    begins: Mapping[ClientId, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Tell a client that everything it sent up to this number is stable (paper 4: ``ACK``).

    `about` is "events" or "subscriptions": publishers' and subscribers' messages are numbered separately.
    """

    client: ClientId
    about: str
    number: int


@dataclass(frozen=True, slots=True)
class TellLost:
    """Tell a subscriber which events it may have lost for good."""

    client: ClientId
    losses: tuple[Lost, ...]


@dataclass(frozen=True, slots=True)
class Drain:
    """Report `Drained` when everything delivered so far has reached its clients."""

    number: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """Tell a publisher that everything it published before its `Flush` of this number is delivered."""

    client: ClientId
    number: int


@dataclass(frozen=True, slots=True)
class Inform:
    """Tell a client the outcome of its subscription or advertisement; for the number see `Deliver`."""

    client: ClientId
    news: News
    number: int = 0


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask a subscriber to move to another broker: nearer to its publishers, or because this one leaves (paper 2, 2.4).

    The client may decline. To move, it takes the same steps as after a crash of its broker.
    """

    client: ClientId
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class TickAt:
    """Tell the broker the time as soon as its clock reads `at`, besides the regular ticks; at once if it is later.

    Only what would otherwise wait for the next regular tick depends on it: the host may drop it.
    """

    at: float


@dataclass(frozen=True, slots=True)
class Meet:
    """Find out how to reach these brokers: this one sends to them as soon as a broker here or next to it has died.

    It is a hint: messages arrive without it, but the first ones later.
    """

    brokers: tuple[BrokerId, ...]


Key: TypeAlias = tuple[int | str, ...]


Plain: TypeAlias = Any
"""What a store can hold: numbers, strings, filters, batches and messages, in tuples, lists and mappings."""


class Write(NamedTuple):  # a step creates several, and a tuple is faster to create than a dataclass
    """One change in stable storage: set row `key` of `table` to this value; None removes the row."""

    table: str
    key: Key
    value: Plain


@dataclass(frozen=True, slots=True)
class Persist:
    """Make these changes stable atomically (paper 4, algorithms 1 to 3: the atomic backup)."""

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
    | TickAt
    | Meet
    | Persist
)
