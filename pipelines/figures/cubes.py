"""The figures of paper 2, from the tables of runs on cubes and on the networks that they are compared with.

Rule: DataFrame in, DataFrame out; one row for each point of a curve, the mean over runs (`experiments.over_runs`).

Source: paper 2, sections 2.2, 2.4 and 2.5.
"""

from __future__ import annotations

from typing import Final

from ...protocol.extras import extra
from .aggregates import load_balance
from .experiments import over_runs
from .sums import ratio

with extra("spark"):
    from pyspark.sql import DataFrame, Window
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

LOADED: Final = ("what", "curve", "size", "most")
"""The columns that identify one point of figures 6 and 7."""

NETWORK: Final = ("curve", "size", "wanting")


def loads_by_point(brokers: DataFrame) -> DataFrame:
    """Return the brokers' load, its balance, and the balance of the messages that they originate (figures 6 and 7).

    Parameters
    ----------
    brokers
        The columns of `LOADED`, `run`, and the numbers of messages that each broker `started`, `received` and
        `forwarded`.

    Returns
    -------
    pyspark.sql.DataFrame
        By point: ``load`` and ``started``, the means over brokers, ``load_max_over_mean``, ``load_gini``,
        ``started_gini``; ``hops``, the messages per originated message; and ``line``, the same for all ranges
        of a network: how closely all brokers of all its runs lie on one line of load over the mean number of
        originated messages (Pearson's r).
    """
    at = (*LOADED, "run")
    each = brokers.withColumn("load", F.col("received") + F.col("forwarded"))
    loads = load_balance(each, at).select(
        *at,
        F.col("mean_load").alias("load"),
        F.col("max_over_mean").alias("load_max_over_mean"),
        F.col("gini").alias("load_gini"),
    )
    starts = load_balance(each.withColumn("load", F.col("started")), at).select(
        *at, F.col("mean_load").alias("started"), F.col("gini").alias("started_gini")
    )
    hops = each.groupBy(*at).agg(ratio(F.sum("received"), F.sum("started")).alias("hops"))
    mean = F.avg("started").over(Window.partitionBy(*at))
    lines = each.withColumn("mean", mean).where("most > 0").groupBy("what", "curve", "size")
    points = over_runs(
        loads.join(starts, [*at]).join(hops, [*at]),
        LOADED,
        ("load", "started", "load_max_over_mean", "load_gini", "started_gini", "hops"),
    )
    line = lines.agg(F.corr("load", "mean").alias("line"))
    return points.join(line, ["what", "curve", "size"], "left").orderBy(*LOADED)


def hops_by_cube(ways: DataFrame) -> DataFrame:
    """Return the mean `hops` of a reply, and the cost of a broadcast, by dimensions (formula (1), figure 3).

    Parameters
    ----------
    ways
        `dimensions`, `sources`, `run`, and for each broker the cost of its broadcast (`messages`, the
        `farthest` hop, the `most` times that a broker received it), its `replies`, and how many links they
        `crossed`.
    """
    point = ("dimensions", "sources")
    cubes = ways.groupBy(*point, "run").agg(
        ratio(F.sum("crossed"), F.sum("replies")).alias("hops"),
        F.avg("messages").alias("messages"),
        F.max("farthest").alias("farthest"),
        F.max("most").alias("most"),
    )
    return over_runs(cubes, point, ("hops", "messages", "farthest", "most"))


def savings_by_network(brokers: DataFrame) -> DataFrame:
    """Return the cost of an event and of a subscription on a cube and on hierarchies, by network and demand.

    Parameters
    ----------
    brokers
        The columns of `NETWORK`, `run`, `subscribers`, and for each broker, which published one event: the
        `events` that it received, its `load`, and the messages that it sent to announce a subscription
        (`told`) or as `answers`.

    Returns
    -------
    pyspark.sql.DataFrame
        By network: the messages per event (``events``), those per subscription and its end (``told``) and
        their ``answers``; of the loads ``load_max_over_mean``, ``load_gini``, and ``busiest``, the largest per event.
    """
    at = (*NETWORK, "run")
    sums = brokers.groupBy(*at).agg(
        F.avg("events").alias("events"),
        ratio(F.sum("told"), F.max("subscribers")).alias("told"),
        ratio(F.sum("answers"), F.max("subscribers")).alias("answers"),
    )
    even = load_balance(brokers, at).select(
        *at,
        F.col("max_over_mean").alias("load_max_over_mean"),
        F.col("gini").alias("load_gini"),
        (F.col("max_load") / F.col("brokers")).alias("busiest"),
    )
    names = ("events", "told", "answers", "load_max_over_mean", "load_gini", "busiest")
    return over_runs(sums.join(even, [*at]), NETWORK, names)


def migrations_by_phase(phases: DataFrame) -> DataFrame:
    """Return the cost of a subscription before, during and after its subscriber's move (2.4, figure 5).

    Parameters
    ----------
    phases
        `local_first`, `phase`, `run`, and for each possible first broker of the subscriber (`home`) the
        `entries`, `broadcasts`, `echoes`, `views`, `events` and `moves` of the phase.
    """
    point = ("local_first", "phase")
    names = ("entries", "broadcasts", "echoes", "views", "events", "moves")
    homes = phases.groupBy(*point, "run").agg(*(F.avg(name).alias(name) for name in names))
    return over_runs(homes, point, names)
