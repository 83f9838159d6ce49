"""The judge judged: correct deliveries pass, and each kind of wrong one is caught and counted right."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.faults.reliability import EXAMPLES_MAX, EventId, Verdict, compare, judge, wanted
from rayvous.routing.language import to_predicate

PUBLISHED = {("p", i): {"x": i} for i in range(1, 9)} | {("q", i): {"x": i, "s": "a"} for i in range(1, 5)}
SUBSCRIPTIONS = {
    "all": [to_predicate("x > 0")],
    "two": [to_predicate("x <= 3"), to_predicate("s = 'a'")],
    "none": [to_predicate("x > 99")],
}
CORRECT: dict[str, list[EventId]] = {
    "all": list(PUBLISHED),
    "two": [("q", 1), ("p", 1), ("q", 2), ("p", 2), ("p", 3), ("q", 3), ("q", 4)],
    "none": [],
}


def counts(verdict: Verdict) -> tuple[int, int, int, int]:
    return verdict.missing, verdict.duplicates, verdict.spurious, verdict.disordered


def verdict_on(**changed: list[EventId]) -> Verdict:
    return judge(PUBLISHED, SUBSCRIPTIONS, CORRECT | changed)


def test_correct_deliveries_hold() -> None:
    verdict = verdict_on()
    assert verdict.holds and verdict.examples == []
    assert (verdict.events_published, verdict.notifications_expected, verdict.notifications_delivered) == (
        12,
        19,
        19,
    )
    assert verdict.to_dict()["verdict"] == "holds"


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_interleaving_of_publishers_holds(rng: random.Random) -> None:
    queues = [[("p", i) for i in range(1, 9)], [("q", i) for i in range(1, 5)]]
    merged: list[EventId] = []
    while any(queues):
        merged.append(rng.choice([queue for queue in queues if queue]).pop(0))
    assert verdict_on(all=merged).holds


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, 11)))
def test_each_dropped_one_is_missing(dropped: set[int]) -> None:
    kept = [identity for place, identity in enumerate(CORRECT["all"]) if place not in dropped]
    verdict = verdict_on(all=kept)
    assert counts(verdict) == (len(dropped), 0, 0, 0)
    assert verdict.holds == (not dropped)
    if dropped:
        assert verdict.examples == ["all was never notified of {} #{}".format(*CORRECT["all"][min(dropped)])]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(1, 20)), min_size=1, max_size=5))
def test_each_one_delivered_again_is_a_duplicate_and_nothing_else(again: list[tuple[int, int]]) -> None:
    got = list(CORRECT["all"])
    for place, later in again:
        identity = CORRECT["all"][place]
        got.insert(got.index(identity) + later, identity)
    verdict = verdict_on(all=got)
    assert counts(verdict) == (0, len(again), 0, 0)
    assert not verdict.holds and "was notified again" in verdict.examples[0]


@pytest.mark.parametrize("place", range(7))
def test_two_of_one_publisher_swapped_are_one_in_disorder(place: int) -> None:
    got = list(CORRECT["all"])
    got[place], got[place + 1] = got[place + 1], got[place]
    verdict = verdict_on(all=got)
    assert counts(verdict) == (0, 0, 0, 1)
    assert verdict.examples == [f"all was notified of p #{place + 1} after #{place + 2}"]


def test_one_that_comes_too_late_is_one_in_disorder_and_one_too_early_puts_the_rest_there() -> None:
    p = [("p", i) for i in range(1, 9)]
    rest = CORRECT["all"][8:]
    assert counts(verdict_on(all=[*p[1:], p[0], *rest])) == (0, 0, 0, 1)
    assert counts(verdict_on(all=[p[7], *p[:7], *rest])) == (0, 0, 0, 7)


def test_one_that_matches_nothing_is_spurious() -> None:
    verdict = verdict_on(two=[*CORRECT["two"], ("p", 7)], none=[("p", 1)])
    assert counts(verdict) == (0, 0, 2, 0)
    assert verdict.examples == [
        "two was notified of p #7, which matches no subscription of it",
        "none was notified of p #1, which matches no subscription of it",
    ]
    assert verdict.notifications_delivered == 21


@pytest.mark.parametrize("place", range(13))
@pytest.mark.parametrize("phantom", [("p", 99), ("p", 0), ("ghost", 1)])
def test_one_that_was_never_published_is_spurious_wherever_it_comes(place: int, phantom: EventId) -> None:
    got = [*CORRECT["all"][:place], phantom, *CORRECT["all"][place:]]
    verdict = verdict_on(all=got)
    assert counts(verdict) == (0, 0, 1, 0), "and it puts nothing else in the wrong"
    assert verdict.examples == ["all was notified of {} #{}, which was never published".format(*phantom)]


def test_whoever_never_subscribed_gets_nothing() -> None:
    verdict = judge(PUBLISHED, SUBSCRIPTIONS, CORRECT | {"stranger": [("p", 1), ("p", 2)]})
    assert counts(verdict) == (0, 0, 2, 0)


def test_a_subscriber_of_whom_nothing_is_known_got_nothing() -> None:
    verdict = judge(PUBLISHED, SUBSCRIPTIONS, {})
    assert counts(verdict) == (19, 0, 0, 0) and verdict.notifications_expected == 19


def test_all_kinds_at_once_are_counted_apart() -> None:
    p = [("p", i) for i in range(1, 9)]
    q = [("q", i) for i in range(1, 4)]  # the last is dropped
    verdict = verdict_on(all=[p[0], p[2], p[1], *p[3:], p[3], ("p", 50), *q])
    assert counts(verdict) == (1, 1, 1, 1)
    assert verdict.to_dict()["verdict"] == "violated"


def test_examples_are_few_and_counts_are_whole() -> None:
    verdict = verdict_on(none=list(PUBLISHED))
    assert verdict.spurious == 12 and len(verdict.examples) == EXAMPLES_MAX


def test_what_may_come_need_not() -> None:
    must, may = {"a": {("p", 1): None}}, {"a": {("p", 2)}}
    for got in ([("p", 1)], [("p", 1), ("p", 2)]):
        assert compare(PUBLISHED, must, may, {"a": got}).holds
    assert counts(compare(PUBLISHED, must, may, {"a": [("p", 2), ("p", 1)]})) == (0, 0, 0, 1)
    assert counts(compare(PUBLISHED, must, may, {"a": [("p", 1), ("p", 2), ("p", 2)]})) == (0, 1, 0, 0)
    assert counts(compare(PUBLISHED, must, may, {"a": [("p", 1), ("p", 3)]})) == (0, 0, 1, 0)


def test_progress_is_told() -> None:
    said: list[tuple[int, int]] = []
    judge(PUBLISHED, SUBSCRIPTIONS, CORRECT, lambda done, of: said.append((done, of)))
    assert said == [(1, 3), (2, 3), (3, 3)]


def test_unknown_does_not_match_not_even_under_not() -> None:
    published = {("p", 1): {"x": 1}, ("p", 2): {"s": "a"}, ("p", 3): {"x": "a"}}
    assert list(wanted(published, [to_predicate("NOT x = 2")])) == [("p", 1)]
    assert list(wanted(published, [to_predicate("x IS NULL"), to_predicate("x = 'a'")])) == [
        ("p", 2),
        ("p", 3),
    ]
