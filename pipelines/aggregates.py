"""The figures of a run, as pure functions from telemetry DataFrames to DataFrames.

Rules
-----
* One event over one link counts one, however many travelled in the batch; control messages are counted apart.
* The tree's links are ``up``, ``down`` and ``multicast``; ``publish`` and ``deliver`` are the clients' own
  links.
* A figure of nothing is null, never 0 or NaN: the mean of no delays is not a short delay. Counts and sums of
  nothing are 0.
* Nothing here runs a Spark job: each function only describes one. Results have a fixed order of rows.

The columns of the telemetry tables are in :mod:`rayvous.protocol.telemetry`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from ..protocol.telemetry import LINK_KINDS

TREE_KINDS: Final = ("up", "down", "multicast")
PERCENTILES: Final[dict[str, float]] = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

_PAIR: Final = ["subscriber", "publisher", "sequence"]
_EVENT: Final = ["publisher", "sequence"]


def _total(column: str | Column) -> Column:
    return F.coalesce(F.sum(column), F.lit(0))


def _ratio(numerator: Column, denominator: Column) -> Column:
    return F.when(denominator > 0, numerator / denominator)


def _latency() -> Column:
    return F.col("time_seconds") - F.col("published_at")


def tct(transfers: DataFrame) -> DataFrame:
    """Total cost of the tree: the messages of all links, summed (paper 1, 5.1).

    ``TCT = sum over links of the events that went over the link``.

    Parameters
    ----------
    transfers
        Telemetry table.

    Returns
    -------
    pyspark.sql.DataFrame
        One row for each of ``LINK_KINDS``, then ``tree`` (up + down + multicast: the paper's TCT) and
        ``all`` (the clients' links too). Columns: ``link_kind``; ``tct`` (events over links of the kind);
        ``batches`` (messages that carried them); ``control_messages``; ``nbytes``.
    """
    columns = {
        "tct": F.col("events"),
        "batches": F.when(F.col("events") > 0, F.col("messages")),
        "control_messages": F.when(F.col("events") == 0, F.col("messages")),
        "nbytes": F.col("nbytes"),
    }
    groups = {**{kind: (kind,) for kind in LINK_KINDS}, "tree": TREE_KINDS, "all": LINK_KINDS}
    sums = [
        F.struct(
            F.lit(group).alias("link_kind"),
            *(
                _total(F.when(F.col("link_kind").isin(*kinds), value)).alias(name)
                for name, value in columns.items()
            ),
        )
        for group, kinds in groups.items()
    ]
    return transfers.agg(F.array(*sums).alias("rows")).select(F.inline("rows"))


def aed(observed: DataFrame, started_at: float | None = None) -> DataFrame:
    """Average event delay: elapsed time divided by the events received in it (paper 1, 5.1).

    ``AED = (last notification - first publication) / notifications``; beside it what most others call the
    mean delay, ``sum of (notified - published) / notifications``.

    Parameters
    ----------
    observed
        Telemetry table `notified` (exact) or `deliveries`. In `deliveries` the first publication is not to
        be seen; the earliest *mean* publication time of one delivery stands for it unless `started_at` is
        given, so AED is then at most too small by the spread within the first batch.
    started_at
        Seconds since 1970 at which the time starts; by default the first publication.

    Returns
    -------
    pyspark.sql.DataFrame
        One row: ``notifications``, ``elapsed_seconds``, ``aed_seconds``, ``mean_delay_seconds``.
    """
    if "published_at" in observed.columns:
        count, published = F.lit(1), F.col("published_at")
        delay = F.col("time_seconds") - published
    else:
        count, delay = F.col("notifications"), F.col("latency_sum_seconds")
        published = F.col("time_seconds") - _ratio(delay, count)
    start = F.min(published) if started_at is None else F.lit(float(started_at))
    sums = observed.where(count > 0).agg(
        _total(count).alias("notifications"),
        (F.max("time_seconds") - start).alias("elapsed_seconds"),
        F.sum(delay).alias("delay"),
    )
    notifications = F.col("notifications")
    return sums.select(
        "notifications",
        "elapsed_seconds",
        _ratio(F.col("elapsed_seconds"), notifications).alias("aed_seconds"),
        _ratio(F.col("delay"), notifications).alias("mean_delay_seconds"),
    )


def latency_percentiles(notified: DataFrame) -> DataFrame:
    """Percentiles of the notification latency, exact, interpolated between the two nearest (as numpy does).

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
    counts = notified.agg(F.count(F.lit(1)).alias("notifications"), F.max(_latency()).alias("max_seconds"))
    points = latency_quantiles(notified, list(PERCENTILES.values()))
    columns = {
        name: F.when(F.col("probability") == share, F.col("latency_seconds"))
        for name, share in PERCENTILES.items()
    }
    percentiles = points.agg(*(F.max(column).alias(f"{name}_seconds") for name, column in columns.items()))
    names = [f"{name}_seconds" for name in PERCENTILES]
    return counts.crossJoin(percentiles).select("notifications", *names, "max_seconds")


def latency_quantiles(notified: DataFrame, probabilities: list[float]) -> DataFrame:
    """Return the latency at each of the probabilities: the points of its distribution function.

    Parameters
    ----------
    notified
        Telemetry table.
    probabilities
        Rising, each from 0 to 1.

    Returns
    -------
    pyspark.sql.DataFrame
        One row a probability: ``probability``, ``latency_seconds``; no rows when nothing was notified.
    """
    # Spark's own `percentile` keeps a count of every distinct value and is ten times slower than one sort.
    ranked = notified.select(
        _latency().alias("latency"),
        (F.row_number().over(Window.partitionBy(F.lit(0)).orderBy(_latency())) - 1).alias("rank"),
    )
    asked = F.explode(F.array(*(F.lit(float(p)) for p in probabilities))).alias("probability")
    place = F.col("probability") * (F.col("n") - 1)
    wanted = (
        notified.agg(F.count(F.lit(1)).alias("n"))
        .where("n > 0")
        .select("n", asked)
        .select("probability", F.floor(place).alias("below"), (place - F.floor(place)).alias("beyond"))
    )
    # Two rows a probability: the value below its place and, unless it falls on one, the value above.
    one = F.struct(F.col("below").alias("rank"), (1 - F.col("beyond")).alias("weight"))
    next_one = F.struct((F.col("below") + 1).alias("rank"), F.col("beyond").alias("weight"))
    pairs = wanted.select("probability", F.inline(F.array(one, next_one))).where("weight > 0")
    return (
        ranked.join(F.broadcast(pairs), "rank")
        .groupBy("probability")
        .agg(F.sum(F.col("latency") * F.col("weight")).alias("latency_seconds"))
        .orderBy("probability")
    )


def throughput(transfers: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Events published and notifications made, in all and a second.

    The time runs from the first event that reached a broker from its publisher to the last delivery.

    Returns
    -------
    pyspark.sql.DataFrame
        One row: ``events``, ``notifications``, ``elapsed_seconds``, ``events_per_second``,
        ``notifications_per_second``. The rates are null when no time passed.
    """
    published = transfers.where((F.col("link_kind") == "publish") & (F.col("events") > 0)).agg(
        _total("events").alias("events"),
        F.min("time_seconds").alias("first"),
        F.max("time_seconds").alias("last_published"),
    )
    delivered = deliveries.agg(
        _total("notifications").alias("notifications"), F.max("time_seconds").alias("last")
    )
    elapsed = F.greatest("last", "last_published") - F.col("first")
    both = published.crossJoin(delivered).withColumn("elapsed_seconds", elapsed)
    return both.select(
        "events",
        "notifications",
        "elapsed_seconds",
        _ratio(F.col("events"), F.col("elapsed_seconds")).alias("events_per_second"),
        _ratio(F.col("notifications"), F.col("elapsed_seconds")).alias("notifications_per_second"),
    )


def broker_load(transfers: DataFrame, deliveries: DataFrame, brokers: DataFrame | None = None) -> DataFrame:
    """Events that each broker handled.

    ``load = events in + events out + notifications``. In: from publishers, over tree links, and by multicast
    from other members of its cluster. Out: over tree links, and by multicast (once, however many members
    hear it).

    Parameters
    ----------
    transfers, deliveries
        Telemetry tables.
    brokers
        ``broker``, ``cluster``: the brokers of the network. Without it only brokers that wrote a row are
        known: an idle one is missing, and a member that neither sent nor received alone counts no multicast.

    Returns
    -------
    pyspark.sql.DataFrame
        One row a broker, by id: ``broker``, ``cluster``, ``events_in``, ``events_out``, ``notifications``,
        ``control_messages`` (sent), ``nbytes`` (sent), ``load``.
    """
    brokers = _brokers_seen(transfers, deliveries, brokers)
    own = F.col("link_kind") == "publish"
    sent = F.col("link_kind").isin(*TREE_KINDS)
    group = F.col("link_kind") == "multicast"
    as_sender = transfers.groupBy("broker").agg(
        _total(F.when(own, F.col("events"))).alias("from_publishers"),
        _total(F.when(sent, F.col("events"))).alias("events_out"),
        _total(F.when(group, F.col("events"))).alias("own_multicast"),
        _total(F.when(sent & (F.col("events") == 0), F.col("messages"))).alias("control_messages"),
        _total(F.when(~own, F.col("nbytes"))).alias("nbytes"),
    )
    as_peer = (
        transfers.where(F.col("link_kind").isin("up", "down"))
        .groupBy(F.col("peer").alias("broker"))
        .agg(F.sum("events").alias("from_brokers"))
    )
    in_group = transfers.where(group).groupBy("cluster").agg(F.sum("events").alias("group_events"))
    notified = deliveries.groupBy("broker").agg(F.sum("notifications").alias("notifications"))
    joined = (
        brokers.join(as_sender, "broker", "left")
        .join(as_peer, "broker", "left")
        .join(in_group, "cluster", "left")
        .join(notified, "broker", "left")
        .fillna(0, [*as_sender.columns[1:], "from_brokers", "group_events", "notifications"])
    )
    heard = F.col("group_events") - F.col("own_multicast")
    counted = joined.withColumn("events_in", F.col("from_publishers") + F.col("from_brokers") + heard)
    return counted.select(
        *("broker", "cluster", "events_in", "events_out", "notifications", "control_messages", "nbytes"),
        (F.col("events_in") + F.col("events_out") + F.col("notifications")).alias("load"),
    ).orderBy("broker")


def _brokers_seen(transfers: DataFrame, deliveries: DataFrame, known: DataFrame | None) -> DataFrame:
    unknown = F.lit(None).cast("int").alias("cluster")
    seen = (
        transfers.select("broker", "cluster")
        .unionByName(transfers.where(F.col("peer") >= 0).select(F.col("peer").alias("broker"), unknown))
        .unionByName(deliveries.select("broker", unknown))
    )
    if known is not None:
        seen = seen.unionByName(known.select("broker", "cluster"))
    return seen.groupBy("broker").agg(F.max("cluster").alias("cluster"))


def load_balance(loads: DataFrame) -> DataFrame:
    """How evenly the load lies on the brokers (paper 2, Figs. 6 and 7, look at the load per node).

    With loads ``x_1 <= ... <= x_n``: ``max / mean``; the Gini coefficient
    ``sum_i (2 i - n - 1) x_i / (n sum_i x_i)``, 0 when all are equal and ``1 - 1/n`` when one does
    everything; and the coefficient of variation, population standard deviation / mean.

    Parameters
    ----------
    loads
        Of :func:`broker_load`, or any DataFrame with a column ``load``.

    Returns
    -------
    pyspark.sql.DataFrame
        One row: ``brokers``, ``mean_load``, ``max_load``, ``max_over_mean``, ``gini``,
        ``coefficient_of_variation``; the last three are null when there is no load.
    """
    rank = F.row_number().over(Window.partitionBy(F.lit(0)).orderBy("load"))
    sums = (
        loads.select(F.col("load"), rank.alias("rank"))
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
        "brokers",
        "mean_load",
        "max_load",
        _ratio(F.col("max_load"), mean).alias("max_over_mean"),
        _ratio(F.col("twice"), F.col("brokers") * F.col("sum")).alias("gini"),
        _ratio(F.col("deviation"), mean).alias("coefficient_of_variation"),
    )


def link_load(transfers: DataFrame) -> DataFrame:
    """Events over each link between brokers, both directions (the terms of the TCT sum).

    Parameters
    ----------
    transfers
        Telemetry table.

    Returns
    -------
    pyspark.sql.DataFrame
        One row a link: ``kind`` (``"tree"`` or ``"group"``); ``low``, ``high`` (the brokers at its ends;
        null for a group); ``cluster`` (the group's; null for a tree link); ``events_low_to_high``,
        ``events_high_to_low`` (null for a group); ``events`` (in all), ``messages``, ``nbytes``. Tree links
        first, by their ends.
    """
    sender, peer = F.col("broker"), F.col("peer")
    tree = (
        transfers.where(F.col("link_kind").isin("up", "down"))
        .groupBy(F.least(sender, peer).alias("low"), F.greatest(sender, peer).alias("high"))
        .agg(
            _total(F.when(sender < peer, F.col("events"))).alias("events_low_to_high"),
            _total(F.when(sender > peer, F.col("events"))).alias("events_high_to_low"),
            *(F.sum(column).alias(column) for column in ("events", "messages", "nbytes")),
        )
        .withColumn("kind", F.lit("tree"))
    )
    group = (
        transfers.where(F.col("link_kind") == "multicast")
        .groupBy("cluster")
        .agg(*(F.sum(column).alias(column) for column in ("events", "messages", "nbytes")))
        .withColumn("kind", F.lit("group"))
    )
    both = tree.unionByName(group, allowMissingColumns=True).select(
        *("kind", "low", "high", "cluster", "events_low_to_high", "events_high_to_low"),
        *("events", "messages", "nbytes"),
    )
    return both.orderBy(F.desc("kind"), "low", "high", "cluster")


def loss_and_duplicates(
    notified: DataFrame, published: DataFrame | None = None, expected: DataFrame | None = None
) -> DataFrame:
    """Count the pairs (subscriber, event) that were notified more than once, without cause, or not at all.

    Promise 1 (paper 4, the reliability condition): at most once, and only of events that were published.

    Parameters
    ----------
    notified
        Telemetry table.
    published
        Telemetry table; without it ``never_published`` is null.
    expected
        ``subscriber``, ``publisher``, ``sequence``: the pairs that should have been, as a checker computed
        them; without it ``missing`` and ``unexpected`` are null. Repeated rows count once.

    Returns
    -------
    pyspark.sql.DataFrame
        One row: ``notifications`` (rows), ``pairs`` (distinct), ``duplicated_pairs``, ``duplicates`` (rows
        beyond the first of a pair), ``never_published``, ``unexpected`` (pairs), ``missing`` (pairs).
    """
    pairs = notified.groupBy(*_PAIR).agg(F.count(F.lit(1)).alias("times"))
    counts = pairs.agg(
        _total("times").alias("notifications"),
        F.count(F.lit(1)).alias("pairs"),
        F.count(F.when(F.col("times") > 1, 1)).alias("duplicated_pairs"),
        _total(F.col("times") - 1).alias("duplicates"),
    )
    never = None if published is None else pairs.join(published, _EVENT, "left_anti")
    unexpected = None if expected is None else pairs.join(expected, _PAIR, "left_anti")
    missing = None if expected is None else expected.select(*_PAIR).distinct().join(pairs, _PAIR, "left_anti")
    for name, rows in (("never_published", never), ("unexpected", unexpected), ("missing", missing)):
        if rows is None:
            counts = counts.withColumn(name, F.lit(None).cast("bigint"))
        else:
            counts = counts.crossJoin(rows.agg(F.count(F.lit(1)).alias(name)))
    return counts
