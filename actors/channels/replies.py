"""Those who wait for the answer to a call over a channel: a coroutine of its event loop, or any thread.

Rule: whatever carries a call, the caller sees the same errors. An error that a host raised is Ray's `RayTaskError`,
which is also an error of its own class.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
import traceback
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from threading import TIMEOUT_MAX
from typing import Any, Generic, NamedTuple, TypeVar

from ray import ObjectRef, cloudpickle
from ray.exceptions import GetTimeoutError, RayTaskError

from ..later import Later
from .lanes import Lane

T = TypeVar("T")


def packed_error(error: Exception) -> bytes:
    """Serialise an error of a host: itself, one line about it, and its traceback as text."""
    said = "".join(traceback.format_exception(error))
    try:
        itself = bytes(cloudpickle.dumps(error))
    except Exception:  # an error that cannot be pickled
        itself = b""
    return pickle.dumps((itself, f"{type(error).__name__}: {error}", said))


def error_of(content: bytes) -> Exception:
    """Return the error that a caller gets for an error of a host; one that cannot be made here is a `RuntimeError`."""
    itself, line, said = pickle.loads(content)
    try:
        error = pickle.loads(itself)
    except Exception:
        error = RuntimeError(line)
    return RayTaskError("call", said, error).as_instanceof_cause()  # type: ignore[no-any-return]


class Awaited(Later[bytes]):
    """A call of the event loop of the channel whose answer goes on in the turn in which it comes, and so do parts."""

    __slots__ = ("_take", "lane")

    def __init__(self, lane: Lane, take: Callable[[bytes], None] | None = None) -> None:
        super().__init__()
        self.lane = lane
        self._take = take

    def continued(self, content: bytes) -> None:
        """Take a part of the answer, unless nobody waits for it any more; an error fails this call alone.

        The call is in its lane until its answer comes: it is under way.
        """
        if self._take is not None and not self.done:
            try:
                self._take(content)
            except Exception as error:
                self.fail(error)

    def given(self, content: bytes, failed: bool) -> None:
        """Take the answer."""
        self.lane.leave()
        if failed:
            self.fail(error_of(content))
        else:
            self.give(content)

    def failed(self, error: Exception) -> None:
        """Learn that there will be no answer; the call has left its lane."""
        self.fail(error)


class Packed(NamedTuple):
    """An answer that is still bytes."""

    content: bytes


class Reply(Generic[T]):
    """The answer to a call that any thread has made; it can be awaited in any event loop, waited for, or ignored.

    One lock, which is held until there is an answer, is all that waiting needs: a future of the standard library
    makes a condition for each call, and one for each wait.
    """

    __slots__ = ("_answer", "_callbacks", "_done", "_error", "_until", "lane")

    lane: Lane
    """Set by the way that carries the call."""

    def __init__(self) -> None:
        self._until = _held()
        self._done = False
        self._answer: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []

    def given(self, content: bytes, failed: bool) -> None:
        """Take the answer."""
        self.lane.leave()
        if failed:
            self.failed(error_of(content))
        else:
            self.given_by_ray(Packed(content))

    def continued(self, content: bytes) -> None:
        """Ignore a part: requests have none."""

    def given_by_ray(self, answer: Any) -> None:
        """Take the answer of a call of Ray."""
        self._answer = answer
        self._end()

    def failed(self, error: BaseException) -> None:
        """Learn that there will be no answer; the call has left its lane."""
        self._error = error
        self._end()

    def _end(self) -> None:
        self._done = True
        self._until.release()
        self._call_back()

    def _call_back(self) -> None:
        """Call what waits, if there is an answer; of two threads that do this, each callback is called by one."""
        while self._done and self._callbacks:
            try:
                callback = self._callbacks.pop()
            except IndexError:
                return
            callback()

    def result(self, timeout_seconds: float | None = None) -> T:
        """Wait for the answer.

        Raises
        ------
        GetTimeoutError
            If there is none in time.
        """
        if not self._done:
            seconds = -1.0 if timeout_seconds is None else min(max(timeout_seconds, 0.0), TIMEOUT_MAX)
            if not self._until.acquire(timeout=seconds):
                raise GetTimeoutError("the host does not answer in time")
            self._until.release()  # for others that wait
        return self._read()

    def __await__(self) -> Generator[Any, None, T]:
        return self.within(None).__await__()

    def _read(self) -> T:
        if self._error is not None:
            raise self._error
        answer = self._answer
        return pickle.loads(answer.content) if type(answer) is Packed else answer  # type: ignore[no-any-return]

    async def within(self, seconds: float | None) -> T:
        """Wait for the answer on an event loop, for so long; with None for as long as it takes.

        Raises
        ------
        GetTimeoutError
            If there is none in time.
        """
        if not self._done:
            loop, thread = asyncio.get_running_loop(), threading.get_ident()
            given: asyncio.Future[None] = loop.create_future()

            def give() -> None:
                if not given.done():
                    given.set_result(None)

            def done() -> None:
                if threading.get_ident() == thread:
                    give()
                else:
                    with suppress(RuntimeError):  # the loop has ended
                        loop.call_soon_threadsafe(give)

            self._callbacks.append(done)
            self._call_back()
            timer = None if seconds is None else loop.call_later(seconds, give)
            try:
                await given
            finally:
                if timer is not None:
                    timer.cancel()
            if not self._done:
                raise GetTimeoutError("the host does not answer in time")
        return self._read()


def _held() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def follow(call: ObjectRef[Any], reply: Reply[Any], left: Callable[[], object]) -> None:
    """Give a reply the answer to a call of Ray, and say when it is there."""

    def done(future: Future[Any]) -> None:
        left()
        error = future.exception()
        if error is None:
            reply.given_by_ray(future.result())
        else:
            reply.failed(error)

    call.future().add_done_callback(done)
