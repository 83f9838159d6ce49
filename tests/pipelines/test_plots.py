"""The pictures are written, have the size that was asked for, show the numbers, and leave pyplot alone."""

import random
import struct
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from rayvous.pipelines import plots


def network(clusters: int, brokers: int) -> nx.Graph:
    chance, graph = random.Random(0), nx.Graph()
    for cluster in range(clusters):
        hub = (cluster + 1) * brokers - 1
        graph.add_node(hub, role="DEB" if cluster else "REB", cluster=cluster, label=f"B{hub}")
        for member in range(cluster * brokers, hub):
            graph.add_node(member, role="NEB", cluster=cluster, label=f"B{member}")
            graph.add_edge(member, hub, kind="group")
        if cluster:
            graph.add_edge((chance.randrange(cluster) + 1) * brokers - 1, hub, kind="tree")
    return graph


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def texts(figure) -> set[str]:
    return {text.get_text() for axes in figure.axes for text in axes.texts}


@pytest.mark.parametrize(("clusters", "brokers"), [(1, 1), (4, 3), (100, 10)])
def test_tree_of_any_size(tmp_path, clusters, brokers):
    graph = network(clusters, brokers)
    links = {(min(u, v), max(u, v)): u + v for u, v, kind in graph.edges(data="kind") if kind == "tree"}
    figure = plots.tree_figure(graph, links, dict.fromkeys(range(clusters), 7))
    path = plots.save_png(figure, tmp_path / "tree.png")
    width, height = png_size(path)
    wanted = [inches * plots.DPI for inches in figure.get_size_inches()]
    assert (width, height) == pytest.approx(wanted, abs=1)
    assert width <= 6300
    assert path.stat().st_size > 5_000
    assert {graph.nodes[node]["label"] for node in graph} <= texts(figure)


def test_tree_writes_the_events_on_links_and_clusters():
    figure = plots.tree_figure(network(2, 2), {(1, 3): 12_345}, {0: 950, 1: 0})
    assert {"12.3k", "⇉ 950", "⇉ 0"} <= texts(figure)
    # One tree link, both its links within clusters; the busiest is the widest.
    widths = [width for axes in figure.axes for lines in axes.collections for width in lines.get_linewidths()]
    assert max(widths) == pytest.approx(7.0)


def test_tree_without_traffic_shows_zero():
    assert "0" in texts(plots.tree_figure(network(2, 1), {}, {}))


@pytest.mark.parametrize(
    "latencies",
    [[0.01, 0.01], [0.0, 0.0], [-0.5, 2.0], list(np.geomspace(1e-4, 30, 401))],
    ids=["all the same", "zero", "negative", "wide"],
)
def test_latency_of_any_spread(tmp_path, latencies):
    figure = plots.latency_figure(list(np.linspace(0, 1, len(latencies))), latencies, {"p50": latencies[0]})
    assert png_size(plots.save_png(figure, tmp_path / "latency.png")) == (990, 682)


def test_latency_shares_add_up_to_everything():
    probabilities, latencies = list(np.linspace(0, 1, 401)), list(np.geomspace(0.001, 1, 401))
    figure = plots.latency_figure(probabilities, latencies, {"p50": 0.03, "p99": 0.9})
    (stairs,) = figure.axes[0].patches
    shares, edges, _ = stairs.get_data()
    assert shares.sum() == pytest.approx(100)
    assert (edges[0], edges[-1]) == (pytest.approx(0.001, rel=0.5), pytest.approx(1, rel=0.5))
    # Spread evenly over three decades: a third of the notifications in each.
    assert shares[edges[1:] <= 0.0101].sum() == pytest.approx(100 / 3, abs=4)
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert legend == ["p50 = 30 ms", "p99 = 900 ms"]


def test_ties_stand_as_one_bar():
    (stairs,) = plots.latency_figure([0, 0.25, 0.5, 0.75, 1], [1, 1, 1, 1, 1], {}).axes[0].patches
    shares = stairs.get_data()[0]
    assert sorted(shares)[-1] == pytest.approx(100)
    assert sum(share > 0 for share in shares) == 1


@pytest.mark.parametrize("brokers", [1, 12, 1000])
def test_load_of_any_number_of_brokers(tmp_path, brokers):
    loads = [random.Random(1).randrange(1000) for _ in range(brokers)]
    roles = ["REB", *["NEB"] * (brokers - 1)]
    path = plots.save_png(
        plots.load_figure([str(i) for i in range(brokers)], roles, loads), tmp_path / "load.png"
    )
    assert png_size(path)[1] == 506  # 4.6 inches
    assert path.stat().st_size > 3_000


def test_load_is_sorted_and_coloured_by_role():
    figure = plots.load_figure(["a", "b", "c"], ["NEB", "REB", "DEB"], [5, 20, 10], "Gini 0.3")
    bars = figure.axes[0].patches
    assert [bar.get_height() for bar in bars] == [20, 10, 5]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["b", "c", "a"]
    from matplotlib.colors import to_rgba

    assert [bar.get_facecolor() for bar in bars] == [
        to_rgba(plots.ROLE_COLOURS[role]) for role in ("REB", "DEB", "NEB")
    ]


def test_pyplot_is_never_imported():
    code = (
        "import sys; from rayvous.pipelines import plots; plots.load_figure(['a'], ['NEB'], [1]);"
        "plots.latency_figure([0, 1], [1, 2], {'p50': 1}); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (999.6, "1k"), (12_345, "12.3k"), (4_600_000, "4.6M"), (2e9, "2G")],
)
def test_short_numbers(number, text):
    assert plots.short(number) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1.5, "1.5 s"), (0.012, "12 ms"), (0.00025, "250 µs"), (0, "0 µs")]
)
def test_times_with_units(value, text):
    assert plots.seconds(value) == text
