"""Rates over the time of a run: events and notifications per second.

Rules
-----
* Like the figures of `aggregates`: from DataFrames to a DataFrame, without running a Spark job.
* The number of rows is limited, however long the run and however many its rows: one pass over these.
"""

from __future__ import annotations

from typing import Final

from ...protocol.extras import extra

with extra("spark"):
    from pyspark.sql import DataFrame, Window
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

_TICKS_A_SECOND: Final = 100
_BIN_TICKS: Final = tuple(factor * 10**power for power in range(12) for factor in (1, 2, 5))
"""The possible widths of a bin, in ticks of 10 ms: up to some centuries."""


def rate_over_time(transfers: DataFrame, deliveries: DataFrame, bins: int = 120) -> DataFrame:
    """Events published and notifications made, in equal bins from the first of either to the last.

    The width of a bin is the smallest of 10, 20, 50, 100, 200, ... milliseconds for which `bins` bins
    suffice.

    Parameters
    ----------
    transfers, deliveries
        Telemetry tables.
    bins
        The maximum number of rows; at least 2.

    Returns
    -------
    pyspark.sql.DataFrame
        One row per bin, by time, including empty bins: ``time_seconds`` (its start, a
        multiple of its width, seconds since 1970), ``bin_seconds`` (its width), ``events``,
        ``notifications``, ``events_per_second``, ``notifications_per_second``. No rows if nothing happened.
    """
    nothing = F.lit(0).cast("bigint")
    published = transfers.where(F.col("link_kind") == "publish")
    happened = published.select("time_seconds", "events", nothing.alias("notifications")).unionByName(
        deliveries.select("time_seconds", nothing.alias("events"), "notifications")
    )
    # First the narrowest bins, in one pass over the rows; later steps handle about as many rows as there are
    # bins.
    narrow = (
        happened.where((F.col("events") > 0) | (F.col("notifications") > 0))
        .groupBy(F.floor(F.col("time_seconds") * _TICKS_A_SECOND).alias("tick"))
        .agg(F.sum("events").alias("events"), F.sum("notifications").alias("notifications"))
    )
    everything = Window.partitionBy(F.lit(0))
    first, last = F.min("tick").over(everything), F.max("tick").over(everything)
    widths = F.array(*(F.lit(width) for width in _BIN_TICKS))
    fits = F.filter(widths, lambda width: F.floor(last / width) - F.floor(first / width) < bins)
    wide = narrow.select("events", "notifications", "tick", F.array_min(fits).alias("width"))
    filled = wide.groupBy("width", F.floor(F.col("tick") / F.col("width")).alias("bin")).agg(
        F.sum("events").alias("events"), F.sum("notifications").alias("notifications")
    )
    # Each bin represents itself and the empty bins that follow it.
    following = filled.withColumn("next", F.lead("bin", 1).over(everything.orderBy("bin")))
    until = F.coalesce("next", F.col("bin") + 1) - 1
    spread = following.select("*", F.explode(F.sequence(F.col("bin"), until)).alias("at"))
    counts = {
        name: F.when(F.col("at") == F.col("bin"), F.col(name)).otherwise(nothing)
        for name in ("events", "notifications")
    }
    seconds = F.col("width") / _TICKS_A_SECOND
    return spread.select(
        (F.col("at") * F.col("width") / _TICKS_A_SECOND).alias("time_seconds"),
        seconds.alias("bin_seconds"),
        *(count.alias(name) for name, count in counts.items()),
        *((count / seconds).alias(f"{name}_per_second") for name, count in counts.items()),
    ).orderBy("time_seconds")
