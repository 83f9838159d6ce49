"""The stores of one host's brokers: each has a file, or rows in a database, which outlive it.

Rules
-----
* A broker that heals goes on from its store in its later lives; in its first it must find none of an earlier network.
* One that does not heal goes on from its store in each life, also when the whole network is launched again.
* The connections to a database are made with the first store, and shared by all brokers here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...faults.durability.identity import IDENTITY
from ...faults.durability.sqlite_store import SqliteStore
from ...faults.durability.stores import Store
from ...protocol.errors import StorageFailed
from ...protocol.ids import BrokerId
from ...protocol.stability import Stable

if TYPE_CHECKING:
    from ...faults.durability.postgresql_store import PostgresqlStores


class BrokerStores:
    """Opens the stores of brokers.

    Parameters
    ----------
    stable
        Where they are.
    heals
        Whether the network heals.
    """

    def __init__(self, stable: Stable, *, heals: bool) -> None:
        self.stable = stable
        self._heals = heals
        self._in_database: PostgresqlStores | None = None

    def store_of(self, broker: BrokerId, life: int) -> Store:
        """Return the store of a broker: what its earlier lives have left.

        Raises
        ------
        StorageFailed
            If it cannot be read, or a network that heals begins with what another one has left.
        """
        fresh = self._heals and not life
        if self.stable.database is None:
            return self._in_file(broker, fresh)
        if self._in_database is None:
            from ...faults.durability.postgresql_store import PostgresqlStores

            self._in_database = PostgresqlStores(self.stable.database, self.stable.synchronous)
        return self._in_database.store_of(broker, life, fresh=fresh)

    def _in_file(self, broker: BrokerId, fresh: bool) -> Store:
        file = self.stable.file_of(broker)
        store = SqliteStore(file, self.stable.synchronous, self.stable.pages_max)
        if fresh and any(True for _ in store.rows(IDENTITY)):
            raise StorageFailed(f"{file} is of an earlier network: name an empty directory, or remove it")
        return store
