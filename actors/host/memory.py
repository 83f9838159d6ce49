"""The memory of this process.

Rule: what is told is its own: pages that it shares with other processes, as Ray's libraries and its object store, cost
nothing more for one process more.
"""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import Final

_ROLLUP: Final = Path("/proc/self/smaps_rollup")
_PRIVATE: Final = re.compile(r"^Private_(?:Clean|Dirty):\s+(\d+) kB$", re.MULTILINE)


def own_bytes() -> int:
    """Return the bytes that this process shares with no other; where that is not told, the most that it ever had."""
    try:
        return sum(int(kilobytes) << 10 for kilobytes in _PRIVATE.findall(_ROLLUP.read_text()))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
