"""Linear temporal logic over finite traces: the language in which conditions are written.

Semantics, exactly
------------------
A trace has positions ``0 .. n-1``, n at least 1. A formula has a truth value at each of them: True, False, or
*indeterminate* (None). Not, and, or, implies are Kleene's: a False decides an *and*, a True an *or*;
otherwise indeterminate wins.

========================== ===================================================================================
``always(f)``              f at every position from here on, the last included
``eventually(f)``          f at some position from here on
``next_(f)``               there is a next position, and f there (*strong*: False at the last)
``weak_next(f)``           f at the next position, if there is one (*weak*: True at the last)
``until(f, g)``            g at some position from here on, and f at all from here to before it (*strong*)
``earlier(f)``             f at some position before this one (strict)
``since(f, g)``            g at some position up to here, and f at all after it up to here
``for_all(domain, body)``  ``body(x)`` for every x of the domain; the domain is what the trace holds: bounded
``exists(domain, body)``   ``body(x)`` for some x
``perhaps(f)``             False where f is False, else indeterminate
``surely(f)``              True where f is True, else indeterminate
========================== ===================================================================================

Temporal operators take the least (*always*) or the greatest (*eventually*) of the truth values that they
range over, where False < indeterminate < True. ``not next_(f)`` is ``weak_next(not f)``. A formula holds of a
trace if it is True at position 0. In Python: ``f & g``, ``f | g``, ``~f``, ``f >> g`` (implies).

Evaluation is direct, position by position and element by element: it defines what a condition means. For
traces of more than some thousand operations :mod:`rayvous.faults.checker.reliability` evaluates the built-in
conditions.

Source: paper 4, definitions 5 to 7; for finite traces LTLf (De Giacomo, Vardi 2013), with past operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ...protocol.errors import InputError
from ...protocol.traces.trace import Operation, State, Trace, steps

Truths: TypeAlias = npt.NDArray[np.int8]
"""One truth value per position: 0 False, 1 indeterminate, 2 True."""

Positions: TypeAlias = frozenset[int]

_FALSE, _UNKNOWN, _TRUE = 0, 1, 2
_PLAIN: Final = (False, None, True)
_NOWHERE: Final[Positions] = frozenset()

CHOICES_MAX: Final = 32
"""The maximum number of explanations that are compared: all there can be on a trace of five operations."""


class Formula:
    """A formula that is True, False or indeterminate at each position of a trace."""

    def truths(self, trace: Trace) -> Truths:
        """Return the formula's truth value at every position; shape (n,)."""
        raise NotImplementedError

    def why(self, trace: Trace, at: int, truth: bool) -> Positions:
        """Return a smallest set of positions that show why the formula is `truth` at a position, where it is that.

        What is shown by absence (a notification that never came) has no position.
        """
        return self.ways(trace, at, truth)[0]

    def ways(self, trace: Trace, at: int, truth: bool) -> list[Positions]:
        """Return all sets of positions that show it, the smallest first; the only one is `why` if there is no choice.

        A subclass must define one of the two methods.
        """
        return [self.why(trace, at, truth)]

    def __and__(self, other: Formula) -> Formula:
        return _Both(self, other)

    def __or__(self, other: Formula) -> Formula:
        return ~(~self & ~other)

    def __rshift__(self, other: Formula) -> Formula:
        return ~self | other

    def __invert__(self) -> Formula:
        return self.term if isinstance(self, _Not) else _Not(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "a formula has no truth value without a trace: combine formulas with & | ~ >> and use holds()"
        )


def holds(formula: Formula, trace: Trace, at: int = 0) -> bool | None:
    """Return whether a formula is True (or False, or None for indeterminate) at a position of a trace.

    Raises
    ------
    InputError
        If the trace has no such position; an empty one has none.
    """
    if not 0 <= at < len(trace):
        raise InputError(
            f"position {at}: the trace has {len(trace)} operations, and a formula needs one to stand at"
        )
    return _PLAIN[formula.truths(trace)[at]]


def explain(formula: Formula, trace: Trace, at: int = 0) -> Trace:
    """Return the shortest part of a trace that shows why a formula is False, or True, at a position.

    Shortest among the choices that the formula leaves: one of the positions at which an *always* fails, or
    one element for which a *for_all* fails. If several formulas are to be shown together, the choices that
    have most in common are taken. If a formula leaves more than :data:`CHOICES_MAX` choices, the largest are
    ignored. The result is empty if the formula is indeterminate, or if only an absence shows it.
    """
    truth = holds(formula, trace, at)
    shown = _NOWHERE if truth is None else formula.why(trace, at, truth)
    return Trace(trace.operations[position] for position in sorted(shown))


# Formulas about one position.


