"""Selection of the match index's kernel: the compiled one, or numpy where that was not built.

Rules
-----
* The kernel is selected once, when this module is imported. ``RAYVOUS_KERNEL`` (``native``, ``numpy``) overrides the
  selection; ``native`` is an error where the compiled kernel was not built.
* Both kernels give the same matches; the tests of the index run on both.
* A compiled kernel that was built from other sources (`FORM`) is not used.
* If the compiled kernel is missing and none was chosen, there is one warning per process: everything works, but
  slower.
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
FORM: Final = "55feedd94884127b"
"""The digest of the compiled kernel's sources, which kernel.c has too: `tests/test_tidy.py` says which it is."""


class Rows(Protocol):
    """Clauses by column, and the matching of events against them."""

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""

    def reserve(self, columns: int) -> None:
        """Make room for so many columns."""

    def add(self, column: int, clause: Clause, *, settled: bool = True) -> None:
        """Add a clause under a column; when not `settled`, :meth:`settle` must be called before a match."""

    def settle(self) -> None:
        """Prepare for a match."""

    def remove(self, column: int) -> None:
        """Remove the clause of a column."""

    def clause(self, column: int) -> Clause:
        """Return the clause of a column."""

    def match(self, batch: EventBatch, owners: Columns | None) -> Matches:
        """Return the columns that match each event or, given `owners`, their owners without duplicates."""

    def match_groups(
        self, batch: EventBatch, groups: npt.NDArray[np.uint64], goal: np.uint64
    ) -> npt.NDArray[np.uint64]:
        """Return, for each event, the OR of the groups of the matching columns; `goal` is the OR of all groups."""

    def check(self, expected: dict[int, Clause]) -> None:
        """Assert that the stored state is exactly that of these clauses."""


def compiled() -> ModuleType | None:
    """Return the compiled module, or None where it was not built, or from other sources."""
    try:
        module = importlib.import_module("._kernel", __package__)
    except ImportError:
        return None
    return module if getattr(module, "form", None) == FORM else None


def chosen(wanted: str | None, module: ModuleType | None) -> str:
    """Return the name of the kernel, given the environment's choice and the compiled module.

    Raises
    ------
    InputError
        If the chosen kernel does not exist or was not built.
    """
    if wanted and wanted not in CHOICES:
        raise InputError(f"{VARIABLE}={wanted}: it must be {' or '.join(CHOICES)}")
    if wanted == "native" and module is None:
        raise InputError(
            f"{VARIABLE}=native: the kernel was not built; with a C compiler, pip install rayvous builds it"
        )
    return wanted or ("numpy" if module is None else "native")


_MODULE: Final = compiled()
KERNEL: Final = chosen(os.environ.get(VARIABLE), _MODULE)
"""The default kernel of an index."""

if _MODULE is None and not os.environ.get(VARIABLE):
    warnings.warn(
        "the match index runs on numpy: its compiled kernel was not built, or of other sources (installing rayvous, "
        f"again if they changed, builds it where there is a C compiler; {VARIABLE}=numpy is this without the warning)",
        RuntimeWarning,
        stacklevel=2,
    )


def make_rows(kernel: str = KERNEL) -> Rows:
    """Return an empty set of columns on a kernel."""
    module = _MODULE if kernel == "native" else None
    return NumpyRows() if module is None else NativeRows(module)


def instructions() -> str:
    """Return the name of the instruction set that the compiled kernel uses; empty where it was not built."""
    return "" if _MODULE is None else str(_MODULE.level())
