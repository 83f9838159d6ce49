"""The rendezvous point's store for values that outlive its process: Ray's own key-value store, and a copy of it.

Rules
-----
* There is a copy if the network heals and its brokers have stores; the copy is stored beside these.
* A value is stored before the answer that depends on it is sent. Values are small and written whole.
* A restarted rendezvous point reads Ray's store. The copy outlives Ray: it is read when a network is launched again
  on the same stores (`resume_from_store`). The copy holds nothing that names actors or clients' processes.
* One thread writes the copy, so values that no caller waits for (`note`) delay no caller. A value that could not be
  written is written with the next ones; a caller that waits for it gets an error.
* A restarted rendezvous point writes the whole copy again: the copy on its node may belong to another network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Protocol

import ray
from ray.experimental import internal_kv

from ...protocol.effects import Write
from ...protocol.features import Features
from ...recovery.durability.stable import Stable
from ...recovery.durability.stores import Store
from ..host.broker_store import BrokerStores
from ..logs import HOST

DIRECTORY: Final = "directory"
CLIENTS: Final = "clients"
BORN: Final = "born"
GAME_DAY: Final = "game day"
ROOT: Final = "root"
_NOT_COPIED: Final = (DIRECTORY, CLIENTS, BORN, GAME_DAY)
"""Names of values that are not copied: the copy holds their relevant part in another form, or nothing. `ROOT` is not
copied when it is stored either, but by `note`."""

_NAMESPACE = b"rayvous"
_TABLE: Final = "rendezvous"

Values = Mapping[str, Any]


def nothing() -> Values:
    """Return no values."""
    return {}


class RendezvousStore(Protocol):
    """Values by name."""

    def keep(self, rest: Callable[[], Values]) -> None:
        """Set the function that returns all values that only the copy holds; any thread may call it.

        This comes before anything is stored.
        """
        ...

    def put(self, name: str, value: Any) -> None:
        """Store a value in place of the previous one."""
        ...

    def get(self, name: str) -> Any:
        """Return a value, or None if there is none."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Return the names of the stored values that begin with this."""
        ...

    def write(self, stored: Values, copied: Values) -> None:
        """Store some values, and copy some others, in one commit; None deletes a value from the copy."""
        ...

    def note(self, copied: Values) -> None:
        """Copy some values that are not stored, soon; the caller does not wait."""
        ...

    def earlier(self) -> dict[str, Any]:
        """Return what an earlier network has left in the copy, for a launch; nothing if the copy is new."""
        ...

    def close(self) -> None:
        """Close the copy once all noted values are in it; stored values remain."""
        ...