class _Atom(Formula):
    def __init__(self, test: Callable[[Operation], bool]) -> None:
        self.test = test

    def truths(self, trace: Trace) -> Truths:
        return np.array([2 * bool(self.test(op)) for op in trace], np.int8)

    def why(self, trace: Trace, at: int, truth: bool) -> Positions:
        return frozenset((at,)) if truth else _NOWHERE


class _StateAtom(Formula):
    def __init__(self, test: Callable[[State], bool]) -> None:
        self.test = test

    def truths(self, trace: Trace) -> Truths:
        return np.array([2 * bool(self.test(state)) for state, _ in steps(trace)], np.int8)

    def why(self, trace: Trace, at: int, truth: bool) -> Positions:
        # The operation that changed it: the one before the first position of the run that ends here.
        truths = self.truths(trace)
        changed = np.flatnonzero(truths[:at] != truths[at])
        return frozenset((int(changed[-1]),)) if len(changed) else _NOWHERE


class _Constant(Formula):
    def __init__(self, truth: bool | None) -> None:
        self.code = _PLAIN.index(truth)

    def truths(self, trace: Trace) -> Truths:
        return np.full(len(trace), self.code, np.int8)

    def why(self, trace: Trace, at: int, truth: bool) -> Positions:
        return _NOWHERE


def operation(test: Callable[[Operation], bool]) -> Formula:
    """Return the formula that is True where the operation satisfies a test."""
    return _Atom(test)


def state(test: Callable[[State], bool]) -> Formula:
    """Return the formula that is True where the state before the operation satisfies a test."""
    return _StateAtom(test)


def constant(truth: bool | None) -> Formula:
    """Return the formula that has the same truth value everywhere; None is indeterminate."""
    return _Constant(truth)


# Connectives.


class _Not(Formula):
    def __init__(self, term: Formula) -> None:
        self.term = term

    def truths(self, trace: Trace) -> Truths:
        return (2 - self.term.truths(trace)).astype(np.int8)

    def ways(self, trace: Trace, at: int, truth: bool) -> list[Positions]:
        return self.term.ways(trace, at, not truth)


class _Both(Formula):
    def __init__(self, *terms: Formula) -> None:
        self.terms = terms

    def truths(self, trace: Trace) -> Truths:
        everywhere = np.full(len(trace), _TRUE, np.int8)
        return reduce(np.minimum, (term.truths(trace) for term in self.terms), everywhere)

    def ways(self, trace: Trace, at: int, truth: bool) -> list[Positions]:
        if truth:
            return reduce(_together, (term.ways(trace, at, True) for term in self.terms), [_NOWHERE])
        false = (term for term in self.terms if term.truths(trace)[at] == _FALSE)
        return _smallest(way for term in false for way in term.ways(trace, at, False))


E = TypeVar("E")

Domain: TypeAlias = Iterable[E] | Callable[[Trace], Iterable[E]]
"""The domain of a quantifier: elements, or a function from the trace to them."""


class _ForAll(Formula, Generic[E]):
    def __init__(self, domain: Domain[E], body: Callable[[E], Formula]) -> None:
        self.domain = domain
        self.body = body

    def _all(self, trace: Trace) -> _Both:
        elements = self.domain(trace) if callable(self.domain) else self.domain
        return _Both(*(self.body(element) for element in elements))

    def truths(self, trace: Trace) -> Truths:
        return self._all(trace).truths(trace)

    def ways(self, trace: Trace, at: int, truth: bool) -> list[Positions]:
        return self._all(trace).ways(trace, at, truth)


def for_all(domain: Domain[E], body: Callable[[E], Formula]) -> Formula:
    """Return "for every element of the domain"; True if there is none."""
    return _ForAll(domain, body)


def exists(domain: Domain[E], body: Callable[[E], Formula]) -> Formula:
    """Return "for some element of the domain"; False if there is none."""
    return ~_ForAll(domain, lambda element: ~body(element))


class _Perhaps(Formula):
    def __init__(self, term: Formula) -> None:
        self.term = term

    def truths(self, trace: Trace) -> Truths:
        return np.minimum(self.term.truths(trace), _UNKNOWN).astype(np.int8)

    def ways(self, trace: Trace, at: int, truth: bool) -> list[Positions]:
        return self.term.ways(trace, at, truth)  # it is never True


def perhaps(term: Formula) -> Formula:
    """Return the formula that is False where `term` is, and indeterminate elsewhere."""
    return _Perhaps(term)


def surely(term: Formula) -> Formula:
    """Return the formula that is True where `term` is, and indeterminate elsewhere."""
    return ~_Perhaps(~term)


# Formulas about the future.


