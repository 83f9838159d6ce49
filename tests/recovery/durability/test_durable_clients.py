"""The layer of durable subscribers: after each step, a layer restored from the store has the same state."""

import random

import numpy as np
import pytest
from draws import seeds
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import (
    Confirm,
    Deliver,
    Inform,
    Propose,
    Received,
    Send,
    TellLost,
    Ticked,
    Write,
)
from rayvous.protocol.expiry import with_ttl
from rayvous.protocol.layers import CameBack, Held, Inward, Released, Restored
from rayvous.protocol.messages.handover import HandOver, SubscriberBequest, SubscriberInherited
from rayvous.protocol.messages.pubsub import (
    Answers,
    Cancel,
    ClockReads,
    Consumed,
    Detach,
    HasConsumed,
    Lost,
    ReadClock,
    Register,
    Resume,
    Undeliverable,
)
from rayvous.protocol.messages.recovery import RENDEZVOUS, Holds, LetGo, Recovery
from rayvous.recovery.durability.durable_clients import Backlogs, DurableClients
from rayvous.recovery.durability.durable_cursor import DurableCursor
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.recovery.replay.rounds import REMEMBERED_RETENTIONS
from rayvous.routing.language.questions import to_filter

BOUNDS = Recovery.for_simulator(durable_events_max=6, dead_letters_max=4)
WANTS = to_filter("n >= 0")


class Alone:
    def __init__(self, store):
        self.store = store
        self.layer = DurableClients(BOUNDS, store)

    def take(self, event):
        key = type(event.message) if isinstance(event, Received) else type(event)
        return self._done((self.layer.takes.get(key) or self.layer.sees[key])(event))

    def leave(self, effect):
        return self._done(self.layer.alters[type(effect)](effect))

    def _done(self, out):
        self.store.commit([each for each in out if isinstance(each, Write)])
        return [each for each in out if not isinstance(each, Write)]

    def deliver(self, publisher, sequence, *clients):
        batch = batch_of([{"n": 1}], publisher=publisher, first_sequence=sequence)
        rows = np.zeros(len(clients), np.intp)
        return self.leave(Deliver(batch, clients, np.arange(len(clients) + 1), rows))

    def held(self):
        return {
            name: (
                entry.incarnation,
                entry.marks,
                entry.subscriptions,
                entry.priorities,
                entry.losses,
                entry.begins,
                [batch.identity(row) for batch, rows in entry.unacknowledged() for row in rows],
            )
            for name, entry in self.layer.entries.items()
        }


@pytest.mark.parametrize("seed", seeds(20, usual=20))
def test_what_is_made_of_the_store_holds_the_same(seed):
    rng = random.Random(f"durable clients/{seed}")
    machine, lives, sequence = Alone(MemoryStore()), {}, 0
    for turn in range(150):
        client = rng.choice(("alice", "bob", "carol"))
        what = rng.choice(
            ("resume", "register", "confirm", "deliver", "deliver", "acknowledge", "cancel", "lose", "gone")
        )
        if what == "resume":
            lives[client] = lives.get(client, 0) + 1
            marks = {"p": rng.randint(0, sequence)}
            begins = {rng.randint(1, 3): {"p": sequence}}
            machine.take(
                Received(client, Resume(marks, incarnation=lives[client], numbers=(1, 2), begins=begins))
            )
        elif what == "confirm":
            machine.leave(Confirm(client, rng.randint(1, 3), begins={"p": sequence, "q": turn}))
        elif what == "register":
            machine.take(Received(client, Register(rng.randint(1, 3), WANTS, rng.randint(0, 2))))
        elif what == "cancel":
            machine.take(Received(client, Cancel(rng.randint(1, 3))))
        elif what == "deliver":
            sequence += 1
            machine.deliver("p", sequence, *rng.sample(("alice", "bob", "carol", "dave"), 2))
        elif what == "acknowledge":
            incarnation = lives.get(client, 1) - (rng.random() < 0.2)
            machine.take(Received(client, Consumed({"p": rng.randint(0, sequence)}, incarnation)))
        elif what == "lose":
            machine.leave(TellLost(client, (Lost("q", turn, turn),)))
        elif rng.random() < 0.2:
            machine.take(Received(client, Detach()))
        machine.layer.check()
        twin = Alone(machine.store)
        assert twin.held() == machine.held()
        assert list(twin.layer.letters) == list(machine.layer.letters)
        assert [each.client for each in twin.layer.begin()] == list(machine.layer.entries)


