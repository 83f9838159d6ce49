"""The store in a real database: its fence, restarts of the server, locks, and errors that reveal no password.

Reference: promise 7; paper 4, section 3 ("the recovery database is stable").
"""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from rayvous.protocol.effects import Write
from rayvous.protocol.errors import StorageFailed
from rayvous.recovery.durability import postgresql_store
from rayvous.recovery.durability.postgresql_database import database_of
from rayvous.recovery.durability.postgresql_store import PostgresqlStore, PostgresqlStores
from rayvous.recovery.durability.stable import part_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time that an outage is waited for, so that a failing test ends soon."""
    monkeypatch.setattr(postgresql_store, "OUTAGE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def address(postgresql: Any) -> str:
    return str(postgresql.address())


@pytest.fixture
def process(address: str) -> Iterator[Callable[..., PostgresqlStores]]:
    """Yield a factory of stores as of one more process each, in the schema of the test or another."""
    made: list[PostgresqlStores] = []

    def make(schema: str | None = None) -> PostgresqlStores:
        made.append(PostgresqlStores(database_of(address if schema is None else part_of(address, schema))))
        return made[-1]

    yield make
    for stores in made:
        stores.close()


def numbers(store: PostgresqlStore) -> list[int]:
    return [key[0] for key, _ in store.rows("out")]


def put(number: int) -> list[Write]:
    return [Write("out", (number,), f"event {number}")]


def test_a_broker_that_was_only_cut_off_writes_nothing_once_its_successor_has_begun(process: Any) -> None:
    cut_off = process().store_of(3)
    cut_off.commit(put(1))
    other = process().store_of(4)
    successor = process().store_of(3, 1)
    assert numbers(successor) == [1]
    with pytest.raises(StorageFailed, match="started again elsewhere, so incarnation 1 may not write"):
        cut_off.commit([*put(2), Write("out", (1,), None)])
    successor.commit(put(3))
    other.commit(put(4))  # each broker has a fence of its own
    assert numbers(process().store_of(3, 2)) == [1, 3]


def test_one_that_comes_late_from_an_earlier_life_does_not_begin(process: Any) -> None:
    successor = process().store_of(3, 2)
    with pytest.raises(StorageFailed, match="a later incarnation of this broker than 1 has begun"):
        process().store_of(3, 1)
    successor.commit(put(1))


def test_a_network_that_must_begin_empty_does_not_take_over_from_one_that_runs(process: Any) -> None:
    process().store_of(3, fresh=True)  # from a failed launch
    running = process().store_of(3, fresh=True)
    running.commit(put(1))
    with pytest.raises(StorageFailed, match=r"broker 3 belongs to an earlier network: name another schema"):
        process().store_of(3, fresh=True)
    running.commit(put(2))


def test_a_schema_that_a_process_has_claimed_is_refused_until_that_ends(
    postgresql: Any, process: Any, address: str
) -> None:
    """Reference: a network that runs is not taken over by one that is launched by mistake (docs/durability.md)."""
    running = process()
    running.claim(1.0)
    process("another").claim(1.0)
    with pytest.raises(StorageFailed, match=r"a running network uses this schema: end it first"):
        process().claim(0.1)
    with ThreadPoolExecutor(1) as pool, postgresql.connect(address) as look:
        waiting = pool.submit(process().claim, PATIENCE_SECONDS)
        waits = (
            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'rayvous' AND wait_event = 'advisory'"
        )
        while look.execute(waits).fetchone() is None:
            assert not waiting.done(), "it did not wait"
        running.close()
        waiting.result(PATIENCE_SECONDS)


def test_a_successor_reads_what_is_being_committed_before_it(
    postgresql: Any, process: Any, address: str
) -> None:
    """If its predecessor has passed the fence but not committed, it waits for that, then reads the row."""
    stores = process()
    former = stores.store_of(3)
    inside, go_on = threading.Event(), threading.Event()
    write = former._write

    def slowly(connection: Any, plan: Any) -> None:
        with connection.transaction():
            write(connection, plan)
            inside.set()
            assert go_on.wait(PATIENCE_SECONDS)

    former._write = slowly  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as pool:
        commit = pool.submit(former.commit, put(1))
        assert inside.wait(PATIENCE_SECONDS)
        successor = pool.submit(process().store_of, 3, 1)
        with postgresql.connect(address) as look:
            waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'rayvous' AND wait_event_type = 'Lock'"
            while look.execute(waiting).fetchone() is None:
                assert not successor.done(), "it did not wait"
        go_on.set()
        commit.result(PATIENCE_SECONDS)
        assert numbers(successor.result(PATIENCE_SECONDS)) == [1]


def test_a_server_that_is_started_again_in_the_middle_loses_and_repeats_nothing(
    postgresql: Any, process: Any
) -> None:
    store = process().store_of(3)
    store.commit(put(1))
    postgresql.stop()
    with ThreadPoolExecutor(1) as pool:
        commit = pool.submit(store.commit, [*put(2), Write("out", (1,), None)])
        assert not commit.done()
        postgresql.start()
        commit.result(PATIENCE_SECONDS)
    assert numbers(store) == [2]
    assert numbers(process().store_of(3)) == [2]


def test_a_commit_whose_answer_is_lost_is_made_once(process: Any) -> None:
    """The connection is lost after the server has committed: the retry writes the same rows in order."""
    store = process().store_of(3)
    store.commit(put(1))
    write, lost = store._write, []

    def unheard(connection: Any, plan: Any) -> None:
        write(connection, plan)
        if not lost:
            lost.append(connection)
            connection.close()
            raise postgresql_store.psycopg.OperationalError("the connection is lost")

    store._write = unheard  # type: ignore[method-assign]
    store.commit([Write("out", (1,), None), *put(2), *put(1)])
    assert lost and numbers(store) == [2, 1]
    store.commit(put(3))
    assert numbers(process().store_of(3)) == [2, 1, 3]


def test_a_slow_server_makes_a_commit_late_and_nothing_else(
    postgresql: Any, process: Any, address: str
) -> None:
    store = process().store_of(3)
    with postgresql.connect(address) as slow, ThreadPoolExecutor(1) as pool:
        with slow.transaction():
            slow.execute("LOCK TABLE journal IN ACCESS EXCLUSIVE MODE")
            commit = pool.submit(store.commit, put(1))
            with pytest.raises(TimeoutError):
                commit.result(0.3)
        commit.result(PATIENCE_SECONDS)
    assert numbers(store) == [1]


def test_a_server_that_stays_away_is_named_and_nothing_has_changed(
    postgresql: Any, process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_store, "OUTAGE_SECONDS", 0.2)
    store = process().store_of(3)
    store.commit(put(1))
    postgresql.stop()
    try:
        with pytest.raises(
            StorageFailed, match=r"does not answer for 0\.2 s; what was committed before is safe"
        ):
            store.commit(put(2))
        with pytest.raises(StorageFailed, match="connection to server on socket"):
            process()
    finally:
        postgresql.start()
    assert numbers(process().store_of(3)) == [1]


def test_settings_and_tables_that_are_not_ours(postgresql: Any, process: Any, address: str) -> None:
    stores = process()
    store = stores.store_of(3)
    store.commit(put(1))
    shown = stores.run(lambda connection: connection.execute("SHOW synchronous_commit").fetchone(), 5.0)
    assert shown == ("local",)
    with postgresql.connect(address) as outside:
        outside.execute("UPDATE journal SET value = value || '\\x00'::bytea")
        with pytest.raises(StorageFailed, match="wrong checksum: restore the database"):
            store.rows("out")
        outside.execute("UPDATE rayvous_format SET version = 99")
        with pytest.raises(StorageFailed, match="another version of Rayvous"):
            process()
        outside.execute("DROP TABLE rayvous_format")
        with pytest.raises(
            StorageFailed, match="it has tables that do not belong to Rayvous, and was not changed"
        ):
            process()
        outside.execute("DROP TABLE journal")
        with pytest.raises(StorageFailed, match='relation "journal" does not exist'):
            store.commit(put(2))


def test_no_password_is_told(
    postgresql: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in errors, nor in the log of the connection pool while the server is down."""
    monkeypatch.setattr(postgresql_store, "OUTAGE_SECONDS", 0.2)
    with_password = postgresql.address().replace("postgres:@", "postgres:s3cr%20t@")
    stores = PostgresqlStores(database_of(with_password))
    store = stores.store_of(3)
    caplog.set_level(logging.DEBUG)
    said = []
    postgresql.stop()
    try:
        for work in (lambda: store.commit(put(1)), lambda: PostgresqlStores(database_of(with_password))):
            with pytest.raises(StorageFailed) as error:
                work()
            said.append(f"{error.value} {error.value.__cause__}")
    finally:
        postgresql.start()
        stores.close()
    with pytest.raises(StorageFailed) as error:
        PostgresqlStores(database_of(with_password + "&s3cr%20t=s3cr%20t"))
    said += [str(error.value), caplog.text]
    assert "***" in str(error.value)
    assert not [text for text in said if "s3cr" in text]
