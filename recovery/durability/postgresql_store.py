"""Stable storage in PostgreSQL: the rows of all brokers of a network, in one schema of a database.

Rules
-----
* Each commit is one transaction (paper 4: the backup is atomic), with the same rows as in a file (`rows`).
* **Fencing.** Opening a broker's store begins its next *incarnation*. Each commit checks in its own
  transaction whether the broker is still in its incarnation. A row lock orders the two: either the commit is
  complete before the successor reads, or it is refused. A broker that was only cut off therefore writes
  nothing once its successor has begun, and a late process of an earlier incarnation does not begin at all.
* A commit whose connection is lost is retried under the same fence. A plan contains places, so the retry is
  idempotent, whether the first attempt was committed or not. COMMIT is sent only after the fence has
  answered. If the server is still executing the first attempt, that attempt has the row locked, and the retry
  waits for it. Nothing else is retried.
* `synchronous` decides what a completed commit survives:

      off      the death of brokers and their machines; a crash of the server may lose the last commits
      normal   also the crash of the server: a commit waits until it is on the server's disk
      full     also the loss of the server, if it has synchronous standbys: a commit waits for them

* The brokers of one process share connections. The server ends a session that is idle within a transaction,
  so a lost machine does not block the successors of its brokers.
* A schema that is *claimed* is refused to other claimants while the session of the claim lasts. This prevents
  a network that is launched by mistake from taking over a running one. A claim is no fence: a restart of the
  server ends it.
* Messages of the driver are reported without passwords.

Together with the store in files this is the only file of the pure folders that does I/O; `tests/test_tidy.py`
names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeAlias, TypeVar

from ...protocol.effects import Key, Write
from ...protocol.errors import StorageFailed
from ...protocol.extras import extra
from ...protocol.ids import BrokerId
from ...protocol.stability import Synchronous
from .postgresql_database import Database
from .rows import Plan, Rows, read

with extra("postgresql"):
    import psycopg
    from psycopg import sql
    from psycopg_pool import ConnectionPool, PoolTimeout

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Pool: TypeAlias = ConnectionPool[Connection]
T = TypeVar("T")

FORMAT: Final = 2
"""The format of the tables. Any other format is rejected."""

CONNECTIONS_MAX: Final = 4
"""The maximum of connections per process, however many brokers it has; each commits one transaction at a time."""

OPEN_SECONDS: Final = 30.0
"""How long opening waits for the server, and for a predecessor in the middle of a commit."""

OUTAGE_SECONDS: Final = 300.0
"""How long a commit waits for an unreachable server. A failover takes a minute or two."""

STILL_SECONDS: Final = 10
"""How long a session may be idle within a transaction, and how long a machine may not answer."""

_LOCK: Final = 0x52595653
"""The key of an advisory lock: one process at a time creates the tables. With the schema it is the key of a claim."""

_CLAIM: Final = "SELECT pg_advisory_lock(%s, hashtext(%s))"

_CONNECTING: Final[dict[str, Any]] = {
    "autocommit": True,
    "application_name": "rayvous",
    "connect_timeout": STILL_SECONDS,
    "keepalives_idle": STILL_SECONDS,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": STILL_SECONDS * 1000,
}

_NOTICED: Final = {
    "tcp_keepalives_idle": str(STILL_SECONDS),
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}
"""The settings by which the server notices that the machine of a claim is gone."""

_SYNCHRONOUS: Final[dict[Synchronous, str]] = {"off": "off", "normal": "local", "full": "on"}

_TABLES: Final = """
CREATE TABLE brokers (
    broker integer PRIMARY KEY,
    life integer NOT NULL,        -- how often it was started again, as the rendezvous point counts
    incarnation bigint NOT NULL   -- how often its store was opened: the fence
);
CREATE TABLE journal (
    broker integer NOT NULL,
    place bigint NOT NULL,        -- rises with the first write of each row
    section text NOT NULL,
    key text NOT NULL,            -- a JSON list
    value bytea NOT NULL,
    checksum bigint NOT NULL,     -- CRC-32 of section, key and value
    PRIMARY KEY (broker, place)
);
CREATE TABLE rayvous_format (version integer NOT NULL)
"""
_BEGIN: Final = """
INSERT INTO brokers AS former VALUES (%s, %s, 1)
ON CONFLICT (broker) DO UPDATE SET life = excluded.life, incarnation = former.incarnation + 1
WHERE former.life <= excluded.life
RETURNING incarnation
"""
_BEGIN_FRESH: Final = """
INSERT INTO brokers AS former VALUES (%s, %s, 1)
ON CONFLICT (broker) DO UPDATE SET life = excluded.life, incarnation = former.incarnation + 1
WHERE NOT EXISTS (SELECT FROM journal WHERE journal.broker = former.broker)
RETURNING incarnation
"""
_FENCE: Final = "SELECT 1 FROM brokers WHERE broker = %s AND incarnation = %s FOR NO KEY UPDATE"
_DELETE: Final = """
DELETE FROM journal USING unnest(%s::bigint[], %s::bigint[]) AS run (first, last)
WHERE broker = %s AND place BETWEEN first AND last
"""
_PUT: Final = """
INSERT INTO journal
SELECT %s, * FROM unnest(%s::bigint[], %s::text[], %s::text[], %b::bytea[], %s::bigint[])
ON CONFLICT (broker, place) DO UPDATE SET value = excluded.value, checksum = excluded.checksum
"""
_PLACES: Final = "SELECT section, key, place FROM journal WHERE broker = %s ORDER BY place"
_READ: Final = """
SELECT key, value, checksum FROM journal WHERE broker = %s AND section = %s ORDER BY place
"""
_RESTORE: Final = "restore the database from a copy, or name another schema to start the network empty"


def settings_of(database: Database, synchronous: Synchronous) -> dict[str, str]:
    """Return the settings of every session."""
    return {
        "synchronous_commit": _SYNCHRONOUS[synchronous],
        "search_path": f'"{database.schema}"',
        "idle_in_transaction_session_timeout": f"{STILL_SECONDS}s",
    }


class PostgresqlStores:
    """The stores of one process's brokers in a database. The tables are created if they do not exist.

    Parameters
    ----------
    database
        The database.
    synchronous
        What a commit waits for: "off", "normal" or "full".

    Raises
    ------
    StorageFailed
        If the database cannot be reached, or its tables are foreign or of another version.
    """

    def __init__(self, database: Database, synchronous: Synchronous = "normal") -> None:
        self.database = database
        self._settings = settings_of(database, synchronous)
        self._claim: Connection | None = None
        try:
            with psycopg.connect(database.conninfo, **_CONNECTING) as connection:
                self._configure(connection)
                self._make_tables(connection)
        except psycopg.Error as error:
            raise StorageFailed(f"{database.shown}: {database.told(error)}") from None
        self._pool: Pool = ConnectionPool(
            database.conninfo,
            kwargs=_CONNECTING,
            name="rayvous",
            min_size=1,
            max_size=CONNECTIONS_MAX,
            configure=self._configure,
            open=True,
        )

    def claim(self, seconds: float) -> None:
        """Claim the schema for the lifetime of this process; wait up to `seconds` for a claimant that is about to end.

        Raises
        ------
        StorageFailed
            If another process still has it then, or the database cannot be reached.
        """
        if self._claim is not None:
            try:
                self._claim.execute("SELECT 1")
                return
            except psycopg.Error:
                self._claim.close()
                self._claim = None
        self.run(lambda _: self._claim_anew(seconds), OUTAGE_SECONDS)

    def _claim_anew(self, seconds: float) -> None:
        with ExitStack() as open_meanwhile:
            connection = psycopg.connect(self.database.conninfo, **_CONNECTING)
            open_meanwhile.callback(connection.close)
            _set(connection, {"lock_timeout": f"{seconds:g}s", **_NOTICED})
            try:
                connection.execute(_CLAIM, (_LOCK, self.database.schema))
            except psycopg.errors.LockNotAvailable:
                raise StorageFailed(
                    f"{self.database.shown}: a running network uses this schema: end it first, or name another "
                    "schema"
                ) from None
            self._claim = connection
            open_meanwhile.pop_all()

    def _configure(self, connection: Connection) -> None:
        _set(connection, self._settings)

    def _make_tables(self, connection: Connection) -> None:
        shown, schema = self.database.shown, self.database.schema
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if not _one(connection, "SELECT to_regnamespace(%s) IS NOT NULL", f'"{schema}"'):
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
            if not _one(connection, "SELECT to_regclass('rayvous_format') IS NOT NULL"):
                try:
                    connection.execute(_TABLES)
                except psycopg.errors.DuplicateTable:
                    raise StorageFailed(
                        f"{shown}: it has tables that do not belong to Rayvous, and was not changed: name another one"
                    ) from None
                connection.execute("INSERT INTO rayvous_format VALUES (%s)", (FORMAT,))
            version = _one(connection, "SELECT version FROM rayvous_format")
        if version != FORMAT:
            raise StorageFailed(
                f"{shown}: written by another version of Rayvous (format {version}, this one reads {FORMAT}): use that "
                "version, or name another schema"
            )

    def store_of(self, broker: BrokerId, incarnation: int = 0, *, fresh: bool = False) -> PostgresqlStore:
        """Return the store of a broker and begin the broker's next incarnation; see `PostgresqlStore`."""
        return PostgresqlStore(self, broker, incarnation, fresh=fresh)

    def run(self, work: Callable[[Connection], T], seconds: float) -> T:
        """Run `work` in a connection and return its result; run it again if the connection is lost meanwhile.

        Raises
        ------
        StorageFailed
            If there is no connection for `seconds` seconds, or each one is lost, or the server refuses.
        """
        database, lost = self.database, ""
        for _ in range(2 * CONNECTIONS_MAX):  # after a restart of the server all idle connections are lost
            try:
                with self._pool.connection(seconds) as connection:
                    try:
                        return work(connection)
                    except psycopg.Error as error:
                        lost = database.told(error)
                        if not connection.closed:
                            raise StorageFailed(
                                f"{database.shown}: {lost}; what was committed before is safe"
                            ) from None
            except PoolTimeout:
                raise StorageFailed(
                    f"{database.shown}: the server does not answer for {seconds:g} s; what was committed before is safe"
                    f"{f' (last: {lost})' if lost else ''}"
                ) from None
        raise StorageFailed(f"{database.shown}: each connection is lost: {lost}")

    def close(self) -> None:
        """Close the connections. Committed changes stay."""
        self._pool.close()
        if self._claim is not None:
            self._claim.close()


