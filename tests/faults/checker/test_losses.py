"""The report that an event is lost is accepted only if a limit explains it (promise 2; decision 0027)."""

import random

import pytest
from rayvous.faults.checker.mutants import MUTANTS
from rayvous.faults.checker.reliability import judge, judge_by_formulas
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.protocol.traces.trace import (
    ITSELF,
    Bounded,
    Confirmed,
    Died,
    Kept,
    LossTold,
    Notified,
    Published,
    Registered,
    Settled,
    Shed,
    Trace,
)

WANT = Registered(0.0, "c", 1, "TRUE"), Confirmed(0.0, "c", 1)
EVENT = Published(1.0, "p", 1, {})
QUIET = Settled(50.0)
LOST = LossTold(9.0, "c", "p", 1)
TWO = Bounded(0.0, "", 2, 100, 60.0)


def kept(broker, *batches, publisher="p", first=1, size=1):
    """Return operations that keep events from number `first` on, in batches of these lengths."""
    out, number = [], first
    for place, length in enumerate(batches):
        batch = 100 * broker + number + 10_000 * (publisher == "q")
        for _ in range(length):
            out.append(Kept(2.0 + place, broker, publisher, number, batch, size))
            number += 1
    return out


def started(*operations):
    before = [op for op in operations if type(op) is Bounded and op.at_seconds == 0.0]
    return Trace([*before, *WANT, EVENT, *(op for op in operations if op not in before)])


def explained(*operations):
    """Return the limit that explains the loss of event 1, or "" for a violation; both checkers must agree.

    Bounds at time 0 come before the event, all else after it.
    """
    trace = started(*operations)
    quick = judge(trace)
    assert judge_by_formulas(trace).conditions() == quick.conditions()
    assert quick.notifications_expected + quick.lost == 1
    assert (quick.lost == 0) == ("complete" in quick.violated) == (quick.missing == 1)
    (limit,) = quick.losses or ("",)
    return limit


def test_a_claim_alone_explains_nothing():
    assert explained(LOST, QUIET) == ""
    assert explained(TWO, *kept(0, 1), LOST, QUIET) == "", "it had to be kept still"
    verdict = judge(Trace([*WANT, EVENT, TWO, LOST, QUIET]))
    assert verdict.unexplained == 1 and verdict.examples == [
        "c was never notified of p #1, which is said to be lost, and no limit explains that"
    ]


@pytest.mark.parametrize(
    ("operations", "limit"),
    [
        (kept(0, 1, 1, 1), "retention"),
        (kept(0, 1, 1), ""),
        (kept(0, 3), ""),  # the newest batch is kept, however large
        (kept(0, 2, 1), "retention"),  # a batch is forgotten as a whole
        ([*kept(0, 1), *kept(1, 1, 1, first=2)], ""),  # another broker kept those
        (
            [*kept(0, 1), *kept(0, 1, 1, publisher="q")],
            "retention",
        ),  # the limit is for all publishers together
        ([*kept(ITSELF, 1), *kept(ITSELF, 1, 1, publisher="q")], ""),  # a publisher keeps its own events only
        (kept(ITSELF, 1, 1, 1), "retention"),
        ([*kept(0, 1, 1, 1), *kept(1, 1)], ""),  # its publisher moved to a broker that has room
        (
            [Bounded(0.0, "c", 9, 900, 60.0), *kept(0, 1, 1, 1), *kept(1, 1)],
            "retention",
        ),  # may have been reported earlier, while c was disconnected
        ([Bounded(0.0, "c", 9, 900, 60.0), *kept(0, 1, 1), *kept(1, 1)], ""),
        ([*kept(0, 1), Died(3.0, 0, ""), *kept(0, 1, 1, first=2)], ""),  # a crashed broker keeps nothing
        ([*kept(0, 1, 1, 1), Died(6.0, 0, "")], "retention"),  # forgotten before the crash
        (kept(0, 1, 1, size=60), "retention"),
        (kept(0, 1, 1, size=50), ""),
    ],
)
def test_retention_by_number_and_by_size(operations, limit):
    assert explained(TWO, *operations, LOST, QUIET) == limit


