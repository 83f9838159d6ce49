"""What an experiment measured: a row for each point, with values by the names of their columns.

Rule: the values have no type here, since rows come from tables of pandas and from JSON.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]
"""What was measured at one point."""

Rows: TypeAlias = Sequence[Row]
"""What an experiment measured."""
