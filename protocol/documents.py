"""Events with nested objects and arrays: how they are flattened to attributes, and turned back into documents.

Rules
-----
* The names of a nested object are prefixes: ``{"order": {"tier": "gold"}}`` has the attribute ``order.tier``.
* An array is a choice: an event with arrays stands for all flat events that take one element of each array. These
  flat events are the *ways* of the event; the event matches what any of its ways matches. An element that is an
  object is taken whole, so conditions on two of its attributes apply to the same element. In an array with
  objects and single values, the objects are one choice and the single values are another. The elements of an
  array inside an array count as elements of the outer one.
* An attribute has one place: a name that occurs at two places of an event, inside or outside of arrays, is
  rejected. So a way cannot hide a value of the event from a condition or from the check of a publish right.
* The nested structure is stored beside the attributes as one text, the *form*, under a name that no attribute can
  have. The form has the objects, with 0 for each value that is an attribute, and the arrays with all their
  content. Events of one form share it, batches without nested events are unchanged, and a document is restored as
  it was.
* A ``None`` in an object is no attribute, as everywhere; in an array it has a place, and is null.

Source: Event Ruler (aws/event-ruler), README, JSON array matching: membership of elements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias

from .errors import EventError
from .values import NULL, Timestamp, Value, is_null, normalize

__all__ = [
    "ELEMENTS_MAX",
    "FORM",
    "NESTING_MAX",
    "WAYS_MAX",
    "Array",
    "NestedEvent",
    "Way",
    "array_at",
    "arrays_at",
    "document",
    "flattened",
    "has_arrays",
    "inner_names",
    "of_json",
    "ways",
    "ways_of",
]

FORM: Final = ""
"""The name of the column that holds the forms."""
NESTING_MAX: Final = 32
"""The maximum nesting depth of objects and arrays."""
WAYS_MAX: Final = 1_024
"""The maximum number of ways of an event."""
ELEMENTS_MAX: Final = WAYS_MAX * 256
"""The maximum number of nested elements and members of an event: its ways cannot have more attributes than this."""

_LEAF: Final = 0
_TIME: Final = ""  # attribute names are not empty, so an object with this key stands for a timestamp or null


Array: TypeAlias = tuple[Value | None, ...]
"""The elements of an array, in order; an element that is an object is None."""


class Way(dict[str, Value]):
    """A flat event that an event with arrays stands for; the parsed form still has the arrays as a whole."""

    __slots__ = ("form",)

    def __init__(self, attributes: Mapping[str, Value], form: Mapping[str, Any]) -> None:
        super().__init__(attributes)
        self.form = form

    def __reduce__(self) -> tuple[Any, ...]:
        return Way, (dict(self), self.form)


class NestedEvent(dict[str, Value]):
    """The attributes of an event outside its arrays, with its ways and its form; the form puts it back into a batch."""

    __slots__ = ("form", "ways")

    def __init__(
        self, attributes: Mapping[str, Value], ways: Sequence[dict[str, Value]], form: str = ""
    ) -> None:
        super().__init__(attributes)
        self.ways = tuple(ways)
        self.form = form

    def __reduce__(self) -> tuple[Any, ...]:
        return NestedEvent, (dict(self), self.ways, self.form)


def of_json(value: Any, depth: int = 0) -> Any:
    """Return a parsed JSON value as a value of an event: JSON's null becomes `NULL`; other values are unchanged.

    A value that is nested too deep for an event, or too large, is returned unchanged.
    """
    if value is None:
        return NULL
    if depth > NESTING_MAX or (isinstance(value, dict | list) and len(value) > ELEMENTS_MAX):
        return value
    if isinstance(value, dict):
        return {name: of_json(inner, depth + 1) for name, inner in value.items()}
    return [of_json(inner, depth + 1) for inner in value] if isinstance(value, list) else value


def flattened(
    nested: Mapping[str, Any], check: Callable[[object], str], read: Callable[[Any], Value | None]
) -> tuple[dict[str, Value], str, set[str]]:
    """Return the nested attributes outside of arrays, the form, and all nested attribute names.

    Parameters
    ----------
    nested
        The objects and arrays of an event, by attribute name.
    check, read
        Functions that validate and convert a name and a value.

    Raises
    ------
    EventError
        If a name or a value is invalid, a name occurs twice, or the event is nested too deep or has too many
        ways.
    """
    _check_size(nested)
    values: dict[str, Value] = {}
    names: set[str] = set()
    form = {}
    for name, given in nested.items():
        form[name], found = _form(given, name, values, check, read, 1)
        _join(names, found)
    text = json.dumps(form, ensure_ascii=False, separators=(",", ":"))
    return values, text, names


def _join(names: set[str], found: set[str]) -> None:
    """Add the names of one more place of an event; reject a name that is already there."""
    if twice := names & found:
        raise EventError(f"attribute {min(twice)!r} occurs twice")
    names |= found


def _check_size(nested: Mapping[str, Any]) -> None:
    """Check the limits on nested elements and ways before anything is built from them."""
    elements, waiting = 0, [nested]
    while waiting:
        each: Any = waiting.pop()
        inner = each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()
        elements += len(inner)
        if elements > ELEMENTS_MAX:
            raise EventError(
                f"more than {ELEMENTS_MAX} elements in its objects and arrays, which is the limit"
            )
        waiting.extend(inner)
    many = ways_of(nested)
    if many > WAYS_MAX:
        raise EventError(f"its arrays can be combined in {many} ways, the limit is {WAYS_MAX}")


def _form(
    given: Any,
    path: str,
    values: dict[str, Value] | None,
    check: Callable[[object], str],
    read: Callable[[Any], Value | None],
    depth: int,
) -> tuple[Any, set[str]]:
    """Return the form of a value and the attribute names in it.

    Outside of arrays the value goes into `values`; inside of arrays, where `values` is None, it goes into the
    form.
    """
    if depth > NESTING_MAX:
        raise EventError(f"attribute {path[:40]!r}: nested more than {NESTING_MAX} deep")
    names: set[str] = set()
    if isinstance(given, Mapping):
        out = {}
        for name, inner in given.items():
            plain = check(name)
            form, found = _form(inner, check(f"{path}.{plain}"), values, check, read, depth + 1)
            _join(names, found)
            if form is not None:
                out[plain] = form
        return out, names
    if isinstance(given, list | tuple):
        items = []
        for inner in given:
            form, found = _form(inner, path, None, check, read, depth + 1)
            names |= found  # one of the elements is chosen
            items.append(None if form == {_TIME: None} else form)
        return items, names
    try:
        value = read(given)
    except EventError as error:
        raise EventError(f"attribute {path!r}: {error}") from None
    if value is None:
        return None, names
    if values is None:
        form = {_TIME: int(value)} if type(value) is Timestamp else {_TIME: None} if is_null(value) else value
        return form, {path}
    values[path] = value
    return _LEAF, {path}


def has_arrays(form: Any) -> bool:
    """Return whether a parsed form contains an array."""
    return isinstance(form, list) or (isinstance(form, dict) and any(map(has_arrays, form.values())))


def _is_object(form: Any) -> bool:
    return isinstance(form, dict) and _TIME not in form


def _elements(array: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the objects and the single values of an array and of the arrays in it, given or of a form."""
    objects: list[Any] = []
    single: list[Any] = []
    waiting = [*reversed(array)]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple):
            waiting.extend(reversed(each))
        else:
            (objects if isinstance(each, Mapping) and _TIME not in each else single).append(each)
    return objects, single


