"""Values as bytes, for a store: what the protocol and the filters are made of, and nothing else.

Rules
-----
* Bytes may come from a file that somebody else wrote. Reading them makes objects of the classes of `protocol` and
  `routing` and arrays of numbers, and calls nothing else: no function, no class from elsewhere.
* The same value read back is equal, also in the order of its mappings.

The format is pickle's, read by an unpickler that knows these names only.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any, Final

from ..protocol.errors import StorageFailed

_PACKAGE: Final = __name__.partition(".")[0]
_OURS: Final = (f"{_PACKAGE}.protocol.", f"{_PACKAGE}.routing.")
_ELSEWHERE: Final = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
}
"""What numpy makes an array from."""


def encode(value: Any) -> bytes:
    """Return a value as bytes."""
    return pickle.dumps(value, protocol=5)


def decode(data: bytes) -> Any:
    """Return the value that the bytes stand for.

    Raises
    ------
    StorageFailed
        If they stand for none, or name something that is not in the protocol or the language of filters.
    """
    try:
        return _Reader(io.BytesIO(data)).load()
    except StorageFailed:
        raise
    except Exception as error:  # whatever a broken stream does to the unpickler or to our constructors
        raise StorageFailed(f"bytes that stand for no value ({type(error).__name__}: {error})") from None


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ELSEWHERE:
            return super().find_class(module, name)
        if module.startswith(_OURS) and "." not in name:
            found = getattr(sys.modules.get(module), name, None) or super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise StorageFailed(f"bytes that name {module}.{name}, which is no part of the protocol: not read")
