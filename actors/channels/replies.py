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
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

from ray import ObjectRef, cloudpickle
from ray.exceptions import GetTimeoutError, RayTaskError

from ..later import Later
from .lanes import Lane

T = TypeVar("T")


def packed_error(error: Exception) -> bytes:
    """Serialise an error of a host, with its traceback as text."""
    said = "".join(traceback.format_exception(error))
    try:
        return bytes(cloudpickle.dumps((error, said)))
    except Exception:  # an error that cannot be pickled
        return pickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), said))


def error_of(content: bytes) -> Exception:
    """Return the error that a caller gets for an error of a host."""
    error, said = pickle.loads(content)
    return RayTaskError("call", said, error).as_instanceof_cause()  # type: ignore[no-any-return]


class Awaited(Later[bytes]):
    """A call of the event loop of the channel whose answer goes on in the turn in which it comes."""

    __slots__ = ("lane",)

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self.lane = lane

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
    """The answer to a call that any thread has made; it can be awaited in any event loop, waited for, or ignored."""

    __slots__ = ("_future", "lane")

    lane: Lane
    """Set by the way that carries the call."""

    def __init__(self) -> None:
        self._future: Future[Any] = Future()

    def given(self, content: bytes, failed: bool) -> None:
        """Take the answer."""
        self.lane.leave()
        if failed:
            self._future.set_exception(error_of(content))
        else:
            self._future.set_result(Packed(content))

    def given_by_ray(self, answer: Any) -> None:
        """Take the answer of a call of Ray."""
        self._future.set_result(answer)

    def failed(self, error: BaseException) -> None:
        """Learn that there will be no answer; the call has left its lane."""
        self._future.set_exception(error)

    def result(self, timeout_seconds: float | None = None) -> T:
        """Wait for the answer.

        Raises
        ------
        GetTimeoutError
            If there is none in time.
        """
        try:
            return self._read(self._future.result(timeout_seconds))
        except NotInTime:
            if self._future.done():
                raise  # it is the answer
            raise GetTimeoutError("the host does not answer in time") from None

    def __await__(self) -> Generator[Any, None, T]:
        return self._wait().__await__()

    def _read(self, answer: Any) -> T:
        return pickle.loads(answer.content) if type(answer) is Packed else answer  # type: ignore[no-any-return]

    async def _wait(self) -> T:
        if not self._future.done():
            loop, thread = asyncio.get_running_loop(), threading.get_ident()
            given: asyncio.Future[None] = loop.create_future()

            def give() -> None:
                if not given.done():
                    given.set_result(None)

            def done(_: Future[Any]) -> None:
                if threading.get_ident() == thread:
                    give()
                else:
                    with suppress(RuntimeError):  # the loop has ended
                        loop.call_soon_threadsafe(give)

            self._future.add_done_callback(done)
            await given
        return self._read(self._future.result())


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
