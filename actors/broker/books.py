"""A read-only view of a broker's books, for checks of a whole network from outside."""

from __future__ import annotations

from ...admission.advertisements import LOCAL
from ...faults.chaos.books import SeenBooks
from ...protocol.ids import ClientId, Link
from .broker import Broker


def books_of(broker: Broker) -> SeenBooks:
    """Return the contents of the books of a broker with admission control, and whether they balance."""
    assert broker.admitting is not None
    admission = broker.admitting.admission
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
