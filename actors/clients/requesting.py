"""Requests of this process, and its replies to others: one publisher and one subscription for all of them.

Rules
-----
* What a reply belongs to is decided in `clients.requests`.
* A request expires with its timeout, and a reply with the request, so nobody works for a requester that waits no more.
* A thread reads the replies. A request waits for a future that this thread resolves, so threads and event loops may ask
  at a time, as many as `IN_FLIGHT_MAX`.
* When the subscription fails, the requests that wait fail with it. The next one begins to read again: the subscriber
  looks for another broker by itself, and may have found one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final
from uuid import uuid4

from ...clients.requests import RequestMachine, reply_to
from ...protocol import checks
from ...protocol.errors import ClientError, RequestTimeout
from ...routing.language.questions import FilterLike, to_filter
from .notification import Notification
from .publisher import Publisher
from .subscriber import Subscriber

TIMEOUT_SECONDS: Final = 30.0
TTL_SECONDS_MIN: Final = 1e-3


class Requesting:
    """Made with the first request or reply of a process in a network.

    Parameters
    ----------
    publisher, subscriber
        Attach one under this name.
    """

    def __init__(
        self, publisher: Callable[[str], Publisher], subscriber: Callable[[str], Subscriber]
    ) -> None:
        self._name = uuid4().hex
        self._machine = RequestMachine(f"/reply/{self._name}")
        self._make_publisher, self._make_subscriber = publisher, subscriber
        self._publisher: Publisher | None = None
        self._subscriber: Subscriber | None = None
        self._beginning, self._turn = threading.Lock(), threading.Lock()
        self._waiting: dict[str, Future[Notification]] = {}
        self._error: Exception | None = None  # why nobody reads the replies

    @property
    def dropped(self) -> int:
        """How many replies came to no request that waited: after its timeout, or after another one."""
        return self._machine.dropped

    def _publisher_for(self, by: Publisher | None) -> Publisher:
        """Return the publisher that a caller names, or the one of all who name none."""
        if by is not None:
            return checks.instance("by", by, Publisher, "a publisher, or None")
        with self._beginning:
            made = self._publisher or self._make_publisher(f"requests-{self._name}")
            self._publisher = made
            return made

    async def _publisher_here(self, by: Publisher | None) -> Publisher:
        if by is None and self._publisher is None:
            return await asyncio.to_thread(self._publisher_for, None)
        return self._publisher_for(by)

    def _listen(self) -> None:
        with self._beginning:
            if self._subscriber is None:
                subscriber = self._make_subscriber(f"replies-{self._name}")
                try:
                    subscriber.subscribe(self._machine.replies)
                except BaseException:
                    subscriber.close()  # its name is free for the next try
                    raise
                self._subscriber = subscriber
            elif self._error is None:
                return
            self._error = None
            threading.Thread(
                target=self._read, args=(self._subscriber,), name="rayvous replies", daemon=True
            ).start()

    def _read(self, subscriber: Subscriber) -> None:
        error: Exception = ClientError(f"{subscriber} is closed")
        try:
            for note in subscriber.notifications():
                with self._turn:
                    id = self._machine.came(note.event, time.monotonic())
                    future = None if id is None else self._waiting.pop(id, None)
                if future is not None and future.set_running_or_notify_cancel():
                    future.set_result(note)
        except Exception as found:
            error = found
        with self._turn:
            self._error = error
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

    def _begin(
        self, event: Mapping[str, object], reply_where: FilterLike | None, seconds: float
    ) -> tuple[str, dict[str, object], Future[Notification]]:
        wanted = None if reply_where is None else to_filter(reply_where)
        checks.instance("event", event, Mapping, "a mapping from attribute name to value")
        with self._turn:
            if self._error is not None:  # it ended just now
                raise self._error
            id, asked = self._machine.ask(event, time.monotonic() + seconds, wanted)
            future = self._waiting[id] = Future()
        return id, asked, future

    def _end(self, id: str) -> None:
        with self._turn:
            self._machine.give_up(id)
            self._waiting.pop(id, None)

    def request(
        self,
        event: Mapping[str, object],
        *,
        reply_where: FilterLike | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        by: Publisher | None = None,
    ) -> Notification:
        """Publish a request, and return the first reply to it; see `Attaching.request`."""
        seconds, until = _checked(timeout_seconds)
        publisher = self._publisher_for(by)
        self._listen()
        id, asked, future = self._begin(event, reply_where, seconds)
        try:
            publisher.publish(asked, ttl=seconds)
            return future.result(max(0.0, until - time.monotonic()))
        except FutureTimeoutError:
            raise _timeout(seconds) from None
        finally:
            self._end(id)

    async def request_async(
        self,
        event: Mapping[str, object],
        *,
        reply_where: FilterLike | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        by: Publisher | None = None,
    ) -> Notification:
        """Do the same from a coroutine; see `Attaching.request`."""
        seconds, until = _checked(timeout_seconds)
        publisher = await self._publisher_here(by)
        if self._subscriber is None or self._error is not None:
            await asyncio.to_thread(self._listen)
        id, asked, future = self._begin(event, reply_where, seconds)
        try:
            await publisher.publish_async(asked, ttl=seconds)
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise _timeout(seconds) from None
        finally:
            self._end(id)

    def reply(
        self, request: Notification, event: Mapping[str, object], *, by: Publisher | None = None
    ) -> None:
        """Publish a reply to a request; see `Attaching.reply`."""
        said = _reply(request, event)
        self._publisher_for(by).publish(said, ttl=_left(request))

    async def reply_async(
        self, request: Notification, event: Mapping[str, object], *, by: Publisher | None = None
    ) -> None:
        """Do the same from a coroutine; see `Attaching.reply`."""
        said = _reply(request, event)
        publisher = await self._publisher_here(by)
        await publisher.publish_async(said, ttl=_left(request))


def _checked(timeout_seconds: object) -> tuple[float, float]:
    """Return a timeout, and when it ends on the monotonic clock."""
    seconds = checks.seconds("timeout_seconds", timeout_seconds)
    if not seconds:
        raise checks.wrong("timeout_seconds", timeout_seconds, "more than 0 seconds")
    return seconds, time.monotonic() + seconds


def _timeout(seconds: float) -> RequestTimeout:
    return RequestTimeout(
        f"no reply within {seconds:g} s: nobody subscribes to the request, or who does is slow; a reply that comes "
        "later is dropped"
    )


def _reply(request: object, event: Mapping[str, object]) -> dict[str, object]:
    note: Notification = checks.instance("request", request, Notification, "a Notification")  # type: ignore[assignment]
    checks.instance("event", event, Mapping, "a mapping from attribute name to value")
    return reply_to(note.event, event)


def _left(request: Notification) -> float | None:
    """Return the time to live of a reply: as long as the request is of use."""
    return None if request.expires_at is None else max(request.expires_at - time.time(), TTL_SECONDS_MIN)
