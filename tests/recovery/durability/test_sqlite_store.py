"""The store in real files: commits are read back, and a file that is not an intact store of ours is refused.

Reference: promise 7; paper 4, section 3 ("the recovery database is stable").
"""

import sqlite3
from pathlib import Path

import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Write
from rayvous.protocol.errors import InputError, StorageFailed
from rayvous.protocol.messages.pubsub import Events
from rayvous.recovery.durability.sqlite_store import APPLICATION_ID, LOG_PAGES_MAX, PAGE_BYTES, SqliteStore

TABLES = ("heard", "out")


def content(store: SqliteStore) -> dict[str, list[object]]:
    return {table: list(store.rows(table)) for table in TABLES}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a closed store with three commits."""
    path = tmp_path / "deep" / "broker-3.sqlite"
    store = SqliteStore(path, "full")
    for i in range(3):
        events = Events(batch_of([{"x": i, "s": "a" * 3000}], publisher="p", first_sequence=i + 1))
        store.commit([Write("out", (i,), events), Write("heard", ("p",), i + 1)])
    store.close()
    return path


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="off, normal, full"):
        SqliteStore(tmp_path / "x.sqlite", "sometimes")  # type: ignore[arg-type]


@pytest.mark.parametrize("setting, level", [("off", 0), ("normal", 1), ("full", 2)])
def test_the_setting_is_the_one_of_sqlite(path: Path, setting, level: int) -> None:
    store = SqliteStore(path, setting)
    assert store._pragma("synchronous") == level
    assert store._pragma("journal_mode") == "wal"
    assert store._pragma("application_id") == APPLICATION_ID
    store.close()


def refused(path: Path, *words: str) -> None:
    with pytest.raises(StorageFailed) as caught:
        store = SqliteStore(path)
        try:
            content(store)
        finally:
            store.close()
    for word in (str(path), *words):
        assert word in str(caught.value)


def test_a_file_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "accounts.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE money (amount)")
    connection.close()
    before = path.read_bytes()
    refused(path, "not a store of Rayvous", "another directory")
    assert path.read_bytes() == before
    path.write_text("dear diary, " * 1000)
    refused(path, "not a store of Rayvous")
    assert path.read_text().startswith("dear diary")


@pytest.mark.parametrize("version", [1, 2, 3, 99])
def test_another_version_is_refused(path: Path, version: int) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    refused(path, "another version", f"format {version}", "another directory")


@pytest.mark.parametrize("left", [0, 100, 4096, 8192])
def test_a_file_that_is_cut_short_is_refused(path: Path, left: int) -> None:
    assert path.stat().st_size > left
    path.write_bytes(path.read_bytes()[:left])
    refused(path)


def test_a_log_without_its_file_is_refused_and_left_as_it_is(path: Path) -> None:
    """SQLite would replay it into an empty file: the last commits without the earlier ones."""
    store = SqliteStore(path)
    store.commit([Write("heard", ("q",), 1)])
    log = path.with_name("broker-3.sqlite-wal")
    written = log.read_bytes()
    path.unlink()
    refused(path, "its log broker-3.sqlite-wal exists", "delete the log")
    assert log.read_bytes() == written and not path.exists()
    store.close()


def test_a_changed_row_is_refused(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE rows SET value = CAST(X'00' || substr(value, 2) AS BLOB) WHERE place = 2")
    connection.close()
    refused(path, "wrong checksum", "restore it from a copy")


def test_every_broken_byte_is_noticed_or_does_no_harm(path: Path) -> None:
    store = SqliteStore(path)
    whole = content(store)
    store.close()
    data = path.read_bytes()
    for place in range(0, len(data), 997):
        broken = bytearray(data)
        broken[place] ^= 0xFF
        path.write_bytes(broken)
        try:
            store = SqliteStore(path)
        except StorageFailed:
            continue
        try:
            assert str(content(store)) == str(whole)
        except StorageFailed:
            pass
        finally:
            store.close()


def test_a_second_process_is_refused(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(StorageFailed, match="another process"):
        SqliteStore(path, open_seconds=0.01)
    store.close()


def crashed(path: Path, target: Path) -> Path:
    """Copy the file and the log of an open store, as a loss of power would leave them."""
    for suffix in ("", "-wal"):
        (target / (path.name + suffix)).write_bytes(Path(str(path) + suffix).read_bytes())
    return target / path.name


@pytest.mark.parametrize("harm", ["cut", "garbage"])
def test_a_torn_last_write_leaves_the_last_whole_step(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "broker.sqlite"
    store = SqliteStore(path)
    ends = []
    log = Path(str(path) + "-wal")
    for i in range(6):
        store.commit([Write("out", (i,), "x" * 5000), Write("heard", ("p",), i)])
        ends.append(log.stat().st_size)
    for size in range(ends[2], ends[-1] + 1, 1031):
        target = tmp_path / f"{harm}-{size}"
        target.mkdir()
        copy = crashed(path, target)
        wal = Path(str(copy) + "-wal")
        data = wal.read_bytes()
        wal.write_bytes(data[:size] + (b"" if harm == "cut" else b"\xa5" * (len(data) - size)))
        survived = SqliteStore(copy)
        whole = sum(end <= size for end in ends)
        assert [key for key, _ in survived.rows("out")] == [(i,) for i in range(whole)]
        assert list(survived.rows("heard")) == [(("p",), whole - 1)]
        survived.commit([Write("out", (99,), "goes on")])
        survived.close()
    store.close()


def test_a_full_disk_changes_nothing_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broker.sqlite"
    store = SqliteStore(path, pages_max=12)
    done = 0
    with pytest.raises(StorageFailed, match=r"full.*what was committed before is safe"):
        while True:
            store.commit([Write("out", (done,), "x" * 3000), Write("heard", ("p",), done)])
            done += 1
    assert 0 < done < 20
    assert len(list(store.rows("out"))) == done
    store.close()
    again = SqliteStore(path)
    assert list(again.rows("heard")) == [(("p",), done - 1)]
    again.commit([Write("out", (done,), "x" * 3000)])  # there is room again
    again.close()


def test_a_commit_of_little_waits_for_nothing_until_the_log_is_long(tmp_path: Path) -> None:
    """The next commit copies the log into the file."""
    path = tmp_path / "broker-1.sqlite"
    store = SqliteStore(path)
    small = [Write("out", (1,), (1.5, "p", batch_of([{"x": 1}], publisher="p")))]
    large = [Write("out", (2,), Events(batch_of([{"s": "a" * 50_000}], publisher="p")))]
    assert not store.may_wait(small)
    assert store.may_wait(large) and store.may_wait([Write("out", (1,), None)]) and store.may_wait(small * 20)
    assert store.may_wait([Write("out", (1,), {"of": "a size that is not known"})])
    commits = 0
    while not store.may_wait(small):
        store.commit(large)
        commits += 1
    assert commits == -(-LOG_PAGES_MAX // (1 + 50_000 // PAGE_BYTES))
    before = path.stat().st_size
    assert before < 50_000
    store.commit(small)
    assert path.stat().st_size > before and not store.may_wait(small)
    store.close()


def test_every_commit_waits_for_the_disk_where_it_is_to_survive_the_machine(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "broker-1.sqlite", "full")
    assert store.may_wait([Write("heard", ("p",), 1)])
    store.close()
