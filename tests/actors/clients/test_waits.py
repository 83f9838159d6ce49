"""Work that waits is the same in a thread and on an event loop, and a loop does other things meanwhile."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from ray.exceptions import GetTimeoutError
from rayvous.actors.channels.replies import Reply
from rayvous.actors.clients.process import ClientProcess
from rayvous.actors.clients.waits import Behind, Given, Turn, Work, carried_out, in_thread, on_loop
from rayvous.protocol.errors import ClientError

Carry = Callable[[Work[Any]], Any]


def by_a_loop(work: Work[Any]) -> Any:
    return asyncio.run(on_loop(work))


@pytest.fixture(params=[in_thread, by_a_loop], ids=["thread", "loop"])
def carry(request: pytest.FixtureRequest) -> Carry:
    """Return what carries work out: a thread, or an event loop."""
    found: Carry = request.param
    return found


def given(value: Any) -> Reply[Any]:
    reply: Reply[Any] = Reply()
    if isinstance(value, Exception):
        reply.failed(value)
    else:
        reply.given_by_ray(value)
    return reply


def test_its_result_is_what_it_returns(carry: Carry) -> None:
    async def inner() -> int:
        async with Turn():
            return await Given(given(20), 1.0) + 1

    async def outer() -> int:
        return 2 * await inner()

    assert carry(outer()) == 42


def test_an_error_is_raised_where_it_waits_and_what_it_does_not_handle_where_it_is_carried_out(
    carry: Carry,
) -> None:
    handled: list[str] = []

    async def work() -> None:
        try:
            await Given(given(ClientError("first")), 1.0)
        except ClientError as error:
            handled.append(str(error))
        await Given(given(ClientError("second")), 1.0)

    with pytest.raises(ClientError, match="second"):
        carry(work())
    assert handled == ["first"]


def test_an_answer_that_does_not_come_and_one_that_is_a_timeout_are_different_errors(carry: Carry) -> None:
    async def work(reply: Reply[Any], seconds: float) -> Any:
        return await Given(reply, seconds)

    with pytest.raises(GetTimeoutError):
        carry(work(Reply(), 0.01))
    with pytest.raises(TimeoutError) as found:
        carry(work(given(TimeoutError("the host says so")), 1.0))
    assert not isinstance(found.value, GetTimeoutError)
    assert carry(work(given(7), 0.0)) == 7, "what is there needs no time"


def test_a_call_of_ray_is_waited_for_on_a_loop_for_as_long_and_given_up_with_who_waits() -> None:
    class Call:
        def __init__(self) -> None:
            self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def __await__(self) -> Any:
            return self.answer.__await__()

    async def story() -> None:
        loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()
        call_later, reply = loop.call_later, Reply[int]()
        loop.call_later = lambda *given: timers.append(call_later(*given)) or timers[-1]  # type: ignore
        loop.call_soon(reply.given_by_ray, 7)
        assert await Given(reply, PATIENCE_SECONDS).go_on() == 7 and [
            each.cancelled() for each in timers
        ] == [True]
        calls: list[Any] = [Call() for _ in range(3)]
        with pytest.raises(GetTimeoutError):
            await Given(calls[0], 0.01).go_on()
        asyncio.get_running_loop().call_soon(calls[1].answer.set_exception, TimeoutError("the host says so"))
        with pytest.raises(TimeoutError, match="says so"):
            await Given(calls[1], PATIENCE_SECONDS).go_on()
        waiting = asyncio.ensure_future(Given(calls[2], PATIENCE_SECONDS).go_on())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)
        assert calls[0].answer.cancelled() and calls[2].answer.cancelled()

    asyncio.run(story())


def test_a_loop_goes_on_while_a_turn_is_waited_for() -> None:
    """A thread has the turn, and lets go of it only when the loop has done something else."""
    turn, has_it, did = Turn(), threading.Event(), threading.Event()
    order: list[str] = []

    async def in_a_thread() -> None:
        async with turn:
            has_it.set()
            assert did.wait(PATIENCE_SECONDS)
            order.append("thread")

    async def on_the_loop() -> None:
        async with turn:
            order.append("loop")

    async def story() -> None:
        waiting = asyncio.ensure_future(on_loop(on_the_loop()))
        await asyncio.sleep(0)
        did.set()
        await waiting

    other = threading.Thread(target=in_thread, args=(in_a_thread(),))
    other.start()
    assert has_it.wait(PATIENCE_SECONDS)
    asyncio.run(story())
    other.join(PATIENCE_SECONDS)
    assert order == ["thread", "loop"]


def test_who_gives_up_waiting_for_a_turn_does_not_keep_it() -> None:
    turn, has_it, done = Turn(), threading.Event(), threading.Event()

    async def hold() -> None:
        async with turn:
            has_it.set()
            assert done.wait(PATIENCE_SECONDS)

    async def take() -> None:
        async with turn:
            pass

    async def story() -> None:
        waiting = asyncio.ensure_future(on_loop(take()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        done.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await on_loop(take())

    other = threading.Thread(target=in_thread, args=(hold(),))
    other.start()
    assert has_it.wait(PATIENCE_SECONDS)
    asyncio.run(story())
    other.join(PATIENCE_SECONDS)


def test_on_the_loop_of_the_client_process_no_other_thread_takes_part() -> None:
    threads: list[int] = []

    async def note() -> None:
        threads.append(threading.get_ident())

    async def story() -> None:
        process = ClientProcess("test", here=True)

        async def work() -> None:
            await note()
            await Behind(process, note())

        await carried_out(work(), process)
        await asyncio.to_thread(in_thread, work())
        await asyncio.to_thread(process.close)

    asyncio.run(story())
    me = threading.get_ident()
    assert [each == me for each in threads] == [True, True, False, True]


def test_elsewhere_a_thread_carries_it_out() -> None:
    async def story() -> int:
        process = ClientProcess("test")
        try:

            async def work() -> int:
                return threading.get_ident()

            return await carried_out(work(), process)
        finally:
            process.close()

    assert asyncio.run(story()) != threading.get_ident()


def test_a_loop_that_would_wait_for_itself_is_told() -> None:
    async def story() -> None:
        process = ClientProcess("test", here=True)
        with pytest.raises(RuntimeError, match="cannot wait for itself"):
            process.run(asyncio.sleep(0))
        await asyncio.to_thread(process.close)

    asyncio.run(story())


def test_a_client_process_ends_on_a_loop_that_goes_on() -> None:
    """What waits there for it gets an error; tasks of others stay."""

    async def story() -> None:
        process = ClientProcess("test", here=True)
        others = asyncio.ensure_future(asyncio.sleep(PATIENCE_SECONDS))
        waiting = process.submit(asyncio.sleep(PATIENCE_SECONDS))
        blocked: Future[Any] = Future()

        def block() -> None:
            try:
                process.run(asyncio.sleep(PATIENCE_SECONDS))
            except ClientError as error:
                blocked.set_result(str(error))

        thread = threading.Thread(target=block)
        thread.start()
        while len(process._submitted) < 2:
            await asyncio.sleep(0)
        await asyncio.to_thread(process.close)
        assert "closed in this process" in await asyncio.wrap_future(blocked)
        thread.join(PATIENCE_SECONDS)
        assert waiting.cancelled() and not others.done()
        with pytest.raises(ClientError, match="closed in this process"):
            process.submit(asyncio.sleep(0))
        others.cancel()

    asyncio.run(story())
