"""The figures of routing schemes side by side: DataFrame in, DataFrame out, the mean over runs.

Source: none; docs/cli.md, "rayvous compare", defines the figures.
"""

from __future__ import annotations

from typing import Final

from ...protocol.extras import extra
from .experiments import over_runs

with extra("spark"):
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

POINT: Final = ("scheme", "brokers")
SETTINGS: Final = ("clusters", "degree", "subscribers", "publishers", "publications", "deaths", "run")


def schemes_by_size(figures: DataFrame) -> DataFrame:
    """Return the figures of each scheme for each network size; null for a figure that the scheme does not have.

    Parameters
    ----------
    figures
        One row per run: `scheme`, `brokers`, `holds`, the columns of `SETTINGS`, and any figures, with NaN
        for a missing one.
    """
    names = [name for name in figures.columns if name not in (*POINT, *SETTINGS, "holds")]
    numbers = figures.select(
        *POINT,
        F.col("holds").cast("int").alias("holds"),
        *(F.when(~F.isnan(name), F.col(name)).alias(name) for name in names),
    )
    return over_runs(numbers, POINT, [*names, "holds"])
