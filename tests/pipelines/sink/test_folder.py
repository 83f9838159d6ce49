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
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import InputError

EVENTS = [{"origin": "JFK", "delay": 1}, {"origin": "LGA", "delay": 2.5, "tags": ["a", "b"]}]


def lake(folder: object, format: str = "parquet") -> SinkFolder:
    return SinkFolder(str(folder), "lake-3fa9", format)


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_what_was_written_is_found_again(tmp_path: Path, format: str) -> None:
    folder = lake(tmp_path / "new", format)
    assert folder.find() == (0, {})
    folder.write(7, 7, "date=2023-11-14", batch_of(EVENTS, publisher="faa", first_sequence=4))
    folder.write(7, 6, "date=2023-11-15", batch_of(EVENTS, publisher="bob", first_sequence=1))
    folder.write(6, 6, "", batch_of(EVENTS, publisher="faa", first_sequence=1))
    folder.write(3, 3, "", batch_of(EVENTS, publisher="old"))
    number, held = lake(tmp_path / "new", format).find()
    assert number == 7
    found = {n: {name: [*each] for name, each in there.items()} for n, there in held.items()}
    assert found == {6: {"faa": [1, 2]}, 7: {"faa": [4, 5], "bob": [1, 2]}}
    assert folder.files == 4
    assert folder.bytes == sum(path.stat().st_size for path in (tmp_path / "new").rglob("lake-*"))


def test_a_folder_that_changes_its_format_still_knows_its_events(tmp_path: Path) -> None:
    lake(tmp_path, "jsonl").write(7, 7, "", batch_of(EVENTS, publisher="faa"))
    assert [*lake(tmp_path).find()[1][7]["faa"]] == [1, 2]


def test_unfinished_files_are_removed_and_others_stay(tmp_path: Path) -> None:
    mine, other = (
        tmp_path / "_lake-3fa9-000000000009-000000000009.parquet.tmp",
        tmp_path / "_pond-3fa9-000000000009-000000000009.parquet.tmp",
    )
    for each in (mine, other):
        each.write_bytes(b"half a file")
    assert lake(tmp_path).find() == (0, {})
    assert not mine.exists() and other.exists()


def test_one_schema_widens_over_restarts(tmp_path: Path) -> None:
    stories = [[{"gate": 7, "delay": 1}], [{"gate": "B7", "delay": 0.5}], [{"seen": True}]]
    for number, events in enumerate(stories, 1):
        folder = lake(tmp_path)
        folder.find()
        folder.write(number, number, "", batch_of(events, publisher="faa", first_sequence=number))
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
        folder.find()
        folder.write(number, number, "", batch_of([event], publisher="faa", first_sequence=number))
    newest = max(tmp_path.rglob("lake-*.parquet"), key=lambda path: (path.name, path))
    table = pyarrow.dataset.dataset(tmp_path, schema=pyarrow.parquet.read_schema(newest)).to_table()
    rows = table.sort_by("_sequence").select(["id", "id:float", "delay", "to"]).to_pylist()
    assert rows == [
        {"id": large, "id:float": None, "delay": 1.0, "to": None},
        {"id": None, "id:float": 0.5, "delay": 0.5, "to": "JFK"},
    ]


def test_conflicts_are_counted(tmp_path: Path) -> None:
    folder = lake(tmp_path)
    folder.write(1, 1, "", batch_of([{"gate": 7}]))
    folder.write(2, 2, "", batch_of([{"gate": "B7"}, {"gate": "B8"}]))
    assert folder.conflicts == (("gate:string", 2),)


def test_lines_are_events_as_they_were_given(tmp_path: Path) -> None:
    folder = lake(tmp_path, "jsonl")
    folder.write(1, 1, "", batch_of(EVENTS, publisher="faa", first_sequence=4, published_at=1_700_000_000.0))
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
    lake(tmp_path, format).write(1, 1, "", batch_of([{"x": 1}], published_at=at))
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
            assert "No space left" in attempt(lambda: folder.write(1, 1, "", batch))
    folder.write(1, 1, "", batch)
    assert folder.conflicts == (("gate:string", 1),)
    folder.write(2, 2, "", batch)
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
    folder.find()
    home = tmp_path / "new" / "lake" / "date=2023-11-14" / "hour=22"
    folder.write(1, 1, "date=2023-11-14/hour=22", batch_of(EVENTS))
    assert {each.stat().st_ino for each in (home, *home.parents[:4])} <= done
    assert tmp_path.parent.stat().st_ino not in done
    done.clear()
    lake(tmp_path / "new" / "lake").write(2, 2, "date=2023-11-14/hour=22", batch_of(EVENTS))
    assert {each.stat().st_ino for each in (home, *home.parents[:2])} <= done, (
        "another process may have made them"
    )


def test_a_file_that_has_its_name_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lake(tmp_path)
    synchronised = folder._synchronise
    with monkeypatch.context() as patch:
        patch.setattr(
            folder, "_synchronise", lambda path: refuse() if Path(path).is_dir() else synchronised(path)
        )
        assert "No space left" in attempt(lambda: folder.write(1, 1, "day", batch_of(EVENTS)))
    (path,) = (tmp_path / "day").iterdir()
    before = path.stat().st_ino
    folder.write(1, 1, "day", batch_of(EVENTS))
    assert [each.stat().st_ino for each in (tmp_path / "day").iterdir()] == [before]
    assert (folder.files, folder.bytes) == (1, path.stat().st_size)


def refuse(*words: object, **more: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_dataset_does_not_see_unfinished_files(tmp_path: Path) -> None:
    lake(tmp_path).write(1, 1, "date=2023-11-14", batch_of(EVENTS))
    (tmp_path / "date=2023-11-14" / "_lake-3fa9-000000000009-000000000009.parquet.tmp").write_bytes(
        b"half a file"
    )
    assert pyarrow.dataset.dataset(tmp_path, partitioning="hive").count_rows() == 2


@pytest.mark.parametrize("step", ["create_dir", "open_output_stream", "move"])
def test_what_is_refused_leaves_nothing_and_can_be_tried_again(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(pafs.LocalFileSystem):
        refuses = True

    folder = lake(tmp_path)
    folder.find()
    system = Refusing()
    monkeypatch.setattr(folder, "_system", system)
    monkeypatch.setattr(system, step, refuse, raising=False)
    said = attempt(lambda: folder.write(1, 1, "day", batch_of(EVENTS)))
    assert "No space left" in said
    assert not [path for path in tmp_path.rglob("*") if path.is_file()] and folder.files == 0
    monkeypatch.undo()
    assert attempt(lambda: folder.write(1, 1, "day", batch_of(EVENTS))) == ""
    assert lake(tmp_path).find()[0] == 1


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """A real one: a file system in memory of the smallest size would need rights, so a limit of this process does."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        said = attempt(lambda: lake(tmp_path).write(1, 1, "", batch_of([{"x": os.urandom(8_000).hex()}])))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert "File too large" in said
    assert not [*tmp_path.iterdir()]


def test_a_file_system_of_fsspec() -> None:
    folder = lake("memory://sink-of-a-test/lake")
    folder.write(5, 5, "date=2023-11-14", batch_of(EVENTS, publisher="faa"))
    number, held = lake("memory://sink-of-a-test/lake").find()
    assert number == 5 and [*held[5]["faa"]] == [1, 2]


def test_a_target_that_nobody_knows_is_named() -> None:
    with pytest.raises(InputError, match=r"target 'nosuch://x' cannot be opened"):
        opened("nosuch://x")
