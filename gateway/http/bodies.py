"""Request bodies: JSON, JSON lines and CloudEvents, parsed into events. Pure.

Rules
-----
* An event is a JSON object; `protocol.documents` defines how nested values are read. ``null`` is an explicit
  null.
* JSON is parsed strictly (`protocol.json_events`). Numbers have 64 bits.
* A CloudEvent becomes an event with the attributes of its data, and with its own attributes under ``ce_``:
  ``ce_type``, ``ce_source``, ``ce_time`` (a timestamp). Data that is not a JSON object with members is one
  attribute, ``ce_data``, or ``ce_data_base64`` if it is not text. Data may have no attributes under ``ce_``.

Source: CloudEvents 1.0.2, HTTP protocol binding, sections 3.1 to 3.3; JSON event format, sections 2 to 4. The
mapping of attributes is ours (decision 0059).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote

from ...protocol import checks
from ...protocol.documents import of_json
from ...protocol.errors import EventError, InputError
from ...protocol.expiry import checked_ttl
from ...protocol.extras import extra
from ...protocol.json_events import CE, CE_DATA, CE_REQUIRED, JSON, is_attribute, moment, parse
from ...protocol.values import Timestamp

with extra("gateway"):
    from cloudevents.core.exceptions import BaseCloudEventException
    from cloudevents.core.v1.event import CloudEvent

LINES: Final = ("application/x-ndjson", "application/jsonl", "application/json-lines")
CLOUDEVENT: Final = "application/cloudevents+json"
CLOUDEVENTS: Final = "application/cloudevents-batch+json"
TYPES: Final = (JSON, *LINES, CLOUDEVENT, CLOUDEVENTS)

QUOTE: Final = '"'
_HEADER: Final = "ce-"
_ESCAPED: Final = re.compile(r"\\(.)")
_OFFSET: Final = re.compile(r"(?:Z|[+-][0-9]{2}:[0-9]{2})$")
_LEAP_SECOND: Final = re.compile(
    r"([0-9-]{10}T[0-9]{2}:[0-9]{2}:)60((?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2}))", re.ASCII
)
_DATA, _DATA_BASE64 = (f"{CE}{name}" for name in CE_DATA)


class UnknownType(InputError):
    """The content type of a body is not supported."""


def events_of(
    body: bytes, headers: Mapping[str, str], timestamps: Iterable[str] = ()
) -> list[dict[str, object]]:
    """Return the events of a request body.

    Parameters
    ----------
    body
        The body.
    headers
        The headers of the request, with names in lower case.
    timestamps
        Names of attributes that are ISO 8601 timestamps.

    Raises
    ------
    UnknownType
        If the content type is none of `TYPES`, and there are no CloudEvent headers.
    EventError
        If the body does not match its type; the message names the event or line, and the error.
    """
    kind, parameters = _kind_of(headers)
    moments = tuple(dict.fromkeys(timestamps))
    if _HEADER + "specversion" in headers and kind not in (CLOUDEVENT, CLOUDEVENTS):
        return _plain([_binary(body, headers)], moments)
    if "charset" in parameters.lower() and "utf-8" not in parameters.lower():
        raise UnknownType(f"content-type {checks.shown(headers['content-type'])}: JSON is UTF-8")
    if kind == JSON:
        given = parse(body, "the body")
        return _plain(_objects(given if isinstance(given, list) else [given]), moments)
    if kind in LINES:
        lines = [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
        return _plain(_objects([parse(line, f"line {number}") for number, line in lines]), moments)
    if kind == CLOUDEVENT:
        return _plain([_structured(parse(body, "the body"), "the body")], moments)
    if kind == CLOUDEVENTS:
        batch = parse(body, "the body")
        if not isinstance(batch, list):
            raise EventError("the body is not a JSON array, as a batch of CloudEvents must be")
        return _plain([_structured(each, f"event {i}") for i, each in enumerate(batch)], moments)
    raise UnknownType(f"content-type {checks.shown(kind)}: it must be one of {', '.join(TYPES)}")


def may_be_empty(headers: Mapping[str, str]) -> bool:
    """Return whether a body of this type may hold no event: a batch of CloudEvents (JSON event format, 4.2)."""
    return _kind_of(headers)[0] == CLOUDEVENTS


def _kind_of(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return the content type, and its parameters."""
    kind, _, parameters = headers.get("content-type", "").partition(";")
    return kind.strip().lower(), parameters


def key_of(header: str | None, events: Sequence[Mapping[str, object]], *, once: bool) -> str | None:
    """Return the idempotency key of a request, under which its events are published once; None if it has none.

    Parameters
    ----------
    header
        ``Idempotency-Key``: a quoted string, as in the draft, or unquoted, as most clients send it.
    events
        The events.
    once
        Whether to derive the key from the CloudEvent: `source` and `id`, which together are unique.

    Raises
    ------
    InputError
        If both are given, or `once` is set and the request is not exactly one CloudEvent.

    Reference: draft-ietf-httpapi-idempotency-key-header, 2.1; CloudEvents 1.0, "id".
    """
    if not once:
        return header if header is None else header.strip().removeprefix(QUOTE).removesuffix(QUOTE)
    if header is not None:
        raise InputError("once: the request has an Idempotency-Key, too; use only one of the two")
    if len(events) != 1 or f"{CE}source" not in events[0] or f"{CE}id" not in events[0]:
        raise InputError(
            "once: is for one CloudEvent, which has a name of its own; others have an Idempotency-Key"
        )
    name = json.dumps([events[0][f"{CE}source"], events[0][f"{CE}id"]])
    return f"ce:{sha256(name.encode()).hexdigest()}"


