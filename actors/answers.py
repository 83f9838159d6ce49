"""Waiting on an event loop for the answer to a call of Ray, in a way that may be given up.

Rules
-----
* ``await call`` cancels the call's future if the one that waits is cancelled. In a process that has joined Ray through
  ``ray://``, Ray then fails on the answer, or on the end of its connection, and prints a traceback: it sets a future
  that is cancelled. So there the future is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from ray import ObjectRef
from ray.exceptions import RayTaskError

T = TypeVar("T")


async def answered(call: Awaitable[T]) -> T:
    """Return the answer to a call; whoever waits may be cancelled at any time."""
    if type(call) is ObjectRef or not isinstance(call, ObjectRef):
        return await call
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(done: Future[T]) -> None:
        if answer.done():
            return
        error = done.exception()
        if error is None:
            answer.set_result(done.result())
        else:
            answer.set_exception(error.as_instanceof_cause() if isinstance(error, RayTaskError) else error)

    def tell(done: Future[T]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, done)

    future_of: Any = call
    future_of.future().add_done_callback(tell)
    return await answer