def test_a_subscriber_of_an_earlier_life_is_taken_inwards_first_and_told_around_in_the_first_step():
    first = Alone(MemoryStore())
    first.take(Received("alice", Resume({}, incarnation=1)))
    first.take(Received("alice", Register(1, WANTS, 2)))
    first.deliver("p", 3, "alice")
    second = Alone(first.store)
    (restored,) = second.layer.begin()
    register = Register(1, WANTS, 2, admitted=True)
    assert isinstance(restored, Restored) and restored.marks == {"p": 3} and restored.registers == (register,)
    out = second.take(Ticked(1.0))
    assert Held("alice", register) in out and Inward(Ticked(1.0)) in out
    assert not any(isinstance(each, Held) for each in second.take(Ticked(2.0)))


def test_one_that_has_come_back_elsewhere_is_let_go_and_those_around_are_told():
    machine = Alone(MemoryStore())
    (holds,) = machine.take(Received("alice", Resume({}, incarnation=1)))
    assert isinstance(holds, Send) and holds.message == Holds((("alice", 1),))
    assert machine.take(Received(-2, LetGo((("alice", 1),)))) == [], "that incarnation is here"
    out = machine.take(Received(-2, LetGo((("alice", 2),))))
    assert out == [Released("alice", Detach()), Inward(Received("alice", Detach()))]
    assert machine.held() == {} == Alone(machine.store).held()


def test_those_around_are_told_what_is_left_of_one_that_comes_back_and_it_is_judged_by_its_last_life():
    machine = Alone(MemoryStore())
    machine.take(Received("alice", Resume({}, incarnation=1)))
    for number in (1, 2):
        machine.take(Received("alice", Register(number, WANTS)))
    out = machine.take(Received("alice", Resume({}, incarnation=2, numbers=(2, 3))))
    assert [each for each in out if isinstance(each, CameBack)] == [CameBack("alice", (2, 3))]
    assert Inward(Received("alice", Cancel(1))) in out and list(machine.held()["alice"][2]) == [2]
    assert machine.take(Received("alice", Resume({}, incarnation=1, numbers=()))) == []


def test_who_speaks_in_an_earlier_life_is_not_listened_to():
    machine = Alone(MemoryStore())
    machine.take(Received("alice", Resume({}, incarnation=2)))
    machine.deliver("p", 1, "alice")
    assert machine.take(Received("alice", Resume({"p": 1}, incarnation=1))) == []
    assert machine.take(Received("alice", Consumed({"p": 1}, 1))) == []
    assert machine.held()["alice"][-1] == [("p", 1)]
    assert machine.take(Received("alice", Consumed({"p": 1}, 2))) != []
    assert machine.held()["alice"][-1] == []


def test_a_subscriber_that_is_not_durable_goes_by():
    machine = Alone(MemoryStore())
    for message in (Resume({}), Register(1, WANTS), Cancel(1), Detach()):
        assert machine.take(Received("bob", message)) == [Inward(Received("bob", message))]
    assert list(machine.store.rows("subscribers")) == []


def test_what_goes_beyond_the_bounds_is_lost_by_name_and_kept_as_a_dead_letter():
    machine = Alone(MemoryStore())
    machine.take(Received("alice", Resume({}, incarnation=1)))
    for sequence in range(1, 9):
        machine.deliver("p", sequence, "alice")
    (marks, losses, left) = (machine.held()["alice"][place] for place in (1, 4, -1))
    assert left == [("p", sequence) for sequence in range(3, 9)]
    assert losses == [Lost("p", 1, 2)] and marks == {"p": 2}
    assert [(letter.sequence, letter.reason) for letter in machine.layer.letters] == [
        (1, "count"),
        (2, "count"),
    ]
    (report,) = [
        each
        for each in machine.take(Received("alice", Resume({}, incarnation=2)))
        if isinstance(each, TellLost)
    ]
    assert report == TellLost("alice", (Lost("p", 1, 2),))


def begun(machine):
    """Return where the subscriptions of a broker that is restored from the store begin."""
    return {each.client: each.begins for each in Alone(machine.store).layer.begin()}


