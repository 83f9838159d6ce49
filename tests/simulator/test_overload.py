"""Limits in virtual time, and the experiment that is made of them."""

import pytest
from rayvous.experiments import admission
from rayvous.experiments.admission import AdmissionPlan, preset, run, run_one
from rayvous.experiments.admission_plots import figure_9, figure_10
from rayvous.experiments.admission_statements import compare
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.overload import Queues
from rayvous.simulator.simulation import Simulation

SMALL = AdmissionPlan(
    brokers=5, publishers=10, subscribers=(12,), cpu=(100.0, 110.0), bandwidth=(100.0, 110.0), side=(0.3, 1.0),
    repeats=1_000_000, warm_seconds=14.0, measured_seconds=4.0, degree=2, stay_seconds=(2.0, 8.0),
)  # fmt: skip
"""Publishers that stay with one event: what was admitted fits until it leaves."""


def loaded(capacity, share=None, deadline_seconds=5.0):
    return Simulation(
        ClusterTree(2, 1).positions(),
        admission=AdmissionConfig(share, capacity=capacity),
        queues=Queues(lambda broker: capacity, deadline_seconds),
    )


@pytest.mark.parametrize(
    ("capacity", "resource", "lost"), [(Capacity(10, 1000), "cpu", 30), (Capacity(1000, 10), "bandwidth", 30)]
)
def test_what_waits_longer_than_the_deadline_is_dropped_by_name(capacity, resource, lost):
    net = loaded(capacity)
    net.advertise("p", 0, "x > 0", 100)
    net.subscribe("s", 1, "x > 0")
    net.run()
    for _ in range(9):
        net.publish("p", 0, [{"x": 1}] * 10)  # a second's worth each, all at once
    net.run()
    dropped = net.queues.dropped_events()
    assert dropped[resource] == lost and sum(dropped.values()) == lost
    assert len(net.notifications("s")) == 90 - lost


def test_within_its_limits_nothing_is_dropped_and_time_passes():
    net = loaded(Capacity(10, 10))
    net.advertise("p", 0, "x > 0", 10)
    net.subscribe("s", 1, "x > 0")
    net.run()
    started = net.now
    net.publish("p", 0, [{"x": 1}] * 20)
    net.run()
    assert not any(net.queues.dropped_events().values()) and len(net.notifications("s")) == 20
    assert net.now - started == pytest.approx(6.0, abs=0.1)  # 2 s at each broker, 2 s on the link


def test_under_the_full_guarantee_nothing_is_dropped_where_everything_else_is_overloaded():
    rows = {name: run_one(SMALL, name, 12) for name in ("none", "full", "40 %")}
    assert rows["full"]["discarded_per_second"] == 0 < rows["none"]["discarded_per_second"]
    assert min(rows["full"]["rejected"], rows["40 %"]["rejected"]) > rows["none"]["rejected"] == 0
    assert rows["full"]["cpu"] < rows["none"]["cpu"] <= 1.0


def test_the_experiment_returns_rows_statements_and_pictures():
    tiny = AdmissionPlan(
        brokers=3, publishers=2, subscribers=(1, 2), warm_seconds=2.0, measured_seconds=1.0, draws=2
    )
    seen = []
    result = run(tiny, progress=lambda name, done, total: seen.append((done, total)))
    assert len(result["rows"]) == 8 and all(statement["published"] for statement in result["statements"])
    assert seen == [
        (done, 18) for done in range(1, 19)
    ]  # two networks a point, and two in which all is wanted
    assert len(figure_9(result["rows"]).axes) == len(figure_10(result["rows"]).axes) == 2
    with pytest.raises(InputError, match="no preset 'large'"):
        preset("large")


def test_figures_are_means_over_networks_that_differ_and_come_again():
    tiny = AdmissionPlan(
        brokers=4, publishers=3, subscribers=(2,), warm_seconds=3.0, measured_seconds=2.0, draws=2
    )
    row = run(tiny)["rows"][0]
    drawn = [run_one(tiny, row["criterion"], 2, draw) for draw in (0, 1)]
    assert drawn[0] != drawn[1] and row["cpu"] == pytest.approx((drawn[0]["cpu"] + drawn[1]["cpu"]) / 2)


def test_every_subscriber_wants_the_same_under_every_criterion_and_the_refused_ask_again(monkeypatch):
    asked = {}

    class Recording(Simulation):
        def subscribe(self, client, broker, given, *args, **kwargs):
            asked.setdefault(client, []).append(given)
            return super().subscribe(client, broker, given, *args, **kwargs)

    monkeypatch.setattr(admission, "Simulation", Recording)
    wants = {}
    for name in ("none", "full"):
        asked.clear()
        run_one(SMALL, name, 12)
        wants[name] = {client: list(dict.fromkeys(given)) for client, given in asked.items()}
        repeated = sum(map(len, asked.values())) - sum(map(len, wants[name].values()))
        assert (repeated > 0) == (name == "full")
    for client, given in wants["full"].items():
        assert given == wants["none"][client][: len(given)], client


def rows_of(discards, rejected):
    return [
        {
            "criterion": name,
            "subscribers": subscribers,
            "discarded_in_all_per_second": value,
            "discarded_per_second": value / 50,
            "rejected": rejected[name],
            "cpu": 0.2 + value / 1000,
            "bandwidth": 0.1 + value / 1000,
        }
        for name, values in discards.items()
        for subscribers, value in zip((40, 60, 80, 100), values, strict=True)
    ]


def test_statements_hold_or_do_not_by_the_figures_alone():
    rejected = {"none": 0.0, "full": 0.5, "20 %": 0.3, "40 %": 0.2}
    discards = {
        "none": (90, 150, 200, 300), "full": (0, 0, 1, 2), "20 %": (30, 40, 50, 55), "40 %": (40, 50, 60, 150)
    }  # fmt: skip
    by_text = {each["published"]: each["holds"] for each in compare(rows_of(discards, rejected), 14.0)}
    wrong = [text for text, holds in by_text.items() if not holds]
    assert len(wrong) == 1 and "at a mean broker" in wrong[0]
    discards |= {"full": (0, 20, 40, 60), "20 %": (0, 0, 0, 0), "40 %": (40, 80, 110, 120)}
    rejected |= {"full": 0.3, "20 %": 0.3}
    by_text = {each["published"]: each["holds"] for each in compare(rows_of(discards, rejected), 14.0)}
    wrong = " ".join(text for text, holds in by_text.items() if not holds)
    for word in ("near 0", "in the system", "steeply", "<= none", "above 40 %", "full > 20 %"):
        assert word in wrong, word


@pytest.mark.parametrize(
    ("refused", "quickly"),
    [((0.1, 0.3, 0.5, 0.6), True), ((0.5, 0.5, 0.5, 0.5), True), ((0.1, 0.15, 0.3, 0.41), True),
     ((0.1, 0.3, 0.35, 0.41), False), ((0.1, 0.5, 0.6, 0.39), False)],
)  # fmt: skip
def test_refusals_rise_quickly_or_late_or_not_for_good(refused, quickly):
    zero = (0, 0, 0, 0)
    rows = rows_of(dict.fromkeys(admission.CRITERIA, zero), dict.fromkeys(admission.CRITERIA, 0.0))
    for row, share in zip([row for row in rows if row["criterion"] == "full"], refused, strict=True):
        row["rejected"] = share
    [said] = [each for each in compare(rows, 0.0) if "quickly rise above 40 %" in each["published"]]
    assert said["holds"] == quickly
