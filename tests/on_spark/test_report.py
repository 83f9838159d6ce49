"""From chunks in the object store to the finished report, on generated telemetry whose figures are known."""

import json
import math
import shutil

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
from rayvous.actors.telemetry.arrow import to_arrow
from rayvous.actors.telemetry.files import runs
from rayvous.actors.telemetry.telemetry import Telemetry
from rayvous.pipelines.figures.figures import described, figures_of
from rayvous.pipelines.report.report import write_report
from rayvous.pipelines.run import report as report_of
from rayvous.pipelines.spark.frames import spark_frames
from rayvous.protocol.errors import InputError

JOBS_MAX = 8
"""Each costs planning, tasks and waiting; a report that takes more has lost its one action."""

EVENTS = 500
"""Published on broker 0, multicast in cluster 0, sent from its DEB 2 to DEB 5, multicast in cluster 1;
brokers 0 and 4 each notify one subscriber of all of them."""


def strings(word: str) -> np.ndarray:
    return np.array([word] * EVENTS, dtype=object)


def chunks() -> dict[str, list[dict[str, np.ndarray]]]:
    at = np.arange(EVENTS, dtype=np.float64) / 100
    sequence = np.arange(1, EVENTS + 1)
    hops = [(0, 0, "publish", -1), (0, 0, "multicast", -1), (2, 0, "down", 5), (5, 1, "multicast", -1)]
    transfers = {
        "time_seconds": np.arange(4) * 0.001,
        "broker": np.array([hop[0] for hop in hops]),
        "cluster": np.array([hop[1] for hop in hops]),
        "link_kind": np.array([hop[2] for hop in hops], dtype=object),
        "peer": np.array([hop[3] for hop in hops]),
        "messages": np.full(4, 1),
        "events": np.full(4, EVENTS),
        "nbytes": np.full(4, 10 * EVENTS),
    }
    notified = [
        {
            "time_seconds": at + delay, "broker": np.full(EVENTS, broker), "subscriber": strings(name),
            "publisher": strings("p"), "sequence": sequence, "published_at": at,
        }
        for broker, name, delay in ((0, "near", 0.01), (4, "far", 0.03))
    ]  # fmt: skip
    deliveries = {
        "time_seconds": np.array([at[-1] + 0.01, at[-1] + 0.03]),
        "broker": np.array([0, 4]),
        "notifications": np.array([EVENTS, EVENTS]),
        "latency_sum_seconds": np.array([0.01, 0.03]) * EVENTS,
    }
    published = {
        "time_seconds": at, "broker": np.zeros(EVENTS, dtype=int), "publisher": strings("p"), "sequence":
        sequence
    }  # fmt: skip
    return {
        "transfers": [transfers],
        "deliveries": [deliveries],
        "published": [published],
        "notified": notified,
    }


