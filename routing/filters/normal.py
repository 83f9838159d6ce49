"""Conversion of a condition to its normal form.

Rules
-----
* Logic is three-valued: a condition is *true* for some events and *false* for others; for the remaining events it is
  unknown. NOT swaps true and false. AND is true where all terms are true and false where one is false; OR is the
  reverse.
* A product is expanded only after its size was checked against the limit: an AND of ORs is multiplied one factor at a
  time, and clauses that are empty, covered or mergeable are removed immediately.
* The work is limited in the same way: the steps to compare all pairs of clauses, or of patterns, are counted before
  they are taken. A filter that needs more than :data:`STEPS_MAX` is rejected. What is not counted takes time in
  proportion to the size of the filter. The limit does not depend on clocks.
* Reduction is complete: no clause covers another, and no two that differ in one attribute can be merged. So a normal
  form is unchanged after printing and parsing.

Source: paper 3, definitions 3 and 4, for one clause; the disjunction is our addition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from ...protocol.batch import ATTRIBUTES_MAX
from ...protocol.errors import FilterTooComplex
from ...protocol.values import Value
from ..language import predicates as p
from ..language.cases import either_case
from ..language.expressions import Literal
from ..language.like_tests import pieces_of
from ..language.piece_finder import Piece
from .arrays import Element, Whole
from .clauses import Clause, clause_of
from .computed import Asked, Calculated, Key, order_of, universe
from .domains import EVERYTHING, Domain
from .networks import network_of
from .only import OnlyNames
from .strings import like_strings, strings_of

CLAUSES_MAX: Final = 256
PATTERNS_MAX: Final = 32
"""The maximum number of patterns on one attribute in one clause."""
_PRODUCT_FACTOR: Final = 16
"""The maximum number of clauses of a product before reduction, as a multiple of the limit."""

STEPS_MAX: Final = 33_000
"""The maximum number of steps for one filter. Comparing two clauses is about one step: a microsecond or less."""
_STEPS_OF_PRODUCT: Final = 25
"""The steps to make one clause from two."""

_COMPARED_MAX: Final = 1024
"""Longer patterns are not compared with each other (`likes.STEPS_MAX`), so that they take no more steps."""

Clauses: TypeAlias = list[Clause]
_ALWAYS: Final = Clause(())
_NUMBER: Final = Domain(numbers=EVERYTHING)
_OPPOSITE: Final = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def clauses_of(predicate: p.Predicate, clauses_max: int = CLAUSES_MAX) -> tuple[Clause, ...]:
    """Return the clauses, in their canonical order, that match where a condition is true.

    Raises
    ------
    FilterTooComplex
        If the result, or an intermediate result, has more than `clauses_max` clauses.
    """
    return _in_order(_Normalizer(clauses_max).clauses(predicate, wanted=True))


def reduce_clauses(clauses: Iterable[Clause], clauses_max: int = CLAUSES_MAX) -> tuple[Clause, ...]:
    """Return equivalent clauses, as few as can be found; FilterTooComplex past the limit."""
    return _in_order(_Normalizer(clauses_max).reduce(list(clauses)))


def _in_order(clauses: Clauses) -> tuple[Clause, ...]:
    return tuple(clauses) if len(clauses) < 2 else tuple(sorted(clauses, key=Clause.sort_key))


def _row(terms: Sequence[p.Predicate]) -> Clauses | None:
    """Return the clauses where all of these comparisons are true; None unless each has an attribute of its own.

    They are a normal form already: nothing has to be intersected, counted or reduced.
    """
    domains: dict[Key, Domain] = {}
    for term in terms:
        if type(term) is not p.Compare:
            return None
        domains[term.attribute] = _compared(term.op, term.literal)
    if not len(terms) == len(domains) <= ATTRIBUTES_MAX:
        return None
    return [] if any(domain.is_empty for domain in domains.values()) else [clause_of(domains)]


class _Normalizer:
    def __init__(self, clauses_max: int) -> None:
        self.clauses_max = clauses_max
        self._steps_left = STEPS_MAX
        self._truths: dict[tuple[int, bool | None, bool], Clauses] = {}

    def clauses(self, predicate: p.Predicate, *, wanted: bool, but: bool = False) -> Clauses:
        """Return the clauses where the condition is true (`wanted`) or false; with `but`, their complement."""
        match predicate:
            case p.Constant(value):
                return [_ALWAYS] if (value is wanted) is not but else []
            case p.Not(term):
                return self.clauses(term, wanted=not wanted, but=but)
            case p.IsTruth(term, value):
                return self._of_truth(term, value, there=wanted is not but)
            case p.And(terms):
                if wanted and not but and (row := _row(terms)) is not None:
                    return row
                return self._many(terms, wanted=wanted, but=but, every=wanted is not but)
            case p.Or(terms):
                return self._many(terms, wanted=wanted, but=but, every=wanted is but)
        key, domain = _leaf(predicate, wanted=wanted)
        domains = [piece.intersect(universe(key)) for piece in domain.complement()] if but else [domain]
        return [clause_of({key: domain}) for domain in domains if not domain.is_empty]

    def _of_truth(self, term: p.Predicate, value: bool | None, *, there: bool) -> Clauses:
        """Return the clauses where the truth of a condition is this value (`there`), or is not this value.

        IS UNKNOWN asks its term twice, so that nested ones would ask 2**depth times without the memory.
        """
        asked = id(term), value, there
        found = self._truths.get(asked)
        if found is None:
            if value is None:
                both = [self.clauses(term, wanted=each, but=there) for each in (True, False)]
                found = self._joined(both, every=there)
            else:
                found = self.clauses(term, wanted=value, but=not there)
            self._truths[asked] = found
        return found

    def _many(self, terms: Sequence[p.Predicate], *, wanted: bool, but: bool, every: bool) -> Clauses:
        return self._joined([self.clauses(term, wanted=wanted, but=but) for term in terms], every=every)

    def _joined(self, parts: Sequence[Clauses], *, every: bool) -> Clauses:
        return self._all(parts) if every else self.reduce([clause for part in parts for clause in part])

    def _all(self, factors: Sequence[Clauses]) -> Clauses:
        """Return the clauses of the events that every factor matches."""
        if [] in factors:
            return []
        # Factors of a single clause come first, because they make the others smaller.
        single = self._intersection([factor[0] for factor in factors if len(factor) == 1])
        if single is None:
            return []
        product = [single]
        for factor in sorted((factor for factor in factors if len(factor) > 1), key=len):
            if not product:
                return []
            if len(product) * len(factor) > self.clauses_max * _PRODUCT_FACTOR:
                raise self._too_complex(len(product) * len(factor))
            pairs = len(product) * len(factor)
            self._take(_STEPS_OF_PRODUCT * pairs + _pairs_of_patterns(product, factor))
            crossed = [both for left in product for right in factor if (both := left.intersect(right))]
            for clause in crossed:
                _check_size(clause)
            product = crossed if len(crossed) <= 1 else self.reduce(crossed)
        return product

    def _intersection(self, clauses: Clauses) -> Clause | None:
        """Return the clause that matches what all match, or None for nothing; it halves the list, to stay fast."""
        clauses = list(dict.fromkeys(clauses))
        names = {key for clause in clauses for key in clause.domains}
        if len(names) > ATTRIBUTES_MAX:
            raise FilterTooComplex(f"{len(names)} attributes in one clause, the limit is {ATTRIBUTES_MAX}")
        while len(clauses) > 1:
            pairs = list(zip(clauses[::2], clauses[1::2], strict=False))
            self._take(sum(number**2 for pair in pairs for number in _patterns(pair).values()))
            both = [left.intersect(right) for left, right in pairs]
            odd = [clauses[-1]] if len(clauses) % 2 else []
            clauses = [clause for clause in both if clause is not None] + odd
            if None in both:
                return None
            for clause in clauses:
                _check_size(clause)
        return clauses[0] if clauses else _ALWAYS

    def reduce(self, clauses: Clauses) -> Clauses:
        """Return equivalent clauses, none of which is covered by or mergeable with another."""
        if len(clauses) < 2:
            return clauses
        clauses = sorted(set(clauses), key=Clause.sort_key)
        named = {tuple(clause.domains) for clause in clauses}
        if len(named) == len(clauses) <= self.clauses_max and len(set(map(len, named))) == 1:
            return clauses  # each has a different set of attributes of equal size: none covers or merges with another
        while True:
            before = len(clauses)
            self._take(2 * sum(number**2 for number in _patterns(clauses).values()))
            clauses = _merge(clauses)
            if len(clauses) > self.clauses_max:
                raise self._too_complex(len(clauses))
            clauses = self._absorb(clauses)
            if len(clauses) == before:
                return clauses

    def _absorb(self, clauses: Clauses) -> Clauses:
        """Remove the clauses that another clause covers; of two that cover each other, the first stays.

        A clause can cover another only if its attributes are a subset of the other's attributes.
        """
        alike = _alike(clauses)
        kept: dict[tuple[Key, ...], Clauses] = {}
        for keys in sorted(alike, key=len):
            named = frozenset(keys)
            above = [
                group for other, group in kept.items() if len(other) < len(keys) and named.issuperset(other)
            ]
            size = sum(map(_size, alike[keys]))
            self._take(len(kept) // 8 + size * (len(alike[keys]) // 2 + sum(map(len, above))))
            here: Clauses = []
            for clause in alike[keys]:
                if not any(other.covers(clause) for group in (*above, here) for other in group):
                    here = [other for other in here if not clause.covers(other)]
                    here.append(clause)
            kept[keys] = here
        return [clause for group in kept.values() for clause in group]

    def _take(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise FilterTooComplex(
                f"multiplying out the filter's ORs takes more than {STEPS_MAX} steps: "
                "split it into several subscriptions"
            )

    def _too_complex(self, size: int) -> FilterTooComplex:
        return FilterTooComplex(
            f"the filter has {size} clauses when its ORs are multiplied out, the limit is "
            f"{self.clauses_max}: split it into several subscriptions, or use IN and BETWEEN for many ORs"
        )


def _check_size(clause: Clause) -> None:
    size = len(clause.constraints) + len(clause.computed)
    if size > ATTRIBUTES_MAX:
        raise FilterTooComplex(f"{size} attributes in one clause, the limit is {ATTRIBUTES_MAX}")
    for name, domain in clause.constraints:
        if len(domain.strings.likes) > PATTERNS_MAX:
            raise FilterTooComplex(
                f"{len(domain.strings.likes)} patterns on attribute {name!r} in one clause, "
                f"the limit is {PATTERNS_MAX}"
            )


def _size(clause: Clause) -> int:
    """Return the number of steps to compare with a clause: one, or more if the clause has many intervals."""
    parts = (
        domain.numbers + domain.strings.intervals + domain.timestamps for _, domain in clause.constraints
    )
    return 1 + sum(len(intervals) // 4 for intervals in parts)


def _patterns(clauses: Iterable[Clause]) -> Counter[str]:
    """Return the number of patterns per attribute; a long pattern counts as several."""
    counts: Counter[str] = Counter()
    for clause in clauses:
        for name, domain in clause.constraints:
            for like in domain.strings.likes:
                counts[name] += 1 + min(like.characters, _COMPARED_MAX) // 32
    return counts


def _pairs_of_patterns(left: Clauses, right: Clauses) -> int:
    """Estimate how many pairs of patterns are compared when each left clause is intersected with each right one."""
    pairs = len(left) * len(right)
    ours, theirs = _patterns(left), _patterns(right)
    return sum((ours[name] * len(right) + theirs[name] * len(left)) ** 2 // pairs for name in ours | theirs)


def _alike(clauses: Clauses) -> dict[tuple[Key, ...], Clauses]:
    """Return the clauses grouped by the keys that they constrain."""
    alike: dict[tuple[Key, ...], Clauses] = {}
    for clause in clauses:
        alike.setdefault(tuple(clause.domains), []).append(clause)
    return alike


def _merge(clauses: Clauses) -> Clauses:
    """Merge the clauses that differ in one attribute only, where the union is a single domain."""
    out: Clauses = []
    for names, group in _alike(clauses).items():
        for name in names:
            if len(group) > 1:
                group, freed = _merge_on(name, group)
                out += freed
        out += group
    return out


def _merge_on(name: Key, clauses: Clauses) -> tuple[Clauses, Clauses]:
    """Merge clauses that differ in `name` only; return them, and separately those that no longer constrain it."""
    groups: dict[tuple[tuple[Key, Domain], ...], list[Domain]] = {}
    for clause in clauses:
        others = tuple(item for item in clause.domains.items() if item[0] != name)
        groups.setdefault(others, []).append(clause.domains[name])
    merged: Clauses = []
    freed: Clauses = []
    for others, domains in groups.items():
        for domain in unite_domains(domains):
            target = freed if domain == universe(name) else merged
            target.append(clause_of({**dict(others), name: domain}))
    return merged, freed


def unite_domains(domains: Sequence[Domain]) -> list[Domain]:
    """Return domains with the same union, as few as can be found."""
    plain = [domain for domain in domains if not domain.strings.likes]
    united = [_unite_plain(plain)] if plain else []
    for domain in domains:
        if domain.strings.likes:
            united = _unite_into(united, domain)
    return united


def _unite_into(united: list[Domain], domain: Domain) -> list[Domain]:
    # A union may now absorb a domain that it could not absorb before, so try again with the union until none can.
    for position, other in enumerate(united):
        both = other.union(domain)
        if both is not None:
            return _unite_into(united[:position] + united[position + 1 :], both)
    return [*united, domain]


def _unite_plain(domains: Sequence[Domain]) -> Domain:
    """Return the union of domains without patterns, in the time of a sort."""
    while len(domains) > 1:
        halves = [left.union(right) for left, right in zip(domains[::2], domains[1::2], strict=False)]
        odd = [domains[-1]] if len(domains) % 2 else []
        domains = [domain for domain in (*halves, *odd) if domain is not None]
    return domains[0]


# ------------------------------------------------------------------------------------------------------------
# leaves


def _leaf(predicate: p.Predicate, *, wanted: bool) -> tuple[Key, Domain]:
    """Return the key that a single condition constrains, and the values for which it is true, or false."""
    match predicate:
        case p.Relation(left, op, Literal(number)):
            return Calculated(left), _in_group(_compared(op, number), number, wanted=wanted)
        case p.Relation(left, op, right):
            return order_of(left, op if wanted else _OPPOSITE[op], right)
        case p.CloudSql(node):
            return Asked(node), Domain(booleans=frozenset((wanted,)))
        case p.Undefined(expression):
            return Calculated(expression), Domain.MISSING if wanted else _NUMBER
        case p.HasElement(name, literal):
            return Element(name, literal), Domain(booleans=frozenset((wanted,)))
        case p.Only(names):
            return OnlyNames(names), Domain(booleans=frozenset((wanted,)))
        case p.IsList(name, literals):
            return Whole(name), _in_group(Whole.domain(literals), "", wanted=wanted)
        case p.IsNull(name):
            return name, Domain.ABSENT if wanted else Domain.PRESENT
        case p.IsMissing(name):
            return name, Domain.MISSING if wanted else Domain.THERE
        case p.Like(name, pattern, escape):
            return name, _strings(pieces_of(p.like_elements(pattern, escape)), wanted=wanted)
        case p.ILike(name, pattern, escape):
            pieces = pieces_of(p.like_elements(pattern, escape))
            either = [tuple(element and either_case(element) for element in piece) for piece in pieces]
            return name, _strings(either, wanted=wanted)
        case p.Cidr(name, text):
            network = network_of(text)
            return name, Domain.matching(strings_of(network if wanted else network.inverse))
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
            return Domain.value(literal)
        case "<>":
            return Domain.value(literal).complement_in_group(literal)
        case "<" | "<=":
            return Domain.interval(high=literal, high_open=op == "<")
    return Domain.interval(low=literal, low_open=op == ">")


def _in_group(domain: Domain, member: Value, *, wanted: bool) -> Domain:
    return domain if wanted else domain.complement_in_group(member)


def _strings(pieces: Sequence[Piece], *, wanted: bool) -> Domain:
    return Domain.matching(like_strings(pieces, negated=not wanted))
