"""What a broker keeps for a durable subscriber until acknowledged, within bounds; every loss is reported."""

from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.batch import batch_of, concat
from rayvous.protocol.expiry import living, with_ttl
from rayvous.protocol.messages.pubsub import Lost
from rayvous.recovery.durability.durable_cursor import (
    NOTES,
    SUBSCRIBERS,
    Bounds,
    DurableCursor,
    Note,
    merged,
)
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.routing.language.questions import to_filter

PLENTY = Bounds(1_000, 1_000_000, 1_000.0)


def batch(publisher, *sequences):
    parts = [batch_of([{"n": each}], publisher=publisher, first_sequence=each) for each in sequences]
    return concat(parts)


def waiting(entry):
    return [events.identity(row) for events, rows in entry.unacknowledged() for row in rows.tolist()]


def test_it_keeps_what_is_not_acknowledged_in_order():
    entry = DurableCursor("alice", 1, 0.0)
    entry.add(1.0, batch("p", 1, 4))
    entry.add(2.0, batch("q", 1))
    entry.add(3.0, batch("p", 5))
    assert waiting(entry) == [("p", 1), ("p", 4), ("q", 1), ("p", 5)] and len(entry) == 4
    assert entry.had() == {"p": 5, "q": 1}
    entry.acknowledge({"p": 1})
    assert waiting(entry) == [("p", 4), ("q", 1), ("p", 5)]
    entry.acknowledge({"p": 4, "q": 1})
    assert waiting(entry) == [("p", 5)] and len(entry) == 1
    assert entry.acknowledge({"p": 2}) == [], "a position never goes back"


MARKS = st.dictionaries(st.sampled_from("pq"), st.integers(0, 12))


@given(st.lists(st.tuples(st.sampled_from("pq"), st.integers(1, 3), MARKS), max_size=12))
def test_what_it_is_behind_by_is_what_the_position_has_not_passed(steps):
    entry, last = DurableCursor("s", 1, 0.0), dict.fromkeys("pq", 0)
    shelf = MemoryStore()
    for at, (publisher, count, marks) in enumerate(steps):
        first = last[publisher] + 1
        last[publisher] += count
        shelf.commit([entry.add(float(at), batch(publisher, *range(first, first + count)))])
        shelf.commit(entry.acknowledge(marks))
        shelf.commit(entry.shed(float(at), Bounds(8, 1_000_000, 5.0))[0])
        found = entry.backlog(20.0)
        left = waiting(entry)
        assert (found.events, entry.outstanding) == (len(left), len(left))
        assert (found.seconds > 0) == bool(left) and found.bytes >= len(left)
        entry.check()
    again = DurableCursor("s", 1, 0.0, marks=dict(entry.marks))
    for (_, number), (at, events) in shelf.rows(NOTES):
        again.restore(Note(int(number), at, events))
    again.check()
    assert again.outstanding == entry.outstanding
    assert again.backlog(20.0).seconds == entry.backlog(20.0).seconds
    entry.begin_anew({})
    assert entry.outstanding == 0 and entry.backlog(20.0).seconds == 0.0


def test_what_goes_beyond_is_lost_by_name_and_a_dead_letter():
    entry = DurableCursor("alice", 1, 0.0)
    for number in range(1, 6):
        entry.add(float(number), batch("p", number))
    _, losses, letters = entry.shed(6.0, Bounds(3, 1_000_000, 1_000.0))
    assert losses == entry.losses == [Lost("p", 1, 2)]
    assert [(one.publisher, one.sequence, one.event, one.reason) for one in letters] == [
        ("p", 1, {"n": 1}, "count"),
        ("p", 2, {"n": 2}, "count"),
    ]
    assert waiting(entry) == [("p", 3), ("p", 4), ("p", 5)]
    _, losses, _ = entry.shed(50.0, Bounds(3, 1_000_000, 46.5))
    assert losses == [Lost("p", 3, 3)] and entry.losses == [Lost("p", 1, 3)]
    assert entry.shed(50.0, PLENTY) == ([], [], [])
    entry.acknowledge({"p": 2})
    assert entry.losses == [Lost("p", 1, 3)], "the process has not passed it"
    entry.acknowledge({"p": 3})
    assert entry.losses == [], "it had them after all"


def test_one_note_is_kept_however_large_it_is():
    entry = DurableCursor("alice", 1, 0.0)
    entry.add(0.0, batch("p", 1, 2, 3))
    assert entry.shed(0.0, Bounds(1, 1, 1_000.0)) == ([], [], [])


def test_what_is_acknowledged_behind_something_that_is_not_does_not_count():
    entry = DurableCursor("s", 1, 0.0)
    entry.add(0.0, batch("slow", 1))
    for sequence in range(1, 11):
        entry.add(1.0, batch("fast", 2 * sequence - 1, 2 * sequence))
        entry.acknowledge({"fast": 2 * sequence - 1})
        _, losses, letters = entry.shed(1.0, Bounds(3, 1_000_000, 100.0))
        assert not losses and not letters, "only three events wait for it"
    assert waiting(entry) == [("slow", 1), ("fast", 20)] and len(entry) <= 3
    assert entry.add(2.0, batch("fast", 21)).key == ("s", 12), "no number is used twice"
    _, losses, _ = entry.shed(2.0, Bounds(1, 1_000_000, 100.0))
    assert losses == [Lost("slow", 1, 1), Lost("fast", 20, 20)] and waiting(entry) == [("fast", 21)]