def network() -> nx.Graph:
    graph = nx.Graph()
    for node in range(6):
        role = {2: "REB", 5: "DEB"}.get(node, "NEB")
        graph.add_node(node, role=role, cluster=node // 3, label=f"B{node}")
        if role == "NEB":
            graph.add_edge(node, 3 * (node // 3) + 2, kind="group")
    graph.add_edge(2, 5, kind="tree")
    return graph


@pytest.fixture(scope="module")
def telemetry(ray_started):
    return Telemetry.from_arrow(
        "run-1", {name: [to_arrow(name, chunk) for chunk in many] for name, many in chunks().items()}
    )


@pytest.fixture(scope="module")
def figures(spark, telemetry):
    tables = spark_frames(telemetry, spark)
    return figures_of(tables, network(), expected=tables["notified"])


@pytest.fixture(scope="module")
def report(figures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out") / "deep" / "report"
    return write_report(folder, figures, network(), {"verdict": "holds"})


def test_the_figures_are_right(report):
    assert {row["link_kind"]: row["tct"] for row in report.figures["tct"].to_dict("records")}[
        "tree"
    ] == 3 * EVENTS
    assert report.row("aed")["seconds_per_notification"] == pytest.approx((4.99 + 0.03) / (2 * EVENTS))
    assert report.row("aed")["subscribers"] == 2
    assert report.row("aed")["aed_seconds"] == pytest.approx((4.99 + 0.01 + 4.99 + 0.03) / 2 / EVENTS)
    assert report.row("aed")["mean_delay_seconds"] == pytest.approx(0.02)
    assert report.row("latency_percentiles")["p50_seconds"] == pytest.approx(0.02)
    assert report.row("latency_percentiles")["p99_seconds"] == pytest.approx(0.03)
    found = report.row("loss_and_duplicates")
    assert (found["pairs"], found["duplicates"], found["missing"], found["never_published"]) == (
        1000,
        0,
        0,
        0,
    )
    loads = dict(
        zip(report.figures["broker_load"]["broker"], report.figures["broker_load"]["load"], strict=True)
    )
    assert loads == {0: 1500, 1: 500, 2: 1000, 3: 500, 4: 1000, 5: 1000}


def tct_of_the_tree(report):
    return {row["link_kind"]: row["tct"] for row in report.figures["tct"].to_dict("records")}["tree"]


def test_figures_are_parquet(report):
    for name, figure in report.figures.items():
        assert pq.read_table(report.paths[name]).num_rows == len(figure)


def test_figures_that_are_collected_together_are_what_each_is_alone(spark, telemetry, figures):
    import pandas as pd

    tables = spark_frames(telemetry, spark)
    for name, frame in described(tables, network(), expected=tables["notified"]).items():
        pd.testing.assert_frame_equal(figures[name], frame.toPandas(), check_dtype=False)


def test_the_summary_is_json(report):
    told = json.loads(report.paths["summary"].read_text())
    assert told["summary"] == {"verdict": "holds"}
    assert told["aggregates"]["aed"]["notifications"] == 2 * EVENTS
    assert [row["link_kind"] for row in told["aggregates"]["tct"]][-2:] == ["tree", "all"]


def test_the_pictures_are_there(report):
    for name in ("rate", "tree", "load", "latency"):
        assert report.paths[name].parent == report.folder
        assert report.paths[name].read_bytes().startswith(b"\x89PNG")
        assert report.paths[name].stat().st_size > 5_000


def test_the_page_has_what_spark_computed(report):
    assert report.paths["page"] == report.folder / "report.html"
    text = report.paths["page"].read_text(encoding="utf-8")
    assert text.count('src="data:image/png;base64,') == 4
    assert "<td>tree: up, down and multicast (TCT)</td><td>1,500</td>" in text
    rates = report.figures["rate_over_time"]
    assert rates["events"].sum() == EVENTS
    assert rates["notifications"].sum() == 2 * EVENTS
    assert list(rates["time_seconds"]) == sorted(rates["time_seconds"])


def test_a_second_report_overwrites_its_own_and_leaves_the_rest(spark, telemetry, report):
    other = report.folder / "notes.txt"
    other.write_text("mine")
    tables = spark_frames(telemetry, spark)
    kept = figures_of({name: tables[name] for name in ("transfers", "deliveries")}, network())
    second = write_report(report.folder, kept, network(), {})
    assert other.read_text() == "mine"
    # Nothing of the first report is left that could be taken for the second's.
    assert "latency" not in second.paths
    assert not (report.folder / "latency.png").exists()
    assert not (report.folder / "aggregates" / "loss_and_duplicates.parquet").exists()
    assert second.row("aed")["mean_delay_seconds"] == pytest.approx(0.02)


def test_a_run_in_which_nothing_happened(frame, tmp_path):
    nothing = figures_of({name: frame(name, []) for name in chunks()}, network())
    report = write_report(tmp_path, nothing, network(), {})
    assert "latency" not in report.paths
    assert report.row("aed") == {
        "notifications": 0, "subscribers": 0, "elapsed_seconds": None, "aed_seconds": None,
        "seconds_per_notification": None, "mean_delay_seconds": None,
    }  # fmt: skip
    assert report.paths["tree"].stat().st_size > 5_000
    assert json.loads(report.paths["summary"].read_text())["aggregates"]["load_balance"]["gini"] is None


STRANGE = "a [b]* {c,d}? %3D = e"


@pytest.fixture(scope="module")
def in_files(spark, telemetry, tmp_path_factory):
    """A report whose rows Spark read from files, in a folder whose name looks like a pattern."""
    out = tmp_path_factory.mktemp("files") / STRANGE
    return report_of(telemetry, out, spark, graph=network(), summary={"seed": 7}, by_reference=False)


@pytest.fixture(scope="module")
def in_memory(spark_on_ray, telemetry, tmp_path_factory):
    """A report whose rows went to Spark by reference."""
    out = tmp_path_factory.mktemp("memory")
    return report_of(telemetry, out, spark_on_ray, graph=network(), summary={"seed": 7}, by_reference=True)


def check_one_run_in_few_jobs(written):
    told = written.took
    assert tct_of_the_tree(written) == 3 * EVENTS
    assert 1 <= told["spark_jobs"] <= JOBS_MAX
    summary = json.loads((written.folder / "summary.json").read_text())["summary"]
    assert summary["seed"] == 7
    assert summary["spark_jobs"] == told["spark_jobs"]
    assert 0 < summary["spark_report_seconds"] <= told["report_seconds"]


def test_a_run_is_reported_in_few_jobs_from_files(in_files):
    check_one_run_in_few_jobs(in_files)


def test_a_run_is_reported_in_few_jobs_by_reference(in_memory):
    check_one_run_in_few_jobs(in_memory)


def test_a_run_reported_into_the_folder_of_another_takes_its_place(spark, in_files, tmp_path):
    shutil.copytree(in_files.folder, tmp_path, dirs_exist_ok=True)
    mine = tmp_path / "tables" / "transfers" / "mine.txt"
    mine.write_text("mine")
    assert runs(tmp_path / "tables") == ["run-1"]
    other = Telemetry.from_arrow("run-2", {"deliveries": [to_arrow("deliveries", chunks()["deliveries"][0])]})
    report_of(other, tmp_path, spark)
    assert runs(tmp_path / "tables") == ["run-2"]
    assert not list((tmp_path / "tables").rglob("run=run-1"))
    assert mine.read_text() == "mine"


def test_a_folder_whose_name_looks_like_a_pattern(in_files):
    assert in_files.folder.name == STRANGE and tct_of_the_tree(in_files) == 3 * EVENTS


@pytest.mark.parametrize("below", ["", "/deeper"])
def test_a_file_where_the_folder_should_be(figures, tmp_path, below):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(InputError, match="file"):
        write_report(f"{path}{below}", figures, network(), {})


def test_missing_tables_and_bad_summaries_are_refused(frame, figures, tmp_path):
    transfers = frame("transfers", [])
    with pytest.raises(InputError, match=r"missing: \['deliveries'\], unknown: \['x'\]"):
        figures_of({"transfers": transfers, "x": transfers}, network())
    with pytest.raises(InputError, match="summary is not JSON"):
        write_report(tmp_path, figures, network(), {"a": math.nan})
    assert list(tmp_path.iterdir()) == []
