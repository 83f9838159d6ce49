"""Calls of a client that wait, written once for plain threads and for an event loop.

Rules
-----
* Such a call is `Work`: a coroutine that awaits nothing but the waits of this module, and other such work.
* `in_thread` carries work out in the calling thread, which blocks in each wait.
* `on_loop` carries work out on the event loop of the client process, which also carries the channels: no other thread
  takes part.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeAlias, TypeVar

from ray.exceptions import GetTimeoutError

from ..answers import answered
from ..channels.replies import Reply
from ..host.handle import Answer, waited
from .process import ClientProcess

T = TypeVar("T")

Work: TypeAlias = Coroutine[Any, Any, T]


class Wait(Generic[T]):
    """Something that work waits for."""

    __slots__ = ()

    def block(self) -> T:
        """Wait in the calling thread."""
        raise NotImplementedError

    async def go_on(self) -> T:
        """Wait on the event loop of the client process."""
        raise NotImplementedError

    def __await__(self) -> Generator[Wait[T], T, T]:
        found: T = yield self
        return found


class Given(Wait[T]):
    """The answer to a call to an actor.

    Parameters
    ----------
    call
        The call.
    seconds
        How long to wait; then there is a GetTimeoutError.
    """

    __slots__ = ("_call", "_seconds")

    def __init__(self, call: Answer[T], seconds: float) -> None:
        self._call, self._seconds = call, seconds

    def block(self) -> T:
        """Wait in the calling thread."""
        found: T = waited(self._call, self._seconds)
        return found

    async def go_on(self) -> T:
        """Wait on the event loop; without `asyncio.timeout`, which belongs to a task (see `eager`)."""
        if isinstance(self._call, Reply):
            found: T = await self._call.within(self._seconds)
            return found
        asking = asyncio.ensure_future(answered(self._call))
        try:
            await asyncio.wait((asking,), timeout=self._seconds)
            if asking.done():
                answer: T = asking.result()
                return answer
            raise GetTimeoutError("the host does not answer in time")
        finally:
            asking.cancel()


class Behind(Wait[T]):
    """A coroutine that the client process carries out on its event loop."""

    __slots__ = ("_process", "_work")

    def __init__(self, process: ClientProcess, work: Coroutine[Any, Any, T]) -> None:
        self._process, self._work = process, work

    def block(self) -> T:
        """Wait in the calling thread."""
        return self._process.run(self._work)

    async def go_on(self) -> T:
        """Carry it out."""
        return await self._work


class Pause(Wait[None]):
    """A time."""

    __slots__ = ("_seconds",)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def block(self) -> None:
        """Let it pass."""
        time.sleep(self._seconds)

    async def go_on(self) -> None:
        """Let it pass, and other work go on."""
        await asyncio.sleep(self._seconds)


class Turn(Wait[None]):
    """One call after the other: ``async with`` in work holds a lock that threads and the event loop share."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def block(self) -> None:
        """Take the lock."""
        self._lock.acquire()

    async def go_on(self) -> None:
        """Take the lock, and let other work go on until it is free."""
        if self._lock.acquire(blocking=False):
            return
        taken = asyncio.get_running_loop().run_in_executor(None, self._lock.acquire)
        try:
            await asyncio.shield(taken)
        except asyncio.CancelledError:
            taken.add_done_callback(lambda _: self._lock.release())
            raise

    async def __aenter__(self) -> None:
        if not self._lock.acquire(blocking=False):  # most often nobody else has it
            await self

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


async def _carried_out(work: Work[T], out: Callable[[Wait[Any]], Coroutine[Any, Any, Any]]) -> T:
    """Carry work out, each of its waits by `out`, and return its result."""
    value: Any = None
    error: BaseException | None = None
    try:
        while True:
            wait: Wait[Any] = work.send(value) if error is None else work.throw(error)
            value = error = None
            try:
                value = await out(wait)
            except BaseException as raised:
                error = raised
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        error = None  # its traceback refers to this frame


async def _block(wait: Wait[Any]) -> Any:
    return wait.block()


def in_thread(work: Work[T]) -> T:
    """Carry work out in this thread, and return its result."""
    try:
        _carried_out(work, _block).send(None)  # it never yields, since each wait blocks
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("work that blocks has yielded")


async def on_loop(work: Work[T]) -> T:
    """Carry work out on the running event loop, which is that of the client process, and return its result."""
    return await _carried_out(work, lambda wait: wait.go_on())


async def carried_out(work: Work[T], process: ClientProcess) -> T:
    """Carry work out for a coroutine: on its event loop if that is the client process's, otherwise in a thread."""
    if process.is_here:
        return await on_loop(work)
    return await asyncio.to_thread(in_thread, work)
