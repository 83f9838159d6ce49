"""Conditions written as JSON, as in EventBridge: ``{"origin": ["JFK"], "tail": [{"prefix": "N1"}]}``.

Rules
-----
* A pattern is an object. Each name is an attribute with a list of alternatives, one of which must hold; all
  attributes must hold. ``$or`` has a list of patterns, one of which must hold. A name with an object as its value
  is a prefix of the names in it: ``{"order": {"customer": {"tier": ["gold"]}}}`` is about
  ``order.customer.tier``.
* An alternative is a value that the attribute equals, ``null``, or an object with one of the words of `_MATCHERS`.
* :func:`parse_pattern` follows the semantics of selectors: ``null`` and ``exists: false`` are IS NULL, and
  ``anything-but`` holds for values of the same group only, and not for an event without the attribute, like ``NOT
  IN``.
* :func:`eventbridge` follows the semantics of EventBridge where the two differ: ``null`` is an explicit null,
  ``exists`` tests whether the attribute is present, ``anything-but`` holds for every present value that is not
  listed, and ``$or`` is an ordinary name unless it has at least two patterns.
* An error names the position: ``dep_delay[0].numeric[1]``.

Source: Amazon EventBridge, comparison operators for event patterns; Event Ruler (aws/event-ruler), README.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn, TypeVar

from ...protocol.checks import shown
from ...protocol.errors import FilterTooComplex, SelectorError
from ...protocol.values import Ordered, Timestamp, Value
from . import predicates as p
from .expressions import Literal, Size
from .in_case import escaped
from .lists import QUANTIFIERS
from .relations import comparison
from .values import CHARACTERS_MAX, check_length

__all__ = ["eventbridge", "parse_pattern"]

_Made = TypeVar("_Made")
_NUMERIC: Final = ("=", "<", "<=", ">", ">=")
_ESCAPE: Final = "\\"
_ONCE: Final = "put all its alternatives into one list"
_NESTING_MAX: Final = p.DEPTH_MAX // 4
_ZEROS: Final[tuple[Value, ...]] = (0, Timestamp(0))


def parse_pattern(pattern: Mapping[str, object]) -> p.Predicate:
    """Return the condition of a decoded JSON pattern (dicts, lists and scalars).

    Raises
    ------
    SelectorError
        If it is not a pattern; the message says which element is wrong and why.
    """
    return _whole(pattern, _Place("pattern", "", eventbridge=False))


def eventbridge(pattern: Mapping[str, object] | str) -> p.Predicate:
    """Return the condition of a pattern with the semantics of EventBridge.

    Parameters
    ----------
    pattern
        The pattern, decoded or as JSON text.

    Raises
    ------
    SelectorError
        If it is not a pattern; the message says which element is wrong and why.
    """
    if isinstance(pattern, str):
        check_length("a pattern", pattern)
        try:
            pattern = json.loads(pattern, object_pairs_hook=_object)
        except SelectorError:
            raise
        except (ValueError, RecursionError) as error:
            raise SelectorError(f"the pattern is not JSON: {error}") from None
    return _whole(pattern, _Place("pattern", "", eventbridge=True))


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; a name that is there twice is rejected, since all but the last would be ignored."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise SelectorError(f"the pattern has the name {shown(twice)} twice in one object: {_ONCE}")
    return found


def _whole(pattern: object, place: _Place) -> p.Predicate:
    """Return the condition of a whole pattern, which has the limit of text on its size."""
    size = 0
    waiting = [pattern]
    while waiting:
        each = waiting.pop()
        inner: Sequence[object] = ()
        if isinstance(each, Mapping):
            inner = (*each, *each.values())
        elif isinstance(each, list | tuple):
            inner = each
        size += len(each) + 2 if isinstance(each, str) else 1 + len(inner)
        if size > CHARACTERS_MAX:
            place.fail(
                f"as JSON it has at least {size} characters, the limit of a whole filter is {CHARACTERS_MAX}"
            )
        waiting.extend(inner)
    return _pattern(pattern, place, 0, set())


@dataclass(frozen=True, slots=True)
class _Place:
    """A position in a pattern: the path for errors, the attribute, and whether EventBridge's semantics apply."""

    path: str
    name: str
    eventbridge: bool

    def at(self, step: str) -> _Place:
        return _Place(self.path + step, self.name, self.eventbridge)

    def fail(self, message: str) -> NoReturn:
        raise SelectorError(f"{self.path}: {message}")

    def make(self, make: Callable[..., _Made], *arguments: object) -> _Made:
        """Make a condition or a value about the attribute; an error gets the position."""
        try:
            return make(self.name, *arguments)
        except (SelectorError, FilterTooComplex) as error:
            self.fail(str(error))


