"""All figures of a run from its telemetry tables, in one Spark action.

Rule: planning a query, starting its tasks and loading its classes takes Spark longer than the figures of a
small run. So each figure becomes one column of structs, all are combined by a union, and one `collect`
fetches them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any, Final

import networkx as nx

from ...protocol.errors import InputError
from ...protocol.extras import extra
from ...protocol.telemetry.tables import TABLES
from . import aggregates, costs

with extra("spark"):
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

ALWAYS: Final = ("transfers", "deliveries")
"""The tables required for a report."""

NAMES: Final = (
    *("tct", "aed", "throughput", "rate_over_time", "broker_load", "load_balance", "link_load"),
    "multicast_cost",
    *("latency_percentiles", "latency_quantiles", "loss_and_duplicates", "telemetry_lost"),
)
"""Every figure that a run can have. Three need the event trace; the last exists only if telemetry was lost."""

CURVE_POINTS: Final = 400
"""The number of parts into which the latency's distribution function is divided."""


def figures_of(
    tables: Mapping[str, DataFrame], graph: nx.Graph, expected: DataFrame | None = None
) -> dict[str, pd.DataFrame]:
    """Compute every figure that the tables allow.

    Parameters
    ----------
    tables
        ``{name: DataFrame}`` of :data:`~rayvous.protocol.telemetry.tables.TABLES`; `transfers` and `deliveries`
        always, `published` and `notified` when events were traced.
    graph
        The network: nodes are broker ids with ``cluster``.
    expected
        See :func:`~rayvous.pipelines.figures.aggregates.loss_and_duplicates`.

    Returns
    -------
    dict
        ``{figure: pandas.DataFrame}``, in the order of :data:`NAMES`.

    Raises
    ------
    InputError
        A table is missing or unknown.
    """
    check_tables(tables)
    return collect(described(tables, graph, expected))


def check_tables(tables: Mapping[str, object]) -> None:
    """Raise InputError if a table is missing or unknown."""
    unknown = sorted(set(tables) - set(TABLES))
    missing = sorted(set(ALWAYS) - set(tables))
    if unknown or missing:
        raise InputError(f"telemetry: tables missing: {missing}, unknown: {unknown}")


def described(
    tables: Mapping[str, DataFrame], graph: nx.Graph, expected: DataFrame | None = None
) -> dict[str, DataFrame]:
    """Return the figures as lazy DataFrames, ``{figure: DataFrame}``; see `figures_of`."""
    transfers, deliveries, notified = tables["transfers"], tables["deliveries"], tables.get("notified")
    loads = aggregates.broker_load(transfers, deliveries, _brokers(transfers.sparkSession, graph))
    frames = {
        "tct": costs.tct(transfers),
        "aed": costs.aed(deliveries if notified is None else notified),
        "throughput": aggregates.throughput(transfers, deliveries),
        "rate_over_time": aggregates.rate_over_time(transfers, deliveries),
        "broker_load": loads,
        "load_balance": aggregates.load_balance(loads),
        "link_load": aggregates.link_load(transfers),
    }
    if "multicasts" in tables:
        frames["multicast_cost"] = costs.multicast_cost(tables["multicasts"])
    if notified is not None:
        frames["latency_percentiles"] = aggregates.latency_percentiles(notified)
        frames["latency_quantiles"] = aggregates.latency_quantiles(notified, CURVE_POINTS)
        frames["loss_and_duplicates"] = aggregates.loss_and_duplicates(
            notified, tables.get("published"), expected
        )
    if "lost" in tables:
        frames["telemetry_lost"] = aggregates.telemetry_lost(tables["lost"])
    return frames


def _brokers(session: SparkSession, graph: nx.Graph) -> DataFrame | None:
    """Return the brokers of a network as literal rows, which need no job."""
    rows = ", ".join(f"({node:d}, {cluster:d})" for node, cluster in sorted(graph.nodes(data="cluster")))
    return session.sql(f"SELECT * FROM VALUES {rows} AS brokers(broker, cluster)") if rows else None


def collect(frames: Mapping[str, DataFrame]) -> dict[str, pd.DataFrame]:
    """Fetch several small DataFrames in one action, each with its rows in order.

    Returns
    -------
    dict
        ``{name: pandas.DataFrame}``. Integers are int64, or float64 with NaN in columns with nulls.
    """
    types = {name: frame.schema.simpleString() for name, frame in frames.items()}

    def column(name: str, own: str) -> object:
        value = F.struct(*frames[name].columns) if name == own else F.lit(None).cast(types[name])
        return value.alias(name)

    stacked = [frame.select(*(column(name, own) for name in frames)) for own, frame in frames.items()]
    rows: dict[str, list[Any]] = {name: [] for name in frames}
    for row in reduce(DataFrame.unionAll, stacked).collect() if stacked else ():
        name = next(name for name in frames if row[name] is not None)
        rows[name].append(tuple(row[name]))
    return {name: _as_pandas(rows[name], frame) for name, frame in frames.items()}


def _as_pandas(rows: list[tuple[object, ...]], frame: DataFrame) -> pd.DataFrame:
    columns = list(zip(*rows, strict=True)) or [()] * len(frame.columns)
    kinds = {"string": object, "double": "float64"}
    series = {}
    for field, values in zip(frame.schema, columns, strict=True):
        whole = "float64" if None in values else "int64"
        series[field.name] = pd.Series(list(values), dtype=kinds.get(field.dataType.typeName(), whole))
    return pd.DataFrame(series)
