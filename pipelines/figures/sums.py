"""Column expressions used by figures: sums of no rows are 0, quotients without data are null."""

from __future__ import annotations

from ...protocol.extras import extra

with extra("spark"):
    from pyspark.sql import Column
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it


def total(column: str | Column) -> Column:
    """Return the sum of a column; 0 if there are no rows."""
    return F.coalesce(F.sum(column), F.lit(0))


def ratio(numerator: Column, denominator: Column) -> Column:
    """Return a quotient; null unless the denominator is above 0."""
    return F.when(denominator > 0, numerator / denominator)