class RayStore:
    """The values of one network in Ray's key-value store, without a copy.

    Parameters
    ----------
    token
        The network's token; another network has another, even if it has the same name.
    """

    def __init__(self, token: str) -> None:
        self.token = token
        self._prefix = f"rayvous:{token}:".encode()

    def keep(self, rest: Callable[[], Values]) -> None:
        """Do nothing: there is no copy."""

    def put(self, name: str, value: Any) -> None:
        """Store a value in place of the previous one."""
        data = ray.cloudpickle.dumps(value)
        internal_kv._internal_kv_put(self._prefix + name.encode(), data, overwrite=True, namespace=_NAMESPACE)

    def get(self, name: str) -> Any:
        """Return a value, or None if there is none."""
        data = internal_kv._internal_kv_get(self._prefix + name.encode(), namespace=_NAMESPACE)
        return None if data is None else ray.cloudpickle.loads(data)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Return every name with its value."""
        for name in self.names(""):
            yield name, self.get(name)

    def names(self, prefix: str) -> list[str]:
        """Return the names of the values that begin with this."""
        keys = internal_kv._internal_kv_list(self._prefix + prefix.encode(), namespace=_NAMESPACE)
        return [key.removeprefix(self._prefix).decode() for key in keys]

    def write(self, stored: Values, copied: Values) -> None:
        """Store some values."""
        for name, value in stored.items():
            self.put(name, value)

    def note(self, copied: Values) -> None:
        """Do nothing: there is no copy."""

    def earlier(self) -> dict[str, Any]:
        """Return nothing: there is no copy."""
        return {}

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def clear(self) -> None:
        """Delete everything."""
        internal_kv._internal_kv_del(self._prefix, del_by_prefix=True, namespace=_NAMESPACE)


class LastingStore:
    """The values of one network in Ray's key-value store, and their copy.

    Parameters
    ----------
    in_ray
        The store in Ray.
    stable
        Where the copy is.
    """

    def __init__(self, in_ray: RayStore, stable: Stable) -> None:
        self._in_ray = in_ray
        self._stores = BrokerStores(stable, Features(stores=True))
        self._rest: Callable[[], Values] = nothing
        self._writer: ThreadPoolExecutor | None = None
        # Used by the writer's thread only.
        self._copy: Store | None = None
        self._earlier: dict[str, Any] = {}
        self._due: dict[str, Any] = {}

    def keep(self, rest: Callable[[], Values]) -> None:
        """Set the function that returns all values that only the copy holds."""
        self._rest = rest

    def put(self, name: str, value: Any) -> None:
        """Store a value in place of the previous one; as `write`."""
        self.write({name: value}, {})

    def get(self, name: str) -> Any:
        """Return a value, or None if there is none."""
        return self._in_ray.get(name)

    def names(self, prefix: str) -> list[str]:
        """Return the names of the stored values that begin with this."""
        return self._in_ray.names(prefix)

    def write(self, stored: Values, copied: Values) -> None:
        """Store some values, and copy some others.

        Raises
        ------
        StorageFailed
            If the values are in Ray's store now but not in the copy.
        """
        self._in_ray.write(stored, {})
        names = stored.keys() - {*_NOT_COPIED, ROOT}
        both = {name: stored[name] for name in names} | dict(copied)
        if both:
            self._do(self._commit, both).result()

    def note(self, copied: Values) -> None:
        """Copy some values, soon; a failure is logged."""
        self._do(self._note, dict(copied)).add_done_callback(_say_failure)

    def earlier(self) -> dict[str, Any]:
        """Return what an earlier network has left in the copy.

        Raises
        ------
        StorageFailed
            If the copy cannot be read, or that network still runs.
        """
        self._do(self._open).result()
        return dict(self._earlier)

    def close(self) -> None:
        """Close the copy once all noted values are in it."""
        if self._writer is not None:
            self._writer.shutdown()
        if self._copy is not None:
            self._copy.close()
        self._stores.close()

    # On the writer's thread.

    def _do(self, work: Callable[..., Any], *given: Any) -> Future[Any]:
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, "copy")
        return self._writer.submit(work, *given)

    def _commit(self, values: dict[str, Any]) -> None:
        self._due |= values
        copy = self._open()
        copy.commit([Write(_TABLE, (name,), value) for name, value in self._due.items()])
        self._due.clear()

    def _note(self, values: dict[str, Any]) -> None:
        self._stores.keep_claim()
        self._commit(values)

    def _open(self) -> Store:
        """Open the copy, once; in a running network, the whole copy is due to be written after that."""
        if self._copy is not None:
            return self._copy
        runs = self._in_ray.get(DIRECTORY) is not None
        copy = self._stores.of_network(reopened=runs)
        try:
            found = {str(name): value for (name,), value in copy.rows(_TABLE)}
        except BaseException:
            copy.close()
            raise
        if runs:
            stored = {name: value for name, value in self._in_ray.items() if name not in _NOT_COPIED}
            whole = stored | dict(self._rest()) | self._due
            self._due = dict.fromkeys(found.keys() - whole.keys()) | whole
        else:
            self._earlier = found
        self._copy = copy
        return copy


def _say_failure(noted: Future[None]) -> None:
    if not noted.cancelled() and (error := noted.exception()) is not None:
        HOST.error("the copy of what the rendezvous point knows is not up to date: %s", error)
