"""A value that is given later, in the turn of the event loop in which it comes."""

import asyncio
import gc
import weakref

import pytest
from rayvous.actors.later import Later, Stream


def test_whoever_waits_with_a_callback_has_it_at_once_and_only_the_first_value_counts() -> None:
    later = Later[int]()
    seen: list[int] = []
    later.then(lambda given: seen.append(given.value))
    assert not later.done and not seen
    later.give(1)
    later.give(2)
    later.fail(OSError("too late"))
    assert seen == [1] and later.done and later.error is None and not later.awaited
    later.then(lambda given: seen.append(given.value + 10))
    assert seen == [1, 11], "it is there already"


@pytest.mark.parametrize("error", [None, OSError("lost")])
def test_once_it_is_given_it_holds_nothing_of_what_waited(error: Exception | None) -> None:
    """An answered call is kept until the calls made before it are answered: its load would be kept with it."""

    class Load:
        """What a call carries."""

    load = Load()
    kept, later = weakref.ref(load), Later[int]()
    later.then(lambda given, load=load: None)  # type: ignore[misc]
    later.explain = lambda error, load=load: error  # type: ignore[misc]
    del load
    assert kept() is not None
    if error is None:
        later.give(1)
    else:
        later.fail(error)
    gc.collect()
    assert kept() is None and (later.value, later.error) == (None if error else 1, error)


def test_what_is_made_of_it_is_given_with_it_and_an_error_stays_one() -> None:
    later = Later[int]()
    half, doubled = later.made_into(lambda value: 1 / value), Later[int]()
    later.give(2)
    assert half.value == 0.5
    made = doubled.made_into(lambda value: value * 2)
    doubled.fail(OSError("lost"))
    assert str(made.error) == "lost"
    assert isinstance(_given(0).made_into(lambda value: 1 / value).error, ZeroDivisionError)


def _given(value: int) -> Later[int]:
    later = Later[int]()
    later.give(value)
    return later


def test_it_can_be_awaited_and_says_that_a_task_waits() -> None:
    async def test() -> None:
        later = Later[int]()
        made = later.made_into(str)
        task = asyncio.ensure_future(made)
        await asyncio.sleep(0)
        assert later.awaited and made.awaited
        later.give(7)
        assert not task.done(), "the task goes on in a later turn"
        assert await task == "7" and await _given(3) == 3
        lost = Later[int]()
        waiting = asyncio.ensure_future(lost)
        await asyncio.sleep(0)
        lost.fail(OSError("lost"))
        with pytest.raises(OSError, match="lost"):
            await waiting
        left = Later[int]()
        waiting = asyncio.ensure_future(left)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        left.give(1)  # nobody waits any more

    asyncio.run(test())


def test_parts_are_passed_on_at_once_until_the_value_is_given() -> None:
    stream = Stream[int]()
    seen: list[object] = []
    made = stream.made_into(str).made_into(lambda text: text + "!")
    made.each(seen.append)
    made.then(lambda given: seen.append((given.value,)))
    stream.part(1)
    assert seen == ["1!"]
    stream.part(2)
    stream.give(3)
    stream.part(4)
    assert seen == ["1!", "2!", ("3!",)], "nothing comes behind the value"


def test_a_part_that_cannot_be_passed_on_is_the_error_of_all() -> None:
    stream = Stream[int]()
    made = stream.made_into(lambda value: 1 // value)
    made.each(lambda part: None)
    stream.part(0)
    assert isinstance(made.error, ZeroDivisionError)


def test_parts_are_passed_on_as_they_are_where_only_the_value_is_made_into_another() -> None:
    stream = Stream[list[int]]()
    seen: list[object] = []
    made = stream.ending_in(lambda value: [*value, 9]).made_into(str)
    made.each(seen.append)
    made.then(lambda given: seen.append(given.value))
    stream.part([1])
    stream.give([2])
    assert seen == ["[1]", "[2, 9]"]
    failed = Stream[int]()
    ended = failed.ending_in(lambda value: 1 // value)
    failed.give(0)
    assert isinstance(ended.error, ZeroDivisionError)
