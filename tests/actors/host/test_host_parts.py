"""The parts of a host, each by itself: attachments, admission control, telemetry for the collector."""

import asyncio
import gc
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from ray.exceptions import RayActorError
from rayvous.actors.host.admission import HostAdmission
from rayvous.actors.host.attachments import GIVEN_UP_MAX, TAKEN_MAX, Attachments
from rayvous.actors.host.clock import Clock
from rayvous.actors.host.collecting import FROZEN_FROM, collecting_nothing, keep_for_good, let_go
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.hosted_broker import HostedBroker
from rayvous.actors.host.requests import Accepted, Away, Lacking, Question, WhoAnswers
from rayvous.actors.host.sessions import DeliveryBatch, Farewell, GivenUp, Taken
from rayvous.actors.host.survey import answer, books_of, dead_letters, sizes_of, survey_of
from rayvous.actors.host.telemetry import HostTelemetry
from rayvous.actors.telemetry.accounts import HandOver
from rayvous.broker import Broker
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import (
    BrokerLeaving,
    BrokerUnavailable,
    ClientError,
    InputError,
    NameTaken,
    SubscriptionRejected,
)
from rayvous.protocol.features import NONE, Features
from rayvous.protocol.messages.admission import (
    AdmissionConfig,
    Advertise,
    Everywhere,
    Judgement,
    News,
    WouldAdmit,
)
from rayvous.protocol.messages.pubsub import Detach, Events, Lost, Register
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.telemetry.recorder import TelemetryBuffer
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree

LIMITS = Limits.for_tests()


def hosted_brokers(count: int = 1, recovery: Recovery | None = None) -> dict[int, HostedBroker]:
    places = ClusterTree(count, 1, degree=1).positions()
    return {
        place.broker: HostedBroker(Broker(place, "hybrid", recovery), TelemetryBuffer(place, LIMITS), None)
        for place in places
    }


def go(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE_SECONDS))


# Attachments.


class Desk:
    """Attachments of some brokers, and what the brokers were handed."""

    def __init__(self, count: int = 1) -> None:
        self.hosted_brokers = hosted_brokers(count)
        self.handed: list[tuple[str, Any]] = []
        self.driven: list[Any] = []
        self.here = Attachments(
            self.hosted_brokers,
            LIMITS,
            self.handle,
            lambda hosted, event: self.driven.append(event),
        )

    def handle(self, hosted: HostedBroker, client: str, message: Any) -> None:
        self.handed.append((client, message))


def test_a_subscriber_is_in_one_process_until_it_is_taken_over() -> None:
    desk = Desk()
    here, hosted = desk.here, desk.hosted_brokers[0]
    for client in ("alice", "bob"):
        here.own(hosted, client, "first")
    here.own(hosted, "alice", "first")
    first = here.sessions["first"]
    with pytest.raises(ClientError, match="'alice' is attached to broker 0 by another process"):
        here.own(hosted, "alice", "second")
    here.take_over(hosted, "alice", "second")
    assert not first.ended and here.sessions["first"] is first, "bob is still there"
    here.take_over(hosted, "bob", "second")
    assert first.ended and "first" not in here.sessions, "nobody fetches what waits there"
    assert set(hosted.owners.values()) == {here.sessions["second"]}


def test_whoever_has_a_name_no_more_is_told_by_every_poll_and_says_nothing_in_it() -> None:
    """A publisher too, whose process does not poll in a network that does not heal; and nobody else's ends."""
    desk = Desk()
    here, hosted = desk.here, desk.hosted_brokers[0]
    for client in ("alice", "bob"):
        here.own(hosted, client, "first")
    here.offers(hosted, "carol", "first")
    here.evict("subscriber", "alice", 0, "first", "t1", False)
    here.evict("publisher", "carol", 0, "first", "t2", False)
    here.evict("subscriber", "bob", 0, "before", "t3", False)
    here.evict("subscriber", "dora", 0, "first", "t4", True)
    assert desk.handed == [("alice", Detach()), ("carol", Detach())] and list(hosted.owners) == ["bob"]
    assert (
        [taken.name for taken in here.taken_from("first")]
        == ["alice", "carol", "dora"]
        != here.alive("before")
    )
    assert here.alive("before") == [Taken("subscriber", "bob", "t3")] and "before" in here.heard()
    for ticket, client in (("t1", "alice"), ("t2", "carol"), ("t4", "dora")):
        with pytest.raises(NameTaken, match=f"'{client}' was taken over"):
            here.require_own(ticket, client)
        here.require_own("another", client)
    for number in range(TAKEN_MAX):
        here.evict("publisher", "p", 0, "nobody", f"{number}", False)
    assert here.taken_from("first") == []


