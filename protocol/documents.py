"""Events with nested objects and arrays: how they are carried, and what a filter sees of them.

Rules
-----
* The names of a nested object are prefixes: ``{"order": {"tier": "gold"}}`` has the attribute ``order.tier``.
* An array is a choice: an event with arrays stands for all flat events that take one element of each array. These
  flat events are the *ways* of the event; the event matches what any of its ways matches. An element that is an
  object is taken whole, so conditions on two of its attributes apply to the same element. In an array with
  objects and single values, the objects are one choice and the single values are another. The elements of an
  array inside an array count as elements of the outer one.
* A filter asks for the attributes that it names, and nothing else of an event is looked at (`.ways`): the ways are
  those of the named attributes. So arrays that no filter names cost nothing, and their number is not limited.
* An attribute has one place: a name that occurs at two places of an event, inside or outside of arrays, is
  rejected. So a way cannot hide a value of the event from a condition or from the check of a publish right.
* The nested structure is stored beside the attributes as one text, the *form*, under a name that no attribute can
  have. The form has the objects, with 0 for each value that is an attribute in columns, and the arrays with all their
  content. Events of one form share it, batches without nested events are unchanged, and a document is restored as
  it was.
* An event that does not fit into columns (too many attributes, a name or an integer that no column takes) is all in
  its form: the form is then an array, and the event its only element.
* To a condition, an integer of more than 64 bits is the nearest float.
* A ``None`` in an object is no attribute, as everywhere; in an array it has a place, and is null.

Source: Event Ruler (aws/event-ruler), README, JSON array matching: membership of elements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from .errors import EventError
from .values import INTEGER_MAX, INTEGER_MIN, NULL, Timestamp, Value, is_null

__all__ = [
    "ELEMENTS_MAX",
    "FORM",
    "NESTING_MAX",
    "Reader",
    "Unfit",
    "document",
    "flattened",
    "has_arrays",
    "is_form",
    "members_of",
    "of_json",
    "twice",
    "value_in",
    "whole_form",
]

FORM: Final = ""
"""The name of the column that holds the forms."""
NESTING_MAX: Final = 32
"""The maximum nesting depth of objects and arrays."""
ELEMENTS_MAX: Final = 1 << 19
"""The maximum number of nested elements and members of an event."""

_LEAF: Final = 0
_TAG: Final = ""
"""The member that marks an object of a form as a tagged value: a timestamp, null, or an object with an empty name."""


class Unfit(Exception):
    """The event does not fit into columns."""


def of_json(value: object, depth: int = 0) -> Any:
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


# Making forms.


class Reader(NamedTuple):
    """How the names and values of an event are read.

    Attributes
    ----------
    name
        Returns a name as a plain string; EventError if it is no string.
    fits
        Returns whether a column may have the name.
    most
        How many attributes outside of arrays fit.
    value
        Returns a value, which may be an integer of more than 64 bits, or None if it is missing; EventError if it is
        none.
    """

    name: Callable[[object], str]
    fits: Callable[[str], bool]
    most: int
    value: Callable[[object], Value | None]


def flattened(nested: Mapping[str, object], reader: Reader) -> tuple[dict[str, Value], str, dict[str, str]]:
    """Return the nested attributes outside of arrays, the form, and the member that has each nested name.

    Parameters
    ----------
    nested
        The objects and arrays of an event, by attribute name.

    Raises
    ------
    Unfit
        If an attribute outside of arrays does not fit into a column.
    EventError
        If a name or a value is invalid, a name occurs twice, or the event is nested too deep.
    """
    _check_size(nested)
    values: dict[str, Value] = {}
    form, members = _members_form(nested, None, values, reader, 0)
    return values, _text(form), members


def whole_form(event: Mapping[str, object], reader: Reader) -> str:
    """Return the form of an event that is all in it.

    Raises
    ------
    EventError
        If a name or a value is invalid, a name occurs twice, or the event is nested too deep.
    """
    _check_size(event)
    return _text([_members_form(event, None, None, reader, 0)[0]])


def _text(form: object) -> str:
    return json.dumps(form, ensure_ascii=False, separators=(",", ":"))


def _check_size(nested: Mapping[str, object]) -> None:
    """Check the number of nested elements before anything is built from them."""
    elements = 0
    waiting: list[object] = [nested]
    while waiting:
        each = waiting.pop()
        inner: Collection[object] = (
            each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()
        )
        elements += len(inner)
        if elements > ELEMENTS_MAX:
            raise EventError(
                f"more than {ELEMENTS_MAX} elements in its objects and arrays, which is the limit"
            )
        waiting.extend(inner)


def _members_form(
    given: Mapping[Any, object], path: str | None, values: dict[str, Value] | None, reader: Reader, depth: int
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the form of an object, and for each name in it the member that it is in."""
    out: dict[str, object] = {}
    members: dict[str, str] = {}
    for name, inner in given.items():
        plain = reader.name(name)
        form, found = _form(inner, plain if path is None else f"{path}.{plain}", values, reader, depth + 1)
        for each in found:
            if each in members or plain in out:
                raise twice(each, members.get(each, plain), plain, path)
            members[each] = plain
        if form is not None:
            out[plain] = form
    return ({_TAG: out} if _TAG in out else out), members


