"""Experiments on Ray and Spark: figures of small tables, checked by hand, and one complete experiment."""

import json
from dataclasses import replace

import pytest
from rayvous.experiments import TITLES, catalogue, clusters, reproduction
from rayvous.experiments.clusters import Plan
from rayvous.pipelines.figures.cubes import (
    LOADED,
    NETWORK,
    hops_by_cube,
    loads_by_point,
    migrations_by_phase,
    savings_by_network,
)
from rayvous.pipelines.figures.experiments import (
    HEALED,
    TRANSFER,
    admission_by_point,
    aed_by_point,
    distribution_by_point,
    healing_by_victim,
    reliability_by_point,
    tct_by_point,
    trees_by_point,
)
from rayvous.pipelines.figures.schemes import schemes_by_size
from rayvous.protocol.errors import InputError
from rayvous.routing.topologies.cluster_trees import ClusterTree

KEYS = ["curve", "publishers", "subscribers", "send_seconds", "run"]
POINT = ("hrm", 2, 3, 0.001)


def test_tct_is_the_sum_over_links_and_the_mean_over_runs(spark):
    """Reference: paper 1, 5.1."""
    rows = [
        (*POINT, 1, 7, "up", 20, 0, 0),
        (*POINT, 0, 7, "up", 10, 1, 5),
        (*POINT, 0, 8, "multicast", 5, 2, 0),
        ("hr", 2, 3, 0.001, 0, 7, "up", 100, 4, 0),
    ]
    names = [*KEYS, "broker", "link_kind", "events", "control", "answers"]
    found = {row["curve"]: row.asDict() for row in tct_by_point(spark.createDataFrame(rows, names)).collect()}
    assert (found["hrm"]["tct"], found["hrm"]["events"], found["hrm"]["control"]) == (19.0, 17.5, 1.5)
    assert found["hrm"]["tct_each"] == [18, 20] and found["hrm"]["answers"] == 2.5, (
        "which are not in the cost"
    )
    assert found["hrm"]["tct_stddev"] == pytest.approx(2**0.5) and found["hrm"]["runs"] == 2
    assert (found["hr"]["tct"], found["hr"]["tct_stddev"], found["hr"]["runs"]) == (104.0, 0.0, 1)


def test_aed_is_a_subscribers_and_the_quotient_of_all_stands_beside(spark):
    """Reference: paper 1, 5.1; decision 0030."""
    rows = [
        (*POINT, 0, "a", 2, 10.0, 14.0),  # 2 s an event
        (*POINT, 0, "b", 4, 11.0, 15.0),  # 1 s
        (*POINT, 0, "c", 0, 0.0, 0.0),  # received nothing
    ]
    names = [*KEYS, "subscriber", "notifications", "first", "last"]
    (row,) = aed_by_point(spark.createDataFrame(rows, names)).collect()
    assert row["aed_seconds_each"] == [1.5] and row["seconds_per_notification_each"] == [pytest.approx(5 / 6)]
    assert (row["aed_seconds"], row["seconds_per_notification"]) == (1.5, pytest.approx(5 / 6))


def test_a_payload_takes_until_the_last_has_it(spark):
    """8 Mbit in 4 s are 2 Mbit/s; two copies use 4 of the link's 10 Mbit/s. Paper 5, 4.2."""
    at = ("LBDD", 10.0, 10.0, 1_000_000, "named", 2)
    rows = [(*at, 0, 0.0, 2, True), (*at, 0, 3.0, 0, False), (*at, 0, 4.0, 0, False)]
    (row,) = distribution_by_point(
        spark.createDataFrame(rows, [*TRANSFER, "run", "finished", "copies", "publisher"])
    ).collect()
    assert (row["seconds"], row["rate_mbit"]) == (4.0, 2.0)
    assert row["publisher_load"] == pytest.approx(0.4) and row["runs"] == 1


