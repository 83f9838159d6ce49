"""What a layer of a broker is: the contract that lets features compose.

A broker is a stack of layers, as Netty's pipelines and JGroups' and Ensemble's protocol stacks are. Each is a value
machine with messages and state of its own.

Rules
-----
* Events travel inwards, from the outermost layer to the one whose they are. Effects travel outwards.
* A layer says by type what it does: `takes` has the messages and events that are its own, `sees` those of layers inside
  it that it looks at on their way in, `alters` the effects and news of layers inside it that it looks at on their way
  out. What is not in these tables goes by without a call.
* A handler returns a list of what is to be done, in order: effects for the layers around it, `Inward` where an event is
  to go to the layers inside, `Write` for what has to be stable before anything of the step leaves, and news.
* A message that a layer has looked at goes on inwards only as an `Inward`; an effect only if the handler returns it. So
  a layer may use up, change, split, hold back and send on later.
* News are for the layers around; what nobody asks for ends at the edge.
* A layer may have a `begin`, which returns events that the layers inside take in at the start of a life, before
  anything else. What is to be done for that leaves with the first step; nothing is written.
* A layer that is told the time may have a `rests_until`, which returns the moment before which that leads to nothing
  if nothing else happens; one that has none is always told it.
* No layer names another one. What two have to tell each other is a piece of news, or an event, that stands here.

docs/decisions/0021-layers.md says why it has this form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from .configs import Placed
from .effects import Drained, Effect, Missed, Plain, Received, Rested, Ticked, Write
from .ids import BrokerId, ClientId, RoundNumber
from .messages.pubsub import Cancel, Detach, Register
from .messages.rounds import Forgotten, Marker

# What a layer tells those inside it.


@dataclass(frozen=True, slots=True)
class Tell:
    """This message is for every broker, behind all that was sent to them before; whoever knows the ways passes it on.

    Attributes
    ----------
    source
        From where it came, where it is not passed back to; the broker itself where it begins.
    message
        What is told.
    whole
        Whether it goes nowhere, and is not `Passed`, unless an event that is published here would reach everybody.
    """

    source: BrokerId
    message: Forgotten | Marker
    whole: bool = False


@dataclass(frozen=True, slots=True)
class RoundWanted:
    """Somebody here may lack something: a round of sending again is to begin as soon as it can be of use.

    With `again` it has been wanted for a while, and what it waits for may have been lost on its way.
    """

    again: bool = False


@dataclass(frozen=True, slots=True)
class RoundHeard:
    """A round has begun at another broker that belongs with this one, which seems not to have been told."""

    number: RoundNumber


@dataclass(frozen=True, slots=True)
class Restored:
    """A durable subscriber is here since an earlier life: from a store, before anything else is taken in.

    Attributes
    ----------
    client
        Who.
    marks
        The last sequence of each publisher that is not needed again.
    since
        Since when it is a subscriber.
    registers
        What it wants.
    """

    client: ClientId
    marks: Mapping[ClientId, int]
    since: float
    registers: tuple[Register, ...]


@dataclass(frozen=True, slots=True)
class Delivered:
    """All that had been sent when this was asked (`IsDelivered`) has come to everybody."""

    number: int


Event: TypeAlias = (
    Received | Ticked | Rested | Drained | Missed | Tell | RoundWanted | RoundHeard | Restored | Delivered
)
"""What layers take in: what happened outside, and what layers around tell."""


class Inward(NamedTuple):  # one is made for each message that passes a layer, and a tuple is made fast
    """This event is for the layers inside now; what they want done stands in the place of this."""

    event: Event


# What a layer tells those around it.


@dataclass(frozen=True, slots=True)
class RoundBegan:
    """A round of sending again has begun at this broker."""

    number: RoundNumber


@dataclass(frozen=True, slots=True)
class Heard:
    """Another broker has told everybody this, and it came over the ways of the network as it stands."""

    source: BrokerId
    message: Forgotten | Marker


@dataclass(frozen=True, slots=True)
class Passed:
    """What was to be told from here on is on its way to these brokers, each of which answers for those behind it."""

    source: BrokerId
    message: Forgotten | Marker
    to: frozenset[BrokerId]


@dataclass(frozen=True, slots=True)
class IsDelivered:
    """A layer inside asks to be told when all that has been sent so far has come to everybody."""

    number: int


@dataclass(frozen=True, slots=True)
class Held:
    """A layer inside knows a subscription of a client that has not come this way: it was restored from a store."""

    client: ClientId
    register: Register


@dataclass(frozen=True, slots=True)
class Released:
    """A layer inside has let a subscription, or a client, go without a message that came this way."""

    client: ClientId
    message: Cancel | Detach


News: TypeAlias = Placed | RoundBegan | Heard | Passed | IsDelivered | Held | Released
"""What a layer tells those around it; `Placed` says where the broker stands from now on."""

Out: TypeAlias = Effect | News | Write | Inward
Handler: TypeAlias = Callable[[Any], list[Any]]
"""Takes an event, an effect or a piece of news, and returns a list of `Out`."""


class Layer(Protocol):
    """One feature of a broker."""

    @property
    def takes(self) -> Mapping[type, Handler]:
        """What is its own, by the type of the message, or of an event that is none."""
        ...

    @property
    def sees(self) -> Mapping[type, Handler]:
        """What it looks at on its way to a layer inside."""
        ...

    @property
    def alters(self) -> Mapping[type, Handler]:
        """What it looks at on its way out of a layer inside, by the type of the effect or the piece of news."""
        ...

    def snapshot(self) -> Plain:
        """Return all that it keeps, as plain data of its own: nothing that it changes later."""
        ...

    def restore(self, plain: Plain) -> None:
        """Be as the one was whose snapshot that is; only for one that has not handled anything."""
        ...

    def describe(self) -> Mapping[str, int]:
        """Return the sizes of what it keeps."""
        ...

    def check(self) -> None:
        """Assert its invariants; for tests."""
        ...


class Recorded(Protocol):
    """What can be put down and made again; a layer that is, works inside a layer that recovers from a store."""

    def changed_by(self, event: Received) -> bool:
        """Return whether a message can change what it keeps."""
        ...

    def snapshot(self) -> Plain:
        """Return all that it keeps, as plain data of its own: nothing that it changes later."""
        ...

    def restore(self, plain: Plain) -> None:
        """Be as the one was whose snapshot that is; only for one that has not handled anything."""
        ...


class RecordedLayer(Layer, Recorded, Protocol):
    """A layer that can be put down and made again."""
