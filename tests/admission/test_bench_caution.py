"""What caution costs: with measured demand most of the bottleneck is used, and it is never over its capacity.

Reference: paper 3, sections 1 and 4.2; docs/decisions/0177-demand-is-sampled.md.
"""

import random

import pytest
from draws import slow, thorough
from rayvous.benchmarks import caution

CARRIERS = "ABCDEFGHIJKL"
CASES = [case for case in caution.CASES if case.name in ("peaks", "measured", "without control")]


def rows(load, seed=0):
    result = caution.run(load, seed, CASES)
    return {row["guarantee"]: row for row in result["results"]}


@pytest.mark.parametrize("subscribers", [slow(60), thorough(150)])
def test_ranges(subscribers):
    found = rows(caution.ranges(subscribers, 0))
    measured, peaks = found["measured"], found["peaks"]
    assert found["without control"]["busiest_used"] > 1.2
    assert measured["busiest_used"] >= 0.6 and measured["worst_5_seconds"] <= 1.0 and not measured["dropped"]
    assert measured["refused"] < peaks["refused"] and measured["bottleneck_used"] > peaks["bottleneck_used"]


@pytest.mark.slow
def test_a_small_load_of_what_looks_like_flights(monkeypatch):
    monkeypatch.setattr(caution, "WARM_SECONDS", 65.0)  # 2,600 events of each carrier: a full sample
    rng = random.Random("flights")
    made = [{"carrier": rng.choice(CARRIERS), "delay": rng.randint(0, 99)} for _ in range(3000)]
    load = caution.flights(made, [f"delay BETWEEN {low} AND {low + 9}" for low in range(0, 90, 3)])
    assert [str(each.advertises) for each in load.publishers] == [f"carrier = '{name}'" for name in CARRIERS]
    assert sum(each.rate for each in load.publishers) == pytest.approx(500.0)
    found = rows(load)
    assert found["peaks"]["refused"] == 1.0 > found["measured"]["refused"]
    assert found["measured"]["worst_5_seconds"] <= 1.0 and not found["measured"]["dropped"]