def _pattern(pattern: object, place: _Place, depth: int, names: set[str]) -> p.Predicate:
    """Return the condition of a pattern; `names` has the attributes of the objects that it is in, and gets its own."""
    if not isinstance(pattern, Mapping):
        place.fail(f"expected an object, found {_shown(pattern)}")
    if depth > _NESTING_MAX:
        place.fail("$or or objects are nested too deep")
    if not pattern:
        place.fail("an empty pattern: name at least one attribute")
    terms = []
    for name, given in pattern.items():
        word = name if isinstance(name, str) else shown(name)
        path = word if depth == 0 else f"{place.path}.{word}"
        here = _Place(path, place.name, place.eventbridge)
        if isinstance(name, str) and name == "$or" and (not place.eventbridge or _is_or(given)):
            branches = _list(given, here, "patterns")
            terms.append(
                _any(
                    [
                        _pattern(branch, here.at(f"[{i}]"), depth + 1, set())
                        for i, branch in enumerate(branches)
                    ]
                )
            )
            continue
        here = _Place(path, f"{place.name}.{name}" if place.name else name, place.eventbridge)
        if isinstance(given, Mapping):
            if not isinstance(name, str):
                here.fail("a name is a string")
            terms.append(_pattern(given, here, depth + 1, names))
        else:
            if here.name in names:
                here.fail(f"the attribute {shown(here.name)} is there twice: {_ONCE}")
            names.add(here.name)
            terms.append(_alternatives(given, here))
    return _both(terms)


def _is_or(given: object) -> bool:
    """Return whether ``$or`` is a disjunction in EventBridge, and not a name."""
    return (
        isinstance(given, list | tuple)
        and len(given) > 1
        and all(isinstance(branch, Mapping) and branch and not branch.keys() & _WORDS for branch in given)
    )


def _list(given: object, place: _Place, of_what: str) -> Sequence[object]:
    if isinstance(given, Mapping):
        place.fail(f"expected a list of {of_what}, found an object")
    if not isinstance(given, list | tuple):
        place.fail(f"expected a list of {of_what}, found {_shown(given)}: write [{_shown(given)}]")
    if not given:
        place.fail(f"an empty list of {of_what}")
    return given


def _any(terms: Sequence[p.Predicate]) -> p.Predicate:
    return terms[0] if len(terms) == 1 else p.Or(tuple(terms))


def _both(terms: Sequence[p.Predicate]) -> p.Predicate:
    return terms[0] if len(terms) == 1 else p.And(tuple(terms))


def _alternatives(given: object, place: _Place) -> p.Predicate:
    terms: list[p.Predicate] = []
    plain: list[Value] = []
    for position, element in enumerate(_list(given, place, "alternatives")):
        here = place.at(f"[{position}]")
        if isinstance(element, Mapping):
            terms.append(_matcher(element, here))
        elif element is None:
            terms.append(_null(here))
        else:
            plain.append(_literal(element, here))
    return _any([*_equal_to_one_of(plain, place), *terms])


def _null(place: _Place) -> p.Predicate:
    null = place.make(p.IsNull)
    return p.And((null, p.Not(place.make(p.IsMissing)))) if place.eventbridge else null


def _literal(element: object, place: _Place) -> Value:
    if isinstance(element, list | tuple):
        place.fail("a list cannot be a value")
    try:
        return p.check_literal(element)
    except SelectorError as error:
        place.fail(str(error))


def _equal_to_one_of(values: Sequence[Value], place: _Place) -> list[p.Predicate]:
    """Return one IN for each group among the values."""
    groups: dict[str, list[Value]] = {}
    for value in values:
        groups.setdefault(p.check_one_group("a list", (value,)), []).append(value)
    return [place.make(p.In, tuple(group)) for group in groups.values()]


