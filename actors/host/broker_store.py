"""The stores of one host's brokers: each is a file, or rows in a database, and outlives its broker.

Rules
-----
* A broker that heals recovers from its store in its later lives. In its first life it must not find the store
  of an earlier network.
* A broker that does not heal recovers from its store in each life, also when the whole network is launched
  again.
* Where brokers compare what they know, a store can detect that its content is not what was written to it. Such
  a store is cleared and its broker starts clean (paper 4, section 2).
* The connections to a database are opened with the first store and shared by all brokers here.
* A network that heals also has a store of its own (`actors.network.store`), which one process holds at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ...protocol.errors import StateDamaged, StorageFailed
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import RENDEZVOUS, Recovery
from ...protocol.stability import Stable
from ...recovery.durability.identity import IDENTITY
from ...recovery.durability.sqlite_store import OPEN_SECONDS, SUCCESSOR_SECONDS, SqliteStore
from ...recovery.durability.stores import Store
from ...recovery.durability.summed import SummedStore
from ..logs import Log

if TYPE_CHECKING:
    from ...recovery.durability.postgresql_store import PostgresqlStores

T = TypeVar("T")


class BrokerStores:
    """Opens the stores of brokers.

    Parameters
    ----------
    stable
        Where the stores are.
    recovery
        How the network heals; None if it does not.
    """

    def __init__(self, stable: Stable, recovery: Recovery | None) -> None:
        self.stable = stable
        self._heals = recovery is not None
        self._sums = recovery is not None and recovery.compare_seconds is not None
        self._in_database: PostgresqlStores | None = None

    def store_of(self, broker: BrokerId, life: int, *, again: bool = False) -> Store:
        """Return the store of a broker, with what its earlier lives have written.

        `again` says that Ray has restarted the process; the former process may still be ending. In that case,
        and in a later life, opening waits longer.

        Raises
        ------
        StorageFailed
            If the store cannot be read, or a network that heals starts on the store of another network.
        """
        fresh = self._heals and not life
        waits = SUCCESSOR_SECONDS if life or again else OPEN_SECONDS
        store = self._open(broker, life, fresh, waits)
        return SummedStore(store) if self._sums else store

    def of_network(self, *, again: bool) -> Store:
        """Return the store of the network itself; `again` as in `store_of`.

        Raises
        ------
        StorageFailed
            If the store cannot be read, or another process holds it.
        """
        waits = SUCCESSOR_SECONDS if again else OPEN_SECONDS
        database = self._database()
        if database is None:
            return self._in_file(RENDEZVOUS, False, waits)
        database.claim(waits)
        return database.store_of(RENDEZVOUS)

    def close(self) -> None:
        """Close the connections to a database; files are closed with their stores."""
        if self._in_database is not None:
            self._in_database.close()

    def keep_claim(self) -> None:
        """Check that the database still belongs to this network, also after its server restarted; do nothing for files.

        Raises
        ------
        StorageFailed
            If another process has claimed the database meanwhile.
        """
        if self._in_database is not None:
            self._in_database.claim(OPEN_SECONDS)

    def _open(self, broker: BrokerId, life: int, fresh: bool, waits: float) -> Store:
        database = self._database()
        if database is None:
            return self._in_file(broker, fresh, waits)
        return database.store_of(broker, life, fresh=fresh)

    def _database(self) -> PostgresqlStores | None:
        """Return the stores in a database; None if they are files."""
        if self._in_database is None and self.stable.database is not None:
            from ...recovery.durability.postgresql_store import PostgresqlStores

            self._in_database = PostgresqlStores(self.stable.database, self.stable.synchronous)
        return self._in_database

    def _in_file(self, broker: BrokerId, fresh: bool, waits: float) -> Store:
        file = self.stable.file_of(broker)
        store = SqliteStore(file, self.stable.synchronous, self.stable.pages_max, waits)
        if fresh and any(True for _ in store.rows(IDENTITY)):
            raise StorageFailed(
                f"{file} belongs to an earlier network: name an empty directory, or remove it"
            )
        return store


def boot(make: Callable[[], T], store: Store | None, log: Log) -> T:
    """Return a broker made from its store; if the store is damaged, clear it and make the broker from an empty one."""
    while True:
        try:
            return make()
        except StateDamaged as error:  # also once for each table that has lost its sum
            assert isinstance(store, SummedStore)
            log.error("starting with an empty store: %s", error)
            if not store.clear():
                raise
