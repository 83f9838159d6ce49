"""The stores of one host's brokers: each outlives its broker, where the backend of the network's address keeps it.

Rules
-----
* A broker that heals recovers from its store in its later incarnations. In its first one it must not find the store
  of an earlier network.
* A broker that does not heal recovers from its store in each incarnation, also when the whole network is launched
  again.
* Where brokers compare what they know, a store can detect that its content is not what was written to it. Such
  a store is cleared and its broker starts clean (paper 4, section 2).
* What the stores share, as connections to a database, is opened with the first one.
* A network that heals also has a store of its own (`actors.network.store`), which one process holds at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from ...protocol.errors import StateDamaged
from ...protocol.features import Features
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import RENDEZVOUS
from ...recovery.durability.backend import Opening
from ...recovery.durability.stable import Stable
from ...recovery.durability.stores import Store
from ...recovery.durability.summed import SummedStore
from ..logs import Log

OPEN_SECONDS: Final = 5.0
"""How long opening waits for a process that has the store open and is about to end."""

SUCCESSOR_SECONDS: Final = 60.0
"""How long opening waits where an earlier incarnation is over but its process, only cut off, may still run."""

T = TypeVar("T")


class NoStores:
    """Of brokers without stores."""

    def store_of(self, broker: BrokerId, incarnation: int, *, reopened: bool = False) -> Store | None:
        """Return no store."""
        return None


class BrokerStores(NoStores):
    """Opens the stores of brokers.

    Parameters
    ----------
    stable
        Where the stores are.
    features
        Those of the network.
    """

    def __init__(self, stable: Stable, features: Features) -> None:
        self.stable = stable
        self._heals = features.heals
        self._sums = features.compares
        self._backend = stable.backend()
        self._claimed = False

    def store_of(self, broker: BrokerId, incarnation: int, *, reopened: bool = False) -> Store:
        """Return the store of a broker, with what its earlier incarnations have written.

        `reopened` says that Ray has restarted the process; the former process may still be ending. In that case,
        and in a later incarnation, opening waits longer.

        Raises
        ------
        StorageFailed
            If the store cannot be read, or a network that heals starts on the store of another network.
        """
        how = replace(
            self._how(reopened=reopened or incarnation > 0),
            incarnation=incarnation,
            fresh=self._heals and not incarnation,
        )
        store = self._backend.open(broker, how)
        return SummedStore(store) if self._sums else store

    def of_network(self, *, reopened: bool) -> Store:
        """Return the store of the network itself; `reopened` as in `store_of`.

        Raises
        ------
        StorageFailed
            If the store cannot be read, or another process holds it.
        """
        how = self._how(reopened=reopened)
        self._backend.claim(how)
        self._claimed = True
        return self._backend.open(RENDEZVOUS, how)

    def close(self) -> None:
        """Close what the stores share; each is closed by itself."""
        self._backend.close()

    def keep_claim(self) -> None:
        """Check that the claim of this network holds, also after a server restarted; nothing before `of_network`.

        Raises
        ------
        StorageFailed
            If another process has claimed the stores meanwhile.
        """
        if self._claimed:
            self._backend.claim(self._how(reopened=False))

    def _how(self, *, reopened: bool) -> Opening:
        waits = SUCCESSOR_SECONDS if reopened else OPEN_SECONDS
        return Opening(self.stable.synchronous, self.stable.pages_max, wait_seconds=waits)


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
