"""Drives an ASGI application without sockets: requests, continuous streams, WebSockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from rayvous.gateway.core import Gateway
from rayvous.gateway.http.app import app_of


class Answer:
    def __init__(self) -> None:
        self.status, self.body = 0, b""
        self.headers: dict[str, str] = {}
        self.ended = False
        self.came = asyncio.Event()
        self.taking = asyncio.Event()
        self.taking.set()

    async def send(self, message: Mapping[str, Any]) -> None:
        await self.taking.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"")
            self.ended = not message.get("more_body", False)
        self.came.set()

    def json(self) -> Any:
        return json.loads(self.body)

    async def messages(self, count: int) -> list[dict[str, str]]:
        """Wait for the first messages of a stream and return them, without comments."""
        while True:
            blocks = [block for block in self.body.decode().split("\n\n")[:-1] if not block.startswith(":")]
            if len(blocks) >= count or self.ended:
                return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]
            self.came.clear()
            await self.came.wait()


class Wire:
    """The messages of one WebSocket, in both directions."""

    def __init__(self) -> None:
        self.to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.from_app: asyncio.Queue[Any] = asyncio.Queue()

    async def ask(self, **members: Any) -> None:
        await self.text(json.dumps(members))

    async def text(self, text: str) -> None:
        await self.to_app.put({"type": "websocket.receive", "text": text})

    async def told(self) -> Any:
        message = await self.from_app.get()
        return json.loads(message["text"]) if message["type"] == "websocket.send" else message


class Web:
    """Sends requests to the application of a gateway."""

    def __init__(self, gateway: Gateway, **options: Any) -> None:
        self.gateway, self.app = gateway, app_of(gateway, **options)

    def _scope(
        self, kind: str, path: str, headers: Mapping[str, str], query: Any, token: str | None
    ) -> dict[str, Any]:
        given = {"host": "gateway", **headers}
        if token is not None:
            given["authorization"] = f"Bearer {token}"
        return {
            "type": kind,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": urlencode(query or {}, doseq=True).encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("gateway", 80),
            "subprotocols": [],
        }

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes | None] = b"",
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        query: Any = None,
    ) -> AsyncIterator[Answer]:
        answer, gone = Answer(), asyncio.Event()
        parts = [body] if isinstance(body, bytes) else list(body)  # None: more is announced but never arrives
        waiting = [
            {"type": "http.request", "body": part, "more_body": number < len(parts)}
            for number, part in enumerate(parts, 1)
            if part is not None
        ]

        async def receive() -> dict[str, Any]:
            if waiting:
                return waiting.pop(0)
            await gone.wait()
            return {"type": "http.disconnect"}

        scope = self._scope("http", path, headers or {}, query, token) | {"method": method}
        work = asyncio.ensure_future(self.app(scope, receive, answer.send))
        work.add_done_callback(lambda _: (setattr(answer, "ended", True), answer.came.set()))
        try:
            yield answer
        finally:
            gone.set()
            await work

    async def ask(self, *args: Any, **kwargs: Any) -> Answer:
        async with self.open(*args, **kwargs) as answer:
            while not answer.ended:
                answer.came.clear()
                await answer.came.wait()
        return answer

    async def publish(self, token: str | None, *events: Any) -> Answer:
        headers = {"content-type": "application/json"}
        return await self.ask(
            "POST", "/events", json.dumps(list(events)).encode(), token=token, headers=headers
        )

    @asynccontextmanager
    async def socket(
        self, token: str | None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Wire]:
        wire = Wire()
        await wire.to_app.put({"type": "websocket.connect"})
        scope = self._scope("websocket", "/ws", headers or {}, None, token)
        work = asyncio.ensure_future(self.app(scope, wire.to_app.get, wire.from_app.put))
        accepted = await wire.from_app.get()
        assert accepted["type"] == "websocket.accept"
        try:
            yield wire
        finally:
            await wire.to_app.put({"type": "websocket.disconnect", "code": 1000})
            await work


@pytest.fixture
def web(gateway: Callable[..., Gateway]) -> Callable[..., Web]:
    """Return a factory of applications: ``web(limits, access, network, origins=...)``."""
    return lambda *args, **options: Web(gateway(*args), **options)
