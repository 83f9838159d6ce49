"""The cost of Spark's part of a report: compared with the floor of any Spark job here, with rows passed in either way.

The floor is measured in the same run and in a separate session: Spark on Ray is started, one table is passed
to it by reference, and its rows are counted. No report can take less unless Spark is started before it is
needed, as in ``rayvous demo``. So the second session starts in the background and is warmed up, as there, and
the report is written when it is warm. Both sessions start their JVMs in the same way.

The telemetry is synthetic: as many rows as requested, in the proportions and the chunks of a traced run of
the demo. It is passed to Spark twice, as files and by reference (decision 0020), and the figures are computed
each time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import networkx as nx
import numpy as np
import pyarrow as pa

from ..actors.network.launching import joined_ray
from ..actors.telemetry.arrow import to_arrow
from ..actors.telemetry.telemetry import Telemetry
from ..protocol.telemetry.tables import LINK_KINDS, Table
from ..routing.topologies.cluster_trees import ClusterTree

ROWS: Final = 84_000
"""Rows of all tables in a traced run of the demo: 20,000 events published, 62,000 notified, 2,000 transfers."""

CHUNK_ROWS: Final = 25_000


def run(
    *, rows: int = ROWS, seed: int = 0, progress: Callable[[str, int, int], None] | None = None
) -> dict[str, object]:
    """Run the benchmark, and return the figures as plain data; times in seconds."""
    from ..pipelines.run import report
    from ..pipelines.spark.session import spark_session
    from ..pipelines.spark.tables import to_spark
    from ..pipelines.spark.warming import starting_spark

    show = progress or (lambda name, done, total: None)
    with joined_ray(), tempfile.TemporaryDirectory(prefix="rayvous-bench-") as folder:
        telemetry = made_up(rows, seed)
        graph = made_up_graph()
        show("floor", 0, 1)
        began = time.perf_counter()
        with spark_session() as spark:
            started = time.perf_counter()
            counted = to_spark(spark, telemetry.refs["notified"], "notified").count()
            floor = time.perf_counter() - began
        show("floor", 1, 1)
        show("Spark in the background", 0, 1)
        with starting_spark() as start:
            session = start.session(warm=True)
            show("Spark in the background", 1, 1)
            show("reports", 0, 2)
            out = Path(folder)
            files = report(telemetry, out / "files", session, graph=graph, by_reference=False).took
            show("reports", 1, 2)
            refs = report(telemetry, out / "reference", session, graph=graph, by_reference=True).took
            show("reports", 2, 2)
    assert counted == telemetry.rows["notified"]
    return {
        "benchmark": "report",
        "rows": sum(telemetry.rows.values()),
        "floor_seconds": floor,
        "floor_session_seconds": started - began,
        "spark_start_seconds": start.start_seconds,
        "report_over_floor": files["report_seconds"] / floor,
        "results": [
            {
                "hand_over": name,
                "spark_report_seconds": told["spark_report_seconds"],
                "report_seconds": told["report_seconds"],
                "spark_jobs": told["spark_jobs"],
            }
            for name, told in (("files", files), ("reference", refs))
        ],
    }


def made_up(rows: int, seed: int) -> Telemetry:
    """Return synthetic telemetry in Ray's object store."""
    return Telemetry.from_arrow(
        "made-up",
        {
            name: [table.slice(first, CHUNK_ROWS) for first in range(0, table.num_rows, CHUNK_ROWS)]
            for name, table in made_up_tables(rows, seed).items()
        },
    )


def made_up_tables(rows: int, seed: int) -> dict[str, pa.Table]:
    """Return the tables of a synthetic run: in the proportions of a traced run of the demo, scaled to `rows`."""
    draw = np.random.default_rng(seed)
    notified = max(1, round(rows * 0.74))
    published = max(1, round(rows * 0.24))
    transfers = max(1, rows - notified - published)
    brokers, clusters = 12, 3
    at = 1.7e9 + np.sort(draw.uniform(0, 5, notified))
    publishers = np.array([f"publisher-{number}" for number in range(4)], dtype=object)
    subscribers = np.array([f"subscriber-{number}" for number in range(200)], dtype=object)
    owner = draw.integers(0, 200, notified)
    broker = draw.integers(0, brokers, transfers)
    tables: dict[str, Table] = {
        "notified": {
            "time_seconds": at,
            "broker": owner % brokers,
            "subscriber": subscribers[owner],
            "publisher": publishers[draw.integers(0, 4, notified)],
            "sequence": draw.integers(1, published + 1, notified),
            "published_at": at - draw.exponential(0.3, notified),
        },
        "published": {
            "time_seconds": 1.7e9 + np.sort(draw.uniform(0, 4, published)),
            "broker": draw.integers(0, brokers, published),
            "publisher": publishers[np.arange(published) % 4],
            "sequence": np.arange(published) // 4 + 1,
        },
        "transfers": {
            "time_seconds": 1.7e9 + np.sort(draw.uniform(0, 5, transfers)),
            "broker": broker,
            "cluster": broker // clusters,
            "link_kind": np.array(LINK_KINDS, dtype=object)[draw.integers(0, len(LINK_KINDS), transfers)],
            "peer": draw.integers(-1, brokers, transfers),
            "messages": np.ones(transfers, dtype=np.int64),
            "events": draw.integers(0, 200, transfers),
            "nbytes": draw.integers(0, 20_000, transfers),
        },
        "deliveries": {
            "time_seconds": 1.7e9 + np.sort(draw.uniform(0, 5, transfers)),
            "broker": broker,
            "notifications": draw.integers(1, 50, transfers),
            "latency_sum_seconds": draw.exponential(10, transfers),
        },
    }
    return {name: to_arrow(name, table) for name, table in tables.items()}


def made_up_graph() -> nx.Graph:
    """Return the network of that run: twelve brokers in four clusters."""
    graph = nx.Graph()
    for place in ClusterTree(clusters=4, brokers_per_cluster=3).positions():
        graph.add_node(place.broker, label=place.label, role=place.role, cluster=place.cluster)
    return graph
