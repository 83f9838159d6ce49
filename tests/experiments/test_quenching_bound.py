"""With quenching and merging, hybrid routing reaches the lower bound on random networks and loads."""

from statistics import median

import pytest
from rayvous.experiments import compare
from rayvous.protocol.scenarios.scenario import Workload

LOAD = Workload(20, 12, 40, matching=0.05)
TOPOLOGIES = 10
OVER_BOUND_MAX = 1.15


@pytest.fixture(scope="module", params=[2, pytest.param(TOPOLOGIES, marks=pytest.mark.slow)])
def results(request):
    return [
        compare.run(
            ["hybrid", "hybrid+quench+merge"],
            topology=compare.TOPOLOGY | {"seed": seed},
            workload=LOAD,
            seed=seed,
            deaths=False,
        )
        for seed in range(request.param)
    ]


def test_messages_are_within_1_15_of_the_steiner_bound(results):
    """The median over random topologies; it is 1, since nothing is sent that nobody wants."""
    assert all(result["verdict"] == "holds" for result in results)
    plain, quenched = ([result["results"][place]["over_bound"] for result in results] for place in (0, 1))
    assert median(quenched) <= OVER_BOUND_MAX < median(plain)
    assert max(quenched) == pytest.approx(1)


def test_what_it_costs_is_messages_about_subscriptions(results):
    ratios = [
        result["results"][1]["control_messages"] / result["results"][0]["control_messages"]
        for result in results
    ]
    assert median(ratios) > 3