class PostgresqlStore:
    """The stable store of one broker, in a database.

    Parameters
    ----------
    stores
        The stores of the broker's process.
    broker, incarnation
        The broker, and how often it was restarted, as counted by the rendezvous point.
    fresh
        Whether to require that no earlier incarnation has written anything.

    Raises
    ------
    StorageFailed
        If a later incarnation has begun, or `fresh` is set and the store is not empty, or the database cannot be
        used.
    """

    def __init__(
        self, stores: PostgresqlStores, broker: BrokerId, incarnation: int = 0, *, fresh: bool = False
    ) -> None:
        self._stores = stores
        self._broker = broker
        self._where = f"{stores.database.shown}, broker {broker}"
        self.opening, found = stores.run(
            lambda connection: self._begin(connection, incarnation, fresh), OPEN_SECONDS
        )
        try:
            self._rows = Rows(found)
        except (ValueError, TypeError) as error:
            raise StorageFailed(f"{self._where}: broken ({error}): {_RESTORE}") from None

    def _begin(
        self, connection: Connection, incarnation: int, fresh: bool
    ) -> tuple[int, list[tuple[str, str, int]]]:
        with connection.transaction():
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{OPEN_SECONDS:g}s",))
            began = connection.execute(
                _BEGIN_FRESH if fresh else _BEGIN, (self._broker, incarnation)
            ).fetchone()
            if began is None and fresh:
                raise StorageFailed(
                    f"{self._where} belongs to an earlier network: name another schema, or drop this one"
                )
            if began is None:
                raise StorageFailed(
                    f"{self._where}: a later incarnation of this broker than {incarnation} has begun"
                )
            return int(began[0]), connection.execute(_PLACES, (self._broker,)).fetchall()

    def commit(self, writes: Sequence[Write]) -> None:
        """Make changes stable in one transaction, all of them or none.

        Raises
        ------
        StorageFailed
            If that fails, or a later incarnation has begun; then nothing has changed.
        """
        plan = self._rows.plan(writes)
        self._stores.run(lambda connection: self._write(connection, plan), OUTAGE_SECONDS)
        self._rows.take(plan)

    def may_wait(self, writes: Sequence[Write]) -> bool:
        """Return True: a server is asked."""
        return True

    def _write(self, connection: Connection, plan: Plan) -> None:
        broker = self._broker
        with connection.pipeline(), connection.transaction():
            fence = connection.execute(_FENCE, (broker, self.opening))
            for change in plan.changes:
                if change.gone:
                    first, last = map(list, zip(*change.gone, strict=True))
                    connection.execute(_DELETE, (first, last, broker))
                if change.put:
                    connection.execute(_PUT, (broker, *map(list, zip(*change.put, strict=True))))
            if fence.fetchone() is None:
                raise StorageFailed(
                    f"{self._where}: it was started again elsewhere, so incarnation {self.opening} may not "
                    "write any more"
                )

    def rows(self, table: str) -> Iterator[tuple[Key, Any]]:
        """Return the rows of a table, in the order in which they were first written.

        Raises
        ------
        StorageFailed
            If they cannot be read, or a row is not what was written.
        """
        found = self._stores.run(
            lambda connection: connection.execute(_READ, (self._broker, table), binary=True).fetchall(),
            OPEN_SECONDS,
        )
        return read(found, table, self._where, _RESTORE)

    def close(self) -> None:
        """Do nothing: all brokers of this process share the connections."""


def _set(connection: Connection, settings: Mapping[str, str]) -> None:
    """Apply settings to a session."""
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))


def _one(connection: Connection, query: Any, *values: object) -> Any:
    """Return the single value of a query's result."""
    found = connection.execute(query, values).fetchone()
    return None if found is None else found[0]
