"""What clients keep in order to move or to restart: marks against duplicates, positions, and their events."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.admission.controller import Admission
from rayvous.clients.publisher import PublisherMachine
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.protocol.batch import batch_of, concat
from rayvous.protocol.messages.admission import (
    AdmissionConfig,
    Advertise,
    GuaranteeStatus,
    Judgement,
    Refusal,
    Unadvertise,
)
from rayvous.protocol.messages.pubsub import (
    Answers,
    Cancel,
    Consumed,
    Events,
    Flush,
    HasConsumed,
    HasHad,
    HasPublished,
    Lost,
    ReadClock,
    Register,
    Resume,
)
from rayvous.routing.language.questions import to_filter


def batch(publisher, first, count):
    return batch_of([{"x": first + i} for i in range(count)], publisher=publisher, first_sequence=first)


def admitted(machine, given_batch):
    return [given_batch.identity(row) for row in machine.admit(given_batch, np.arange(len(given_batch)))]


def test_what_came_before_does_not_come_again():
    machine = SubscriberMachine()
    assert admitted(machine, batch("p", 1, 3)) == [("p", 1), ("p", 2), ("p", 3)]
    assert admitted(machine, batch("q", 2, 1)) == [("q", 2)]
    assert machine.arrive(0.0)[0].marks == {"p": 3, "q": 2}
    assert admitted(machine, batch("p", 2, 4)) == [("p", 4), ("p", 5)]
    assert admitted(machine, batch("q", 1, 2)) == []


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("pq"), st.integers(1, 12), st.integers(1, 5)), min_size=1, max_size=6)
)
def test_marks_against_a_set_of_numbers(runs):
    """Also if one batch contains an event twice."""
    machine, highest, expected = SubscriberMachine(), {"p": 0, "q": 0}, []
    whole = concat([batch(*run) for run in runs])
    for publisher, first, count in runs:
        for number in range(first, first + count):
            if number > highest[publisher]:
                highest[publisher] = number
                expected.append((publisher, number))
    assert admitted(machine, whole) == expected


def test_a_durable_one_says_its_position_and_a_new_life_wherever_it_comes():
    machine = SubscriberMachine(durable=True)
    (first,) = machine.arrive(10.0, incarnation=1)
    assert (first.incarnation, first.marks, first.numbers) == (1, {}, ())
    wanted = to_filter("x > 0")
    assert machine.subscribe(1, wanted, 10.0) == [Register(1, wanted)]
    admitted(machine, batch("p", 1, 5))
    assert machine.acknowledge({"p": 3}) == [Consumed({"p": 3}, 1)]
    assert machine.acknowledge({"p": 2}) == [], "it never goes back"
    machine.confirmed(1)
    resume, again = machine.arrive(14.0, away_seconds=2.0, incarnation=2)
    assert resume == Resume({"p": 3}, 4.0, 2.0, 2, (1,), {1: 4.0}, {1: {}})
    assert again == Register(1, wanted, admitted=True)
    assert admitted(machine, batch("p", 4, 2)) == [], "this process was given them"
    assert machine.acknowledge() == [Consumed({"p": 5}, 2)]


def test_it_reads_the_clock_of_a_broker_before_it_comes_with_what_is_in_force():
    machine = SubscriberMachine()
    machine.subscribe(1, to_filter("x > 0"), 10.0)
    assert machine.approach() == [], "it has nothing whose age matters"
    machine.confirmed(1)
    assert machine.approach() == [ReadClock()] and machine.unconfirmed == {1}
    resume, _ = machine.arrive(14.0, clock=777.0)
    assert (resume.ages_seconds, resume.clock) == ({1: 4.0}, 777.0)
    machine.cancel(1)
    assert machine.approach() == [] and machine.arrive(15.0)[0].clock is None


def test_each_subscription_has_an_age_wherever_it_goes():
    """Also in another process; a subscription whose age was not recorded counts as old as its subscriber."""
    machine = SubscriberMachine(durable=True)
    machine.subscribe(1, to_filter("x > 0"), 10.0)
    machine.subscribe(2, to_filter("x > 1"), 14.0)
    machine.subscribe(1, to_filter("x > 0"), 15.0)  # repeated
    machine.confirmed(1)
    machine.confirmed(2)
    record = machine.record()
    earlier = {name: value for name, value in record.items() if name != "begun"}
    for known, ages in ((record, {1: 10.0, 2: 6.0}), (earlier, {1: 10.0, 2: 10.0})):
        heir = SubscriberMachine(durable=True)
        heir.restore(known)
        assert heir.arrive(20.0)[0].ages_seconds == ages
    machine.subscribe(1, to_filter("x > 5"), 16.0)
    machine.cancel(2)
    machine.subscribe(2, to_filter("x > 1"), 17.0)
    machine.confirmed(1)
    machine.confirmed(2)
    assert machine.arrive(20.0)[0].ages_seconds == {1: 4.0, 2: 3.0}


def test_a_process_that_dies_has_had_what_it_acknowledged_and_nothing_else():
    machine = SubscriberMachine(durable=True)
    for number in (1, 2):
        machine.subscribe(number, to_filter("x > 0"), 0.0)
    machine.confirmed(1)
    admitted(machine, batch("p", 1, 5))
    machine.acknowledge({"p": 2})
    heir = SubscriberMachine(durable=True)
    heir.restore(machine.record())
    assert heir.subscriptions == {1: to_filter("x > 0")}, "nobody waits for the other one any more"
    assert admitted(heir, batch("p", 1, 5)) == [("p", 3), ("p", 4), ("p", 5)]


def test_what_is_confirmed_here_is_awaited_again_elsewhere():
    machine = SubscriberMachine()
    for number in (1, 2):
        machine.subscribe(number, to_filter("x > 0"), 0.0)
    machine.confirmed(1)
    assert machine.unconfirmed == {2}
    machine.arrive(1.0)
    assert machine.unconfirmed == {1, 2}


def test_who_turns_a_subscription_asks_until_it_is_confirmed_and_is_answered_then():
    machine, wanted = SubscriberMachine(), to_filter("x > 0")
    machine.subscribe(1, wanted, 0.0, local_first=True)
    machine.confirmed(1)
    assert machine.set_local_first(1, True) == [] == machine.set_local_first(2, False)
    for local_first in (False, True):
        asked = [Register(1, wanted, local_first=local_first)]  # not admitted: that has no answer
        for _ in range(2):
            assert machine.set_local_first(1, local_first) == asked and machine.unconfirmed == {1}
            assert machine.request([1], awaited=True) == asked
        assert machine.record()["local_first"] == [1] * local_first
        machine.confirmed(1)
        assert machine.set_local_first(1, local_first) == []
    assert machine.request([1]) == [Register(1, wanted, admitted=True, local_first=True)]


def test_what_clients_report_is_what_they_were_given_or_have_acknowledged_or_published():
    passing, durable = SubscriberMachine(), SubscriberMachine(durable=True)
    durable.arrive(0.0, incarnation=2)
    for machine in (passing, durable):
        admitted(machine, batch("p", 1, 5))
        machine.acknowledge({"p": 3})
    assert passing.has_had() == HasHad({"p": 5}) and durable.has_had() == HasConsumed({"p": 3}, 2)
    publisher = PublisherMachine("p", 100, 60.0)
    publish(publisher, 1.0, 3)
    assert publisher.has_published() == HasPublished(3)


def test_what_was_held_is_said_once_at_the_next_broker():
    """It is retained as well, so it is published again there."""
    machine = PublisherMachine("p", 100, 60.0)
    machine.advertise(1, to_filter("x > 0"), 5)
    publish(machine, 1.0, 2)
    machine.arrive(2.0)
    publish(machine, 2.5, 1)
    first, second = machine.everywhere(1, 3.0)
    assert first.retransmitted and first.batch.identity(0) == ("p", 1)
    assert not second.retransmitted and second.batch.identity(0) == ("p", 3)


def test_a_loss_is_news_once():
    machine = SubscriberMachine()
    assert machine.lost([Lost("p", 1, 2)]) == [Lost("p", 1, 2)]
    assert machine.lost([Lost("p", 1, 2), Lost("p", 5, 5)]) == [Lost("p", 5, 5)]
    assert machine.losses == [Lost("p", 1, 2), Lost("p", 5, 5)]


def again(machine, now):
    return [message for message in machine.arrive(now) if isinstance(message, Events)]


def kept(machine, now):
    return [(events.batch.identity(0)[1], len(events.batch)) for events in again(machine, now)]


def publish(machine, now, count):
    machine.publish(batch_of([{"x": 1}] * count), now)


def test_what_is_kept_is_bounded_by_count_and_age():
    machine = PublisherMachine("p", 5, 10.0)
    publish(machine, 0.0, 3)
    publish(machine, 1.0, 2)
    assert kept(machine, 1.0) == [(1, 3), (4, 2)]
    machine.accept(5, 1.5)
    publish(machine, 2.0, 1)
    machine.accept(6, 2.0)
    assert kept(machine, 2.0) == [(4, 2), (6, 1)]
    assert kept(machine, 11.5) == [(6, 1)]
    publish(machine, 12.0, 9)
    machine.accept(15, 12.0)
    assert kept(machine, 12.0) == [(7, 9)], "the last batch is kept, however large"
    assert machine.published == 15


def test_what_no_broker_has_accepted_is_kept_and_is_as_new_wherever_it_comes():
    machine = PublisherMachine("p", 1, 10.0)
    publish(machine, 0.0, 3)
    machine.accept(3, 0.5)
    publish(machine, 1.0, 2)
    publish(machine, 2.0, 1)
    assert kept(machine, 60.0) == [(4, 2), (6, 1)]
    assert [events.age_seconds for events in again(machine, 60.0)] == [0.0, 0.0]
    machine.accept(5, 61.0)
    assert kept(machine, 61.0) == [(6, 1)]


def test_what_is_published_again_says_how_old_it_is():
    machine = PublisherMachine("p", 100, 60.0)
    machine.publish(batch_of([{"x": 1}]), 10.0)
    machine.accept(1, 10.1)
    (events,) = machine.arrive(25.0)
    assert events.retransmitted and events.age_seconds == 15.0


def test_a_publisher_that_comes_back_goes_on_from_what_its_broker_knows():
    machine = PublisherMachine("p", 100, 60.0)
    machine.publish(batch_of([{"x": 1}, {"x": 2}]), 10.0)
    machine.reattach(30.0, 7, [(12.0, batch("p", 6, 2))])
    assert machine.held == [(6, 2, batch("p", 6, 2).nbytes)]
    (events,) = machine.arrive(30.0)
    assert events.age_seconds == 12.0 and events.batch.identity(0) == ("p", 6)
    _, (events,) = machine.publish(batch_of([{"x": 3}]), 31.0)
    assert events.batch.identity(0) == ("p", 8)


def test_what_is_kept_is_bounded_by_bytes_too_but_for_what_is_not_accepted():
    size = batch("p", 1, 3).nbytes
    machine = PublisherMachine("p", 100, 60.0, retention_bytes_max=2 * size)
    for turn in range(4):
        machine.publish(batch_of([{"x": turn}] * 3), 1.0)
    assert [first for first, _ in kept(machine, 1.0)] == [1, 4, 7, 10]
    machine.accept(9, 1.0)
    assert [first for first, _ in kept(machine, 1.0)] == [7, 10]


def test_what_is_published_is_held_until_every_advertisement_is_known_everywhere():
    machine, item = PublisherMachine("p", 100, 60.0), to_filter("x > 0")
    assert machine.advertise(1, item, 5) == [Advertise(1, item, 5, 0)]
    machine.advertise(2, item, 7)
    _, said = machine.publish(batch_of([{"x": 1}]), 1.0)
    assert said == machine.flush(1, 1.0) == [] and machine.everywhere(1, 2.0) == []
    (events, question) = machine.everywhere(2, 2.0)
    assert events.batch.identity(0) == ("p", 1) and not events.retransmitted and question == Flush(1)
    machine.accept(1, 2.0)
    first, second = machine.arrive(10.0)
    moment = machine.version
    assert first == Advertise(1, item, 5, moment) and second == Advertise(2, item, 7, moment)
    assert machine.unadvertise(2, 11.0) == [Unadvertise(2)], "the other one is not known yet"
    (events,) = machine.everywhere(1, 14.0)
    assert isinstance(events, Events) and events.retransmitted and events.age_seconds == 13.0


def test_the_age_of_what_is_published_again_counts_from_when_a_broker_accepted_it():
    """However long it waits for its advertisement: what nobody has accepted has no age, and is retained in full."""
    for seed in range(20):
        ages = drawn_ages(random.Random(f"ages/{seed}"))
        assert ages.count(True) > 3 and ages.count(False) > 3


def drawn_ages(rng):
    """Check the age of all that one publisher publishes again; return whether each had been accepted."""
    machine, now = PublisherMachine("p", 100, 60.0), 0.0
    machine.advertise(1, to_filter("x > 0"), 5)
    published_at, had = {}, []
    for _ in range(80):
        now += rng.random()
        said = []
        match rng.choice(["publish", "publish", "accept", "arrive", "known", "known"]):
            case "publish":
                machine.publish(batch_of([{"x": 1}]), now)
                published_at[machine.published] = now
            case "accept" if machine.accepted < machine.published:
                machine.accept(machine.accepted + 1, now)
            case "arrive":
                accepted_then = machine.accepted
                said = machine.arrive(now)
            case "known":
                said = machine.everywhere(1, now)
        for events in (each for each in said if isinstance(each, Events) and each.retransmitted):
            (number,) = events.batch.sequence.tolist()
            had.append(number <= machine.accepted)
            if number <= accepted_then:
                assert abs(events.age_seconds - (now - published_at[number])) < 1e-9
            elif not had[-1]:
                assert events.age_seconds == 0.0
    return had


def test_how_long_ago_something_was_forgotten_counts_while_events_are_held():
    machine = PublisherMachine("p", 1, 60.0)
    machine.advertise(1, to_filter("x > 0"), 5)
    for moment in (1.0, 2.0):
        machine.publish(batch_of([{"x": 1}]), moment)
        machine.accept(machine.published, moment)
    machine.arrive(10.0)
    (events,) = machine.everywhere(1, 14.0)
    assert events.batch.identity(0) == ("p", 2) and events.forgot_seconds == 13.0


def test_a_withdrawal_that_comes_late_is_older_than_what_was_advertised_since():
    """Also by another process of the same name, which cannot know how often the first one has moved."""
    machine, item = PublisherMachine("p", 100, 60.0), to_filter("x > 0")
    (here,) = machine.advertise(1, item, 5)
    (there,) = machine.arrive(10.0)
    assert machine.leave() == [Unadvertise(1, there.version)] and here.version < there.version
    (back,) = machine.arrive(10.0)
    assert back.version > there.version
    heir = PublisherMachine("p", 100, 60.0)
    heir.reattach(11.0, 0, ())
    (later,) = heir.advertise(1, item, 5)
    assert later.version > back.version


def test_a_publisher_that_is_back_at_once_is_not_withdrawn_by_what_it_said_when_it_left():
    """The broker hears of the departure last, because nobody waits for the answer to that call."""
    machine = PublisherMachine("p", 100, 60.0)
    (came,) = machine.advertise(1, to_filter("x > 0"), 5_000_000)
    (left,) = machine.leave()
    (back,) = machine.arrive(0.0)
    broker = Admission(0, AdmissionConfig(), [])
    for message in (came, back, left):
        broker.handle("p", message)
    assert list(broker.books.adverts) == [("p", 1)]
    broker.handle("p", Unadvertise(1))
    broker.handle("p", came)
    broker.handle("p", left)
    assert not broker.books.adverts, "who has left has"


def test_a_subscription_that_was_admitted_says_so_elsewhere_and_one_that_is_refused_is_gone():
    machine, item = SubscriberMachine(), to_filter("x > 0")
    for number in (1, 2, 3):
        assert machine.subscribe(number, item, 0.0, priority=number) == [Register(number, item, number)]
    assert not machine.judged(Judgement(1, True, 2, ())) and machine.judged(Judgement(2, False, 2, ()))
    assert not machine.judged(Judgement(9, False, 2, ())), "it was only asked whether"
    lack = (Refusal(0, "cpu", 1.0, 0.0),)
    machine.guarantee_changed(GuaranteeStatus(1, lack))
    assert machine.lacking == {1: lack}
    assert len(machine.arrive(5.0)) == 1, "neither is in force"
    assert machine.request() == [Register(1, item, 1, admitted=True), Register(3, item, 3)]
    assert machine.request([3, 9]) == [Register(3, item, 3)]
    assert machine.lacking == {}, "another broker knows better"
    assert machine.cancel(1) == [Cancel(1)] and machine.cancel(1) == [] and not machine.admitted


def test_what_a_subscription_lacks_is_known_until_all_is_well_and_only_of_what_there_is():
    """Paper 3, section 6 (further work): the subscriber is told of degradation, and when it is over."""
    machine = SubscriberMachine()
    machine.subscribe(1, to_filter("x > 1"), 0.0)
    refusals = (Refusal(3, "cpu", 2.0, 1.0),)
    for number in (1, 2):
        machine.guarantee_changed(GuaranteeStatus(number, refusals))
    assert machine.lacking == {1: refusals}
    machine.guarantee_changed(GuaranteeStatus(2, ()))
    assert machine.lacking == {1: refusals}
    machine.guarantee_changed(GuaranteeStatus(1, ()))
    assert machine.lacking == {}


def test_what_is_in_force_and_its_priorities_outlive_the_process():
    machine, item = SubscriberMachine(durable=True), to_filter("x > 0")
    for number in (1, 2, 3):
        machine.subscribe(number, item, 0.0, priority=2)
    machine.confirmed(1)
    machine.confirmed(3)
    machine.confirmed(8)
    assert machine.in_force == {1: item, 3: item}
    heir = SubscriberMachine(durable=True)
    heir.restore(machine.record(without={3}))
    assert heir.arrive(1.0)[1:] == [Register(1, item, 2, admitted=True)]
    assert heir.subscribe(heir.last_number + 1, item, 1.0) == [Register(2, item)]


def test_an_advertisement_that_is_withdrawn_goes_along_as_long_as_something_kept_needs_it():
    machine = PublisherMachine("p", 2, 60.0)
    for number, item in enumerate(("x > 0", "y > 0", "x > 5"), 1):
        machine.advertise(number, to_filter(item), 5)
        machine.everywhere(number, 0.0)
    machine.publish(batch_of([{"x": 1}]), 1.0)
    machine.unadvertise(3, 2.0)
    machine.unadvertise(1, 2.0)
    assert list(machine.withdrawn) == [1], "what the third admits the first one did"
    second, first = machine.arrive(3.0)
    moment = machine.version
    assert [second, first] == [
        Advertise(2, to_filter("y > 0"), 5, moment),
        Advertise(1, to_filter("x > 0"), 5, moment),
    ]
    assert machine.everywhere(2, 3.0) == []
    events, end = machine.everywhere(1, 3.0)
    assert isinstance(events, Events) and end == Unadvertise(1, moment)
    machine.publish(batch_of([{"y": 1}, {"y": 1}]), 4.0)
    machine.accept(3, 4.0)
    machine.unadvertise(2, 5.0)
    assert list(machine.withdrawn) == [2], "what was kept under the first one is forgotten"


def test_without_admission_control_nothing_hangs_on_an_advertisement():
    machine = PublisherMachine("p", 100, 60.0)
    machine.advertise(1, to_filter("x > 0"), 0)
    machine.everywhere(1, 0.0)
    machine.publish(batch_of([{"x": 1}]), 1.0)
    machine.unadvertise(1, 2.0)
    assert not machine.withdrawn


def test_where_a_subscription_begins_is_kept_wherever_it_goes():
    """Also in another process; one that no broker has confirmed has no beginning yet."""
    machine = SubscriberMachine(durable=True)
    for number in (1, 2, 3):
        machine.subscribe(number, to_filter("x > 0"), 0.0)
    machine.confirmed(1, {"p": 3})
    machine.answered(Answers(2, (), here=True, begins={"p": 4}))
    machine.confirmed(1, {"p": 9})
    machine.confirmed(7, {"p": 9})
    heir = SubscriberMachine(durable=True)
    heir.restore(machine.record())
    for each in (machine, heir):
        assert each.arrive(1.0)[0].begins == {1: {"p": 3}, 2: {"p": 4}}
    machine.confirmed(3)
    machine.subscribe(1, to_filter("x > 1"), 2.0)
    machine.cancel(2)
    assert machine.arrive(3.0)[0].begins == {3: {}}
    machine.confirmed(1, {"p": 5})
    earlier = machine.record()
    del earlier["begins"]
    heir.restore(earlier)
    assert heir.arrive(4.0)[0].begins == {1: {}, 3: {}}, (
        "a record of an earlier version has what was in force"
    )
