"""Where the rendezvous point keeps what must outlive its process: Ray's own key-value store.

Rules
-----
* A value is stored before the answer that depends on it leaves. What is stored is small and written whole.
* A network that heals and whose brokers have stores is to outlive Ray, too. What its rendezvous point stores is written
  a second time, beside its brokers' stores. That copy is read when a network is launched there again (`taking_up`).
* What names actors is Ray's alone: with Ray they are gone.
* A copy that is of another network, as it is on a node where the rendezvous point has not been, is written anew, whole.
  What could not be written is written with what comes next; whoever waited for it is told that it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

import ray
from ray.experimental import internal_kv

from ...faults.durability.stores import Store
from ...protocol.effects import Write
from ...protocol.stability import Stable
from ..host.broker_store import BrokerStores

DIRECTORY: Final = "directory"
"""The name of the one value that has actors in it."""

_NAMESPACE = b"rayvous"
_TABLE: Final = "rendezvous"
_TOKEN: Final = "token"


class RendezvousStore(Protocol):
    """Values by name."""

    def put(self, name: str, value: Any) -> None:
        """Store a value, in place of what was there."""
        ...

    def get(self, name: str) -> Any:
        """Return a value, or None when there is none."""
        ...

    def earlier(self) -> dict[str, Any]:
        """Return the values that an earlier network has left where this one is launched."""
        ...


class RayStore:
    """The values of one network, in Ray's key-value store.

    Parameters
    ----------
    token
        Of the network; another one, also of the same name, has another.
    """

    def __init__(self, token: str) -> None:
        self.token = token
        self._prefix = f"rayvous:{token}:".encode()

    def put(self, name: str, value: Any) -> None:
        """Store a value, in place of what was there."""
        data = ray.cloudpickle.dumps(value)
        internal_kv._internal_kv_put(self._prefix + name.encode(), data, overwrite=True, namespace=_NAMESPACE)

    def get(self, name: str) -> Any:
        """Return a value, or None when there is none."""
        data = internal_kv._internal_kv_get(self._prefix + name.encode(), namespace=_NAMESPACE)
        return None if data is None else ray.cloudpickle.loads(data)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Return every name with its value."""
        for key in internal_kv._internal_kv_list(self._prefix, namespace=_NAMESPACE):
            name = key.removeprefix(self._prefix).decode()
            yield name, self.get(name)

    def earlier(self) -> dict[str, Any]:
        """Return nothing: another network has another token."""
        return {}

    def clear(self) -> None:
        """Delete everything."""
        internal_kv._internal_kv_del(self._prefix, del_by_prefix=True, namespace=_NAMESPACE)


class LastingStore:
    """The values of one network, in Ray's key-value store and beside the stores of its brokers.

    Parameters
    ----------
    in_ray
        The former.
    stable
        Where the latter are.
    """

    def __init__(self, in_ray: RayStore, stable: Stable) -> None:
        self._in_ray = in_ray
        self._stores = BrokerStores(stable, None)
        self._copy: Store | None = None
        self._found: dict[str, Any] = {}
        self._due: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        """Store a value, in place of what was there.

        Raises
        ------
        StorageFailed
            If it is in Ray's store now and not in the copy.
        """
        self._in_ray.put(name, value)
        if name == DIRECTORY:
            return
        self._due[name] = value
        copy = self._open()
        copy.commit([Write(_TABLE, (each,), its) for each, its in self._due.items()])
        self._due.clear()

    def get(self, name: str) -> Any:
        """Return a value, or None when there is none."""
        return self._in_ray.get(name)

    def earlier(self) -> dict[str, Any]:
        """Return the values that an earlier network has left.

        Raises
        ------
        StorageFailed
            If they cannot be read, or that network still runs.
        """
        self._open()
        return self._found

    def _open(self) -> Store:
        if self._copy is None:
            here = dict(self._in_ray.items())
            self._copy = self._stores.of_network(again=bool(here))
            found = {str(name): value for (name,), value in self._copy.rows(_TABLE)}
            if found.pop(_TOKEN, None) != self._in_ray.token:
                here.pop(DIRECTORY, None)
                gone = dict.fromkeys(found.keys() - here.keys()) if here else {}
                self._due = gone | here | self._due | {_TOKEN: self._in_ray.token}
                self._found = {} if here else found
        return self._copy
