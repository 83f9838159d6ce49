"""Events as JSON lines: incremental parsing. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ...protocol.batch import EVENT_BYTES_MAX
from ...protocol.documents import of_json
from ...protocol.errors import EventError, InputError
from ...protocol.json_events import moment, parse
from ...protocol.values import Kind


class Line(NamedTuple):
    """An event and its line number in the file; for files without lines, the event's number."""

    number: int
    event: dict[str, Any]


class JsonLines:
    """Parses bytes into events: one JSON object per line; empty lines are skipped.

    Parameters
    ----------
    source
        The file, or ``-``, for error messages.
    timestamps
        Attributes that are ISO 8601 timestamps, which JSON has no values for.
    kinds
        The kinds of other attributes, where JSON has another one.
    """

    def __init__(
        self, source: str, timestamps: Iterable[str] = (), kinds: Mapping[str, Kind] | None = None
    ) -> None:
        self._source = source
        self._kinds = {**(kinds or {}), **dict.fromkeys(timestamps, Kind.TIMESTAMP)}
        self._rest = b""
        self._number = 0

    def feed(self, data: bytes) -> Iterator[Line]:
        """Yield the events of the lines that are complete now; the rest waits for more bytes.

        Raises
        ------
        InputError
            If a line is not a JSON object, or too long; the message has its number. The lines before it were yielded.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield from self._event(line)
        if len(self._rest) > EVENT_BYTES_MAX:
            raise InputError(f"{self._source}:{self._number + 1}: is longer than {EVENT_BYTES_MAX:,} bytes")

    def end(self) -> Iterator[Line]:
        """Yield the event of a last line without a line end, as `feed` does."""
        line, self._rest = self._rest, b""
        yield from self._event(line)

    def _event(self, line: bytes) -> Iterator[Line]:
        self._number += 1
        if not line.strip():
            return
        where = f"{self._source}:{self._number}"
        try:
            event = parse(line, where)
            if not isinstance(event, dict):
                raise EventError(f"{where}: is not a JSON object, as an event must be")
            for name, kind in self._kinds.items():
                if event.get(name) is not None:
                    event[name] = _as_kind(event[name], kind, f"{where}: {name}")
        except EventError as error:
            raise InputError(str(error)) from None
        yield Line(self._number, of_json(event))


_CLASSES: Final[dict[Kind, type]] = {
    Kind.BOOLEAN: bool,
    Kind.INTEGER: int,
    Kind.FLOAT: float,
    Kind.STRING: str,
}


def _as_kind(value: Any, kind: Kind, where: str) -> Any:
    """Return a JSON value as a value of a kind."""
    if kind is Kind.TIMESTAMP:
        return moment(value, where)
    if type(value) is _CLASSES[kind]:
        return value
    if kind is Kind.STRING and isinstance(value, bool | int | float):
        return json.dumps(value)
    words = {"true": True, "false": False}
    if kind is Kind.BOOLEAN and isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    whole = isinstance(value, float) and value.is_integer()
    try:
        if kind is Kind.INTEGER and (whole or isinstance(value, str)):
            return int(value)
        if kind is Kind.FLOAT and isinstance(value, int | str) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise EventError(f"{where}: {json.dumps(value)[:40]} is not of type {kind.name.lower()}")