@pytest.mark.parametrize(
    ("later", "limit"),
    [
        ([LOST, *kept(0, 1, first=4), QUIET], "retention"),
        ([*kept(0, 1, first=4), LOST, QUIET], "retention"),
        ([LOST, QUIET, *kept(0, 1, first=4)], ""),
        ([LOST, *kept(2, 1, first=4), QUIET], ""),
        ([LOST, *kept(0, 1, publisher="q"), QUIET], ""),
        ([*kept(0, 1, first=4), *kept(1, 1), LOST, QUIET], ""),
    ],
    ids=[
        "after-the-claim",
        "before-it",
        "after-all-settled",
        "another-broker",
        "another-publisher",
        "before-the-move",
    ],
)
def test_a_broker_that_takes_newer_events_is_responsible_although_another_one_took_the_event(later, limit):
    assert explained(TWO, *kept(0, 1, 1, 1), *kept(1, 1), *later) == limit
    assert explained(TWO, *kept(0, 1), *kept(1, 1), *later) == "", "it had not released the event"


def test_the_broker_that_takes_newer_events_must_have_taken_the_event():
    assert explained(TWO, *kept(0, 1, 1, 1, first=2), *kept(1, 1), LOST, *kept(0, 1, first=5), QUIET) == ""


def test_retention_by_age_and_only_until_the_network_has_settled():
    late = LOST._replace(at_seconds=62.0)
    assert explained(TWO, LOST._replace(at_seconds=61.0), QUIET) == ""
    assert explained(TWO, late, QUIET._replace(at_seconds=70.0)) == "retention"
    assert explained(TWO, QUIET, late) == "", "it would have come long before"
    assert explained(TWO, QUIET._replace(at_seconds=65.0), late._replace(at_seconds=66.0)) == "retention"
    crowd = kept(0, 1, 1, 1)
    assert explained(TWO, crowd[0], Settled(2.5), *crowd[1:], LOST) == ""
    assert explained(TWO, *crowd, QUIET, LOST._replace(at_seconds=51.0)) == "retention"


def test_what_died_with_all_that_had_it():
    gone, away = Died(3.0, ITSELF, "p"), Died(4.0, 0, "")
    assert explained(TWO, *kept(0, 1), gone, away, LOST, QUIET) == "died"
    assert explained(TWO, gone, LOST, QUIET) == "died", "no broker had it"
    assert explained(TWO, *kept(0, 1), away, LOST, QUIET) == "", "its publisher lives"
    assert explained(TWO, *kept(0, 1), gone, LOST, QUIET) == "", "its broker lives"
    assert explained(TWO, *kept(0, 1), *kept(1, 1), gone, away, LOST, QUIET) == "", "another one has it"
    assert explained(TWO, away, *kept(0, 1), gone, LOST, QUIET) == "", "it lives again"
    assert explained(TWO, Settled(2.0), gone, LOST) == "", "it had come before"


def test_a_death_explains_nothing_that_somebody_has():
    """Without a broker that is known to have had it, a notification or a later taking shows that there was one."""
    gone, away = Died(3.0, ITSELF, "p"), Died(4.0, 0, "")
    other = [Registered(0.0, "d", 1, "TRUE"), Notified(5.0, "d", "p", 1)]
    late = Notified(10.0, "d", "p", 1)
    assert explained(TWO, other[0], gone, LOST, QUIET) == "died"
    assert explained(TWO, *other, gone, LOST, QUIET) == "", "another subscriber has it"
    assert explained(TWO, other[0], gone, LOST, late, QUIET) == "", "and has it also if it comes later"
    assert explained(TWO, gone, LOST, kept(0, 1)[0]._replace(at_seconds=10.0), QUIET) == "", (
        "a broker took it"
    )
    assert explained(TWO, *kept(0, 1), *other, gone, away, LOST, QUIET) == "died", "from the broker that died"


def judged(*operations):
    """Return the limit that explains the loss of event 1 for c, which both checkers must say; other rules may break."""
    trace = Trace(operations)
    quick = judge(trace)
    assert judge_by_formulas(trace).conditions() == quick.conditions()
    (limit,) = quick.losses or ("",)
    return limit


NOTHING = Bounded(5.0, "", 0, 0, 0.0)