def test_a_process_is_heard_as_long_as_it_polls_or_gives_a_sign_of_life() -> None:
    for seconds, heard in ((20.0, ["polls", "publishes"]), (0.0, list[str]())):
        desk = Desk()
        here = Attachments(
            desk.hosted_brokers, replace(LIMITS, session_seconds=seconds), desk.handle, lambda *_: None
        )
        here.session("polls")
        here.alive("publishes")
        assert here.heard() == heard


def test_a_host_refuses_what_a_client_says_that_has_lost_its_name() -> None:
    async def test() -> None:
        host = BrokerHost("hybrid", LIMITS)
        await host.start_brokers(ClusterTree(1, 1).positions())
        await host.connect({})
        await host.request(0, "s", [Register(1, to_filter("x > 0"))], "second")
        poll = asyncio.create_task(host.poll("first", 0, 20.0))
        await asyncio.sleep(0)
        for kind in ("subscriber", "publisher"):
            await host.evict(kind, "s", 0, "first", f"t-{kind}", False)
        assert Taken("subscriber", "s", "t-subscriber") in await poll, "a poll that waits is answered at once"
        events = Events(batch_of([{"x": 1}], publisher="s", first_sequence=1))
        for message, ticket in (
            (Detach(), "t-subscriber"),
            (Away(), "t-subscriber"),
            (events, "t-publisher"),
        ):
            with pytest.raises(NameTaken):
                await host.request(0, "s", [message], ticket)
        assert list(host.hosted_brokers[0].owners) == ["s"], "the next one has it"

    go(test())


def test_a_process_that_ends_takes_its_subscribers_along_from_every_broker() -> None:
    desk = Desk(2)
    here = desk.here
    for broker, hosted in desk.hosted_brokers.items():
        here.own(hosted, f"c{broker}", "process")
        here.own(hosted, "other", "another")
    session = here.sessions["process"]
    here.end_session("process")
    here.end_session("nobody")
    assert session.ended and desk.handed == [("c0", Detach()), ("c1", Detach())]
    assert [list(hosted.owners) for hosted in desk.hosted_brokers.values()] == [["other"], ["other"]]


def test_nothing_begins_at_a_broker_that_leaves_and_every_poll_says_so() -> None:
    here = Desk(2).here
    assert here.farewells() == []
    here.dismiss(1)
    assert here.open_broker(0) and here.hosted_broker(1)
    with pytest.raises(BrokerLeaving, match="broker 1 is leaving"):
        here.open_broker(1)
    with pytest.raises(BrokerUnavailable, match="broker 9 is not on this host"):
        here.open_broker(9)
    assert [farewell.broker for farewell in here.farewells()] == [1]


def test_a_process_that_was_given_up_is_told_by_its_next_poll_until_it_ends_its_session() -> None:
    """A poll of an empty session would wait forever for subscribers that are not attached."""

    async def test() -> None:
        host = BrokerHost("hybrid", replace(LIMITS, session_seconds=0.0))
        await host.start_brokers(ClusterTree(1, 1).positions())
        await host.connect({})
        await host.request(0, "s", [Register(1, to_filter("x > 0"))], "stopped")
        await host.request(0, "p", [Events(batch_of([{"x": 1}], publisher="p", first_sequence=1))])
        await host.quiet()  # nobody fetches what was delivered
        assert not host.hosted_brokers[0].owners
        for _ in range(2):
            assert await host.poll("stopped", 0, 0.0) == [GivenUp()]
        await host.end_session("stopped")
        await host.request(0, "s", [Register(1, to_filter("x > 0"))], "stopped")
        assert await host.poll("stopped", 0, 0.0) == []

    go(test())