def seconds_of(ttl: str | None) -> float | None:
    """Return the time to live that a query gives; InputError if it is no number of seconds above 0."""
    try:
        return None if ttl is None else checked_ttl(float(ttl))
    except ValueError:
        raise checks.wrong("ttl", ttl, "a number of seconds above 0") from None


def _objects(values: Sequence[Any]) -> Sequence[dict[str, object]]:
    for i, value in enumerate(values):
        if not isinstance(value, dict):
            raise EventError(f"event {i}: is not a JSON object, as an event must be")
    return values


def _plain(events: Sequence[dict[str, object]], moments: Sequence[str]) -> list[dict[str, Any]]:
    """Return events with their timestamps and nulls converted."""
    for i, event in enumerate(events):
        for name in moments:
            if event.get(name) is not None:
                event[name] = moment(event[name], f"event {i}: {name}")
    return [of_json(event) for event in events]


# CloudEvents.


def _binary(body: bytes, headers: Mapping[str, str]) -> dict[str, object]:
    """Return the event of a CloudEvent in binary mode: attributes are headers, data is the body."""
    attributes = {
        name.removeprefix(_HEADER): _header_value(name, value)
        for name, value in headers.items()
        if name.startswith(_HEADER)
    }
    kind = headers.get("content-type")
    if kind is not None:
        attributes["datacontenttype"] = kind
    return _cloud_event(attributes, _data(body, kind, "the data"), "the headers")


def _header_value(name: str, value: str) -> str:
    """Return the value of a header without quotes and escapes (HTTP protocol binding, 3.1.3.2)."""
    if len(value) > 1 and value[0] == value[-1] == QUOTE:
        value = _ESCAPED.sub(r"\1", value[1:-1])
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise EventError(f"the headers: {name} is not UTF-8 behind its percent signs") from None


def _data(body: bytes, kind: str | None, where: str) -> dict[str, object]:
    if not body:
        return {}
    media = JSON if kind is None else kind.partition(";")[0].strip().lower()
    if media == JSON or media.endswith("+json"):
        return _attributes_of(parse(body, "the data"), where)
    try:
        return {_DATA: body.decode("utf-8")}
    except UnicodeDecodeError:
        return {_DATA_BASE64: base64.b64encode(body).decode()}


def _structured(given: object, where: str) -> dict[str, object]:
    """Return the event of a CloudEvent in structured mode (JSON)."""
    if not isinstance(given, dict):
        raise EventError(f"{where}: is not a JSON object, as a CloudEvent must be")
    attributes = {name: value for name, value in given.items() if value is not None}
    data, encoded = attributes.pop("data", None), attributes.pop("data_base64", None)
    if encoded is not None:
        if data is not None:
            raise EventError(f"{where}: has both data and data_base64")
        try:
            content = base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise EventError(f"{where}: data_base64 is not base64") from None
        return _cloud_event(attributes, _data(content, attributes.get("datacontenttype", ""), where), where)
    return _cloud_event(attributes, {} if data is None else _attributes_of(data, where), where)


def _attributes_of(data: object, where: str) -> dict[str, object]:
    if not isinstance(data, dict) or not data:
        return {_DATA: data}
    for name in data:
        if name.startswith(CE):
            raise EventError(
                f"{where}: the data has {checks.shown(name)}: {CE} is the prefix of the CloudEvent's own attributes"
            )
    return data


def _time(at: Any, where: str) -> Timestamp:
    """Return the time of a CloudEvent, in RFC 3339: T and Z in either case, and leap seconds, which are those after."""
    text = at.upper() if isinstance(at, str) else at
    leap = _LEAP_SECOND.fullmatch(text) if isinstance(text, str) else None
    if leap is None:
        time = moment(text, where)
    else:
        time = Timestamp(moment(f"{leap[1]}59{leap[2]}", where) + 1_000_000_000)
    if not _OFFSET.search(text):
        raise EventError(f"{where} has no offset; RFC 3339 requires one")
    return time


def _cloud_event(attributes: dict[str, Any], data: dict[str, Any], where: str) -> dict[str, object]:
    for name in CE_REQUIRED:  # the library would generate some of these
        if name not in attributes:
            raise EventError(f"{where}: {name} is missing; a CloudEvent must have it")
    for name, value in attributes.items():
        if not is_attribute(value):
            raise EventError(f"{where}: {name} is not a text, boolean or 32-bit integer")
    for name in CE_DATA:
        if name in attributes:
            raise EventError(f"{where}: {name} is the data of a CloudEvent, not an attribute")
    read = dict(attributes)  # the library modifies its argument
    if (at := attributes.get("time")) is not None:
        read["time"] = _time(at, f"{where}: time")
    try:
        CloudEvent(attributes if at is None else attributes | {"time": read["time"].datetime}, None)
    except (BaseCloudEventException, TypeError, ValueError) as error:
        raise EventError(f"{where}: {' '.join(str(error).split())}") from None
    return data | {f"{CE}{name}": value for name, value in read.items()}
