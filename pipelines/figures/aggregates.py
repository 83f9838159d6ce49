"""The figures of a run, as pure functions from telemetry DataFrames to DataFrames.

Rules
-----
* A figure without data is null, never 0 or NaN: the mean of no delays is not a short delay. Counts and sums
  of no rows are 0.
* No function here runs a Spark job: each returns a lazy DataFrame. Results have a fixed order of rows.
* Figures from several tables use a union and a group-by instead of a join: broadcasting a small table for a
  join is a separate job, which takes longer than the figure.

The columns of the telemetry tables are in :mod:`rayvous.protocol.telemetry.tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...protocol.extras import extra
from .costs import TREE_KINDS
from .sums import ratio, total

with extra("spark"):
    from pyspark.sql import Column, DataFrame, Window
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

PERCENTILES: Final[dict[str, float]] = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

_TICKS_A_SECOND: Final = 100
_BIN_TICKS: Final = tuple(factor * 10**power for power in range(12) for factor in (1, 2, 5))
"""The possible widths of a bin, in ticks of 10 ms: up to some centuries."""

_PAIR: Final = ["subscriber", "publisher", "sequence"]
_EVENT: Final = ["publisher", "sequence"]


def _latency() -> Column:
    return F.col("time_seconds") - F.col("published_at")


def latency_percentiles(notified: DataFrame) -> DataFrame:
    """Percentiles of the notification latency, exact, interpolated between the two nearest values (as in numpy).

    The latency of a notification is ``time_seconds - published_at``: the difference of two hosts' clocks.

    Parameters
    ----------
    notified
        Telemetry table.

    Returns
    -------
    pyspark.sql.DataFrame
        One row: ``notifications``, ``p50_seconds``, ``p90_seconds``, ``p99_seconds``, ``max_seconds``.
    """
    points = _points_of_distribution(notified, 100)
    at = {
        name: F.when(F.col("point") == round(100 * share), F.col("latency_seconds"))
        for name, share in PERCENTILES.items()
    }
    return points.agg(
        F.coalesce(F.max("n"), F.lit(0)).alias("notifications"),
        *(F.max(latency).alias(f"{name}_seconds") for name, latency in at.items()),
        F.max("latency_seconds").alias("max_seconds"),
    )


def latency_quantiles(notified: DataFrame, points: int) -> DataFrame:
    """Return the latency at each of `points` + 1 probabilities from 0 to 1: its distribution function.

    Parameters
    ----------
    notified
        Telemetry table.
    points
        The number of equal parts into which the probabilities are divided; at least 1.

    Returns
    -------
    pyspark.sql.DataFrame
        One row per probability: ``probability``, ``latency_seconds``; no rows if there were no notifications.
    """
    found = _points_of_distribution(notified, points)
    return found.select((F.col("point") / points).alias("probability"), "latency_seconds").orderBy(
        "probability"
    )


def _points_of_distribution(notified: DataFrame, points: int) -> DataFrame:
    """Return one row per point: ``point`` (0 to `points`), ``latency_seconds`` there, ``n`` notifications in all.

    With the latencies ranked from 0, point j lies at rank ``j (n - 1) / points``. A latency of rank r counts
    for every point that is less than one rank away, with the weight ``1 - |j (n - 1) / points - r|``: one
    pass over a sort. Spark's own `percentile` keeps a count of every distinct value and is ten times slower.
    """
    everything = Window.partitionBy(F.lit(0))
    ranked = notified.select(
        _latency().alias("latency"),
        (F.row_number().over(everything.orderBy(_latency())) - 1).alias("rank"),
        F.count(F.lit(1)).over(everything).alias("n"),
    )
    steps = F.greatest(F.col("n") - 1, F.lit(1))
    first = F.greatest(F.floor((F.col("rank") - 1) * points / steps) + 1, F.lit(0))
    last = F.least(F.ceil((F.col("rank") + 1) * points / steps) - 1, F.lit(points))
    alone = F.col("n") == 1  # then every point has this latency
    near = F.explode(F.sequence(F.when(alone, 0).otherwise(first), F.when(alone, points).otherwise(last)))
    counted = ranked.where((first <= last) | alone).select("n", "latency", "rank", near.alias("point"))
    weight = 1 - F.abs(F.col("point") * (F.col("n") - 1) - F.col("rank") * points) / points
    return counted.groupBy("point").agg(
        F.sum(F.col("latency") * weight).alias("latency_seconds"), F.max("n").alias("n")
    )


def throughput(transfers: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Events published and notifications made, in total and per second.

    The time runs from the first event that reached a broker from its publisher to the last delivery.

    Returns
    -------
    pyspark.sql.DataFrame
        One row: ``events``, ``notifications``, ``elapsed_seconds``, ``events_per_second``,
        ``notifications_per_second``. The rates are null if the elapsed time is 0.
    """
    published = (F.col("link_kind") == "publish") & (F.col("events") > 0)
    nothing = F.lit(None)
    both = (
        transfers.where(published)
        .select("time_seconds", "events", nothing.cast("bigint").alias("notifications"))
        .unionByName(
            deliveries.select("time_seconds", nothing.cast("bigint").alias("events"), "notifications")
        )
    )
    first = F.min(F.when(F.col("events").isNotNull(), F.col("time_seconds")))
    sums = both.agg(
        total("events").alias("events"),
        total("notifications").alias("notifications"),
        (F.max("time_seconds") - first).alias("elapsed_seconds"),
    )
    return sums.select(
        "events",
        "notifications",
        "elapsed_seconds",
        ratio(F.col("events"), F.col("elapsed_seconds")).alias("events_per_second"),
        ratio(F.col("notifications"), F.col("elapsed_seconds")).alias("notifications_per_second"),
    )


