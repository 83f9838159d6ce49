"""Runs, simulations and chaos reports are drawn by one call each."""

from types import SimpleNamespace

import pytest
import rayvous as rv
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from rayvous.faults.recovery_times import Recovered
from rayvous.faults.report import ChaosReport
from rayvous.pipelines.report.chaos_plots import timeline_figure
from rayvous.pipelines.report.report import write_report
from rayvous.pipelines.run import _timeline_of
from rayvous.simulator.telemetry import SimulatedTelemetry

TREE = rv.ClusterTree(clusters=3, brokers_per_cluster=2)


def texts(figure):
    return [text.get_text().replace("\n", " ") for text in figure.findobj(Text) if text.get_text().strip()]


@pytest.fixture(scope="module")
def report(tmp_path_factory, figures, network, told):
    return write_report(tmp_path_factory.mktemp("report"), figures(), network(), told())


@pytest.mark.slow
def test_a_report_is_one_figure_with_roles_links_loads_the_dead_and_what_happened(report):
    figure = report.draw()
    assert isinstance(figure, Figure)
    shown = " | ".join(texts(figure))
    for wanted in (
        "root (REB)", "B5 †", "321", "Events per broker", "Notification latency",
        "killed broker 5", "healed", "Throughput over time",
    ):  # fmt: skip
        assert wanted in shown, wanted


@pytest.mark.slow
def test_pictures_keep_their_size_and_stand_below_each_other(report):
    """In inches: the load of six brokers is 6.2 by 4.4; latencies are as wide as a page, and 5.6 high."""
    figure = report.draw("load", "latency")
    FigureCanvasAgg(figure).draw()
    sizes = [part.bbox.size / figure.dpi for part in figure.subfigs]
    assert [size[0] for size in sizes] == pytest.approx([10.2, 10.2], rel=0.02)
    assert [size[1] for size in sizes] == pytest.approx([4.4, 5.6], rel=0.02)
    (load, _) = figure.subfigs
    assert load.subfigs[0].bbox.width / figure.dpi == pytest.approx(6.2, rel=0.02)


def test_a_picture_that_is_not_there_is_refused_by_name(report):
    with pytest.raises(rv.InputError, match="no picture 'trees': this run has rate, tree, load, latency"):
        report.draw("trees")


def heals():
    return rv.Simulation(TREE.positions(), recovery=rv.Recovery(), telemetry=True)


def test_a_simulation_shows_its_links_and_who_has_died():
    net = heals()
    net.subscribe("alice", 0, "x > 0")
    net.advance(2.0)
    net.publish("bob", 5, [{"x": 1}, {"x": 2}])
    net.advance(2.0)
    shown = texts(rv.draw(net))
    assert {"root (REB)", "designated (DEB)", "member (NEB)", "2"} <= set(shown)
    assert not any("†" in text for text in shown)
    net.faults.crash(3)
    assert any("D1 †" in text for text in texts(rv.draw(net)))


def test_a_simulation_without_telemetry_says_how_to_have_it():
    with pytest.raises(rv.InputError, match="telemetry=True"):
        rv.draw(rv.Simulation(TREE.positions()))
    with pytest.raises(rv.InputError, match="telemetry=True"):  # it is handed over and not kept here
        rv.draw(rv.Simulation(TREE.positions(), telemetry=SimulatedTelemetry(print)))
    with pytest.raises(rv.InputError, match="no message has been sent over any link"):
        rv.draw(rv.Simulation(TREE.positions(), telemetry=True))


def test_what_cannot_be_drawn_is_refused_by_name():
    with pytest.raises(rv.InputError, match="draw: 3 is not a network"):
        rv.draw(3)


TIMELINE = [(1.0, "fault: crash broker 3"), (3.5, "suspicion: broker 9 probes cluster 0"), (6.0, "converged")]


def test_a_timeline_has_a_lane_for_each_kind_and_says_what_was_done():
    axes = timeline_figure(TIMELINE).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fault", "suspicion"]
    assert [text.get_text() for text in axes.texts] == ["crash broker 3, 1.00 s", "converged, 6.00 s"]
    assert sorted(line.get_xdata()[0] for line in axes.lines) == [1.0, 6.0]


def chaos(*recoveries):
    return ChaosReport(
        "sim",
        {"seed": 7},
        brokers=9,
        timeline=TIMELINE,
        messages={"Events": 120, "Probe": 4},
        recoveries=[*recoveries],
    )


def test_chaos_is_drawn_with_its_verdict_its_timeline_and_its_messages():
    shown = " | ".join(texts(rv.draw(chaos())))
    assert "Seed 7" in shown and "not every promise holds" in shown  # it never converged
    assert "crash broker 3" in shown and "120" in shown and "Probe" in shown


def test_only_faults_that_came_alone_are_compared():
    alone = Recovered(
        "cut", 1.0, alone=True, structure_seconds=2.5, delivery_seconds=0, first_delivery_seconds=0
    )
    mixed = Recovered(
        "crash", 1.0, alone=False, structure_seconds=9, delivery_seconds=0, first_delivery_seconds=0
    )
    assert "cut (1)" in texts(rv.draw([chaos(alone, mixed), chaos()]))
    assert not any("crash" in text for text in texts(rv.draw([chaos(alone, mixed)])))
    with pytest.raises(rv.InputError, match="the faults in these reports overlap"):
        rv.draw([chaos(mixed)])


def test_what_was_done_to_a_network_stands_in_its_report_by_the_time_since_it_published_first(figures):
    net = object.__new__(rv.Network)
    net._inspection = SimpleNamespace(
        timeline=[(1_700_000_000.5, "killed broker 5"), (1_700_000_002.0, "healed: all")]
    )
    told = _timeline_of(net, figures())
    assert told["started_at"] == 1_700_000_000.0
    assert told["timeline"] == [
        {"seconds": 0.5, "what": "killed broker 5"},
        {"seconds": 2.0, "what": "healed: all"},
    ]
    net._inspection.timeline.clear()
    assert _timeline_of(net, figures()) == {} == _timeline_of("a folder", figures())


@pytest.mark.parametrize(("scheme", "highest"), [("hybrid", "root (REB)"), ("hypercube", "broker")])
def test_a_simulation_that_does_not_heal_is_drawn_where_it_was_put(scheme, highest):
    net = rv.Simulation(TREE.positions(), scheme, telemetry=True)
    net.publish("bob", 4, [{"x": 1}, {"x": 2}])
    net.subscribe("alice", 0, "x > 0")
    net.run()
    shown = set(texts(rv.draw(net)))
    assert highest in shown and not any("†" in text for text in shown)
    assert ("2" in shown) == (
        scheme == "hybrid"
    )  # there all events go up to the root; here nobody wanted them in time
