"""WebSocket: one connection that publishes, subscribes and acknowledges, in messages that are JSON objects.

Rules
-----
* Requests are answered in order, with their ``ref`` if they have one. A plain "done" is sent only for a
  request with a ``ref``. A refusal is a message, and the connection continues. A message that is not a JSON
  object ends the connection.
* Each stream has a name in its connection; its deliveries carry the name. Streams are sent concurrently.
* A client that accepts nothing for `stall_seconds` is disconnected.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from ...protocol import checks
from ...protocol.errors import EventError, InputError, LimitReached, RayvousError, StreamEnded
from ...protocol.extras import extra
from ...protocol.json_events import moment, parse
from ..core import Gap, Gateway, Session, Stream
from ..group_streams import require_group
from ..terms import Terms
from .answers import (
    FORMS,
    accepted_members,
    closing_reason,
    delivery_members,
    delivery_text,
    problem,
    subscribed_members,
)

with extra("gateway"):
    from starlette.websockets import WebSocket, WebSocketDisconnect

GOING_AWAY: Final = 1001
UNSUPPORTED: Final = 1003
POLICY: Final = 1008
FAILED: Final = 1011
NAME_CHARACTERS_MAX: Final = 128
DONE: Final = {"type": "done"}

_LOG = logging.getLogger("rayvous.gateway")


async def refuse(socket: WebSocket, error: RayvousError) -> None:
    """Accept a connection, send the reason for the refusal, and close it: browsers cannot read a refused handshake."""
    await socket.accept()
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.send_text(json.dumps({"type": "error", "error": problem(error)}))
        await socket.close(POLICY, type(error).__name__)


class Socket:
    """One accepted WebSocket connection.

    Parameters
    ----------
    gateway, session
        The gateway and session that it belongs to.
    socket
        The connection.
    """

    def __init__(self, gateway: Gateway, session: Session, socket: WebSocket) -> None:
        self._gateway, self._session, self._socket = gateway, session, socket
        self._streams: dict[str, Stream] = {}
        self._senders: dict[str, asyncio.Task[None]] = {}
        self._begin: tuple[str, Stream, Any] | None = None
        self._numbers = 0
        self._asks: dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]] = {
            "publish": self._publish,
            "subscribe": self._subscribe,
            "acknowledge": self._acknowledge,
            "refuse": self._refuse,
            "unsubscribe": self._unsubscribe,
        }

    async def serve(self) -> None:
        """Answer requests until either side ends the connection."""
        code, reason = GOING_AWAY, ""
        try:
            while True:
                asked = await self._next()
                if asked is not None:
                    await self._answer(asked)
        except WebSocketDisconnect:
            return
        except EventError as error:
            code, reason = UNSUPPORTED, str(error)
        except TimeoutError:
            code, reason = POLICY, "too slow"
        except Exception:
            _LOG.exception("a connection has failed")
            code, reason = FAILED, "the gateway has failed"
        finally:
            for sender in self._senders.values():
                sender.cancel()
            await asyncio.gather(*self._senders.values(), return_exceptions=True)
            await self._session.close()
        await self._end(code, reason)

    async def _end(self, code: int, reason: str) -> None:
        """Close the connection, if the client is still there."""
        with suppress(RuntimeError, TimeoutError, WebSocketDisconnect):  # the client has gone already
            async with asyncio.timeout(self._gateway.limits.stall_seconds):
                await self._socket.close(code, closing_reason(reason))

    async def _next(self) -> dict[str, Any] | None:
        """Return the next message; None if there was no memory for it, after an error message to the client."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        text = message.get("text")
        if text is None:
            raise EventError("a message must be text")
        try:
            with self._gateway.working(len(text)):
                given = parse(text, "the message")
        except LimitReached as error:  # no ref: the message was not parsed
            await self._send(json.dumps({"type": "error", "error": problem(error)}))
            return None
        if not isinstance(given, dict):
            raise EventError("a message must be a JSON object")
        return given

    async def _answer(self, asked: dict[str, object]) -> None:
        ref = asked.pop("ref", None)
        try:
            if isinstance(ref, dict | list) or len(str(ref)) > NAME_CHARACTERS_MAX:
                ref = None
                raise InputError(f"ref must be a number or a text of up to {NAME_CHARACTERS_MAX} characters")
            kind = checks.one_of("type", asked.pop("type", None), self._asks)
            answer = await self._asks[kind](asked)
        except RayvousError as error:
            answer = {"type": "error", "error": problem(error)}
        if ref is not None:
            answer["ref"] = ref
        if ref is not None or answer != DONE:
            await self._send(json.dumps(answer))
        begin, self._begin = self._begin, None
        if begin is not None:  # deliveries follow the answer
            name, stream, form = begin
            self._senders[name] = asyncio.get_running_loop().create_task(self._bring(name, stream, form))

    async def _send(self, text: str) -> None:
        async with asyncio.timeout(self._gateway.limits.stall_seconds):
            await self._socket.send_text(text)

    # Requests of a client.

    async def _publish(self, asked: Mapping[str, object]) -> dict[str, Any]:
        given = _members(
            asked, "publish", events=list, flush=bool, timestamps=list, key=str, ttl=(int, float)
        )
        events = given["events"]
        for event in events:
            checks.instance("events", event, dict, "a list of JSON objects", EventError)
        for name in dict.fromkeys(checks.texts("timestamps", given.get("timestamps", []))):
            for event in events:
                if event.get(name) is not None:
                    event[name] = moment(event[name], name)
        how = {name: given[name] for name in ("flush", "key", "ttl") if name in given}
        accepted = await self._session.publish(events, **how)
        return {"type": "accepted"} | accepted_members(accepted)

    async def _subscribe(self, asked: Mapping[str, object]) -> dict[str, Any]:
        known = {"selector": str, "durable": str, "narrow": bool, "after": str, "stream": str, "format": str}
        given = _members(
            asked,
            "subscribe",
            **known,
            group=bool,
            group_key=str,
            priority=int,
            max_delay=(int, float),
            at=(str, int, float, dict),
            last_per=str,
        )
        begins = given.pop("at", None), given.pop("last_per", None)
        given["terms"] = Terms(given.pop("priority", 0), given.pop("max_delay", None), *begins)
        key = given.pop("group_key", None)
        if given.pop("group", False):
            given["group"] = {} if key is None else {"group_key": key}
        elif key is not None:
            raise InputError("group_key: only a group has it: add group")
        form = checks.one_of("format", given.pop("format", FORMS[0]), FORMS)
        self._numbers += 1
        name = given.pop("stream", str(self._numbers))
        if not 0 < len(name) <= NAME_CHARACTERS_MAX or name in self._streams:
            raise checks.wrong("stream", name, f"a new name of 1 to {NAME_CHARACTERS_MAX} characters")
        stream = await self._session.subscribe(given.pop("selector", None), **given)
        self._streams[name] = stream
        self._begin = name, stream, form
        return {"type": "subscribed", "stream": name} | subscribed_members(stream)

    async def _acknowledge(self, asked: Mapping[str, object]) -> dict[str, Any]:
        given = _members(asked, "acknowledge", stream=str, id=str, alone=bool)
        stream = self._streams.get(given["stream"])
        if stream is None:
            raise checks.wrong("stream", given["stream"], f"one of {', '.join(self._streams) or 'none'}")
        await stream.acknowledge(given["id"], alone=given.get("alone", False))
        return dict(DONE)

    async def _refuse(self, asked: Mapping[str, object]) -> dict[str, Any]:
        given = _members({"seconds": 0.0, **asked}, "refuse", stream=str, id=str, seconds=(int, float))
        stream = self._streams.get(given["stream"])
        if stream is None:
            raise checks.wrong("stream", given["stream"], f"one of {', '.join(self._streams) or 'none'}")
        await require_group(stream).refuse(given["id"], checks.seconds("seconds", given["seconds"]))
        return dict(DONE)

    async def _unsubscribe(self, asked: Mapping[str, object]) -> dict[str, Any]:
        given = _members(asked, "unsubscribe", stream=str, durable=str, group=bool)
        if "durable" in given:
            await self._session.unsubscribe(given["durable"], group=given.get("group", False))
            return dict(DONE)
        stream = self._streams.get(given.get("stream", ""))
        if stream is None:
            raise InputError("give the stream to end, or the durable name to end for good")
        await stream.close()
        return dict(DONE)

    # Deliveries of streams.

    async def _bring(self, name: str, stream: Stream, form: Any) -> None:
        head = f'{{"type":"event","stream":{json.dumps(name)},'
        network = self._gateway.upstream.name
        try:
            while True:
                for item in await stream.receive():
                    if isinstance(item, Gap):
                        await self._send(json.dumps({"type": "gap", "stream": name, **item.to_dict()}))
                    elif form == "json":
                        await self._send(head + delivery_members(item) + "}")
                    else:
                        event = delivery_text(item, form, network)
                        await self._send(f'{head}"id":{json.dumps(item.id)},"cloudevent":{event}}}')
                    self._gateway.counts["delivered"] += 1
        except StreamEnded as end:
            self._streams.pop(name, None)
            self._senders.pop(name, None)
            await stream.close()
            await self._send(json.dumps({"type": "end", "stream": name, "reason": str(end)}))
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            await stream.close("the client takes nothing")
            await self._end(POLICY, "too slow")


_NEEDED: Final = {"publish": ("events",), "acknowledge": ("stream", "id"), "refuse": ("stream", "id")}


def _members(asked: Mapping[str, object], kind: str, **known: type | tuple[type, ...]) -> dict[str, Any]:
    """Return the members of a message, each of its type; null members are dropped."""
    given = {name: value for name, value in asked.items() if value is not None}
    for name, value in given.items():
        if name not in known:
            raise InputError(f"{checks.shown(name)}: {kind} has no such member; it has {', '.join(known)}")
        wanted = known[name]
        checks.instance(
            name, value, wanted, "a number" if isinstance(wanted, tuple) else f"a {wanted.__name__}"
        )
    for name in _NEEDED.get(kind, ()):
        if name not in given:
            raise InputError(f"{name} is missing")
    return given
