"""Doubts about a filter: it is valid, but probably means something else than its author thinks.

Rules
-----
* A doubt is text for a person: what the filter means, and what to write instead. It never changes the filter.
* There is a doubt about a filter, or an alternative of its OR, that no event can match; a comparison of two attributes
  in text, unless publishers advertise both (``country = "UK"``); a hyphenated name read as a subtraction (``x-y >
  5``); ``--`` in CloudEvents SQL, which is two minus signs; a negated condition on one element of what the filter
  itself calls an array.
* Whoever subscribes is told a few doubts, and a doubt never keeps a subscription from being made.
* What only looks odd is no doubt: a deliberate condition must be possible without one, in Python or in other words.

Source: docs/decisions/0119.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ...protocol.errors import FilterTooComplex, SelectorError
from ..filters.filter import CLAUSES_MAX, Filter, FilterLike, normalize_predicate, to_predicate
from ..filters.filter import to_filter as filter_of
from ..filters.printing import expression_text, name_text
from .conditions import And, Compare, Constant, HasElement, IsList, IsTruth, Not, Or, Predicate, Relation
from .expressions import Ref, Size
from .relations import names_of
from .selectors import Dialect

__all__ = ["doubts_about", "doubts_to_tell", "to_filter"]

_QUOTED: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
_HYPHENATED: Final = re.compile(r"(?<![\w$.-])(?:[^\W\d]|\$)[\w$.]*(?:-[\w$.]+)+")
_ALTERNATIVES_MAX: Final = 64
"""How many alternatives of an OR are looked at one by one."""
_TOLD_MAX: Final = 4
_TOLD_CHARACTERS_MAX: Final = 300


def doubts_about(
    given: FilterLike, *, dialect: Dialect = "rayvous", advertised: Iterable[FilterLike] | None = None
) -> tuple[str, ...]:
    """Return what is doubtful about a filter, in sentences; nothing for most filters.

    Parameters
    ----------
    given
        The filter, as for :func:`to_filter`.
    dialect
        The language of text.
    advertised
        What publishers advertise, if that is known: two attributes that are compared must be named there.

    Raises
    ------
    SelectorError, FilterTooComplex
        If the filter, or what is advertised, is invalid.
    """
    condition = to_predicate(str(given) if isinstance(given, Filter) else given, dialect=dialect)
    known = None
    if advertised is not None:
        if isinstance(advertised, str | Mapping | Predicate | Filter) or not isinstance(advertised, Iterable):
            raise SelectorError("advertised is a list of filters, not one filter")
        known = {name for each in advertised for name in filter_of(each).attributes}
    text = given if isinstance(given, str) else None
    return tuple(_doubts(condition, normalize_predicate(condition), text, dialect, known))


def _doubts(
    condition: Predicate, normal: Filter, text: str | None, dialect: Dialect, known: set[str] | None
) -> list[str]:
    """Return the doubts about a condition, given its normal form."""
    found = list(_without_match(condition, normal))
    if text is not None:
        found += _in_text(text, dialect)
        found += _between_attributes(condition, known)
    found += _about_one_element(condition)
    return list(dict.fromkeys(found))


def to_filter(
    given: FilterLike,
    clauses_max: int = CLAUSES_MAX,
    *,
    dialect: Dialect = "rayvous",
    strict: bool = False,
    exact: bool = False,
    advertised: Iterable[FilterLike] | None = None,
) -> Filter:
    """Return the normal form of any description of a filter.

    Parameters
    ----------
    clauses_max
        The maximum number of clauses of the result and of intermediate results.
    dialect
        The language of selector text: ``"rayvous"``; ``"jms"``, where a comparison of values of two groups is
        false; or ``"cesql"``, CloudEvents SQL. The filter itself has no dialect; it prints in the dialect
        ``"rayvous"``.
    strict
        Whether to reject a filter that is valid but doubtful: for example one that no event can match.
    exact
        Whether an event with an attribute that the filter does not name fails to match, as in paper 3's definition
        4: the condition ``ONLY (names)`` in addition, of all names in the filter as it was written.
    advertised
        What publishers advertise, if that is known, for the doubts of `strict`.

    Raises
    ------
    SelectorError
        If the input cannot be parsed; the message says where. If it is doubtful, and `strict`.
    FilterTooComplex
        If its normal form has more than `clauses_max` clauses.
    """
    if strict and (found := doubts_about(given, dialect=dialect, advertised=advertised)):
        raise SelectorError("; ".join(found))
    return filter_of(given, clauses_max, dialect=dialect, exact=exact)


def doubts_to_tell(text: str, normal: Filter | None = None) -> tuple[str, ...]:
    """Return the first doubts about a selector, as an answer to a subscription tells them: short, on one line each.

    None about a selector that is invalid, or too complex to be doubted. `normal` is its filter, if that is known.
    """
    try:
        condition = to_predicate(text)
        found = _doubts(condition, normal or normalize_predicate(condition), text, "rayvous", None)
    except (SelectorError, FilterTooComplex):
        return ()
    return tuple(each[:_TOLD_CHARACTERS_MAX] for each in found[:_TOLD_MAX])


def _without_match(condition: Predicate, normal: Filter) -> Iterator[str]:
    if isinstance(condition, Constant):
        return
    if not normal.clauses:
        yield f"no event can match it{_clash(condition)}"
    elif isinstance(condition, Or):
        for number, term in enumerate(condition.terms[:_ALTERNATIVES_MAX], start=1):
            if not isinstance(term, Constant) and not normalize_predicate(term).clauses:
                yield f"no event can match alternative {number} of its OR{_clash(term)}"


def _clash(condition: Predicate) -> str:
    """Return the attribute on which the terms of an AND exclude each other, as a part of a sentence."""
    terms = condition.terms if isinstance(condition, And) else ()
    by_name: dict[str, list[Predicate]] = {}
    for term in terms:
        names = tuple(names_of(term))
        if len(names) == 1:
            by_name.setdefault(names[0], []).append(term)
    for name, mine in by_name.items():
        if len(mine) > 1 and not normalize_predicate(And(tuple(mine))).clauses:
            text = name_text(name)
            hint = ""
            if any(isinstance(term, Compare) and term.op == "=" for term in mine):
                hint = f"; if {text} is an array, write {text} CONTAINS ALL ('a', 'b')"
            return f": its conditions on {text} exclude each other{hint}"
    return ""


def _in_text(text: str, dialect: Dialect) -> Iterator[str]:
    bare = _QUOTED.sub(" ", text)
    if dialect == "cesql":
        if "--" in bare:
            yield "-- is two minus signs here, and begins no comment"
        return
    for name in _HYPHENATED.findall(bare):
        yield f'{name} is a subtraction: for an attribute of that name write "{name}", otherwise put blanks around -'


def _between_attributes(condition: Predicate, known: set[str] | None) -> Iterator[str]:
    for term, _ in _leaves(condition):
        if not (isinstance(term, Relation) and isinstance(term.left, Ref) and isinstance(term.right, Ref)):
            continue
        if known is not None and {term.left.name, term.right.name} <= known:
            continue
        left, right = expression_text(term.left), expression_text(term.right)
        unknown = [
            side.name for side in (term.right, term.left) if known is not None and side.name not in known
        ]
        said = f", and no publisher advertises {name_text(unknown[0])}" if unknown else ""
        literal = (unknown or [term.right.name])[0].replace("'", "''")
        yield f"{left} {term.op} {right} compares two attributes{said}: a string is written '{literal}'"


def _about_one_element(condition: Predicate) -> Iterator[str]:
    leaves = list(_leaves(condition))
    arrays = {term.attribute for term, _ in leaves if isinstance(term, HasElement | IsList)}
    for term, _ in leaves:
        if isinstance(term, Relation):
            arrays |= {side.name for side in (term.left, term.right) if isinstance(side, Size)}
    for term, negated in leaves:
        name = getattr(term, "attribute", None)
        if name not in arrays or isinstance(term, HasElement | IsList):
            continue
        if negated is not (isinstance(term, Compare) and term.op == "<>"):
            text = name_text(name)
            yield (
                f"{text} is an array: the negation is true if one of its elements differs; "
                f"write {text} CONTAINS NONE ('a')"
            )


def _leaves(condition: Predicate, *, negated: bool = False) -> Iterator[tuple[Predicate, bool]]:
    """Yield the single conditions, each with whether it is negated."""
    match condition:
        case And(terms) | Or(terms):
            for term in terms:
                yield from _leaves(term, negated=negated)
        case Not(term):
            yield from _leaves(term, negated=not negated)
        case IsTruth(term, value):
            yield from _leaves(term, negated=negated is not (value is False))
        case _:
            yield condition, negated
