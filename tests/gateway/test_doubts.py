"""A publication that nobody settled: brokers say what they accepted, once no call can be under way any more.

Reference: docs/decisions/0100-published-again-once.md.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.actors.network.rendezvous import Rendezvous
from rayvous.faults.replay.repeats import Wish
from rayvous.gateway.joined import _RayOutlet
from rayvous.protocol.errors import BrokerUnavailable

CALL_SECONDS = 60.0
DOUBT_SECONDS = 2 * CALL_SECONDS
WISH = Wish("k", b"digest", 2)


class Outlet(_RayOutlet):
    """The publisher of a gateway that asks a rendezvous point in this process."""

    def __init__(self, rendezvous: Rendezvous, network: Any, name: str) -> None:
        publisher: Any = SimpleNamespace(name=name, published=0)
        super().__init__(network, "alice", publisher, ThreadPoolExecutor(1))
        self._asked = rendezvous

    def _rendezvous(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._asked, method)(*args, **kwargs)


class Story:
    """A gateway has claimed a key and was killed; another is asked."""

    def __init__(self, *, heals: bool, accepted: int | None) -> None:
        self.now, self.asked = 0.0, list[str]()
        self._accepted = accepted
        limits = SimpleNamespace(call_seconds=CALL_SECONDS, call_events_max=16_384)
        self.network: Any = SimpleNamespace(
            heals=heals, accepted=self.accepted, directory=SimpleNamespace(limits=limits)
        )
        self.rendezvous = Rendezvous(clock=lambda: self.now)
        assert Outlet(self.rendezvous, self.network, "alice@1")._claim([WISH]) == [None]
        self.other = Outlet(self.rendezvous, self.network, "alice@2")

    def accepted(self, publisher: str) -> int:
        self.asked.append(publisher)
        if self._accepted is None:
            raise BrokerUnavailable("a broker does not answer")
        return self._accepted

    def at(self, seconds: float) -> Any:
        self.now = seconds
        [known] = self.other._claim([WISH])
        return known


def test_it_is_under_way_as_long_as_a_call_may_be_and_no_broker_is_asked() -> None:
    story = Story(heals=True, accepted=2)
    assert not story.at(DOUBT_SECONDS - 1).accepted and not story.asked


def test_what_brokers_have_accepted_is_known_from_then_on() -> None:
    story = Story(heals=True, accepted=2)
    known = story.at(DOUBT_SECONDS)
    assert (known.publisher, known.first, known.last, known.accepted) == ("alice@1", 1, 2, True)
    assert story.at(DOUBT_SECONDS + 1).accepted and story.asked == ["alice@1"], "they are asked once"


@pytest.mark.parametrize("accepted", [0, 1])
def test_what_they_have_not_is_free_for_who_asks_next(accepted: int) -> None:
    story = Story(heals=True, accepted=accepted)
    assert not story.at(DOUBT_SECONDS).accepted
    assert story.at(DOUBT_SECONDS + 1) is None


def test_while_brokers_do_not_answer_it_stays_open() -> None:
    story = Story(heals=True, accepted=None)
    assert not story.at(DOUBT_SECONDS).accepted
    story._accepted = 2
    assert story.at(DOUBT_SECONDS + 1).accepted


def test_where_nothing_heals_nobody_knows() -> None:
    story = Story(heals=False, accepted=2)
    assert not story.at(DOUBT_SECONDS).accepted and not story.at(10 * CALL_SECONDS).accepted
    assert not story.asked
