"""The HTTP application: routes, authentication, body limits and responses. An ASGI application.

Rules
-----
* Every request is its own session, closed at the end of the request. The token is in ``Authorization:
  Bearer``, or in the query as ``access_token`` for clients that cannot set headers (RFC 6750, 2.1 and 2.3).
* A body is read only up to its limit, and within `request_seconds`. All bodies together have a limit, too.
* A refusal is a problem (RFC 9457) that names the missing right or the limit that was reached.
* A request that states its body length in two ways is rejected, and its connection is closed: a proxy before
  the gateway may have used the other one (RFC 9112, 6.3 and 11.2).
* A body may be compressed with gzip; what it says has the limit of a body.
* Every request names a host that is one of the gateway's. There are no redirects.
* Pages for people are routes that the caller supplies. They come after the paths of the interface.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any, Final

from ...protocol import checks
from ...protocol.errors import InputError, LimitReached, RayvousError
from ...protocol.extras import extra
from ...protocol.json_events import parse
from ..core import Gateway, Session
from ..origins import check_host, check_origin
from ..terms import Terms
from .answers import FORMS, accepted_members, headers_of, problem
from .bodies import events_of, key_of, may_be_empty, seconds_of
from .encodings import decompressed, is_compressed
from .events import EventStream
from .metrics import CONTENT_TYPE, metrics_of
from .openapi import openapi
from .sockets import Socket, refuse

with extra("gateway"):
    from starlette.applications import Starlette
    from starlette.datastructures import Headers, QueryParams
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware
    from starlette.requests import ClientDisconnect, HTTPConnection, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import BaseRoute, Route, WebSocketRoute
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.websockets import WebSocket

_LOG = logging.getLogger("rayvous.gateway")

YES: Final = ("", "1", "true", "yes")
NO: Final = ("0", "false", "no")
PROBLEM: Final = "application/problem+json"
NOT_KEPT: Final = {"Cache-Control": "no-store"}
"""The URL of a response may contain a token (RFC 6750, 2.3), so responses are not cached."""

Answer = Callable[[Request], Awaitable[Response]]


def app_of(
    gateway: Gateway,
    *,
    origins: Sequence[str] = (),
    hosts: Sequence[str] = ("*",),
    pages: Sequence[BaseRoute] = (),
) -> Starlette:
    """Return the application over a gateway.

    Parameters
    ----------
    gateway
        The gateway to serve.
    origins
        Origins of other hosts whose web pages are allowed; ``"*"`` allows all.
    hosts
        Names by which clients address the gateway (`origins.check_host`).
    pages
        Further routes, for example of pages for people.
    """
    paths = Paths(gateway, origins)
    middleware = [Middleware(_Framed, header_bytes_max=gateway.limits.header_bytes_max, hosts=hosts)]
    if origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(origins),
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["*"],
            )
        )
    routes = [
        Route("/events", _told(paths.publish), methods=["POST"]),
        Route("/subscribe", _told(paths.subscribe), methods=["GET"]),
        Route("/acknowledge", _told(paths.acknowledge), methods=["POST"]),
        Route("/refuse", _told(paths.refuse), methods=["POST"]),
        Route("/durables/{name:path}", _told(paths.unsubscribe), methods=["DELETE"]),
        Route("/healthz", paths.health, methods=["GET"]),
        Route("/metrics", paths.metrics, methods=["GET"]),
        Route("/openapi.json", paths.openapi, methods=["GET"]),
        WebSocketRoute("/ws", paths.socket),
        *pages,
    ]
    app = Starlette(routes=routes, middleware=middleware, exception_handlers={HTTPException: _no_such_path})
    app.router.redirect_slashes = False  # it would redirect to http, and to the host that the request names
    return app


class _Framed:
    """Rejects requests for another host, with ambiguous framing, or with too large a header."""

    def __init__(self, app: ASGIApp, header_bytes_max: int, hosts: Sequence[str]) -> None:
        self._app, self._header_bytes_max, self._hosts = app, header_bytes_max, tuple(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] in ("http", "websocket"):
                self._check(scope["type"], scope["headers"])
        except RayvousError as error:
            if scope["type"] == "websocket":
                await refuse(WebSocket(scope, receive, send), error)
                return
            answer = _problem(error)
            answer.headers["Connection"] = "close"
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check(self, kind: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        for name, value in headers:
            if name.lower() == b"host":
                check_host(value.decode("latin-1"), self._hosts)
        if kind != "http":
            return
        if {b"content-length", b"transfer-encoding"} <= {name.lower() for name, _ in headers}:
            raise InputError("Content-Length and Transfer-Encoding: a request must have only one of the two")
        if sum(len(name) + len(value) for name, value in headers) > self._header_bytes_max:
            raise LimitReached(
                f"the header is larger than {self._header_bytes_max:,} bytes (header_bytes_max)",
                "header_bytes_max",
            )


def _no_such_path(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = f"{request.method} {checks.shown(request.url.path)}: /openapi.json says what there is"
    told = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
    return JSONResponse(told, status, error.headers, media_type=PROBLEM)


def _told(path: Answer) -> Answer:
    """Return a handler that turns the refusals of `path` into problems."""

    async def answered(request: Request) -> Response:
        try:
            return await path(request)
        except RayvousError as error:
            return _problem(error)
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # the client is gone
        except TimeoutError:
            return _problem(
                LimitReached("the request did not come in in time (request_seconds)", "request_seconds")
            )
        except Exception:
            _LOG.exception("a request has failed: %s %r", request.method, request.url.path)
            return JSONResponse({"title": "the gateway has failed", "status": 500}, 500, media_type=PROBLEM)

    return answered


def _problem(error: RayvousError) -> Response:
    headers = headers_of(error)
    told = problem(error)
    if getattr(error, "limit", None) == "request_seconds":
        told |= {"status": 408, "title": HTTPStatus.REQUEST_TIMEOUT.phrase}
        headers["Connection"] = "close"
    return JSONResponse(told, told["status"], headers | NOT_KEPT, media_type=PROBLEM)


class Paths:
    """The handlers of the paths."""

    def __init__(self, gateway: Gateway, origins: Sequence[str] = ()) -> None:
        self._gateway, self._origins = gateway, frozenset(origins)

    async def _session(self, connection: HTTPConnection) -> Session:
        header = connection.headers.get("authorization", "")
        scheme, _, token = header.partition(" ")
        if header and (scheme.lower() != "bearer" or not token.strip()):
            raise InputError("Authorization: it must be Bearer and a token")
        return await self._gateway.open(token.strip() or connection.query_params.get("access_token"))

    async def _body(self, request: Request, kept: ExitStack) -> bytes:
        """Return the body of a request, which counts as in memory until `kept` is closed."""
        limits = self._gateway.limits
        compressed = is_compressed(request.headers.get("content-encoding", ""))
        parts = _Parts(self._gateway, kept)
        announced = request.headers.get("content-length", "0")
        if announced.isdigit() and int(announced) > limits.body_bytes_max:
            raise _too_large(limits.body_bytes_max)
        async with asyncio.timeout(limits.request_seconds):
            async for part in request.stream():
                parts.add(part)
        if not compressed:
            return parts.joined()
        plain = _Parts(self._gateway, kept)  # it may be as large as a body that is not compressed
        for part in decompressed(parts.joined()):
            plain.add(part)
        return plain.joined()

    async def publish(self, request: Request) -> Response:
        """Publish the events of a request."""
        query = request.query_params
        flush = _flag(query, "flush")
        async with await self._session(request) as session:
            with ExitStack() as kept:
                body = await self._body(request, kept)
                headers = _headers(request.headers)
                events = events_of(body, headers, query.getlist("timestamp"))
                if not events and may_be_empty(headers):
                    return Response(status_code=HTTPStatus.NO_CONTENT)
                key = key_of(request.headers.get("idempotency-key"), events, once=_flag(query, "once"))
                ttl = seconds_of(query.get("ttl"))
                accepted = await session.publish(events, flush=flush, key=key, ttl=ttl)
        return JSONResponse(accepted_members(accepted), HTTPStatus.OK if flush else HTTPStatus.ACCEPTED)

    async def subscribe(self, request: Request) -> Response:
        """Open a stream of server-sent events."""
        query = request.query_params
        form = checks.one_of("format", query.get("format", FORMS[0]), FORMS)
        session = await self._session(request)
        if request.method == "HEAD":
            await session.close()
            return Response(media_type=EventStream.media_type)
        try:
            stream = await session.subscribe(
                query.get("selector"),
                durable=query.get("durable"),
                narrow=_flag(query, "narrow"),
                after=request.headers.get("last-event-id") or query.get("after"),
                group=_group(query),
                terms=Terms.of(*map(query.get, ("priority", "max_delay", "at", "last_per"))),
            )
        except BaseException:
            await session.close()
            raise
        return EventStream(self._gateway, session, stream, form)  # type: ignore[arg-type]

    async def acknowledge(self, request: Request) -> Response:
        """Acknowledge deliveries of a durable name."""
        async with await self._session(request) as session:
            durable, id, given = await self._delivery(request, "alone")
            await session.acknowledge(durable, id, alone=checks.flag("alone", given.get("alone", False)))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def refuse(self, request: Request) -> Response:
        """Refuse a delivery of a group."""
        async with await self._session(request) as session:
            durable, id, given = await self._delivery(request, "seconds")
            await session.refuse(durable, id, given.get("seconds", 0.0))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _delivery(self, request: Request, option: str) -> tuple[str, str, dict[str, Any]]:
        """Return the durable name and the id of the delivery that a body names, and the body with its option."""
        with ExitStack() as kept:
            given = parse(await self._body(request, kept), "the body")
        if not isinstance(given, dict) or given.keys() - {option} != {"durable", "id"}:
            raise InputError(
                f"the body: it must be a JSON object with durable and id, and {option} if wanted"
            )
        return checks.text("durable", given["durable"]), checks.text("id", given["id"]), given

    async def unsubscribe(self, request: Request) -> Response:
        """End a durable name permanently."""
        async with await self._session(request) as session:
            group = _flag(request.query_params, "group")
            await session.unsubscribe(request.path_params["name"], group=group)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def socket(self, socket: WebSocket) -> None:
        """Serve a WebSocket."""
        try:
            check_origin(socket.headers, self._origins)
            session = await self._session(socket)
        except RayvousError as error:
            await refuse(socket, error)
            return
        await socket.accept()
        await Socket(self._gateway, session, socket).serve()

    # Health, metrics and description of the gateway.

    async def health(self, request: Request) -> Response:
        """Report whether the gateway and its network respond."""
        alive = await self._gateway.upstream.alive()
        told = {
            "network": self._gateway.upstream.name,
            "status": "ok" if alive else "the network does not answer",
        }
        return JSONResponse(told, HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE, NOT_KEPT)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics in the Prometheus format."""
        return Response(metrics_of(self._gateway), media_type=CONTENT_TYPE)

    async def openapi(self, request: Request) -> Response:
        """Describe the interface."""
        return JSONResponse(openapi(self._gateway.limits))