def test_a_tree_is_as_deep_as_its_deepest_node(spark):
    """Two runs: a publisher with two children, one of which has one; and a star of three. Paper 5, 4.3."""
    names = ["prefix", "subscribers", "run", "depth", "bucket", "copies", "inner"]
    rows = [
        ("", 3, 0, 0, 0, 2, True),
        ("", 3, 0, 1, 31, 1, True),
        ("", 3, 0, 1, 31, 0, True),
        ("", 3, 0, 2, 32, 0, False),
        ("", 3, 1, 0, 0, 3, True),
        *[("", 3, 1, 1, 30, 0, False)] * 3,
    ]
    (row,) = trees_by_point(spark.createDataFrame(rows, names)).collect()
    assert (row["depth"], row["depth_min"], row["depth_max"], row["runs"]) == (1.5, 1, 2, 2)
    assert (row["out_degree"], row["copies"], row["publisher_copies"]) == (2.0, 3.0, 2.5)
    assert (row["lowest_bucket"], row["highest_bucket"]) == (30.5, 31.0)
    assert (row["depth_as_published"], row["buckets_as_published"]) == (0.0, 0.0)
    assert row["publisher_share"] == pytest.approx(2.5 / 3)
    assert row["largest_subscriber_share"] == pytest.approx((1 / 3 + 0) / 2)
    deep = [
        ("", 500, 0, 0, 0, 5, True),
        *(("", 500, 0, d, b, 1, True) for d, b in zip(range(1, 6), (24, 26, 28, 30, 32), strict=True)),
    ]
    (row,) = trees_by_point(spark.createDataFrame(deep, names)).collect()
    assert (row["depth_as_published"], row["buckets_as_published"]) == (1.0, 1.0)


def test_loads_are_balanced_run_by_run_and_all_brokers_lie_on_a_line_or_not(spark):
    """Loads 1 and 3 from starts 1 and 1, or 2 and 6 from 2 and 2: 1.5 times the mean. Paper 2, 2.5."""
    names = [*LOADED, "run", "broker", "started", "received", "forwarded"]
    rows = [
        ("replies", "hypercube", 2, 10, 0, 0, 1, 1, 0),
        ("replies", "hypercube", 2, 10, 0, 1, 1, 2, 1),
        ("replies", "hypercube", 2, 20, 0, 0, 2, 2, 0),
        ("replies", "hypercube", 2, 20, 0, 1, 2, 4, 2),
        ("replies", "hypercube", 2, 20, 1, 0, 0, 4, 0),
        ("replies", "hypercube", 2, 20, 1, 1, 4, 4, 0),
        ("replies", "hypercube", 2, 0, 0, 0, 9, 1, 0),
        ("replies", "hypercube", 2, 0, 0, 1, 9, 1, 0),
    ]
    found = {row["most"]: row for row in loads_by_point(spark.createDataFrame(rows, names)).collect()}
    ten, twenty, equal = (found[most] for most in (10, 20, 0))
    assert (ten["load"], ten["started"], ten["load_max_over_mean"], ten["hops"]) == (2.0, 1.0, 1.5, 1.5)
    assert ten["load_gini"] == pytest.approx(0.25) and ten["started_gini"] == 0.0 and ten["runs"] == 1
    assert twenty["load_max_over_mean"] == 1.25 and twenty["runs"] == 2, "the mean of 1.5 and 1"
    assert twenty["started_gini"] == pytest.approx(0.25) and twenty["hops"] == pytest.approx((1.5 + 2) / 2)
    # For the means 1, 1, 2, 2, 2, 2 the loads are 1, 3, 2, 6, 4, 4; equal sources do not count.
    assert ten["line"] == twenty["line"] == pytest.approx(0.5897678)
    assert equal["load_max_over_mean"] == 1.0


def test_hops_are_links_crossed_over_replies(spark):
    names = ["dimensions", "sources", "run", "origin", "messages", "farthest", "most", "replies", "crossed"]
    rows = [(2, "all pairs", 0, 0, 3, 2, 1, 3, 4), (2, "all pairs", 0, 1, 5, 1, 2, 1, 4)]
    (row,) = hops_by_cube(spark.createDataFrame(rows, names)).collect()
    assert (row["hops"], row["messages"], row["farthest"], row["most"]) == (2.0, 4.0, 2.0, 2.0)


def test_an_events_messages_are_those_of_all_brokers_over_their_events(spark):
    names = [*NETWORK, "run", "subscribers", "broker", "events", "load", "told", "answers"]
    at = ("hypercube", 2, 0.5, 0, 2)
    rows = [(*at, 0, 3, 1, 4, 2), (*at, 1, 1, 3, 2, 1)]
    (row,) = savings_by_network(spark.createDataFrame(rows, names)).collect()
    assert (row["events"], row["told"], row["answers"], row["load_max_over_mean"]) == (2.0, 3.0, 1.5, 1.5)
    assert row["busiest"] == 1.5 and row["load_gini"] == pytest.approx(0.25), "one event of each broker"


