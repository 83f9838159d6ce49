"""Rows of micro-batches are published once, and the columns of a stream are found, without Ray and Spark."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from rayvous.actors.clients.record_batches import Layout
from rayvous.pipelines.spark.events import _columns_in, _in_order, _Notes, _Publishing
from rayvous.protocol.batch import EventBatch, batch_of
from rayvous.protocol.errors import InputError


class Broker:
    """What outlives the process: the events of a durable publisher. It may refuse after some more."""

    def __init__(self) -> None:
        self.events: list[dict[str, object]] = []
        self.room = 1_000

    @property
    def published(self) -> int:
        return len(self.events)

    def publish_batch(self, batch: EventBatch) -> None:
        for event in batch.documents():
            if not self.room:
                raise ConnectionError("the process dies")
            self.room -= 1
            self.events.append(event)

    def flush(self) -> None:
        pass


def sink_of(broker: Broker, folder: Path, seal: str = "one", name: str = "counts") -> _Publishing:
    net = SimpleNamespace(
        publisher=lambda name, durable: broker, inspect=SimpleNamespace(directory=SimpleNamespace(seal=seal))
    )
    return _Publishing(net, name, _Notes(str(folder)))  # type: ignore[arg-type]


def frame(*rows: dict[str, object]) -> SimpleNamespace:
    batches = pa.Table.from_pylist([*rows]).to_batches() if rows else []
    return SimpleNamespace(_collect_as_arrow=lambda: batches)


def test_a_repeated_micro_batch_is_published_once_in_whatever_order_its_rows_come(tmp_path: Path) -> None:
    broker, rows = Broker(), [{"to": to, "n": n} for n, to in enumerate("cabd")]
    sink_of(broker, tmp_path)(frame({"to": "z", "n": 0}), 0)
    broker.room = 2
    with pytest.raises(ConnectionError):
        sink_of(broker, tmp_path)(frame(*rows), 1)
    broker.room = 1_000
    again = sink_of(broker, tmp_path)
    for _ in range(2):
        again(frame(*reversed(rows)), 1)
    again(frame(), 2)
    again(frame({"to": "y", "n": 9}), 3)
    assert [event["to"] for event in broker.events] == [*"zabcdy"]


def test_a_micro_batch_of_another_checkpoint_or_network_is_refused(tmp_path: Path) -> None:
    sink_of(Broker(), tmp_path)(frame({"n": 1}), 7)
    with pytest.raises(InputError, match="micro-batch 6 comes after 7: the query has another checkpoint"):
        sink_of(Broker(), tmp_path)(frame({"n": 1}), 6)
    with pytest.raises(InputError, match="is of another network"):
        sink_of(Broker(), tmp_path, seal="other")
    (tmp_path / "counts.json").write_text("{")
    with pytest.raises(InputError, match=r"counts\.json cannot be read"):
        sink_of(Broker(), tmp_path)


def test_publishers_of_one_folder_have_each_a_file(tmp_path: Path) -> None:
    for name in ("a/b", "a_b"):
        sink_of(Broker(), tmp_path, name=name)
    assert len(list(tmp_path.glob("*.json"))) == 2
    with pytest.raises(InputError, match=r"stream\.json"):
        sink_of(Broker(), tmp_path, name="stream")


def test_structures_become_dotted_names() -> None:
    found = _in_order(
        frame({"window": {"start": 2, "end": 3}, "n": 1}, {"window": {"start": 1, "end": 2}, "n": 2})
    )  # type: ignore[arg-type]
    assert found.to_pylist() == [
        {"window.start": 1, "window.end": 2, "n": 2},
        {"window.start": 2, "window.end": 3, "n": 1},
    ]


def test_columns_are_those_of_the_first_kind_of_each_attribute_and_spark_ignores_case() -> None:
    layout = Layout("us")
    schema = layout.record_batch(
        batch_of([{"gate": 7, "to": "JFK"}, {"gate": "B7", "To": 1, "late": True}])
    ).schema
    assert [*_columns_in(schema)] == [["gate", "integer"], ["to", "string"], ["late", "boolean"]]
