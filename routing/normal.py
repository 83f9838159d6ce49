"""From a condition as it was written to its normal form.

Rules
-----
* Three-valued: for each condition the events for which it is *true*, and those for which it is *false*; an event in
  neither is unknown. NOT swaps the two. AND is true where all are true and false where one is false; OR the reverse.
* Nothing is spread out before it is known to fit the limit: an AND of ORs is multiplied one factor at a time, and
  what is empty, covered or can be merged goes at once.
* Reducing is done to the end: no clause covers another, no two that differ in one attribute can be merged. So a normal
  form that is printed and read again stays as it is.

Source: paper 3, definitions 3 and 4, for one clause; the disjunction is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from ..protocol.errors import FilterTooComplex
from ..protocol.values import Value
from . import predicates as p
from .clauses import Clause, clause_of
from .domains import Domain
from .strings import Piece, like_strings

CLAUSES_MAX: Final = 256
PATTERNS_MAX: Final = 32
"""How many patterns one clause may have on one attribute."""
_PRODUCT_FACTOR: Final = 16
"""How many times the limit a product may have clauses before it is reduced."""

Clauses = list[Clause]
_ALWAYS: Final = Clause(())


def clauses_of(predicate: p.Predicate, clauses_max: int = CLAUSES_MAX) -> tuple[Clause, ...]:
    """Return the clauses, in their canonical order, that match where a condition is true.

    Raises
    ------
    FilterTooComplex
        If the result, or a part of it on the way, has more than `clauses_max` clauses.
    """
    return _in_order(_Normalizer(clauses_max).clauses(predicate, wanted=True))


def reduce_clauses(clauses: Iterable[Clause], clauses_max: int = CLAUSES_MAX) -> tuple[Clause, ...]:
    """Return as few clauses as can be found that match the same; FilterTooComplex past the limit."""
    return _in_order(_Normalizer(clauses_max).reduce(list(clauses)))


def _in_order(clauses: Clauses) -> tuple[Clause, ...]:
    return tuple(sorted(clauses, key=Clause.sort_key))


class _Normalizer:
    def __init__(self, clauses_max: int) -> None:
        self.clauses_max = clauses_max

    def clauses(self, predicate: p.Predicate, *, wanted: bool) -> Clauses:
        """Return the clauses for which the condition is true (`wanted`) or false (not `wanted`)."""
        match predicate:
            case p.Constant(value):
                return [_ALWAYS] if value is wanted else []
            case p.Not(term):
                return self.clauses(term, wanted=not wanted)
            case p.And(terms):
                return self._all(terms, wanted=True) if wanted else self._any(terms, wanted=False)
            case p.Or(terms):
                return self._any(terms, wanted=True) if wanted else self._all(terms, wanted=False)
        name, domain = _leaf(predicate, wanted=wanted)
        return [] if domain.is_empty else [clause_of({name: domain})]

    def _any(self, terms: Sequence[p.Predicate], *, wanted: bool) -> Clauses:
        return self.reduce([clause for term in terms for clause in self.clauses(term, wanted=wanted)])

    def _all(self, terms: Sequence[p.Predicate], *, wanted: bool) -> Clauses:
        product = [_ALWAYS]
        # The factors that are one clause each come first: they make the others smaller.
        for factor in sorted((self.clauses(term, wanted=wanted) for term in terms), key=len):
            if len(product) * len(factor) > self.clauses_max * _PRODUCT_FACTOR:
                raise self._too_complex(len(product) * len(factor))
            crossed = [both for left in product for right in factor if (both := left.intersect(right))]
            for clause in crossed:
                _check_patterns(clause)
            product = crossed if len(crossed) <= 1 else self.reduce(crossed)
        return product

    def reduce(self, clauses: Clauses) -> Clauses:
        """Return clauses that together match the same, none of them covered by or mergeable with another."""
        if len(clauses) < 2:
            return clauses
        clauses = sorted(set(clauses), key=Clause.sort_key)
        while True:
            before = len(clauses)
            clauses = _merge(clauses)
            if len(clauses) > self.clauses_max:
                raise self._too_complex(len(clauses))
            clauses = _absorb(clauses)
            if len(clauses) == before:
                return clauses

    def _too_complex(self, size: int) -> FilterTooComplex:
        return FilterTooComplex(
            f"the filter has {size} clauses when its ORs are multiplied out, the limit is {self.clauses_max}: "
            "split it into several subscriptions, or use IN and BETWEEN instead of many ORs"
        )


def _check_patterns(clause: Clause) -> None:
    for name, domain in clause.constraints:
        if len(domain.strings.likes) > PATTERNS_MAX:
            raise FilterTooComplex(
                f"{len(domain.strings.likes)} patterns on attribute {name!r} in one clause, "
                f"the limit is {PATTERNS_MAX}"
            )


def _merge(clauses: Clauses) -> Clauses:
    """Merge the clauses that are alike but for one attribute, where the union is one domain again."""
    for name in sorted({name for clause in clauses for name, _ in clause.constraints}):
        groups: dict[tuple[tuple[str, Domain], ...], list[Domain]] = {}
        rest: Clauses = []
        for clause in clauses:
            domain = clause.domains.get(name)
            if domain is None:
                rest.append(clause)
            else:
                others = tuple(item for item in clause.constraints if item[0] != name)
                groups.setdefault(others, []).append(domain)
        clauses = rest
        for others, domains in groups.items():
            clauses += [clause_of({**dict(others), name: domain}) for domain in unite_domains(domains)]
    return clauses


def unite_domains(domains: Sequence[Domain]) -> list[Domain]:
    """Return as few domains as can be found that together hold what these hold."""
    plain = [domain for domain in domains if not domain.strings.likes]
    united = [_unite_plain(plain)] if plain else []
    for domain in domains:
        if domain.strings.likes:
            united = _unite_into(united, domain)
    return united


def _unite_into(united: list[Domain], domain: Domain) -> list[Domain]:
    # What has grown may now take in one that it could not before: so once more with the union, until none can.
    for position, other in enumerate(united):
        both = other.union(domain)
        if both is not None:
            return _unite_into(united[:position] + united[position + 1 :], both)
    return [*united, domain]


def _unite_plain(domains: Sequence[Domain]) -> Domain:
    """Return the union of domains without patterns, in the time that sorting takes."""
    while len(domains) > 1:
        halves = [left.union(right) for left, right in zip(domains[::2], domains[1::2], strict=False)]
        odd = [domains[-1]] if len(domains) % 2 else []
        domains = [domain for domain in (*halves, *odd) if domain is not None]
    return domains[0]


def _absorb(clauses: Clauses) -> Clauses:
    """Leave out the clauses that another one covers; of two that cover each other the first stays."""
    kept: Clauses = []
    for clause in clauses:
        if not any(other.covers(clause) for other in kept):
            kept = [other for other in kept if not clause.covers(other)]
            kept.append(clause)
    return kept


# ------------------------------------------------------------------------------------------------------------ leaves


def _leaf(predicate: p.Predicate, *, wanted: bool) -> tuple[str, Domain]:
    """Return the attribute of a single condition and the values for which it is true, or false."""
    match predicate:
        case p.IsNull(name):
            return name, Domain.MISSING if wanted else Domain.PRESENT
        case p.Like(name, pattern, escape):
            return name, _strings(_pieces(p.like_elements(pattern, escape)), wanted=wanted)
        case p.Prefix(name, text):
            return name, _strings([tuple(text), ()], wanted=wanted)
        case p.Suffix(name, text):
            return name, _strings([(), tuple(text)], wanted=wanted)
        case p.Contains(name, text):
            return name, _strings([(), tuple(text), ()], wanted=wanted)
        case p.Compare(name, op, literal):
            return name, _in_group(_compared(op, literal), literal, wanted=wanted)
        case p.Between(name, low, high):
            return name, _in_group(Domain.interval(low, high), low, wanted=wanted)
        case p.In(name, literals):
            return name, _in_group(Domain.values(literals), literals[0], wanted=wanted)
    raise TypeError(f"{predicate!r} is not a condition")


def _compared(op: str, literal: Value) -> Domain:
    match op:
        case "=":
            return Domain.values((literal,))
        case "<>":
            return Domain.values((literal,)).complement_in_group(literal)
        case "<" | "<=":
            return Domain.interval(high=literal, high_open=op == "<")
    return Domain.interval(low=literal, low_open=op == ">")


def _in_group(domain: Domain, member: Value, *, wanted: bool) -> Domain:
    return domain if wanted else domain.complement_in_group(member)


def _strings(pieces: Sequence[Piece], *, wanted: bool) -> Domain:
    return Domain.matching(like_strings(pieces, negated=not wanted))


def _pieces(elements: tuple[str | int, ...]) -> list[Piece]:
    cuts = [-1, *(i for i, element in enumerate(elements) if element == p.ANY_TEXT), len(elements)]
    return [
        tuple(element if isinstance(element, str) else None for element in elements[start + 1 : end])
        for start, end in pairwise(cuts)
    ]
