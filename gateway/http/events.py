"""A subscription as server-sent events: a response that lasts until its client disconnects or its stream ends.

Rules
-----
* Available items are written at once. A write that the client does not accept within `stall_seconds` ends the
  response.
* An idle stream sends a heartbeat every `heartbeat_seconds`, and so detects that its client is gone.
* A client of server-sent events acknowledges by reconnecting: its ``Last-Event-ID`` acknowledges what it
  received. A durable stream that may deliver no more before the next acknowledgement therefore ends its
  response, and the client reconnects at once by itself.
* The end of a stream, with its reason, is sent before the response ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from contextlib import suppress

from ...protocol.errors import StreamEnded
from ...protocol.extras import extra
from ..core import Gateway, Session, Stream
from .answers import HEARTBEAT, Form, opening, sent, subscribed_members, told

with extra("gateway"):
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send


class EventStream(Response):
    """Sends the items of a stream, and closes its session at the end.

    Parameters
    ----------
    gateway, session, stream
        The gateway, session and stream of the response.
    form
        The format of an event.
    """

    media_type = "text/event-stream"

    def __init__(self, gateway: Gateway, session: Session, stream: Stream, form: Form) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._gateway, self._session, self._stream, self._form = gateway, session, stream, form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client disconnects, a write stalls, or the stream ends."""
        tasks = [asyncio.ensure_future(work) for work in (self._until_gone(receive), self._write_all(send))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._session.close()
        for task in done:
            with suppress(
                TimeoutError
            ):  # stalled: the server closes a connection whose response is incomplete
                task.result()

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _write_all(self, send: Send) -> None:
        stream, limits, network = self._stream, self._gateway.limits, self._gateway.upstream.name
        await self._write(
            send, {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        await self._body(send, opening(subscribed_members(stream)))
        try:
            while not stream.held:
                items = await stream.receive(timeout_seconds=limits.heartbeat_seconds)
                text = b"".join(sent(item, self._form, network) for item in items)
                await self._body(send, text or HEARTBEAT)
                self._gateway.counts["delivered"] += len(items)
            await self._body(send, told("held", {"reason": "come back after the last id: it acknowledges"}))
        except StreamEnded as end:
            await self._body(send, told("end", {"reason": str(end)}))
        await self._write(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _body(self, send: Send, data: bytes) -> None:
        await self._write(send, {"type": "http.response.body", "body": data, "more_body": True})

    async def _write(self, send: Send, message: MutableMapping[str, object]) -> None:
        async with asyncio.timeout(self._gateway.limits.stall_seconds):
            await send(message)
