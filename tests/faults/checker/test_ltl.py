"""Temporal logic, compared with a recursive transcription of the definitions, and with the laws of LTL."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.faults.checker import ltl
from rayvous.faults.checker.ltl import (
    always,
    constant,
    eventually,
    exists,
    explain,
    for_all,
    holds,
    next_,
    operation,
    perhaps,
    since,
    state,
    surely,
    until,
    weak_next,
)
from rayvous.protocol.errors import InputError
from rayvous.protocol.traces.trace import Cancelled, Notified, Published, Registered, Trace

TRUTHS = (False, None, True)


class Letter(ltl.Formula):
    """An atom with given truths, True, False or None, at each position."""

    def __init__(self, truths):
        self.given = truths

    def truths(self, trace):
        return np.array([TRUTHS.index(truth) for truth in self.given], np.int8)

    def why(self, trace, at, truth):
        return frozenset((at,))


# The reference: formulas are nested tuples, and each operator is written as in its definition.


def least(truths):
    return False if False in truths else None if None in truths else True


def negated(truth):
    return None if truth is None else not truth


def greatest(truths):
    return negated(least([negated(truth) for truth in truths]))


def reference(formula, i, n):
    word, *terms = formula

    def at(term, j):
        return reference(terms[term], j, n)

    def until_here(goal_at, between):
        return least([at(1, goal_at), *(at(0, k) for k in between)])

    match word:
        case "letter":
            return terms[0][i]
        case "not":
            return negated(at(0, i))
        case "and":
            return least([at(0, i), at(1, i)])
        case "or":
            return greatest([at(0, i), at(1, i)])
        case "implies":
            return greatest([negated(at(0, i)), at(1, i)])
        case "next":
            return at(0, i + 1) if i + 1 < n else False
        case "weak_next":
            return at(0, i + 1) if i + 1 < n else True
        case "always":
            return least([at(0, j) for j in range(i, n)])
        case "eventually":
            return greatest([at(0, j) for j in range(i, n)])
        case "until":
            return greatest([until_here(j, range(i, j)) for j in range(i, n)])
        case "since":
            return greatest([until_here(j, range(j + 1, i + 1)) for j in range(i + 1)])
        case "earlier":
            return greatest([at(0, j) for j in range(i)]) if i else False
        case "perhaps":
            return False if at(0, i) is False else None
        case "surely":
            return True if at(0, i) is True else None


def build(formula):
    word, *terms = formula
    if word == "letter":
        return Letter(terms[0])
    parts = [build(term) for term in terms]
    match word:
        case "not":
            return ~parts[0]
        case "and":
            return parts[0] & parts[1]
        case "or":
            return parts[0] | parts[1]
        case "implies":
            return parts[0] >> parts[1]
        case "next":
            return next_(*parts)
    return getattr(ltl, word)(*parts)


ONE = ("not", "next", "weak_next", "always", "eventually", "earlier", "perhaps", "surely")
TWO = ("and", "or", "implies", "until", "since")


def formulas(size):
    letters = st.lists(st.sampled_from(TRUTHS), min_size=size, max_size=size).map(lambda row: ("letter", row))
    return st.recursive(
        letters,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(ONE), inner), st.tuples(st.sampled_from(TWO), inner, inner)
        ),
        max_leaves=6,
    )


def blank(size):
    return Trace(Notified(float(place), "c", "p", place) for place in range(size))


sized = st.integers(1, 6).flatmap(lambda size: st.tuples(st.just(size), formulas(size)))


@settings(max_examples=200, deadline=None)
@given(sized)
def test_every_formula_says_what_its_definition_says(drawn):
    size, formula = drawn
    built, trace = build(formula), blank(size)
    for position in range(size):
        assert holds(built, trace, position) is reference(formula, position, size)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 6).flatmap(lambda size: st.tuples(st.just(size), formulas(size), formulas(size))))
def test_the_laws_of_temporal_logic(drawn):
    size, one, other = drawn
    f, g, trace = build(one), build(other), blank(size)
    last = ~next_(constant(True))
    for left, right in (
        (~always(f), eventually(~f)),
        (always(f), f & weak_next(always(f))),
        (eventually(f), f | next_(eventually(f))),
        (until(f, g), g | (f & next_(until(f, g)))),
        (since(f, g), g | (f & since(f, g))),
        (eventually(f), until(constant(True), f)),
        (~next_(f), weak_next(~f)),
        (always(f & g), always(f) & always(g)),
        (eventually(f | g), eventually(f) | eventually(g)),
        (always(always(f)), always(f)),
        (~(f & g), ~f | ~g),
        (surely(f), ~perhaps(~f)),
        # On a finite trace, "eventually always" and "always eventually" are both about the last position.
        (eventually(always(f)), eventually(last & f)),
        (always(eventually(f)), eventually(last & f)),
    ):
        assert left.truths(trace).tolist() == right.truths(trace).tolist()


def ways(formula, i, n):
    """Return every set of positions that shows why a formula is True, or False, at a position."""
    word, *terms = formula
    truth = reference(formula, i, n)
    assert truth is not None

    def at(term, j):
        return ways(terms[term], j, n)

    def is_so(term, j, wanted):
        return reference(terms[term], j, n) is wanted

    def any_of(term, places, wanted):
        found = [way for j in places if is_so(term, j, wanted) for way in at(term, j)]
        return found or [frozenset()]

    def both(some, others):
        return [one | other for one in some for other in others]

    match word:
        case "letter":
            return [frozenset((i,))]
        case "not" | "perhaps" | "surely":
            return at(0, i)
        case "and" | "or" if truth is (word == "and"):
            return both(at(0, i), at(1, i))
        case "and" | "or":
            return [way for term in (0, 1) if is_so(term, i, truth) for way in at(term, i)]
        case "implies" if truth:
            return [way for term in (0, 1) if is_so(term, i, bool(term)) for way in at(term, i)]
        case "implies":
            return both(at(0, i), at(1, i))
        case "next" | "weak_next":
            return at(0, i + 1) if i + 1 < n else [frozenset()]
        case "always" | "eventually":
            shows = truth is (word == "eventually")
            return any_of(0, range(i, n), truth) if shows else [frozenset()]
        case "earlier":
            return any_of(0, range(i), True) if truth else [frozenset()]
        case "until":
            first = [j for j in range(i, n) if is_so(1 if truth else 0, j, truth)][:1]
            return any_of(1 if truth else 0, first, truth)
        case "since":
            begun = [j for j in range(i + 1) if is_so(1, j, True)][-1:]
            ended = [j for j in range(begun[0] + 1, i + 1) if is_so(0, j, False)][:1] if begun else []
            shown = any_of(1, begun, True)
            return shown if truth else both(shown, any_of(0, ended, False))


def assert_shortest(formula, size, positions):
    built, trace = build(formula), blank(size)
    for position in positions:
        shown = frozenset(op.sequence for op in explain(built, trace, position))
        if holds(built, trace, position) is None:
            assert not shown
        else:
            all_ways = ways(formula, position, size)
            assert shown in all_ways and len(shown) == min(map(len, all_ways))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5).flatmap(lambda size: st.tuples(st.just(size), formulas(size))))
def test_an_explanation_is_the_shortest_there_is(drawn):
    """By brute force: no other choice, anywhere in the formula, gives an explanation with fewer positions."""
    size, formula = drawn
    assert_shortest(formula, size, range(size))


@pytest.mark.parametrize("word", ["and", "or"])
@pytest.mark.parametrize(
    "one, other", [("eventually", "eventually"), ("always", "always"), ("earlier", "always")]
)
def test_what_two_formulas_have_in_common_is_shown_once(word, one, other):
    """All formulas of two letters on three positions: the best for one part need not be the best for both."""
    rows = [("letter", row) for row in product((False, True), repeat=3)]
    for f, g in product(rows, rows):
        assert_shortest((word, (one, f), (other, g)), 3, (0, 2))


# Quantifiers, states, and usage.

STORY = Trace(
    [
        Registered(0.0, "a", 1, "x > 1"),
        Published(1.0, "p", 1, {"x": 2}),
        Notified(2.0, "a", "p", 1),
        Cancelled(3.0, "a", 1),
        Notified(4.0, "a", "p", 1),
    ]
)


def note(client):
    return operation(lambda op: isinstance(op, Notified) and op.client == client)


def test_quantifiers_are_bounded_by_what_the_trace_holds():
    def who(trace):
        return dict.fromkeys(op.client for op in trace if isinstance(op, Notified))

    assert holds(for_all(who, lambda client: eventually(note(client))), STORY) is True
    assert holds(exists(who, note), STORY) is False and holds(exists(who, note), STORY, 2) is True
    assert holds(for_all((), lambda _: constant(False)), STORY) is True
    assert holds(exists((), lambda _: constant(True)), STORY) is False


def test_states_are_those_before_the_operation():
    subscribed = state(lambda now: bool(now.act_sub.get("a")))
    published = state(lambda now: 1 in now.pub_noti.get("p", ()))
    assert subscribed.truths(STORY).tolist() == [0, 2, 2, 2, 0]
    assert published.truths(STORY).tolist() == [0, 0, 2, 2, 2]


def test_the_shortest_piece_is_returned():
    served = always(note("a") >> state(lambda now: bool(now.act_sub.get("a"))))
    assert holds(served, STORY) is False
    assert explain(served, STORY).operations == STORY.operations[3:]
    twice = always(note("a") >> weak_next(always(~note("a"))))
    assert explain(twice, STORY).operations == [STORY.operations[2], STORY.operations[4]]
    assert explain(eventually(note("b")), STORY).operations == []  # it is explained by an absence


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="0 operations"):
        holds(constant(True), Trace())
    with pytest.raises(InputError, match="position 5"):
        holds(constant(True), STORY, 5)
    with pytest.raises(TypeError, match="without a trace"):
        assert note("a") and note("b")
