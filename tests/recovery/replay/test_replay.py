"""The replay layer: it keeps and sends again what a simple reference does, and is restored from a store."""

import random
from collections import deque

import numpy as np
import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Confirm, Deliver, Inform, Received, Send, TellLost, Ticked, Write
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.layers import (
    Delivered,
    Heard,
    Inward,
    IsDelivered,
    Restored,
    RoundBegan,
    RoundWanted,
    Tell,
)
from rayvous.protocol.messages.handover import Bequest, Inherited
from rayvous.protocol.messages.pubsub import (
    Answer,
    Answers,
    Cancel,
    Consumed,
    Directed,
    Events,
    Register,
    Resume,
    TakenOver,
)
from rayvous.protocol.messages.recovery import RENDEZVOUS, LeaveNetwork, Recovery
from rayvous.protocol.messages.rounds import Forgotten, Marker
from rayvous.protocol.queries import HasLeft
from rayvous.recovery.durability.identity import Identity
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.recovery.replay.replay import KEPT, TAKEN_OVER, Replay
from rayvous.recovery.replay.rounds import RETRANSMISSION_EVENTS_MAX, Rounds
from rayvous.routing.language.questions import to_filter

WANTS = Register(1, to_filter("n >= 0"))


class Alone:
    """The replay layer without the others; its writes are committed, and its other outputs returned."""

    def __init__(self, store=None, confirms=False, **recovery):
        self.recovery = Recovery.for_simulator(**recovery)
        self.store = store
        self.rounds = Rounds(self.recovery.retention_events_max, self.recovery.retention_seconds)
        identity = Identity(self.rounds, self.recovery.retention_seconds, store)
        self.layer = Replay(1, self.recovery, self.rounds, store, identity.alive_at, confirms=confirms)

    def take(self, event):
        key = type(event.message) if isinstance(event, Received) else type(event)
        out = (self.layer.takes.get(key) or self.layer.sees[key])(event)
        if self.store is not None:
            self.store.commit([each for each in out if isinstance(each, Write)])
        return [each for each in out if not isinstance(each, Write)]

    def publish(self, publisher, first, count=1, **how):
        batch = batch_of([{"n": 1}] * count, publisher=publisher, first_sequence=first)
        return self.take(Received(publisher, Events(batch, **how)))

    def subscribe(self, client):
        self.take(Received(client, WANTS))
        (confirm,) = self.layer.alters[Confirm](Confirm(client, 1))
        return confirm.begins

    def round(self, number, window=1e9):
        assert self.rounds.begin(RoundNumber(1, number), window)
        return self.layer.alters[RoundBegan](RoundBegan(RoundNumber(1, number)))


def sent(out):
    """Return the identities of the events that are passed inwards."""
    batches = [
        each.event.message.batch
        for each in out
        if isinstance(each, Inward) and isinstance(each.event, Received)
    ]
    return [batch.identity(row) for batch in batches for row in range(len(batch))]


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_a_round_sends_again_what_was_accepted_within_bounds_in_order(seed, stable):
    """Compared with a list of (time, events); with a store, also with a restored twin after each step."""
    rng = random.Random(f"replay/{seed}")
    bounds = {"retention_events_max": 30, "retention_seconds": 20.0}
    machine = Alone(MemoryStore() if stable else None, **bounds)
    reference, next_of, now = [], {}, 0.0
    for turn in range(120):
        now += rng.choice((0.0, 0.3, 4.0)) * rng.random()
        machine.take(Ticked(now))
        reference = [each for each in reference if now - each[0] <= 20.0]
        publisher = rng.choice("abc")
        count = rng.randint(1, 4)
        known = next_of.get(publisher, 1)
        again = stable and known > 1 and rng.random() < 0.3
        first = max(1, known - rng.randint(1, 3)) if again else known
        machine.publish(publisher, first, count, retransmitted=again, forgot_seconds=1e9 if again else 0.0)
        fresh = [(publisher, number) for number in range(max(first, known), first + count)]
        next_of[publisher] = max(known, first + count)
        if fresh:
            reference.append((now, fresh))
        while len(reference) > 1 and sum(len(events) for _, events in reference) > 30:
            reference.pop(0)
        if rng.random() < 0.2:
            out = machine.round(turn + 1)
            assert sent(out) == [event for _, events in reference for event in events]
        machine.layer.check()
        if stable:
            twin = Alone(machine.store, **bounds)
            twin.take(Ticked(now))
            for name, number in next_of.items():
                assert twin.layer.accepted(name) == machine.layer.accepted(name) == number - 1
                ages = [(age, len(batch)) for age, batch in twin.layer.kept_of(name)]
                assert ages == [(age, len(batch)) for age, batch in machine.layer.kept_of(name)]


