"""The folder of a sink: files are complete or have another name, and their schema only grows."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs as pafs
import pyarrow.parquet
import pytest
from rayvous.pipelines.sink.folder import SinkFolder, attempt, opened
from rayvous.pipelines.sink.rolling import NOTHING, Acknowledged
from rayvous.protocol.batch import EventBatch, batch_of
from rayvous.protocol.errors import InputError

EVENTS = [{"origin": "JFK", "delay": 1}, {"origin": "LGA", "delay": 2.5, "tags": ["a", "b"]}]


def lake(folder: object, format: str = "parquet") -> SinkFolder:
    return SinkFolder(str(folder), "lake-3fa9", format)


def write(folder: SinkFolder, number: int, place: str, *batches: EventBatch) -> None:
    """Write a roll and name its files."""
    for batch in batches:
        folder.write(number, place, batch)
    folder.name()


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_file_has_its_name_when_it_is_acknowledged(tmp_path: Path, format: str) -> None:
    """As a process does that begins after one that died between the acknowledgement and the names."""
    folder = lake(tmp_path / "new", format)
    assert folder.find(NOTHING) == 0
    folder.write(7, "date=2023-11-14", batch_of(EVENTS, publisher="faa"))
    folder.write(7, "", batch_of(EVENTS, publisher="bob"))
    assert not [*(tmp_path / "new").rglob("lake-*")] and folder.files == 0
    later = lake(tmp_path / "new", format)
    assert later.find(Acknowledged(7, folder.process)) == 7
    assert len([*(tmp_path / "new").rglob("lake-*")]) == 2
    folder.name()  # a process that was cut off goes on: another one has done it
    assert folder.files == 2
    assert folder.bytes == sum(path.stat().st_size for path in (tmp_path / "new").rglob("lake-*"))


def test_what_is_not_acknowledged_is_removed_and_files_of_others_stay(tmp_path: Path) -> None:
    other = tmp_path / "_pond-3fa9-000000000009.parquet.1a2b.tmp"
    other.write_bytes(b"half a file")
    folder = lake(tmp_path)
    folder.write(8, "", batch_of(EVENTS))
    assert lake(tmp_path).find(Acknowledged(7, folder.process)) == 7
    assert [*tmp_path.iterdir()] == [other]


def test_files_that_were_read_are_removed(tmp_path: Path) -> None:
    folder = lake(tmp_path)
    for number in (1, 2):
        write(folder, number, "day", batch_of(EVENTS))
    other = tmp_path / "other.parquet"
    other.touch()
    folder.remove({"lake-3fa9-000000000001.parquet", "other.parquet"})
    assert [path.name for path in (tmp_path / "day").iterdir()] == ["lake-3fa9-000000000002.parquet"]
    assert other.exists()


def test_fixed_columns_hold_what_fits_and_the_rest_is_json(tmp_path: Path) -> None:
    columns = (("gate", "integer"), ("delay", "float"), ("late", "boolean"))
    folder = SinkFolder(str(tmp_path), "lake-3fa9", "parquet", columns)
    write(folder, 1, "", batch_of([{"gate": 7, "delay": 1, "to": "JFK"}]))
    later = SinkFolder(str(tmp_path), "lake-3fa9", "parquet", columns)
    later.find(Acknowledged(1, folder.process))
    write(
        later,
        2,
        "",
        batch_of([{"gate": 2.5, "delay": 2**60 + 1}, {"gate": "B7", "delay": 0.5, "late": True}]),
    )
    files = [pyarrow.parquet.read_table(path) for path in sorted(tmp_path.glob("*.parquet"))]
    assert files[0].schema.equals(files[1].schema)
    assert [field.name for field in files[0].schema][3:] == ["gate", "delay", "late", "_form", "_more"]
    rows = pa.concat_tables(files).select(["gate", "delay", "late", "_more"]).to_pylist()
    assert [tuple(row.values())[:3] for row in rows] == [
        (7, 1.0, None),
        (None, None, None),
        (None, 0.5, True),
    ]
    assert [json.loads(row["_more"]) for row in rows] == [
        {"to": "JFK"}, {"gate": 2.5, "delay": 2**60 + 1}, {"gate": "B7"}
    ]  # fmt: skip


def test_one_schema_widens_over_restarts(tmp_path: Path) -> None:
    stories = [[{"gate": 7, "delay": 1}], [{"gate": "B7", "delay": 0.5}], [{"seen": True}]]
    for number, events in enumerate(stories, 1):
        folder = lake(tmp_path)
        folder.find(NOTHING)
        write(folder, number, "", batch_of(events, publisher="faa", first_sequence=number))
    files = [pyarrow.parquet.read_table(path) for path in sorted(tmp_path.glob("*.parquet"))]
    assert files[2].column_names == [
        "_publisher", "_sequence", "_published_at", "gate", "delay", "gate:string", "seen", "_form", "_more",
    ]  # fmt: skip
    whole = pa.concat_tables(files, promote_options="permissive").sort_by("_sequence")
    assert whole.column("delay").to_pylist() == [1.0, 0.5, None]
    assert whole.column("gate").to_pylist() == [7, None, None]
    assert whole.column("gate:string").to_pylist() == [None, "B7", None]


def test_a_dataset_in_the_schema_of_the_newest_file_has_the_values_of_all(tmp_path: Path) -> None:
    """As docs/data.md shows it; each file is written by another process of the sink."""
    large = 2**60 + 1
    for number, event in enumerate([{"id": large, "delay": 1}, {"id": 0.5, "delay": 0.5, "to": "JFK"}], 1):
        folder = lake(tmp_path)
        folder.find(NOTHING)
        write(folder, number, "", batch_of([event], publisher="faa", first_sequence=number))
    newest = max(tmp_path.rglob("lake-*.parquet"), key=lambda path: (path.name, path))
    table = pyarrow.dataset.dataset(tmp_path, schema=pyarrow.parquet.read_schema(newest)).to_table()
    rows = table.sort_by("_sequence").select(["id", "id:float", "delay", "to"]).to_pylist()
    assert rows == [
        {"id": large, "id:float": None, "delay": 1.0, "to": None},
        {"id": None, "id:float": 0.5, "delay": 0.5, "to": "JFK"},
    ]


def test_conflicts_are_counted(tmp_path: Path) -> None:
    folder = lake(tmp_path)
    write(folder, 1, "", batch_of([{"gate": 7}]))
    write(folder, 2, "", batch_of([{"gate": "B7"}, {"gate": "B8"}]))
    assert folder.conflicts == (("gate:string", 2),)


def test_lines_are_events_as_they_were_given(tmp_path: Path) -> None:
    folder = lake(tmp_path, "jsonl")
    write(folder, 1, "", batch_of(EVENTS, publisher="faa", first_sequence=4, published_at=1_700_000_000.0))
    (path,) = tmp_path.glob("*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["event"] for row in rows] == EVENTS
    assert (rows[1]["publisher"], rows[1]["sequence"], rows[1]["published_at"][:10]) == (
        "faa",
        5,
        "2023-11-14",
    )


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
@pytest.mark.parametrize(
    ("at", "said"),
    [(float("nan"), "1970-01-01"), (-5.0, "1970-01-01"), (9.5e9, "2262-04-11"), (1e300, "2262-04-11")],
)  # fmt: skip
def test_clocks_of_publishers_may_be_wrong(tmp_path: Path, format: str, at: float, said: str) -> None:
    write(lake(tmp_path, format), 1, "", batch_of([{"x": 1}], published_at=at))
    (path,) = tmp_path.glob("lake-*")
    if format == "jsonl":
        assert json.loads(path.read_text())["published_at"][:10] == said
    else:
        (moment,) = pyarrow.parquet.read_table(path).column("_published_at").to_pylist()
        assert moment.strftime("%Y-%m-%d") == said


def test_conflicts_are_counted_once_however_often_a_file_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lake(tmp_path)
    batch = batch_of([{"gate": 7}, {"gate": "B7"}])
    with monkeypatch.context() as patch:
        patch.setattr(folder, "_synchronise", refuse)
        for _ in range(3):
            assert "No space left" in attempt(lambda: folder.write(1, "", batch))
    write(folder, 1, "", batch)
    assert folder.conflicts == (("gate:string", 1),)
    write(folder, 2, "", batch)
    assert folder.conflicts == (("gate:string", 2),)


def test_folders_are_synchronised_up_to_the_first_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, fsync = set[int](), os.fsync

    def synchronise(handle: int) -> None:
        done.add(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synchronise)
    folder = lake(tmp_path / "new" / "lake")
    folder.find(NOTHING)
    home = tmp_path / "new" / "lake" / "date=2023-11-14" / "hour=22"
    write(folder, 1, "date=2023-11-14/hour=22", batch_of(EVENTS))
    assert {each.stat().st_ino for each in (home, *home.parents[:4])} <= done
    assert tmp_path.parent.stat().st_ino not in done
    done.clear()
    write(lake(tmp_path / "new" / "lake"), 2, "date=2023-11-14/hour=22", batch_of(EVENTS))
    assert {each.stat().st_ino for each in (home, *home.parents[:2])} <= done, (
        "another process may have made them"
    )


def test_a_file_that_has_its_name_is_not_named_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lake(tmp_path)
    folder.write(1, "day", batch_of(EVENTS))
    with monkeypatch.context() as patch:
        patch.setattr(folder, "_synchronise", refuse)
        assert "No space left" in attempt(folder.name)
    (path,) = (tmp_path / "day").iterdir()
    assert path.name == "lake-3fa9-000000000001.parquet" and folder.files == 0
    path.unlink()  # somebody has read it
    folder.name()
    assert folder.files == 1 and not [*(tmp_path / "day").iterdir()]


def refuse(*words: object, **more: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_dataset_does_not_see_unfinished_files(tmp_path: Path) -> None:
    write(lake(tmp_path), 1, "date=2023-11-14", batch_of(EVENTS))
    (tmp_path / "date=2023-11-14" / "_lake-3fa9-000000000009.parquet.1a2b.tmp").write_bytes(b"half a file")
    assert pyarrow.dataset.dataset(tmp_path, partitioning="hive").count_rows() == 2


@pytest.mark.parametrize("step", ["create_dir", "open_output_stream", "move"])
def test_what_is_refused_can_be_tried_again(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(pafs.LocalFileSystem):
        pass

    folder = lake(tmp_path)
    folder.find(NOTHING)
    system = Refusing()
    monkeypatch.setattr(folder, "_system", system)
    monkeypatch.setattr(system, step, refuse, raising=False)
    works = [lambda: folder.write(1, "day", batch_of(EVENTS)), folder.name]
    said = [attempt(work) for work in works]
    assert "No space left" in said[step == "move"] and folder.files == 0
    assert not [*tmp_path.rglob("lake-*")]
    monkeypatch.undo()
    assert [attempt(work) for work in works[step == "move" :]] == [""] * (1 if step == "move" else 2)
    assert lake(tmp_path).find(NOTHING) == 1


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """A real one: a file system in memory of the smallest size would need rights, so a limit of this process does."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        said = attempt(lambda: lake(tmp_path).write(1, "", batch_of([{"x": os.urandom(8_000).hex()}])))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert "File too large" in said
    assert not [*tmp_path.iterdir()]


def test_a_file_system_of_fsspec() -> None:
    target = "memory://sink-of-a-test/lake"
    folder = lake(target)
    folder.write(5, "date=2023-11-14", batch_of(EVENTS, publisher="faa"))
    folder.write(5, "date=2023-11-15", batch_of(EVENTS, publisher="faa"))
    assert lake(target).find(Acknowledged(5, folder.process)) == 5
    lake(target).remove({"lake-3fa9-000000000005.parquet"})
    assert lake(target).find(NOTHING) == 0


def test_a_target_that_nobody_knows_is_named() -> None:
    with pytest.raises(InputError, match=r"target 'nosuch://x' cannot be opened"):
        opened("nosuch://x")
