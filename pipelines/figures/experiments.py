"""The figures of experiments, from the tables that their runs wrote: DataFrame in, DataFrame out.

Rule: one row for each point of a curve, with the mean over runs and the standard deviation beside it.

Source: decision 0030 for the definitions of TCT and AED.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...protocol.extras import extra
from .sums import ratio

with extra("spark"):
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

POINT: Final = ("curve", "publishers", "subscribers", "send_seconds")
"""The columns that identify one point of figures 4 and 5 of paper 1."""


HEALED: Final = ("victim", "clusters", "members")
"""The columns that identify one point of self-configuration."""

RELIABLE: Final = ("mode", "size", "rate")

TRANSFER: Final = ("way", "link_mbit", "taken_mbit", "payload_bytes", "order", "subscribers")
"""The columns that identify one point of figures 1 to 3 of paper 5."""

DEPTHS: Final = (5, 9)
"""The least and the greatest depth in table 1 of paper 5."""

BUCKETS: Final = (24, 32)
"""The nearest and the farthest bucket of 500 subscribers (paper 5, 4.3)."""


def tct_by_point(links: DataFrame) -> DataFrame:
    """Return the total cost of the tree, `tct`, and its parts `events` and `control`, by point (paper 1, 5.1).

    `answers`, which the paper has not, stand beside it; `tct_each` is that of each run.

    Parameters
    ----------
    links
        The columns of `POINT`, `run`, and the numbers of messages with `events`, of `control` messages, and of
        `answers` to these, that a broker sent over its links of one kind.
    """
    parts = ("events", "control", "answers")
    sums = links.groupBy(*POINT, "run").agg(*(F.sum(name).alias(name) for name in parts))
    found = sums.withColumn("tct", F.col("events") + F.col("control"))
    return over_runs(found, POINT, ("tct", *parts), each=("tct",))


def aed_by_point(heard: DataFrame) -> DataFrame:
    """Return the average event delay by point: `aed_seconds` per subscriber, and `seconds_per_notification` over all.

    Parameters
    ----------
    heard
        The columns of `POINT`, `run`, and for each subscriber its `notifications`, the publication time of
        the first of their events (`first`), and the time of the last notification (`last`), in seconds.

    Notes
    -----
    The delay of a subscriber is ``(last - first) / notifications``; its mean over subscribers is returned.
    The second figure is the time from the first publication to the last notification, divided by all
    notifications. Both also come as a list with the value of each run (suffix `_each`).
    """
    mine = ratio(F.col("last") - F.col("first"), F.col("notifications"))
    whole = ratio(F.max("last") - F.min("first"), F.sum("notifications"))
    each = heard.where("notifications > 0").groupBy(*POINT, "run")
    found = each.agg(F.avg(mine).alias("aed_seconds"), whole.alias("seconds_per_notification"))
    names = ("aed_seconds", "seconds_per_notification")
    return over_runs(found, POINT, names, each=names)


def distribution_by_point(nodes: DataFrame) -> DataFrame:
    """Return the delay in `seconds`, `rate_mbit` and `publisher_load` of a payload, by point (paper 5, 4.2).

    Parameters
    ----------
    nodes
        The columns of `TRANSFER`, `run`, and for each node the time at which it had everything (`finished`,
        in seconds), the `copies` that it sent, and whether it is the `publisher`.
    """
    sent = F.max(F.when(F.col("publisher"), F.col("copies")))
    each = nodes.groupBy(*TRANSFER, "run").agg(F.max("finished").alias("seconds"), sent.alias("sent"))
    mbit = F.col("payload_bytes") * 8 / 1e6
    each = each.withColumn("rate_mbit", ratio(mbit, F.col("seconds")))
    each = each.withColumn("publisher_load", F.col("sent") * F.col("rate_mbit") / F.col("link_mbit"))
    return over_runs(each, TRANSFER, ("seconds", "rate_mbit", "publisher_load"))


def trees_by_point(nodes: DataFrame) -> DataFrame:
    """Return depth, out-degree and contributions of dissemination trees, by `prefix` and `subscribers` (paper 5, 4.3).

    `depth_as_published` and `buckets_as_published` are the shares of trees whose depth is in `DEPTHS`, and whose
    nearest and farthest buckets are `BUCKETS`.

    Parameters
    ----------
    nodes
        `prefix`, `subscribers`, `run`, and for each node its `depth` and `bucket` (0 is the publisher), the
        `copies` that it sends, and whether it is `inner`: not in the last bucket.
    """
    point = ("prefix", "subscribers")
    below = F.when(F.col("depth") > 0, F.col("copies"))
    trees = nodes.groupBy(*point, "run").agg(
        F.max("depth").alias("depth"),
        F.avg(F.when(F.col("inner"), F.col("copies"))).alias("out_degree"),
        F.min(F.when(F.col("depth") > 0, F.col("bucket"))).alias("lowest_bucket"),
        F.max("bucket").alias("highest_bucket"),
        F.sum("copies").alias("copies"),
        F.max(F.when(F.col("depth") == 0, F.col("copies"))).alias("publisher_copies"),
        F.max(below).alias("busiest"),
    )
    ends = (F.col("lowest_bucket") == BUCKETS[0]) & (F.col("highest_bucket") == BUCKETS[1])
    trees = trees.withColumn("depth_as_published", F.col("depth").between(*DEPTHS).cast("double"))
    trees = trees.withColumn("buckets_as_published", ends.cast("double"))
    for name, copies in (("publisher_share", "publisher_copies"), ("largest_subscriber_share", "busiest")):
        trees = trees.withColumn(name, ratio(F.col(copies), F.col("subscribers")))
    names = [name for name in trees.columns if name not in (*point, "run", "busiest")]
    return over_runs(trees, point, names, extremes=("depth",))


def admission_by_point(figures: DataFrame) -> DataFrame:
    """Return the figures of admission control by `criterion` and `subscribers`, the mean over networks (paper 3, 5.2).

    Parameters
    ----------
    figures
        One row per network: `criterion`, `subscribers`, `run`, `discarded_in_all_per_second`, and any others.

    Returns
    -------
    pyspark.sql.DataFrame
        By point, the means and ``discarded_in_each_network_per_second``: a list in the order of the runs.
    """
    point = ("criterion", "subscribers")
    each = F.sort_array(
        F.collect_list(F.struct("run", F.round("discarded_in_all_per_second", 1).alias("lost")))
    )
    lists = figures.groupBy(*point).agg(each.getField("lost").alias("discarded_in_each_network_per_second"))
    names = [name for name in figures.columns if name not in (*point, "run")]
    return over_runs(figures, point, names).join(lists, [*point]).orderBy(*point)


def reliability_by_point(totals: DataFrame) -> DataFrame:
    """Return the cost of crashes and damaged state, by `mode`, `size` and `rate`.

    Parameters
    ----------
    totals
        One row per run: the point, `run`, `events`, `messages`, `commits`, `faults`, `consistent`,
        `holds`.

    Returns
    -------
    pyspark.sql.DataFrame
        By point: ``messages`` and ``commits`` per event; ``extra``, the messages per fault beyond those of
        the same run without faults, null if there was none; ``consistent`` in seconds; ``faults``; ``holds``,
        the share of the runs.
    """
    quiet = totals.where("rate = 0").select("mode", "size", "run", F.col("messages").alias("quiet"))
    both = totals.join(quiet, ["mode", "size", "run"], "left")
    runs = both.select(
        *RELIABLE,
        ratio(F.col("messages"), F.col("events")).alias("messages"),
        ratio(F.col("commits"), F.col("events")).alias("commits"),
        ratio(F.col("messages") - F.col("quiet"), F.col("faults")).alias("extra"),
        F.col("faults").cast("double").alias("faults"),
        "consistent",
        F.col("holds").cast("int").alias("holds"),
    )
    return over_runs(runs, RELIABLE, ("messages", "commits", "extra", "faults", "consistent", "holds"))


def over_runs(
    values: DataFrame,
    point: Sequence[str],
    names: Sequence[str],
    extremes: Sequence[str] = (),
    each: Sequence[str] = (),
) -> DataFrame:
    """Return the mean of each value over runs, its standard deviation (suffix `_stddev`), and the number of `runs`.

    It is the sample standard deviation; for one run it is 0. `extremes` also get `_min` and `_max`, and `each` a list
    of all values in the order of the runs, `_each`.
    """
    means = [F.avg(name).alias(name) for name in names]
    spreads = [F.coalesce(F.stddev_samp(name), F.lit(0.0)).alias(f"{name}_stddev") for name in names]
    ends = [
        end(name).alias(f"{name}_{word}")
        for name in extremes
        for word, end in (("min", F.min), ("max", F.max))
    ]
    lists = [
        F.sort_array(F.collect_list(F.struct("run", name))).getField(name).alias(f"{name}_each")
        for name in each
    ]
    found = values.groupBy(*point).agg(*means, *spreads, *ends, *lists, F.count("*").alias("runs"))
    return found.orderBy(*point)


def healing_by_victim(subscribers: DataFrame) -> DataFrame:
    """Return the cost of a fault by its `victim` and the tree's `clusters` and `members` (paper 1, section 4).

    Parameters
    ----------
    subscribers
        The columns of `HEALED`, `run`, and for each subscriber after how many seconds it was `heard` of again
        and how many notifications came `late`; for the run `structure`, `again`, `messages`, and whether it
        `holds`.

    Returns
    -------
    pyspark.sql.DataFrame
        By point: ``structure`` and ``heard`` (of the last subscriber) in seconds, ``late`` and ``again`` in
        events, ``messages``, and ``holds``, the share of the runs.
    """
    runs = subscribers.groupBy(*HEALED, "run").agg(
        F.max("structure").alias("structure"),
        F.max("heard").alias("heard"),
        F.sum("late").alias("late"),
        F.max("again").alias("again"),
        F.max("messages").alias("messages"),
        F.min(F.col("holds").cast("int")).alias("holds"),
    )
    return over_runs(runs, HEALED, ("structure", "heard", "late", "again", "messages", "holds"))