def test_what_a_subscriber_gives_up_is_a_dead_letter_once_with_what_it_says():
    machine = Alone(MemoryStore())
    machine.take(Received("alice", Resume({}, incarnation=1)))
    machine.take(Received("alice", Register(1, WANTS)))
    for sequence in (1, 2, 3):
        machine.deliver("p", sequence, "alice")
    machine.take(Received("alice", Consumed({"p": 1}, 1)))
    given_up = Undeliverable("p", 2, {"n": 1}, "deliveries: 5", 1)
    late, done = Undeliverable("p", 3, {}, "late", 0), Undeliverable("p", 1, {}, "done", 1)
    for message in (given_up, given_up, late, done):
        assert machine.take(Received("alice", message)) == []
    (letter,) = machine.layer.letters
    assert (letter.subscriber, letter.publisher, letter.sequence) == ("alice", "p", 2)
    assert (letter.event, letter.reason) == ({"n": 1}, "deliveries: 5")
    assert list(DurableClients(BOUNDS, machine.store).letters) == [letter], "it is stable"
    assert machine.layer.entries["alice"].outstanding == 2, "it is acknowledged afterwards"


def test_a_broker_makes_a_dead_letter_of_an_event_that_it_does_not_have():
    """A subscriber that has moved is not known here yet, or what it has not acknowledged has not come."""
    machine = Alone(MemoryStore())
    machine.take(Received("alice", Undeliverable("p", 1, {"n": 1}, "deliveries: 5", 3)))
    machine.take(Received("alice", Resume({}, incarnation=3)))
    machine.take(Received("alice", Undeliverable("p", 2, {"n": 2}, "deliveries: 5", 4)))
    assert [(each.sequence, each.event) for each in machine.layer.letters] == [(1, {"n": 1}), (2, {"n": 2})]


def test_where_a_subscription_begins_is_stable_before_it_is_confirmed_and_does_not_change():
    machine = Alone(MemoryStore())
    machine.take(Received("alice", Resume({}, incarnation=1)))
    machine.take(Received("alice", Register(1, WANTS)))
    machine.take(Received("alice", Register(2, WANTS)))
    assert begun(machine) == {"alice": {}}, "neither is confirmed"
    confirm = Confirm("alice", 1, begins={"p": 3})
    assert machine.leave(confirm) == [confirm]
    answers = Inform("alice", Answers(2, (), here=True, begins={"p": 4}))
    assert machine.leave(answers) == [answers]
    machine.leave(Confirm("alice", 1, begins={"p": 9}))
    machine.take(Received("alice", Register(1, WANTS)))
    assert begun(machine) == {"alice": {1: {"p": 3}, 2: {"p": 4}}}
    machine.take(Received("alice", HasConsumed({"p": 7}, 1)))
    assert begun(machine) == {"alice": {1: {"p": 3}, 2: {"p": 4}}}, "another position is no other beginning"
    machine.take(Received("alice", Register(2, to_filter("n > 7"))))
    assert begun(machine) == {"alice": {1: {"p": 3}}}, "another filter is another subscription"
    machine.take(Received("alice", Cancel(1)))
    machine.take(Received("alice", Detach()))
    assert list(machine.store.rows("begins")) == []


def test_who_comes_from_elsewhere_brings_where_its_subscriptions_begin():
    machine = Alone(MemoryStore())
    machine.take(Received("alice", Resume({}, incarnation=2, numbers=(1,), begins={1: {"p": 3}})))
    machine.take(Received("alice", Register(1, WANTS)))
    assert begun(machine) == {"alice": {1: {"p": 3}}}
    out = machine.take(
        Received("alice", Resume({}, incarnation=3, numbers=(1, 2), begins={1: {"p": 9}, 2: {}}))
    )
    assert Inward(Received("alice", Consumed({}, 3, {1: {"p": 9}, 2: {}}))) in out
    machine.take(Received("alice", Register(2, WANTS)))
    assert begun(machine) == {"alice": {1: {"p": 3}, 2: {}}}


def made(machine):
    """Return when each subscription was made, by the layer and by its store."""
    (found,) = [each.made for each in Alone(machine.store).layer.begin()]
    assert found == machine.layer.entries["alice"].made
    return found


