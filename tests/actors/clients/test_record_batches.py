"""Events as Arrow record batches: nothing is lost or changed on the way, and a layout only grows."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.actors.clients.columns import batch_from
from rayvous.actors.clients.record_batches import OWN, Layout
from rayvous.protocol.batch import EventBatch, batch_of, concat
from rayvous.protocol.values import NULL, Timestamp, is_null

NAMES = st.sampled_from(["a", "b", "a:string", "_publisher", "_sequence:integer", "c.d"])
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-5, 5),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.integers(-(10**17), 10**18).map(Timestamp),
    st.just(NULL),
)
EVENTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=6)


def value_of(schema: pa.Schema, row: dict[str, object]) -> dict[str, object]:
    """Return an event as a row of a table says it: the reference, which reads the metadata of columns."""
    event: dict[str, object] = {}
    for name, value in row.items():
        if name in OWN or value is None:
            continue
        attribute = schema.field(name).metadata[b"rayvous.attribute"].decode()
        assert attribute not in event, "a value has one column"
        event[attribute] = value
    return event | (json.loads(row["_more"]) if row["_more"] else {})


def plain(value: object) -> object:
    return value.value if hasattr(value, "value") else value


def same(said: dict[str, object], event: dict[str, object]) -> bool:
    wanted = {name: value for name, value in event.items() if not is_null(value)}
    return said.keys() == wanted.keys() and all(
        plain(said[name]) == value and isinstance(said[name], bool) == isinstance(value, bool)
        for name, value in wanted.items()
    )


@given(st.lists(EVENTS, min_size=1, max_size=4))
def test_a_layout_keeps_every_value_and_only_grows(story: list[list[dict[str, object]]]) -> None:
    layout, before = Layout(), pa.schema([])
    for events in story:
        table = layout.record_batch(batch_of(events, publisher="faa", first_sequence=7))
        assert table.column("_sequence").to_pylist() == list(range(7, 7 + len(events)))
        rows = table.to_pylist()
        assert all(same(value_of(table.schema, row), event) for row, event in zip(rows, events, strict=True))
        for field in before:
            now = table.schema.field(field.name).type
            assert now == field.type or (field.type, now) == (pa.int64(), pa.float64())
        before = table.schema


@given(st.lists(EVENTS, min_size=2, max_size=4))
def test_a_layout_read_from_a_schema_goes_on_as_the_one_that_made_it(
    story: list[list[dict[str, object]]],
) -> None:
    one = Layout()
    for events in story[:-1]:
        table = one.record_batch(batch_of(events))
    other = Layout.of_schema(table.schema)
    last = batch_of(story[-1])
    assert one.record_batch(last).equals(other.record_batch(last), check_metadata=True)


def test_identities_times_and_words_of_several_batches() -> None:
    late = batch_of([{"to": "SFO"}, {}], publisher="bob", first_sequence=3, published_at=1_700_000_000.25)
    table = Layout().record_batch(concat([batch_of([{"to": "JFK"}], publisher="faa"), late]))
    assert table.column("_publisher").to_pylist() == ["faa", "bob", "bob"]
    assert table.column("to").to_pylist() == ["JFK", "SFO", None]
    assert table.column("_published_at")[1].value == 1_700_000_000_250_000_000


def test_integers_and_floats_share_a_column_unless_a_float_cannot_hold_the_integer() -> None:
    layout = Layout()
    table = layout.record_batch(batch_of([{"n": 1}, {"n": 0.5}, {"n": 2**53 + 1}, {"n": -(2**63)}]))
    assert table.column("n").to_pylist() == [1.0, 0.5, None, None]
    assert table.column("n:integer").to_pylist() == [None, None, 2**53 + 1, -(2**63)]
    assert layout.conflicts == {"n:integer": 2}


def test_a_type_that_conflicts_has_a_column_of_its_own_and_is_counted() -> None:
    layout = Layout()
    layout.record_batch(batch_of([{"gate": 7}]))
    table = layout.record_batch(batch_of([{"gate": "B7"}, {"gate": 8}, {"gate": "C1"}]))
    assert table.column("gate").to_pylist() == [None, 8, None]
    assert table.column("gate:string").to_pylist() == ["B7", None, "C1"]
    assert layout.conflicts == {"gate:string": 2}


def test_attributes_beyond_the_most_columns_are_in_one() -> None:
    layout = Layout(columns_max=2)
    table = layout.record_batch(
        batch_of([{"a": 1, "b": True, "c": "x", "d": Timestamp(0)}, {"a": "no room"}])
    )
    more = table.column("_more").to_pylist()
    assert [json.loads(each) for each in more] == [{"c": "x", "d": "1970-01-01T00:00:00Z"}, {"a": "no room"}]
    assert table.column("b").to_pylist() == [True, None]


def test_what_is_nested_is_in_its_form() -> None:
    table = Layout().record_batch(batch_of([{"order": {"tier": "gold"}, "items": [1, 2]}, {"order": {}}]))
    assert table.column("order.tier").to_pylist() == ["gold", None]
    assert json.loads(table.column("_form")[0].as_py())["items"] == [1, 2]


def test_microseconds_truncate() -> None:
    table = Layout("us").record_batch(batch_of([{"at": Timestamp(1_999)}]))
    assert table.column("at").type == pa.timestamp("us", "UTC")
    assert table.column("at")[0].value == 1


@pytest.mark.parametrize("rows", [[0], [2, 1], []])
def test_some_rows_of_a_batch(rows: list[int]) -> None:
    batch = batch_of([{"x": "a"}, {"x": "b"}, {"y": 1.5}], publisher="faa")
    table = Layout().record_batch(batch.take(np.array(rows, np.intp)))
    assert table.column("_sequence").to_pylist() == [row + 1 for row in rows]


def test_no_event_becomes_a_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    flights = pa.table({"origin": ["JFK", None, "LGA"] * 100, "delay": [1.0, 2.0, None] * 100})
    batch = batch_from(flights)
    monkeypatch.setattr(EventBatch, "seen", None)
    table = pa.Table.from_batches([Layout().record_batch(batch)])
    assert table.select(["origin", "delay"]).equals(flights.cast(table.select(["origin", "delay"]).schema))