def broker_load(transfers: DataFrame, deliveries: DataFrame, brokers: DataFrame | None = None) -> DataFrame:
    """Events that each broker handled.

    ``load = events in + events out + notifications``. In: from publishers, over tree links, and by multicast
    from other members of its cluster. Out: over tree links, and by multicast (counted once, whatever the
    number of receivers).

    Parameters
    ----------
    transfers, deliveries
        Telemetry tables.
    brokers
        ``broker``, ``cluster``: the brokers of the network. Without it only brokers with a row of their own
        are known: an idle broker is missing, and a member without point-to-point traffic counts no
        multicasts.

    Returns
    -------
    pyspark.sql.DataFrame
        One row per broker, by id: ``broker``, ``cluster``, ``events_in``, ``events_out``, ``notifications``,
        ``control_messages`` (sent), ``nbytes`` (sent), ``load``.
    """
    own, group = F.col("link_kind") == "publish", F.col("link_kind") == "multicast"
    sent = F.col("link_kind").isin(*TREE_KINDS)
    to_peer = F.col("link_kind").isin("up", "down")
    sender = _share(
        F.col("broker"),
        cluster=F.col("cluster"),
        from_publishers=F.when(own, F.col("events")),
        events_out=F.when(sent, F.col("events")),
        multicast=F.when(group, F.col("events")),
        control_messages=F.when(sent & (F.col("events") == 0), F.col("messages")),
        nbytes=F.when(~own, F.col("nbytes")),
    )
    peer = _share(F.when(F.col("peer") >= 0, F.col("peer")), from_brokers=F.when(to_peer, F.col("events")))
    shares = transfers.select(F.inline(F.array(sender, peer))).where("broker IS NOT NULL")
    notified = _share(F.col("broker"), notifications=F.col("notifications"))
    shares = shares.unionByName(deliveries.select(F.inline(F.array(notified))))
    if brokers is not None:
        known = _share(F.col("broker"), cluster=F.col("cluster"))
        shares = shares.unionByName(brokers.select(F.inline(F.array(known))))
    sums = shares.groupBy("broker").agg(
        F.max("cluster").alias("cluster"), *(total(name).alias(name) for name in _SHARES[1:])
    )
    heard = F.sum("multicast").over(Window.partitionBy("cluster")) - F.col("multicast")
    counted = sums.withColumn("events_in", F.col("from_publishers") + F.col("from_brokers") + heard)
    return counted.select(
        *("broker", "cluster", "events_in", "events_out", "notifications", "control_messages", "nbytes"),
        (F.col("events_in") + F.col("events_out") + F.col("notifications")).alias("load"),
    ).orderBy("broker")