def test_the_clock_of_a_network_that_stood_still_is_behind_by_as_much() -> None:
    """Reference: docs/decisions/0105: nothing gets older while there is no network."""

    async def test() -> None:
        host = BrokerHost("hybrid", LIMITS, recovery=Recovery.for_tests(), still_seconds=1e6)
        assert time.time() - host.clock.now() == pytest.approx(1e6, abs=60.0)

    go(test())


def test_a_host_is_behind_from_half_a_heartbeat_after_a_turn_until_the_next() -> None:
    """Reference: docs/decisions/0210: what others said then may lie unread."""
    clock, now = Clock(2.0, 0.0), [100.0]
    clock.now = lambda: now[0]  # type: ignore[method-assign]
    assert clock.stalled() == 0.0 and not clock.is_behind(), "nobody was told the time yet"
    clock.turn()
    now[0] = 101.0
    assert clock.stalled() == 0.0 and not clock.is_behind()
    now[0] = 104.0
    assert clock.stalled() == 3.0 and clock.is_behind()
    clock.turn()
    now[0] = 104.5
    assert clock.stalled() == 3.0 and not clock.is_behind()
    now[0] = 106.0
    assert clock.stalled() == 4.0


def test_only_so_many_given_up_processes_are_remembered() -> None:
    here = Desk().here
    for number in range(GIVEN_UP_MAX + 1):
        here.give_up(f"process {number}")
    assert here.given_up("process 0") == [] and here.given_up("process 1") == [GivenUp()]


def test_a_process_that_stood_still_while_a_broker_left_is_told_by_its_next_poll() -> None:
    """Its subscribers were detached meanwhile, and the host has other brokers: nothing else would tell it."""

    async def test() -> None:
        places = ClusterTree(2, 1).positions()
        host = BrokerHost("hybrid", LIMITS, recovery=Recovery.for_tests())
        await host.start_brokers(places)
        await host.connect({})
        await host.dismiss(1)
        await host.detach_all(1)
        assert await host.end_broker(1) == 1
        told = await host.poll("late", 0, 0.0)
        assert [each.broker for each in told if isinstance(each, Farewell)] == [1]

    go(test())


def test_news_is_told_at_once_and_by_answers_alone_so_that_parts_are_events() -> None:
    """In a network that heals brokers leave for good: each event would bring all that ever left, the slow way."""

    async def test() -> None:
        host = BrokerHost("hybrid", LIMITS, recovery=Recovery.for_tests())
        await host.start_brokers(ClusterTree(2, 1).positions())
        await host.connect({})
        await host.request(0, "s", [Register(1, to_filter("x > 0"))], "process")
        parts: list[list[Any]] = []

        def poll(acknowledged: int = 0) -> Any:
            answer = host.incoming.poll("process", acknowledged, 20.0, 8)
            answer.each(parts.append)
            return answer

        async def told(answer: Any) -> list[Any]:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await answer

        waiting = poll()
        await host.dismiss(1)
        assert await told(waiting) == [Farewell(1)], "a poll that waits is answered at once"
        await host.evict("subscriber", "t", 0, "process", "ticket", True)
        news = [Farewell(1), Taken("subscriber", "t", "ticket")]
        assert await told(poll()) == news, "nobody waited when that came"
        waiting = poll()
        for number in (1, 2):
            events = Events(batch_of([{"x": 1}], publisher="p", first_sequence=number))
            await host.request(0, "p", [events])
        assert [[type(each) for each in part] for part in parts] == [[DeliveryBatch]] * 2
        assert not waiting.done
        await host.dismiss(0)
        assert await told(waiting) == [Farewell(1), Farewell(0), news[1]], "the answer tells it again"

    go(test())


def test_who_is_let_go_waits_for_nothing_more_and_lacks_nothing() -> None:
    async def test() -> None:
        desk = Desk()
        hosted = desk.hosted_brokers[0]
        desk.here.own(hosted, "alice", "process")
        waiting = hosted.answers.owe(("alice", Register, 3))
        desk.here.cancelled(hosted, "alice", 1)
        assert not waiting.done()
        desk.here.let_all_go(hosted)
        with pytest.raises(ClientError, match="subscription 3 of 'alice' was cancelled"):
            await waiting
        assert not hosted.owners

    go(test())