def ways_of(given: Any, depth: int = 0) -> int:
    """Return the number of ways of a nested value, given or as a form."""
    if depth > NESTING_MAX:
        return 1  # no form is made of it
    if isinstance(given, Mapping):
        return prod(ways_of(inner, depth + 1) for inner in given.values())
    if isinstance(given, list | tuple):
        objects, single = _elements(given)
        return max(sum(ways_of(each, depth + 1) for each in objects), 1) * max(len(single), 1)
    return 1


def inner_names(form: Any, path: str = "", *, inside: bool = False) -> Iterator[tuple[str, type]]:
    """Iterate over the values inside the arrays of a form: the attribute name and the type of each."""
    if _is_object(form):
        for name, inner in form.items():
            yield from inner_names(inner, f"{path}.{name}" if path else name, inside=inside)
    elif isinstance(form, list):
        for each in form:
            yield from inner_names(each, path, inside=True)
    elif inside:
        yield path, type(form)


def ways(attributes: Mapping[str, Value], form: Mapping[str, Any]) -> list[Way]:
    """Return the ways of an event, made from its attributes outside of arrays and its form."""
    out = []
    for chosen in _object_ways(form, "", inside=False):
        way = Way(attributes, form)
        way.update(chosen)
        out.append(way)
    return out


