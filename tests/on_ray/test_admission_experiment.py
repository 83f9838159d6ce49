"""A small admission experiment on real actors: which criteria refuse, and which make brokers drop events."""

from dataclasses import replace

import pytest
from rayvous.experiments.admission_on_ray import RayPlan, calibrate, compare, run_criterion

SMALL = replace(
    RayPlan(), brokers=3, subscribers=(6,), width=(1.5, 2.9), cpu_seconds_per_event=(0.001, 0.001), rate=0.8,
    calibration_seconds=2.5, settle_seconds=2.0, measured_seconds=2.0, deadline_seconds=0.5,
)  # fmt: skip
"""Everybody wants most of what three publishers publish, each as much as four fifths of what a broker can take in."""


def test_full_admission_refuses_and_drops_less_than_none(ray_started):
    capacities = calibrate(SMALL)
    assert set(capacities) == {0, 1, 2}
    most = (
        SMALL.cpu_share / SMALL.cpu_seconds_per_event[0]
    )  # of a broker that uses its share of a CPU for events only
    assert all(0 < capacity < most for capacity in capacities.values())
    rate = SMALL.rate * min(capacities.values())
    none, full = (run_criterion(SMALL, name, capacities, rate)[0] for name in ("none", "full"))
    assert none["rejected"] == 0 < full["rejected"]
    assert none["discarded_in_all_per_second"] > full["discarded_in_all_per_second"]
    assert full["of_capacity"] < none["of_capacity"]


def row(criterion, discarded, rejected, cpu):
    return {
        "criterion": criterion, "discarded_in_all_per_second": discarded, "rejected": rejected, "cpu": cpu
    }  # fmt: skip


@pytest.mark.parametrize(("forty", "holds"), [(60.0, True), (5.0, False)])
def test_the_order_is_judged_over_all_criteria(forty, holds):
    rows = [
        row("none", 100.0, 0.0, 0.4),
        row("full", 0.0, 0.7, 0.2),
        row("20 %", 30.0, 0.5, 0.25),
        row("40 %", forty, 0.3, 0.3),
    ]
    discards, rejections, cpu = compare(rows)
    assert discards["holds"] is holds and rejections["holds"] and cpu["holds"]
    assert discards["published"] == "discards: full <= 20 % <= 40 % <= none"