def test_losses_are_told_to_who_is_there_and_a_drain_ends_when_all_was_fetched() -> None:
    async def test() -> None:
        desk = Desk()
        hosted = desk.hosted_brokers[0]
        desk.here.own(hosted, "alice", "process")
        losses = (Lost("bob", 1, 3),)
        for client in ("alice", "nobody"):
            desk.here.tell_losses(hosted, client, losses)
        (delivery,) = await desk.here.session("process").poll(0, 0.0, 10)
        assert delivery.losses == losses  # type: ignore[union-attr]
        desk.here.drain_soon(hosted, 5)
        for _ in range(5):
            await asyncio.sleep(0)
        assert desk.driven == []
        desk.here.session("process").acknowledge(delivery.number)
        for _ in range(5):
            await asyncio.sleep(0)
        assert [event.number for event in desk.driven] == [5]

    go(test())


# Admission control.


def some(count: int) -> Events:
    return Events(batch_of([{"x": 1}] * count, publisher="p", first_sequence=1))


def test_events_that_wait_for_their_broker_past_the_deadline_are_dropped_and_counted() -> None:
    """The age of events does not matter: time spent waiting elsewhere does not count (paper 3, 5.1)."""
    (hosted,) = hosted_brokers().values()
    office = HostAdmission(Features(admission=AdmissionConfig(deadline_seconds=5.0)), {}, lambda *_: None)
    ancient = some(2)
    ancient.batch.published_at[:] = 0.0
    now = time.time()
    assert office.take_in(hosted, ancient, now - 2.0) and hosted.expired_events == 0
    assert not office.take_in(hosted, some(3), now - 9.0)
    assert hosted.expired_events == sizes_of(hosted)["expired_events"] == 3
    assert office.take_in(hosted, some(1), None), "it has just come"
    assert HostAdmission(NONE, {}, lambda *_: None).take_in(hosted, some(1), 0.0)


def test_an_event_costs_what_its_broker_was_burdened_with(monkeypatch: pytest.MonkeyPatch) -> None:
    (hosted,) = hosted_brokers().values()
    office = HostAdmission(NONE, {}, lambda *_: None)
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(
        time, "monotonic", lambda: 9.0
    )  # as if the work took no longer than its processor time
    office.burden(0.002, 0.01)
    before = time.thread_time()
    office.take_in(hosted, some(10), None)
    assert time.thread_time() - before >= 0.02
    assert 0.0 < slept[0] <= 2.0, "of a hundredth of a CPU it stands still for most of the time"


@pytest.mark.parametrize(
    ("news", "question", "answer"),
    [
        (Judgement(1, True, 2, (), dry=True), WouldAdmit, "news"),
        (Judgement(1, False, 2, (), dry=True), WouldAdmit, "news"),
        (Judgement(1, False, 2, ()), Register, SubscriptionRejected),
        (Everywhere(1), Advertise, 7),
        (Judgement(1, True, 2, ()), Register, "later"),
    ],
)
def test_what_a_broker_says_answers_the_question_that_it_is_about(
    news: News, question: type, answer: Any
) -> None:
    async def test() -> None:
        (hosted,) = hosted_brokers().values()
        asked: Question = ("alice", question, 1)
        waiting = hosted.answers.owe(asked)
        HostAdmission(Features(admission=AdmissionConfig()), {}, lambda *_: None).inform(
            hosted, "alice", news, 7
        )
        if answer == "later":
            assert not waiting.done()
        elif answer is SubscriptionRejected:
            with pytest.raises(SubscriptionRejected, match="subscription 1 of 'alice'"):
                await waiting
        else:
            assert await waiting == (news if answer == "news" else answer)

    go(test())


def test_without_admission_control_nothing_can_be_asked_of_it() -> None:
    HostAdmission(Features(admission=AdmissionConfig()), {}, lambda *_: None).require()
    with pytest.raises(InputError, match="no admission control"):
        HostAdmission(NONE, {}, lambda *_: None).require()


# Reports about brokers.


