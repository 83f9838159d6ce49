"""A store backend of one's own: what brokers have stored stays in this process, so that a test sees all of it.

    Stable("own_store:Memory://flights")

It is there as long as the process: for tests that end brokers and start them again, not for what must outlive a process.
"""

from collections import defaultdict

from rayvous.protocol.errors import StorageFailed
from rayvous.recovery.durability.backend import Backend
from rayvous.recovery.durability.stores import MemoryStore

STORES = defaultdict(MemoryStore)


class Memory(Backend):
    """The stores of one name in this process."""

    def open(self, broker, how):
        store = STORES[self.address, broker]
        if how.fresh and list(store.rows("identity")):
            raise StorageFailed(f"{self.show()} belongs to an earlier network: give another name")
        return store

    def claim(self, how):
        """Do nothing: no other process sees these stores."""

    def show(self):
        return self.address
