"""Conditions written as JSON, as in EventBridge: ``{"origin": ["JFK"], "tail": [{"prefix": "N1"}]}``.

Rules
-----
* A pattern is an object. Each of its names is an attribute with a list of alternatives, of which one must
  hold; all attributes must hold. ``$or`` has a list of patterns, of which one must hold.
* An alternative is a value that the attribute equals, ``null`` (the event does not have the attribute), or an
  object with one of ``prefix``, ``suffix``, ``wildcard``, ``numeric``, ``exists`` and ``anything-but``.
* The meaning is that of selectors: ``anything-but`` holds for values of the same group only, and not for an
  event without the attribute, just as ``NOT IN``.
* An error says where: ``dep_delay[0].numeric[1]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from ...protocol.checks import shown
from ...protocol.errors import FilterTooComplex, SelectorError
from ...protocol.values import Value
from . import predicates as p

__all__ = ["parse_pattern"]

_NUMERIC: Final = ("=", "<", "<=", ">", ">=")
_ESCAPE: Final = "\\"


def parse_pattern(pattern: Mapping[str, Any]) -> p.Predicate:
    """Return the condition that a JSON pattern (a decoded one: dicts, lists and scalars) says.

    Raises
    ------
    SelectorError
        If it is not a pattern; the message says which element is wrong and why.
    """
    return _pattern(pattern, "pattern", depth=0)


def _fail(path: str, message: str) -> NoReturn:
    raise SelectorError(f"{path}: {message}")


def _pattern(pattern: Any, path: str, depth: int) -> p.Predicate:
    if not isinstance(pattern, Mapping):
        _fail(path, f"expected an object, found {_shown(pattern)}")
    if depth > p.DEPTH_MAX // 4:
        _fail(path, "$or is nested too deep")
    if not pattern:
        _fail(path, "an empty pattern: name at least one attribute")
    terms = []
    for name, given in pattern.items():
        word = name if isinstance(name, str) else shown(name)
        here = word if depth == 0 else f"{path}.{word}"
        if isinstance(name, str) and name == "$or":
            branches = _list(given, here, "patterns")
            parts = [_pattern(branch, f"{here}[{i}]", depth + 1) for i, branch in enumerate(branches)]
            terms.append(_any(parts))
        else:
            terms.append(_alternatives(name, given, here))
    return terms[0] if len(terms) == 1 else p.And(tuple(terms))


def _list(given: Any, path: str, of_what: str) -> Sequence[Any]:
    if isinstance(given, Mapping):
        _fail(
            path,
            f"expected a list of {of_what}, found an object (write a nested attribute with dots)",
        )
    if not isinstance(given, list | tuple):
        _fail(path, f"expected a list of {of_what}, found {_shown(given)}: write [{_shown(given)}]")
    if not given:
        _fail(path, f"an empty list of {of_what}")
    return given


def _any(terms: Sequence[p.Predicate]) -> p.Predicate:
    return terms[0] if len(terms) == 1 else p.Or(tuple(terms))


def _alternatives(name: str, given: Any, path: str) -> p.Predicate:
    terms: list[p.Predicate] = []
    plain: list[Value] = []
    for position, element in enumerate(_list(given, path, "alternatives")):
        here = f"{path}[{position}]"
        if isinstance(element, Mapping):
            terms.append(_matcher(name, element, here))
        elif element is None:
            terms.append(_make(here, p.IsNull, name))
        else:
            plain.append(_literal(element, here))
    return _any([*_equal_to_one_of(name, plain, path), *terms])


def _literal(element: Any, path: str) -> Value:
    if isinstance(element, list | tuple):
        _fail(path, "a list cannot be a value")
    try:
        return p.check_literal(element)
    except SelectorError as error:
        _fail(path, str(error))


def _equal_to_one_of(name: str, values: Sequence[Value], path: str) -> list[p.Predicate]:
    """Return one IN for each group among the values."""
    groups: dict[str, list[Value]] = {}
    for value in values:
        groups.setdefault(p.check_one_group("a list", (value,)), []).append(value)
    return [_make(path, p.In, name, tuple(group)) for group in groups.values()]


def _make(path: str, make: Callable[..., p.Predicate], *arguments: Any) -> p.Predicate:
    try:
        return make(*arguments)
    except (SelectorError, FilterTooComplex) as error:
        _fail(path, str(error))


def _matcher(name: str, matcher: Mapping[str, Any], path: str) -> p.Predicate:
    if len(matcher) != 1:
        _fail(path, f"expected an object with one matcher, found {len(matcher)}")
    ((word, argument),) = matcher.items()
    find = _MATCHERS.get(word)
    if find is None:
        _fail(path, f"no matcher is called {shown(word)}: use one of {', '.join(sorted(_MATCHERS))}")
    return find(name, argument, f"{path}.{word}")


def _text(argument: Any, path: str) -> str:
    if not isinstance(argument, str):
        _fail(path, f"expected a string, found {_shown(argument)}")
    return argument


def _prefix(name: str, argument: Any, path: str) -> p.Predicate:
    return _make(path, p.Prefix, name, _text(argument, path))


def _suffix(name: str, argument: Any, path: str) -> p.Predicate:
    return _make(path, p.Suffix, name, _text(argument, path))


def _wildcard(name: str, argument: Any, path: str) -> p.Predicate:
    out: list[str] = []
    characters = iter(_text(argument, path))
    for character in characters:
        if character == "*":
            out.append("%")
            continue
        if character == _ESCAPE:
            character = next(characters, "")
            if character not in ("*", _ESCAPE):
                _fail(path, "a backslash must stand before * or another backslash")
        out.append(_ESCAPE + character if character in ("%", "_", _ESCAPE) else character)
    return _make(path, p.Like, name, "".join(out), _ESCAPE)


def _exists(name: str, argument: Any, path: str) -> p.Predicate:
    if not isinstance(argument, bool):
        _fail(path, f"expected true or false, found {_shown(argument)}")
    missing = _make(path, p.IsNull, name)
    return p.Not(missing) if argument else missing


def _numeric(name: str, argument: Any, path: str) -> p.Predicate:
    parts = _list(argument, path, "comparisons and numbers")
    if len(parts) % 2 or len(parts) > 4:
        _fail(path, 'expected a comparison and a number, once or twice: [">", 60, "<=", 120]')
    terms: list[p.Compare] = []
    for position in range(0, len(parts), 2):
        op, number = parts[position], parts[position + 1]
        if not isinstance(op, str) or op not in _NUMERIC:
            _fail(f"{path}[{position}]", f"expected one of {' '.join(_NUMERIC)}, found {_shown(op)}")
        here = f"{path}[{position + 1}]"
        literal = _literal(number, here)
        if type(literal) is not int and type(literal) is not float:
            _fail(here, f"expected a number, found {_shown(number)}")
        terms.append(p.Compare(name, op, literal))
    if len(terms) == 2 and not all(_reaches(one, other) for one in terms for other in terms):
        _fail(path, f"the range is empty: no number is {' '.join(map(str, parts))}")
    return terms[0] if len(terms) == 1 else p.And(tuple(terms))


def _reaches(lower: p.Compare, upper: p.Compare) -> bool:
    """Return whether a number can satisfy both, if the first bounds it below and the second above."""
    if lower.op not in (">", ">=", "=") or upper.op not in ("<", "<=", "="):
        return True
    low: Any = lower.literal
    high: Any = upper.literal
    return bool(low < high) or (bool(low == high) and lower.op != ">" and upper.op != "<")


def _anything_but(name: str, argument: Any, path: str) -> p.Predicate:
    if isinstance(argument, Mapping):
        ((word, _),) = argument.items() if len(argument) == 1 else (("", None),)
        if word not in ("prefix", "suffix", "wildcard"):
            _fail(path, "expected values, or an object with one of prefix, suffix and wildcard")
        return p.Not(_matcher(name, argument, path))
    elements = argument if isinstance(argument, list | tuple) else [argument]
    values = [_literal(element, f"{path}[{i}]") for i, element in enumerate(elements)]
    if not values:
        _fail(path, "an empty list of values")
    parts: list[p.Predicate] = [p.Not(part) for part in _equal_to_one_of(name, values, path)]
    return _any(parts)


def _shown(given: Any) -> str:
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


_MATCHERS: Final[dict[str, Callable[[str, Any, str], p.Predicate]]] = {
    "anything-but": _anything_but,
    "exists": _exists,
    "numeric": _numeric,
    "prefix": _prefix,
    "suffix": _suffix,
    "wildcard": _wildcard,
}
