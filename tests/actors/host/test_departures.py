"""What leaves when a step is done."""

import asyncio

from rayvous.actors.host.departures import Departures


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