def test_what_is_not_kept_any_more_goes_ahead_and_is_told_once_to_whom_it_may_have_been_for():
    machine = Alone(retention_seconds=10.0)
    machine.take(Ticked(0.0))
    machine.subscribe("s")
    machine.publish("p", 1, 3)
    machine.take(Ticked(11.0))
    machine.publish("p", 4)
    news, tell, report, again = machine.round(1)
    assert isinstance(news, RoundBegan) and sent([again]) == [("p", 4)]
    assert isinstance(tell.event, Tell) and tell.event.message.entries == (("p", 3, 11.0),)
    assert isinstance(report, TellLost) and [(loss.first, loss.last) for loss in report.losses] == [(1, 3)]
    assert not any(isinstance(each, TellLost) for each in machine.round(2)), "it knows"


def test_what_is_older_than_the_round_mends_is_not_told():
    machine = Alone(retention_seconds=10.0)
    machine.take(Ticked(0.0))
    machine.subscribe("s")
    machine.publish("p", 1)
    machine.take(Ticked(30.0))
    assert machine.round(1, window=20.0) == [RoundBegan(RoundNumber(1, 1))]


def test_what_is_missing_ahead_of_a_publishers_first_event_here_is_lost_by_name_at_once():
    """The publisher comes from elsewhere, and no longer keeps the earlier events. Reference: promise 2."""
    machine = Alone()
    machine.take(Ticked(0.0))
    machine.subscribe("s")
    tell, report, events = machine.publish("p", 4, retransmitted=True)
    assert isinstance(tell.event, Tell) and [each[:2] for each in tell.event.message.entries] == [("p", 3)]
    assert [(loss.publisher, loss.first, loss.last) for loss in report.losses] == [("p", 1, 3)]
    assert sent([events]) == [("p", 4)]


@pytest.mark.parametrize("stable", [False, True])
def test_who_has_forgotten_what_another_broker_keeps_does_not_answer_for_that_publisher(stable):
    """The incomplete stream of this broker would hide the events that the other broker keeps. Promise 2."""
    store = MemoryStore() if stable else None
    machine = Alone(store, retention_events_max=4)
    machine.take(Ticked(0.0))
    machine.subscribe("s")
    machine.publish("p", 1, 1)
    machine.publish("p", 2, 2)
    machine.publish("q", 1, 2)  # event 1 of p is forgotten
    machine.take(Received("p", TakenOver(2, 3)))
    told = machine.round(1)[1].event.message
    assert [each[:2] for each in told.entries] == [("p", 1)], "nobody keeps that"
    machine.take(Received("p", TakenOver(1, 2)))  # outdated: p has published here since
    assert sent(machine.round(2)) == [("p", 2), ("p", 3), ("q", 1), ("q", 2)]
    machine.take(Received("p", TakenOver(1, 3)))
    lives = [machine, *([Alone(store, retention_events_max=4)] if stable else [])]
    for incarnation in lives:
        incarnation.take(Ticked(1.0))
        _, *out = incarnation.round(3)
        assert sent(out) == [("q", 1), ("q", 2)] and len(out) == 1, (
            "no loss of p is told, and none of it is sent"
        )
        assert incarnation.layer.kept_of("p"), "for its process, should that die and come back here"
    machine.publish("p", 2, 3, retransmitted=True)
    assert ("p", 4) in sent(machine.round(4)), "it is here again"
    assert store is None or not list(store.rows(TAKEN_OVER))
    machine.take(Received("r", TakenOver(1, 3)))
    assert store is None or not list(store.rows(TAKEN_OVER)), "it has never published here"


