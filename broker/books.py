"""A read-only view of a broker's books, for checks of a whole network from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..admission.advertisements import LOCAL
from ..protocol.ids import BrokerId, ClientId, Link
from ..protocol.messages.admission import Refusal
from ..routing.filters.filter import Filter
from .admission import Controller
from .broker import Broker

Holding: TypeAlias = Mapping[Link | None, frozenset[Filter]]


@dataclass(frozen=True, slots=True)
class SeenBooks:
    """The content of one broker's books. The link None stands for its own clients.

    Attributes
    ----------
    neighbours
        The brokers for whose links there are books.
    adverts
        By link, the publishers that advertise behind it.
    held
        By link, the filters that are held for it.
    degraded
        What a filter that is held for a link lacks.
    promises
        Whether owners are told what their filters lack: under the full guarantee only.
    asks_all
        Whether subscriptions are asked for at every broker, not only on the paths to publishers.
    unbalanced
        What is inconsistent within the books; empty if they balance.
    """

    neighbours: frozenset[BrokerId]
    adverts: Mapping[Link | None, frozenset[ClientId]]
    held: Holding
    degraded: Mapping[tuple[Filter, Link | None], tuple[Refusal, ...]]
    promises: bool
    asks_all: bool = False
    unbalanced: str = ""


def books_of(broker: Broker) -> SeenBooks | None:
    """Return the contents of a broker's books, and whether they balance; None without admission control."""
    admission = broker.ask(Controller())
    if admission is None:
        return None
    books, unbalanced = admission.books, ""
    try:
        broker.check()
    except AssertionError as error:
        unbalanced = str(error) or "an invariant does not hold"
    adverts: dict[Link | None, set[ClientId]] = {}
    for (publisher, _), advert in books.adverts.items():
        adverts.setdefault(_link(advert.link), set()).add(publisher)
    return SeenBooks(
        frozenset(admission.neighbours),
        {link: frozenset(publishers) for link, publishers in adverts.items()},
        {_link(link): frozenset(items) for link, items in books.held.items()},
        {(item, _link(link)): refusals for (item, link), refusals in books.degraded().items()},
        admission.config.refusing_share_max == 0,
        admission.questions.asks_all,
        unbalanced,
    )


def _link(link: Link) -> Link | None:
    return None if link == LOCAL else link
