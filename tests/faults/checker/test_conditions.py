"""Definitions 8 and 9, and the verdict of each rule while a subscription is being made or cancelled."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.faults.checker import predicates as said
from rayvous.faults.checker.conditions import (
    RULES,
    Rule,
    definition_8,
    definition_9,
    never_unadvertised,
    never_unannounced,
    safe,
)
from rayvous.faults.checker.ltl import always, earlier, holds
from rayvous.faults.checker.reliability import judge, judge_by_formulas
from rayvous.protocol.traces.trace import (
    Adv,
    Advertised,
    Cancelled,
    Confirmed,
    LossTold,
    Notified,
    Published,
    Registered,
    Settled,
    Trace,
    UnAdv,
    Unadvertised,
    lives,
    steps,
)

WANT = Registered(0.0, "c", 1, "x > 1"), Confirmed(0.0, "c", 1)
GOT = Notified(0.0, "c", "p", 1)
EVENT = Published(0.0, "p", 1, {"x": 2})
REST = Settled(0.0)
GONE = Cancelled(0.0, "c", 1)


def found(name, *operations):
    """Return (checked, violated, indeterminate) of one rule; formulas and columns have to agree."""
    trace = Trace(operations)
    slow, quick = judge_by_formulas(trace), judge(trace)
    assert slow.conditions() == quick.conditions()
    return quick.findings[name].counts()


KEPT, BROKEN, OPEN, NOTHING = (1, 0, 0), (1, 1, 0), (1, 0, 1), (0, 0, 0)


@pytest.mark.parametrize(
    ("operations", "kept"),
    [
        ((*WANT, EVENT, GOT), KEPT),
        ((EVENT, GOT), BROKEN),
        ((Registered(0.0, "c", 1, "x > 2"), EVENT, GOT), BROKEN),
        ((*WANT, EVENT, GONE, GOT), OPEN),
        ((*WANT, GONE, EVENT, GOT), OPEN),
        ((*WANT, EVENT, GONE, REST, GOT), BROKEN),
        ((*WANT, GONE, REST, EVENT, GOT), BROKEN),
        ((*WANT, GONE, REST, *WANT, EVENT, GOT), KEPT),
        (
            (*WANT, Registered(0.0, "c", 1, "x < 1"), EVENT, GOT),
            OPEN,
        ),  # the number now stands for another filter
        ((*WANT, Registered(0.0, "c", 1, "x < 1"), REST, EVENT, GOT), BROKEN),
        ((*WANT, GOT), NOTHING),  # a violation of `published` only
    ],
)
def test_wanted(operations, kept):
    assert found("wanted", *operations) == kept


@pytest.mark.parametrize(
    ("operations", "kept"),
    [
        ((*WANT, EVENT, GOT, REST), KEPT),
        ((*WANT, EVENT, REST, GOT), KEPT),
        ((*WANT, EVENT, REST), BROKEN),
        ((*WANT, EVENT), OPEN),  # it may still be on its way
        ((WANT[0], EVENT, WANT[1], REST), OPEN),  # being made
        ((WANT[0], EVENT, WANT[1], GOT, REST), KEPT),
        ((*WANT, EVENT, GONE, REST), OPEN),  # being cancelled
        ((*WANT, EVENT, REST, GONE), BROKEN),
        ((*WANT, GONE, EVENT, REST), NOTHING),
        ((EVENT, *WANT, REST), NOTHING),
        ((*WANT, Registered(0.0, "c", 2, "TRUE"), EVENT, Cancelled(0.0, "c", 2), REST), BROKEN),
    ],
)
def test_complete(operations, kept):
    assert found("complete", *operations) == kept


@pytest.mark.parametrize(
    ("operations", "kept"),
    [
        ((*WANT, EVENT, GOT), KEPT),
        ((EVENT, *WANT, GOT), OPEN),
        ((EVENT, REST, *WANT, GOT), BROKEN),
        ((EVENT, *WANT, REST, GOT), OPEN),
        ((Registered(0.0, "c", 2, "TRUE"), EVENT, REST, *WANT, GOT), KEPT),
        ((EVENT, GOT), NOTHING),
    ],
)
def test_fresh(operations, kept):
    assert found("fresh", *operations) == kept


def test_once_and_published():
    assert found("once", *WANT, EVENT, GOT) == KEPT
    assert found("once", *WANT, EVENT, GOT, GOT, GOT) == (3, 2, 0)
    assert found("once", GOT, GOT) == (2, 1, 0)
    assert found("published", EVENT, GOT) == KEPT
    assert found("published", GOT, EVENT) == found("published", GOT) == BROKEN


def test_ordered():
    events = [Published(0.0, "p", number, {"x": 2 * number}) for number in (1, 2, 3)]
    notes = {number: Notified(0.0, "c", "p", number) for number in (0, 1, 2, 3)}
    assert found("ordered", *WANT, *events, *notes.values()) == (3, 0, 0)
    assert found("ordered", *WANT, *events, notes[2], notes[1], notes[3]) == (3, 1, 0)
    assert found("ordered", *WANT, *events, notes[3], notes[1], notes[2]) == (3, 2, 0)
    assert found("ordered", *WANT, *events, notes[1], notes[2], notes[1]) == (2, 0, 0), "a duplicate is one"
    late = Published(0.0, "p", 9, {"x": 0})
    assert found("ordered", *WANT, *events, late, Notified(0.0, "c", "p", 9), notes[1]) == KEPT, (
        "what nobody wanted puts nothing else in the wrong"
    )


def test_advertised():
    announced = Advertised(0.0, "p", 1, "x > 1")
    assert found("within", *WANT, EVENT, GOT) == found("advertised", *WANT, EVENT, GOT) == NOTHING
    assert found("within", announced, EVENT) == KEPT
    assert found("within", announced, Published(0.0, "p", 1, {"x": 0})) == BROKEN
    assert found("within", announced, Unadvertised(0.0, "p", 1), EVENT) == BROKEN
    assert found("within", Advertised(0.0, "q", 1, "x > 1"), EVENT) == BROKEN
    assert found("within", EVENT, announced) == NOTHING, "nobody had advertised anything yet"
    assert found("advertised", announced, *WANT, EVENT, GOT) == NOTHING, "nothing was outside"
    assert found("advertised", Advertised(0.0, "p", 1, "x > 5"), *WANT, EVENT, GOT) == BROKEN
    assert found("advertised", Advertised(0.0, "p", 1, "x > 5"), *WANT, EVENT) == KEPT


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 14))
def test_definition_8_is_the_rules_of_safety_read_at_once(any_trace, rng, size):
    """Paper 4, definition 8, with "always" for "eventually always": once, published, and an active filter."""
    trace = any_trace(rng, size)
    verdict = judge(trace)
    broken = {"once", "published", "wanted"} & set(verdict.violated)
    undecided = verdict.findings["wanted"].indeterminate
    assert (holds(always(safe()), trace) is False) == bool(broken or undecided)
    for literal, strict in (
        (definition_8(), always(safe())),
        (definition_9(), always(safe() & never_unannounced())),
    ):
        assert holds(strict, trace) is False or holds(literal, trace) is True
        last = len(trace) - 1
        assert holds(literal, trace) is holds(strict, trace, last), "it asks for the last position only"


NOTICE = Adv(0.0, "c", 1, "x > 1")
BACK = UnAdv(0.0, "c", 1)


@pytest.mark.parametrize(
    ("operations", "kept"),
    [
        ((*WANT, EVENT, GOT), NOTHING),  # nobody has given a notice
        ((NOTICE, *WANT, EVENT, GOT), NOTHING),  # the notice matches the event
        ((Adv(0.0, "d", 1, "TRUE"), *WANT, EVENT, GOT), BROKEN),  # the notice of another subscriber
        ((Adv(0.0, "c", 1, "x > 2"), *WANT, EVENT, GOT), BROKEN),
        ((Adv(0.0, "c", 1, "x > 2"), *WANT, EVENT), KEPT),
        ((NOTICE, BACK, REST, *WANT, EVENT, GOT), BROKEN),
        ((NOTICE, *WANT, BACK, EVENT, GOT), OPEN),  # being withdrawn
        ((NOTICE, *WANT, BACK, EVENT, REST), KEPT),
        ((Adv(0.0, "d", 1, "TRUE"), *WANT, EVENT, NOTICE, GOT), OPEN),  # being given
        ((Adv(0.0, "d", 1, "TRUE"), *WANT, EVENT, REST, NOTICE, GOT), BROKEN),
        ((NOTICE, Adv(0.0, "c", 1, "x < 1"), REST, *WANT, EVENT, GOT), BROKEN),  # replaces the first
        (
            (NOTICE, EVENT, BACK, REST, GOT),
            NOTHING,
        ),  # only notices at the time of the publication count
    ],
)
def test_noticed(operations, kept):
    """Paper 4, definition 9: ActAdv(C) is what subscriber C has given notice of (section 2, definition 2)."""
    assert found("noticed", *operations) == kept


def test_definition_9_is_about_the_notices_of_each_subscriber_and_not_about_publishers():
    """Each of the two versions can be violated alone while definition 8 holds: no other rule requires it."""
    offer = Advertised(0.0, "p", 1, "TRUE")
    unnoticed = Trace([offer, Adv(0.0, "c", 1, "x > 2"), Adv(0.0, "d", 1, "TRUE"), *WANT, EVENT, GOT])
    unadvertised = Trace([offer._replace(selector="x > 2"), NOTICE, *WANT, EVENT, GOT])
    for trace, noticed, advertised in ((unnoticed, False, True), (unadvertised, True, False)):
        assert holds(always(safe()), trace) is True
        assert holds(always(never_unannounced()), trace) is noticed
        assert holds(always(never_unadvertised()), trace) is advertised
        assert ("noticed" in judge(trace).violated, "advertised" in judge(trace).violated) == (
            not noticed,
            not advertised,
        )
    # Both hold from the notification on, so "eventually always" holds on these finite traces.
    assert holds(definition_9(), unnoticed) is holds(definition_8(), unnoticed) is True
    assert holds(safe() & never_unannounced(), unnoticed, 5) is False, "it is the publication that shows it"


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 14))
def test_what_definition_9_adds_is_what_it_says(any_trace, rng, size):
    """Compares with the sentence of the definition, written out over states and positions."""
    trace = any_trace(rng, size)
    told = {
        (op.client, (op.publisher, op.sequence), at) for at, op in enumerate(trace) if type(op) is Notified
    }
    broken = dict.fromkeys(("act_adv", "offers"), False)
    for at, (now, op) in enumerate(steps(trace)):
        if type(op) is Published:
            for client, event, later in told:
                if event == op[1:3] and later > at:
                    mine = now.act_adv.get(client, {}).values()
                    theirs = now.offers.get(op.publisher, {}).values()
                    broken["act_adv"] |= not any(said.test_of(text)(op.event) is True for text in mine)
                    broken["offers"] |= not any(said.test_of(text)(op.event) is True for text in theirs)
    assert (holds(always(never_unannounced()), trace) is False) == broken["act_adv"]
    assert (holds(always(never_unadvertised()), trace) is False) == broken["offers"]


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 20))
def test_states_and_past_formulas_say_the_same(any_trace, rng, size):
    trace = any_trace(rng, size)
    for life in lives(trace):
        active = said.in_act_sub(life).truths(trace)
        for position, (now, op) in enumerate(steps(trace)):
            if type(op) in (Published, Notified):
                in_state = now.act_sub.get(life.client, {}).get(life.number)
                later = any(
                    other.number == life.number and life.registered < other.registered <= position
                    for other in lives(trace)
                    if other.client == life.client
                )
                standing = in_state is not None and position > life.registered and not later
                assert bool(active[position] == 2) == standing
    for event in said.events(trace):
        state_says = said.in_pub_noti(event).truths(trace).tolist()
        assert state_says == earlier(said.publish(event)).truths(trace).tolist()


def test_a_condition_of_ones_own():
    polite = Rule(
        "polite",
        "nobody is notified after it said that it is lost",
        (said.clients, said.events),
        said.notify,
        lambda client, event: ~earlier(said.lost(client, event)),
    )
    trace = Trace([*WANT, EVENT, LossTold(1.0, "c", "p", 1), GOT._replace(at_seconds=2.0), REST])
    verdict = judge_by_formulas(trace, [polite])
    assert verdict.violated == ["polite"] and verdict.findings["polite"].counts() == BROKEN
    (violation,) = verdict.violations
    assert [type(op) for op in violation.piece] == [LossTold, Notified]
    assert violation.sentence == "nobody is notified after it said that it is lost: not so of c, ('p', 1)"
    assert holds(polite.formula(), trace) is False and holds(RULES["once"].formula(), trace) is True


def test_what_is_explained_is_the_one_that_is_wrong():
    """The same notification occurs twice, and is correct the first time."""
    (violation,) = judge(Trace([*WANT, EVENT, GOT, GONE, REST, GOT])).findings["wanted"].violations
    assert [type(op) for op in violation.piece] == [Registered, Published, Cancelled, Settled, Notified]
