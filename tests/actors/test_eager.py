"""Work that begins at once is carried out as a task would, but for the turn in which it begins."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from rayvous.actors.eager import begun
from rayvous.protocol.errors import ClientError


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_it_is_carried_out_up_to_where_it_waits_and_the_rest_by_a_task() -> None:
    async def story() -> None:
        tasks, gate = list[asyncio.Task[Any] | None](), asyncio.Event()

        async def work() -> int:
            tasks.append(asyncio.current_task())
            await gate.wait()
            tasks.append(asyncio.current_task())
            await asyncio.sleep(0)
            return 7

        task = begun(work())
        assert tasks == [asyncio.current_task()] and task is not None and not task.done()
        gate.set()
        assert await task == 7 and tasks[1:] == [task]

    run(story())


def test_nothing_is_left_of_what_waits_for_nothing_and_its_error_is_the_callers() -> None:
    async def story() -> None:
        had = list[int]()

        async def work(value: int) -> None:
            had.append(1 // value)

        assert begun(work(1)) is None and had == [1]
        with pytest.raises(ZeroDivisionError):
            begun(work(0))

    run(story())


def test_errors_and_cancellation_reach_it_where_it_waits() -> None:
    async def story() -> None:
        had, gates = list[str](), [asyncio.get_running_loop().create_future() for _ in range(3)]

        async def work(gate: asyncio.Future[None]) -> None:
            try:
                await gate
            except BaseException as error:
                had.append(type(error).__name__)
                await asyncio.sleep(0)
                raise

        failing, cancelled, abandoned = (begun(work(gate)) for gate in gates)
        assert failing is not None and cancelled is not None and abandoned is not None
        gates[0].set_exception(ClientError("no"))
        with pytest.raises(ClientError, match="no"):
            await failing
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert had == ["ClientError", "CancelledError"] and cancelled.cancelled()

    run(story())