@pytest.mark.parametrize(
    ("operations", "limit"),
    [
        ([TWO, *WANT, EVENT, *kept(0, 1, 1), LOST, QUIET, NOTHING], ""),
        ([TWO, *WANT, EVENT, *kept(0, 1, 1), LOST, NOTHING, QUIET], ""),
        ([TWO, *WANT, EVENT, *kept(0, 1, 1), QUIET, NOTHING, LOST], ""),  # it would have come long before
        ([TWO, *WANT, EVENT, *kept(0, 1, 1), NOTHING, LOST, QUIET], "retention"),  # it was no longer retained
        ([NOTHING, TWO, *WANT, EVENT, *kept(0, 1, 1), LOST, QUIET], ""),
        ([NOTHING, *WANT, EVENT, *kept(0, 1, 1), TWO, LOST, QUIET], "retention"),  # raised afterwards
        ([*WANT, EVENT, TWO._replace(seconds=5.0), LOST, NOTHING, QUIET], "retention"),  # 8 s old when it was lost
        ([*WANT, EVENT, TWO._replace(seconds=8.5), LOST, NOTHING, QUIET], ""),
        ([TWO, *WANT, EVENT, *kept(ITSELF, 1, 1), NOTHING, TWO, LOST, QUIET], "retention"),  # low for a moment
    ],
)  # fmt: skip
def test_a_limit_explains_what_was_lost_while_it_was_in_force(operations, limit):
    assert judged(*operations) == limit


LATER = Published(2.0, "p", 2, {})
NEXT = Notified(6.0, "c", "p", 2)
"""After this event 1 comes no more, since order is promised: it was lost before."""


@pytest.mark.parametrize(
    ("operations", "limit"),
    [
        ([TWO, *WANT, EVENT, LATER, *kept(0, 1, 1), NEXT, NOTHING, LOST, QUIET], ""),
        ([TWO, *WANT, EVENT, LATER, *kept(0, 1, 1), NOTHING, NEXT, LOST, QUIET], "retention"),
        ([TWO, *WANT, EVENT, LATER, *kept(ITSELF, 1, 1), NEXT, NOTHING, TWO, LOST, QUIET], ""),
        ([TWO, *WANT, EVENT, LATER, *kept(0, 1, 1), NEXT._replace(client="d"), NOTHING, LOST, QUIET], "retention"),
        ([TWO, *WANT, EVENT, LATER, *kept(0, 1, 1), NEXT._replace(publisher="q"), NOTHING, LOST, QUIET], "retention"),
        # How much was taken is known later than when it was passed.
        ([TWO, *WANT, EVENT, LATER, *kept(0, 1, 1), NEXT, *kept(0, 1, first=3), NOTHING, LOST, QUIET], "retention"),
        ([TWO, *WANT, EVENT, LATER, *kept(0, 1), NEXT, NOTHING, *kept(0, 1, first=2), LOST, QUIET], ""),
        ([*WANT, EVENT, LATER, TWO._replace(seconds=5.5), NEXT, LOST, QUIET], ""),  # 5 s old when it was passed
        ([*WANT, EVENT, LATER, TWO._replace(seconds=4.5), NEXT, LOST, QUIET], "retention"),
    ],
)  # fmt: skip
def test_a_limit_that_is_lowered_after_a_later_event_explains_nothing(operations, limit):
    assert judged(*operations) == limit


def test_a_limit_of_a_durable_subscriber_explains_nothing_after_a_later_event():
    room, none = Bounded(0.0, "c", 9, 900, 60.0), Bounded(6.5, "c", 0, 0, 0.0)
    assert judged(room, *WANT, EVENT, LATER, NEXT, none, LOST, QUIET) == ""
    assert judged(room, *WANT, EVENT, LATER, none, NEXT, LOST, QUIET) == "durable"
    assert judged(room._replace(seconds=5.5), *WANT, EVENT, LATER, NEXT, LOST, QUIET) == ""
    assert judged(room._replace(seconds=4.5), *WANT, EVENT, LATER, NEXT, LOST, QUIET) == "durable"
    two = room._replace(events_max=1)
    assert judged(two, *WANT, EVENT, LATER, NEXT, LOST, QUIET) == "durable", "two waited"
    large = kept(ITSELF, 1, 1, size=500)
    assert judged(room, *WANT, EVENT, large[0], LATER, large[1], NEXT, LOST, QUIET) == "durable"
    assert judged(room, *WANT, EVENT, LATER, NEXT, large[0], none, LOST, QUIET) == ""