@pytest.mark.parametrize("first, told", [(1, []), (2, [(1, 1)]), (4, [(1, 3)]), (5, [(1, 3), (4, 4)])])
@pytest.mark.parametrize("stable", [False, True])
def test_what_a_publisher_does_not_bring_back_and_was_forgotten_here_is_lost_at_once(stable, first, told):
    """The other broker, which retained it, may have left the network with it. Promise 2."""
    machine = Alone(MemoryStore() if stable else None, retention_events_max=4)
    machine.take(Ticked(0.0))
    machine.subscribe("s")
    machine.publish("p", 1, 3)
    machine.publish("q", 1, 4)  # what p has published is forgotten
    machine.take(Received("p", TakenOver(1, 4)))
    assert sent(machine.round(1)) == [("q", 1), ("q", 2), ("q", 3), ("q", 4)], "the other one retains it"
    out = machine.publish("p", first, 6 - first, retransmitted=True)
    losses = [loss for each in out if isinstance(each, TellLost) for loss in each.losses]
    assert [(loss.first, loss.last) for loss in losses] == told
    assert sent(out[-1:]) == [("p", number) for number in range(first, 6)], "after what is lost"


def test_of_losses_of_others_is_told_nothing_who_is_owed_the_events_of_publishers_here():
    """The subscription is satisfied by publishers at its own broker. Reference: paper 2, 2.3."""
    for here, more, told in ((True, 0, ["here"]), (True, 1, ["far", "here"]), (False, 0, ["far", "here"])):
        machine = Alone()
        machine.take(Ticked(0.0))
        machine.subscribe("s")
        news = Inform("s", Answers(1, (Answer("here", 1, WANTS.filter),), more, here))
        assert machine.layer.alters[Inform](news) == [news]
        gone = Forgotten((("far", 2, 0.0), ("here", 3, 0.0)), RoundNumber(0, 0), 0.0)
        _, *reports = machine.layer.alters[Heard](Heard(2, gone))
        assert [loss.publisher for each in reports for loss in each.losses] == told


def test_who_moved_here_waits_for_a_round():
    machine = Alone()
    machine.take(Ticked(0.0))
    assert machine.take(Received("s", Resume({}))) == [Inward(RoundWanted())]
    machine.subscribe("s")
    batch = batch_of([{"n": 1}], publisher="p", first_sequence=1)
    events = Events(batch, machine.rounds.current)
    deliver = Deliver(batch, ("s",), [0, 1], batch.sequence[:1] * 0, brought_by=events)
    assert machine.layer.alters[Deliver](deliver) == []
    marker = Tell(1, Marker(1, 1, RoundNumber(0, 0), 0.0), whole=True)
    assert machine.take(marker) == [], "where an event could not have passed, a marker does not"
    assert machine.take(Tell(2, Forgotten((), RoundNumber(0, 0), 0.0))) != []
    machine.rounds.make_ready("s", machine.rounds.current)
    machine.round(1)
    assert machine.take(marker) != []


def test_who_announces_subscriptions_waits_for_a_round_once_it_has_registered_or_cancelled_each():
    machine = Alone()
    machine.take(Ticked(0.0))
    assert machine.take(Received("s", Resume({}, ages_seconds={1: 5.0, 2: 5.0}))) == []
    assert Inward(RoundWanted()) not in machine.take(Received("s", WANTS))
    assert Inward(RoundWanted()) in machine.take(Received("s", Cancel(2)))
    assert Inward(RoundWanted()) not in machine.take(Received("s", WANTS)), "once"


