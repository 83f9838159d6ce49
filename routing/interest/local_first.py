"""Publishers at one broker, and the subscriptions that these satisfy (paper 2, section 2.3).

Rules
-----
* A publisher is known by what it advertises. It may have what a filter asks for if one of its advertisements overlaps
  it; where patterns are compared this may say so although no event matches both, and never the other way round.
* A subscription that asks local publishers first is *served here* exactly as long as one of them may have what it asks
  for: that is a function of who advertises here now, and not of the order in which all came.
* Answers are in the order of brokers, then publishers. At most :data:`ANSWERS_MAX` are named, the rest is counted.
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
"""How many advertisements an answer names."""

Subscription: TypeAlias = tuple[ClientId, int]
"""A subscriber, and its number for the subscription."""


class Reply(NamedTuple):
    """Advertisements that overlap a filter: those that are named, and how many there are beside them."""

    known: tuple[Answer, ...] = ()
    more: int = 0


NO_REPLY: Final = Reply()


def gathered(*replies: Reply) -> Reply:
    """Return several replies to one filter as one."""
    known = sorted(
        (answer for reply in replies for answer in reply.known),
        key=lambda answer: (answer.broker, answer.publisher),
    )
    beyond = max(0, len(known) - ANSWERS_MAX)
    return Reply(tuple(known[:ANSWERS_MAX]), sum(reply.more for reply in replies) + beyond)


class Advert(NamedTuple):
    """An advertisement: what, and when it was said."""

    filter: Filter
    version: int


class LocalFirst:
    """What publishers here advertise, which subscriptions they satisfy, and what brokers elsewhere have answered.

    Parameters
    ----------
    broker
        Where this is.

    Attributes
    ----------
    permitted
        The subscriptions that ask publishers here first.
    served
        Those of them that are served here, with what was answered.
    elsewhere
        What brokers elsewhere have answered to a filter that they were told.
    """

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._adverts: dict[ClientId, dict[int, Advert]] = {}
        self.permitted: dict[Subscription, Filter] = {}
        self.served: dict[Subscription, Reply] = {}
        self.elsewhere: dict[Filter, Reply] = {}

    # What is advertised here; each returns the filters that this is news about.

    def advertise(self, publisher: ClientId, number: int, item: Filter, version: int) -> list[Filter]:
        """Take in an advertisement, which replaces that of the same number."""
        mine = self._adverts.setdefault(publisher, {})
        before, mine[number] = mine.get(number), Advert(item, version)
        return [item] if before is None else [] if before.filter == item else [before.filter, item]

    def unadvertise(self, publisher: ClientId, number: int, version: int | None) -> list[Filter]:
        """Let go of an advertisement, unless it was said again since that version."""
        mine = self._adverts.get(publisher, {})
        before = mine.get(number)
        if before is None or (version is not None and version < before.version):
            return []
        del mine[number]
        if not mine:
            del self._adverts[publisher]
        return [before.filter]

    def forget(self, publisher: ClientId) -> list[Filter]:
        """Let go of all that a publisher advertises: it is gone."""
        return [advert.filter for advert in self._adverts.pop(publisher, {}).values()]

    def here(self, item: Filter) -> Reply:
        """Return which publishers here may have what a filter asks for."""
        found = (
            Answer(publisher, self._broker, advert.filter)
            for publisher, mine in self._adverts.items()
            for advert in mine.values()
            if intersects(advert.filter, item)
        )
        return gathered(Reply(tuple(found)))

    # Subscriptions.

    def touched(self, news: Iterable[Filter]) -> list[Subscription]:
        """Return the subscriptions that ask publishers here first, and overlap one of these filters."""
        about = list(news)
        return [key for key, item in self.permitted.items() if any(intersects(each, item) for each in about)]

    def drop(self, key: Subscription) -> bool:
        """Forget a subscription; return whether it was served here."""
        self.permitted.pop(key, None)
        return self.served.pop(key, None) is not None

    def reply(self, item: Filter, told: Filter) -> Reply:
        """Return who may have what a filter asks for; all others were told of `told`, which covers it."""
        known, more = self.elsewhere.get(told, NO_REPLY)
        there = tuple(answer for answer in known if intersects(answer.filter, item))
        return gathered(self.here(item), Reply(there, more))

    # What it keeps.

    def snapshot(self) -> Plain:
        """Return all that it keeps; `restore` takes it."""
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
        """Be as the one was whose snapshot that is; only for one that is empty."""
        for publisher, mine in plain["adverts"]:
            self._adverts[publisher] = {number: Advert(item, version) for number, item, version in mine}
        self.permitted.update((tuple(key), item) for key, item in plain["permitted"])
        self.served.update((tuple(key), Reply(*reply)) for key, reply in plain["served"])
        self.elsewhere.update((item, Reply(*reply)) for item, reply in plain["elsewhere"])

    def check(self) -> None:
        """Assert that exactly those are served here that a publisher here may satisfy; for tests."""
        assert all(self._adverts.values())
        replies = {key: self.here(item) for key, item in self.permitted.items()}
        assert self.served == {key: reply for key, reply in replies.items() if reply.known}