def test_each_subscription_has_its_age_in_the_store_and_at_a_trustee():
    machine, trustee = Alone(MemoryStore()), Alone(MemoryStore())
    machine.take(Ticked(50.0))
    comes = Resume({}, 30.0, 0.0, 2, (1, 2), {1: 30.0, 2: 4.0}, {1: {}, 2: {}}, clock=45.0)
    machine.take(Received("alice", comes))
    for number in (1, 2):
        machine.take(Received("alice", Register(number, WANTS)))
    machine.take(Ticked(60.0))
    machine.take(Received("alice", Register(3, WANTS)))
    assert made(machine) == {1: 15.0, 2: 41.0, 3: 60.0}
    machine.take(Received("alice", Cancel(2)))
    back = Resume({}, 40.0, 0.0, 3, (1, 2, 3), {1: 55.0, 2: 3.0, 3: 9.0}, {1: {}, 2: {}, 3: {}}, clock=60.0)
    (consumed,) = [
        each.event.message
        for each in machine.take(Received("alice", back))
        if isinstance(each, Inward) and isinstance(each.event.message, Consumed)
    ]
    assert consumed.since == {1: 5.0, 2: 57.0, 3: 51.0}
    machine.take(Received("alice", Register(2, WANTS)))
    assert made(machine) == {1: 15.0, 2: 57.0, 3: 60.0}, "what it has here is known"
    trustee.take(Ticked(1_000.0))
    bequest = given(ordered(machine, trustee))
    trustee.take(Ticked(1_007.0))
    (comes, *_) = [each.event for each in trustee.take(Received(1, bequest)) if isinstance(each, Inward)]
    assert (comes.message.clock, comes.message.ages_seconds) == (1_000.0, {1: 45.0, 2: 3.0, 3: 0.0})
    assert made(trustee) == {1: 955.0, 2: 997.0, 3: 1_000.0}, "however long that was under way"


def test_a_leaver_asks_for_the_time_until_its_trustee_says_it_and_another_trustee_too():
    leaver = Alone(MemoryStore())
    leaver.take(Received("alice", Resume({}, incarnation=1)))
    asked = Send(2, ReadClock())
    assert asked in leaver.take(Received(RENDEZVOUS, HandOver(2))) and asked in leaver.take(Ticked(1.0))
    assert leaver.take(Received(3, ClockReads(5.0))) == [], "it was not asked"
    assert given(leaver.take(Received(2, ClockReads(70.0)))).clock == 70.0
    assert leaver.take(Received(2, ClockReads(71.0))) == [], "it was asked twice"
    assert Send(3, ReadClock()) in leaver.take(Received(RENDEZVOUS, HandOver(3)))
    assert given(leaver.take(Received(3, ClockReads(9.0)))).clock == 9.0


def test_where_a_subscription_begins_is_dropped_when_nobody_retains_what_is_older():
    machine = Alone(MemoryStore())
    machine.take(Received("alice", Resume({}, incarnation=1)))
    machine.take(Received("alice", Register(1, WANTS)))
    machine.leave(Confirm("alice", 1, begins={"p": 3}))
    seconds = BOUNDS.retention_seconds * REMEMBERED_RETENTIONS
    machine.take(Ticked(seconds))
    assert begun(machine) == {"alice": {1: {"p": 3}}}
    machine.take(Ticked(seconds + BOUNDS.retention_seconds))
    assert begun(machine) == {"alice": {1: {}}}


def test_a_subscription_that_an_earlier_version_has_stored_has_begun():
    machine = Alone(MemoryStore())
    machine.take(Received("alice", Resume({}, incarnation=1)))
    machine.take(Received("alice", Register(1, WANTS)))
    machine.store.commit([Write("begins", ("alice", 1), None)])
    assert begun(machine) == {"alice": {1: {}}}


def test_those_that_are_furthest_behind_are_written_and_no_others(monkeypatch):
    machine, written = Alone(MemoryStore()), []
    for place in range(5):
        machine.take(Received(f"c{place}", Resume({}, incarnation=1)))
        machine.take(Received(f"c{place}", Register(1, WANTS)))
    for at, name in enumerate(("c3", "c1", "c4")):
        machine.take(Ticked(float(at)))
        machine.deliver("p", at + 1, name)
    backlog = DurableCursor.backlog
    monkeypatch.setattr(
        DurableCursor, "backlog", lambda entry, now: written.append(entry.name) or backlog(entry, now)
    )
    ask = machine.layer.answers[Backlogs]
    assert [(each.name, each.events) for each in ask(Backlogs(2))] == [("c3", 1), ("c1", 1)]
    assert written == ["c3", "c1"]
    assert [each.name for each in ask(Backlogs())] == ["c0", "c1", "c2", "c3", "c4"]
    assert [each.name for each in ask(Backlogs(5))] == ["c0", "c1", "c2", "c3", "c4"]


def test_events_expire_on_the_wall_clock_although_the_network_stood_still():
    alone = Alone(MemoryStore())
    alone.take(Received("s", Resume({}, 0.0, 0.0, 1, ())))
    alone.take(Ticked(100.0, behind=1_000.0))
    for number, at in ((1, 1_099.0), (2, 1_000.0)):
        events = batch_of([{"n": 1}], publisher="p", first_sequence=number, published_at=at)
        alone.leave(Deliver(with_ttl(events, 5.0), ("s",), np.array([0, 1]), np.array([0])))
    assert alone.layer.describe()["durable_events"] == 1
    alone.take(Ticked(105.0, behind=1_000.0))
    assert alone.layer.describe()["durable_events"] == 0 and alone.layer.past_ttl == 1