def test_a_limit_of_a_durable_subscriber_counts_from_its_place_on():
    room, none = Bounded(0.0, "c", 9, 900, 60.0), Bounded(5.0, "c", 0, 0, 0.0)
    assert judged(room, *WANT, EVENT, LOST, QUIET, none) == ""
    assert judged(room, *WANT, EVENT, LOST, none, QUIET) == ""
    assert judged(room, *WANT, EVENT, none, LOST, QUIET) == "durable", "it was lowered while the event waited"
    assert judged(room, *WANT, EVENT, none, room, LOST, QUIET) == "durable", "and raised again"
    assert judged(*WANT, EVENT, none, LOST, QUIET) == "", "not durable yet when the event was published"
    assert judged(*WANT, EVENT, QUIET, none, LOST) == ""
    crowd = [*kept(0, 1, 1, 1), *kept(1, 1)]  # its publisher moved to a broker that has room
    assert judged(TWO, room, *WANT, EVENT, *crowd, LOST, QUIET) == "retention", "it may have been told before"
    assert judged(TWO, *WANT, EVENT, *crowd, room, LOST, QUIET) == "", (
        "not while it was no durable subscriber"
    )


def test_what_was_kept_for_a_durable_subscriber():
    bound = Bounded(0.0, "c", 2, 100, 60.0)
    more = [Published(2.0, "p", number, {}) for number in (2, 3)]
    stranger = Registered(0.0, "d", 1, "TRUE")

    def limits(*operations):
        return judge(started(*operations)).losses

    assert limits(bound, *more, LOST, QUIET) == {"durable": 1}
    assert limits(bound, more[0], LOST, QUIET) == {} == limits(*more, LOST, QUIET)
    assert limits(bound._replace(client="d"), stranger, *more, LOST, QUIET) == {}, "that is another one"
    assert limits(bound, LOST._replace(at_seconds=62.0)) == {}, "whether it had to come is not known yet"
    assert limits(bound, QUIET, LOST._replace(at_seconds=62.0)) == {"durable": 1}, "it waits there"
    large = kept(ITSELF, 1, 1, size=60)
    assert limits(bound, large[0], more[0], large[1], LOST, QUIET) == {"durable": 1}
    assert limits(bound, large[0], more[0], large[1]._replace(size_bytes=40), LOST, QUIET) == {}


def test_a_restarted_publisher_keeps_again_what_its_broker_retained_for_it():
    """It may drop the event later, while its broker still has it: broker 0 kept event 1 and nothing since."""
    before = [*kept(0, 1), *kept(ITSELF, 1), Died(3.0, ITSELF, "p")]
    back = kept(ITSELF, 1)[0]._replace(at_seconds=3.0, batch=900)
    later = kept(ITSELF, 1, 1, first=2)
    assert explained(TWO, *before, *later, LOST, QUIET) == ""
    assert explained(TWO, *before, back, *later, LOST, QUIET) == "retention"
    assert explained(TWO, *before, back, later[0], LOST, QUIET) == ""
    bound = Bounded(0.0, "c", 9, 100, 60.0)
    large = [each._replace(size_bytes=60) for each in (kept(ITSELF, 1)[0], back)]
    assert explained(bound, large[0], Died(3.0, ITSELF, "p"), large[1], LOST, QUIET) != "durable", "one event"


def test_another_limit_says_what_it_measured():
    assert explained(Shed(2.0, "p", 1, "queue", 5.5, 5.0), LOST, QUIET) == "queue"
    assert explained(Shed(2.0, "p", 1, "queue", 5.0, 5.0), LOST, QUIET) == ""
    assert explained(Shed(2.0, "p", 2, "queue", 5.5, 5.0), LOST, QUIET) == ""
    assert explained(LOST, Shed(2.0, "p", 1, "queue", 5.5, 5.0), QUIET) == "", "the claim came first"


@pytest.mark.parametrize("seed", [0, 2])
def test_a_run_of_chaos_without_its_notifications_and_all_said_to_be_lost_is_violated(seed):
    trace = run_chaos(seed, brokers_max=8, seconds=4.0, keep_trace=True, expiring=False).trace
    mutant = MUTANTS["silence"][0](trace, random.Random(seed))
    right, wrong = judge(trace), judge(mutant)
    assert right.holds and right.notifications_delivered > 20 and not right.lost
    assert wrong.violated == ["complete"]
    assert wrong.unexplained == wrong.missing == right.notifications_expected
