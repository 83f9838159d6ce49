"""The cost of each routing scheme on one load, and its growth with the network (`compare`, with several runs, judged).

Method
------
* `compare`: the network, load and figures of `rayvous compare`, with several networks and loads.
* `scale`: trees of clusters of three, a subscriber for each broker, ten publishers, a hundred events. A
  subscription matches one event in twenty, so that the number of interested brokers grows with the network.
  The preset `paper` goes to 10,000 brokers, but to 3,000 where every broker knows all subscriptions: 10,000
  brokers that each record 10,000 subscriptions would not fit into the memory of one machine.
  Schemes that heal are also subjected to deaths, on networks that are small enough.
* `small` is a preview of either, without deaths, which take most of the time.
* Events per second are the published events, over the CPU seconds to simulate the whole run, with its
  subscriptions, telemetry and judgement, after a small warm-up run; messages per second are all messages of
  the run. Both depend on the machine.

Source: none; the schemes are those of papers 1, 2 and 5, and those that they name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import process_time
from typing import Any, Final

from ...protocol.scenarios.scenario import Workload
from ..compare import TOPOLOGY, WORKLOAD, run
from ..experiment import Repeated, Tables
from ..recovery import recovery_seconds

SCHEMES: Final = (
    "hybrid",
    "hybrid+quench+merge",
    "hierarchical",
    "flooding",
    "match-first",
    "hypercube",
    "lbdd",
    "point-to-point",
)

GLOBAL: Final = ("match-first", "hypercube", "lbdd", "point-to-point")
"""Schemes under which every broker knows the subscriptions of all others."""

LOCAL: Final = tuple(scheme for scheme in SCHEMES if scheme not in GLOBAL)

FIGURES: Final = (
    "messages",
    "crossings",
    "over_bound",
    "bytes",
    "hops_mean",
    "latency_mean_seconds",
    "aed_seconds",
    "table_entries_mean",
    "table_entries_max",
    "control_messages",
    "load_gini",
    "load_max_over_mean",
    "recovery_seconds",
)
"""The figures of a scheme, as in `compare.run`."""

BOUNDS: Final = ("bound_links", "bound_multicast", "brokers_wanting")


@dataclass(frozen=True, slots=True)
class Point:
    """A scheme on a tree of clusters under a load, with deaths or not; `run` seeds the network and the load."""

    scheme: str
    clusters: int
    degree: int
    subscribers: int
    publishers: int
    publications: int
    deaths: bool
    run: int = 0


COMPARED: Final = tuple(
    Point(
        scheme,
        TOPOLOGY["clusters"],
        TOPOLOGY["degree"],
        WORKLOAD.subscribers,
        WORKLOAD.publishers,
        WORKLOAD.publications,
        True,
    )
    for scheme in SCHEMES
)
MEMBERS: Final = TOPOLOGY["brokers_per_cluster"]


def _growing(clusters: Sequence[int], deaths_to: int, schemes: Sequence[str] = SCHEMES) -> tuple[Point, ...]:
    return tuple(
        Point(scheme, many, 8, many * MEMBERS, 10, 100, many <= deaths_to)
        for many in clusters
        for scheme in schemes
    )


WITHOUT_DEATHS: Final = tuple(replace(point, deaths=False) for point in COMPARED)
COMPARE: Final = {
    "small": Repeated(WITHOUT_DEATHS, 1),
    "quick": Repeated(COMPARED, 1),
    "paper": Repeated(COMPARED, 20),
}
SCALE: Final = {
    "small": Repeated(_growing((33, 10, 3), 0), 1),
    "quick": Repeated(_growing((33, 10, 3), 10), 1),
    "paper": Repeated(_growing((3_333,), 0, LOCAL) + _growing((1_000, 333, 100, 33, 10, 3), 100), 5),
}
WARMING: Final = Workload(subscribers=2, publishers=1, publications=2, matching=0.5)


def measure(point: Point) -> Tables:
    """Run one scheme and return its figures.

    Returns
    -------
    dict
        ``figures``: one row with `FIGURES`, `BOUNDS`, the `brokers`, the simulated `events_per_second` and
        `messages_per_second`, and whether it `holds` its promises. Missing values are NaN.
    """
    topology: dict[str, Any] = {
        **TOPOLOGY,
        "clusters": point.clusters,
        "degree": point.degree,
    }
    load = Workload(
        subscribers=point.subscribers,
        publishers=point.publishers,
        publications=point.publications,
        matching=WORKLOAD.matching,
    )
    run([point.scheme], topology={**topology, "clusters": 2}, workload=WARMING, deaths=False)
    began = process_time()
    result = run([point.scheme], topology=topology, workload=load, seed=point.run, deaths=False)
    seconds = process_time() - began
    (row,) = result["results"]
    if point.deaths:
        row["recovery_seconds"] = recovery_seconds(point.scheme, topology, point.run)
    messages = row["messages"] * result["events"] + row["control_messages"]
    values = {name: row[name] for name in FIGURES} | {name: result[name] for name in BOUNDS}
    return {
        "figures": {
            "brokers": [result["brokers"]],
            "events_per_second": [result["events"] / seconds],
            "messages_per_second": [messages / seconds],
            "holds": [row["verdict"] == "holds"],
            **{name: [float("nan") if value is None else float(value)] for name, value in values.items()},
        }
    }