# A broker that leaves, and its trustee.


def given(out):
    """Return what an effect of these sends to another broker than the rendezvous point."""
    (send,) = [each for each in out if isinstance(each, Send) and each.to != RENDEZVOUS]
    return send.message


def ordered(leaver, trustee):
    """Order a broker to hand over to broker 2, and return what it does when it has read the clock there."""
    asked = leaver.take(Received(RENDEZVOUS, HandOver(2)))
    assert [each for each in asked if isinstance(each, Send)] == [Send(2, ReadClock())]
    return leaver.take(Received(2, ClockReads(trustee.layer._now)))


def test_a_trustee_holds_what_the_leaver_held_and_so_does_its_store():
    leaver, trustee = Alone(MemoryStore()), Alone(MemoryStore())
    for machine, now in ((leaver, 100.0), (trustee, 7.0)):
        machine.take(Ticked(now))
    for name, life in (("alice", 1), ("bob", 3)):
        leaver.take(Received(name, Resume({"q": 4}, incarnation=life)))
        leaver.take(Received(name, Register(2, WANTS, 7)))
        leaver.leave(Confirm(name, 2, begins={"p": 1}))
    for sequence in (2, 3, 5):
        leaver.deliver("p", sequence, "alice", "bob")
    leaver.take(Received("bob", Consumed({"p": 2}, 3)))
    leaver.leave(TellLost("bob", (Lost("r", 1, 9),)))
    leaver.take(Ticked(104.0))
    before = leaver.held()
    out, moved = ordered(leaver, trustee), {}
    for name in ("alice", "bob"):
        taken = trustee.take(Received(1, given(out)))
        inward = [each.event for each in taken if isinstance(each, Inward)]
        assert [each.source for each in inward] == [name] * 2 and inward[0].message.marks["p"] == 5
        assert inward[0].message.begins == {2: {"p": 1}} and inward[1].message == Register(
            2, WANTS, 7, admitted=True
        )
        assert Held(name, inward[1].message) in taken
        assert trustee.layer.entries[name].waited(7.0) == 4.0
        moved[name] = given(out)
        out = leaver.take(Received(2, given(taken)))
        assert out[:3] == [Released(name, Detach()), Inward(Received(name, Detach())), Propose(name, 2)]
        assert not [each for each in trustee.take(Received(1, moved[name])) if isinstance(each, Inward)], (
            "again"
        )
    assert leaver.held() == {} == Alone(leaver.store).held()

    def plain(held):
        return {
            name: (*each[:5], {number: marks for number, (_, marks) in each[5].items()}, each[6])
            for name, each in held.items()
        }

    assert plain(trustee.held()) == plain(Alone(trustee.store).held()) == plain(before)
    back = trustee.take(Received("bob", Resume({"q": 4, "p": 2}, incarnation=4, numbers=(2,))))
    assert [each.batch.identity(row) for each in back if isinstance(each, Deliver) for row in each.rows] == [
        ("p", 3), ("p", 5),
    ]  # fmt: skip


def test_who_comes_again_while_it_is_handed_over_is_handed_over_again():
    leaver, trustee = Alone(MemoryStore()), Alone(MemoryStore())
    leaver.take(Received("alice", Resume({}, incarnation=1)))
    first = given(ordered(leaver, trustee))
    assert leaver.take(Received(RENDEZVOUS, HandOver(2))) == [], "it is being done"
    leaver.take(Received("alice", Resume({}, incarnation=2)))
    leaver.deliver("p", 1, "alice")
    (answer,) = [given(trustee.take(Received(1, first)))]
    second = given(leaver.take(Received(2, answer)))
    assert isinstance(second, SubscriberBequest) and (second.incarnation, len(second.notes)) == (2, 1)
    leaver.take(Ticked(1.0))
    assert any(each == Send(2, second) for each in leaver.take(Ticked(9.0))), "its answer is long in coming"
    assert given(trustee.take(Received(1, second))) == SubscriberInherited(second.number)
    assert trustee.held()["alice"][0] == 2 and trustee.held()["alice"][-1] == [("p", 1)]
    assert Propose("alice", 2) in leaver.take(Received(2, SubscriberInherited(second.number)))
    assert leaver.take(Received(3, second)) == [], "who leaves inherits nothing"
