"""Which kernel the match index runs on: the compiled one, or numpy where that was not built.

Rules
-----
* It is chosen once, when this is imported. ``RAYVOUS_KERNEL`` (``native``, ``numpy``) chooses by hand; ``native`` where
  it was not built is an error.
* Both give the same matches; the tests of the index run on both.
* One that was built of other sources is not taken: what it is handed has another form.
* That it was not built is said once a process, as a warning: everything works, slower.
"""

from __future__ import annotations

import importlib
import os
import warnings
from types import ModuleType
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from ...protocol.batch import EventBatch
from ...protocol.errors import InputError
from ..filters.clauses import Clause
from .bits import Columns
from .matches import Matches
from .native_rows import NativeRows
from .numpy_rows import NumpyRows

VARIABLE: Final = "RAYVOUS_KERNEL"
CHOICES: Final = ("native", "numpy")
FORM: Final = 2
"""Of what Python hands the compiled kernel; another number, here and in kernel.c, whenever that changes."""


class Rows(Protocol):
    """Clauses by column, and which of them match an event."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""

    def reserve(self, columns: int) -> None:
        """Be told how many columns there will be."""

    def add(self, column: int, clause: Clause, *, settled: bool = True) -> None:
        """Give a clause a column; when not `settled`, :meth:`settle` must follow before a match."""

    def settle(self) -> None:
        """Be ready for a match."""

    def remove(self, column: int) -> None:
        """Take a column's clause out."""

    def clause(self, column: int) -> Clause:
        """Return the clause of a column."""

    def match(self, batch: EventBatch, owners: Columns | None) -> Matches:
        """Return which columns match which event, or, given `owners`, whose they are, each once."""

    def match_groups(
        self, batch: EventBatch, groups: npt.NDArray[np.uint64], goal: np.uint64
    ) -> npt.NDArray[np.uint64]:
        """Return, for each event, the OR of the groups of the columns that match; `goal` is that of all."""

    def check(self, expected: dict[int, Clause]) -> None:
        """Assert that all that is kept is that of these clauses."""


def compiled() -> ModuleType | None:
    """Return the compiled module, or None where it was not built, or of other sources than these."""
    try:
        module = importlib.import_module("._kernel", __package__)
    except ImportError:
        return None
    return module if getattr(module, "form", None) == FORM else None


def chosen(wanted: str | None, module: ModuleType | None) -> str:
    """Return the kernel's name, given what the environment wants and what was built.

    Raises
    ------
    InputError
        If what is wanted is no kernel, or was not built.
    """
    if wanted and wanted not in CHOICES:
        raise InputError(f"{VARIABLE}={wanted}: it is {' or '.join(CHOICES)}")
    if wanted == "native" and module is None:
        raise InputError(
            f"{VARIABLE}=native: it was not built; with a C compiler there, pip install rayvous builds it"
        )
    return wanted or ("numpy" if module is None else "native")


_MODULE: Final = compiled()
KERNEL: Final = chosen(os.environ.get(VARIABLE), _MODULE)
"""The kernel that an index has unless it is told otherwise."""

if _MODULE is None and not os.environ.get(VARIABLE):
    warnings.warn(
        "the match index runs on numpy: its compiled kernel was not built, or of other sources (installing rayvous "
        f"builds it where there is a C compiler; {VARIABLE}=numpy is this without the warning)",
        RuntimeWarning,
        stacklevel=2,
    )


def make_rows(kernel: str = KERNEL) -> Rows:
    """Return an empty set of columns on a kernel."""
    module = _MODULE if kernel == "native" else None
    return NumpyRows() if module is None else NativeRows(module)


def instructions() -> str:
    """Return which instructions the compiled kernel uses; nothing where it was not built."""
    return "" if _MODULE is None else str(_MODULE.level())