def test_it_asks_whether_all_has_come_before_half_a_retention_is_over_and_counts_as_lost_what_goes_before():
    machine = Alone(MemoryStore(), confirms=True, retention_seconds=10.0)
    machine.take(Ticked(0.0))
    machine.publish("p", 1)
    assert machine.take(Ticked(4.9))[:-1] == []
    (question, _) = machine.take(Ticked(5.0))
    assert isinstance(question, IsDelivered)
    machine.publish("p", 2)
    machine.take(Ticked(16.0))  # both are forgotten
    told = machine.round(1, window=0.0)[1].event.message
    assert told.entries == (("p", 2, 11.0),)
    machine.take(Delivered(question.number))
    (again, _) = machine.take(Ticked(16.5))
    assert isinstance(again, IsDelivered) and again.number == 2
    machine.take(Delivered(again.number))
    assert machine.round(2, window=0.0) == [RoundBegan(RoundNumber(1, 2))]
    assert machine.take(Ticked(60.0))[:-1] == [], "nothing has come since"


def test_many_small_batches_go_again_in_few():
    machine = Alone()
    machine.take(Ticked(0.0))
    for number in range(RETRANSMISSION_EVENTS_MAX // 8):
        machine.publish(f"p{number % 3}", 1 + 16 * (number // 3), 16)
    again = [each for each in machine.round(1) if isinstance(each, Inward)]
    assert (
        len(again) == 2
        and len(sent(again)) == 2 * RETRANSMISSION_EVENTS_MAX - (2 * RETRANSMISSION_EVENTS_MAX) % 16
    )


def test_rows_that_are_not_needed_go_with_the_next_change():
    machine = Alone(MemoryStore(), retention_seconds=10.0)
    machine.take(Ticked(0.0))
    for number in range(5):
        machine.publish("p", 1 + number)
    machine.take(Ticked(20.0))
    assert len(list(machine.store.rows(KEPT))) == 5, "few rows wait for a change"
    machine.publish("p", 6)
    assert len(list(machine.store.rows(KEPT))) == 1


@pytest.mark.parametrize("moves", [False, True])
def test_a_subscription_begins_at_what_its_broker_knew_at_the_confirmation(moves):
    """Also at any other broker, which knows something else. Promise 1."""
    machine = Alone()
    machine.take(Ticked(0.0))
    machine.publish("p", 1, 3)
    far = batch_of([{"n": 1}] * 2, publisher="q", first_sequence=4)
    machine.take(Received(2, Directed(Events(far), 2, ((3,), (3,)), ((1,), (2,)))))  # for others
    begins = machine.subscribe("s")
    assert begins == {"p": 3, "q": 5}
    machine.publish("p", 4)
    (again,) = machine.layer.alters[Confirm](Confirm("s", 1))
    assert again.begins == begins
    if moves:
        machine = Alone()
        machine.take(Ticked(7.0))
        machine.publish("p", 1, 4)
        machine.take(Received("s", Resume({}, ages_seconds={1: 0.0}, begins={1: begins})))
        assert machine.subscribe("s") == begins
        machine.rounds.make_ready("s", machine.rounds.current)
        machine.round(1)
    batch = batch_of([{"n": 1}] * 6, publisher="p", first_sequence=1)
    events = Events(batch, machine.rounds.current, True)
    deliver = Deliver(batch, ("s",), np.array([0, 6]), np.arange(6), brought_by=events)
    (delivered,) = machine.layer.alters[Deliver](deliver)
    assert delivered.rows.tolist() == [3, 4, 5]


def test_a_delivery_of_which_all_is_new_stays_as_it_is_and_comes_once() -> None:
    machine = Alone()
    machine.take(Ticked(7.0))
    machine.subscribe("s")
    batch = batch_of([{"n": 1}] * 2, publisher="p", first_sequence=1)
    rows = np.array([0, 1]), np.array([1])
    for row, known in zip(rows, (True, False), strict=True):
        brought_by = Events(batch, machine.rounds.current)
        deliver = Deliver(batch, ("s",), np.array([0, len(row)]), row, brought_by=brought_by)
        assert [each is deliver for each in machine.layer.alters[Deliver](deliver)] == [True] * known


@pytest.mark.parametrize("comes", ["moves", "returns"])
@pytest.mark.parametrize("stated, older", [("from a reading", True), ("after an unknown time", False)])
def test_who_has_read_its_brokers_clock_is_as_old_as_it_says_however_long_that_took(comes, stated, older):
    """It was made at 16 s by this clock, said at 20 s that it was 4 s old, and was heard at 30 s."""
    machine = Alone()
    machine.take(Ticked(30.0))
    clock, begins = 20.0 if stated == "from a reading" else None, {1: {}}
    if comes == "moves":
        moved = Resume({}, 9.0, ages_seconds={1: 4.0}, begins=begins, clock=clock)
        machine.take(Received("s", moved))
    else:
        machine.take(Received("s", Consumed({}, 2, begins, {} if clock is None else {1: 16.0})))
    machine.subscribe("s")
    machine.rounds.make_ready("s", machine.rounds.current)
    machine.round(1)
    delivered = {}
    for number, accepted in ((1, 12.0), (2, 15.5)):
        batch = batch_of([{"n": 1}], publisher="p", first_sequence=number)
        events = Events(batch, machine.rounds.current, True, age_seconds=30.0 - accepted)
        deliver = Deliver(batch, ("s",), np.array([0, 1]), np.array([0]), brought_by=events)
        delivered[accepted] = bool(machine.layer.alters[Deliver](deliver))
    assert delivered == {12.0: not older, 15.5: True}, "by half a second the two clocks may lag"


BEGINS = {1: {"p": 3}, 2: {"q": 5}}


@pytest.mark.parametrize(
    "comes",
    [
        pytest.param(Received("s", Resume({}, begins=BEGINS)), id="moves"),
        pytest.param(Received("s", Consumed({}, 1, BEGINS)), id="returns"),
        pytest.param(Restored("s", {}, 0.0, (), BEGINS), id="is-restored"),
    ],
)
def test_a_broker_learns_numbers_from_the_subscribers_that_come(comes):
    """It is new, or was restarted, and alone with them: nobody else can tell it. Promise 1."""
    machine = Alone()
    machine.take(Ticked(7.0))
    machine.take(comes)
    assert machine.subscribe("t") == {"p": 3, "q": 5}


def test_a_subscription_that_publishers_here_satisfy_begins_with_that():
    machine = Alone()
    machine.take(Ticked(0.0))
    machine.publish("p", 1, 3)
    machine.take(Received("s", WANTS))
    news = Inform("s", Answers(1, (Answer("p", 1, WANTS.filter),), here=True))
    (informed,) = machine.layer.alters[Inform](news)
    assert informed == news and informed.news.begins == {"p": 3}
    machine.publish("p", 4)
    (confirm,) = machine.layer.alters[Confirm](Confirm("s", 1))
    assert confirm.begins == {"p": 3}


def test_a_broker_knows_the_numbers_that_it_has_stored():
    store = MemoryStore()
    machine = Alone(store)
    machine.take(Ticked(0.0))
    machine.publish("p", 1, 3)
    assert Alone(store).subscribe("s") == {"p": 3}


# A broker that leaves, and its trustee.


def handed_over(leaver, trustee, out):
    """Pass what a leaver hands over to its trustee until it leaves; return how many parts that took."""
    parts = 0
    while (sent := [each for each in out if isinstance(each, Send)]) and isinstance(sent[0].message, Bequest):
        parts += 1
        (answer,) = [each for each in trustee.take(Received(1, sent[0].message)) if isinstance(each, Send)]
        out = leaver.take(Received(2, answer.message))
    assert out == [Inward(Received(RENDEZVOUS, LeaveNetwork(2)))], "it may leave now, and not before"
    return parts


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_trustee_sends_again_what_the_leaver_would_have_sent(seed, stable):
    """Also what it had retained itself of a publisher that went to the leaver then, and all from its store."""
    rng = random.Random(f"trustees/{seed}")
    leaver, trustee = (Alone(MemoryStore() if stable else None, retention_events_max=200) for _ in range(2))
    clock = Ticked(rng.random())
    for machine in (leaver, trustee):
        machine.take(clock)
    trustee.publish("b", 1, 5)
    trustee.take(Received("b", TakenOver(3, 5)))
    leaver.publish("b", 3, 3, retransmitted=True)
    gone = rng.randint(0, 150)
    for publisher, first, count in (("a", 1, gone), ("a", 1 + gone, 60), ("b", 6, 100), ("c", 1, 9)):
        if count:
            leaver.publish(publisher, first, count)
    leaver.take(Received("c", TakenOver(1, 9)))
    parts = handed_over(leaver, trustee, leaver.take(Received(RENDEZVOUS, LeaveNetwork(2))))
    assert parts == 2, "what was forgotten is named in a part of its own, the first"
    assert "b" not in trustee.rounds.gone, "what the trustee retains itself is not lost"
    again = Alone(trustee.store, retention_events_max=200) if stable else trustee
    for publisher in "ab":
        assert again.layer.accepted(publisher) == leaver.layer.accepted(publisher)
    assert again.layer.accepted("c") == 0, "that publisher has taken its events along"
    assert again.rounds.gone.get("a", (0,))[0] == leaver.rounds.gone.get("a", (0,))[0]
    mine = dict.fromkeys(each for each in sent(leaver.round(1)) if each[0] != "c")
    assert set(sent(again.round(1))) == set(mine) | {("b", number) for number in range(1, 6)}


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_what_a_leaver_accepts_before_it_has_left_is_handed_over_too(seed, stable):
    """Whenever a leaver says that it has left, its trustee retains all that the leaver retains, and no less."""
    rng = random.Random(f"late/{seed}")
    leaver, trustee = (Alone(MemoryStore() if stable else None) for _ in range(2))
    order = Received(RENDEZVOUS, LeaveNetwork(2))
    for machine in (leaver, trustee):
        machine.take(Ticked(0.0))
    last = {"a": 0, "b": rng.randint(1, 9)}  # b comes from elsewhere, and has forgotten what was before
    waiting, told, times_left = deque(), False, 0
    steps = [*rng.choices(["a", "b", "answer", "answer"], k=60), *["answer"] * 60]
    steps.insert(rng.randint(0, 20), "order")
    for step in steps:
        out = []
        if step in last:
            out = leaver.publish(step, last[step] + 1, count := rng.randint(1, 4))
            last[step] += count
        elif step == "order":
            out = leaver.take(order)
        elif waiting:
            (answer,) = [each for each in trustee.take(Received(1, waiting.popleft())) if type(each) is Send]
            out = leaver.take(Received(2, answer.message))
        waiting += [each.message for each in out if type(each) is Send and type(each.message) is Bequest]
        told = told or Inward(order) in out
        if told and leaver.layer.answers[HasLeft](HasLeft()):
            times_left += 1
            for name in last:
                assert trustee.layer.accepted(name) == leaver.layer.accepted(name)
                assert trustee.rounds.gone.get(name, (0,))[0] == leaver.rounds.gone.get(name, (0,))[0]
                mine, its = ([one for _, one in each.layer.kept_of(name)] for each in (leaver, trustee))
                assert [*np.concatenate([one.sequence for one in its] or [[]])] == [
                    *np.concatenate([one.sequence for one in mine] or [[]])
                ]
    assert times_left


def test_a_part_is_repeated_and_another_trustee_gets_everything():
    leaver, first, second = Alone(), Alone(), Alone()
    leaver.publish("a", 1, 3)
    order = Received(RENDEZVOUS, LeaveNetwork(3))
    (part,) = leaver.take(order)
    assert part.to == 3 and first.take(Received(1, part.message)) == [Send(1, Inherited(part.message.number))]
    assert leaver.take(order) == [] == leaver.take(Received(4, Inherited(part.message.number)))
    leaver.take(Ticked(0.0))
    again = leaver.take(Ticked(leaver.layer.rests_until()))
    assert part in again, "the answer was lost"
    assert handed_over(leaver, second, leaver.take(Received(RENDEZVOUS, LeaveNetwork(2)))) == 1
    assert leaver.take(Received(RENDEZVOUS, LeaveNetwork(2))) == [
        Inward(Received(RENDEZVOUS, LeaveNetwork(2)))
    ]
    assert leaver.take(Received(1, part.message)) == [], "who leaves inherits nothing"
