"""What a sink writes, when, and what it leaves out after a restart: each event is in one file, whenever it dies."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.pipelines.sink.rolling import (
    Bounds,
    FileName,
    Roll,
    Rolling,
    folder_of,
    found_in,
    held_by,
    parsed,
    sequences_of,
    stem_of,
)
from rayvous.protocol.batch import EventBatch, batch_of, concat

HOUR = 3_600.0
STEM = stem_of("lake", "3fa9")


class Killed(Exception):
    """The process of the sink ends."""


def events_of(publisher: str, sequences: list[int]) -> EventBatch:
    """Return events some of which were published in another hour."""
    each = [
        batch_of([{"n": n}], publisher=publisher, first_sequence=n, published_at=HOUR * (n % 3))
        for n in sequences
    ]
    return concat(each)


@dataclass
class World:
    """What outlives the process: the folder, the acknowledged position, and what the broker has for the sink."""

    sent: list[EventBatch] = field(default_factory=list)
    position: dict[str, int] = field(default_factory=dict)
    files: dict[str, EventBatch] = field(default_factory=dict)
    unfinished: set[str] = field(default_factory=set)
    steps_left: int = 0

    def step(self) -> None:
        """Die instead of the next thing that outlives the process."""
        if self.steps_left == 0:
            raise Killed
        self.steps_left -= 1

    def delivered(self, first: str = "faa") -> list[EventBatch]:
        """Return what a process that begins is sent: everything above the position, one publisher before the others."""
        found = []
        for batch in sorted(self.sent, key=lambda each: each.publishers != (first,)):
            rows = [row for row in range(len(batch)) if self.is_new(*batch.identity(row))]
            if rows:
                found.append(batch.take(np.array(rows, np.intp)))
        return found

    def is_new(self, publisher: str, sequence: int) -> bool:
        return sequence > self.position.get(publisher, 0)


class Sink:
    """What the actor does, on a world that may stop it before each change."""

    def __init__(self, world: World, bounds: Bounds, partition: str = "hour") -> None:
        self.world = world
        found = found_in(STEM, sorted([*world.files, *world.unfinished]))
        for path in found.unfinished:
            world.step()
            world.unfinished.remove(path)
        held = held_by(
            (name.number, sequences_of(*identities(world.files[path]))) for path, name in found.recent
        )
        self.rolling = Rolling(partition, bounds, dict(world.position), found.last, held)

    def run(self, batches: list[EventBatch]) -> None:
        for now, batch in enumerate(batches):
            self.rolling.take(batch, float(now))
            if self.rolling.due_in(float(now)) == 0:
                self.write(self.rolling.roll())
        if self.rolling.due_in(0.0) is not None:
            self.write(self.rolling.roll())

    def write(self, roll: Roll) -> None:
        for folder, batch in roll.parts.items():
            name = FileName(STEM, roll.number, roll.floor, "parquet")
            path = f"{folder}/{name}"
            assert path not in self.world.files, "a file is never replaced"
            self.world.step()
            self.world.unfinished.add(f"{folder}/{name.unfinished}")
            self.world.step()
            self.world.unfinished.remove(f"{folder}/{name.unfinished}")
            self.world.files[path] = batch
        self.world.step()
        self.world.position |= roll.marks
        self.rolling.acknowledged(roll)


def identities(batch: EventBatch) -> tuple[list[str], np.ndarray]:
    return [batch.publishers[code] for code in batch.publisher], batch.sequence


def written(world: World) -> list[tuple[str, int]]:
    return [batch.identity(row) for batch in world.files.values() for row in range(len(batch))]


STREAMS = st.lists(
    st.tuples(st.sampled_from(["faa", "bob"]), st.lists(st.integers(1, 3), min_size=1, max_size=5)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=300)
@given(
    STREAMS,
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["faa", "bob"])), max_size=8),
    st.integers(1, 6),
    st.sampled_from(["hour", "day", "none"]),
)
def test_each_event_is_in_one_file_whenever_the_process_dies(
    stream: list[tuple[str, list[int]]], deaths: list[tuple[int, str]], events_max: int, partition: str
) -> None:
    """Filters leave gaps in the numbers; more is published while the sink is dead; publishers come in another order."""
    world, last = World(), dict.fromkeys(("faa", "bob"), 0)
    batches = []
    for publisher, gaps in stream:
        sequences: list[int] = []
        for gap in gaps:
            last[publisher] += gap
            sequences.append(last[publisher])
        batches.append(events_of(publisher, sequences))
    bounds = Bounds(events_max, 1 << 30, 1e9)
    for i, (steps, first) in enumerate(deaths):
        world.sent = batches[: i + 1]
        world.steps_left = steps
        try:
            Sink(world, bounds, partition).run(world.delivered(first))
        except Killed:
            continue
    world.sent, world.steps_left = batches, 1_000
    Sink(world, bounds, partition).run(world.delivered())
    wanted = [batch.identity(row) for batch in batches for row in range(len(batch))]
    assert sorted(written(world)) == sorted(wanted)
    assert not world.unfinished


def test_what_a_file_holds_is_left_out_when_it_comes_again() -> None:
    """Killed between two files of one roll: the first is kept, the second is written under a later number."""
    world = World(sent=[events_of("faa", [1, 2, 3])], steps_left=3)
    with pytest.raises(Killed):
        Sink(world, Bounds(10, 1 << 30, 60.0)).run(world.delivered())
    assert written(world) == [("faa", 3)] and len(world.unfinished) == 1
    world.steps_left = 100
    sink = Sink(world, Bounds(10, 1 << 30, 60.0))
    sink.run(world.delivered())
    assert sink.rolling.skipped == 1
    assert sorted(written(world)) == [("faa", 1), ("faa", 2), ("faa", 3)]
    assert sink.rolling.held == {}, "nothing of it comes again"


def test_a_roll_is_due_after_events_bytes_or_seconds() -> None:
    rolling = Rolling("none", Bounds(3, 1 << 30, 60.0))
    assert rolling.due_in(5.0) is None
    rolling.take(events_of("faa", [1, 2]), 10.0)
    assert rolling.due_in(20.0) == 50.0
    assert rolling.due_in(70.0) == 0.0
    rolling.take(events_of("faa", [3]), 20.0)
    assert rolling.due_in(20.0) == 0.0
    small = Rolling("none", Bounds(100, 10, 60.0))
    small.take(events_of("faa", [1]), 0.0)
    assert small.due_in(0.0) == 0.0
    small.roll()
    assert small.due_in(0.0) is None and small.events == small.bytes == 0


def test_events_that_were_all_left_out_are_acknowledged_all_the_same() -> None:
    rolling = Rolling("hour", Bounds(3, 1 << 30, 60.0), held={7: {"faa": np.array([1, 2])}})
    rolling.take(events_of("faa", [1, 2]), 0.0)
    assert rolling.due_in(60.0) == 0.0
    roll = rolling.roll()
    assert roll.parts == {} and roll.marks == {"faa": 2}


def test_numbers_are_positions_and_rise() -> None:
    rolling = Rolling("none", Bounds(1, 1 << 30, 60.0), {"faa": 100, "gone": 7})
    rolling.take(events_of("faa", [110]), 0.0)
    first = rolling.roll()
    assert first.number == 117
    rolling.acknowledged(first)
    rolling.take(events_of("bob", [1]), 0.0)
    assert rolling.roll().number == 118
    later = Rolling("none", Bounds(1, 1 << 30, 60.0), {}, last=500)
    later.take(events_of("faa", [1]), 0.0)
    assert later.roll().number == 501, "a number of a file is not used again"


def test_partitions_are_hours_and_days_of_publication() -> None:
    rolling = Rolling("hour", Bounds(10, 1 << 30, 60.0))
    times = [1_700_000_000.0, 1_700_003_600.0, -5.0, float("nan"), 1e300]
    for n, at in enumerate(times, 1):
        rolling.take(batch_of([{"n": n}], publisher="faa", first_sequence=n, published_at=at), 0.0)
    assert {folder: list(part.sequence) for folder, part in rolling.roll().parts.items()} == {
        "date=1970-01-01/hour=00": [3, 4],
        "date=2023-11-14/hour=22": [1],
        "date=2023-11-14/hour=23": [2],
        "date=2262-04-11/hour=23": [5],
    }
    assert folder_of("day", 19_675) == "date=2023-11-14"
    assert folder_of("none", 0) == ""


@given(st.integers(0, 10**19), st.integers(0, 10**19), st.sampled_from(["parquet", "jsonl"]))
def test_names_are_read_as_they_were_written(number: int, floor: int, format: str) -> None:
    name = FileName(STEM, number, floor, format)
    assert parsed(STEM, str(name)) == (name, True)
    assert parsed(STEM, name.unfinished) == (name, False)
    for other in (f"x{name}", f"{name}.tmp", f"_{name}", str(name).replace("lake", "pond")):
        assert parsed(STEM, other) is None


def test_files_from_the_floor_of_the_last_one_on_are_read_and_files_of_others_left_alone() -> None:
    old, first, last = (FileName(STEM, n, floor, "parquet") for n, floor in ((6, 6), (8, 7), (9, 7)))
    other = FileName(stem_of("lake", "ffff"), 99, 0, "parquet")
    paths = [f"a/{old}", f"b/{first}", f"a/{last}", "a/other.parquet", f"b/{last.unfinished}", f"a/{other}"]
    found = found_in(STEM, paths)
    assert (found.last, found.unfinished) == (9, [f"b/{last.unfinished}"])
    assert found.recent == [(f"b/{first}", first), (f"a/{last}", last)]
    assert found_in(STEM, []).last == 0