def test_no_loss_is_forgotten_however_many_publishers_have_lost_something():
    entry = DurableCursor("s", 1, 0.0)
    for number in range(2_000):
        entry.add(0.0, batch(f"p{number}", 1))
    entry.shed(1.0, Bounds(1, 1_000_000, 100.0))
    assert entry.losses == [Lost(f"p{number}", 1, 1) for number in range(1_999)]
    for _ in range(3):
        entry.lose([Lost("p7", 2, 4)])
    assert len(entry.losses) == 1_999 and Lost("p7", 1, 4) in entry.losses


def test_losses_of_one_publisher_that_follow_each_other_are_one():
    assert merged([Lost("p", 1, 1), Lost("q", 4, 4), Lost("p", 3, 7)]) == [Lost("p", 1, 7), Lost("q", 4, 4)]


Step = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("pq"), st.integers(1, 3)),
    st.tuples(st.just("ack"), st.sampled_from("pq"), st.integers(0, 30)),
    st.tuples(st.just("shed"), st.integers(1, 6), st.integers(1, 9)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(Step, max_size=30))
def test_what_is_stable_gives_the_same_subscriber_again(steps):
    """After any steps the store holds the present state, and every event that is lost is reported."""
    store, entry, now = MemoryStore(), DurableCursor("alice", 3, 2.0, {}, {1: to_filter("n > 0")}), 0.0
    store.commit([entry.row()])
    next_of, given_of, acknowledged, named = {"p": 1, "q": 1}, [], {"p": 0, "q": 0}, set()
    for what, one, number in steps:
        now += 1.0
        if what == "add":
            numbers = range(next_of[one], next_of[one] + number)
            next_of[one] += number
            given_of += [(one, each) for each in numbers]
            store.commit([entry.add(now, batch(one, *numbers))])
        elif what == "ack":
            mark = min(number, next_of[one] - 1)
            acknowledged[one] = max(mark, acknowledged[one])
            store.commit(entry.acknowledge({one: mark}))
        else:
            writes, losses, letters = entry.shed(now, Bounds(one, 1_000_000, float(number)))
            named |= {(letter.publisher, letter.sequence) for letter in letters}
            assert all(
                any(loss.first <= at <= loss.last for loss in losses)
                for _, at in ((letter.publisher, letter.sequence) for letter in letters)
            )
            store.commit(writes)
    left = [each for each in given_of if each[1] > acknowledged[each[0]] and each not in named]
    assert waiting(entry) == left
    again = DurableCursor.restored("alice", dict(store.rows(SUBSCRIBERS))[("alice",)])
    for (_, number), (at, notes) in store.rows(NOTES):
        again.restore(Note(number, at, notes))
    assert waiting(again) == left and again.marks == entry.marks and again.losses == entry.losses
    store.commit(again.forgotten())
    assert not list(store.rows(NOTES)) and not list(store.rows(SUBSCRIBERS))


STEPS = st.lists(
    st.tuples(st.sampled_from("pq"), st.integers(1, 3), st.sampled_from([None, 1.0, 4.0]), MARKS)
)


@given(STEPS)
def test_what_is_past_its_time_to_live_is_dropped_as_from_a_list(steps):
    entry, last, shelf = DurableCursor("s", 1, 0.0), dict.fromkeys("pq", 0), MemoryStore()
    reference, dropped = [], 0
    for now, (publisher, count, ttl, marks) in enumerate(steps):
        first, last[publisher] = last[publisher] + 1, last[publisher] + count
        events = batch_of(
            [{"n": 1}] * count, publisher=publisher, first_sequence=first, published_at=float(now)
        )
        shelf.commit([entry.add(float(now), with_ttl(events, ttl))])
        reference += [
            (publisher, number, None if ttl is None else now + ttl) for number in range(first, first + count)
        ]
        shelf.commit(entry.acknowledge(marks))
        reference = [each for each in reference if each[1] > entry.marks.get(each[0], 0)]
        writes, gone = entry.expire(float(now))
        shelf.commit(writes)
        alive = [each for each in reference if each[2] is None or each[2] >= now]
        dropped, reference = dropped + gone, alive
        assert waiting(entry) == [each[:2] for each in alive]
        entry.check()
    again = DurableCursor("s", 1, 0.0, marks=dict(entry.marks))
    for (_, number), (at, events) in shelf.rows(NOTES):
        again.restore(Note(int(number), at, events))
    assert waiting(again) == waiting(entry)
    assert again.expire(1e9)[1] == sum(each[2] is not None for each in reference)


def test_what_does_not_expire_now_is_not_looked_at(monkeypatch):
    looked = []
    monkeypatch.setattr(
        "rayvous.recovery.durability.durable_cursor.living",
        lambda *given: (looked.append(1), living(*given))[1],
    )
    entry = DurableCursor("s", 1, 0.0)
    for number in range(1, 501):
        events = batch_of([{"n": 1}], publisher="p", first_sequence=number, published_at=float(number))
        entry.add(float(number), with_ttl(events, 1_000.0))
    assert entry.expire(1_003.0)[1] == 2 and len(looked) == 2
    assert entry.expire(1_004.0)[1] == 1 and len(looked) == 3 and len(entry) == 497
