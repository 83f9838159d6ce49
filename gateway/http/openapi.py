"""The interface in OpenAPI 3.1."""

from __future__ import annotations

from typing import Any, Final

from ...protocol.gateways import GatewayLimits
from ...protocol.json_events import JSON
from ..publisher_queue import KEY_CHARACTERS_MAX
from .answers import FORMS
from .bodies import CLOUDEVENT, CLOUDEVENTS, LINES

VERSION: Final = "1.0"

_EVENT: Final = {
    "type": "object",
    "description": "Attributes. An object is a beginning of names, an array a choice; integers have 64 bits.",
    "propertyNames": {"minLength": 1, "maxLength": 128},
    "additionalProperties": {"type": ["boolean", "number", "string", "null", "object", "array"]},
}
_PROBLEM: Final = {
    "type": "object",
    "required": ["title", "status"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "error": {
            "type": "string",
            "description": "Which error it is, for example AccessDenied or SelectorError.",
        },
        "detail": {"type": "string", "description": "What is wrong, and where."},
        "right": {"enum": ["token", "publish", "subscribe"], "description": "The right that is missing."},
        "limit": {
            "type": "string",
            "description": "The limit that was reached, as the network file names it.",
        },
    },
}
_CLOUDEVENT: Final = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
    },
}
_REFUSALS: Final = {
    "400": "What was given cannot be used; detail says what and where.",
    "401": "The token is missing, or not known.",
    "403": "A right is missing: right says which.",
    "421": "The host is not a name of this gateway.",
    "429": "A limit of the principal was reached: limit says which, Retry-After when to come again.",
    "503": "The gateway is full, or the network does not answer.",
}