def test_a_phase_is_the_mean_over_first_brokers(spark):
    names = [
        "local_first",
        "phase",
        "run",
        "home",
        "entries",
        "broadcasts",
        "echoes",
        "views",
        "events",
        "moves",
    ]
    rows = [
        (True, "after", 0, 0, 1.0, 0.0, 0.0, 0.0, 0.5, 1.0),
        (True, "after", 0, 1, 0.0, 2.0, 2.0, 1.0, 0.0, 1.0),
    ]
    (row,) = migrations_by_phase(spark.createDataFrame(rows, names)).collect()
    assert (row["entries"], row["broadcasts"], row["views"], row["events"]) == (0.5, 1.0, 0.5, 0.25)
    assert row["moves"] == 1.0 and row["runs"] == 1


def test_a_fault_is_felt_as_long_as_by_the_last_subscriber(spark):
    names = [*HEALED, "run", "subscriber", "heard", "late", "structure", "again", "messages", "holds"]
    rows = [
        ("DEB", 2, 3, 0, "a", 1.0, 2, 5.0, 7, 40, True),
        ("DEB", 2, 3, 0, "b", 3.0, 1, 5.0, 7, 40, True),
        ("DEB", 2, 3, 1, "a", 2.0, 0, 0.0, 0, 20, False),
    ]
    (row,) = healing_by_victim(spark.createDataFrame(rows, names)).collect()
    assert (row["structure"], row["heard"], row["late"]) == (2.5, 2.5, 1.5)
    assert (row["again"], row["messages"], row["holds"], row["runs"]) == (3.5, 30.0, 0.5, 2)


def test_a_scheme_has_no_figure_where_its_runs_have_none(spark):
    names = ["scheme", "clusters", "run", "brokers", "holds", "messages", "recovery_seconds"]
    rows = [("lbdd", 1, 0, 3, True, 2.0, float("nan")), ("lbdd", 1, 1, 3, False, 4.0, float("nan"))]
    (row,) = schemes_by_size(spark.createDataFrame(rows, names)).collect()
    assert (row["messages"], row["recovery_seconds"], row["holds"], row["runs"]) == (3.0, None, 0.5, 2)


def test_figures_of_admission_are_means_and_discards_of_each_network_are_listed(spark):
    names = ["criterion", "subscribers", "run", "discarded_in_all_per_second", "cpu"]
    rows = [("none", 20, 1, 30.04, 0.5), ("none", 20, 0, 10.06, 0.3)]
    (row,) = admission_by_point(spark.createDataFrame(rows, names)).collect()
    assert (row["cpu"], row["discarded_in_all_per_second"], row["runs"]) == (0.4, 20.05, 2)
    assert row["discarded_in_each_network_per_second"] == [10.1, 30.0]


def test_a_faults_messages_are_those_beyond_the_same_run_without_faults(spark):
    names = ["mode", "size", "rate", "run", "events", "messages", "commits", "faults", "consistent", "holds"]
    rows = [
        ("crashes", 15, 0.0, 0, 10, 100, 20, 0, 0.5, True),
        ("crashes", 15, 2.0, 0, 10, 130, 30, 6, 1.5, True),
        ("crashes", 15, 0.0, 1, 10, 110, 20, 0, 0.5, True),
        ("crashes", 15, 2.0, 1, 10, 116, 10, 2, 2.5, False),
    ]
    frame = spark.createDataFrame(rows, names)
    quiet, crashed = sorted(reliability_by_point(frame).collect(), key=lambda row: row["rate"])
    assert (quiet["messages"], quiet["commits"], quiet["extra"]) == (10.5, 2.0, None)
    assert (crashed["extra"], crashed["commits"], crashed["consistent"]) == ((5 + 3) / 2, 2.0, 2.0)
    assert (crashed["faults"], crashed["holds"]) == (4.0, 0.5)


@pytest.fixture
def small(monkeypatch):
    plan = Plan(ClusterTree(4, 3, degree=3), {2: (1, 8), 4: (1, 8)}, 2, (clusters.SEND_SECONDS,))
    runs = replace(catalogue.CLUSTERS, presets={"paper": plan, "quick": plan})
    for name in ("tct", "aed"):
        one = catalogue.EXPERIMENTS[name]
        monkeypatch.setitem(catalogue.EXPERIMENTS, name, replace(one, runs=runs))


