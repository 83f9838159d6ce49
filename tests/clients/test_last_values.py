"""The last event of each key, against a reference that sorts everything."""

import random

import pytest
from rayvous.clients.last_values import LastValues
from rayvous.protocol.batch import EventBatch, batch_of, concat
from rayvous.protocol.errors import TooManyKeys
from rayvous.protocol.groups import PUBLISHER_KEY
from rayvous.protocol.ids import EventId

PUBLISHERS = "p", "q", "r"


def names(batches: list[EventBatch]) -> list[EventId]:
    return [batch.identity(row) for batch in batches for row in range(len(batch))]


def events(rng: random.Random, count: int) -> dict[EventId, tuple[float, object]]:
    """Draw events: when each was published, by clocks that may go back, and its key; None for none."""
    last = dict.fromkeys(PUBLISHERS, 0)
    drawn: dict[EventId, tuple[float, object]] = {}
    for _ in range(count):
        name = rng.choice(PUBLISHERS)
        last[name] += 1
        drawn[name, last[name]] = float(rng.randint(0, 20)), rng.choice((None, 1, 2, "1", "x", True))
    return drawn


def batch_with(drawn: dict[EventId, tuple[float, object]], event: EventId) -> EventBatch:
    at, key = drawn[event]
    return batch_of(
        [{} if key is None else {"k": key}], publisher=event[0], first_sequence=event[1], published_at=at
    )


def last_of_each(drawn: dict[EventId, tuple[float, object]]) -> set[EventId]:
    """The reference: of each publisher the highest number of a key, and of these the one that was published last."""
    found: dict[str, dict[str, EventId]] = {}
    for name, number in sorted(drawn):
        if (key := drawn[name, number][1]) is not None:
            found.setdefault(repr(key), {})[name] = name, number
    return {max(each.values(), key=lambda event: (drawn[event][0], event[0])) for each in found.values()}


@pytest.mark.parametrize("seed", range(40))
def test_the_last_of_each_key_is_found_in_whatever_order_publishers_are_read(seed: int) -> None:
    rng = random.Random(f"last/{seed}")
    drawn = events(rng, rng.randint(1, 60))
    found = LastValues("k", spare_events=3)
    lines = {name: sorted(event for event in drawn if event[0] == name) for name in PUBLISHERS}
    while waiting := [line for line in lines.values() if line]:
        line = rng.choice(waiting)
        page = [line.pop(0) for _ in range(min(len(line), rng.randint(1, 6)))]
        found.add(concat([batch_with(drawn, event) for event in page]))
    expected = last_of_each(drawn)
    got = names(found.chosen({}, 2))
    assert set(got) == expected and len(got) == len(expected)
    for name in PUBLISHERS:
        numbers = [number for publisher, number in got if publisher == name]
        assert numbers == sorted(numbers)
    behind = {name: rng.randint(0, 20) for name in PUBLISHERS}
    assert set(names(found.chosen(behind, 2))) == {event for event in expected if event[1] > behind[event[0]]}


def test_what_was_published_at_the_same_time_and_by_whom() -> None:
    found = LastValues(PUBLISHER_KEY)
    assert found.chosen({}, 2) == []
    found.add(batch_of([{"n": 1}, {"n": 2}], publisher="p"))
    found.add(batch_of([{"n": 1}], publisher="q"))
    assert names(found.chosen({}, 2)) == [("p", 2), ("q", 1)]
    found = LastValues("n")
    for name in "qp":
        found.add(batch_of([{"n": 1}], publisher=name, published_at=3.0))
    assert names(found.chosen({}, 2)) == [("q", 1)]


def test_too_many_keys_and_too_large_events_are_refused_and_what_is_superseded_takes_no_room() -> None:
    few = LastValues("k", keys_max=50)
    for first in range(1, 10_000, 100):
        few.add(batch_of([{"k": n % 50} for n in range(100)], publisher="p", first_sequence=first))
    with pytest.raises(
        TooManyKeys, match=r"last_per 'k': it has more than 50 values.*choose another attribute"
    ):
        few.add(batch_of([{"k": "one more"}], publisher="p", first_sequence=10_001))
    large = LastValues("k", bytes_max=1 << 20, spare_bytes=1 << 18)

    def text(number: int) -> str:
        return f"{number:06}" * 20_000

    for number in range(1, 100):  # one key, 12 MB in all
        large.add(batch_of([{"k": 1, "text": text(number)}], publisher="p", first_sequence=number))
    with pytest.raises(TooManyKeys, match="larger than 1 MiB"):
        for number in range(1, 40):
            event = {"k": f"{number}", "text": text(number)}
            large.add(batch_of([event], publisher="q", first_sequence=number))
