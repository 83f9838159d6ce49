"""Convert STOMP messages to events, and events to messages.

Rules
-----
* Events are content. A destination is a condition on one attribute, `JMSDestination`; ``/events`` is no
  condition.
* A JSON body is an object, the event. Of any other body the headers are the attributes; ``body`` is its text, or
  ``body_base64`` its bytes in base64, and ``content-type`` its type as it was sent.
* JSON values have types. In headers, integers, decimals, ``true`` and ``false`` get the type that they look
  like.
* Conflicts are errors: an attribute may not have different values in a header and in the body.
* An event that came as text or bytes is sent as it came, with its headers; any other event is sent as JSON. So
  is text with a NUL, at which many clients end a frame whatever its length says, and text that is not valid
  UTF-8.

Reference: STOMP 1.2, "SEND", "MESSAGE", "Header content-type"; JMS 1.1, 3.4 and 3.8.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from ...protocol import checks
from ...protocol.documents import of_json
from ...protocol.errors import EventError, InputError, SelectorError
from ...protocol.json_events import parse, plain_value
from ...protocol.values import Value, normalize_wide
from ...routing.language.questions import parse_selector
from ..access import is_quick
from ..deliveries import Delivery
from .frames import Frame

EVERYTHING: Final = "/events"
"""The destination without a condition: events of all publishers, also of those without destinations."""
DESTINATION: Final = "JMSDestination"
BODY: Final = "body"
BYTES: Final = "body_base64"
BODY_KIND: Final = "content-type"
JSON: Final = "application/json"
TEXT: Final = "text/plain"
BINARY: Final = "application/octet-stream"
CHARSETS: Final = ("", "utf-8", "utf8", "us-ascii", "ascii")
"""Names of UTF-8 and of its subset; the empty one stands for no name."""

JMS_NAMES: Final = {
    "correlation-id": "JMSCorrelationID",
    "reply-to": "JMSReplyTo",
    "type": "JMSType",
    "priority": "JMSPriority",
}
HEADER_NAMES: Final = {attribute: header for header, attribute in JMS_NAMES.items()}
MEDIA_TYPES_KEPT: Final = 64

EXPIRES_MAX: Final = 2**63 - 1
DIGITS_MAX: Final = 19
EXPIRES: Final = "expires"
"""When an event expires, in milliseconds since 1970, 0 for never: as with ActiveMQ, and `JMSExpiration`."""
NOT_CONTENT: Final = frozenset(
    ("destination", "content-type", "content-length", "transaction", "receipt", EXPIRES)
)
MESSAGE_ONLY: Final = frozenset(("subscription", "message-id", "ack", "redelivered", "gaps", *NOT_CONTENT))
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,17})?", re.ASCII)


def event_of(frame: Frame) -> dict[str, Value]:
    """Return the event that a SEND carries.

    Raises
    ------
    EventError
        If it carries no valid event; the message says what to send.
    """
    said = {
        JMS_NAMES.get(name, name): typed(value)
        for name, value in frame.headers.items()
        if name not in NOT_CONTENT
    }
    told = _told(frame.headers.get("content-type", "").strip(), frame.body)
    destination = frame.headers["destination"]
    if destination != EVERYTHING:
        said[DESTINATION] = destination
    for name in said.keys() & told.keys():
        if said[name] != told[name] or type(said[name]) is not type(told[name]):
            raise EventError(f"{name} is in the headers and in the body, and differs: leave one of them out")
    return said | told


def expires_of(frame: Frame) -> float | None:
    """Return when the event of a SEND expires, in seconds since 1970; None for never.

    Raises
    ------
    EventError
        If the header is no time; the message says what to send.
    """
    given = frame.headers.get(EXPIRES, "0").strip()
    digits = given.lstrip("0")
    if (
        not (given.isascii() and given.isdigit())
        or len(digits) > DIGITS_MAX
        or int(digits or 0) > EXPIRES_MAX
    ):
        raise EventError(
            f"{EXPIRES} is {checks.shown(given)}: it must be a time in milliseconds since 1970, or 0 for never"
        )
    return int(digits or 0) / 1_000 or None


def selector_of(destination: str, selector: str) -> str:
    """Return the selector of a subscription to a destination.

    Raises
    ------
    SelectorError
        If the header is not a valid selector; the column counts from its start.
    """
    selector = selector.strip()
    quoted = destination.replace("'", "''")
    place = f"{DESTINATION} = '{quoted}'"
    if selector and destination != EVERYTHING and is_quick(selector):
        together = f"{place} AND {selector}"
        try:
            parse_selector(together)  # which keeps the result: it is parsed once
        except SelectorError:
            parse_selector(selector)  # for the column
            raise
        return together
    if selector:
        parse_selector(selector)  # parsed alone, so that it cannot close the parenthesis around it
    if destination == EVERYTHING:
        return selector or "TRUE"
    return f"{place} AND ({selector})" if selector else place


def message_of(delivery: Delivery, known: Mapping[str, str], unsayable: str = "\0") -> Frame:
    """Return the MESSAGE that carries a delivery.

    Parameters
    ----------
    delivery
        The delivery.
    known
        Headers of the frame itself: subscription, message-id and so on. They precede the attributes of the
        event.
    unsayable
        Characters that headers must not contain.
    """
    event = delivery.event
    if (until := delivery.expires_at) is not None:
        known = {**known, EXPIRES: str(round(until * 1_000))}
    destination = event.get(DESTINATION)
    there = isinstance(destination, str) and _sayable(unsayable, destination)
    headers = {**known, "destination": str(destination) if there else EVERYTHING}
    kind = event.get(BODY_KIND)
    body = _body_of(event, kind) if isinstance(kind, str) else None
    if body is not None:
        as_sent = headers | {"content-type": str(kind)}
        for attribute, value in event.items():
            name = HEADER_NAMES.get(attribute, attribute)
            if attribute not in (BODY, BYTES, DESTINATION) and name and name not in MESSAGE_ONLY:
                as_sent[name] = written(value)
        if _sayable(unsayable, *as_sent, *as_sent.values()):
            return Frame("MESSAGE", as_sent, body)
    headers["content-type"] = JSON
    return Frame("MESSAGE", headers, delivery.text.encode())


def _body_of(event: Mapping[str, object], kind: str) -> bytes | None:
    """Return the body of an event that is sent as text or as bytes, or None."""
    if not kind:
        return None
    if is_text(kind):
        text = str(plain_value(event.get(BODY, "")))
        return text.encode() if BYTES not in event and _sayable("\0", text) else None
    given = event.get(BYTES)
    if not isinstance(given, str) or BODY in event or media_type(kind)[0] == JSON:
        return None
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        return None


def _sayable(without: str, *texts: str) -> bool:
    """Return whether texts can be sent in a frame: valid in UTF-8, and without the given characters."""
    together = "".join(texts)
    try:
        together.encode()
    except UnicodeEncodeError:  # an unpaired surrogate, which JSON can represent
        return False
    return not any(character in together for character in without)


def object_of(body: bytes) -> dict[str, Value]:
    """Parse a JSON body as an event; EventError if it is invalid."""
    told = parse(body, "the body")
    if not isinstance(told, dict):
        raise EventError('the body is not a JSON object, as an event must be: write {"name": value, ...}')
    event: dict[str, Any] = {}
    for name, value in told.items():
        try:
            plain = of_json(value) if isinstance(value, dict | list) else normalize_wide(of_json(value))
        except InputError as error:
            raise EventError(f"{checks.shown(name)}: {error}") from None
        if plain is not None:
            event[name] = plain
    return event


def _told(header: str, body: bytes) -> dict[str, Value]:
    """Return what a body says, given the content-type of its frame; EventError if it is invalid."""
    kind, charset = media_type(header)
    if charset not in CHARSETS:
        raise EventError(f"charset is {checks.shown(charset)}: send text in UTF-8")
    if kind == JSON:
        return object_of(body)
    if is_text(kind) and (kind or b"\0" not in body):
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            if kind:
                raise EventError(f"the body is not UTF-8 text: send bytes as {BINARY}") from None
        else:
            told: dict[str, Value] = {BODY_KIND: header or TEXT}
            return told | ({BODY: text} if text else {})
    if kind and ("/" not in kind or kind.endswith("+json")):
        raise EventError(
            f"content-type is {checks.shown(kind)}: send an object as {JSON}, text as {TEXT}, or bytes as {BINARY}"
        )
    return {BODY_KIND: header or BINARY, BYTES: base64.b64encode(body).decode()}


def is_text(kind: str) -> bool:
    """Return whether bodies of a media type are text; those without a type are, too."""
    return not kind or kind.lower().startswith("text/")


@lru_cache(MEDIA_TYPES_KEPT)
def media_type(header: str) -> tuple[str, str]:
    """Return (type, charset) of a content-type, both in lower case; empty if absent."""
    kind, *parameters = (part.strip().lower() for part in header.split(";"))
    said = (part.partition("=") for part in parameters)
    charsets = [value.strip(' \t"') for name, _, value in said if name.strip() == "charset"]
    return kind, charsets[0] if charsets else ""


def typed(value: str) -> Value:
    """Return a header value with the type that it looks like: integer, decimal or boolean; otherwise a string."""
    if value in ("true", "false"):
        return value == "true"
    if not (found := _NUMBER.fullmatch(value)):
        return value
    if found[2]:
        return float(value)
    return int(value) if -(2**63) <= int(value) < 2**63 else value


def written(value: Value) -> str:
    """Return a value as a header value."""
    plain = plain_value(value)
    return str(plain).lower() if isinstance(plain, bool) else str(plain)
