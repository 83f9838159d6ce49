"""Where the rendezvous point keeps what must outlive its process: Ray's own key-value store.

Rule: a value is stored before the answer that depends on it leaves. What is stored is small and written whole.
"""

from __future__ import annotations

from typing import Any, Protocol

import ray
from ray.experimental import internal_kv

_NAMESPACE = b"rayvous"


class RendezvousStore(Protocol):
    """Values by name."""

    def put(self, name: str, value: Any) -> None:
        """Store a value, in place of what was there."""
        ...

    def get(self, name: str) -> Any:
        """Return a value, or None when there is none."""
        ...

    def clear(self) -> None:
        """Delete everything."""
        ...


class RayStore:
    """The values of one network, in Ray's key-value store.

    Parameters
    ----------
    token
        Of the network; another one, also of the same name, has another.
    """

    def __init__(self, token: str) -> None:
        self._prefix = f"rayvous:{token}:".encode()

    def put(self, name: str, value: Any) -> None:
        """Store a value, in place of what was there."""
        data = ray.cloudpickle.dumps(value)
        internal_kv._internal_kv_put(self._prefix + name.encode(), data, overwrite=True, namespace=_NAMESPACE)

    def get(self, name: str) -> Any:
        """Return a value, or None when there is none."""
        data = internal_kv._internal_kv_get(self._prefix + name.encode(), namespace=_NAMESPACE)
        return None if data is None else ray.cloudpickle.loads(data)

    def clear(self) -> None:
        """Delete everything."""
        internal_kv._internal_kv_del(self._prefix, del_by_prefix=True, namespace=_NAMESPACE)
