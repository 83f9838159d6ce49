"""Responses: errors as problems (RFC 9457), deliveries as JSON and as server-sent events. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias, get_args

from ...protocol.errors import (
    AccessDenied,
    BrokerUnavailable,
    InputError,
    KeyReused,
    LimitReached,
    NameTaken,
    NotGiven,
    PublicationUnderWay,
    RayvousError,
    StreamEnded,
    SubscriptionRejected,
    SubscriptionTimeout,
)
from ...protocol.json_events import cloud_event, iso, plain_value
from ..core import Accepted
from ..deliveries import Delivery
from ..origins import OtherHost
from ..queues import Gap
from ..streams import Item, Stream
from .bodies import UnknownType
from .encodings import ACCEPTED, UnknownEncoding

Form: TypeAlias = Literal["json", "cloudevents"]
FORMS: Final = get_args(Form)
TOO_LARGE: Final = ("batch_events_max", "body_bytes_max")
BUSY: Final = ("bodies_bytes_max", "publishing_events_max")
REASON_BYTES_MAX: Final = 120
RETRY_MILLISECONDS: Final = 500

_STATUS: Final[tuple[tuple[type[RayvousError], HTTPStatus], ...]] = (
    (UnknownType, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (UnknownEncoding, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (OtherHost, HTTPStatus.MISDIRECTED_REQUEST),
    (KeyReused, HTTPStatus.UNPROCESSABLE_ENTITY),
    (PublicationUnderWay, HTTPStatus.CONFLICT),
    (NameTaken, HTTPStatus.CONFLICT),
    (NotGiven, HTTPStatus.CONFLICT),
    (InputError, HTTPStatus.BAD_REQUEST),
    (SubscriptionRejected, HTTPStatus.CONFLICT),
    (SubscriptionTimeout, HTTPStatus.GATEWAY_TIMEOUT),
    (BrokerUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (StreamEnded, HTTPStatus.GONE),
)


def status_of(error: RayvousError) -> HTTPStatus:
    """Return the HTTP status of an error."""
    if isinstance(error, AccessDenied):
        return HTTPStatus.UNAUTHORIZED if error.right == "token" else HTTPStatus.FORBIDDEN
    if isinstance(error, LimitReached):
        if error.limit == "header_bytes_max":
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        if error.limit in TOO_LARGE:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        return HTTPStatus.SERVICE_UNAVAILABLE if error.limit in BUSY else HTTPStatus.TOO_MANY_REQUESTS
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_GATEWAY)


def accepted_members(accepted: Accepted) -> dict[str, Any]:
    """Return the members of the response to accepted events, newly accepted or repeated."""
    told = {"publisher": accepted.publisher, "first": accepted.first, "last": accepted.last}
    return told | ({"repeated": True} if accepted.repeated else {})


def closing_reason(text: str) -> str:
    """Return a text truncated to what a WebSocket close frame can hold."""
    return text.encode()[:REASON_BYTES_MAX].decode(errors="ignore")


def problem(error: RayvousError) -> dict[str, Any]:
    """Return an error as a problem: its kind, and what is wrong."""
    status = status_of(error)
    told: dict[str, Any] = {
        "type": "about:blank",
        "title": status.phrase,
        "status": int(status),
        "error": type(error).__name__,
        "detail": str(error),
    }
    if isinstance(error, AccessDenied):
        told["right"] = error.right
    if isinstance(error, LimitReached):
        told["limit"] = error.limit
    return told


def headers_of(error: RayvousError) -> dict[str, str]:
    """Return the headers that go with an error."""
    if isinstance(error, AccessDenied) and error.right == "token":
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, UnknownEncoding):
        return {"Accept-Encoding": ACCEPTED}
    if isinstance(error, LimitReached | PublicationUnderWay) and error.after_seconds is not None:
        return {"Retry-After": str(max(1, math.ceil(error.after_seconds)))}
    return {}


def delivery_text(item: Delivery, form: Form, network: str) -> str:
    """Return a delivery as JSON on one line."""
    if form == "cloudevents":
        event = {name: plain_value(value) for name, value in item.event.items()}
        return cloud_event(item.text, event, item.publisher, item.sequence, item.published_at, network)
    return "{" + delivery_members(item) + "}"


def delivery_members(item: Delivery) -> str:
    """Return a delivery as members of a JSON object, without the braces."""
    return (
        f'"id":{json.dumps(item.id)},"publisher":{json.dumps(item.publisher)},"sequence":{item.sequence},'
        f'"published_at":"{iso(item.published_at)}",'
        + ("" if (until := item.expires_at) is None else f'"expires_at":"{iso(until)}",')
        + (f'"deliveries":{item.deliveries},' if item.deliveries else "")
        + f'"event":{item.text}'
    )


# Server-sent events (WHATWG HTML, section 9.2).

HEARTBEAT: Final = b":\n\n"


def told(kind: str, data: Mapping[str, object]) -> bytes:
    """Return a control message of the stream."""
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def subscribed_members(stream: Stream) -> dict[str, Any]:
    """Return the members of the answer to a subscription; `doubts` only if there are any."""
    told = {"selector": str(stream.filter), "durable": stream.durable}
    return told | ({"doubts": list(stream.doubts)} if stream.doubts else {})


def opening(data: Mapping[str, object]) -> bytes:
    """Return the start of a stream: the reconnection delay, and what the stream delivers."""
    return f"retry: {RETRY_MILLISECONDS}\n".encode() + told("subscribed", data)


def sent(item: Item, form: Form, network: str) -> bytes:
    """Return one item of a stream."""
    if isinstance(item, Gap):
        return told("gap", item.to_dict())
    return f"id: {item.id}\ndata: {delivery_text(item, form, network)}\n\n".encode()
