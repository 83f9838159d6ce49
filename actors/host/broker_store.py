"""The stores of one host's brokers: each has a file, which outlives it.

Rules
-----
* A broker that heals goes on from its file in its later lives; in its first it must find none of an earlier network.
* One that does not heal goes on from its file in each life, also when the whole network is launched again.
"""

from __future__ import annotations

from ...faults.durability.identity import IDENTITY
from ...faults.durability.sqlite_store import SqliteStore
from ...faults.durability.stores import Store
from ...protocol.errors import StorageFailed
from ...protocol.ids import BrokerId
from ...protocol.stability import Stable


def store_of(stable: Stable, broker: BrokerId, life: int, *, heals: bool) -> Store:
    """Return the store of a broker: what its earlier lives have left.

    Raises
    ------
    StorageFailed
        If it cannot be read, or a network that heals begins with what another one has left.
    """
    file = stable.file_of(broker)
    store = SqliteStore(file, stable.synchronous, stable.pages_max)
    if heals and not life and any(True for _ in store.rows(IDENTITY)):
        raise StorageFailed(f"{file} is of an earlier network: name an empty directory, or remove it")
    return store
