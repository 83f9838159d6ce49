"""No subscriber is notified twice or out of order, however often events are sent again (promises 1 and 3)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rayvous.protocol.batch import batch_of, concat
from rayvous.protocol.expiry import with_deadlines
from rayvous.protocol.messages.pubsub import Lost
from rayvous.recovery.replay.deduplicator import Deduplicator
from rayvous.routing.filters.filter import to_filter


def batch(publisher, first, count, at=0.0):
    events = [{"n": number} for number in range(count)]
    return batch_of(events, publisher=publisher, first_sequence=first, published_at=at)


def wants(deduplicator, client, number, selector, since, begins=()):
    deduplicator.want(client, number, to_filter(selector), since)
    return deduplicator.confirm(client, number, dict(begins), since)


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


def test_the_last_event_that_expires_is_known_by_publisher():
    deduplicator = Deduplicator()
    both = concat(
        [with_deadlines(batch("p", 1, 3), {1: 5.0}, 0.0), with_deadlines(batch("q", 4, 2), {1: 5.0}, 0.0)]
    )
    admitted(deduplicator, "alice", both)
    assert deduplicator.expiring("alice") == {"q": 5}, "the last of p does not"
    admitted(deduplicator, "alice", with_deadlines(batch("p", 2, 3), {2: 5.0}, 0.0))
    admitted(deduplicator, "alice", batch("q", 6, 1))
    assert deduplicator.expiring("alice") == {"p": 4, "q": 5}
    assert deduplicator.marks("alice") == {"p": 4, "q": 6}
    deduplicator.forget("alice")
    assert deduplicator.expiring("alice") == deduplicator.expiring("bob") == {}


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
    wants(deduplicator, "alice", 1, "n < 2", 0.0)
    wants(deduplicator, "alice", 2, "n > 0", 10.0)
    wants(deduplicator, "alice", 2, "n > 0", 30.0)  # repeated
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
    wants(deduplicator, "alice", 1, "n > 10", 20.0)
    assert admitted(deduplicator, "alice", batch("p", 1, 1), accepted=9.25) == []
    assert admitted(deduplicator, "alice", batch("p", 1, 1), accepted=19.25) == []
    assert deduplicator.missed("alice", "p", 1, 9.25) is None
    assert deduplicator.missed("alice", "p", 1, 9.75) == Lost("p", 1, 1)
    assert admitted(deduplicator, "alice", batch("p", 11, 1), accepted=19.75) == [("p", 11)]


def test_what_is_sent_again_is_for_subscriptions_that_begin_before_it():
    """By number, however old it seems; a subscription that is not confirmed gets nothing that is sent again."""
    deduplicator = Deduplicator()
    deduplicator.begin("alice", 0.0)
    deduplicator.want("alice", 1, to_filter("n >= 0"), 0.0)
    assert admitted(deduplicator, "alice", batch("p", 1, 3), accepted=9.0) == []
    assert admitted(deduplicator, "alice", batch("q", 1, 1)) == [("q", 1)], "what is new is for it"
    assert deduplicator.missed("alice", "p", 3, 9.0) is None, "nor is it told of losses"
    assert deduplicator.confirm("alice", 1, {"p": 3}, 9.0) == {"p": 3}
    assert deduplicator.confirm("alice", 1, {"p": 5}, 10.0) == {"p": 3}, "it has begun"
    assert admitted(deduplicator, "alice", batch("p", 2, 3), accepted=99.0) == [("p", 4)]
    wants(deduplicator, "alice", 2, "n > 1", 0.0, {"p": 9, "r": 2})
    assert admitted(deduplicator, "alice", batch("r", 1, 4), accepted=99.0) == [
        ("r", k) for k in (1, 2, 3, 4)
    ]
    deduplicator.want_no_more("alice", 1)
    assert admitted(deduplicator, "alice", batch("p", 5, 8), accepted=99.0) == [
        ("p", k) for k in (10, 11, 12)
    ]
    assert admitted(deduplicator, "alice", batch("o", 1, 3), accepted=99.0) == [("o", 1), ("o", 2), ("o", 3)]
    assert admitted(deduplicator, "alice", batch("o", 4, 3), accepted=-1.0) == [], (
        "which may be certainly older"
    )


def test_of_what_came_before_its_subscriptions_a_subscriber_has_lost_nothing():
    deduplicator = Deduplicator()
    deduplicator.begin("alice", 0.0)
    wants(deduplicator, "alice", 1, "n > 0", 0.0, {"p": 5})
    wants(deduplicator, "alice", 2, "n > 1", 0.0, {"p": 7})
    assert deduplicator.missed("alice", "p", 5, 1.0) is None
    assert deduplicator.missed("alice", "p", 8, 1.0) == Lost("p", 6, 8)


def test_positions_are_dropped_when_they_are_old_or_too_many():
    deduplicator = Deduplicator(position_seconds=10.0, positions_max=3)
    for number, at in ((1, 0.0), (2, 1.0), (3, 2.0)):
        wants(deduplicator, "alice", number, f"n = {number}", at, {"p": number, "q": number})
    assert deduplicator.confirm("alice", 3, {}, 2.0) == {"p": 3, "q": 3}
    assert deduplicator.confirm("alice", 1, {}, 2.0) == {} == deduplicator.confirm("alice", 2, {}, 2.0)
    deduplicator.expire(12.0)
    assert deduplicator.confirm("alice", 3, {}, 12.0) == {"p": 3, "q": 3}
    deduplicator.expire(12.5)
    assert deduplicator.confirm("alice", 3, {}, 12.5) == {}
    deduplicator.forget("alice")
    assert deduplicator.confirm("alice", 3, {"p": 1}, 13.0) == {"p": 1}, "it is not wanted here"


def test_a_subscription_that_is_confirmed_here_is_as_old_as_its_confirmation():
    """However long ago it was made elsewhere: of what came in between it is owed nothing."""
    for begins, owed in ((None, [("p", 2)]), ({}, [("p", 1), ("p", 2)])):
        deduplicator = Deduplicator()
        deduplicator.resume("alice", {}, since=-50.0)
        deduplicator.bring("alice", 1, -50.0, begins, 10.0)
        deduplicator.want("alice", 1, to_filter("n >= 0"), 10.0)
        deduplicator.confirm("alice", 1, {"q": 1}, 12.0)
        old = admitted(deduplicator, "alice", batch("p", 1, 1), accepted=11.0)
        assert old + admitted(deduplicator, "alice", batch("p", 2, 1), accepted=12.0) == owed


def test_what_is_behind_the_position_of_a_subscription_with_a_past_is_for_it_however_old():
    """Also when it is rewound later, and of what is lost; one without a past is not owed it."""
    for times, past in ((1, True), (1, False), (2, True)):
        deduplicator = Deduplicator(behind_seconds=2.0)
        deduplicator.begin("alice", now=50.0)
        deduplicator.want("alice", 1, to_filter("n >= 0"), 50.0, past=past and times == 1)
        assert admitted(deduplicator, "alice", batch("p", 8, 1), accepted=9.0) == [], "it is not confirmed"
        deduplicator.confirm("alice", 1, {"p": 5}, 60.0)
        if times == 2:
            deduplicator.want("alice", 1, to_filter("n >= 0"), 70.0, past=True)
        assert deduplicator.missed("alice", "p", 5, 9.0) is None
        assert deduplicator.missed("alice", "p", 6, 9.0) == (Lost("p", 6, 6) if past else None)
        had = admitted(deduplicator, "alice", batch("p", 4, 4), accepted=9.0)
        assert had == ([("p", 6), ("p", 7)] if past else [])
        deduplicator.want_no_more("alice", 1)
        wants(deduplicator, "alice", 2, "n >= 0", 80.0, {"p": 7})
        assert admitted(deduplicator, "alice", batch("p", 8, 1), accepted=9.0) == []
