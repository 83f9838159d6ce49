"""Events as lines: reading and printing."""

import datetime
import json
import math

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.actors.clients.notification import Notification
from rayvous.cli.event_lines import JsonLines, TableLines, printer, table_batches
from rayvous.protocol.batch import EVENT_BYTES_MAX
from rayvous.protocol.errors import InputError
from rayvous.protocol.values import NULL, timestamp_of

MOMENT = datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.UTC)


def note(event, sequence=7):
    return Notification(event, "faa", sequence, 1_356_998_400.5, 0.0)


@given(st.lists(st.integers(0, 99)), st.lists(st.integers(1, 20)), st.booleans())
def test_however_the_bytes_come_the_events_are_the_same(values, cuts, ended):
    data = "".join(f'{{"x": {value}}}\n\n' for value in values).encode().rstrip() + b"\n" * ended
    reader, events = JsonLines("-"), []
    for cut in cuts:
        events += reader.feed(data[:cut])
        data = data[cut:]
    events += [*reader.feed(data), *reader.end()]
    assert [line.event for line in events] == [{"x": value} for value in values]
    assert [line.number for line in events] == [1 + 2 * place for place in range(len(values))]


@pytest.mark.parametrize("wrong", ["{", "[1]", '"x"', "{'a': 1}", "\xff"])
def test_a_wrong_line_is_told_by_its_number_and_what_stands_before_it_is_had(wrong):
    had = []
    with pytest.raises(InputError, match=r"a\.jsonl:3: is not (a JSON object|JSON|UTF-8)"):
        for line in JsonLines("a.jsonl").feed(b'{"x": 1}\n\n' + wrong.encode("latin-1") + b"\n"):
            had.append(line.event)  # the events before the error are asserted below
    assert had == [{"x": 1}]
    with pytest.raises(InputError, match="a:1: is nested too deeply"):
        list(JsonLines("a").feed(b"[" * 100_000 + b"\n"))


def test_a_line_without_an_end_is_bounded():
    reader = JsonLines("-")
    with pytest.raises(InputError, match="is longer than"):
        list(reader.feed(b"x" * (EVENT_BYTES_MAX + 1)))


def test_moments_are_made_where_they_are_named_and_null_is_a_value():
    (line,) = JsonLines("-", ["at"]).feed(b'{"at": "2013-01-01T05:00:00Z", "to": "2013-01-01", "x": null}\n')
    assert line.event == {"at": timestamp_of(MOMENT), "to": "2013-01-01", "x": NULL}
    for wrong in (b'{"at": "soon"}\n', b'{"at": 3}\n'):
        with pytest.raises(InputError, match=r"-:1: at: .* is not a time in ISO 8601"):
            list(JsonLines("-", ["at"]).feed(wrong))


def test_tables_come_in_batches(tmp_path):
    (tmp_path / "e.csv").write_text("sym,price\nA,1.5\nB,2.5\n")
    pa.parquet.write_table(pa.table({"sym": ["A", "B"], "price": [1.5, 2.5]}), tmp_path / "e.parquet")
    for name in ("e.csv", "e.parquet"):
        rows = [row for batch in table_batches(tmp_path / name) for row in batch.to_pylist()]
        assert rows == [{"sym": "A", "price": 1.5}, {"sym": "B", "price": 2.5}]
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(InputError, match="cannot be read"):
        list(table_batches(tmp_path / "x.parquet"))


def test_json_has_who_published_what_and_when():
    assert json.loads(printer("json", "flights")(note({"at": MOMENT, "x": 1}))) == {
        "publisher": "faa", "sequence": 7, "published_at": "2013-01-01T00:00:00.500Z",
        "event": {"at": "2013-01-01T05:00:00Z", "x": 1},
    }  # fmt: skip


def test_cloudevents_have_what_the_specification_requires():
    """CloudEvents 1.0, 3.1: id, source, specversion and type; source and id together name the event."""
    line = printer("cloudevents", "flights")
    event, other = json.loads(line(note({"x": 1}))), json.loads(line(note({"x": 1}, 8)))
    assert event["specversion"] == "1.0" and event["type"] == "rayvous.event" and event["data"] == {"x": 1}
    assert event["source"] == other["source"] == "/rayvous/flights/faa" and event["id"] != other["id"]
    assert datetime.datetime.fromisoformat(event["time"]).tzinfo is not None


def test_values_that_json_lacks_are_strings():
    for form in ("json", "cloudevents"):
        line = json.loads(printer(form, "flights")(note({"x": math.inf, "y": [None, -math.inf]})))
        assert line.get("event", line.get("data")) == {"x": "Infinity", "y": [None, "-Infinity"]}


def test_a_cloudevent_comes_as_it_was_published():
    """As from a gateway: its attributes are those under ce_."""
    event = {"ce_specversion": "1.0", "ce_id": "7", "ce_source": "/jfk", "ce_type": "delay", "x": 1}
    assert json.loads(printer("cloudevents", "flights")(note(event))) == {
        "specversion": "1.0", "id": "7", "source": "/jfk", "type": "delay", "data": {"x": 1},
    }  # fmt: skip


@pytest.mark.parametrize("wrong", [b'{"x": NaN}', b'{"x": -Infinity}', b'{"x": "\\ud800"}', b'{"x": 1e400}'])
def test_what_json_does_not_allow_is_refused(wrong):
    with pytest.raises(InputError, match=r"-:1: (is not JSON|has half a surrogate pair)"):
        list(JsonLines("-").feed(wrong + b"\n"))


def test_a_table_has_its_heading_again_when_an_attribute_is_new():
    lines = TableLines()
    first, second, third = (
        lines(note(event)) for event in ({"x": 1}, {"x": 2}, {"y": "long " * 9, "x": None})
    )
    assert first.split() == ["publisher", "x", "faa", "7", "1"] and second.split() == ["faa", "7", "2"]
    assert third.splitlines()[0].split() == ["publisher", "x", "y"] and "…" in third and " - " in third
