"""Notifications as lines. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias, get_args

from ..actors.clients.notification import Notification
from ..protocol.json_events import cloud_event, iso, plain_value
from ..protocol.printable import printable

Format: TypeAlias = Literal["json", "table", "cloudevents"]
FORMATS: Final = get_args(Format)
COLUMN_WIDTH: Final = 14


# Notifications.


def printer(format: Format, network: str) -> Callable[[Notification], str]:
    """Return a function that formats a notification as a line."""
    if format == "json":
        return _json
    if format == "cloudevents":
        return lambda note: _cloud_event(note, network)
    return TableLines()


def _json(note: Notification) -> str:
    return json.dumps(
        {
            "publisher": note.publisher,
            "sequence": note.sequence,
            "published_at": iso(note.published_at),
            "event": plain_value(note.event),
        }
    )


def _cloud_event(note: Notification, network: str) -> str:
    event = plain_value(note.event)
    return cloud_event(json.dumps(event), event, note.publisher, note.sequence, note.published_at, network)


class TableLines:
    """Formats notifications as rows below a heading, which is repeated when new attributes appear."""

    def __init__(self) -> None:
        self._columns: list[str] = []

    def __call__(self, note: Notification) -> str:
        """Return the row, preceded by the heading if needed."""
        head = ""
        if new := [name for name in note.event if name not in self._columns]:
            self._columns += new
            head = _row(["publisher", *self._columns]) + "\n"
        cells = [_cell(note.event.get(name)) for name in self._columns]
        return head + _row([f"{note.publisher} {note.sequence}", *cells])


def _cell(value: object) -> str:
    return "-" if value is None else str(plain_value(value))


def _row(texts: Iterable[str]) -> str:
    cells = map(printable, texts)
    fitted = (cell if len(cell) <= COLUMN_WIDTH else cell[: COLUMN_WIDTH - 1] + "…" for cell in cells)
    return " ".join(f"{cell:<{COLUMN_WIDTH}}" for cell in fitted).rstrip()