def array_at(event: Mapping[str, Any], name: str) -> Array | None:
    """Return the whole array at a name of an event, or of one of its ways; None if there is none.

    Conditions on lists ask for arrays here and nowhere else. The elements of an array inside an array are elements of
    the outer one, and those at ``lines.item`` are the items of all lines. A single value is an array of one element. A
    null that is no element is none.
    """
    return arrays_at([event], name)[0]


def arrays_at(events: Iterable[Mapping[str, Any]], name: str) -> list[Array | None]:
    """Return what :func:`array_at` returns for each event; the form that the ways of an event share is read once."""
    known: dict[int, Array | None] = {}
    out: list[Array | None] = []
    for event in events:
        if isinstance(event, NestedEvent):
            event = event.ways[0]
        found = None
        if isinstance(event, Way):
            form = id(event.form)
            if form not in known:
                known[form] = _array_in(event.form, name)
            found = known[form]
        if found is None:
            value = normalize(event.get(name))
            found = None if value is None or is_null(value) else (value,)
        out.append(found)
    return out


def _array_in(form: Mapping[str, Any], name: str) -> Array | None:
    found: list[Value | None] = []
    return tuple(found) if _gather(form, "", name, found, inside=False) else None


def _gather(form: Any, path: str, name: str, found: list[Value | None], *, inside: bool) -> bool:
    """Add the elements at a name to `found`; return whether there is an array, or a value in one, of that name."""
    if isinstance(form, list):
        there = path == name
        for each in form:
            there |= _gather(each, path, name, found, inside=True)
        return there
    if path == name:
        if inside:
            found.append(None if _is_object(form) else _value(form))
        return inside
    if not _is_object(form):
        return False
    there = False
    for key, inner in form.items():
        here = f"{path}.{key}" if path else key
        if here == name or name.startswith(here + "."):
            there |= _gather(inner, here, name, found, inside=inside)
    return there


def _object_ways(form: Mapping[str, Any], path: str, *, inside: bool) -> Iterator[dict[str, Value]]:
    parts = [
        list(_ways(inner, f"{path}.{name}" if path else name, inside=inside)) for name, inner in form.items()
    ]
    for chosen in product(*parts):
        yield {name: value for part in chosen for name, value in part.items()}


def _ways(form: Any, path: str, *, inside: bool) -> Iterator[dict[str, Value]]:
    if _is_object(form):
        yield from _object_ways(form, path, inside=inside)
    elif isinstance(form, list):
        objects, single = _elements(form)
        chosen = [way for each in objects for way in _ways(each, path, inside=True)] or [{}]
        for way, value in product(chosen, single or [_LEAF]):
            yield {**way, path: _value(value)} if single else way
    else:
        yield {path: _value(form)} if inside else {}


def _value(form: Any) -> Any:
    if form is None:
        return NULL
    if isinstance(form, dict):
        return NULL if form[_TIME] is None else Timestamp(form[_TIME])
    return form


def document(
    attributes: Mapping[str, Any], form: Mapping[str, Any], shown: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return an event as it was given, nested; `shown` converts the values inside arrays."""
    taken: set[str] = set()
    nested = {
        name: _document(inner, name, attributes, shown, taken, inside=False) for name, inner in form.items()
    }
    return {name: value for name, value in attributes.items() if name not in taken} | nested


def _document(
    form: Any,
    path: str,
    attributes: Mapping[str, Any],
    shown: Callable[[Any], Any],
    taken: set[str],
    *,
    inside: bool,
) -> Any:
    if _is_object(form):
        return {
            name: _document(inner, f"{path}.{name}", attributes, shown, taken, inside=inside)
            for name, inner in form.items()
        }
    if isinstance(form, list):
        return [_document(each, path, attributes, shown, taken, inside=True) for each in form]
    if inside:
        return shown(_value(form))
    taken.add(path)
    return attributes[path]
