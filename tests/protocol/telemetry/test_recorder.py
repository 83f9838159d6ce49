import numpy as np
import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Limits, Position
from rayvous.protocol.effects import Confirm, Deliver, Multicast, Send
from rayvous.protocol.messages.pubsub import Events, Installed
from rayvous.protocol.telemetry.recorder import TelemetryBuffer, empty_table, merge_tables
from rayvous.protocol.telemetry.tables import SCHEMAS, CarriedOut

CARRIED_OUT = CarriedOut(2, 7, 700, 3, 2, 1, 0, 1400)
PLACE = Position(5, 2, "D2", (4, 5), 5, parent=1, children=(8, 9))


def batch(size=3, at=10.0):
    return batch_of([{"a": row} for row in range(size)], publisher="p", first_sequence=7, published_at=at)


def deliver(events):
    return Deliver(events, ("x", "y"), np.array([0, 2, 3]), np.array([0, 2, 1]))


def lists(table):
    return {column: values.tolist() for column, values in table.items()}


def test_each_effect_is_one_row_of_transfers():
    buffer = TelemetryBuffer(PLACE, Limits())
    events = batch()
    buffer.published(1.0, events)
    for number, effect in enumerate(
        [
            Send(1, Events(events)),
            Send(8, Events(events)),
            Send(4, Installed(3)),
            Multicast(Events(events)),
            deliver(events),
            Confirm("x", 1),
        ]
    ):
        buffer.effect(2.0 + number, effect)
    tables = buffer.flush()
    assert list(tables) == ["transfers", "deliveries"]
    assert lists(tables["transfers"]) == {
        "time_seconds": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        "broker": [5] * 7,
        "cluster": [2] * 7,
        "link_kind": ["publish", "up", "down", "down", "multicast", "deliver", "deliver"],
        "peer": [-1, 1, 8, 4, -1, -1, -1],
        "messages": [1, 1, 1, 1, 1, 2, 1],
        "events": [3, 3, 3, 0, 3, 3, 0],
        "nbytes": [events.nbytes] * 3 + [0] + [events.nbytes] * 2 + [0],
    }
    assert lists(tables["deliveries"]) == {
        "time_seconds": [6.0],
        "broker": [5],
        "notifications": [3],
        "latency_sum_seconds": [3 * (6.0 - 10.0)],
    }
    assert buffer.flush() == {}


def test_events_are_traced_when_asked():
    buffer = TelemetryBuffer(PLACE, Limits(), trace_events=True)
    buffer.published(11.0, batch(2))
    buffer.published(12.0, batch(1))
    buffer.effect(13.0, deliver(batch()))
    buffer.effect(14.0, deliver(batch(at=11.0)))
    tables = buffer.flush()
    assert lists(tables["published"]) == {
        "time_seconds": [11.0, 11.0, 12.0],
        "broker": [5] * 3,
        "publisher": ["p"] * 3,
        "sequence": [7, 8, 7],
    }
    assert lists(tables["notified"]) == {
        "time_seconds": [13.0] * 3 + [14.0] * 3,
        "broker": [5] * 6,
        "subscriber": ["x", "x", "y"] * 2,
        "publisher": ["p"] * 6,
        "sequence": [7, 9, 8] * 2,
        "published_at": [10.0] * 3 + [11.0] * 3,
    }
    for name, table in tables.items():
        for column, kind in SCHEMAS[name].items():
            assert table[column].dtype == (object if kind is str else kind), (name, column)


def test_a_full_buffer_drops_and_counts_and_a_flush_makes_room():
    buffer = TelemetryBuffer(PLACE, Limits(telemetry_rows_max=4), trace_events=True)
    for now in range(3):
        buffer.published(now, batch(3))
        buffer.effect(now, deliver(batch(3)))
        buffer.carried_out(now, CARRIED_OUT)
    buffer.carried_out(3.0, CARRIED_OUT)
    buffer.carried_out(4.0, CARRIED_OUT)
    assert buffer.dropped_rows == {
        "transfers": 2, "deliveries": 0, "multicasts": 1, "published": 6, "notified": 6,
    }  # fmt: skip
    tables = buffer.flush()
    assert {name: len(table["time_seconds"]) for name, table in tables.items()} == {
        "transfers": 4,
        "deliveries": 3,
        "multicasts": 4,
        "published": 3,
        "notified": 3,
    }
    buffer.published(9.0, batch(1))
    assert lists(buffer.flush()["published"])["time_seconds"] == [9.0]
    assert buffer.dropped_rows["published"] == 6


def test_what_became_of_multicasts_is_a_row_a_load():
    buffer = TelemetryBuffer(PLACE, Limits())
    buffer.carried_out(11.0, CARRIED_OUT)
    assert buffer.rows == 1
    assert lists(buffer.flush()["multicasts"]) == {
        "time_seconds": [11.0], "broker": [5], "messages": [2], "events": [7], "nbytes": [700], "members": [3],
        "calls": [2], "nodes": [1], "by_reference": [0], "sent_bytes": [1400],
    }  # fmt: skip


def test_chunks_are_merged_in_order():
    buffer = TelemetryBuffer(PLACE, Limits())
    chunks = []
    for now in (3.0, 1.0):
        buffer.published(now, batch())
        chunks.append(buffer.flush())
    merged = merge_tables([*chunks, {}])
    assert list(merged) == ["transfers"]
    assert merged["transfers"]["time_seconds"].tolist() == [3.0, 1.0]
    assert merge_tables([]) == {}


@pytest.mark.parametrize("name", list(SCHEMAS))
def test_an_empty_table_has_the_columns(name):
    table = empty_table(name)
    assert list(table) == list(SCHEMAS[name])
    assert all(len(values) == 0 for values in table.values())