def _matcher(matcher: Mapping[str, object], place: _Place) -> p.Predicate:
    if len(matcher) != 1:
        place.fail(f"expected an object with one matcher, found {len(matcher)}")
    ((word, argument),) = matcher.items()
    matchers = _MATCHERS if place.eventbridge else _OUR_MATCHERS
    find = matchers.get(word)
    if find is None:
        place.fail(f"no matcher is called {shown(word)}: use one of {', '.join(sorted(matchers))}")
    return find(argument, place.at(f".{word}"))


def _text(argument: object, place: _Place) -> str:
    if not isinstance(argument, str):
        place.fail(f"expected a string, found {_shown(argument)}")
    return argument


def _in_either_case(argument: object, place: _Place, pattern: str) -> p.Predicate:
    """Return an ILIKE with a text; `pattern` has a placeholder for the text."""
    return place.make(p.ILike, pattern.format(escaped(_text(argument, place))), _ESCAPE)


def _exactly(argument: object, place: _Place) -> p.Predicate:
    return place.make(p.Compare, "=", _text(argument, place))


def _exactly_ours(argument: object, place: _Place) -> p.Predicate:
    if not isinstance(argument, list | tuple):
        return _exactly(argument, place)
    return place.make(p.IsList, _literals_of(argument, place))


def _elements(word: str, argument: object, place: _Place) -> p.Predicate:
    return place.make(QUANTIFIERS[word], _literals_of(_list(argument, place, "values"), place))


def _literals_of(values: Sequence[object], place: _Place) -> tuple[Value, ...]:
    return tuple(_literal(value, place.at(f"[{i}]")) for i, value in enumerate(values))


def _ignoring_case(argument: object, place: _Place) -> p.Predicate:
    return _in_either_case(argument, place, "{}")


def _prefix(argument: object, place: _Place) -> p.Predicate:
    if isinstance(argument, Mapping):
        return _in_either_case(*_inside(argument, place), "{}%")
    return place.make(p.Prefix, _text(argument, place))


def _suffix(argument: object, place: _Place) -> p.Predicate:
    if isinstance(argument, Mapping):
        return _in_either_case(*_inside(argument, place), "%{}")
    return place.make(p.Suffix, _text(argument, place))


def _inside(argument: Mapping[str, object], place: _Place) -> tuple[object, _Place]:
    if list(argument) != ["equals-ignore-case"]:
        place.fail("expected a string, or an object with equals-ignore-case")
    return argument["equals-ignore-case"], place.at(".equals-ignore-case")


def _wildcard(argument: object, place: _Place) -> p.Predicate:
    out: list[str] = []
    characters = iter(_text(argument, place))
    for character in characters:
        if character == "*":
            out.append("%")
            continue
        if character == _ESCAPE:
            character = next(characters, "")
            if character not in ("*", _ESCAPE):
                place.fail("a backslash must stand before * or another backslash")
        out.append(_ESCAPE + character if character in ("%", "_", _ESCAPE) else character)
    return place.make(p.Like, "".join(out), _ESCAPE)


def _cidr(argument: object, place: _Place) -> p.Predicate:
    return place.make(p.Cidr, _text(argument, place))


def _exists(argument: object, place: _Place) -> p.Predicate:
    if not isinstance(argument, bool):
        place.fail(f"expected true or false, found {_shown(argument)}")
    missing = place.make(p.IsMissing if place.eventbridge else p.IsNull)
    return p.Not(missing) if argument else missing


def _numeric(argument: object, place: _Place) -> p.Predicate:
    return _both(_comparisons(argument, place))


def _size(argument: object, place: _Place) -> p.Predicate:
    parts = argument if isinstance(argument, list | tuple) else ["=", argument]
    size = place.make(Size)
    return _both([comparison(term.op, size, Literal(term.literal)) for term in _comparisons(parts, place)])


def _comparisons(argument: object, place: _Place) -> list[p.Compare]:
    parts = _list(argument, place, "comparisons and numbers")
    if len(parts) % 2 or len(parts) > 4:
        place.fail('expected a comparison and a number, once or twice: [">", 60, "<=", 120]')
    terms: list[p.Compare] = []
    for position in range(0, len(parts), 2):
        op, number = parts[position], parts[position + 1]
        if not isinstance(op, str) or op not in _NUMERIC:
            place.at(f"[{position}]").fail(f"expected one of {' '.join(_NUMERIC)}, found {_shown(op)}")
        here = place.at(f"[{position + 1}]")
        literal = _literal(number, here)
        if type(literal) is not int and type(literal) is not float:
            here.fail(f"expected a number, found {_shown(number)}")
        terms.append(p.Compare(place.name, op, literal))
    if len(terms) == 2 and not all(_reaches(one, other) for one in terms for other in terms):
        place.fail(f"the range is empty: no number is {' '.join(map(str, parts))}")
    return terms