def twice(name: str, member: str, other: str, path: str | None = None) -> EventError:
    """Return the error about a name that two members of an object have."""
    of = "the event" if path is None else f"{path[:80]!r}"
    return EventError(
        f"attribute {name[:80]!r} occurs twice: in member {member[:80]!r} and in member {other[:80]!r} of {of}; "
        "rename one of them"
    )


def _form(
    given: object, path: str, values: dict[str, Value] | None, reader: Reader, depth: int
) -> tuple[object, Iterable[str]]:
    """Return the form of a value and the attribute names in it.

    Outside of arrays the value goes into `values`; where `values` is None, it goes into the form.
    """
    if depth > NESTING_MAX:
        raise EventError(f"attribute {path[:40]!r}: nested more than {NESTING_MAX} deep")
    if isinstance(given, Mapping):
        return _members_form(given, path, values, reader, depth)
    if isinstance(given, list | tuple):
        items = []
        names: set[str] = set()
        for inner in given:
            form, found = _form(inner, path, None, reader, depth + 1)
            names.update(found)  # one of the elements is chosen
            items.append(None if form == {_TAG: None} else form)
        return items, names
    try:
        value = reader.value(given)
    except EventError as error:
        raise EventError(f"attribute {path[:80]!r}: {error}") from None
    if value is None:
        return None, ()
    if values is None:
        form = {_TAG: int(value)} if type(value) is Timestamp else {_TAG: None} if is_null(value) else value
        return form, (path,)
    if (
        len(values) >= reader.most
        or not reader.fits(path)
        or (type(value) is int and not INTEGER_MIN <= value <= INTEGER_MAX)
    ):
        raise Unfit
    values[path] = value
    return _LEAF, (path,)


# Reading forms.


def members_of(form: object) -> dict[str, object] | None:
    """Return the members of an object of a form, or None if it is none."""
    if not isinstance(form, dict):
        return None
    if _TAG not in form:
        return form
    inner = form[_TAG]
    return inner if isinstance(inner, dict) else None


def is_form(parsed: object) -> bool:
    """Return whether a parsed text can be the form of an event: its objects and arrays, or the whole event."""
    if isinstance(parsed, list):
        return len(parsed) == 1 and members_of(parsed[0]) is not None
    return isinstance(parsed, dict)


def has_arrays(form: object) -> bool:
    """Return whether a parsed form contains an array."""
    return isinstance(form, list) or (isinstance(form, dict) and any(map(has_arrays, form.values())))


def value_in(form: object) -> Any:
    """Return a value of a form as conditions see it."""
    if form is None:
        return NULL
    if isinstance(form, dict):
        return NULL if form[_TAG] is None else Timestamp(form[_TAG])
    if type(form) is int and not INTEGER_MIN <= form <= INTEGER_MAX:
        try:
            return float(form)
        except OverflowError:
            return float("inf") if form > 0 else float("-inf")
    return form


def document(
    attributes: Mapping[str, object], form: object, shown: Callable[[Any], object]
) -> dict[str, object]:
    """Return an event as it was given, nested; `shown` converts the values inside the form."""
    if isinstance(form, list):
        out: dict[str, Any] = _document(form[0], "", attributes, shown, set(), inside=True)
        return out
    taken: set[str] = set()
    assert isinstance(form, dict)
    nested = {
        name: _document(inner, name, attributes, shown, taken, inside=False) for name, inner in form.items()
    }
    return {name: value for name, value in attributes.items() if name not in taken} | nested


def _document(
    form: object,
    path: str,
    attributes: Mapping[str, object],
    shown: Callable[[Any], object],
    taken: set[str],
    *,
    inside: bool,
) -> Any:
    members = members_of(form)
    if members is not None:
        return {
            name: _document(inner, f"{path}.{name}", attributes, shown, taken, inside=inside)
            for name, inner in members.items()
        }
    if isinstance(form, list):
        return [_document(each, path, attributes, shown, taken, inside=True) for each in form]
    if inside:
        return shown(form if type(form) is int else value_in(form))
    taken.add(path)
    return attributes[path]