def test_an_experiment_from_its_runs_to_its_statements_and_again_without_running(
    ray_started, spark, small, rayvous, tmp_path, monkeypatch
):
    told = []
    result = reproduction.run(["tct", "aed"], tmp_path, spark, progress=lambda *said: told.append(said))
    assert told[0] == ("clusters", 0, 24) and ("clusters", 24, 24) in told
    rows = {
        (row["curve"], row["publishers"], row["subscribers"]): row
        for row in result["experiments"]["tct"]["rows"]
    }
    assert len(rows) == 3 * 2 * 2 and all(row["runs"] == 2 for row in rows.values())
    assert rows["hr", 4, 8]["tct"] > rows["hrm", 4, 8]["tct"] > 0
    assert {each["experiment"] for each in result["statements"]} == {"tct", "aed"}
    assert len(list((tmp_path / "clusters" / "links").glob("run=1/*.parquet"))) == 12
    for name in ("tct.png", "aed.png", "results.json"):
        assert (tmp_path / name).stat().st_size > 0
    assert json.loads((tmp_path / "results.json").read_text())["statements"] == json.loads(
        json.dumps(result["statements"])
    )
    status, out, told = rayvous("report", str(tmp_path), "--json")
    assert status == int(any(reproduction.failed(result["statements"]))), told
    assert json.loads(out)["statements"] == json.loads(json.dumps(result["statements"]))
    monkeypatch.setattr(reproduction, "spread", None)
    assert reproduction.rebuild(tmp_path, spark)["statements"] == result["statements"]


QUICK = (
    "hypercube-hops",
    "hypercube-migration",
    "lbdd-delay",
    "lbdd-rate",
    "lbdd-load",
    "lbdd-depth",
    "lbdd-contribution",
)
"""Experiments whose preset `quick` takes seconds, and of which no notebook runs all."""


def test_quick_presets_give_what_the_page_says(ray_started, spark, tmp_path):
    """Of paper 5, under the fitted reading, only what no reading can fulfil does not hold (docs/reproduction.md)."""
    said = reproduction.run(QUICK, tmp_path, spark)["statements"]
    assert {each["experiment"] for each in said} == set(QUICK)
    assert [each["text"] for each in reproduction.failed(said)] == []
    of_fitted = [each for each in said if "taken in (fitted)" in each["text"]]
    (rises,) = (each["text"] for each in of_fitted if not each["holds"])
    assert len(of_fitted) == 12 and rises.startswith("LBDD: the publisher's load rises")


SMALL = ("hypercube-load", "compare", "scale")
"""Experiments whose preset `quick` takes a minute, and of which no notebook runs any."""


def test_small_presets_hold_but_for_what_is_known(ray_started, spark, tmp_path):
    """What is known: docs/reproduction.md. Speed depends on what else the machine does, and fails nothing."""
    result = reproduction.run(SMALL, tmp_path, spark, preset="small")
    said = result["statements"]
    assert {each["experiment"] for each in said} == set(SMALL)
    assert [each["text"] for each in reproduction.failed(said)] == []
    known = {each["text"].partition(" (")[0] for each in said if not each["holds"]}
    assert known <= {
        "messages for an event grow no faster than the brokers that want it",
        "simulating a message hardly costs more in a larger network",
    }
    assert all((tmp_path / f"{name}.png").stat().st_size > 0 for name in SMALL)


def test_what_cannot_be_run_or_made_again_says_why(spark, tmp_path):
    with pytest.raises(InputError, match="no experiment 'tc': there are tct, aed, "):
        reproduction.run(["tc"], tmp_path, spark)
    with pytest.raises(InputError, match="--preset slow: it must be small or paper or calibrated or quick"):
        reproduction.run(["tct"], tmp_path, spark, preset="slow")
    with pytest.raises(InputError, match="it holds no experiments"):
        reproduction.rebuild(tmp_path, spark)
    (tmp_path / reproduction.WRITTEN).write_text('{"experiments": ["tct"], "preset": "quick"}')
    with pytest.raises(InputError, match="the table of paper 1, figure 4 is not there"):
        reproduction.rebuild(tmp_path, spark)


def test_every_experiment_has_a_title_for_the_command_line():
    assert list(TITLES) == list(catalogue.EXPERIMENTS)
    for one in catalogue.EXPERIMENTS.values():
        assert set(one.runs.presets) >= {"quick", "paper"}