def test_a_broker_without_a_feature_says_nothing_of_it() -> None:
    (hosted,) = hosted_brokers().values()
    assert survey_of(hosted) is None and books_of(hosted.broker) is None
    assert answer(hosted.broker, "alice", Lacking()) == answer(hosted.broker, "alice", WhoAnswers()) == {}
    assert answer(hosted.broker, "bob", Accepted()) == (0, []) and list(dead_letters(hosted.broker)) == []
    (healing,) = hosted_brokers(recovery=Recovery.for_tests()).values()
    said = survey_of(healing)
    assert said is not None and said["broker"] == 0


# Telemetry.


class Collector:
    """A fake of the collector's actor; it may be dead for a while."""

    def __init__(self) -> None:
        self.add = self
        self.dead = False
        self.taken: list[HandOver] = []

    async def remote(self, flush: HandOver) -> None:
        if self.dead:
            raise RayActorError
        self.taken.append(flush)


def write_down(hosted: HostedBroker, rows: int) -> None:
    for _ in range(rows):
        hosted.telemetry.published(1.0, batch_of([{"x": 1}], publisher="p", first_sequence=1))


def rows_of(flush: HandOver) -> int:
    return sum(len(table["time_seconds"]) for tables in flush.tables for table in tables.values())


def test_what_did_not_arrive_is_handed_over_again_before_what_is_new() -> None:
    async def test() -> None:
        collector, here = Collector(), hosted_brokers(2)
        way = HostTelemetry(here, collector)
        for hosted in here.values():
            write_down(hosted, 2)
        collector.dead = True
        await way.flush()
        write_down(here[0], 3)
        collector.dead = False
        await way.flush()
        await way.flush()
        assert [rows_of(flush) for flush in collector.taken] == [4, 3, 0], "the last asks what came before"
        assert [sum(flush.before.values()) for flush in collector.taken] == [0, 4, 7]

    go(test())


def test_a_flush_in_the_background_is_made_once_and_not_for_nothing() -> None:
    async def test() -> None:
        collector, here = Collector(), hosted_brokers()
        way = HostTelemetry(here, collector)
        way.flush_soon()
        await asyncio.sleep(0)
        assert collector.taken == []
        write_down(here[0], 1)
        for _ in range(3):
            way.flush_soon()
        for _ in range(5):
            await asyncio.sleep(0)
        assert [rows_of(flush) for flush in collector.taken] == [1]
        nowhere = HostTelemetry(here, None)
        write_down(here[0], 1)
        nowhere.flush_when_due(here[0])
        nowhere.flush_soon()
        await nowhere.flush()
        assert here[0].telemetry.rows == 1, "it stays, up to its bound"

    go(test())


# Links.


def test_a_link_is_made_when_something_goes_over_it() -> None:
    async def test() -> None:
        host = BrokerHost("hybrid", LIMITS)
        places = ClusterTree(2, 3).positions()
        await host.start_brokers(places)
        await host.connect({})
        below = next(place for place in places if place.role == "DEB")
        assert below.parent is not None
        made = {broker: hosted.links for broker, hosted in host.hosted_brokers.items()}
        assert not any(made.values()) and below.parent in below.neighbours
        host.hosted_brokers[below.broker].renew(below.parent, False)  # nothing was lost on it
        await host.request(below.broker, "p", [Events(batch_of([{"x": 1}], publisher="p"))])
        assert {broker: list(links) for broker, links in made.items() if links} == {
            below.broker: [below.parent]
        }

    go(test())


def test_garbage_is_collected_again_after_a_block_without_also_one_that_fails() -> None:
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), collecting_nothing():
        assert not gc.isenabled()
        with collecting_nothing():
            pass
        assert not gc.isenabled(), "whoever has switched it off switches it on"
        _ = 1 / 0
    assert gc.isenabled()


def test_what_a_host_has_made_for_many_brokers_is_looked_at_no_more_until_one_ends() -> None:
    let_go()
    try:
        keep_for_good(FROZEN_FROM - 1)
        assert gc.get_freeze_count() == 0
        keep_for_good(FROZEN_FROM)
        assert gc.get_freeze_count() > 0
    finally:
        let_go()
    assert gc.get_freeze_count() == 0
