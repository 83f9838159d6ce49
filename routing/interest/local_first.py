"""Publishers at one broker, and the subscriptions that they satisfy (paper 2, section 2.3).

Rules
-----
* A publisher matches a filter if one of its advertisements overlaps it. With patterns there may be false
  positives (no event matches both), never false negatives.
* A subscription that asks local publishers first is *served here* exactly as long as a local publisher matches
  it. This depends only on the current local advertisements, not on the order of arrival.
* Answers are sorted by broker, then publisher. At most :data:`ANSWERS_MAX` are listed; the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from ...protocol.effects import Plain
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.pubsub import Answer
from ..filters.covering import intersects
from ..filters.filter import Filter

ANSWERS_MAX: Final = 16
"""The maximum number of advertisements that an answer lists."""

Subscription: TypeAlias = tuple[ClientId, int]
"""A subscriber, and its number for the subscription."""


class Reply(NamedTuple):
    """Advertisements that overlap a filter: those listed, and the number of further ones."""

    known: tuple[Answer, ...] = ()
    more: int = 0


NO_REPLY: Final = Reply()


def gathered(*replies: Reply) -> Reply:
    """Combine several replies to one filter."""
    told = [reply for reply in replies if reply != NO_REPLY]  # most brokers have no publisher
    if not told:
        return NO_REPLY
    known = sorted(
        (answer for reply in told for answer in reply.known),
        key=lambda answer: (answer.broker, answer.publisher),
    )
    beyond = max(0, len(known) - ANSWERS_MAX)
    return Reply(tuple(known[:ANSWERS_MAX]), sum(reply.more for reply in told) + beyond)


class Advert(NamedTuple):
    """An advertisement: its filter and its version."""

    filter: Filter
    version: int


class LocalFirst:
    """The advertisements of local publishers, the subscriptions that they satisfy, and the answers of other brokers.

    Parameters
    ----------
    broker
        The id of this broker.

    Attributes
    ----------
    permitted
        The subscriptions that ask local publishers first.
    served
        Those of them that are served here, with the answer that was sent.
    elsewhere
        The answers of other brokers to each filter that they were told.
    """

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._adverts: dict[ClientId, dict[int, Advert]] = {}
        self.permitted: dict[Subscription, Filter] = {}
        self.served: dict[Subscription, Reply] = {}
        self.elsewhere: dict[Filter, Reply] = {}

    # Local advertisements; each method returns the filters that the change affects.

    def advertise(self, publisher: ClientId, number: int, item: Filter, version: int) -> list[Filter]:
        """Add an advertisement, which replaces the one with the same number."""
        mine = self._adverts.setdefault(publisher, {})
        before, mine[number] = mine.get(number), Advert(item, version)
        return [item] if before is None else [] if before.filter == item else [before.filter, item]

    def unadvertise(self, publisher: ClientId, number: int, version: int | None) -> list[Filter]:
        """Remove an advertisement, unless it was repeated after that version."""
        mine = self._adverts.get(publisher, {})
        before = mine.get(number)
        if before is None or (version is not None and version < before.version):
            return []
        del mine[number]
        if not mine:
            del self._adverts[publisher]
        return [before.filter]

    def forget(self, publisher: ClientId) -> list[Filter]:
        """Remove all advertisements of a publisher that is gone."""
        return [advert.filter for advert in self._adverts.pop(publisher, {}).values()]

    def here(self, item: Filter) -> Reply:
        """Return the local publishers that match a filter."""
        found = (
            Answer(publisher, self._broker, advert.filter)
            for publisher, mine in self._adverts.items()
            for advert in mine.values()
            if intersects(advert.filter, item)
        )
        return gathered(Reply(tuple(found)))

    # Subscriptions.

    def touched(self, news: Iterable[Filter]) -> list[Subscription]:
        """Return the subscriptions that ask local publishers first and overlap one of these filters."""
        about = list(news)
        return [key for key, item in self.permitted.items() if any(intersects(each, item) for each in about)]

    def drop(self, key: Subscription) -> bool:
        """Forget a subscription; return whether it was served here."""
        self.permitted.pop(key, None)
        return self.served.pop(key, None) is not None

    def reply(self, item: Filter, told: Filter) -> Reply:
        """Return all known publishers that match a filter; the other brokers were told `told`, which covers it."""
        known, more = self.elsewhere.get(told, NO_REPLY)
        there = tuple(answer for answer in known if intersects(answer.filter, item))
        return gathered(self.here(item), Reply(there, more))

    # Snapshots.

    def snapshot(self) -> Plain:
        """Return the whole state, for `restore`."""
        return {
            "adverts": [
                (publisher, [(number, *advert) for number, advert in mine.items()])
                for publisher, mine in self._adverts.items()
            ],
            "permitted": list(self.permitted.items()),
            "served": [(key, tuple(reply)) for key, reply in self.served.items()],
            "elsewhere": [(item, tuple(reply)) for item, reply in self.elsewhere.items()],
        }

    def restore(self, plain: Any) -> None:
        """Restore the state from a snapshot; only while it is empty."""
        for publisher, mine in plain["adverts"]:
            self._adverts[publisher] = {number: Advert(item, version) for number, item, version in mine}
        self.permitted.update((tuple(key), item) for key, item in plain["permitted"])
        self.served.update((tuple(key), Reply(*reply)) for key, reply in plain["served"])
        self.elsewhere.update((item, Reply(*reply)) for item, reply in plain["elsewhere"])

    def check(self) -> None:
        """Assert that exactly the subscriptions that a local publisher matches are served here; for tests."""
        assert all(self._adverts.values())
        replies = {key: self.here(item) for key, item in self.permitted.items()}
        assert self.served == {key: reply for key, reply in replies.items() if reply.known}
