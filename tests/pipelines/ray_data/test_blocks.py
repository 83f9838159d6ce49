"""Datasets of events: what is in which block, when a micro-batch is complete, and what a repeated write leaves out."""

import datetime
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from fakes import Ray
from hypothesis import example, given
from hypothesis import strategies as st
from rayvous.actors.clients.inbox import Arrival
from rayvous.actors.clients.record_batches import OWN, Layout
from rayvous.pipelines.ray_data import reading
from rayvous.pipelines.ray_data.datasink import EventsDatasink
from rayvous.pipelines.ray_data.reading import (
    _arriving,
    _batches,
    _Blocks,
    _micro_batch,
    _seconds_until,
    widened,
)
from rayvous.pipelines.ray_data.rows import beyond, parts_of
from rayvous.protocol.batch import EventBatch, batch_of, concat
from rayvous.protocol.errors import InputError


class Subscriber:
    """A subscriber to whom these numbers of events come, and then nothing."""

    def __init__(self, *sizes: int) -> None:
        self.sizes, self.waits = list(sizes), list[float | None]()
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def acknowledge(self) -> None:
        raise AssertionError("it is closed")

    def arrivals(self, timeout_seconds: float | None = None) -> Iterator[Arrival]:
        self.waits.append(timeout_seconds)
        while self.sizes:
            size = self.sizes.pop(0)
            yield Arrival(batch_of([{"x": x} for x in range(size + 1)]), np.arange(1, size + 1), 0.0)


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the object store be a list of tables."""
    fake = Ray(monkeypatch, reading)
    fake.put = lambda table: table  # type: ignore[attr-defined]


def test_blocks_have_as_many_events_as_they_are_to_and_one_schema(
    put: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BLOCK_EVENTS", 3)
    widened: list[tuple[pa.Table, pa.Schema]] = []
    monkeypatch.setattr(
        reading, "_widened", type("Task", (), {"remote": lambda *given: widened.append(given) or given[0]})
    )
    blocks = _Blocks(Layout())
    for events in ([{"x": 1}, {"x": 2}], [{"x": 3}], [{"x": 0.5, "y": "a"}]):
        blocks.add(batch_of(events))
    made = blocks.end()
    assert [table.num_rows for table in made] == [3, 1]
    assert [(table, schema) for table, schema in widened] == [(made[0], made[1].schema)]


def test_a_table_is_widened_to_a_later_schema_of_its_layout() -> None:
    layout = Layout()
    first = pa.Table.from_batches([layout.record_batch(batch_of([{"x": 1}]))])
    later = pa.Table.from_batches([layout.record_batch(batch_of([{"x": 0.5, "y": "a"}]))]).schema
    table = widened(first, later)
    assert table.schema.equals(later)
    assert (table.column("x").to_pylist(), table.column("y").to_pylist()) == ([1.0], [None])


NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3), st.floats(allow_nan=False))


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=3), min_size=2, max_size=4))
@example([[2**60 + 1], [0.5], [7]])
@example([[7], [0.5], [2**60 + 1]])
def test_every_block_can_be_widened_and_keeps_its_numbers(blocks: list[list[float]]) -> None:
    layout = Layout()
    made = [
        pa.Table.from_batches([layout.record_batch(batch_of([{"x": x} for x in block]))]) for block in blocks
    ]
    for table, block in zip(made, blocks, strict=True):
        wide = widened(table, made[-1].schema)
        names = [name for name in wide.column_names if name not in OWN]
        said = [[row[name] for name in names if row[name] is not None] for row in wide.to_pylist()]
        assert said == [[x] for x in block]


def test_no_events_are_a_dataset_too(put: None) -> None:
    (table,) = _Blocks(Layout()).end()
    assert table.num_rows == 0


def test_a_micro_batch_waits_for_its_first_event_and_is_complete_when_it_is_large() -> None:
    alice = Subscriber(2, 3, 4)
    batches = [*_micro_batch(alice, 1e6, 5)]
    assert [len(batch) for batch in batches] == [2, 3] and alice.sizes == [4]
    assert [batch.columns[next(iter(batch.columns))].data[0] for batch in batches] == [1, 1], (
        "the rows for it"
    )
    assert alice.waits[0] is None
    assert [*_micro_batch(Subscriber(), 1e6, 5)] == [], "it was closed"
    assert len([*_micro_batch(Subscriber(9), 1e6, 5)]) == 1


def test_a_stream_whose_subscriber_was_closed_ends(put: None) -> None:
    """Without an empty dataset, and without acknowledging anything, which a closed subscriber refuses."""
    alice = Subscriber()
    assert [*_batches(alice, 1e6, 5)] == [] and alice.closed


def test_what_arrives_is_taken_until_the_time_or_so_many_events() -> None:
    alice = Subscriber(2, 2, 2)
    assert [len(batch) for batch in _arriving(alice, 0.0, None)] == [2, 2, 2]
    assert alice.waits[0] == 0.0, "the time was over"
    assert [len(batch) for batch in _arriving(Subscriber(2, 2, 2), 0.0, 3)] == [2, 2]


def test_until_is_a_time_a_duration_or_seconds() -> None:
    assert _seconds_until(2) == 2 and _seconds_until(datetime.timedelta(minutes=1)) == 60
    assert _seconds_until(datetime.datetime(2001, 1, 1)) == 0
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    assert 3_000 < _seconds_until(soon) <= 3_600
    for wrong in (-1, "noon", datetime.timedelta(seconds=-1)):
        with pytest.raises(InputError, match="until is"):
            _seconds_until(wrong)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_a_repeated_write_begins_where_the_first_ended(sizes: list[int], data: st.DataObject) -> None:
    numbers = iter(range(100))
    batches = [batch_of([{"n": next(numbers)} for _ in range(size)]) for size in sizes]
    published = data.draw(st.integers(0, sum(sizes)))
    left = [*beyond(published, batches)]
    assert events(left) == events(batches)[published:] and all(left)


def events(batches: list[EventBatch]) -> list[dict[str, object]]:
    return list(concat(batches).documents()) if batches else []


def test_columns_that_are_no_attributes_are_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayvous.pipelines.ray_data.rows.CALL_ROWS", 2)
    table = pa.Table.from_batches(
        [Layout().record_batch(batch_of([{"x": x, "to": "JFK"} for x in range(3)]))]
    )
    batches = [*parts_of([table])]
    assert [len(batch) for batch in batches] == [2, 1]
    assert events(batches) == [{"x": x, "to": "JFK"} for x in range(3)]
    with pytest.raises(InputError, match="no column that is an attribute"):
        list(parts_of([table.select(["_sequence"])]))


def test_a_sink_writes_one_dataset() -> None:
    """A second one would have publishers of the same names, which leave out as many rows as the first one had."""
    sink = EventsDatasink("flights", "faa/3fa9", True, 100)
    sink.on_write_start(pa.schema([]))
    with pytest.raises(InputError, match="make another one for each dataset"):
        sink.on_write_start(pa.schema([]))
