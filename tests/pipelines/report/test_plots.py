"""Pictures are written in the right size and show the numbers, and pyplot is not imported."""

import itertools
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from draws import slow
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import StepPatch
from matplotlib.text import Text
from rayvous.pipelines.report import plots


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def written(figure) -> list:
    """Return every visible text that is not blank."""
    return [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]


@pytest.mark.parametrize(
    "marks", [[], [(0.4, "killed broker 5")], [(0.4, "killed broker 5"), (2.6, "healed")]]
)
def test_rates_over_time_with_what_happened(marks):
    figure = plots.rate_figure([0.0, 0.5, 1.0, 1.5], 0.5, [100, 50, 0, 0], [0, 10, 20, 2000], marks)
    upper, lower = figure.axes
    for axes, rates in ((upper, [100, 50, 0, 0]), (lower, [0, 10, 20, 2000])):
        (stairs,) = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
        values, edges, _ = stairs.get_data()
        assert list(values) == rates
        assert list(edges) == [0.0, 0.5, 1.0, 1.5, 2.0]
        assert sorted(line.get_xdata()[0] for line in axes.lines) == [at for at, _ in marks]
        assert "per second" in axes.get_ylabel()
        # The time between the failure and the end of healing is shaded.
        shaded = [patch.get_extents() for patch in axes.patches if not isinstance(patch, StepPatch)]
        assert len(shaded) == (len(marks) > 1)
    assert [text.get_text() for text in upper.texts] == [f"{what}, {at:.2f} s" for at, what in marks]
    assert "500 ms" in lower.get_xlabel()
    assert "seconds" in lower.get_xlabel()
    first, last = lower.get_xlim()
    assert first <= 0.0
    assert last >= max([2.0, *(at for at, _ in marks)])


def test_labels_of_moments_never_meet():
    moments = [(1.0, "killed brokers 3, 4, 5"), (1.01, "healed"), (1.02, "healed")]
    figure = plots.rate_figure([0.0, 1.0], 1.0, [1, 1], [1, 1], moments)
    FigureCanvasAgg(figure).draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


@pytest.mark.parametrize(
    "latencies",
    [[0.01, 0.01], [0.0, 0.0], [-0.5, 2.0], list(np.geomspace(1e-4, 30, 401))],
    ids=["all the same", "zero", "negative", "wide"],
)
def test_latency_of_any_spread(tmp_path, latencies):
    figure = plots.latency_figure(list(np.linspace(0, 1, len(latencies))), latencies, {"p50": latencies[0]})
    assert png_size(plots.save_png(figure, tmp_path / "latency.png")) == (1468, 806)


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


@pytest.mark.parametrize(
    ("brokers", "rows"),
    [(0, 1), (1, 1), slow(12, 1), slow(60, 1), (61, 2), slow(100, 2), slow(120, 2), slow(1000, 1)],
)
def test_load_of_any_number_of_brokers(tmp_path, brokers, rows):
    loads = [random.Random(1).randrange(1000) for _ in range(brokers)]
    roles = ["REB", *["NEB"] * (brokers - 1)][:brokers]
    figure = plots.load_figure([f"N{i}" for i in range(brokers)], roles, loads)
    assert len(figure.axes) == rows
    path = plots.save_png(figure, tmp_path / "load.png")
    assert png_size(path)[0] <= plots.PAGE_INCHES * figure.dpi + 1
    names = [label.get_text() for axes in figure.axes for label in axes.get_xticklabels()]
    if brokers <= plots.LABELLED_BARS_MAX:
        assert set(names) == {f"N{i}" for i in range(brokers)}
    else:
        assert figure.axes[0].get_xlabel() == "1,000 brokers, the busiest first"
    assert min(text.get_fontsize() for text in written(figure)) >= 8


@pytest.mark.parametrize("brokers", [12, 60, 100])
def test_names_below_bars_do_not_run_into_each_other(brokers):
    labels = [f"N{broker // 3}.{broker % 3}" for broker in range(brokers)]
    figure = plots.load_figure(labels, ["NEB"] * brokers, list(range(brokers)), dead=[True] * brokers)
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))


def test_a_broker_that_died_has_its_name_a_dagger_and_a_hatched_bar():
    figure = plots.load_figure(["D1", "D2"], ["DEB", "DEB"], [5, 20], dead=[True, False])
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["D2", "D1 †"]
    assert [bar.get_hatch() for bar in axes.patches] == [None, "///"]
    assert "† died" in [text.get_text() for text in axes.get_legend().get_texts()]
    alive = plots.load_figure(["D1", "D2"], ["DEB", "DEB"], [5, 20])
    assert "† died" not in [text.get_text() for text in alive.axes[0].get_legend().get_texts()]


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
        "import sys; from rayvous.pipelines.report import plots; plots.load_figure(['a'], ['NEB'], [1]);"
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
