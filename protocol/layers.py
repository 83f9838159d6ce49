"""The contract of a broker's layers, which lets features compose.

A broker is a stack of layers, like the pipelines of Netty and the protocol stacks of JGroups and Ensemble. Each
layer is a value machine with its own messages and state.

Rules
-----
* Events travel inwards, from the outermost layer to the layer that owns them. Effects travel outwards.
* A layer declares by type what it handles: `takes` has the messages and events that it owns, `sees` those of
  inner layers that it inspects on their way in, `alters` the effects and news of inner layers that it inspects on
  their way out. A type that is in none of these tables passes the layer without a call.
* A handler returns a list of actions, in order: effects for the outer layers, `Inward` for an event that goes to
  the inner layers, `Write` for a change that must be stable before anything of the step leaves, and news.
* A message that a layer has inspected continues inwards only as an `Inward`; an effect continues outwards only if
  the handler returns it. So a layer may consume, change, split, hold back and delay messages and effects.
* News is for the outer layers; news that no layer handles is dropped at the edge.
* A layer may have a `begin`. It returns events that the inner layers handle when an incarnation starts, before
  anything else. Their effects leave with the first step; nothing is written.
* A layer that handles ticks may have a `rests_until`. It returns the time before which a tick has no effect if
  nothing else happens. A layer without `rests_until` is always told the time.
* A layer may have `answers`: what it knows that hosts ask for, by the type of the query (`protocol/queries.py`).
* No layer names another one. Layers communicate through the news and events that are defined here.

docs/decisions/0021-layers.md explains why the contract has this form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Never, Protocol, TypeAlias

from .configs import Placed
from .effects import Died, Drained, Effect, Missed, Plain, Received, Rested, Ticked, Write
from .ids import BrokerId, ClientId, RoundNumber
from .messages.pubsub import Detach, Register
from .messages.rounds import Forgotten, Marker

# Events from a layer to the layers inside it.


@dataclass(frozen=True, slots=True)
class Tell:
    """Broadcast a message to every broker, behind everything sent to them before; the routing layer passes it on.

    Attributes
    ----------
    source
        The broker that it came from, to which it is not passed back; the broker itself where the broadcast
        begins.
    message
        The message to broadcast.
    whole
        Whether to send it nowhere, and report no `Passed`, unless an event published here would reach every
        broker.
    """

    source: BrokerId
    message: Forgotten | Marker
    whole: bool = False


@dataclass(frozen=True, slots=True)
class RoundWanted:
    """A client here may lack events: a round of retransmission should begin as soon as it is useful.

    With `repeated` the round was requested a while ago, and a message that it waits for may have been lost.
    """

    repeated: bool = False


@dataclass(frozen=True, slots=True)
class RoundHeard:
    """A round has begun at another broker of this network; this broker appears to have missed its start."""

    number: RoundNumber


@dataclass(frozen=True, slots=True)
class Restored:
    """A durable subscriber of an earlier incarnation was restored from a store, before any other event is handled.

    Attributes
    ----------
    client
        The subscriber.
    marks
        For each publisher, the last sequence that is not needed again.
    since
        When it first subscribed.
    registers
        Its subscriptions.
    begins
        Where each of them begins that was confirmed, by number, as in `Resume`.
    made
        When each of them was made, by number; `since` for others, which an earlier version has stored.
    """

    client: ClientId
    marks: Mapping[ClientId, int]
    since: float
    registers: tuple[Register, ...]
    begins: Mapping[int, Mapping[ClientId, int]] = field(default_factory=dict)
    made: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delivered:
    """Everything that had been sent at the time of the `IsDelivered` has reached every broker."""

    number: int


Event: TypeAlias = (
    Received
    | Ticked
    | Rested
    | Died
    | Drained
    | Missed
    | Tell
    | RoundWanted
    | RoundHeard
    | Restored
    | Delivered
)
"""What layers handle: events from outside, and events from outer layers."""


class Inward(NamedTuple):  # one is made for each message that passes a layer, and a tuple is made fast
    """Pass this event to the inner layers now; their actions take its place in the list."""

    event: Event


# News from a layer to the layers around it.


@dataclass(frozen=True, slots=True)
class RoundBegan:
    """A round of retransmission has begun at this broker."""

    number: RoundNumber


@dataclass(frozen=True, slots=True)
class Heard:
    """Another broker's broadcast arrived here, over the current routes of the network."""

    source: BrokerId
    message: Forgotten | Marker


@dataclass(frozen=True, slots=True)
class Passed:
    """A broadcast was passed on to these brokers; each of them answers for the brokers behind it."""

    source: BrokerId
    message: Forgotten | Marker
    to: frozenset[BrokerId]


@dataclass(frozen=True, slots=True)
class IsDelivered:
    """An inner layer asks to be told when everything sent so far has reached every broker."""

    number: int


@dataclass(frozen=True, slots=True)
class Held:
    """An inner layer has a subscription that the outer layers have not seen: it was restored from a store."""

    client: ClientId
    register: Register


@dataclass(frozen=True, slots=True)
class Released:
    """An inner layer has dropped a client without a message that the outer layers saw."""

    client: ClientId
    message: Detach


@dataclass(frozen=True, slots=True)
class CameBack:
    """A durable subscriber has come in a new incarnation: only these of its subscriptions are in force.

    The others are gone. An outer layer may know one that no inner layer has seen yet.
    """

    client: ClientId
    numbers: tuple[int, ...]


News: TypeAlias = Placed | RoundBegan | Heard | Passed | IsDelivered | Held | Released | CameBack
"""What a layer reports to the layers around it; `Placed` is the new position of the broker."""

Out: TypeAlias = Effect | News | Write | Inward
Handler: TypeAlias = Callable[[Never], list[Any]]
"""Takes an event, an effect or a news item, and returns a list of `Out`."""


class Layer(Protocol):
    """One feature of a broker."""

    @property
    def takes(self) -> Mapping[type, Handler]:
        """The handlers of what it owns, by the type of the message, or of the event when it is not a message."""
        ...

    @property
    def sees(self) -> Mapping[type, Handler]:
        """The handlers of what it inspects on the way to an inner layer."""
        ...

    @property
    def alters(self) -> Mapping[type, Handler]:
        """The handlers of what it inspects on the way out of an inner layer, by the type of the effect or news."""
        ...

    def snapshot(self) -> Plain:
        """Return the whole state as plain data that the layer does not change later."""
        ...

    def restore(self, plain: Plain) -> None:
        """Restore the state from a snapshot; only before anything was handled."""
        ...

    def describe(self) -> Mapping[str, int]:
        """Return the sizes of its tables and queues."""
        ...

    def check(self) -> None:
        """Assert the layer's invariants; for tests."""
        ...


class Recorded(Protocol):
    """What can be snapshotted and restored; such a layer works inside a layer that recovers from a store."""

    def changed_by(self, event: Received) -> bool:
        """Return whether a message can change the state."""
        ...

    def snapshot(self) -> Plain:
        """Return the whole state as plain data that the layer does not change later."""
        ...

    def restore(self, plain: Plain) -> None:
        """Restore the state from a snapshot; only before anything was handled."""
        ...


class RecordedLayer(Layer, Recorded, Protocol):
    """A layer that can be snapshotted and restored."""
