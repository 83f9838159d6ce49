"""The stores of one host's brokers: each has a file, or rows in a database, which outlive it.

Rules
-----
* A broker that heals goes on from its store in its later lives; in its first it must find none of an earlier network.
* One that does not heal goes on from its store in each life, also when the whole network is launched again.
* Where brokers compare what they know, a store knows whether it is what was written to it; one that is not is cleared,
  and its broker starts clean (paper 4, section 2).
* The connections to a database are made with the first store, and shared by all brokers here.
* A network that heals has a store of its own beside them (`actors.network.store`), which one process has at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ...faults.durability.identity import IDENTITY
from ...faults.durability.sqlite_store import OPEN_SECONDS, SUCCESSOR_SECONDS, SqliteStore
from ...faults.durability.stores import Store
from ...faults.durability.summed import SummedStore
from ...protocol.errors import StateDamaged, StorageFailed
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import RENDEZVOUS, Recovery
from ...protocol.stability import Stable
from ..logs import Log

if TYPE_CHECKING:
    from ...faults.durability.postgresql_store import PostgresqlStores

T = TypeVar("T")


class BrokerStores:
    """Opens the stores of brokers.

    Parameters
    ----------
    stable
        Where they are.
    recovery
        How the network heals; None when it does not.
    """

    def __init__(self, stable: Stable, recovery: Recovery | None) -> None:
        self.stable = stable
        self._heals = recovery is not None
        self._sums = recovery is not None and recovery.compare_seconds is not None
        self._in_database: PostgresqlStores | None = None

    def store_of(self, broker: BrokerId, life: int, *, again: bool = False) -> Store:
        """Return the store of a broker: what its earlier lives have left.

        `again` says that Ray has started its process again, maybe while the former one still ends.
        Where that is so, and in a later life, opening waits longer.

        Raises
        ------
        StorageFailed
            If it cannot be read, or a network that heals begins with what another one has left.
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
            If it cannot be read, or another process has it.
        """
        waits = SUCCESSOR_SECONDS if again else OPEN_SECONDS
        database = self._database()
        if database is None:
            return self._in_file(RENDEZVOUS, False, waits)
        database.claim(waits)
        return database.store_of(RENDEZVOUS)

    def close(self) -> None:
        """Let go of the connections to a database; files are let go with their stores."""
        if self._in_database is not None:
            self._in_database.close()

    def keep_claim(self) -> None:
        """See to it that a database is still this network's, also after a restart of its server; nothing for files.

        Raises
        ------
        StorageFailed
            If another process has claimed it meanwhile.
        """
        if self._in_database is not None:
            self._in_database.claim(OPEN_SECONDS)

    def _open(self, broker: BrokerId, life: int, fresh: bool, waits: float) -> Store:
        database = self._database()
        if database is None:
            return self._in_file(broker, fresh, waits)
        return database.store_of(broker, life, fresh=fresh)

    def _database(self) -> PostgresqlStores | None:
        """Return the stores in a database; None when they are files."""
        if self._in_database is None and self.stable.database is not None:
            from ...faults.durability.postgresql_store import PostgresqlStores

            self._in_database = PostgresqlStores(self.stable.database, self.stable.synchronous)
        return self._in_database

    def _in_file(self, broker: BrokerId, fresh: bool, waits: float) -> Store:
        file = self.stable.file_of(broker)
        store = SqliteStore(file, self.stable.synchronous, self.stable.pages_max, waits)
        if fresh and any(True for _ in store.rows(IDENTITY)):
            raise StorageFailed(f"{file} is of an earlier network: name an empty directory, or remove it")
        return store


def boot(make: Callable[[], T], store: Store | None, log: Log) -> T:
    """Return a broker that was made from its store; from an empty one when that is not what was written to it."""
    while True:
        try:
            return make()
        except StateDamaged as error:  # once for each table the sum of which is gone, too
            assert isinstance(store, SummedStore)
            log.error("it starts clean: %s", error)
            if not store.clear():
                raise
