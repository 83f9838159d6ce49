"""The installed versions on one line, for bug reports."""

from __future__ import annotations

import platform
from importlib import metadata

from ..routing.matching.kernels import KERNEL, instructions


def version_line() -> str:
    """Return the versions of this package, of Python and of Ray, and the kernel of the match index."""
    package = __package__.partition(".")[0]
    kernel = f"compiled ({instructions()})" if KERNEL == "native" else KERNEL
    python, ray = platform.python_version(), metadata.version("ray")
    return f"{package} {metadata.version(package)}, Python {python}, Ray {ray}, match index {kernel}"
