"""What leaves when a step is done."""

import asyncio

import pytest
from rayvous.actors.host.departures import Departures, departures_here


def test_what_nobody_waits_for_is_done_when_the_step_has_left(caplog: pytest.LogCaptureFixture) -> None:
    departures, done = Departures(), list[str]()

    def fail() -> None:
        raise ValueError("no room")

    departures.afterwards(done.append, "outside of a step, at once")
    departures.hold()
    departures.add(lambda: done.append("left") or True)
    departures.afterwards(fail)
    departures.afterwards(done.append, "recorded")
    assert len(done) == 1 and departures.go()
    assert done[1:] == ["left", "recorded"] and "could not be recorded" in caplog.text
    assert departures.go() and len(done) == 3


def test_what_is_done_afterwards_keeps_its_order() -> None:
    """What leaves may record something itself, and so may what is recorded."""
    departures, done = Departures(), list[str]()
    departures.hold()
    departures.add(lambda: departures.afterwards(done.append, "second") or True)
    departures.afterwards(lambda: (done.append("first"), departures.afterwards(done.append, "third")))
    assert departures.go() and done == ["first", "second", "third"]


def test_what_a_step_puts_leaves_when_it_is_done_and_all_else_in_the_next_turn() -> None:
    async def test() -> None:
        departures = Departures()
        left: list[str] = []

        def leaves(name: str, at_once: bool = True) -> None:
            def leave() -> bool:
                left.append(name)
                return at_once

            departures.add(leave)

        departures.hold()
        leaves("one")
        leaves("two")
        assert not left
        assert departures.go() and left == ["one", "two"]
        departures.hold()
        leaves("slow", at_once=False)
        leaves("quick")
        assert not departures.go() and left[2:] == ["slow", "quick"]
        assert departures.go(), "nothing is there any more"
        leaves("alone")
        leaves("beside")
        assert len(left) == 4
        await asyncio.sleep(0)
        assert left[4:] == ["alone", "beside"]

    asyncio.run(test())


def test_what_is_last_leaves_behind_all_others() -> None:
    """Also behind what these put when they leave."""

    async def test() -> None:
        departures, left = Departures(), list[str]()

        def leaves(name: str, *then: str) -> None:
            def leave() -> bool:
                left.append(name)
                for each in then:
                    leaves(each)
                return True

            departures.add(leave, last=name.startswith("last"))

        departures.hold()
        for name in ("last one", "one", "last two"):
            leaves(name)
        leaves("two", "three")
        assert departures.go() and left == ["one", "two", "three", "last one", "last two"]

    asyncio.run(test())


def test_what_leaving_puts_leaves_with_it() -> None:
    async def test() -> None:
        departures = Departures()
        left: list[str] = []

        def last() -> bool:
            left.append("last")
            return True

        def first() -> bool:
            left.append("first")
            departures.add(last)
            return True

        departures.hold()
        departures.add(first)
        assert departures.go() and left == ["first", "last"]
        await asyncio.sleep(0)
        assert left == ["first", "last"]

    asyncio.run(test())


def test_a_queue_that_fails_to_send_silences_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Each queue is here once until it is called: one that never were would never send again."""

    async def test() -> None:
        for departures, logger in (
            (Departures(), "rayvous.host"),
            (departures_here(), "rayvous.client"),
        ):
            left: list[str] = []

            def leaves(name: str, left: list[str] = left) -> bool:
                if name == "broken":
                    raise ValueError("it cannot leave")
                left.append(name)
                return True

            def add(departures: Departures = departures) -> None:
                for name in ("before", "broken", "behind"):
                    departures.add(lambda name=name: leaves(name))

            caplog.clear()
            departures.hold()
            add()
            assert not departures.go(), "not everything has left"
            assert left == ["before", "behind"]
            add()
            await asyncio.sleep(0)
            assert left == ["before", "behind"] * 2
            (first, second) = caplog.records
            assert first.name == second.name == logger and first.levelname == "ERROR"
            assert "ValueError: it cannot leave" in caplog.text

    asyncio.run(test())
