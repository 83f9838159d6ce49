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
* No layer names another one. What two have to tell each other is a piece of news here.

docs/decisions/0021-layers.md says why it has this form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from .configs import Placed
from .effects import Drained, Effect, Missed, Plain, Received, Ticked, Write
from .ids import ClientId, RoundNumber
from .messages import Cancel, Detach, Register

Event: TypeAlias = Received | Ticked | Drained | Missed


class Inward(NamedTuple):  # one is made for each message that passes a layer, and a tuple is made fast
    """This event is for the layers inside now; what they want done stands in the place of this."""

    event: Event


@dataclass(frozen=True, slots=True)
class RoundBegan:
    """A round of sending again has begun at this broker."""

    number: RoundNumber


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


News: TypeAlias = Placed | RoundBegan | Held | Released
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
