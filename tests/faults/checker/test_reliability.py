"""The checker agrees with the formulas on any trace, accepts correct traces and catches every mutant."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.faults.checker.conditions import RULES
from rayvous.faults.checker.ltl import holds
from rayvous.faults.checker.mutants import MUTANTS, REFUSED
from rayvous.faults.checker.reliability import judge, judge_by_formulas
from rayvous.faults.checker.verdict import EXAMPLES_MAX, Verdict, total
from rayvous.protocol.errors import InputError
from rayvous.protocol.ids import EventId
from rayvous.protocol.traces.trace import (
    Answered,
    Confirmed,
    Notified,
    Operation,
    Published,
    Registered,
    Settled,
    Trace,
    trace_of,
)

PUBLISHED = {("p", i): {"x": i} for i in range(1, 9)} | {("q", i): {"x": i, "s": "a"} for i in range(1, 5)}
SUBSCRIPTIONS = {"all": ["x > 0"], "two": ["x <= 3", "s = 'a'"], "none": ["x > 99"]}
CORRECT: dict[str, list[EventId]] = {
    "all": list(PUBLISHED),
    "two": [("q", 1), ("p", 1), ("q", 2), ("p", 2), ("p", 3), ("q", 3), ("q", 4)],
    "none": [],
}


def counts(verdict: Verdict) -> tuple[int, int, int, int]:
    return verdict.missing, verdict.duplicates, verdict.spurious, verdict.disordered


def verdict_on(**changed: list[EventId]) -> Verdict:
    return judge(trace_of(PUBLISHED, SUBSCRIPTIONS, CORRECT | changed))


# Columns, the fast way, and formulas, the slow way.


@settings(max_examples=120, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 24))
def test_columns_and_formulas_say_the_same_of_any_trace(any_trace, rng, size):
    trace = any_trace(rng, size)
    quick, slow = judge(trace), judge_by_formulas(trace)
    assert quick.conditions() == slow.conditions()
    if len(trace):
        for name, rule in RULES.items():
            assert (holds(rule.formula(), trace) is False) == (name in quick.violated)


@pytest.mark.parametrize("seed", range(25))
def test_correct_traces_hold(correct_trace, seed):
    rng = random.Random(seed)
    forgets = rng.random() < 0.5
    trace = correct_trace(
        rng, steps=200, advertised=rng.random() < 0.5, forgets=forgets, answers=seed % 3 == 0
    )
    verdict = judge(trace)
    assert verdict.holds, verdict.violations
    assert verdict.losses.keys() <= ({"retention"} if forgets else set()) and not verdict.unexplained
    assert verdict.findings["once"].checked == verdict.notifications_delivered > 0


@settings(max_examples=6, deadline=None)
@given(st.randoms(use_true_random=False))
def test_of_a_correct_trace_the_formulas_say_so_too(correct_trace, rng):
    trace = correct_trace(rng, steps=25, answers=rng.random() < 0.5)
    assert judge_by_formulas(trace).conditions() == judge(trace).conditions()


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(5, 40))
def test_of_losses_the_ledger_says_what_the_formulas_say(losing_trace, rng, size):
    trace = losing_trace(rng, size)
    quick, slow = judge(trace), judge_by_formulas(trace, [RULES["complete"]])
    assert quick.findings["complete"].counts() == slow.findings["complete"].counts()


# Mutants.


@pytest.mark.parametrize(("seeds", "at_least"), [(5, 1), pytest.param(20, 12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught_by_the_right_condition(correct_trace, name, seeds, at_least):
    """Of 20 seeds each; the piece that explains a violation violates the condition by itself."""
    change, condition = MUTANTS[name]
    caught = 0
    for seed in range(seeds):
        rng = random.Random(seed)
        forgets, answers = name in FORGETTING, name in ANSWERING or seed % 2 == 1
        trace = correct_trace(rng, steps=120, advertised=True, forgets=forgets, answers=answers)
        mutant = change(trace, rng)
        if mutant is None:
            continue
        caught += 1
        verdict = judge(mutant)
        assert condition in verdict.violated, (seed, verdict.conditions())
        assert set(verdict.violated) <= {condition} | BESIDE.get(name, set()), (seed, verdict.violations)
        for violation in verdict.findings[condition].violations:
            assert len(violation.piece) <= 12
            assert condition in judge(violation.piece).violated
    assert caught >= at_least


FORGETTING = (
    "silence", "lose too soon", "lose what had settled", "keep room", "lower afterwards", "lower when passed",
    "durable afterwards", "die alone",
)  # fmt: skip
"""Mutants of a system that may lose events, and says so."""

ANSWERING = ("forge answer", "leave answer out")
"""Mutants of a system that puts subscriptions in force for some publishers only."""

BESIDE = {
    "duplicate": {"wanted", "fresh"},  # it may come after the subscription was cancelled
    "mismatch": {"noticed"},
    "after cancel": {"noticed"},
    "stale": {"ordered", "noticed"},
    "too early": {"complete", "ordered"},  # an early notification does not count as one after the publication
    "notify outside": {"within", "wanted", "noticed"},
}
"""What else a mutant breaks, necessarily or now and then."""


def test_a_piece_is_as_short_as_can_be():
    verdict = verdict_on(all=[*CORRECT["all"][1:], ("p", 4)])
    pieces = {violation.condition: violation for violation in verdict.violations}
    assert [type(op).__name__ for op in pieces["once"].piece] == ["Notified", "Notified"]
    missing = pieces["complete"]
    assert [type(op).__name__ for op in missing.piece] == ["Registered", "Confirmed", "Published", "Settled"]
    assert (missing.client, missing.event, missing.subscriptions) == ("all", ("p", 1), [1])
    assert missing.to_dict()["piece"][2] == "1.000 s  Published(p, 1)"
    for violation in pieces.values():
        for left_out in range(len(violation.piece)):
            rest = Trace(op for place, op in enumerate(violation.piece) if place != left_out)
            assert violation.condition not in judge(rest).violated, "nothing in it is superfluous"


# Counting.


def test_correct_deliveries_hold() -> None:
    verdict = verdict_on()
    assert verdict.holds and verdict.examples == [] and verdict.indeterminate == 0
    assert (verdict.events_published, verdict.notifications_expected, verdict.notifications_delivered) == (
        12,
        19,
        19,
    )
    assert verdict.to_dict()["verdict"] == "holds"
    assert verdict.to_dict()["conditions"]["complete"] == {"checked": 19, "violated": 0, "indeterminate": 0}


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_interleaving_of_publishers_holds(rng: random.Random) -> None:
    queues = [[("p", i) for i in range(1, 9)], [("q", i) for i in range(1, 5)]]
    merged: list[EventId] = []
    while any(queues):
        merged.append(rng.choice([queue for queue in queues if queue]).pop(0))
    assert verdict_on(all=merged).holds


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 11)))
def test_each_dropped_one_is_missing(dropped: set[int]) -> None:
    kept = [identity for place, identity in enumerate(CORRECT["all"]) if place not in dropped]
    verdict = verdict_on(all=kept)
    assert counts(verdict) == (len(dropped), 0, 0, 0)
    assert verdict.holds == (not dropped)
    said = ["all was never notified of {} #{}".format(*CORRECT["all"][place]) for place in sorted(dropped)]
    assert verdict.examples == said[:EXAMPLES_MAX]


@settings(max_examples=40, deadline=None)
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
    assert [violation.sentence for violation in verdict.findings["wanted"].violations] == [
        "two was notified of p #7, which matches no subscription of it",
        "none was notified of p #1, which matches no subscription of it",
    ]
    assert verdict.violated == ["wanted", "noticed"]
    assert verdict.notifications_delivered == 21


@pytest.mark.parametrize("place", range(13))
@pytest.mark.parametrize("phantom", [("p", 99), ("p", 0), ("ghost", 1)])
def test_one_that_was_never_published_is_spurious_wherever_it_comes(place: int, phantom: EventId) -> None:
    got = [*CORRECT["all"][:place], phantom, *CORRECT["all"][place:]]
    verdict = verdict_on(all=got)
    assert counts(verdict) == (0, 0, 1, 0), "and it puts nothing else in the wrong"
    assert verdict.examples == ["all was notified of {} #{}, which was never published".format(*phantom)]


def test_whoever_never_subscribed_gets_nothing_and_whoever_is_unknown_got_nothing() -> None:
    assert counts(verdict_on(stranger=[("p", 1), ("p", 2)])) == (0, 0, 2, 0)
    verdict = judge(trace_of(PUBLISHED, SUBSCRIPTIONS, {}))
    assert counts(verdict) == (19, 0, 0, 0) and verdict.notifications_expected == 19


def test_all_kinds_at_once_are_counted_apart() -> None:
    p = [("p", i) for i in range(1, 9)]
    q = [("q", i) for i in range(1, 4)]  # the last is dropped
    verdict = verdict_on(all=[p[0], p[2], p[1], *p[3:], p[3], ("p", 50), *q])
    assert counts(verdict) == (1, 1, 1, 1)
    assert verdict.to_dict()["verdict"] == "violated"
    assert len({violation.condition for violation in verdict.violations[:4]}) == 4, "one of each comes first"


def test_examples_are_few_and_counts_are_whole_and_add_up() -> None:
    verdict = verdict_on(none=list(PUBLISHED))
    assert verdict.spurious == 12 and len(verdict.examples) == EXAMPLES_MAX
    both = total([verdict, verdict_on()])
    assert both.spurious == 12 and both.notifications_delivered == 12 + 2 * 19 and not both.holds
    assert len(both.findings["wanted"].violations) == EXAMPLES_MAX


def test_progress_is_told() -> None:
    said: list[tuple[int, int]] = []
    judge(trace_of(PUBLISHED, SUBSCRIPTIONS, CORRECT), lambda done, of: said.append((done, of)))
    assert said == [(1, 3), (2, 3), (3, 3)]


def test_unknown_does_not_match_not_even_under_not() -> None:
    published = {("p", 1): {"x": 1}, ("p", 2): {"s": "a"}, ("p", 3): {"x": "a"}}
    verdict = judge(trace_of(published, {"c": ["NOT x = 2"], "d": ["x IS NULL", "x = 'a'"]}, {}))
    assert verdict.examples == [
        "c was never notified of p #1",
        "d was never notified of p #2",
        "d was never notified of p #3",
    ]


def test_what_is_published_twice_under_one_number_is_no_trace() -> None:
    with pytest.raises(InputError, match="operation 1: p #1 is published twice"):
        judge(Trace([Published(0.0, "p", 1, {}), Published(0.0, "p", 1, {})]))


@pytest.mark.parametrize("judging", [judge, judge_by_formulas])
def test_numbers_that_do_not_rise_are_no_trace(judging: Callable[[Trace], Verdict]) -> None:
    """Published as 22, then 21, and notified as 21, then 22: by its numbers that is in order."""
    first, second = Published(1.0, "p", 22, {"x": 1}), Published(2.0, "p", 21, {"x": 1})
    notes = [Notified(3.0, "c", "p", 21), Notified(3.0, "c", "p", 22)]
    wants = [Registered(0.0, "c", 1, "TRUE"), Confirmed(0.0, "c", 1)]
    said = "operation 3: p #21 is published after #22: the numbers of a publisher must rise"
    with pytest.raises(InputError, match=said):
        judging(Trace([*wants, first, second, *notes, Settled(4.0)]))
    other = first._replace(publisher="q"), second, first._replace(at_seconds=2.0)
    assert not judging(Trace([*wants, *other, *notes, Settled(4.0)])).disordered, "each publisher has its own"


def test_a_trace_of_mappings_is_in_the_order_of_numbers() -> None:
    shuffled = dict(reversed(PUBLISHED.items()))
    assert counts(judge(trace_of(shuffled, SUBSCRIPTIONS, CORRECT))) == (0, 0, 0, 0)


@pytest.mark.parametrize("name", REFUSED)
def test_mutants_that_are_no_traces_are_refused(correct_trace: Callable[..., Trace], name: str) -> None:
    for seed in range(5):
        rng = random.Random(seed)
        mutant = REFUSED[name](correct_trace(rng, steps=60), rng)
        assert mutant is not None
        with pytest.raises(InputError, match="must rise"):
            judge(mutant)


def test_a_verdict_is_one_line_for_people() -> None:
    assert repr(verdict_on(none=[("p", 1)])) == (
        "Verdict(violated; violated: once 0 of 20, published 0 of 20, wanted 1 of 20, noticed 1 of 17, "
        "complete 0 of 19, ordered 0 of 19, fresh 0 of 19; 0 indeterminate)"
    )


# Subscriptions that are satisfied by publishers at the subscriber's own broker.


def missing_of(*operations: Operation) -> list[EventId]:
    """Return the events that the one subscriber misses in a trace that settles at its end."""
    trace = Trace([Registered(0.0, "a", 1, "x > 0"), *operations, Settled(9.0)])
    for verdict in (judge(trace), judge_by_formulas(trace)):
        assert verdict.findings["complete"].violated == len(verdict.findings["complete"].violations)
    return [violation.event for violation in judge(trace).findings["complete"].violations]


P1, Q1, P2, Q2 = (
    Published(2.0, publisher, sequence, {"x": 1}) for sequence in (1, 2) for publisher in ("p", "q")
)
HERE, ALL, QUIET = Answered(1.0, "a", 1, ("p",)), Confirmed(1.0, "a", 1), Settled(3.0)


@pytest.mark.parametrize(
    ("operations", "missing"),
    [
        ((HERE, P1, Q1), [("p", 1)]),
        ((ALL, P1, Q1), [("p", 1), ("q", 1)]),
        ((HERE, P1, Q1, QUIET, ALL, P2, Q2), [("p", 1), ("p", 2), ("q", 2)]),
        ((ALL, P1, Q1, QUIET, HERE, P2, Q2), [("p", 1), ("q", 1), ("p", 2)]),
        ((ALL, P1, Q1, HERE), [("p", 1)]),
        ((HERE, P1, Answered(4.0, "a", 1, ())), []),
        ((Answered(1.0, "a", 1, ()), P1, Q1), []),
    ],
)
def test_what_a_subscription_that_is_satisfied_locally_is_not_owed_is_no_loss(
    operations: tuple[Operation, ...], missing: list[EventId]
) -> None:
    """It must receive the events of those publishers that it was told of. Reference: paper 2, 2.3(1)."""
    assert missing_of(*operations) == missing