class _Next(Formula):
    def __init__(self, term: Formula, at_the_last: int) -> None:
        self.term = term
        self.at_the_last = at_the_last

    def truths(self, trace: Trace) -> Truths:
        return np.append(self.term.truths(trace)[1:], np.int8(self.at_the_last))

    def ways(self, trace: Trace, at: int, truth: bool) -> list[Positions]:
        return [_NOWHERE] if at == len(trace) - 1 else self.term.ways(trace, at + 1, truth)


class _Always(Formula):
    def __init__(self, term: Formula) -> None:
        self.term = term

    def truths(self, trace: Trace) -> Truths:
        return np.minimum.accumulate(self.term.truths(trace)[::-1])[::-1]

    def ways(self, trace: Trace, at: int, truth: bool) -> list[Positions]:
        if truth:
            return [_NOWHERE]
        wrong = np.flatnonzero(self.term.truths(trace)[at:] == _FALSE) + at
        return _smallest(way for place in wrong.tolist() for way in self.term.ways(trace, place, False))


class _Until(Formula):
    def __init__(self, term: Formula, goal: Formula) -> None:
        self.term = term
        self.goal = goal

    def truths(self, trace: Trace) -> Truths:
        term, goal = self.term.truths(trace).tolist(), self.goal.truths(trace).tolist()
        out, after = [], _FALSE
        for here, there in zip(reversed(term), reversed(goal), strict=True):
            after = max(there, min(here, after))
            out.append(after)
        return np.array(out[::-1], np.int8)

    def ways(self, trace: Trace, at: int, truth: bool) -> list[Positions]:
        sought = self.goal if truth else self.term
        code = _TRUE if truth else _FALSE
        found = np.flatnonzero(sought.truths(trace)[at:] == code)
        return sought.ways(trace, int(found[0]) + at, truth) if len(found) else [_NOWHERE]


def next_(term: Formula) -> Formula:
    """Return "there is a next position, and there"."""
    return _Next(term, _FALSE)


def weak_next(term: Formula) -> Formula:
    """Return "at the next position, if there is one"."""
    return _Next(term, _TRUE)


def always(term: Formula) -> Formula:
    """Return "from here on at every position"."""
    return _Always(term)


def eventually(term: Formula) -> Formula:
    """Return "from here on at some position"."""
    return ~_Always(~term)


def until(term: Formula, goal: Formula) -> Formula:
    """Return "`goal` comes, and `term` holds until then"."""
    return _Until(term, goal)


# Formulas about the past.


class _Earlier(Formula):
    def __init__(self, term: Formula) -> None:
        self.term = term

    def truths(self, trace: Trace) -> Truths:
        so_far = np.maximum.accumulate(self.term.truths(trace))
        return np.concatenate((np.zeros(1, np.int8), so_far[:-1]))

    def ways(self, trace: Trace, at: int, truth: bool) -> list[Positions]:
        if not truth:
            return [_NOWHERE]
        found = np.flatnonzero(self.term.truths(trace)[:at] == _TRUE)
        return _smallest(
            way for place in reversed(found.tolist()) for way in self.term.ways(trace, place, True)
        )


class _Since(Formula):
    def __init__(self, term: Formula, start: Formula) -> None:
        self.term = term
        self.start = start

    def truths(self, trace: Trace) -> Truths:
        term, start = self.term.truths(trace).tolist(), self.start.truths(trace).tolist()
        out, before = [], _FALSE
        for here, there in zip(term, start, strict=True):
            before = max(there, min(here, before))
            out.append(before)
        return np.array(out, np.int8)

    def ways(self, trace: Trace, at: int, truth: bool) -> list[Positions]:
        started = np.flatnonzero(self.start.truths(trace)[: at + 1] == _TRUE)
        if not len(started):
            return [_NOWHERE]
        begin = int(started[-1])
        shown = self.start.ways(trace, begin, True)
        ended = np.flatnonzero(self.term.truths(trace)[begin + 1 : at + 1] == _FALSE)
        if truth or not len(ended):
            return shown
        return _together(shown, self.term.ways(trace, int(ended[0]) + begin + 1, False))


def earlier(term: Formula) -> Formula:
    """Return "at some position before this one"."""
    return _Earlier(term)


def since(term: Formula, start: Formula) -> Formula:
    """Return "`start` has happened, and `term` has held ever since"."""
    return _Since(term, start)


def _smallest(choices: Iterable[Positions]) -> list[Positions]:
    """Return the choices, smallest first, without those that contain a smaller one."""
    out: list[Positions] = []
    for choice in sorted(choices, key=len):
        if len(out) < CHOICES_MAX and not any(other <= choice for other in out):
            out.append(choice)
    return out or [_NOWHERE]


def _together(some: list[Positions], others: list[Positions]) -> list[Positions]:
    """Return the ways to show two things together."""
    return _smallest(one | other for one in some for other in others)
