"""Events as JSON text: strict parsing, values that JSON lacks, and deliveries as CloudEvents. Pure.

Rules
-----
* JSON is parsed as RFC 8259 defines it: UTF-8, no NaN, no Infinity, no unpaired surrogates. Every protocol and
  verb that takes JSON of clients uses `parse`. A number too large for a float, such as ``1e400``, is rejected:
  it would become an infinity, which no JSON can give back.
* JSON has no timestamps: attributes that the client names as timestamps are parsed as ISO 8601, and a timestamp
  is written as an ISO 8601 string. Numbers that JSON cannot represent are the strings ``"Infinity"`` and
  ``"-Infinity"``.
* The attributes of a CloudEvent are attributes under ``ce_`` of the event, and so is data that is not an object
  (``ce_data``, ``ce_data_base64``), so the same CloudEvent is delivered.
  Any other event is delivered as the data of a new CloudEvent.

Source: RFC 8259; CloudEvents 1.0.2, JSON event format, sections 2 to 4. The mapping of attributes is ours (decision
0059).
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from .checks import shown
from .errors import EventError
from .published import bounded_one
from .values import Timestamp, is_null, moment_of

CE: Final = "ce_"
CE_REQUIRED: Final = ("specversion", "id", "source", "type")
CE_DATA: Final = ("data", "data_base64")
"""Under `CE`: the data of a CloudEvent that is not an object with attributes. No attribute may have these names."""
JSON: Final = "application/json"
_VERSION: Final = "1.0"
_INTEGER_END: Final = 2**31
"""Integers of a CloudEvent have 32 bits ("Type System")."""


def parse(text: bytes | str, where: str) -> Any:
    """Parse JSON strictly.

    Raises
    ------
    EventError
        If it is not valid JSON; the message starts with `where`.
    """
    try:
        whole = text if isinstance(text, str) else text.decode("utf-8")
        value = _DECODER.decode(whole)
        if "\\ud" in whole or "\\uD" in whole:
            # This rejects an unpaired surrogate, which cannot be forwarded.
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise EventError(f"{where}: is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise EventError(f"{where}: is not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise EventError(f"{where}: has half a surrogate pair") from None
    except ValueError as error:
        raise EventError(f"{where}: is not JSON: {error}") from None
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in _INFINITE:
        raise ValueError(f"{shown(text)} is too large: numbers have 64 bits")
    return value


_INFINITE: Final = (math.inf, -math.inf)
_DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_constant)


def moment(value: object, where: str) -> Timestamp:
    """Parse an ISO 8601 timestamp; EventError if it is invalid."""
    try:
        return moment_of(value)
    except EventError as error:
        raise EventError(f"{where}: {error}") from None


def plain_value(value: object) -> Any:
    """Return a value, nested or not, as a JSON value."""
    if isinstance(value, dict):
        return {name: plain_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain_value(inner) for inner in value]
    if is_null(value):
        return None
    if type(value) is Timestamp:
        return value.isoformat()
    if type(value) is float and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


def iso(seconds: float) -> str:
    """Return a time of publication in ISO 8601, in UTC with millisecond precision."""
    at = datetime.datetime.fromtimestamp(bounded_one(seconds), datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# CloudEvents.


def is_attribute(value: object) -> bool:
    """Return whether an attribute of a CloudEvent may have this value."""
    if isinstance(value, int):
        return -_INTEGER_END <= value < _INTEGER_END  # includes bool
    return isinstance(value, str)


def cloud_event(
    text: str, event: Mapping[str, object], publisher: str, sequence: int, at: float, network: str
) -> str:
    """Return a delivery as a structured CloudEvent: the published one, or a new one around any other event.

    Parameters
    ----------
    text, event
        The event, as JSON text and as attributes with JSON values.
    publisher, sequence, at
        Its publisher, its sequence number there, and its publication time.
    network
        The name of the network.
    """
    envelope = {name.removeprefix(CE): value for name, value in event.items() if name.startswith(CE)}
    rest = {name: value for name, value in event.items() if not name.startswith(CE)}
    data = {name: envelope.pop(name) for name in CE_DATA if name in envelope} or (
        {"data": rest} if rest else {}
    )
    required = [envelope.get(name) for name in CE_REQUIRED]
    if (
        required[0] != _VERSION
        or not all(isinstance(value, str) and value for value in required)
        or not all(map(is_attribute, envelope.values()))
        or len(data) > 1
        or (rest and data != {"data": rest})
        or not isinstance(data.get("data_base64", ""), str)
    ):
        head = {
            "specversion": _VERSION,
            "id": str(sequence),
            "source": f"/rayvous/{network}/{publisher}",
            "type": "rayvous.event",
            "time": iso(at),
            "datacontenttype": JSON,
        }
        return f'{json.dumps(head)[:-1]}, "data": {text}}}'
    return json.dumps(envelope | data)
