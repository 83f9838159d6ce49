"""Work that begins at once: a task of an event loop would begin in the next turn of it.

Rules
-----
* The first part of the work, up to where it has to wait, is carried out by the call, in the caller's task. So it
  may not ask which task it is in, as `asyncio.timeout` does.
* What is left is carried out by a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Generic, TypeVar

T = TypeVar("T")


class _Rest(Generic[T]):
    """What is left of work that waits for something."""

    __slots__ = ("_waited", "_work")

    def __init__(self, work: Coroutine[object, object, T], waited: object) -> None:
        self._work, self._waited = work, waited

    def __await__(self) -> Generator[object, object, T]:
        waited = self._waited
        try:
            while True:
                try:
                    value = yield waited
                except GeneratorExit:
                    self._work.close()
                    raise
                except BaseException as error:
                    waited = self._work.throw(error)
                else:
                    waited = self._work.send(value)
        except StopIteration as done:
            result: T = done.value
            return result


async def _carried_out(rest: _Rest[T]) -> T:
    return await rest


def begun(work: Coroutine[object, object, T]) -> asyncio.Task[T] | None:
    """Begin work on the running event loop; return the task that carries out what is left, or None if nothing is.

    Its error is raised by this call, if it has one before it waits for anything.
    """
    try:
        waited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_carried_out(_Rest(work, waited)))