def _headers(given: Headers) -> dict[str, str]:
    return dict(given.items())


class _Parts:
    """The parts of a body that have come; they count as in memory until `kept` is closed."""

    def __init__(self, gateway: Gateway, kept: ExitStack) -> None:
        self._gateway, self._kept = gateway, kept
        self._size = 0
        self._parts: list[bytes] = []

    def add(self, part: bytes) -> None:
        """Add a part, unless the body becomes too large."""
        most = self._gateway.limits.body_bytes_max
        self._size += len(part)
        if self._size > most:
            raise _too_large(most)
        self._kept.enter_context(self._gateway.working(len(part)))
        self._parts.append(part)

    def joined(self) -> bytes:
        """Return the whole body."""
        return b"".join(self._parts)


def _too_large(most: int) -> LimitReached:
    return LimitReached(f"the body is larger than {most:,} bytes (body_bytes_max)", "body_bytes_max")


def _group(query: QueryParams) -> dict[str, object] | None:
    """Return the settings of the group that a request asks for; None if it asks for none."""
    key = query.get("group_key")
    if not _flag(query, "group"):
        if key is not None:
            raise InputError("group_key: only a group has it: add group=true")
        return None
    return {} if key is None else {"group_key": key}


def _flag(query: QueryParams, name: str) -> bool:
    given = query.get(name)
    if given is not None and given.lower() not in (*YES, *NO):
        raise checks.wrong(name, given, "true or false")
    return given is not None and given.lower() in YES
