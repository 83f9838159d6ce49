"""Calls of one sender never overtake each other, whichever carrier each takes."""

import asyncio

from patience import PATIENCE_SECONDS
from rayvous.actors.channels.lanes import Lane


def test_a_lane_changes_its_carrier_only_while_it_is_empty() -> None:
    lane = Lane()
    assert not lane.enter(False)
    assert not lane.enter(True), "the first call may still be on its way by Ray"
    lane.leave()
    lane.leave()
    assert lane.enter(True) and lane.enter(False), "the channel keeps its order as well"


def test_a_call_that_has_to_go_by_ray_waits_for_those_in_the_channel() -> None:
    async def test() -> None:
        lane = Lane()
        assert lane.enter(True) and lane.enter(True)
        waits = asyncio.create_task(lane.enter_ray())
        await asyncio.sleep(0)
        lane.leave()
        await asyncio.sleep(0)
        assert not waits.done()
        lane.leave()
        await waits
        assert not lane.enter(True), "and those after it follow it"
        await asyncio.wait_for(lane.enter_ray(), PATIENCE_SECONDS)

    asyncio.run(test())
