"""The metrics of paper 1's experiment (5.1): the total cost of the tree, the cost of multicasts, and AED.

Rules, beside those of `aggregates`
-----------------------------------
* One event over one link counts one, whatever the size of its batch; control messages are counted separately.
* The tree's links are ``up``, ``down`` and ``multicast``; ``publish`` and ``deliver`` are the links of
  clients.

Source: paper 1, 5.1; docs/decisions/0030-what-the-experiment-of-paper-1-counts.md.
"""

from __future__ import annotations

from typing import Final

from ...protocol.extras import extra
from ...protocol.telemetry.tables import LINK_KINDS
from .sums import ratio, total

with extra("spark"):
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

TREE_KINDS: Final = ("up", "down", "multicast")


def tct(transfers: DataFrame) -> DataFrame:
    """Total cost of the tree: the sum of the messages over all links (paper 1, 5.1).

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
                total(F.when(F.col("link_kind").isin(*kinds), value)).alias(name)
                for name, value in columns.items()
            ),
        )
        for group, kinds in groups.items()
    ]
    return transfers.agg(F.array(*sums).alias("rows")).select(F.inline("rows"))


def multicast_cost(multicasts: DataFrame) -> DataFrame:
    """Report the cost of multicasts on Ray, which has none, beside the paper's count of them (paper 1, 5.1).

    The paper counts a multicast as one message over the group's link: ``events``, ``nbytes``, as in
    :func:`tct`. On Ray it is a call to each member in another process. A large load is written to the object
    store once, and once more on each other node.

    Parameters
    ----------
    multicasts
        Telemetry table.

    Returns
    -------
    pyspark.sql.DataFrame
        One row each for ``inline``, ``reference`` and ``all``, of loads that carried events. Columns:
        ``how``; ``loads``; ``events``, ``nbytes`` (a multicast counts one); ``members`` (the receivers),
        ``calls`` and ``nodes``, summed over loads; ``sent_bytes`` (of events, in calls and in stores).
    """
    carries, kind = F.col("events") > 0, F.col("by_reference")
    names = ("events", "nbytes", "members", "calls", "nodes", "sent_bytes")
    groups = {"inline": carries & (kind == 0), "reference": carries & (kind == 1), "all": carries}
    sums = [
        F.struct(
            F.lit(how).alias("how"),
            total(F.when(mine, 1)).alias("loads"),
            *(total(F.when(mine, F.col(name))).alias(name) for name in names),
        )
        for how, mine in groups.items()
    ]
    return multicasts.agg(F.array(*sums).alias("rows")).select(F.inline("rows"))


def aed(observed: DataFrame, started_at: float | None = None) -> DataFrame:
    """Average event delay of a subscriber: elapsed time divided by the events received in it (paper 1, 5.1).

    For each subscriber ``(its last notification - publication of the first event that it received) / its
    notifications``; ``aed_seconds`` is the mean over subscribers. Two other figures are returned beside it:
    the same quotient over all subscribers together, ``(last notification - first publication) /
    notifications``, which falls as the number of subscribers grows; and the usual mean delay, ``sum of
    (notified - published) / notifications``.

    Parameters
    ----------
    observed
        Telemetry table `notified` (exact) or `deliveries`. `deliveries` does not name subscribers, so
        ``subscribers`` and ``aed_seconds`` are null. It does not have the first publication either: the
        earliest *mean* publication time of a delivery is used instead unless `started_at` is given, so the
        elapsed time is too short by at most the spread within the first batch.
    started_at
        Start of the elapsed time of every subscriber, in seconds since 1970; by default the first publication.

    Returns
    -------
    pyspark.sql.DataFrame
        One row: ``notifications``, ``subscribers``, ``elapsed_seconds``, ``aed_seconds``,
        ``seconds_per_notification``, ``mean_delay_seconds``.
    """
    traced = "subscriber" in observed.columns
    if traced:
        count, published = F.lit(1), F.col("published_at")
        delay = F.col("time_seconds") - published
    else:
        count, delay = F.col("notifications"), F.col("latency_sum_seconds")
        published = F.col("time_seconds") - ratio(delay, count)
    start = F.min(published) if started_at is None else F.lit(float(started_at))
    each = (
        observed.where(count > 0)
        .groupBy(*(["subscriber"] if traced else []))
        .agg(
            F.sum(count).alias("received"),
            start.alias("first"),
            F.max("time_seconds").alias("last"),
            F.sum(delay).alias("delay"),
        )
    )
    of_one = ratio(F.col("last") - F.col("first"), F.col("received"))
    sums = each.where(F.col("received") > 0).agg(
        total("received").alias("notifications"),
        (F.count(F.lit(1)) if traced else F.lit(None).cast("bigint")).alias("subscribers"),
        (F.max("last") - F.min("first")).alias("elapsed_seconds"),
        (F.avg(of_one) if traced else F.lit(None).cast("double")).alias("aed_seconds"),
        F.sum("delay").alias("delay"),
    )
    notifications = F.col("notifications")
    return sums.select(
        "notifications",
        "subscribers",
        "elapsed_seconds",
        "aed_seconds",
        ratio(F.col("elapsed_seconds"), notifications).alias("seconds_per_notification"),
        ratio(F.col("delay"), notifications).alias("mean_delay_seconds"),
    )
