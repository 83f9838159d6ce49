"""What queries of Spark have read, by checkpoints as Spark 3.5 writes them."""

import json
from pathlib import Path

from rayvous.pipelines.sink.checkpoints import read_by_all


class Query:
    """The checkpoint of a query that reads files."""

    def __init__(self, folder: Path, name: str) -> None:
        self.place = folder / name
        self.log("metadata", '{"id":"e7006a1f"}')

    def log(self, path: str, *lines: str) -> None:
        file = self.place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(["v1", *lines]))
        (file.parent / f".{file.name}.crc").touch()

    def planned(self, batch: int, *offsets: int | None) -> None:
        said = ["-" if each is None else json.dumps({"logOffset": each}) for each in offsets]
        self.log(f"offsets/{batch}", '{"batchWatermarkMs":0}', *said)

    def committed(self, batch: int) -> None:
        self.log(f"commits/{batch}", '{"nextBatchWatermarkMs":0}')

    def listed(self, source: int, number: str, *files: str) -> None:
        said = [
            json.dumps({"path": f"file:///a%20b/events/{name}", "timestamp": 1, "batchId": 0})
            for name in files
        ]
        self.log(f"sources/{source}/{number}", *said)


def test_a_file_is_read_when_its_micro_batch_is_committed(tmp_path: Path) -> None:
    assert read_by_all(str(tmp_path / "nowhere")) == set()
    (tmp_path / "events").mkdir()
    assert read_by_all(str(tmp_path)) == set()
    query = Query(tmp_path, "counts")
    query.listed(0, "0", "a.parquet", "b.parquet")
    query.planned(0, 0)
    assert read_by_all(str(tmp_path)) == set()
    query.committed(0)
    query.listed(0, "1", "c.parquet")
    query.planned(1, 1)
    assert read_by_all(str(tmp_path)) == {"a.parquet", "b.parquet"}
    query.committed(1)
    assert read_by_all(str(tmp_path)) == {"a.parquet", "b.parquet", "c.parquet"}


def test_logs_that_spark_has_joined_are_read(tmp_path: Path) -> None:
    query = Query(tmp_path, "counts")
    query.listed(0, "9.compact", "a.parquet", "b.parquet")
    query.listed(0, "10", "c.parquet")
    query.planned(12, 10)
    query.committed(12)
    assert read_by_all(str(tmp_path)) == {"a.parquet", "b.parquet", "c.parquet"}


def test_a_source_that_is_used_twice_has_two_offsets_and_one_log(tmp_path: Path) -> None:
    query = Query(tmp_path, "joined")
    query.listed(0, "0", "a")
    query.listed(0, "1", "b")
    query.planned(1, 0, 0)
    query.committed(1)
    assert read_by_all(str(tmp_path)) == {"a"}


def test_a_file_is_read_when_each_source_of_each_query_has_read_it(tmp_path: Path) -> None:
    one, two = Query(tmp_path, "one"), Query(tmp_path, "two")
    assert read_by_all(str(tmp_path)) == set()
    for source, names in enumerate([("a", "b", "c"), ("a", "b")]):
        one.listed(source, "0", *names)
    one.log(
        "offsets/0", "{}", '{"logOffset":0}', '{"logOffset":0}', "12"
    )  # the last one counts, and reads no files
    one.committed(0)
    assert read_by_all(str(tmp_path)) == set(), "the other query has not begun"
    two.listed(0, "0", "b", "c")
    two.planned(0, 0)
    two.committed(0)
    assert read_by_all(str(tmp_path)) == {"b"}
    two.planned(1, 0, None)
    two.committed(1)
    assert read_by_all(str(tmp_path)) == set(), "a source that has read nothing"