def openapi(limits: GatewayLimits) -> dict[str, object]:
    """Return the description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Rayvous gateway",
            "version": VERSION,
            "description": "Publish events, and subscribe to them by their content, from outside Ray.",
        },
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "query": {"type": "apiKey", "in": "query", "name": "access_token"},
            },
            "schemas": {"Event": _EVENT, "CloudEvent": _CLOUDEVENT, "Problem": _PROBLEM},
        },
        "security": [{"token": []}, {"query": []}, {}],
        "paths": {
            "/events": {"post": _publish(limits)},
            "/subscribe": {"get": _subscribe()},
            "/acknowledge": {"post": _acknowledge()},
            "/refuse": {"post": _refuse()},
            "/durables/{name}": {"delete": _unsubscribe()},
            "/ws": {
                "get": {
                    "summary": "The same over one WebSocket, in JSON messages",
                    "responses": {"101": {"description": "Messages: see docs/gateway.md."}},
                }
            },
            "/healthz": {
                "get": _plain("Whether the gateway and its network answer", {"200": "They do."}, "503")
            },
            "/metrics": {"get": _plain("Counters for Prometheus", {"200": "Text."})},
            "/openapi.json": {"get": _plain("This description", {"200": "OpenAPI 3.1."})},
        },
    }


def _publish(limits: GatewayLimits) -> dict[str, object]:
    event, cloud = {"$ref": "#/components/schemas/Event"}, {"$ref": "#/components/schemas/CloudEvent"}
    most = {"minItems": 1, "maxItems": limits.batch_events_max}
    content: dict[str, Any] = {
        JSON: {"schema": {"oneOf": [event, {"type": "array", "items": event, **most}]}},
        **{kind: {"schema": {"type": "string", "description": "An event a line."}} for kind in LINES},
        CLOUDEVENT: {"schema": cloud},
        CLOUDEVENTS: {"schema": {"type": "array", "items": cloud, "maxItems": limits.batch_events_max}},
        "*/*": {"schema": {"description": "The data of one CloudEvent, whose attributes are ce- headers."}},
    }
    flush = _query("flush", "Answer when the events are delivered, not only accepted.", {"type": "boolean"})
    once = _query(
        "once", "Publish one CloudEvent, named by its source and id, at most once.", {"type": "boolean"}
    )
    ttl = _query(
        "ttl", "Time to live: hand the events to nobody later than so many seconds.", {"type": "number"}
    )
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Names the events: what was published under it before is not published again.",
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARACTERS_MAX},
    }
    encoding = {
        "name": "Content-Encoding",
        "in": "header",
        "description": "How the body is compressed; the limit of bytes holds for what it says, too.",
        "schema": {"enum": ["gzip", "identity"]},
    }
    moments = _query(
        "timestamp",
        "An attribute that is a moment in ISO 8601.",
        {"type": "array", "items": {"type": "string"}},
    )
    return {
        "summary": "Publish events",
        "description": f"At most {limits.batch_events_max:,} events and {limits.body_bytes_max:,} bytes. All or none. "
        "With ce- headers the body, of any type, is the data of one CloudEvent.",
        "parameters": [flush, moments, once, ttl, key, encoding],
        "requestBody": {"required": True, "content": content},
        "responses": _answers(
            {"202": "Accepted: publisher, and the numbers of the first and the last.", "200": "Delivered."},
            "400", "401", "403", "408", "409", "413", "415", "422", "429", "503",
        ),
    }  # fmt: skip


def _subscribe() -> dict[str, object]:
    text: dict[str, Any] = {"type": "string"}
    return {
        "summary": "Subscribe: server-sent events",
        "parameters": [
            _query(
                "selector", "What is wanted; not needed for a durable name that has a subscription.", text
            ),
            _query("durable", "A name under which subscription and position outlive the connection.", text),
            _query("group", "Be one of the workers that share the durable name.", {"type": "boolean"}),
            _query("group_key", "The attribute that keeps events of a group in order.", text),
            _query(
                "priority",
                "Of admission control, at most the priority_max of the token.",
                {"type": "integer"},
            ),
            _query("max_delay", "How many seconds its events may wait on their way.", {"type": "number"}),
            _query(
                "at",
                "Where a new durable name begins in the past: a time such as 2026-11-25T10:00 (of UTC), oldest, or a "
                "JSON object with a number for each publisher.",
                text,
            ),
            _query("last_per", "Begin with the last event of each value of this attribute.", text),
            _query("narrow", "Take what the right leaves of it.", {"type": "boolean"}),
            _query("after", "As Last-Event-ID.", text),
            _query("format", "How an event is written.", {"enum": list(FORMS)}),
            {
                "name": "Last-Event-ID",
                "in": "header",
                "description": "The id of the last event that was had; it and all before it are acknowledged.",
                "schema": text,
            },
        ],
        "responses": {
            "200": {
                "description": "Messages subscribed, (events, with an id), gap, held and end.",
                "content": {"text/event-stream": {"schema": text}},
            },
            **_answers({}, "400", "401", "403", "409", "429", "503", "504"),
        },
    }


def _acknowledge() -> dict[str, object]:
    alone = {"type": "boolean", "description": "Acknowledge only this one, and not those before it."}
    return _of_a_delivery("Acknowledge what a durable name has had, up to an id", {"alone": alone})


def _refuse() -> dict[str, object]:
    seconds = {"type": "number", "minimum": 0, "description": "When a worker gets it again."}
    return _of_a_delivery("Refuse an event of a group: some worker gets it again", {"seconds": seconds})


def _of_a_delivery(summary: str, options: dict[str, object]) -> dict[str, object]:
    """Return the description of a request whose body names a delivery, with what it may say besides."""
    schema = {
        "type": "object",
        "required": ["durable", "id"],
        "additionalProperties": False,
        "properties": {"durable": {"type": "string"}, "id": {"type": "string"}, **options},
    }
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {JSON: {"schema": schema}}},
        "responses": _answers(
            {"204": "Written down."}, "400", "401", "403", "408", "409", "413", "429", "503"
        ),
    }


def _unsubscribe() -> dict[str, object]:
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "summary": "End a durable name for good",
        "parameters": [name, _query("group", "Whether it is a group.", {"type": "boolean"})],
        "responses": _answers({"204": "Ended."}, "400", "401", "403", "429", "503"),
    }


def _plain(summary: str, answers: dict[str, str], *refusals: str) -> dict[str, Any]:
    return {"summary": summary, "security": [], "responses": _answers(answers, *refusals)}


def _query(name: str, description: str, schema: dict[str, object]) -> dict[str, object]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _answers(answers: dict[str, str], *refusals: str) -> dict[str, object]:
    told: dict[str, Any] = {status: {"description": text} for status, text in answers.items()}
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status in (*refusals, "421"):  # any request may address another host
        told[status] = {"description": _REFUSALS.get(status, "Refused: detail says why."), "content": problem}
    return told