def _reaches(lower: p.Compare, upper: p.Compare) -> bool:
    """Return whether a number can satisfy both, if the first is a lower and the second an upper bound."""
    if lower.op not in (">", ">=", "=") or upper.op not in ("<", "<=", "="):
        return True
    low: Ordered = lower.literal
    high: Ordered = upper.literal
    return low < high or (low == high and lower.op != ">" and upper.op != "<")


def _anything_but(argument: object, place: _Place) -> p.Predicate:
    if isinstance(argument, Mapping):
        groups = [_any_of_these(argument, place)]
        kinds: Sequence[type] = [str]
    else:
        elements = argument if isinstance(argument, list | tuple) else [argument]
        for i, element in enumerate(elements):
            if isinstance(element, Mapping):
                place.at(f"[{i}]").fail(
                    'a list has values only: write {"prefix": ["a", "b"]} instead of a list'
                )
        values = [_literal(element, place.at(f"[{i}]")) for i, element in enumerate(elements)]
        if not values:
            place.fail("an empty list of values")
        groups, kinds = _equal_to_one_of(values, place), [type(value) for value in values]
    parts: list[p.Predicate] = [p.Not(group) for group in groups]
    if place.eventbridge:
        parts += _of_other_kinds(kinds, place)
    return _any(parts)


def _any_of_these(argument: Mapping[str, object], place: _Place) -> p.Predicate:
    """Return the condition that one of the texts of ``{"prefix": [...]}`` matches; a single text needs no list."""
    ((word, texts),) = argument.items() if len(argument) == 1 else (("", None),)
    if not isinstance(word, str) or word not in _BUT:
        place.fail(f"expected values, or an object with one of {', '.join(_BUT)}")
    here = place.at(f".{word}")
    if not isinstance(texts, list | tuple):
        return _MATCHERS[word](texts, here)
    found = _list(texts, here, "strings")
    return _any([_MATCHERS[word](text, here.at(f"[{i}]")) for i, text in enumerate(found)])


def _of_other_kinds(kinds: Sequence[type], place: _Place) -> list[p.Predicate]:
    """Return conditions one of which holds for every present value that is of none of these kinds."""
    groups = {p.GROUPS[kind] for kind in kinds}
    parts: list[p.Predicate] = [p.And((place.make(p.IsNull), p.Not(place.make(p.IsMissing))))]
    if "boolean" not in groups:
        parts.append(place.make(p.In, (False, True)))
    if "string" not in groups:
        parts.append(place.make(p.Like, "%"))
    for zero in _ZEROS:
        if p.GROUPS[type(zero)] not in groups:
            parts += [place.make(p.Compare, "<", zero), place.make(p.Compare, ">=", zero)]
    return parts


def _shown(given: object) -> str:
    if given is None:
        return "null"
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, Mapping):
        return "an object"
    if isinstance(given, list | tuple):
        return "a list"
    text = f'"{given}"' if isinstance(given, str) else shown(given)
    return text if len(text) <= 40 else text[:37] + "..."


_MATCHERS: Final[dict[str, Callable[[object, _Place], p.Predicate]]] = {
    "anything-but": _anything_but,
    "cidr": _cidr,
    "equals-ignore-case": _ignoring_case,
    "exactly": _exactly,
    "exists": _exists,
    "numeric": _numeric,
    "prefix": _prefix,
    "suffix": _suffix,
    "wildcard": _wildcard,
}
_OUR_MATCHERS: Final[dict[str, Callable[[object, _Place], p.Predicate]]] = _MATCHERS | {
    "contains-all": partial(_elements, "ALL"),
    "contains-any": partial(_elements, "ANY"),
    "contains-none": partial(_elements, "NONE"),
    "exactly": _exactly_ours,
    "size": _size,
}
_WORDS: Final = frozenset(_MATCHERS)
_BUT: Final = ("prefix", "suffix", "equals-ignore-case", "wildcard")
"""The matchers that anything-but accepts as an object."""
