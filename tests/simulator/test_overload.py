"""Limits in virtual time, and the experiment that is made of them."""

import pytest
from rayvous.experiments.admission import AdmissionPlan, preset, run, run_one
from rayvous.experiments.admission_plots import figure_9, figure_10
from rayvous.protocol.admission import AdmissionConfig, Capacity
from rayvous.protocol.errors import InputError
from rayvous.routing.topologies import ClusterTree
from rayvous.simulator.overload import LoadedSimulation

SMALL = AdmissionPlan(
    brokers=5, publishers=10, subscribers=(12,), cpu=(100.0, 110.0), bandwidth=(100.0, 110.0), side=(0.3, 1.0),
    repeats=1_000_000, warm_seconds=14.0, measured_seconds=4.0, degree=2,
)  # fmt: skip
"""Publishers that stay with one event: what was admitted fits until it leaves."""


def loaded(capacity, share=None, deadline_seconds=5.0):
    return LoadedSimulation(
        ClusterTree(2, 1).positions(),
        admission=AdmissionConfig(share, capacity=capacity),
        capacity_of=lambda broker: capacity,
        deadline_seconds=deadline_seconds,
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
    dropped = net.dropped_events()
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
    assert not any(net.dropped_events().values()) and len(net.notifications("s")) == 20
    assert net.now - started == pytest.approx(6.0, abs=0.1)  # 2 s at each broker, 2 s on the link


def test_under_the_full_guarantee_nothing_is_dropped_where_everything_else_is_overloaded():
    rows = {name: run_one(SMALL, name, 12) for name in ("none", "full", "40 %")}
    assert rows["full"]["discarded_per_second"] == 0 < rows["none"]["discarded_per_second"]
    assert rows["full"]["rejected"] >= rows["40 %"]["rejected"] > rows["none"]["rejected"] == 0
    assert rows["full"]["cpu"] < rows["none"]["cpu"] <= 1.0


def test_the_experiment_returns_rows_statements_and_pictures():
    result = run(
        AdmissionPlan(brokers=3, publishers=2, subscribers=(1, 2), warm_seconds=2.0, measured_seconds=1.0)
    )
    assert len(result["rows"]) == 8 and all(statement["published"] for statement in result["statements"])
    assert len(figure_9(result["rows"]).axes) == len(figure_10(result["rows"]).axes) == 2
    with pytest.raises(InputError, match="no preset 'large'"):
        preset("large")