_SHARES: Final = (
    *("cluster", "from_publishers", "from_brokers", "events_out", "multicast", "notifications"),
    *("control_messages", "nbytes"),
)
"""The parts of a broker's load that one row can add to."""


def _share(broker: Column, **adds: Column) -> Column:
    """Return a struct of a broker and a row's contributions to its load; null for parts without a contribution."""
    kinds = {name: "int" if name == "cluster" else "bigint" for name in _SHARES}
    values = (adds.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in kinds.items())
    return F.struct(broker.cast("int").alias("broker"), *values)


def load_balance(loads: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """How evenly the load is distributed over the brokers (paper 2, Figs. 6 and 7, show the load per node).

    With loads ``x_1 <= ... <= x_n``: ``max / mean``; the Gini coefficient ``sum_i (2 i - n - 1) x_i / (n
    sum_i x_i)``, 0 if all are equal and ``1 - 1/n`` if one broker has all the load; and the coefficient of
    variation, population standard deviation / mean.

    Parameters
    ----------
    loads
        The result of :func:`broker_load`, or any DataFrame with a column ``load``.
    by
        Columns that identify a network.

    Returns
    -------
    pyspark.sql.DataFrame
        One row, or one for each network, with the columns of `by`: ``brokers``, ``mean_load``, ``max_load``,
        ``max_over_mean``, ``gini``, ``coefficient_of_variation``; the last three are null if there is no load.
    """
    rank = F.row_number().over(Window.partitionBy(*(by or [F.lit(0)])).orderBy("load"))
    sums = (
        loads.select(*by, F.col("load"), rank.alias("rank"))
        .groupBy(*by)
        .agg(
            F.count(F.lit(1)).alias("brokers"),
            F.avg("load").alias("mean_load"),
            F.max("load").alias("max_load"),
            F.sum("load").alias("sum"),
            F.sum(F.col("rank") * F.col("load")).alias("ranked"),
            F.stddev_pop("load").alias("deviation"),
        )
        .withColumn("twice", 2 * F.col("ranked") - (F.col("brokers") + 1) * F.col("sum"))
    )
    mean = F.col("mean_load")
    return sums.select(
        *by,
        "brokers",
        "mean_load",
        "max_load",
        ratio(F.col("max_load"), mean).alias("max_over_mean"),
        ratio(F.col("twice"), F.col("brokers") * F.col("sum")).alias("gini"),
        ratio(F.col("deviation"), mean).alias("coefficient_of_variation"),
    )


def link_load(transfers: DataFrame) -> DataFrame:
    """Events over each link between brokers, both directions (the terms of the TCT sum).

    Messages to the rendezvous point use no link of the tree and are not counted.

    Parameters
    ----------
    transfers
        Telemetry table.

    Returns
    -------
    pyspark.sql.DataFrame
        One row per link: ``kind`` (``"tree"`` or ``"group"``); ``low``, ``high`` (the brokers at its ends; null
        for a group); ``cluster`` (the group's; null for a tree link); ``events_low_to_high``,
        ``events_high_to_low`` (null for a group); ``events`` (in all), ``messages``, ``nbytes``. Tree links
        first, by their ends.
    """
    sender, peer = F.col("broker"), F.col("peer")
    group = F.col("link_kind") == "multicast"
    ends = {
        "kind": F.when(group, "group").otherwise("tree"),
        "low": F.when(~group, F.least(sender, peer)),
        "high": F.when(~group, F.greatest(sender, peer)),
        "cluster": F.when(group, F.col("cluster")),
    }
    between = F.col("link_kind").isin(*TREE_KINDS) & (group | (peer >= 0))
    links = transfers.where(between).groupBy(*(column.alias(name) for name, column in ends.items()))
    sums = links.agg(
        F.sum(F.when(~group, F.when(sender < peer, F.col("events")).otherwise(0))).alias(
            "events_low_to_high"
        ),
        F.sum(F.when(~group, F.when(sender > peer, F.col("events")).otherwise(0))).alias(
            "events_high_to_low"
        ),
        *(F.sum(column).alias(column) for column in ("events", "messages", "nbytes")),
    )
    return sums.orderBy(F.desc("kind"), "low", "high", "cluster")


def loss_and_duplicates(
    notified: DataFrame, published: DataFrame | None = None, expected: DataFrame | None = None
) -> DataFrame:
    """Count the pairs (subscriber, event) that were notified more than once, without cause, or not at all.

    Promise 1 (paper 4, the reliability condition): at most once, and only events that were published.

    Parameters
    ----------
    notified
        Telemetry table.
    published
        Telemetry table; without it ``never_published`` is null.
    expected
        ``subscriber``, ``publisher``, ``sequence``: the expected pairs, as computed by a checker; without it
        ``missing`` and ``unexpected`` are null. Repeated rows count once.

    Returns
    -------
    pyspark.sql.DataFrame
        One row: ``notifications`` (rows), ``pairs`` (distinct), ``duplicated_pairs``, ``duplicates`` (rows
        beyond the first of a pair), ``never_published``, ``unexpected`` (pairs), ``missing`` (pairs).
    """
    unknown = F.lit(None).cast("bigint")
    rows = notified.select(*_PAIR, F.lit(1).alias("times"), F.lit(0).alias("due"))
    if expected is not None:
        rows = rows.unionByName(expected.select(*_PAIR, F.lit(0).alias("times"), F.lit(1).alias("due")))
    pairs = rows.groupBy(*_PAIR).agg(F.sum("times").alias("times"), F.max("due").alias("due"))
    told = pairs.select(*_EVENT, "times", "due", F.lit(0).alias("published"))
    if published is not None:
        event = published.select(
            *_EVENT,
            F.lit(0).cast("bigint").alias("times"),
            F.lit(0).alias("due"),
            F.lit(1).alias("published"),
        )
        told = told.unionByName(event)
    made = F.col("times") > 0
    events = told.groupBy(*_EVENT).agg(
        F.sum("times").alias("times"),
        F.count(F.when(made, 1)).alias("pairs"),
        F.count(F.when(F.col("times") > 1, 1)).alias("duplicated"),
        F.count(F.when(made & (F.col("due") == 0), 1)).alias("unexpected"),
        F.count(F.when(~made & (F.col("due") == 1), 1)).alias("missing"),
        F.max("published").alias("published"),
    )
    return events.agg(
        total("times").alias("notifications"),
        total("pairs").alias("pairs"),
        total("duplicated").alias("duplicated_pairs"),
        total(F.col("times") - F.col("pairs")).alias("duplicates"),
        (unknown if published is None else total(F.when(F.col("published") == 0, F.col("pairs")))).alias(
            "never_published"
        ),
        (unknown if expected is None else total("unexpected")).alias("unexpected"),
        (unknown if expected is None else total("missing")).alias("missing"),
    )


def telemetry_lost(lost: DataFrame) -> DataFrame:
    """Missing rows of telemetry, which make sums too small.

    Parameters
    ----------
    lost
        Telemetry table.

    Returns
    -------
    pyspark.sql.DataFrame
        One row for each table and reason: ``table``, ``reason``, ``rows``.
    """
    return lost.groupBy("table", "reason").agg(F.sum("rows").alias("rows")).orderBy("table", "reason")


def rate_over_time(transfers: DataFrame, deliveries: DataFrame, bins: int = 120) -> DataFrame:
    """Events published and notifications made, in equal bins from the first of either to the last.

    The width of a bin is the smallest of 10, 20, 50, 100, 200, ... milliseconds for which `bins` bins
    suffice.

    Parameters
    ----------
    transfers, deliveries
        Telemetry tables.
    bins
        The maximum number of rows, however long the run; at least 2.

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
