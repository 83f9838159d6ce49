"""How admitted filters stand: which of them some broker can no longer carry, and who has been told.

Rule: what a broker says of a filter goes towards its owners, each change once. Several brokers may lack something for
one filter, so what is known is kept by broker; nothing known means that all is well.

Source: ours; paper 3 judges a subscription only when it comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from ..protocol.effects import Plain
from ..protocol.ids import BrokerId, BrokerLink
from ..protocol.messages.admission import Refusal
from ..routing.filters.filter import Filter
from .advertisements import LOCAL
from .books import Books

ByBroker: TypeAlias = dict[BrokerId, tuple[Refusal, ...]]


class News(NamedTuple):
    """A broker lacks something else than before for a filter that is held for a link; empty when nothing any more."""

    filter: Filter
    link: BrokerLink
    broker: BrokerId
    refusals: tuple[Refusal, ...]


class Degradation:
    """What one broker knows of the filters that it holds."""

    def __init__(self) -> None:
        self._heard: dict[Filter, dict[BrokerLink, ByBroker]] = {}  # by the neighbour that said so
        self._told: dict[tuple[Filter, BrokerLink], ByBroker] = {}

    def heard(self, item: Filter, source: BrokerId, broker: BrokerId, refusals: tuple[Refusal, ...]) -> None:
        """Note what a neighbour says of a filter, in the name of some broker behind it."""
        known = self._heard.setdefault(item, {}).setdefault(source, {})
        if refusals:
            known[broker] = refusals
        else:
            known.pop(broker, None)
        if not known:
            self.unheard(item, source)

    def unheard(self, item: Filter, source: BrokerId) -> None:
        """Forget what a neighbour said of a filter: it is not asked for it any more."""
        known = self._heard.get(item, {})
        known.pop(source, None)
        if not known:
            self._heard.pop(item, None)

    def dropped(self, item: Filter, link: BrokerLink) -> tuple[BrokerId, ...]:
        """Forget what was told of a filter over a link; return the brokers in whose name it was."""
        return tuple(self._told.pop((item, link), ()))

    def news(self, books: Books) -> Iterator[News]:
        """Iterate over what has changed since this was last asked; what is returned counts as told."""
        degraded = books.degraded()
        if not (degraded or self._told or self._heard):
            return
        keys = dict.fromkeys(degraded) | dict.fromkeys(self._told)
        for item in self._heard:
            keys |= dict.fromkeys((item, link) for link in books.holders(item))
        for item, link in keys:
            now: ByBroker = {}
            for source, said in self._heard.get(item, {}).items():
                if books.passes(source, link):
                    now |= said
            own = degraded.get((item, link))
            if own:
                now[books.broker] = own
            yield from self._differences(item, link, now)

    def _differences(self, item: Filter, link: BrokerLink, now: ByBroker) -> Iterator[News]:
        before = self._told.pop((item, link), {})
        if now:
            self._told[item, link] = now
        for broker in dict.fromkeys([*before, *now]):
            if before.get(broker) != now.get(broker):
                yield News(item, link, broker, now.get(broker, ()))

    def of_clients(self, item: Filter) -> tuple[Refusal, ...]:
        """Return all that is lacking for a filter of attached clients."""
        return tuple(refusal for said in self._told.get((item, LOCAL), {}).values() for refusal in said)

    def snapshot(self) -> Plain:
        """Return what is known and what was told; `restore` takes it."""
        heard = [
            (item, [(link, dict(said)) for link, said in known.items()])
            for item, known in self._heard.items()
        ]
        return {"heard": heard, "told": [(key, dict(said)) for key, said in self._told.items()]}

    def restore(self, plain: Plain) -> None:
        """Know what was known when that snapshot was taken."""
        self._heard = {item: {link: dict(said) for link, said in known} for item, known in plain["heard"]}
        self._told = {tuple(key): dict(said) for key, said in plain["told"]}

    def count(self) -> int:
        """Return how many filters, link by link, do not stand as they were promised."""
        return len(self._told)
