"""Places that are asked for ahead: as many as are soon needed, each given once, and given back if nobody takes it."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from patience import FrozenLoop, run_frozen
from rayvous.actors.clients.ahead import AHEAD_SECONDS, PLACES_MAX, PlacesAhead
from rayvous.protocol.errors import BrokerUnavailable


class Point:
    """A rendezvous point: it knows which names are in use."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.used: dict[str, str] = {}
        self.error: Exception | None = None

    async def ask(self, names: Sequence[str], ticket: str) -> list[int]:
        await asyncio.sleep(0)
        self.asked.append(len(names))
        self.used |= dict.fromkeys(names, ticket)
        if self.error is not None:
            raise self.error
        return list(range(len(names)))

    def give_back(self, names: Mapping[str, str]) -> None:
        for name, ticket in names.items():
            assert self.used.pop(name) == ticket


def test_the_more_attach_the_more_places_a_call_gives() -> None:
    async def story(loop: FrozenLoop) -> None:
        point = Point()
        places = PlacesAhead("alice", point.ask, point.give_back)
        taken = [await places.take() for _ in range(100)]
        assert point.asked == [1, 2, 4, 8, 16, PLACES_MAX, PLACES_MAX, PLACES_MAX]
        assert len({place.name for place in taken}) == 100
        assert all(point.used[place.name] == place.ticket for place in taken)
        assert all(place.name.startswith("alice/") for place in taken)

    run_frozen(story)


def test_who_asks_at_the_same_time_gets_a_place_of_its_own() -> None:
    async def story(loop: FrozenLoop) -> None:
        point = Point()
        places = PlacesAhead("alice", point.ask, point.give_back)
        taken = await asyncio.gather(*(places.take() for _ in range(10)))
        assert len({place.name for place in taken}) == 10 and len(point.asked) < 10

    run_frozen(story)


def test_what_nobody_takes_is_given_back_and_then_one_is_enough() -> None:
    async def story(loop: FrozenLoop) -> None:
        point = Point()
        places = PlacesAhead("alice", point.ask, point.give_back)
        taken = [await places.take() for _ in range(4)]
        assert sum(point.asked) == 7 and len(places) == 3
        loop.ahead += AHEAD_SECONDS + 0.001
        while len(places):
            await asyncio.sleep(0)
        assert point.used == {place.name: place.ticket for place in taken}
        await places.take()
        assert point.asked == [1, 2, 4, 1] and not len(places)

    run_frozen(story)


def test_places_are_in_use_while_they_are_asked_for() -> None:
    async def story(loop: FrozenLoop) -> None:
        point = Point()
        places = PlacesAhead("alice", point.ask, point.give_back)
        assert not places.in_use
        first = asyncio.ensure_future(places.take())
        await asyncio.sleep(0)
        assert places.in_use and not len(places), "who comes next must not ask for places of its own"
        await first
        assert not places.in_use
        await asyncio.gather(*(places.take() for _ in range(2)))
        assert places.in_use == bool(len(places))

    run_frozen(story)


def test_a_call_that_fails_takes_no_name() -> None:
    async def story(loop: FrozenLoop) -> None:
        point = Point()
        point.error = ConnectionError("gone")
        places = PlacesAhead("alice", point.ask, point.give_back)
        with pytest.raises(ConnectionError):
            await places.take()
        assert not point.used
        point.error = None
        assert (await places.take()).name in point.used
        places.clear()
        assert len(point.used) == 1, "what was taken is not given back"

    run_frozen(story)


def test_at_full_pace_nobody_waits_for_the_rendezvous_point() -> None:
    async def story(loop: FrozenLoop) -> None:
        point = Point()
        places = PlacesAhead("alice", point.ask, point.give_back)
        while len(point.asked) < 6:
            await places.take()
        for _ in range(10 * PLACES_MAX):
            assert len(places), "whoever comes now would wait"
            await places.take()
            for _ in range(3):
                await asyncio.sleep(0)
        places.clear()

    run_frozen(story)


def test_a_call_ahead_that_fails_concerns_nobody_and_ends_with_the_others() -> None:
    async def story(loop: FrozenLoop) -> None:
        point = Point()
        places = PlacesAhead("alice", point.ask, point.give_back)
        while len(point.asked) < 6:
            await places.take()
        point.error = BrokerUnavailable("not now")
        for _ in range(PLACES_MAX - 1):
            await places.take()
            await asyncio.sleep(0)
        with pytest.raises(BrokerUnavailable):
            await places.take()
        point.error = None
        left = {place.name for place in [await places.take() for _ in range(PLACES_MAX // 2)]}
        places.clear()  # while a call is under way
        for _ in range(3):
            await asyncio.sleep(0)
        assert left <= point.used.keys() and len(places) == 0

    run_frozen(story)
