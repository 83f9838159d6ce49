"""No subscriber is notified twice or out of order, however often events are sent again (promises 1 and 3)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rayvous.faults.replay.deduplicator import Deduplicator
from rayvous.protocol.batch import batch_of, concat
from rayvous.protocol.messages.pubsub import Lost
from rayvous.routing.filters.filter import to_filter


def batch(publisher, first, count, at=0.0):
    events = [{"n": number} for number in range(count)]
    return batch_of(events, publisher=publisher, first_sequence=first, published_at=at)


def admitted(deduplicator, client, events, accepted=None):
    admitted_rows = deduplicator.admit(client, events, np.arange(len(events)), accepted=accepted)
    return [events.identity(row) for row in admitted_rows.tolist()]


def test_what_was_delivered_is_not_delivered_again():
    deduplicator = Deduplicator()
    deduplicator.begin("alice", 0.0)
    assert admitted(deduplicator, "alice", batch("p", 1, 3)) == [("p", 1), ("p", 2), ("p", 3)]
    assert admitted(deduplicator, "alice", batch("p", 2, 3), accepted=1.0) == [("p", 4)]
    assert admitted(deduplicator, "bob", batch("p", 2, 1)) == [("p", 2)]


def test_an_event_that_is_twice_in_one_batch_is_delivered_once():
    twice = concat([batch("p", 1, 3), batch("p", 2, 3), batch("q", 1, 1)])
    assert admitted(Deduplicator(), "alice", twice) == [("p", 1), ("p", 2), ("p", 3), ("p", 4), ("q", 1)]


def test_publishers_are_counted_apart():
    deduplicator = Deduplicator()
    both = concat([batch("p", 5, 1), batch("q", 1, 1)])
    assert admitted(deduplicator, "alice", both) == [("p", 5), ("q", 1)]
    assert admitted(deduplicator, "alice", both) == []


def test_a_subscriber_that_moved_brings_what_it_has_had():
    deduplicator = Deduplicator()
    deduplicator.resume("alice", {"p": 7})
    assert admitted(deduplicator, "alice", batch("p", 6, 4), accepted=0.0) == [("p", 8), ("p", 9)]


def test_what_was_accepted_before_a_subscriber_came_is_not_for_it_when_it_is_sent_again():
    """The publisher's clock has no effect: `published_at` is not used."""
    deduplicator = Deduplicator()
    deduplicator.begin("alice", now=10.0)
    assert admitted(deduplicator, "alice", batch("p", 1, 2, at=99.0), accepted=9.0) == []
    assert admitted(deduplicator, "alice", batch("p", 3, 1, at=-99.0), accepted=10.5) == [("p", 3)]
    deduplicator.resume("bob", {}, since=10.0)
    assert admitted(deduplicator, "bob", batch("p", 1, 1), accepted=9.0) == []
    assert admitted(deduplicator, "bob", batch("p", 2, 1), accepted=10.0) == [("p", 2)]


def test_what_is_sent_again_is_for_subscriptions_that_were_there():
    deduplicator = Deduplicator()
    deduplicator.begin("alice", now=0.0)
    deduplicator.want("alice", 1, to_filter("n < 2"), 0.0)
    deduplicator.want("alice", 2, to_filter("n > 0"), 10.0)
    deduplicator.want("alice", 2, to_filter("n > 0"), 30.0)  # repeated
    assert admitted(deduplicator, "alice", batch("p", 1, 4), accepted=9.0) == [("p", 1), ("p", 2)]
    assert admitted(deduplicator, "alice", batch("p", 1, 4), accepted=10.0) == [("p", 3), ("p", 4)]
    deduplicator.want_no_more("alice", 1)
    assert admitted(deduplicator, "alice", batch("q", 1, 2), accepted=9.0) == []
    assert admitted(deduplicator, "alice", batch("q", 1, 2)) == [("q", 1), ("q", 2)], (
        "it is new, so it is for it"
    )
    deduplicator.forget("alice")
    assert admitted(deduplicator, "alice", batch("q", 1, 2), accepted=9.0) == [("q", 1), ("q", 2)]


def test_a_loss_is_told_once_and_only_of_what_was_not_had():
    deduplicator = Deduplicator()
    assert deduplicator.missed("nobody", "p", 5, 20.0) is None
    deduplicator.resume("alice", {"p": 7}, since=10.0)
    assert deduplicator.missed("alice", "p", 7, 20.0) is None, "it has had them"
    assert deduplicator.missed("alice", "q", 3, 9.0) is None, "they were accepted before it came"
    assert deduplicator.missed("alice", "p", 9, 20.0) == Lost("p", 8, 9)
    assert deduplicator.missed("alice", "p", 9, 20.0) is None, "it was told"
    assert deduplicator.missed("alice", "p", 12, 21.0) == Lost("p", 10, 12)


def test_to_register_again_does_not_begin_anew():
    deduplicator = Deduplicator()
    deduplicator.begin("alice", 0.0)
    admitted(deduplicator, "alice", batch("p", 1, 3))
    deduplicator.begin("alice", 5.0)
    assert admitted(deduplicator, "alice", batch("p", 1, 4)) == [("p", 4)]
    deduplicator.forget("alice")
    assert admitted(deduplicator, "alice", batch("p", 1, 1)) == [("p", 1)]


@given(st.lists(st.tuples(st.sampled_from("pq"), st.integers(1, 30), st.integers(1, 6)), max_size=30))
def test_each_publisher_rises_whatever_comes(pieces):
    deduplicator = Deduplicator()
    seen: dict[str, int] = {}
    for publisher, first, count in pieces:
        for name, sequence in admitted(deduplicator, "alice", batch(publisher, first, count)):
            assert sequence > seen.get(name, 0)
            seen[name] = sequence
        assert seen[publisher] >= first + count - 1, "what is above the mark is never held back"


def test_who_left_is_not_known_and_one_who_was_never_here_may_leave():
    deduplicator = Deduplicator()
    deduplicator.resume("alice", {"p": 7}, since=10.0)
    assert deduplicator.missed("alice", "p", 9, 20.0) is not None
    deduplicator.forget("alice")
    deduplicator.forget("nobody")
    assert deduplicator.marks("alice") is None
    assert admitted(deduplicator, "alice", batch("p", 1, 1), accepted=9.0) == [("p", 1)], "since when, too"
    assert deduplicator.missed("alice", "p", 9, 20.0) == Lost("p", 2, 9), "and of what it was told"


def test_an_event_that_seems_older_by_what_two_clocks_are_behind_is_delivered():
    deduplicator = Deduplicator(behind_seconds=0.5)
    deduplicator.begin("alice", 10.0)
    deduplicator.want("alice", 1, to_filter("n > 10"), 20.0)
    assert admitted(deduplicator, "alice", batch("p", 1, 1), accepted=9.25) == []
    assert admitted(deduplicator, "alice", batch("p", 1, 1), accepted=19.25) == []
    assert deduplicator.missed("alice", "p", 1, 9.25) is None
    assert deduplicator.missed("alice", "p", 1, 9.75) == Lost("p", 1, 1)
    assert admitted(deduplicator, "alice", batch("p", 11, 1), accepted=19.75) == [("p", 11)]
