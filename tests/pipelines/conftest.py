"""A run whose report can be written without Spark: its network, its figures, and the command's summary."""

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from rayvous.faults.checker.verdict import Finding, Verdict


@pytest.fixture(scope="session")
def network():
    """Return a function ``network(name)``: two clusters of three, of which broker 5 has died."""
    return _network


@pytest.fixture(scope="session")
def figures():
    """Return a function ``figures()``: what Spark would compute."""
    return _figures


@pytest.fixture(scope="session")
def told():
    """Return a function ``told()``: the summary of the command."""
    return _told


def _network(name: str = "flights") -> nx.Graph:
    graph = nx.Graph(name=name, scheme="hybrid")
    for node in range(6):
        role = {2: "REB", 4: "DEB"}.get(node, "NEB")
        graph.add_node(node, role=role, cluster=node // 3, label=f"B{node}")
    graph.add_edge(2, 4, kind="tree")
    graph.nodes[5].update(dead=True, role="DEB", stood_below=2)
    graph.add_edge(2, 5, kind="former")
    return graph


def _figures() -> dict[str, pd.DataFrame]:
    kinds = ("publish", "up", "down", "multicast", "deliver", "tree", "all")
    loads = [1500, 500, 1000, 500, 1000, 1234]
    null = float("nan")
    return {
        "tct": pd.DataFrame(
            {"link_kind": kinds, "tct": range(1001, 1008), "batches": 3, "control_messages": 4, "nbytes": 50_000}
        ),
        "aed": pd.DataFrame(
            {
                "notifications": [1000], "subscribers": [2], "elapsed_seconds": [5.0], "aed_seconds": [0.000_042],
                "seconds_per_notification": [0.005], "mean_delay_seconds": [0.02],
            }
        ),
        "throughput": pd.DataFrame(
            {
                "events": [500], "notifications": [1000], "elapsed_seconds": [5.0], "events_per_second": [100.0],
                "notifications_per_second": [200.0],
            }
        ),
        "rate_over_time": pd.DataFrame(
            {
                "time_seconds": 1_700_000_000.0 + np.arange(10) / 2, "bin_seconds": 0.5, "events": 50,
                "notifications": 100, "events_per_second": 100.0, "notifications_per_second": 200.0,
            }
        ),
        "broker_load": pd.DataFrame(
            {
                "broker": range(6), "cluster": [0, 0, 0, 1, 1, null], "events_in": loads, "events_out": 0,
                "notifications": 0, "control_messages": 7, "nbytes": 100, "load": loads,
            }
        ),
        "load_balance": pd.DataFrame(
            {
                "brokers": [6], "mean_load": [955.6], "max_load": [1500], "max_over_mean": [1.57], "gini": [0.22],
                "coefficient_of_variation": [0.4],
            }
        ),
        "link_load": pd.DataFrame(
            {
                "kind": ["tree", "tree", "tree", "group"], "low": [-2, 2, 2, null], "high": [2, 4, 5, null],
                "cluster": [null, null, null, 0], "events_low_to_high": [0, 500, 321, null],
                "events_high_to_low": [0, 0, 0, null], "events": [0, 500, 321, 500], "messages": 1, "nbytes": 9,
            }
        ),
        "latency_percentiles": pd.DataFrame(
            {
                "notifications": [1000], "p50_seconds": [0.02], "p90_seconds": [0.025], "p99_seconds": [0.03],
                "max_seconds": [0.04],
            }
        ),
        "latency_quantiles": pd.DataFrame({"probability": [0.0, 0.5, 1.0], "latency_seconds": [0.01, 0.02, 0.04]}),
        "loss_and_duplicates": pd.DataFrame(
            {
                "notifications": [1000], "pairs": [1000], "duplicated_pairs": [0], "duplicates": [0],
                "never_published": [0], "unexpected": [null], "missing": [null],
            }
        ),
    }  # fmt: skip


def _told() -> dict[str, Any]:
    verdict = Verdict(
        500, 1000, 1000, findings={"once": Finding(1000, 0, 0), "complete": Finding(1000, 0, 3)}
    )
    return {
        **verdict.to_dict(),
        "settings": {"events from": "the flights of 2013", "subscribers": 200, "seed": 20_130},
        "killed": [5],
        "recovery_seconds": 1.83,
        "started_at": 1_700_000_000.0,
        "timeline": [
            {"seconds": 0.597, "what": "killed broker 5"},
            {"seconds": 2.1, "what": "broker 4 speaks for cluster 1"},
            {"seconds": 2.427, "what": "healed: one tree, every subscription installed"},
        ],
        "events_per_second": 7447.0,
        "notifications_per_second": 23_574.0,
        "elapsed_seconds": 2.7,
        "latency_p50_seconds": 0.5004,
        "latency_p99_seconds": 2.5339,
        "spark_start_seconds": 17.25,
        "spark_report_seconds": 9.5,
        "spark_jobs": 6,
    }
