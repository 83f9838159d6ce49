"""Reads one event after the other into the rows of columns; what does not fit into columns goes into forms.

Rules
-----
* An event fits into columns if it has at most `ATTRIBUTES_MAX` attributes outside of arrays, with names of at most
  `NAME_CHARACTERS_MAX` printable characters and integers of 64 bits. Any other is all in its form (`documents`).
* An invalid event leaves nothing behind, so the events after it can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from .checks import shown
from .documents import FORM, Reader, Unfit, flattened, has_arrays, twice, whole_form
from .errors import EventError
from .values import INTEGER_MAX, INTEGER_MIN, Kind, Null, Timestamp, Value, kind_of, normalize, normalize_wide
from .ways import NestedEvent

ATTRIBUTES_MAX: Final = 256
"""How many attributes of an event are in columns; an event with more is all in its form."""
NAME_CHARACTERS_MAX: Final = 1_024
"""The longest name that a column or a filter has; an event with longer ones is all in its form."""
EVENT_BYTES_MAX: Final = 1 << 20

ColumnKey: TypeAlias = tuple[str, Kind]
Gathered: TypeAlias = dict[ColumnKey, tuple[list[int], list[Value]]]
"""The rows and the values of each column that is being made."""
FORMS: Final[ColumnKey] = (FORM, Kind.STRING)
TTLS: Final[ColumnKey] = ("\0ttl", Kind.FLOAT)
"""The column of the times to live (`expiry`); its name is none that an attribute can have."""
UNSEEN: Final = frozenset({FORM, TTLS[0]})
"""The names of columns that are no attributes."""


def event_of(event: Mapping[str, object]) -> Mapping[str, Value]:
    """Return an event as a subscriber's filter sees it, with attributes and normalised values.

    Raises
    ------
    EventError
        If it is no valid event.
    """
    if type(event) is NestedEvent or (type(event) is dict and _is_plain(event)):
        return event
    gathered: Gathered = {}
    gather(gathered, 0, event)
    found = {name: values[0] for (name, _), (_, values) in gathered.items() if name != FORM}
    form = gathered.get(FORMS)
    if form is None:
        return found
    text = str(form[1][0])
    parsed = json.loads(text)
    return NestedEvent(found, text, parsed) if has_arrays(parsed) else found


def form_of_ways(ways: Iterable[Mapping[str, Value]]) -> str:
    """Return the form of an event that is any of these flat events."""
    return "[" + ",".join(whole_form(way, _READER)[1:-1] for way in ways) + "]"


def flat_columns(events: Iterable[Mapping[str, Value]]) -> Gathered:
    """Return the columns, however many, of flat events with normalised values."""
    gathered: Gathered = {}
    for row, event in enumerate(events):
        for name, value in event.items():
            _add(gathered, (name, kind_of(value)), row, value)
    return gathered


def _is_plain(event: dict[str, Any]) -> bool:
    """Return whether reading the event would change nothing."""
    for name, value in event.items():
        kind = type(value)
        if type(name) is not str or not (
            kind is str
            or kind is bool
            or kind is Timestamp
            or (kind is int and INTEGER_MIN <= value <= INTEGER_MAX)
            or (kind is float and value == value)
            or kind is Null
        ):
            return False
    return True


def gather(gathered: Gathered, row: int, event: Mapping[str, object]) -> None:
    """Add an event to the columns; one that does not fit into them goes into its form."""
    if type(event) is not dict and not isinstance(event, Mapping):
        raise EventError(f"an event is a mapping from attribute name to value, not a {type(event).__name__}")
    try:
        if len(event) > ATTRIBUTES_MAX or (isinstance(event, NestedEvent) and event.is_whole):
            raise Unfit
        _gather_columns(gathered, row, event)
    except Unfit:
        _take_back(gathered, row)
        gather_whole(gathered, row, event)
    except EventError:
        _take_back(gathered, row)
        raise


def _take_back(gathered: Gathered, row: int) -> None:
    """Remove what was gathered of the last event."""
    for key, (rows, values) in list(gathered.items()):
        if rows[-1] == row:
            rows.pop()
            values.pop()
            if not rows:
                del gathered[key]


def _add(gathered: Gathered, key: ColumnKey, row: int, value: Value) -> None:
    rows, values = gathered.setdefault(key, ([], []))
    rows.append(row)
    values.append(value)


def _gather_columns(gathered: Gathered, row: int, event: Mapping[str, object]) -> None:
    nested: dict[str, object] = {}
    characters = 0
    for given_name, given in event.items():
        if type(given_name) is str:
            name = given_name
        else:
            name = plain_name(given_name)
            if name in event and event[name] is not given:
                raise EventError(f"attribute {name!r} occurs twice")
        if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable():
            raise Unfit
        try:
            value = normalize(given)
        except EventError as error:
            if isinstance(given, Mapping | list | tuple):
                nested[name] = given
                continue
            if isinstance(given, int | np.integer):
                raise Unfit from None
            raise EventError(f"attribute {name!r}: {error}") from None
        if value is None:
            continue
        if isinstance(value, str):
            characters += len(value)
        rows, values = gathered.setdefault((name, kind_of(value)), ([], []))
        rows.append(row)
        values.append(value)
    if nested:
        characters += _gather_nested(gathered, row, event, nested)
    if isinstance(event, NestedEvent):  # an event of a batch: it was checked when the batch was made
        _add(gathered, FORMS, row, event.form)
    if characters > EVENT_BYTES_MAX:
        raise EventError(f"{characters} characters of strings, the limit is {EVENT_BYTES_MAX}")


def _gather_nested(
    gathered: Gathered, row: int, event: Mapping[str, object], nested: Mapping[str, object]
) -> int:
    """Gather the nested attributes and the form; return the number of their characters."""
    found, form, members = flattened(nested, _READER)
    both = [name for name in members if name in event and name not in nested]
    if both:
        raise twice(min(both), members[min(both)], min(both))
    if len(event) - len(nested) + len(found) > ATTRIBUTES_MAX:
        raise Unfit
    characters = 0
    for name, value in (*found.items(), (FORM, form)):
        characters += len(value) if isinstance(value, str) else 0
        _add(gathered, (name, kind_of(value)), row, value)
    return characters


def gather_whole(gathered: Gathered, row: int, event: Mapping[str, object]) -> None:
    """Gather an event that is all in its form."""
    form = event.form if isinstance(event, NestedEvent) and event.is_whole else None
    if form is None:
        form = whole_form(event.document() if isinstance(event, NestedEvent) else event, _READER)
        if len(form) > EVENT_BYTES_MAX:
            raise EventError(f"{len(form)} characters, the limit is {EVENT_BYTES_MAX}")
    _add(gathered, FORMS, row, form)


def plain_name(name: object) -> str:
    """Return an attribute name as a plain string; EventError if it is none."""
    if not isinstance(name, str):
        raise EventError(f"attribute name {shown(name)} is a {type(name).__name__}, not a string")
    return str.__str__(name)  # a subclass may define its own order and equality


def fits_column(name: str) -> bool:
    """Return whether a column, or a filter, may have a name."""
    return 0 < len(name) <= NAME_CHARACTERS_MAX and name.isprintable()


_READER: Final = Reader(plain_name, fits_column, ATTRIBUTES_MAX, normalize_wide)


def check_name(name: object) -> str:
    """Validate the name of a column or in a filter, 1 to 1,024 printable characters, and return it as a plain string.

    Raises
    ------
    EventError
        If the name is invalid.
    """
    plain = plain_name(name)
    if not fits_column(plain):
        raise EventError(
            f"attribute name {plain[:40]!r}: a name is 1 to {NAME_CHARACTERS_MAX:,} printable characters"
        )
    return plain
