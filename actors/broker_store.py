"""The store of a broker that heals and keeps in a file what must outlive it."""

from __future__ import annotations

from ..faults.sqlite_store import SqliteStore
from ..faults.stores import Store
from ..protocol.errors import StorageFailed
from ..protocol.ids import BrokerId
from ..protocol.stability import Stable
from .healing_stable import IDENTITY


def store_of(stores: Stable, broker: BrokerId, life: int) -> Store:
    """Return the store of a broker: what its earlier lives in this network have left.

    Raises
    ------
    StorageFailed
        If it cannot be read, or a network begins with what another one has left.
    """
    file = stores.file_of(broker)
    store = SqliteStore(file, stores.synchronous, stores.pages_max)
    if not life and any(True for _ in store.rows(IDENTITY)):
        raise StorageFailed(f"{file} is of an earlier network: name an empty directory, or remove it")
    return store
