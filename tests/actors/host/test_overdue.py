"""Calls of a link that must be answered in time."""

import asyncio
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from rayvous.actors.host.overdue import Overdue
from rayvous.actors.later import Later


def test_a_call_without_an_answer_fails_and_those_that_were_answered_do_not() -> None:
    async def test() -> None:
        overdue, answered, late = Overdue(0.0), Later[int](), Later[int]()
        overdue.watch(answered)
        overdue.watch(late)
        answered.give(3)
        with pytest.raises(TimeoutError):
            await late
        assert (answered.value, answered.error) == (3, None)
        again = Later[int]()
        overdue.watch(again)
        with pytest.raises(TimeoutError):
            await again

    asyncio.run(asyncio.wait_for(test(), 20.0))


def test_one_timer_serves_many_calls_and_answered_ones_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        loop, timers = asyncio.get_running_loop(), []
        call_later = loop.call_later

        def counted(*arguments: Any) -> Any:
            timers.append(arguments)
            return call_later(*arguments)

        monkeypatch.setattr(loop, "call_later", counted)
        overdue = Overdue(1000.0)
        for _ in range(100):
            call = Later[int]()
            overdue.watch(call)
            call.give(1)
        assert len(timers) == 1 and len(overdue._calls) == 1
        overdue._timer.cancel()  # type: ignore[union-attr]

    asyncio.run(test())


def test_a_call_whose_end_raises_does_not_keep_the_others_from_theirs() -> None:
    async def test() -> None:
        raised: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: raised.append(context["exception"])
        )
        overdue, first, second = Overdue(0.0), Later[bytes](), Later[bytes]()
        overdue.watch(first)
        overdue.watch(second)
        first.then(lambda given: {}["nobody expects this"])
        with pytest.raises(TimeoutError):
            await second
        assert [type(each) for each in raised] == [KeyError]

    asyncio.run(asyncio.wait_for(test(), PATIENCE_SECONDS))
