"""A publication of unknown outcome: brokers are asked what they accepted, once no call can be under way.

A claim that was not published must not be taken for other events that get its numbers later.

Reference: docs/decisions/0100-published-again-once.md.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.actors.network.rendezvous import Rendezvous
from rayvous.gateway.joined import _RayOutlet
from rayvous.gateway.publisher_queue import PublisherQueue, named_by
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import BrokerUnavailable, InputError, RayvousError
from rayvous.protocol.gateways import GatewayLimits
from rayvous.recovery.replay.repeats import NumbersRequest

CALL_SECONDS = 60.0
DOUBT_SECONDS = 2 * CALL_SECONDS
REQUEST = NumbersRequest("k", b"digest", 2)


class Outlet(_RayOutlet):
    """A gateway's publisher with a rendezvous point in this process, which answers late if `late` is set."""

    def __init__(self, rendezvous: Rendezvous, network: Any, name: str, publisher: Any = None) -> None:
        publisher = publisher or SimpleNamespace(name=name, published=0)
        super().__init__(network, SimpleNamespace(), "alice", publisher, ThreadPoolExecutor(1))  # type: ignore[arg-type]
        self._point, self.late, self.under_way = rendezvous, False, deque[Callable[[], Any]]()

    def _asked(self, method: str, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return getattr(self._point, method)(*args, **kwargs)

        self.under_way.append(call)
        return call

    def catch_up(self) -> Any:
        """Make the calls that are under way, in order, and return the answer of the last."""
        answer = None
        while self.under_way:
            answer = self.under_way.popleft()()
        return answer

    def _heard(self, call: Any, seconds: float) -> bool | None:
        if seconds and not self.late:
            self.catch_up()
        return None if call in self.under_way else True

    def _rendezvous(self, method: str, *args: Any, **kwargs: Any) -> Any:
        self._asked(method, *args, **kwargs)
        if self.late:
            raise BrokerUnavailable("no answer in time")
        return self.catch_up()


class Story:
    """A gateway has claimed a key and was killed; another gateway claims the same key."""

    def __init__(self, *, heals: bool, accepted: int | None) -> None:
        self.now, self.asked = 0.0, list[str]()
        self._accepted = accepted
        limits = SimpleNamespace(call_seconds=CALL_SECONDS, call_events_max=16_384)
        self.network: Any = SimpleNamespace(
            inspect=SimpleNamespace(
                heals=heals, accepted=self.accepted, directory=SimpleNamespace(limits=limits)
            )
        )
        self.rendezvous = Rendezvous(clock=lambda: self.now)
        assert Outlet(self.rendezvous, self.network, "alice@1")._claim([REQUEST]) == [None]
        self.other = Outlet(self.rendezvous, self.network, "alice@2")

    def accepted(self, publisher: str) -> int:
        self.asked.append(publisher)
        if self._accepted is None:
            raise BrokerUnavailable("a broker does not answer")
        return self._accepted

    def at(self, seconds: float) -> Any:
        self.now = seconds
        [known] = self.other._claim([REQUEST])
        return known


def test_it_is_under_way_as_long_as_a_call_may_be_and_no_broker_is_asked() -> None:
    story = Story(heals=True, accepted=2)
    assert not story.at(DOUBT_SECONDS - 1).accepted and not story.asked


def test_what_brokers_have_accepted_is_known_from_then_on() -> None:
    story = Story(heals=True, accepted=2)
    known = story.at(DOUBT_SECONDS)
    assert (known.publisher, known.first, known.last, known.accepted) == ("alice@1", 1, 2, True)
    assert story.at(DOUBT_SECONDS + 1).accepted and story.asked == ["alice@1"], "they are asked once"


def test_what_they_have_not_is_free_for_who_asks_next() -> None:
    story = Story(heals=True, accepted=0)
    assert not story.at(DOUBT_SECONDS).accepted
    assert story.at(DOUBT_SECONDS + 1) is None


def test_what_they_have_a_part_of_is_neither_accepted_nor_free() -> None:
    story = Story(heals=True, accepted=1)
    assert not story.at(DOUBT_SECONDS).accepted
    assert not story.at(DOUBT_SECONDS + 1).accepted


@pytest.mark.parametrize("accepted", [2, None])
def test_of_one_publisher_they_are_asked_once_for_all_keys(accepted: int | None) -> None:
    story = Story(heals=True, accepted=accepted)
    requests = [replace(REQUEST, key=key) for key in ("a", "b", "c")]
    Outlet(story.rendezvous, story.network, "alice@3")._claim(requests)
    story.now = DOUBT_SECONDS
    story.other._claim(requests)
    assert story.asked == ["alice@3"]


def test_while_brokers_do_not_answer_it_stays_open() -> None:
    story = Story(heals=True, accepted=None)
    assert not story.at(DOUBT_SECONDS).accepted
    story._accepted = 2
    assert story.at(DOUBT_SECONDS + 1).accepted


def test_where_nothing_heals_nobody_knows() -> None:
    story = Story(heals=False, accepted=2)
    assert not story.at(DOUBT_SECONDS).accepted and not story.at(10 * CALL_SECONDS).accepted
    assert not story.asked


class Numbers:
    """A publisher whose broker accepts everything, or refuses before or after events are numbered."""

    name, published, accepted = "alice@1", 10, 10

    def __init__(self) -> None:
        self.refuses: RayvousError | None = None
        self.numbers_first = False

    async def publish_batch_async(self, batch: Any) -> int:
        if self.refuses is None or self.numbers_first:
            self.published += len(batch)
        if self.refuses is not None:
            raise self.refuses
        self.accepted = self.published
        return self.published


class Shared:
    """Clients of one principal at one gateway, in a network with recovery."""

    def __init__(self) -> None:
        self.now, self.broker = 0.0, Numbers()
        limits = SimpleNamespace(call_seconds=CALL_SECONDS, call_events_max=16_384)
        network: Any = SimpleNamespace(
            inspect=SimpleNamespace(
                heals=True,
                accepted=lambda name: self.broker.accepted,
                directory=SimpleNamespace(limits=limits),
            )
        )
        rendezvous = Rendezvous(clock=lambda: self.now)
        self.outlet = Outlet(rendezvous, network, "alice@1", self.broker)
        self.other = Outlet(rendezvous, network, "alice@2")
        self.queue = PublisherQueue(self.outlet, GatewayLimits(publishing_events_max=100))

    async def publish(self, *keys: str | None) -> list[Any]:
        """Publish one event under each key together; return the number of each, or its error."""
        events = [{"n": 1}]
        asked = [
            self.queue.publish(batch_of(events), key=None if key is None else named_by(key, events))
            for key in keys
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [answer if isinstance(answer, BaseException) else answer.first for answer in answers]

    def known_later(self, key: str) -> list[bool]:
        """Return whether another gateway knows the key as accepted, asked twice after the time of doubt."""
        self.now += 2 * DOUBT_SECONDS
        request = NumbersRequest(key, named_by(key, [{"n": 1}]).digest, 1)
        return [
            known is not None and known.accepted for _ in range(2) for known in self.other._claim([request])
        ]


def test_a_claim_that_was_not_answered_takes_no_number_of_what_is_published_instead() -> None:
    async def story() -> None:
        shared = Shared()
        shared.outlet.late = True
        plain, refused = await shared.publish(None, "k")
        assert plain == 11 and isinstance(refused, BrokerUnavailable)
        shared.outlet.catch_up()
        shared.outlet.late = False
        assert await shared.publish(None) == [12]
        assert shared.known_later("k") == [False, False]

    asyncio.run(story())


def test_while_nobody_answers_what_has_no_key_goes_on_with_one_call_under_way() -> None:
    async def story() -> None:
        shared = Shared()
        shared.outlet.late = True
        await shared.publish("k")
        assert [await shared.publish(None) for _ in range(3)] == [[11], [12], [13]]
        [refused] = await shared.publish("l")
        assert isinstance(refused, BrokerUnavailable)
        assert len(shared.outlet.under_way) == 2, "the claim, and that it was in vain"
        shared.outlet.late = False
        assert await shared.publish("k") == [14]
        shared.outlet.catch_up()
        assert await shared.publish("k") == [14], "what came late has not freed it"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("refusal", "numbers_first"),
    [(InputError("wrong"), False), (InputError("wrong"), True), (BrokerUnavailable("gone"), False)],
)
def test_what_was_certainly_not_taken_is_free_before_others_have_its_numbers(
    refusal: RayvousError, numbers_first: bool
) -> None:
    async def story() -> None:
        shared = Shared()
        shared.broker.refuses, shared.broker.numbers_first = refusal, numbers_first
        assert await shared.publish("k") == [refusal]
        shared.outlet.catch_up()
        shared.broker.refuses = None
        await shared.publish(None, None)
        assert shared.known_later("k") == [False, False]

    asyncio.run(story())


def test_what_a_broker_may_have_taken_is_not_freed_by_a_later_refusal() -> None:
    async def story() -> None:
        shared = Shared()
        shared.broker.refuses, shared.broker.numbers_first = BrokerUnavailable("no answer"), True
        await shared.publish("k")
        shared.broker.accepted = 11
        shared.broker.refuses = InputError("wrong")
        await shared.publish(None)
        await shared.publish("l")
        shared.outlet.catch_up()
        assert shared.known_later("k") == [True, True]

    asyncio.run(story())
