"""The degradation of admitted filters: which filters some broker can no longer carry, and what was reported of that.

Rule: the report of a broker on a filter goes towards the filter's owners, each change once. Several brokers
may lack something for one filter, so reports are stored by broker. No report means that nothing is lacking.

Source: ours; paper 3 judges a subscription only when it arrives.
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
    """A change in what a broker lacks for a filter that is held for a link; empty when it lacks nothing any more."""

    filter: Filter
    link: BrokerLink
    broker: BrokerId
    refusals: tuple[Refusal, ...]


class Degradation:
    """What one broker knows of the degradation of the filters that it holds."""

    def __init__(self) -> None:
        self._heard: dict[Filter, dict[BrokerLink, ByBroker]] = {}  # by the reporting neighbour
        self._told: dict[tuple[Filter, BrokerLink], ByBroker] = {}

    def heard(self, item: Filter, source: BrokerId, broker: BrokerId, refusals: tuple[Refusal, ...]) -> None:
        """Record a neighbour's report on a filter, in the name of some broker behind it."""
        known = self._heard.setdefault(item, {}).setdefault(source, {})
        if refusals:
            known[broker] = refusals
        else:
            known.pop(broker, None)
        if not known:
            self.unheard(item, source)

    def unheard(self, item: Filter, source: BrokerId) -> None:
        """Forget a neighbour's reports on a filter, as it is no longer asked for the filter."""
        known = self._heard.get(item, {})
        known.pop(source, None)
        if not known:
            self._heard.pop(item, None)

    def dropped(self, item: Filter, link: BrokerLink) -> tuple[BrokerId, ...]:
        """Forget what was reported of a filter over a link; return the brokers in whose name that was."""
        return tuple(self._told.pop((item, link), ()))

    def news(self, books: Books) -> Iterator[News]:
        """Yield what has changed since the last call. What is yielded counts as reported."""
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
        """Return everything that is lacking for a filter of attached clients."""
        return tuple(refusal for said in self._told.get((item, LOCAL), {}).values() for refusal in said)

    def snapshot(self) -> Plain:
        """Return what was heard and what was reported, for `restore`."""
        heard = [
            (item, [(link, dict(said)) for link, said in known.items()])
            for item, known in self._heard.items()
        ]
        return {"heard": heard, "told": [(key, dict(said)) for key, said in self._told.items()]}

    def restore(self, plain: Plain) -> None:
        """Restore a snapshot."""
        self._heard = {item: {link: dict(said) for link, said in known} for item, known in plain["heard"]}
        self._told = {tuple(key): dict(said) for key, said in plain["told"]}

    def count(self) -> int:
        """Return how many filters, counted per link, do not stand as they were promised."""
        return len(self._told)
