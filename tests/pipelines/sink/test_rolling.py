"""What a sink writes, when, and what becomes of it after a restart: each event is in one file, whenever it dies."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.pipelines.sink.rolling import (
    NOTHING,
    Acknowledged,
    Bounds,
    FileName,
    Roll,
    Rolling,
    acknowledged_in,
    folder_of,
    found_in,
    parsed,
    passed,
    stem_of,
)
from rayvous.protocol.batch import EventBatch, batch_of, concat
from rayvous.protocol.messages.pubsub import Lost

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
    beside: object = None
    files: dict[str, EventBatch] = field(default_factory=dict)
    read: dict[str, EventBatch] = field(default_factory=dict)
    told: list[Lost] = field(default_factory=list)
    given_up: list[tuple[str, int]] = field(default_factory=list)
    steps_left: int = 0
    processes: int = 0

    def step(self) -> None:
        """Die instead of the next thing that outlives the process."""
        if self.steps_left == 0:
            raise Killed
        self.steps_left -= 1

    def rename(self, path: str, name: str) -> None:
        self.step()
        self.files[name] = self.files.pop(path)

    def read_and_remove(self) -> None:
        """Somebody reads all files that have their names, and removes them."""
        for path in [path for path in self.files if not path.rpartition("/")[2].startswith("_")]:
            assert path not in self.read, "a reader that remembers names would leave it out"
            self.read[path] = self.files.pop(path)

    def delivered(self, first: str = "faa") -> list[EventBatch]:
        """Return what a process that begins is sent: everything above the position, one publisher before the others."""
        found = []
        for batch in sorted(self.sent, key=lambda each: each.publishers != (first,)):
            rows = [row for row in range(len(batch)) if self.is_new(*batch.identity(row))]
            if rows:
                found.append(batch.take(np.array(rows, np.intp)))
        return found

    def give_up(self) -> None:
        """The broker gives up the oldest of what is not acknowledged, and tells of it until the position has passed."""
        for batch in self.delivered()[:1]:
            events = [batch.identity(row) for row in range(len(batch))]
            (publisher,) = batch.publishers
            self.given_up += events
            self.told.append(Lost(publisher, events[0][1], events[-1][1]))

    def is_new(self, publisher: str, sequence: int) -> bool:
        """Return whether the broker has an event for the sink."""
        return sequence > self.position.get(publisher, 0) and (publisher, sequence) not in self.given_up


class Sink:
    """What the actor does, on a world that may stop it before each change."""

    def __init__(self, world: World, bounds: Bounds, partition: str = "hour") -> None:
        self.world = world
        world.processes += 1
        self.process = f"p{world.processes}"
        acknowledged = acknowledged_in(world.beside)
        found = found_in(STEM, sorted(world.files), acknowledged)
        for path in found.to_remove:
            world.step()
            del world.files[path]
        for path, name in found.to_name:
            world.rename(path, name)
        self.rolling = Rolling(partition, bounds, dict(world.position), found.last)
        self.lost = acknowledged.lost
        self.losses = [each for each in world.told if not passed([each], world.position)]

    def run(self, batches: list[EventBatch]) -> None:
        for now, batch in enumerate(batches):
            self.rolling.take(batch, float(now))
            if self.rolling.due_in(float(now)) == 0:
                self.write(self.rolling.roll())
        if self.rolling.due_in(0.0) is not None:
            self.write(self.rolling.roll())

    def write(self, roll: Roll) -> None:
        names = {
            f"{folder}/{FileName(STEM, roll.number, 'parquet')}": batch
            for folder, batch in roll.parts.items()
        }
        unnamed = {name: name.replace("/", "/_") + f".{self.process}.tmp" for name in names}
        for name, batch in names.items():
            self.world.step()
            self.world.files[unnamed[name]] = batch
        self.world.step()
        self.world.position |= roll.marks
        lost = self.lost + passed(self.losses, self.rolling.position)
        self.world.beside = [roll.number, self.process, lost]
        for name, path in unnamed.items():
            self.world.rename(path, name)


def written(world: World) -> list[tuple[str, int]]:
    return [batch.identity(row) for batch in world.read.values() for row in range(len(batch))]


STREAMS = st.lists(
    st.tuples(st.sampled_from(["faa", "bob"]), st.lists(st.integers(1, 3), min_size=1, max_size=5)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=300)
@given(
    STREAMS,
    st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from(["faa", "bob"]), st.booleans(), st.booleans()),
        max_size=8,
    ),
    st.integers(1, 6),
    st.sampled_from(["hour", "day", "none"]),
)
def test_each_event_is_in_one_file_whenever_the_process_dies(
    stream: list[tuple[str, list[int]]],
    deaths: list[tuple[int, str, bool, bool]],
    events_max: int,
    partition: str,
) -> None:
    """Also if filters leave gaps in the numbers, more is published while it is dead, publishers come in another order,
    and somebody reads files and removes them. What its broker gives up meanwhile is told by the last process, too."""
    world, last = World(), dict.fromkeys(("faa", "bob"), 0)
    batches = []
    for publisher, gaps in stream:
        sequences: list[int] = []
        for gap in gaps:
            last[publisher] += gap
            sequences.append(last[publisher])
        batches.append(events_of(publisher, sequences))
    bounds = Bounds(events_max, 1 << 30, 1e9)
    for i, (steps, first, reads, gives_up) in enumerate(deaths):
        world.sent = batches[: i + 1]
        world.steps_left = steps
        if reads:
            world.read_and_remove()
        if gives_up:
            world.give_up()
        try:
            Sink(world, bounds, partition).run(world.delivered(first))
        except Killed:
            continue
    world.sent, world.steps_left = batches, 1_000
    sink = Sink(world, bounds, partition)
    sink.run(world.delivered())
    wanted = {batch.identity(row) for batch in batches for row in range(len(batch))} - {*world.given_up}
    world.read_and_remove()
    assert sorted(written(world)) == sorted(wanted)
    assert not world.files
    assert sink.lost + len(sink.losses) == len(world.told)


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


def test_numbers_are_positions_and_rise() -> None:
    rolling = Rolling("none", Bounds(1, 1 << 30, 60.0), {"faa": 100, "gone": 7})
    rolling.take(events_of("faa", [110]), 0.0)
    assert rolling.roll().number == 117
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


@given(st.integers(0, 10**19), st.sampled_from(["parquet", "jsonl"]))
def test_names_are_read_as_they_were_written(number: int, format: str) -> None:
    name = FileName(STEM, number, format)
    assert parsed(STEM, str(name)) == (name, "")
    assert parsed(STEM, name.written_by("1a2b")) == (name, "1a2b")
    for other in (
        f"x{name}",
        f"{name}.1a.tmp",
        f"_{name}",
        f"_{name}.tmp",
        str(name).replace("lake", "pond"),
    ):
        assert parsed(STEM, other) is None


def test_files_of_the_last_acknowledged_roll_get_their_names_and_those_of_others_are_removed() -> None:
    old, last, above = (FileName(STEM, n, "parquet") for n in (6, 8, 9))
    other = FileName(stem_of("lake", "ffff"), 99, "parquet")
    mine, twin = f"a/{last.written_by('me')}", f"a/{last.written_by('twin')}"
    paths = [
        f"a/{old}",
        mine,
        twin,
        f"b/{above.written_by('me')}",
        "a/other.parquet",
        f"a/{other.written_by('me')}",
    ]
    found = found_in(STEM, paths, Acknowledged(8, "me"))
    assert (found.last, found.newest) == (8, mine)
    assert found.to_name == [(mine, f"a/{last}")]
    assert found.to_remove == [twin, f"b/{above.written_by('me')}"]
    assert found_in(STEM, [], Acknowledged(8, "me")).last == 8, "its files were read and removed"
    assert found_in(STEM, [f"a/{above}"], NOTHING).last == 9, "the subscription was ended meanwhile"
