"""What a broker expects of a scheme: of its class, of every router, and of routers in networks that heal.

Rules
-----
* A scheme is a class, built in or `module:Class`. What it claims, its options, who decides on its membership and how
  it heals stand on the class; nothing else is said of a scheme anywhere, and nothing asks for its name.
* A router of a tree that heals is a `TreeRouting`, one of views a `ViewRouting`: `recovery.membership` calls nothing
  else of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from ...protocol.batch import EventBatch
from ...protocol.configs import Placed, Position
from ...protocol.effects import Effect, Plain, Received
from ...protocol.ids import BrokerId, ClientId, Link
from ...protocol.layers import Layer
from ...protocol.messages.recovery import Recovery
from ...protocol.messages.rounds import Forgotten, Marker
from ...protocol.messages.views import MembershipView, ViewWants
from ..filters.filter import Filter
from .claims import Claims, Membership

Tokens: TypeAlias = Iterable[tuple[Filter, int]]
"""Filters, each with the token of its announcement."""

LayerOf: TypeAlias = Callable[[BrokerId, Recovery], Layer]
"""Makes a layer of a broker in a network that heals."""


class Router(Protocol):
    """A routing scheme: its class says what it promises, and a router is its part of one broker."""

    claims: ClassVar[Claims]
    membership: ClassVar[Membership]
    options: ClassVar[Mapping[str, type[Router]]]
    """The class of the scheme with options, by their names (``"quench+merge"``); a derived class has its own."""
    layers: ClassVar[tuple[LayerOf, ...]]
    """The layers that only this scheme has, where it heals; they surround retransmission."""
    relays: ClassVar[bool]
    """Whether a broker announces the filters of other brokers too, and not only those of its own clients."""

    position: Position

    def __init__(self, position: Position) -> None: ...

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return the places of the brokers of a cluster tree under this scheme."""
        ...

    @classmethod
    def healing(cls, position: Position, recovery: Recovery) -> Router:
        """Return the router of a place in a network that heals: a `TreeRouting` or `ViewRouting`, by `membership`."""
        ...

    @staticmethod
    def beside(position: Position) -> Collection[BrokerId] | None:
        """Return the brokers linked to one at this place where neither is above the other; None on a tree or mesh."""
        ...

    @property
    def takes(self) -> frozenset[type]:
        """The types of the messages that the router handles."""
        ...

    def placed(self) -> Placed:
        """Return the place of the broker: its neighbours, and how events flow between them."""
        ...

    def handle(self, event: Received) -> list[Effect]:
        """Handle one message and return the resulting effects."""
        ...

    def changed_by(self, event: Received) -> bool:
        """Return whether a message can change the router's state, so that it must be recorded."""
        ...

    def held(self) -> Iterator[tuple[Filter, Link, Hashable]]:
        """Iterate over (filter, link, holder): the filters that are wanted over each link, and their holders."""
        ...

    def kept(self) -> Iterable[Filter]:
        """Return the filters of clients that are withheld from other brokers."""
        ...

    def announced(self) -> Mapping[tuple[Link, BrokerId], tuple[Filter, ...]]:
        """Return the filters that were announced to other brokers, by (link that leads there, broker)."""
        ...

    def snapshot(self) -> Plain:
        """Return the whole state of the router, as data for a store."""
        ...

    def restore(self, plain: Plain) -> None:
        """Restore the state from a snapshot of this broker's router; only before anything was handled.

        Afterwards both routers behave identically, including the order of their effects.
        """
        ...

    def describe(self) -> dict[str, int]:
        """Return the sizes of the router's tables and queues."""
        ...

    def check(self) -> None:
        """Assert the router's invariants; for tests."""
        ...


class TreeRouting(Router, Protocol):
    """A router whose broker may take over, step down, lose its parent and find another (`clusters`)."""

    floods: ClassVar[bool]
    attached: bool

    def move(self, position: Position, *, attached: bool) -> None:
        """Change the place, and whether there is a path up."""
        ...

    def meet(self, other_members: Iterable[BrokerId]) -> None:
        """Set the other members of the group."""
        ...

    def knows(self, other_members: Iterable[BrokerId]) -> bool:
        """Return whether these are the other members of the group."""
        ...

    def forget_parent(self, *, top: bool = False, keep: bool = False) -> list[Effect]:
        """Mark every announced filter as not installed; at the top, as installed."""
        ...

    def wants(self) -> tuple[tuple[Filter, int], ...]:
        """Return all filters that the parent must know, with tokens."""
        ...

    def settled(self) -> bool:
        """Return whether every announced filter is installed up to the root."""
        ...

    def adopt(self, link: Link, holder: BrokerId, filters: Tokens, *, answer: bool = True) -> list[Effect]:
        """Adopt the set of filters of `holder` behind `link`."""
        ...

    def drop(self, link: Link, holder: BrokerId) -> list[Effect]:
        """Remove all filters of `holder` behind `link`."""
        ...

    def copy(self, old: Link, holder: BrokerId) -> tuple[Filter, ...]:
        """Return the filters of `holder` behind `old`."""
        ...

    def meet_child(self, child: BrokerId) -> None:
        """Note that a child, or its new designated broker, lacks everything that it was told before."""
        ...

    def tell_below(self) -> list[Effect]:
        """Return the messages due to the brokers below."""
        ...

    def subscribers(self) -> list[ClientId]:
        """Return the clients that have a subscription here."""
        ...

    def members_with_filters(self) -> list[BrokerId]:
        """Return the members of the group that have filters."""
        ...


class ViewRouting(Router, Protocol):
    """A router that follows the views of the rendezvous point (`viewed`)."""

    view: MembershipView | None
    missing: set[BrokerId]
    lacking: bool

    def neighbours(self) -> list[BrokerId]:
        """Return the brokers to which it sends events; none before the first view."""
        ...

    def enter(self, view: MembershipView) -> None:
        """Make another view the current one."""
        ...

    def install(self, view: MembershipView, resend_to: Iterable[BrokerId] = ()) -> list[Effect]:
        """Switch to a view that includes this broker; return the messages to send under it."""
        ...

    def adopt(self, source: BrokerId, wants: ViewWants) -> list[Effect]:
        """Record all that a missing broker wants."""
        ...

    def to_all(self, message: Forgotten | Marker) -> list[Effect]:
        """Return the effects that broadcast a message to the view, behind the events that this broker has sent."""
        ...

    def settled(self) -> bool:
        """Return whether everything that was announced is installed everywhere."""
        ...

    def streams(self) -> Mapping[BrokerId, Hashable]:
        """Return, for each other broker, the event numbers between the two, which must be the same at both."""
        ...


@runtime_checkable
class PayloadRouting(Protocol):
    """What a router has that knows at a publisher's broker who wants an event: payloads can be distributed there.

    Payloads travel apart from events (`actors.clients.bulk`), from broker to broker as `copies` says.
    """

    def wanting(self, batch: EventBatch) -> tuple[BrokerId, ...]:
        """Return the other brokers whose clients want events of a batch."""

    def copies(
        self, origin: BrokerId, targets: tuple[BrokerId, ...]
    ) -> Mapping[BrokerId, tuple[BrokerId, ...]]:
        """Return the brokers to which each of these sends a copy of what `origin` publishes."""

    def deliver(self, batch: EventBatch) -> list[Effect]:
        """Return the effect that notifies this broker's own clients."""

    def neighbours(self) -> Sequence[BrokerId]:
        """Return the brokers that may have a payload."""
