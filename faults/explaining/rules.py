"""Which rule of a layer kept an event back, in words.

Rules
-----
* A layer of the table below says by its own state why. Of any other layer, also of one's own, the first sentence of its
  docstring is quoted: that is where its rule stands.
* The place of a rule is the file and the method that was called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ...broker.admission import Admitting
from ...broker.pipeline import Call
from ...broker.shaping import Shaping
from ...protocol.effects import Deliver, Multicast, Received, Send
from ...protocol.ids import GROUP, ClientId, EventId, Link
from ...protocol.messages.pubsub import Events
from ...recovery.durability.numbered_links import CrashRecover
from ...recovery.membership.tree import HealingBroker
from ...recovery.membership.views import HealingViews
from ...recovery.replay.replay import Replay
from .journey import Stop


class Asked(NamedTuple):
    """What a rule is asked about: a call of its layer, the event, the subscriber, and the link."""

    call: Call
    event: EventId
    subscriber: ClientId
    toward: Link | None


def stop_of(call: Call, event: EventId, subscriber: ClientId, toward: Link | None) -> Stop:
    """Return the rule by which a layer kept the event back in one call."""
    layer = call.layer
    tell = next((tell for kind, tell in _RULES.items() if isinstance(layer, kind)), _of_docstring)
    why, mends = tell(Asked(call, event, subscriber, toward))
    place = next((place for kind, place in _PLACES.items() if isinstance(layer, kind)), "")
    return Stop(toward, type(layer).__name__, place or place_of(call.handler), why, mends)


def place_of(handler: Callable[..., object]) -> str:
    """Return the file and the method of a handler: ``recovery/replay/replay.py: Replay._on_send``."""
    owner = getattr(handler, "__self__", None)
    module = type(owner).__module__ if owner is not None else getattr(handler, "__module__", "") or ""
    name = getattr(handler, "__name__", repr(handler))
    path = module.removeprefix("rayvous.").replace(".", "/")
    return f"{path}.py: {f'{type(owner).__name__}.' if owner is not None else ''}{name}"


def link_words(link: Link | None) -> str:
    """Return a link in words."""
    if link is None:
        return "anybody"
    if isinstance(link, str):
        return link
    return "its cluster" if link == GROUP else f"broker {link}"


def _of_replay(asked: Asked) -> tuple[str, bool]:
    layer, given = asked.call.layer, asked.call.given
    assert isinstance(layer, Replay)
    if isinstance(given, Send | Multicast):
        return _closed(asked.toward), True
    if isinstance(given, Deliver):
        brought = given.brought_by
        if brought is not None and not layer.rounds.passes(asked.subscriber, brought.round):
            return _closed(asked.subscriber), True
        publisher, number = asked.event
        had = (layer.marks(asked.subscriber) or {}).get(publisher, 0)
        if had >= number:
            return (
                f"{asked.subscriber} has had {publisher}'s events up to #{had}, so this one is a duplicate"
            ), False
        return (
            f"it is retransmitted, and not beyond the position at which {asked.subscriber}'s subscription begins"
        ), False
    return "what it keeps it keeps by its bounds", False


def _closed(link: Link | None) -> str:
    return f"the link to {link_words(link)} is closed until a round begins after it is ready"


def _of_tree(asked: Asked) -> tuple[str, bool]:
    layer, given = asked.call.layer, asked.call.given
    assert isinstance(layer, HealingBroker)
    if isinstance(given, Received) and isinstance(given.message, Events) and isinstance(given.source, int):
        place = layer.place
        if not place.is_on_tree(given.source, given.message.ballot):
            if given.source in place.other_members:
                return (
                    f"broker {given.source} sent it under the ballot {given.message.ballot}, and this one follows "
                    f"{place.view.ballot}"
                ), True
            return f"broker {given.source} is not its neighbour in the tree", True
    return "its table wants it over no link but the one it came from", False


def _of_views(asked: Asked) -> tuple[str, bool]:
    return "by its view and its table nobody behind it wants it, or the message is of another view", True


def _of_admission(asked: Asked) -> tuple[str, bool]:
    if asked.toward is None:
        return "no advertisement of its publisher covers it", False
    return "no admitted subscription wants it beyond that link", False


def _of_shaping(asked: Asked) -> tuple[str, bool]:
    return "its publisher sends faster than it has advertised: the event waits, or is refused", False


def _of_links(asked: Asked) -> tuple[str, bool]:
    return "the number of the message is one that it has taken before, or there is a gap before it", False


def _of_docstring(asked: Asked) -> tuple[str, bool]:
    doc = " ".join((type(asked.call.layer).__doc__ or "its own rule").split())
    return doc.partition(". ")[0].rstrip("."), False


_RULES: Final[dict[type, Callable[[Asked], tuple[str, bool]]]] = {
    Replay: _of_replay,
    HealingBroker: _of_tree,
    HealingViews: _of_views,
    Admitting: _of_admission,
    Shaping: _of_shaping,
    CrashRecover: _of_links,
}

_PLACES: Final[dict[type, str]] = {
    HealingBroker: "recovery/membership/carrier.py: Carrier._on_events",
    HealingViews: "recovery/membership/views.py: HealingViews._on_events",
}
"""Where the rules about events stand of layers that pass messages on to their parts."""

__all__ = ["link_words", "place_of", "stop_of"]
